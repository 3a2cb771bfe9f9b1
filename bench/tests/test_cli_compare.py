import json

import pytest
from typer.testing import CliRunner

from naim3l_bench import cli, runner
from naim3l_bench.cli import app
from naim3l_bench.rivals import RIVALS
from naim3l_bench.tasks import Grids, Plan
from small_data import small_source


def run(command, *arguments):
    return CliRunner().invoke(app, [command, *map(str, arguments)], env={"COLUMNS": "200"})


@pytest.fixture
def two(tmp_path, monkeypatch):
    """Options that compare two methods on small data, with their default parameters."""
    grids = Grids(rivals={name: {} for name in RIVALS})

    def make_plan(names, data, dataset, protocol, **options):
        sources = {"small": small_source()}
        return Plan(sources, protocols=tuple(protocol or ["paper"]), grids=grids, **options)

    monkeypatch.setattr(cli, "make_plan", make_plan)
    return ["--methods", "NAIM3L", "--methods", "DM2L", "--repeats", 2, "--jobs", 1, "-o", tmp_path]


def test_two_methods_on_small_data(two, tmp_path):
    result = run("compare", *two)
    assert result.exit_code == 0, result.output
    assert "Table 2, fitted by us: small, protocol paper" in result.stdout
    assert "guessing" in result.stdout and "GLOCAL" not in result.stdout
    numbers = json.loads((tmp_path / "results.json").read_text())["numbers"]["compare"]
    assert list(numbers["methods"]["paper"]["small"]["Table 2"]) == ["guessing", "NAIM3L", "DM2L"]
    assert (tmp_path / "figures" / "compare-ranks-paper.svg").exists()


def test_results_are_kept_and_join_the_page_of_reproduce(two, monkeypatch):
    first = run("compare", *two)
    monkeypatch.setattr(runner, "run_method", None)  # any fit would fail
    again = run("compare", *two)
    assert again.exit_code == 0 and again.stdout == first.stdout
    page = run("reproduce", "compare", "--repeats", 2, "--report-only", *two[-2:])
    assert page.exit_code == 0 and "Table 2, fitted by us: small" in page.stdout
    assert "computations are missing" in page.stderr  # of the methods that were not asked for


def test_later_seeds_can_be_run_alone(two, tmp_path, monkeypatch):
    one = [1 if option == 2 else option for option in two]
    assert run("compare", *one, "--first-seed", 1).exit_code == 0
    page = json.loads((tmp_path / "results.json").read_text())
    assert page["setup"]["seeds"] == [1]
    run("compare", *one)
    monkeypatch.setattr(runner, "run_method", None)  # any fit would fail
    both = run("compare", *two)
    assert both.exit_code == 0 and "missing" not in both.stderr


def test_ctrl_c_keeps_what_is_done(two, monkeypatch):
    real, fits = runner.run_method, []

    def interrupted(trial, name, *rest):
        fits.append(name)
        if len(fits) == 3:
            raise KeyboardInterrupt
        return real(trial, name, *rest)

    monkeypatch.setattr(runner, "run_method", interrupted)
    stopped = run("compare", *two)
    assert stopped.exit_code == 130 and "computations are missing" in stopped.stderr
    done = run("compare", *two)
    # Two seeds: three fits for Table 2, two each for Tables 3 and 4. One of them was begun twice.
    assert done.exit_code == 0 and len(fits) == 14 + 1


def test_unknown_methods_are_refused_with_the_list(tmp_path):
    result = run("compare", "--methods", "naiml", "-o", tmp_path / "out")
    assert result.exit_code == 1 and not (tmp_path / "out").exists()
    assert "there is no method 'naiml'; known are: NAIM3L, " in result.stderr
    assert all(name in result.stderr for name in (*RIVALS, "all", "fast"))


def test_fast_methods_are_those_that_are_not_slow():
    _methods = cli._methods
    assert _methods(["all"]) == tuple(RIVALS)
    fast = _methods(["fast"])
    assert set(fast) == {name for name, rival in RIVALS.items() if not rival.slow}
    assert _methods(["fast", "IMSF"]) == tuple(n for n in RIVALS if n in {*fast, "IMSF"})
