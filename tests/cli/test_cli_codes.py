"""Labels in the words or codes of the tables, in what commands write."""

import numpy as np
import pandas as pd
import pytest

from naim3l import load
from naim3l.cli.predictions import words_of_source
from study import QUICK, run

LABELS = ["smokes", "drinks"]
VIEWS = ["clinic=clinic.csv", "lab=lab.csv", "survey=survey.csv"]
# Codes for yes and no, and for no answer, in the tables.
CELLS = {"clinic": (1, 2, 9), "lab": (1, 2, ""), "survey": ("Yes", "No", "?")}
WORDS = ["--no", "2", "--unknown", "9"]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Three tables, and a model of them."""
    path, rng = tmp_path_factory.mktemp("codes"), np.random.default_rng(0)
    for view, (yes, no, unknown) in CELLS.items():
        X = pd.DataFrame(rng.normal(size=(90, 2)), columns=[f"{view}_a", f"{view}_b"])
        X.insert(0, "id", [f"P{k}" for k in range(90)])
        for j, label in enumerate(LABELS):
            cells = np.where(X.iloc[:, 1 + j] + rng.normal(size=90) > 0, yes, no).astype(object)
            X[label] = np.where(rng.random(90) < 0.2, unknown, cells)
        X.to_csv(path / f"{view}.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        labels = [part for label in LABELS for part in ("--labels", label)]
        result = run("fit", *VIEWS, "--id", "id", *labels, *WORDS, *QUICK, "-o", "m.naim3l")
        assert result.exit_code == 0, result.output
    return path


@pytest.fixture
def written(study, monkeypatch):
    """Function that runs a command, and gives the values of the labels that it writes."""
    monkeypatch.chdir(study)

    def read(command, *arguments, out="out.csv", file=None):
        result = run(command, "m.naim3l", *arguments, "-o", out)
        assert result.exit_code == 0, result.output
        table = pd.read_csv(file or out)
        return {cell for label in LABELS for cell in table[label].dropna()}

    return read


def test_new_tables_have_the_codes_of_their_view(written):
    assert written("predict", "lab=lab.csv") == {1, 2}
    assert written("predict", "clinic=clinic.csv", "lab=lab.csv") == {1, 2}
    assert written("predict", "clinic=clinic.csv", "lab=lab.csv", "--fused") == {1, 2}
    assert written("predict", "survey=survey.csv") == {"Yes", "No"}
    assert written("predict", "lab=lab.csv", "--codes", "0/1") == {0, 1}


@pytest.mark.parametrize("more", [(), ("--fused",)])
def test_views_with_different_words_in_one_table_have_0_and_1(written, more):
    assert written("predict", *VIEWS, *more) == {0, 1}


def test_tables_that_are_filled_in_keep_their_codes(written):
    for view, (yes, no, _) in CELLS.items():
        file = f"filled/{view}.csv"
        assert written("impute", *VIEWS, out="filled", file=file) == {yes, no}
        found, given = pd.read_csv(file), pd.read_csv(f"{view}.csv")
        known = given[LABELS].isin((yes, no))
        assert (found[LABELS] == given[LABELS])[known].where(known, other=True).all(axis=None)
    numbers = written("impute", *VIEWS, "--codes", "0/1", out="n", file="n/survey.csv")
    assert numbers == {0, 1}


@pytest.mark.filterwarnings("ignore::naim3l.DataWarning")
def test_a_row_without_an_answer_has_an_empty_cell(written):
    for view in ("lab", "survey"):
        table = pd.read_csv(f"{view}.csv")
        table.loc[3, [f"{view}_a", f"{view}_b"]] = np.nan
        table.to_csv("holes.csv", index=False)
        assert written("predict", f"{view}=holes.csv") == {*CELLS[view][:2]}
        assert pd.read_csv("out.csv")[LABELS].isna().all(axis=1).to_numpy().nonzero()[0] == [3]


@pytest.mark.dask
def test_tables_in_chunks_have_the_same_codes(written):
    pytest.importorskip("dask")
    for view, (yes, no, _) in CELLS.items():
        new = f"{view}={view}.csv"
        assert written("predict", new, "--memory", "1GB") == {yes, no}
        more = {"out": f"parts-{view}", "file": f"parts-{view}/{view}/part-00000.csv"}
        assert written("impute", new, "--memory", "1GB", **more) == {yes, no}


def test_other_names_of_codes_and_words_of_other_files(study, monkeypatch):
    monkeypatch.chdir(study)
    result = run("predict", "m.naim3l", "lab=lab.csv", "--codes", "2/1", "-o", "never.csv")
    assert result.exit_code == 1
    assert "--codes is '2/1', but must be one of: source, 0/1" in result.stderr
    model = load("m.naim3l")
    assert words_of_source(model, ["survey"], "source") == ("Yes", "No")
    for forged in (["a"], ["a", 3], "no", None, [["a"], "b"]):
        model.roles_["survey"]["written"] = forged
        assert words_of_source(model, ["survey"], "source") == ()
