"""Columns that tell a label are found by counts that add up, and others are not."""

import re
import warnings
from functools import reduce
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from naim3l import Recipe
from naim3l.estimators import PerViewRidge
from naim3l.features import survey as module
from naim3l.features.survey import TableSurvey
from naim3l.input.batches import Batch


@pytest.fixture
def study(rng):
    """A clean table, in which age is a strong predictor, and labels, some of them unknown."""
    age, other = rng.normal(50, 15, 600), rng.random(600)
    sick = (age + rng.normal(0, 8, 600) > 60).astype(float)
    labels = pd.DataFrame({"sick": sick, "rare": (other < 0.06).astype(float)})
    labels[rng.random(labels.shape) < 0.1] = np.nan
    frame = pd.DataFrame({
        "age": age,
        "score": rng.integers(0, 5, 600) + 2 * sick,  # less than surely
        "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, 600), "D"),
        "town": rng.choice(["A", "B", None], 600),
        "gaps": np.where(rng.random(600) < 0.5, np.nan, other),
    })  # fmt: skip
    return frame, labels, sick, labels["rare"].to_numpy() == 1


def told(frame, labels, **options):
    """What a fit says about leaks, "" if nothing."""
    model = PerViewRidge(1.0, decide="sign", features=Recipe(**options))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit({"a": frame}, {"a": labels})
    return "".join(str(w.message) for w in caught if "tell a label" in str(w.message))


def test_a_clean_table_has_none(study):
    frame, labels, _, _ = study
    assert told(frame, labels) == ""


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda yes: np.where(yes, 40.5, np.nan), "known in 100 % .* rare = yes and in 0 % of th"),
        (lambda yes: np.where(yes, None, "never"), "known in 0 % .* rare = yes and in 100 % of t"),
        (
            lambda yes: np.where(yes, 3, 0),
            "is 0 in 0 % .* rare = yes and in 100 % of those with no",
        ),
        (lambda yes: np.where(yes, "rupture", "other"), "is other in 0 % .* rare = yes"),
        (lambda yes: ~yes, "is 0 in 100 % .* rare = yes"),
    ],
    ids=["age when told", "missing where yes", "code", "cause", "truth value"],
)
def test_a_column_that_tells_a_label_is_named_with_its_reason(study, make, reason):
    frame, labels, _, rare = study
    found = told(frame.assign(leak=make(rare)), labels)
    assert re.search(rf"view 'a', column 'leak' \({reason}", found)
    assert found.count("column '") == 1
    assert told(frame.assign(leak=make(rare)), labels, keep=("leak",)) == ""  # confirmed


def test_a_column_that_is_known_for_some_of_one_side_alone(study):
    """A third of the rows without the disease, and none with it: it was asked of them only."""
    frame, labels, sick, _ = study
    asked = (sick == 0) & (frame["gaps"].to_numpy() > 0.3)
    frame = pd.concat([frame.assign(leak=np.where(asked, frame["age"], np.nan))] * 4)
    labels = pd.concat([labels] * 4)
    assert "known in 0 % of the rows with sick = yes" in told(frame, labels)


def test_the_surest_five_come_first(study):
    frame, labels, _, rare = study
    wrong = np.arange(600) % 50 == 0
    leaks = {f"leak{k}": np.where(rare | (wrong & (k == 3)), 1.5, np.nan) for k in range(7)}
    found = told(frame.assign(**leaks), labels)
    assert found.count("column 'leak") == 5 and "and 2 more" in found and "'leak3'" not in found


def survey(frame, labels):
    return TableSurvey.of(Batch(frame, "view 'a'"), signed=labels)


@settings(max_examples=40)
@given(cuts=st.lists(st.integers(0, 40), max_size=3), seed=st.integers(0, 99))
def test_counts_are_those_of_the_rows_and_add_up(cuts, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "x": rng.choice([0.0, 1, 2.5, -3, 99, np.nan], 40),
        "t": rng.choice(["a", "b", "?", None], 40),
    })  # fmt: skip
    frame[rng.random(40) < 0.1] = None  # rows without the view
    frame["x"] = frame["x"].astype(float)
    signed = rng.integers(-1, 2, (40, 2)).astype(np.int8)
    bounds = [0, *sorted(cuts), 40]
    parts = [survey(frame[i:j], signed[i:j]) for i, j in pairwise(bounds)]
    ties, whole = reduce(TableSurvey.combine, parts).ties, survey(frame, signed).ties
    known = np.stack([frame["x"].notna(), frame["t"].isin(["a", "b"])], axis=1)
    sides = np.stack([signed > 0, signed < 0])  # (2, n_rows, n_labels)
    for found in (ties, whole):
        assert_array_equal(found.rows, (sides & known.any(axis=1)[:, None]).sum(axis=1))
        assert_array_equal(found.known[1], (sides & known[:, [1]]).sum(axis=1))
        for key, cell in {"0": 0, "1": 1, "-3": -3}.items():
            expected = (sides & (frame["x"] == cell).to_numpy()[:, None]).sum(axis=1)
            assert_array_equal(found.values[0].get(key, 0), expected)
        others = (sides & frame["x"].isin([2.5, 99]).to_numpy()[:, None]).sum(axis=1)
        assert_array_equal(found.values[0].get("another number", 0), others)


def test_many_values_many_labels_and_few_rows(study, monkeypatch):
    rare = study[-1]
    signed = np.where(rare, 1, -1)[:, None].astype(np.int8)
    words = pd.DataFrame({"x": [f"w{k}" for k in range(600)]})
    assert survey(words, signed).ties.values == {0: None}
    leak = pd.DataFrame({"x": np.where(rare, 1.5, np.nan), "y": 1.0})
    few = np.flatnonzero(rare)[: module.FEWEST_TIED - 1]
    kept = np.append(few, np.flatnonzero(~rare))
    assert not survey(leak.iloc[kept], signed[kept]).find_leaks(["rare"])
    assert survey(leak, signed).find_leaks(["rare"])[0][0] > 0.9
    monkeypatch.setattr(module, "MOST_PAIRS", 1)
    assert survey(leak, signed).ties is None
