"""Passwords of databases: no command prints one, and no file that a command writes has one."""

import io
import sqlite3
import traceback
import zipfile
from pathlib import Path

import numpy as np
import pytest

from secret_sources import PASSWORD, SOURCES, assert_hidden
from study import run

# One of each kind; that every form is hidden is tested where sources are read.
FAIL = ["plain", "at", "hash", "pwd", "odbc", "one slash", "libpq alone"]
LABELS = ["--id", "id", "--labels", "flu", "--labels", "gout"]
KEYS = "&".join(f"{key}={PASSWORD}" for key in ("password", "passwd", "pwd", "sslpassword", "key"))
WORKS = f"sqlite:///lab.db?{KEYS}#select * from lab"
COMMANDS = {
    "init": ["init", "{0}", "-o", "new.toml", "--force"],
    "fit": ["fit", "lab={0}", *LABELS, "--lam", "1", "--ridge", "1", "-o", "new.naim3l"],
    "labels": ["fit", "lab=plain.csv", "--labels-file", "lab={0}", *LABELS, "-o", "new.naim3l"],
    "predict": ["predict", "lab.naim3l", "lab={0}", "-o", "new.csv"],
    "impute": ["impute", "lab.naim3l", "lab={0}", "-o", "filled"],
    "evaluate": ["evaluate", "lab.naim3l", "lab={0}"],
    "evaluate --json": ["evaluate", "lab.naim3l", "lab={0}", "--json"],
    "report": ["report", "lab.naim3l", "lab=lab.csv", "--test", "lab={0}", "-o", "new.html"],
}  # fmt: skip
# What can be typed by mistake: no name, another view, the wrong place, one argument too many.
MISTAKES = {
    "no name": ["predict", "lab.naim3l", "{0}", "-o", "new.csv"],
    "other view": ["predict", "lab.naim3l", "clinic={0}", "-o", "new.csv"],
    "as a model": ["predict", "lab={0}", "lab.naim3l", "-o", "new.csv"],
    "inspect": ["inspect", "lab={0}"],
    "as settings": ["fit", "--config", "{0}", "-o", "new.naim3l"],
    "as a target": ["predict", "lab.naim3l", "lab=lab.csv", "-o", "{0}.csv"],
    "as a seed": ["fit", "lab=lab.csv", "--seed", "{0}"],
    "too many": ["inspect", "lab.naim3l", "lab={0}"],
    "as a command": ["lab={0}"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folder with a database, the same table as a file, and a model of it."""
    path = tmp_path_factory.mktemp("secrets")
    rng = np.random.default_rng(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        rows = [(f"p{i}", *map(float, x), "yes" if x[0] > 0 else "no", "yes" if x[1] > 0 else "no")
                for i, x in enumerate(rng.normal(size=(30, 2)))]  # fmt: skip
        connection = sqlite3.connect("lab.db")
        connection.execute("create table lab (id text, hb real, crp real, flu text, gout text)")
        connection.executemany("insert into lab values (?, ?, ?, ?, ?)", rows)
        connection.commit()
        connection.close()
        lines = ["id,hb,crp,flu,gout", *(",".join(map(str, row)) for row in rows)]
        Path("lab.csv").write_text("\n".join(lines) + "\n")
        Path("plain.csv").write_text("id,hb\n" + "".join(f"{row[0]},{row[1]}\n" for row in rows))
        quick = ["--lam", "1", "--ridge", "1", "-o", "lab.naim3l"]
        assert run("fit", "lab=lab.csv", *LABELS, *quick).exit_code == 0
    return path


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A folder of its own with what is in that one."""
    monkeypatch.chdir(tmp_path)
    for file in made.iterdir():
        Path(file.name).symlink_to(file)
    return tmp_path


def use(arguments, source):
    """Run a command with a source; neither what it says nor any file has the password."""
    result = run(*(argument.replace("{0}", source) for argument in arguments))
    assert_hidden(
        result.output, "".join(traceback.format_exception(*result.exc_info or [None] * 3))
    )
    for path in Path().rglob("*"):
        if path.is_file():
            assert_hidden(str(path), *contents(path.read_bytes()))
    return result


def contents(data):
    """Bytes of a file, or of all files in it."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return [data]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [archive.read(name) for name in archive.namelist()]


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
class TestSources:
    def test_one_that_works(self, folder, command):
        before = set(Path().rglob("*"))
        result = use(command, WORKS)
        assert result.exit_code == 0, result.output
        assert set(Path().rglob("*")) > before or command[0] == "evaluate"

    def test_one_whose_query_is_wrong(self, folder, command):
        for query in ("select nothing from lab", "select id, hb from lab", "drop"):
            result = use(command, WORKS.replace("select * from lab", query))
            assert result.exit_code == 1 or (command[0] == "init" and "id, hb" in query)

    def test_those_that_do_not_work(self, folder, command):
        for name in FAIL:
            assert use(command, SOURCES[name]).exit_code == 1


@pytest.mark.parametrize("command", MISTAKES.values(), ids=MISTAKES)
def test_sources_where_none_belongs(folder, command):
    for name in ("plain", "password", "one slash", "long"):
        result = run(*(argument.replace("{0}", SOURCES[name]) for argument in command))
        assert result.exit_code in (1, 2)
        assert_hidden(result.output)


def test_settings_of_init_are_those_of_fit(folder):
    assert use(COMMANDS["init"], WORKS).exit_code == 0
    assert "# The password is left out" in Path("new.toml").read_text()
    settings = ["fit", "--config", "new.toml", "-o", "again.naim3l"]
    assert use(settings, "").exit_code == 0
    text = Path("new.toml").read_text().replace("lab.db#", f"no.db?{KEYS}#")
    Path("new.toml").write_text(text)
    result = run("fit", "--config", "new.toml", "-o", "never.naim3l")
    assert result.exit_code == 1 and "no.db***" in result.stderr
    assert_hidden(result.output)
