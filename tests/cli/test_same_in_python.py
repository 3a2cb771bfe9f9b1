"""One table of cells of all kinds: the command line and Python make the same model of it."""

import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from naim3l import NAIM3L, DataWarning, load
from naim3l.cli.settings import Config, ViewConfig
from naim3l.cli.work import fit_model, make_model, read_new, read_training
from naim3l.explain import top_features

LABELS = ["flu", "gout"]
FEATURES = ["age", "bmi", "ward", "seen", "smokes", "site", "rare"]


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
        "site": "main",
        "rare": np.where(np.arange(n) < 2, bmi, np.nan),
        "note": [f"remark {i}" for i in range(n)],
    })  # fmt: skip
    north = ward == "north"
    return frame.assign(flu=(age + 20 * north > 55) * 1.0, gout=(bmi > 25) * 1.0)


@pytest.fixture(scope="module")
def python(table):
    with pytest.warns(DataWarning, match="set aside"):
        return NAIM3L(ridge=1.0).fit(
            {"clinic": table.drop(columns=LABELS)}, {"clinic": table[LABELS]}
        )


@pytest.fixture(scope="module")
def files(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("same")
    table.to_csv(folder / "clinic.csv", index=False)
    view = ViewConfig(str(folder / "clinic.csv"), id="patient_id", labels=LABELS)
    with pytest.warns(DataWarning, match="set aside"):
        data = read_training(Config({"clinic": view}))
    return fit_model(make_model({"lam": 0.4, "ridge": 1.0}, data), data), folder


def test_weights_and_columns(python, files):
    model, _ = files
    assert_allclose(python.coef_["clinic"], model.coef_["clinic"], rtol=0, atol=1e-12)
    assert_allclose(python.intercept_["clinic"], model.intercept_["clinic"], rtol=0, atol=1e-12)
    uses = {use.name: use for use in python.columns_["clinic"]}
    of_file = {use.name: use for use in model.columns_["clinic"]}
    assert list(uses) == ["age", "bmi", "ward", "seen", "smokes", "site", "patient_id", "rare",
                          "note"]  # fmt: skip
    for name in uses:
        if name != "patient_id":
            assert uses[name] == of_file[name]
    assert uses["patient_id"].reason.startswith("an id: ")
    assert of_file["patient_id"].use == "the id of the rows"
    assert of_file["flu"].use == "a label" and set(of_file) == {*uses, *LABELS}
    assert uses["rare"].reason == "2 known values in 120 rows"
    assert (uses["site"].use, uses["site"].reason) == ("set aside", "constant")
    assert uses["ward"].use == "4 values became columns, 2 rare ones one together"
    assert uses["seen"].kind == "date"


def test_other_libraries(table, python):
    X = pl.from_pandas(table.drop(columns=LABELS))
    with pytest.warns(DataWarning, match="set aside"):
        model = NAIM3L(ridge=1.0).fit({"clinic": X}, {"clinic": pl.from_pandas(table[LABELS])})
    assert_array_equal(model.coef_["clinic"], python.coef_["clinic"])
    assert model.columns_ == python.columns_
    scores = python.decision_function({"clinic": X})["clinic"]
    assert_array_equal(scores, model.decision_function({"clinic": table[X.columns]})["clinic"])


def test_one_wide_table(table, python):
    views = {"clinic": [name for name in table.columns if name not in LABELS]}
    with pytest.warns(DataWarning, match="set aside"):
        wide = NAIM3L(ridge=1.0, views=views).fit(table[views["clinic"]], table[LABELS])
    assert_array_equal(wide.coef_["clinic"], python.coef_["clinic"])
    assert wide.columns_ == python.columns_


def test_new_rows(table, python, files):
    """Words that were never seen, missing cells and rows without a value are predicted alike."""
    model, folder = files
    new = table.drop(columns=[*LABELS, "note", "rare"]).head(6).copy()
    new.loc[0, "ward"] = "roof"
    new.loc[1, ["ward", "bmi", "seen"]] = None
    new.loc[2, new.columns[1:]] = None
    new.to_csv(folder / "new.csv", index=False)
    read = read_new(model, {"clinic": str(folder / "new.csv")})
    scores = model.decision_function(read)["clinic"]
    expected = python.decision_function({"clinic": new.drop(columns="patient_id")})["clinic"]
    assert_allclose(scores, expected, rtol=0, atol=1e-12)
    assert np.flatnonzero(np.isnan(expected).all(axis=1)).tolist() == [2]
    attic = new.head(1).assign(ward="attic").drop(columns="patient_id")
    assert_allclose(python.decision_function({"clinic": attic})["clinic"][0], expected[0])
    # A model that was fitted in Python reads files, too.
    again = python.decision_function(read_new(python, {"clinic": str(folder / "new.csv")}))
    assert_allclose(again["clinic"], expected, rtol=0, atol=1e-12)


def test_a_cell_that_is_no_number_is_named(table, python):
    X = table[["age", "bmi", "ward", "seen", "smokes", "site"]].astype({"bmi": object})
    X.loc[7, "bmi"] = "high"
    with pytest.raises(ValueError, match=r"^view 'clinic', row 7, column 'bmi': 'high' is not a"):
        python.predict({"clinic": X})


@pytest.mark.parametrize("which", ["python", "files"])
def test_files_of_models(table, python, files, which, tmp_path):
    model = python if which == "python" else files[0]
    model.save(tmp_path / "m.skops")
    read = load(tmp_path / "m.skops")
    assert read.columns_ == model.columns_
    X = {"clinic": table[["age", "bmi", "ward", "seen", "smokes", "site"]]}
    assert_array_equal(read.set_output(transform="default").decision_function(X)["clinic"],
                       python.decision_function(X)["clinic"])  # fmt: skip
    with zipfile.ZipFile(tmp_path / "m.skops") as archive:
        stored = b"".join(archive.read(name) for name in archive.namelist()).decode("latin-1")
    for name in ("patient_id", "note"):
        assert not any(f'"{cell}"' in stored or cell in stored for cell in table[name])


def test_names_of_weights_are_those_of_columns_and_words(python):
    found = top_features(python, "flu", n=20)
    names = {feature.column for group in found.values() for feature in group}
    assert {"age", "ward_north"} <= names and not any("__" in name for name in names)


def test_numbers_with_question_marks(table, tmp_path):
    """They are numbers with missing cells in files, even if every column has them and rows few."""
    few = table[["bmi", "age"]].head(12).round(1).astype(object)
    few.loc[[1, 5], "bmi"], few.loc[[0, 7], "age"] = "?", "n/a"
    few.loc[9, "bmi"] = "-"
    labels = table[LABELS].head(12)
    few.assign(**labels).fillna("?").to_csv(tmp_path / "few.csv", index=False)
    view = ViewConfig(str(tmp_path / "few.csv"), labels=LABELS)
    data = read_training(Config({"clinic": view}))["clinic"]
    assert data.words == [] and data.features.isna().sum().tolist()[0] == 3
    with pytest.raises(ValueError, match=r"row 1, column 'bmi': '\?' is text.*astype\(float\)"):
        NAIM3L(ridge=1.0).fit({"clinic": few.fillna("?")}, {"clinic": labels})
    cured = few.mask(few.isin(["?", "n/a", "-"])).astype(float)
    model = NAIM3L(ridge=1.0).fit({"clinic": cured}, {"clinic": labels})
    assert model.columns_["clinic"][0].missing == pytest.approx(
        cured["bmi"].isna().sum() / cured.notna().any(axis=1).sum()
    )


def test_what_the_settings_leave_out_is_listed(table, tmp_path):
    table.to_csv(tmp_path / "t.csv", index=False)
    view = ViewConfig(str(tmp_path / "t.csv"), id="patient_id", labels=LABELS,
                      ignore=["note", "seen"], features=["age", "bmi", "rare"])  # fmt: skip
    data = read_training(Config({"clinic": view}))
    model = fit_model(make_model({"lam": 0.4, "ridge": 1.0}, data), data)
    uses = {use.name: use for use in model.columns_["clinic"]}
    assert uses["seen"].reason == uses["note"].reason == "ignored in the settings"
    assert uses["seen"].kind == "date" and uses["rare"].use.startswith("missing cells filled")
