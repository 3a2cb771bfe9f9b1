"""What is printed is shown and never obeyed, whatever the terminal; and Ctrl-C stops at once."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from naim3l._text import visible
from naim3l.cli import app
from naim3l.cli.app import print_table, say

ODD = "x\x1b]0;owned\x07\x1b[31m\x9b2J\x7f\u202eb\u2066"
LABELS = [f"flu{ODD}", f"gout{ODD}"]
OPTIONS = ["--id", f"id{ODD}", "--labels", LABELS[0], "--labels", LABELS[1], "--lam", "1",
           "--ridge", "1"]  # fmt: skip


def assert_seen(text):
    """Nothing in a text would be obeyed by a terminal, or turn its direction around."""
    assert not set(text) & set("\x07\x1b\x7f\x9b\u202e\u2066"), repr(text)


def run(*arguments):
    """Run a command whose output is not freed from escape codes by others."""
    return CliRunner().invoke(app, [*arguments], color=True, env={"COLUMNS": "400"})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folder with a table and a model whose names are full of control characters."""
    path = tmp_path_factory.mktemp("odd")
    X = np.random.default_rng(0).normal(size=(24, 2))
    names = [f"id{ODD}", f"hb{ODD}", f"crp{ODD}", *LABELS]
    rows = [[f"p{i}{ODD}", *map(str, x), *("yes" if v > 0 else "no" for v in x)]
            for i, x in enumerate(X)]  # fmt: skip
    text = "\n".join(",".join(row) for row in [names, *rows]) + "\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        Path(f"lab{ODD}.csv").write_text(text, encoding="utf-8")
        result = run("fit", f"lab=lab{ODD}.csv", *OPTIONS, "-o", f"model{ODD}.naim3l")
        assert result.exit_code == 0, result.output
        assert_seen(result.output)
    return path


@pytest.fixture
def folder(made, monkeypatch):
    monkeypatch.chdir(made)
    return made


class TestControlCharacters:
    @pytest.mark.parametrize(
        "arguments",
        [
            ["inspect", "{model}"],
            ["evaluate", "{model}", "lab={table}"],
            ["predict", "{model}", "lab={table}", "-o", f"new{ODD}.csv"],
            ["impute", "{model}", "lab={table}", "-o", f"new{ODD}"],
            ["init", "{table}", "-o", f"new{ODD}.toml", "--force"],
        ],
        ids=lambda arguments: arguments[0],
    )
    def test_names_in_tables_and_messages(self, folder, arguments):
        names = {"{model}": f"model{ODD}.naim3l", "lab={table}": f"lab=lab{ODD}.csv",
                 "{table}": f"lab{ODD}.csv"}  # fmt: skip
        result = run(*(names.get(argument, argument) for argument in arguments))
        assert result.exit_code == 0, result.output
        assert_seen(result.output)
        assert visible(ODD) in result.output

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            (["predict", f"none{ODD}.naim3l", "lab=x.csv", "-o", "y.csv"], 1),
            (["predict", f"model{ODD}.naim3l", f"lab=none{ODD}.csv", "-o", "y.csv"], 1),
            (["fit", f"lab=lab{ODD}.csv", "--labels", f"no{ODD}", "-o", "m.naim3l"], 1),
            (["fit", f"l{ODD}=x", "-o", "m.naim3l"], 1),
            (["predict", f"model{ODD}.naim3l", "lab=x.csv", "-o", f"none{ODD}/y.csv"], 1),
            ([f"none{ODD}"], 2),
            (["fit", f"--none{ODD}"], 2),
            (["inspect", f"model{ODD}.naim3l", ODD], 2),
        ],
    )
    def test_values_in_errors(self, folder, arguments, code):
        result = run(*arguments)
        assert result.exit_code == code
        assert_seen(result.output)
        assert "owned" in result.stderr

    def test_json_can_be_read_back(self, folder):
        result = run("inspect", f"model{ODD}.naim3l", "--json")
        assert_seen(result.stdout)
        assert (
            result.stdout.isascii()
            and json.loads(result.stdout)["model"]["names_"]["labels"] == LABELS
        )

    def test_a_name_makes_no_line_of_its_own(self, capsys):
        say("Wrote a\nnaim3l: all is well.")
        print_table("b\nc", ["d\ne", "number"], [["f\rg\th", "1\x1b2"]])
        shown = capsys.readouterr().out
        assert shown.startswith("Wrote a\\nnaim3l: all is well.\n")
        assert all(text in shown for text in ("b\\nc", "d\\ne", "f\\rg\\th", "1\\x1b2"))

    @pytest.mark.parametrize("width", [40, 80, 200])
    def test_tables_show_every_cell_whole_at_any_width(self, width, capsys, monkeypatch):
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", str(width))
        header = ["a method with a long name", *(f"metric {letter}" for letter in "bcdefghijkl")]
        numbers = [f"{70 + k}.25 (0.{k:02})" for k in range(11)]
        print_table("Title", header, [["a method, its lam and ridge tuned", *numbers]])
        print_table("Title", ["fact", "value"], [["sha256", "0a1b" * 16]], n_left=2)
        shown = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out)
        assert max(map(len, shown.splitlines())) <= width
        assert all(shown.count(cell) == 1 for cell in [*header[1:], *numbers])
        assert re.sub(r"[\s│]", "", shown).count("0a1b" * 16) == 1


ASCII = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0",
         "PYTHONCOERCECLOCALE": "0", "TERM": "dumb"}  # fmt: skip
RUN_ALL = """
import json, os, sys
from naim3l.__main__ import main
for arguments in json.loads(sys.argv[1]):
    # As a shell hands them over: bytes, which are text in the encoding of the terminal.
    given = [os.fsdecode(part.encode("utf-8", "surrogateescape")) for part in arguments]
    sys.argv = ["naim3l", *given]
    try:
        main()
    except SystemExit as end:
        print(f"code {end.code}")
"""


@pytest.mark.parametrize("more", [ASCII, {"PYTHONIOENCODING": "ascii"}])
def test_a_terminal_that_knows_ascii_alone(more):
    commands = [["--help"], *([name, "--help"] for name in ("fit", "predict", "demo")), ["none–"]]
    commands.append(["inspect", "größe–\udcff"])
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL, json.dumps(commands)],
        capture_output=True,
        env={**os.environ, **more},
    )
    assert done.stderr.isascii() and b"Traceback" not in done.stderr, done.stderr.decode()
    codes = [line for line in done.stdout.decode("ascii").splitlines() if line.startswith("code")]
    assert codes == ["code 0"] * (len(commands) - 2) + ["code 2", "code 1"]
    assert b"\\udcff" in done.stderr


INTERRUPTED = """
import os, signal, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

from naim3l.__main__ import main
sys.meta_path.insert(0, Watch())
sys.argv = ["naim3l", "inspect", "none.naim3l"]
main()
"""
BEFORE_A_COMMAND = """
import os, signal, naim3l.cli
from naim3l.__main__ import main
naim3l.cli.main = lambda: os.kill(os.getpid(), signal.SIGINT)
main()
"""


class TestCtrlC:
    @pytest.mark.parametrize("module", ["naim3l.cli", "typer", "numpy", "numpy.linalg"])
    def test_while_modules_are_imported(self, module):
        """The libraries' own too, which turn an exception into another one, or lose it."""
        code = INTERRUPTED.format(module=module)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "")

    def test_between_imports_and_commands(self):
        done = subprocess.run(
            [sys.executable, "-c", BEFORE_A_COMMAND], capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (130, "")


IN_A_TERMINAL = """
import os, pty, sys
out = b""
def read(fd):
    global out
    data = os.read(fd, 4096)
    out += data
    return data
command = [sys.executable, "-m", "naim3l", *sys.argv[1:]]
code = pty.spawn(command, read)
sys.exit(os.waitstatus_to_exitcode(code))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
@pytest.mark.parametrize("command", ["fit", "evaluate", "inspect", "init"])
def test_lines_are_at_most_80_wide_and_break_between_words(tmp_path, command):
    rng = np.random.default_rng(0)
    titles = {"MCQ160F": "Ever told by a doctor of a stroke", "DIQ010": "Has diabetes of any kind"}
    for view in ("clinic", "lab"):
        X = rng.normal(size=(60, 3))
        rows = [[*map(str, x), *("yes" if v > 0 else "no" for v in x[:2])] for x in X.round(3)]
        text = "\n".join(",".join(row) for row in [["hb", "crp", "alt", *titles], *rows])
        (tmp_path / f"{view}.csv").write_text(text + "\n")
    lines = ["name,title", *(f"{name},{title}" for name, title in titles.items())]
    (tmp_path / "columns.csv").write_text("\n".join(lines) + "\n")
    views = ["clinic=clinic.csv", "lab=lab.csv"]
    fit = ["fit", *views, "--labels", "MCQ160F", "--labels", "DIQ010", "--titles", "columns.csv"]
    fit += ["--lam", "1", "--ridge", "1", "-o", "m.naim3l"]
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "xterm"}
    commands = {"evaluate": ["evaluate", "m.naim3l", *views], "inspect": ["inspect", "m.naim3l"]}
    long = "-".join(["a_table_with_a_long_name"] * 3)
    if command == "init":
        (tmp_path / "clinic.csv").rename(tmp_path / f"{long}.csv")
        commands["init"] = ["init", f"{long}.csv", "lab.csv", "-o", "s.toml"]
    shown = ""
    before = [] if command == "init" else [fit]
    for arguments in [*before, *([commands[command]] if command in commands else ())]:
        done = subprocess.run(
            [sys.executable, "-c", IN_A_TERMINAL, *arguments], cwd=tmp_path, env=environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        shown = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", done.stdout).replace("\r\n", "\n")
    printed = [line.rpartition("\r")[2] for line in shown.split("\n")]
    assert max(map(len, printed)) <= 80, max(printed, key=len)
    words = " ".join(shown.split())
    if command == "init":
        assert "Labels: MCQ160F, DIQ010" in words and words.count("│ 2 │") == 2
    if command in ("init", "inspect"):
        return
    # The verdict comes first, and is whole.
    first = next(line for line in printed if line.startswith(("Rows:", "Yes and no:")))
    assert first.startswith("Rows: ") and "labels ranked" in first
    for sentence in (
        "% of the entries are right;",
        "--all prints all measures.",
        "are found, and of",
    ):
        assert sentence in words
    table = [line for line in printed if re.match(r"│ .*\((AP|1-HL|macro-F1)\)|│ macro-AUC", line)]
    assert len(table) == 4
