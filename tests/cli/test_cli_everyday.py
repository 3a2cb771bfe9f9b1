"""What a new user meets: help, tables that are not quite those of the fit, and small mistakes."""

import json
from pathlib import Path

import pandas as pd
import pytest

from naim3l.cli import app
from study import LABELS, run, warned


def told(result):
    """The one line of an error, for a command that has printed nothing else."""
    assert result.exit_code == 1 and not result.stdout, result.output
    (line,) = result.stderr.splitlines()
    return line.removeprefix("naim3l: ")


COMMANDS = {command.callback.__name__: command.callback for command in app.registered_commands}


class TestHelp:
    def test_commands_are_listed_as_one_comes_to_need_them(self):
        order = [
            "init",
            "fit",
            "predict",
            "impute",
            "evaluate",
            "explain",
            "check",
            "report",
            "inspect",
            "export",
            "demo",
            "compare",
            "plan",
            "collect",
        ]
        assert list(COMMANDS) == order
        shown = run("--help").stdout
        places = [shown.index(f"│ {name} ") for name in order]
        assert places == sorted(places)

    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_shows_an_example_and_fits_any_width(self, command):
        assert f"Example: naim3l {command}" in run(command, "--help").stdout
        # A paragraph is one line where there is room, whatever the lines of the source.
        shown = run(command, "--help", columns=2000).stdout.splitlines()
        for paragraph in COMMANDS[command].__doc__.split("\n\n"):
            assert " ".join(paragraph.split()) in [line.strip() for line in shown]

    def test_help_names_the_entries_of_registries(self):
        shown = run("fit", "--help").stdout
        assert all(name in shown for name in ("rbf", "hellinger", "guarded", ".parquet", "--seed"))


class TestTablesOfAModel:
    """Columns, labels and ids are those of the model where nothing else is said."""

    def test_other_columns_do_no_harm_and_order_does_not_count(self, folder):
        table = pd.read_csv("clinic_new.csv")
        table.insert(3, "note", "anything")
        table[sorted(table.columns)].to_csv("more.csv", index=False)
        for command in (["evaluate"], ["predict", "-o", "x.csv"], ["impute", "-o", "out"]):
            first = run(command[0], "model.naim3l", "clinic=clinic_new.csv", *command[1:])
            second = run(command[0], "model.naim3l", "clinic=more.csv", *command[1:])
            assert first.exit_code == second.exit_code == 0, second.output
            assert first.stdout == second.stdout

    @pytest.mark.parametrize("command", ["predict", "impute", "evaluate", "report"])
    def test_a_missing_column_is_named_with_its_file(self, folder, command):
        table = pd.read_csv("clinic_new.csv").rename(columns={"pressure": "presure"})
        table.to_csv("renamed.csv", index=False)
        out = {"predict": ["-o", "y.csv"], "impute": ["-o", "out"], "report": ["-o", "y.html"]}
        line = told(run(command, "model.naim3l", "clinic=renamed.csv", *out.get(command, [])))
        assert line == ("view 'clinic', renamed.csv: no column 'pressure'; did you mean 'presure'?")
        assert not Path("y.csv").exists() and not Path("y.html").exists()

    def test_labels_that_are_not_named_are_unknown(self, folder):
        result = run("evaluate", "model.naim3l", "lab=lab.txt", "--labels", "gout", "--json")
        labels = json.loads(result.stdout)["labels"]
        assert labels["flu"]["lab"]["yes"] == 0 and labels["gout"]["lab"]["yes"] > 0
        assert (
            run("impute", "model.naim3l", "lab=lab.txt", "--labels", "gout", "-o", "one").exit_code
            == 0
        )
        filled = pd.read_csv("one/lab.csv")
        assert (filled["flu_confidence"] < 1).all() and (filled["gout_confidence"] == 1).any()
        assert list(filled["patient_id"]) == list(pd.read_csv("lab.txt", sep=";")["patient_id"])

    def test_labels_of_others_and_none_known(self, folder):
        table = pd.read_csv("clinic_new.csv")
        table.assign(measles="no").to_csv("measles.csv", index=False)
        line = told(run("evaluate", "model.naim3l", "clinic=measles.csv", "--labels", "measles"))
        assert "the model has no label 'measles'; there are 'flu'" in line
        table.assign(**dict.fromkeys(LABELS, "?")).to_csv("unknown.csv", index=False)
        line = told(run("evaluate", "model.naim3l", "clinic=unknown.csv"))
        assert line.startswith("no label is known")
        table.drop(columns=LABELS).to_csv("bare.csv", index=False)
        assert "no label columns are named" in told(
            run("evaluate", "model.naim3l", "clinic=bare.csv")
        )

    def test_labels_of_a_file_of_their_own(self, folder):
        table = pd.read_csv("clinic_new.csv")
        table.drop(columns=LABELS).to_csv("features.csv", index=False)
        table[["patient_id", *LABELS]].to_csv("labels.csv", index=False)
        apart = run("evaluate", "model.naim3l", "clinic=features.csv", "--labels-file",
                    "clinic=labels.csv")  # fmt: skip
        assert apart.stdout == run("evaluate", "model.naim3l", "clinic=clinic_new.csv").stdout


class TestFused:
    def test_rows_without_ids_are_not_joined_by_their_places(self, folder):
        for source, separator in (("clinic_new.csv", ","), ("lab.txt", ";")):
            table = pd.read_csv(source, sep=separator, decimal="," if separator == ";" else ".")
            table.drop(columns="patient_id").to_csv(f"bare_{source}.csv", index=False)
        views = ["clinic=bare_clinic_new.csv.csv", "lab=bare_lab.txt.csv"]
        assert run("predict", "model.naim3l", *views, "-o", "apart.csv").exit_code == 0
        line = told(run("predict", "model.naim3l", *views, "--fused", "-o", "joined.csv"))
        assert "its rows have no ids to join them by" in line
        assert not Path("joined.csv").exists()


class TestMistakes:
    def test_errors_of_the_system_have_no_numbers(self, folder, monkeypatch):
        def full(*_, **__):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("naim3l.files.atomic_write.os.replace", full)
        line = told(run("predict", "model.naim3l", "lab=lab.txt", "-o", "full.csv"))
        assert line == "full.csv: No space left on device."
        monkeypatch.setattr("naim3l.files.stored.Archive", full)  # names no file
        assert told(run("inspect", "model.naim3l")) == "No space left on device."

    def test_warnings_are_one_line_and_told_once(self, folder):
        text = Path("clinic_new.csv").read_text().replace("north", "nörth")
        Path("latin.csv").write_bytes(text.encode("latin-1"))
        # Though the file is read twice.
        line = warned("predict", "model.naim3l", "clinic=latin.csv", "-o", "latin_out.csv")
        assert line.startswith("latin.csv: not in UTF-8 (line ")
