import json

import pytest
from typer.testing import CliRunner

from naim3l import __version__
from naim3l.cli import app, demo


@pytest.fixture
def quick(monkeypatch):
    """The demo with its two fastest methods."""
    monkeypatch.setattr(demo, "METHODS", dict(list(demo.METHODS.items())[:2]))


def run(*arguments):
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def test_version():
    assert run("--version").stdout.strip() == f"naim3l {__version__}"


def test_unknown_command_is_a_usage_error():
    assert run("dmeo").exit_code == 2


def test_demo_prints_one_table(quick):
    result = run("demo", "--seeds", "1")
    assert result.exit_code == 0
    assert "50 % of labels hidden" in result.stdout
    for word in ("NAIM3L", "NAIM3L-II (low rank only)", "1-HL", "1-RL", "AP", "AUC"):
        assert word in result.stdout
    assert "(0.00)" not in result.stdout and "deviation" not in result.stdout  # of one seed


def test_demo_prints_json_and_writes_a_page(quick, tmp_path):
    page = tmp_path / "demo.html"
    result = run("demo", "--seeds", "1", "--json", "--report", str(page))
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert [record["method"] for record in told["records"]] == list(demo.METHODS)
    assert (told["lam"], told["seeds"]) == (demo.LAM, 1) and "Wrote" in result.stderr
    numbers = json.loads(page.with_suffix(".json").read_text())
    assert numbers["quality"]["on"] == "test" and numbers["model"]["lam"] == demo.LAM
    assert numbers["labels"][0]["label"] == "Class1"
    # The model of the page is that of the table.
    mean = numbers["quality"]["blocks"][0]["metrics"]
    for name in ("1-HL", "1-RL", "AP", "AUC"):
        assert 100 * mean[name]["value"] == pytest.approx(told["records"][0][name])


def test_interrupted_demo_prints_the_whole_seeds(quick, monkeypatch):
    draw = demo.draw_tables

    def interrupted(seed):
        if seed == 1:
            raise KeyboardInterrupt
        return draw(seed)

    monkeypatch.setattr(demo, "draw_tables", interrupted)
    result = run("demo", "--seeds", "3")
    assert result.exit_code == 130
    assert "1 seed:" in result.stdout and "1 of 3 seeds are complete" in result.stderr


def test_every_method_runs_on_every_seed_and_beats_chance():
    records = list(demo.run_demo([3]))
    assert len({record["AP"] for record in records}) == len(records), "methods differ"
    assert [record["method"] for record in records] == list(demo.METHODS)
    for record in records:
        assert record["seed"] == 3
        assert 50 < record["AUC"] < 100 and 50 < record["1-HL"] < 100


def test_summary_is_mean_and_population_deviation(quick, monkeypatch):
    records = [{"method": "NAIM3L", "seed": seed, **dict.fromkeys(demo.METRICS, value)}
               for seed, value in ((0, 1.0), (1, 4.0))]  # fmt: skip
    monkeypatch.setattr(demo, "METHODS", {"NAIM3L": None})
    monkeypatch.setattr(demo, "run_demo", lambda seeds: iter(records))
    assert run("demo", "--seeds", "2").stdout.count("2.50 (1.50)") == 4


def test_tables_of_a_seed_lack_half_of_their_rows_and_labels():
    (X, Y), (X_test, Y_test) = demo.draw_tables(0)
    n_test = len(next(iter(Y_test.values())))
    for view, table in X.items():
        assert table.index.equals(Y[view].index)
        assert 2 * len(table) == pytest.approx(2417 - n_test, abs=1)
        assert Y[view].isna().to_numpy().mean() == pytest.approx(demo.MISSING, abs=0.02)
        assert X_test[view].index.equals(Y_test[view].index)
        assert not set(table.index) & set(X_test[view].index)
    first, second = (set(table.index) for table in X.values())
    assert first != second
