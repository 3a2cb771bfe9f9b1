import json
import re

import pytest
from typer.testing import CliRunner

from naim3l_bench import fits as methods
from naim3l_bench import runner
from naim3l_bench.cli import app
from naim3l_bench.items import ITEMS


def run(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)], env={"COLUMNS": "200"})


def test_help_names_every_item():
    shown = run("--help").stdout
    for item in ITEMS:
        assert item in shown or re.fullmatch(r"(table|fig)[2-7]", item)


@pytest.fixture
def table(tmp_path):
    """Command for a table of the embedded data, in a folder of its own."""
    return ["table6", "--repeats", 1, "--protocol", "clean", "--jobs", 1, "--out", tmp_path]


def test_prints_a_table_and_writes_a_page(table, tmp_path):
    result = run(*table)
    assert result.exit_code == 0, result.output
    assert "Table 6: yeast" in result.stdout and "NAIM3L-II" in result.stdout
    assert (tmp_path / "index.html").exists()
    setup = json.loads((tmp_path / "results.json").read_text())["setup"]
    assert setup["repeats"] == 1 and list(setup["protocols"]) == ["clean"]


def test_same_command_again_computes_nothing(table, monkeypatch):
    first = run(*table)
    monkeypatch.setattr(runner, "run_method", None)  # any fit would fail
    again = run(*table)
    assert again.exit_code == 0 and again.stdout == first.stdout


def test_ctrl_c_keeps_what_is_done_and_the_rest_follows(table, tmp_path, monkeypatch):
    whole = tmp_path / "whole"
    expected = run(*table[:-1], whole).stdout
    fits, real = [], methods.METHODS["NAIM3L, tuned"]

    def interrupted(*arguments):
        fits.append(1)
        if len(fits) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setitem(methods.METHODS, "NAIM3L, tuned", interrupted)
    stopped = run(*table)
    assert stopped.exit_code == 130
    assert "1 of 3 computations are missing" in stopped.stderr
    assert "resumes from here" in stopped.stderr
    done = run(*table)
    assert done.exit_code == 0 and len(fits) == 3
    tables = [re.sub(r"Page: .*", "", text) for text in (done.stdout, expected)]
    assert tables[0] == tables[1]


def test_report_only_computes_nothing(table):
    result = run(*table, "--report-only")
    assert result.exit_code == 0 and "3 of 3 computations are missing" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table9"], "there is no item 'table9'; known are: table1"),
        (["table2", "--protocol", "papper"], "there is no protocol 'papper'; known are: paper"),
        (["table2", "--dataset", "nothing"], "nothing"),
        (["table2", "--data", "/nowhere"], "nowhere"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments, message, tmp_path):
    result = run(*arguments, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert message in result.stderr and "Traceback" not in result.output


def test_document_is_renewed(table, tmp_path):
    from naim3l_bench.results import BEGIN, END

    document = tmp_path / "doc.md"
    document.write_text(f"# Ours\n{BEGIN}\n{END}\n")
    assert run(*table, "--markdown", document).exit_code == 0
    assert "**Table 6: yeast**" in document.read_text(encoding="utf-8")
