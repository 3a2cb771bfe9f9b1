"""One table of cells of all kinds: the command line and Python make the same model of it."""

import copy
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from naim3l import NAIM3L, NAIM3LCV, DataWarning, load
from naim3l.explain import top_features
from study import run

LABELS = ["flu", "gout"]
ROLES = ["--labels", "flu", "--labels", "gout"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 120
    age, bmi = rng.normal(50, 15, n).round(1), rng.normal(25, 4, n).round(2)
    ward = rng.choice(["north", "south", "east"], n).astype(object)
    ward[rng.random(n) < 0.1] = None
    ward[:2] = ["attic", "cellar"]
    frame = pd.DataFrame({
        "patient_id": [f"P{i:04d}" for i in rng.permutation(n)],
        "age": np.where(rng.random(n) < 0.1, np.nan, age),
        "bmi": bmi,
        "ward": ward,
        "seen": pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D"),
        "smokes": rng.integers(0, 2, n).astype(float),
        "rare": np.where(np.arange(n) < 2, bmi, np.nan),
        "note": [f"remark {i}" for i in range(n)],
    })  # fmt: skip
    north = ward == "north"
    return frame.assign(flu=(age + 20 * north > 55) * 1.0, gout=(bmi > 25) * 1.0)


@pytest.fixture(scope="module")
def fitted(table, tmp_path_factory):
    """The model of Python and the one of the command line, with the warnings of both."""
    folder = tmp_path_factory.mktemp("same")
    table.to_csv(folder / "clinic.csv", index=False)
    model = NAIM3L(ridge=1.0, decide="guarded", random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.compare({"clinic": table.drop(columns=LABELS)}, {"clinic": table[LABELS]})
        told = [str(entry.message) for entry in caught]
        arguments = [f"clinic={folder / 'clinic.csv'}", *ROLES, "--lam", "0.4", "--ridge", "1"]
        result = run("fit", *arguments, "-o", folder / "m.naim3l")
    assert result.exit_code == 0, result.output
    lines = [line.removeprefix("naim3l: warning: ") for line in result.stderr.splitlines()]
    return model, load(folder / "m.naim3l"), told, lines, folder


def test_weights_columns_decisions_and_warnings(fitted):
    python, model, told, lines, _ = fitted
    assert_array_equal(python.coef_["clinic"], model.coef_["clinic"])
    assert_array_equal(python.intercept_["clinic"], model.intercept_["clinic"])
    assert_array_equal(python.thresholds_["clinic"], model.thresholds_["clinic"])
    assert python.held_out_ == model.held_out_
    assert model.columns_ == python.columns_
    # Each warning once; that of labels in features is of this table alone.
    others = [line for line in lines if "look like further labels" not in line]
    assert sorted(others) == sorted(told) and len(told) == 3
    dropped = {column.name: column.dropped for column in model.columns_["clinic"] if column.dropped}
    assert set(dropped) == {"patient_id", "rare", "note"}
    assert model.roles_["clinic"]["id"] == "patient_id" and python.roles_ == {}


def test_the_search_is_that_of_python(table, tmp_path):
    columns = ["age", "bmi", "ward"]
    table[[*columns, *LABELS]].to_csv(tmp_path / "t.csv", index=False)
    result = run("fit", f"clinic={tmp_path / 't.csv'}", *ROLES, "-o", tmp_path / "m.naim3l")
    assert result.exit_code == 0, result.output
    python = NAIM3LCV(random_state=0).fit({"clinic": table[columns]}, {"clinic": table[LABELS]})
    model = load(tmp_path / "m.naim3l")
    assert (model.lam_, model.ridge_) == (python.lam_, python.ridge_)
    assert_array_equal(python.coef_["clinic"], model.coef_["clinic"])
    assert_array_equal(python.thresholds_["clinic"], model.thresholds_["clinic"])


def test_new_rows(table, fitted):
    """Words that were never seen, missing cells and rows without a value are predicted alike."""
    python, _, _, _, folder = fitted
    new = table.drop(columns=[*LABELS, "note", "rare"]).head(6).copy()
    new.loc[0, "ward"] = "roof"
    new.loc[1, ["ward", "bmi", "seen"]] = None
    new.loc[2, new.columns[1:]] = None
    new.to_csv(folder / "new.csv", index=False)
    expected = python.decision_function({"clinic": new.drop(columns="patient_id")})["clinic"]
    assert np.flatnonzero(np.isnan(expected).all(axis=1)).tolist() == [2]
    copy.copy(python).save(folder / "python.naim3l")
    for model in ("m", "python"):  # a model that was fitted in Python reads files, too
        arguments = [folder / f"{model}.naim3l", f"clinic={folder / 'new.csv'}", "--what", "scores"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # of the row without a value
            result = run("predict", *arguments, "-o", folder / "out.csv")
        assert result.exit_code == 0, result.output
        found = pd.read_csv(folder / "out.csv", index_col="patient_id")
        assert list(found.index) == list(new["patient_id"])
        assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_files_of_models_have_no_cell_of_a_dropped_column(table, fitted):
    python, model, _, _, folder = fitted
    X = {"clinic": table[["age", "bmi", "ward", "seen", "smokes"]]}
    scores = model.set_output(transform="default").decision_function(X)["clinic"]
    assert_array_equal(scores, python.decision_function(X)["clinic"])
    with zipfile.ZipFile(folder / "m.naim3l") as archive:
        stored = b"".join(archive.read(name) for name in archive.namelist()).decode("latin-1")
    for name in ("patient_id", "note"):
        assert not any(cell in stored for cell in table[name])


def test_names_of_weights_are_those_of_columns_and_words(fitted):
    found = top_features(fitted[1], "flu", n=20)
    names = {feature.column for group in found.values() for feature in group}
    assert {"age", "ward_north"} <= names and not any("__" in name for name in names)


def test_listed_features_are_kept_and_ignored_columns_left_out(table, tmp_path):
    table.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "s.toml").write_text(
        '[views.clinic]\nsource = "t.csv"\nid = "patient_id"\nlabels = ["flu", "gout"]\n'
        'ignore = ["note", "seen"]\nfeatures = ["age", "bmi", "rare"]\n'
    )
    arguments = ["--config", tmp_path / "s.toml", "--lam", "0.4", "-o", tmp_path / "m.naim3l"]
    result = run("fit", *arguments)
    assert result.exit_code == 0 and not result.stderr, result.output
    model = load(tmp_path / "m.naim3l")
    uses = {column.name: column for column in model.columns_["clinic"]}
    assert list(uses) == ["age", "bmi", "rare"]
    assert uses["rare"].use.startswith("missing cells filled")
    assert model.roles_["clinic"]["ignored"] == ["note", "seen"]
