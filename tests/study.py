"""The example's three messy files, the options that fit a model to them."""

import runpy
import warnings
from pathlib import Path

from typer.testing import CliRunner

from naim3l.cli import app

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "messy_files.py"
VIEWS = ["clinic=clinic.csv", "lab=lab.txt", "survey=survey.parquet"]
LABELS = ["flu", "asthma", "gout"]
ROLES = ["--id", "patient_id", *(part for label in LABELS for part in ("--labels", label))]
QUICK = ["--lam", "0.4", "--ridge", "1", "--no-boosting"]


def run(*arguments, columns=200):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": str(columns)})


def done(*arguments):
    """The result of a command that works."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def warned(*arguments):
    """The one line of a warning from a command that works."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = done(*arguments)
    (line,) = result.stderr.splitlines()
    return line.removeprefix("naim3l: warning: ")


def write_files():
    """The files, in the working folder."""
    runpy.run_path(str(EXAMPLE), run_name="__main__")
