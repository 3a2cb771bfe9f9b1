"""Models as queries, on the command line."""

import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from study import VIEWS, run


def test_queries_give_the_probabilities_of_predict(folder):
    result = run("predict", "model.naim3l", *VIEWS, "--what", "probabilities", "-o", "p.csv")
    assert result.exit_code == 0, result.output
    expected = pd.read_csv("p.csv", dtype={"patient_id": str})
    asked = ("--sql", "--dialect", "sqlite", "--table", "clinic=main.visits", "-o", "queries")
    result = run("export", "model.naim3l", *asked)
    assert result.exit_code == 0, result.output
    names = {entry.partition("=")[0] for entry in VIEWS}
    assert {path.name for path in (folder / "queries").iterdir()} == {f"{n}.sql" for n in names}
    with closing(sqlite3.connect(":memory:")) as database:
        clinic = pd.read_csv("clinic.csv", dtype={"patient_id": str})
        clinic.to_sql("visits", database, index=False)
        found = pd.read_sql((folder / "queries" / "clinic.sql").read_text(), database)
    own = expected[expected["view"] == "clinic"].drop(columns="view").reset_index(drop=True)
    assert found["patient_id"].tolist() == own["patient_id"].tolist()
    labels = own.columns[1:]
    np.testing.assert_allclose(found[labels], own[labels], atol=1e-4)  # of a rounded file


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ([], "--sql or --onnx"),
        (["--onnx", "--keep", "a"], "--keep and --what are for --sql"),
        (["--sql", "--table", "visits"], "view=table"),
        (["--sql", "--view", "nobody"], "view must be one of"),
    ],
)
def test_wrong_use_is_explained(folder, asked, reason):
    result = run("export", "model.naim3l", *asked, "-o", "wrong.sql")
    assert result.exit_code == 1
    assert reason in result.stderr
    assert not (folder / "wrong.sql").exists()
