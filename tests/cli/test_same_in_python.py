"""One table of cells of all kinds: the command line and Python make the same model of it."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from naim3l import NAIM3L, NAIM3LCV, load
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
