"""What became of each column is what the transformer does with it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from naim3l.features.column_uses import ColumnUse, column_uses
from naim3l.features.encoding import ViewFeatures
from naim3l.input.tables import Table


def uses(transformer, frame):
    features = ViewFeatures.make(transformer, "a")
    features.fit_encode(Table(frame, "view 'a'"))
    return {use.name: use for use in features.uses(list(frame.columns))}


@pytest.fixture
def frame(rng):
    n = 40
    return pd.DataFrame({
        "age": rng.normal(size=n),
        "bmi": np.where(np.arange(n) % 4, rng.normal(size=n), np.nan),
        "site": 3.0,
        "ward": ["A", "B", "C", "D"] * 9 + ["E", "F", "A", "A"],
        "hall": "main",
        "seen": pd.date_range("2024-01-01", periods=n),
        "smokes": np.arange(n) % 2 == 0,
    })  # fmt: skip


def test_every_kind(frame):
    filled = "missing cells filled with the mean, scaled"
    assert uses("auto", frame) == {
        "age": ColumnUse("age", "number", 0.0, "scaled"),
        "bmi": ColumnUse("bmi", "number", 0.25, filled),
        "site": ColumnUse("site", "number", 0.0, "set aside", "constant"),
        "ward": ColumnUse("ward", "text", 0.0, "4 values became columns, 2 rare ones one together"),
        "hall": ColumnUse("hall", "text", 0.0, "set aside", "constant"),
        "seen": ColumnUse("seen", "date", 0.0, "days, scaled"),
        "smokes": ColumnUse("smokes", "boolean", 0.0, "0 and 1, scaled"),
    }


def test_recipes_by_name_and_columns_as_they_are(frame):
    numbers = frame[["age", "site"]]
    assert uses("scale", numbers)["age"].use == "scaled"
    assert uses("scale", numbers)["site"].reason == "constant"
    assert uses("paper", numbers)["site"].use == uses(None, numbers)["age"].use == "used as it is"


def test_own_transformers_receive_cells_unchanged(frame):
    own = uses(StandardScaler(), frame[["age"]])["age"]
    assert (own.kind, own.use) == ("any", "given to StandardScaler") and np.isnan(own.missing)


def test_many_columns_are_cheap(rng):
    names = [f"c{j}" for j in range(10_000)]
    features = ViewFeatures.make("auto", "a")
    features.fit_encode(Table(pd.DataFrame(rng.normal(size=(5, 10_000)), columns=names), "a"))
    assert len(column_uses(features.transformer, False, names)) == 10_000


def test_durations_are_days_since_no_date():
    spans = pd.DataFrame({"stay": pd.to_timedelta(np.arange(40), unit="h")})
    assert uses("auto", spans)["stay"].use == "days, scaled"
