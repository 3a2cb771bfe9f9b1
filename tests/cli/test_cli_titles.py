"""Titles from files and settings, in what commands print and write."""

import json
from pathlib import Path

import pytest

from naim3l import load
from study import QUICK, ROLES, VIEWS, run, warned

TITLES = {"flu": "Influenza, ever", "age": "Age in years", "gout": "Gout of any joint"}


@pytest.fixture
def settings(folder, tmp_path):
    """Function that writes a settings file with further lines at its top."""

    def write(first):
        views = "".join(
            f'[views.{view}]\nsource = "{folder / source}"\nid = "patient_id"\n'
            'labels = ["flu", "asthma", "gout"]\n'
            for view, source in (of.split("=") for of in VIEWS)
        )
        path = tmp_path / "s.toml"
        path.write_text(f"{first}\n{views}")
        return path

    return write


def write_titles(path, header="name,title", more=""):
    lines = [f'{name},"{title}"' for name, title in TITLES.items()]
    path.write_text("\n".join([header, *lines, "other,Not here", more]) + "\n")
    return path


def test_titles_of_a_file_are_remembered_and_shown(folder, tmp_path):
    titles = write_titles(tmp_path / "columns.csv")
    target = tmp_path / "m.naim3l"
    fitted = run("fit", *VIEWS, *ROLES, *QUICK, "--titles", titles, "-o", target)
    assert fitted.exit_code == 0, fitted.output
    found = load(target).titles_
    assert found.items() <= TITLES.items() and {"flu", "gout"} <= set(found)
    shown = run("evaluate", target, "clinic=clinic_new.csv", "--report", tmp_path / "r.html")
    assert "Influenza, ever (flu)" in shown.stdout and "asthma" in shown.stdout
    assert "Gout of any joint" in (tmp_path / "r.html").read_text()
    assert json.loads((tmp_path / "r.json").read_text())["titles"] == found
    shown = run("explain", target, "clinic=clinic_new.csv", "--row", 0, "--label", "flu").stdout
    assert ", Influenza, ever (flu): 0." in shown.split("\n")[0]
    assert "What moves the probability of Influenza, ever (flu)" in shown
    shown = run("inspect", target)
    assert "Influenza, ever (flu), asthma, Gout of any joint (gout)" in shown.stdout
    # Values, codes and JSON stay as they are.
    told = json.loads(run("evaluate", target, "clinic=clinic_new.csv", "--json").stdout)
    assert set(told["labels"]) == {"flu", "asthma", "gout"}


def test_titles_of_settings_and_of_a_file_named_there(folder, settings, tmp_path):
    write_titles(tmp_path / "columns.csv", "column,meaning")  # any two columns
    given = 'titles = {flu = "Influenza, ever"}', 'titles = "columns.csv"'
    for first, expected in zip(given, (["flu"], ["flu", "gout"]), strict=True):
        result = run("report", "model.naim3l", "--config", settings(first), "-o", "r.html")
        assert result.exit_code == 0, result.output
        titles = json.loads(Path("r.json").read_text())["titles"]
        assert [name for name in titles if name in ("flu", "gout")] == expected
    assert not load("model.naim3l").titles_


@pytest.mark.parametrize(
    ("header", "more", "message"),
    [
        ("name,title", "flu,Flu", "'flu' has two titles, 'Influenza, ever' and 'Flu'; leave one"),
        ("name,title,unit", "", None),
        ("name,text,unit", "", "titles are two columns, name and title, not name, text, unit"),
    ],
)
def test_files_of_titles_that_are_refused(folder, tmp_path, header, more, message):
    path = write_titles(tmp_path / "columns.csv", header, more)
    path.write_text("\n".join(
        line + "," * (header.count(",") - 1) * (i > 0 and bool(line))
        for i, line in enumerate(path.read_text().splitlines())
    ))  # fmt: skip
    result = run("fit", *VIEWS, *ROLES, *QUICK, "--titles", path, "-o", tmp_path / "m.naim3l")
    assert result.exit_code == int(message is not None), result.output
    assert message is None or message in result.stderr


@pytest.mark.parametrize("first", ["titles = 3", "titles = {flu = 3}"])
def test_settings_that_are_no_titles_are_refused(folder, settings, first):
    result = run("fit", "--config", settings(first), "-o", "never.naim3l")
    assert result.exit_code == 1 and "titles" in result.stderr and "must be" in result.stderr


def test_titles_that_no_name_has_are_reported(folder, settings, tmp_path):
    path = settings('titles = {flue = "Influenza"}')
    line = warned("fit", "--config", path, *QUICK, "-o", tmp_path / "m.naim3l")
    assert (
        line
        == "[titles] in the settings: no label or column has a name that is there, such as 'flue'."
    )
