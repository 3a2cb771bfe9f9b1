"""Logarithms of skewed numbers: the counts that decide, the rule, and the encoded columns."""

from collections import Counter
from functools import reduce
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from naim3l import NAIM3L, Recipe
from naim3l.features import survey as module
from naim3l.features.plan import ViewPlan
from naim3l.features.survey import TableSurvey
from naim3l.input.batches import Batch

NUMBERS = st.one_of(st.just(0.0), st.integers(0, 9).map(float), st.floats(1e-99, 1e99))


def plan_of(cells, **options):
    survey = TableSurvey.of(Batch(pd.DataFrame({"x": cells}), "view 'a'"))
    return ViewPlan.of(survey, **options)[0]


@given(numbers=st.lists(NUMBERS, max_size=30), cut=st.integers(0, 30))
def test_counts_of_bins_add_up(numbers, cut):
    """Each is in the bin from 2^(k/4) to 2^((k+1)/4), or in that of 0."""
    x = np.array(numbers, dtype=float)
    found = module.count_sizes(x)
    assert found == module.add_sizes(module.count_sizes(x[:cut]), module.count_sizes(x[cut:]))
    assert sum(found.values()) == len(x) and found[module.ZERO] == (x == 0).sum()
    for k in set(found) - {module.ZERO}:
        low, high = 2.0 ** (k / 4), 2.0 ** ((k + 1) / 4)
        inside = (x >= low * (1 + 1e-9)) & (x < high * (1 - 1e-9))
        around = (x >= low * (1 - 1e-9)) & (x < high * (1 + 1e-9))
        assert inside.sum() <= found[k] <= around.sum()


def test_numbers_in_several_rows_and_negative_ones():
    once = module.count_sizes(np.array([0.0, 1, 1, 3, 3, 3]))
    assert once == module.count_sizes(np.array([0.0, 1, 3]), [1, 2, 3])
    assert module.count_sizes(np.array([1.0, -1e-9])) is None
    assert module.add_sizes(once, None) is None


def test_skewness_and_mean_are_those_of_the_numbers(rng):
    x = rng.lognormal(3, 0.8, 5000)
    values, n = module._values(module.count_sizes(x))
    assert module._skewness(values, n) == pytest.approx(stats.skew(x), rel=0.1)
    assert module.mean_logarithm(module.count_sizes(x), 2.0) == pytest.approx(
        np.log(x + 2).mean(), abs=0.02
    )


@pytest.mark.parametrize(
    ("draw", "is_skewed"),
    [
        (lambda rng: rng.lognormal(3, 1, 500), True),
        (lambda rng: rng.lognormal(6, 2.3, 500), True),
        (lambda rng: rng.lognormal(6, 2.3, 500) * (rng.random(500) < 0.8), True),  # zeros
        (lambda rng: np.append(rng.lognormal(3, 1, 500), [5.4e-79] * 9), True),  # those of SAS
        (lambda rng: rng.geometric(0.1, 500) ** 2, True),  # counts
        (lambda rng: rng.normal(100, 10, 500), False),
        (lambda rng: rng.uniform(0, 1, 500), False),
        (lambda rng: -rng.lognormal(3, 1, 500), False),
        (lambda rng: rng.lognormal(3, 1, 500) - 5, False),  # some are negative
        (lambda rng: (rng.random(500) < 0.02) * 7.0, False),  # two values: logarithms are two, too
        (lambda rng: np.zeros(500), False),
    ],
)
def test_skewed_numbers_whose_logarithms_are_not(rng, draw, is_skewed):
    column = plan_of(draw(rng)).columns[0]
    assert bool(column.log_shift) == is_skewed
    assert ("logarithm" in column.use) == is_skewed
    assert plan_of(draw(rng), log=False).columns[0].log_shift == 0


def test_logarithms_of_training_and_new_rows(rng):
    cells = np.append(rng.lognormal(3, 1.5, 400), [np.nan] * 50)
    plan = plan_of(cells)
    shift = plan.columns[0].log_shift
    assert shift <= np.nanquantile(cells, 0.25) < 2**1.25 * shift  # rounded down to a power of 2
    encoded = plan.encode(Batch(pd.DataFrame({"x": cells, "y": 1.0})[["x"]], "view 'a'"))[0]
    assert_allclose(encoded[:400, 0], np.log(cells[:400] + shift))
    new = pd.DataFrame({"x": [0.0, -3.0, 1e6], "y": 1.0})[["x"]]  # none was so low
    assert_allclose(
        plan.encode(Batch(new, "view 'a'"))[0][:, 0], np.log([shift, shift, 1e6 + shift])
    )
    filled = plan_of(pd.Series(cells)).columns[0].mean
    assert filled == pytest.approx(np.log(cells[:400] + shift).mean(), abs=0.02)


@given(cuts=st.lists(st.integers(0, 60), max_size=3), as_text=st.booleans())
def test_one_plan_for_any_batches(cuts, as_text):
    x = pd.Series(np.random.default_rng(0).lognormal(2, 1.5, 60).round(2))
    table = pd.DataFrame({"x": x.astype(str).str.replace(".", ",") if as_text else x})
    bounds = [0, *sorted(cuts), len(table)]
    parts = [TableSurvey.of(Batch(table[i:j], "view 'a'")) for i, j in pairwise(bounds)]
    plan, _ = ViewPlan.of(reduce(TableSurvey.combine, parts))
    whole, _ = ViewPlan.of(TableSurvey.of(Batch(table, "view 'a'")))
    assert plan == whole and plan.columns[0].log_shift > 0
    rows = [plan.encode(Batch(table[i:j], "view 'a'"))[0] for i, j in pairwise(bounds) if i < j]
    assert_allclose(np.vstack(rows), np.log(x.to_numpy()[:, None] + plan.columns[0].log_shift))


@pytest.mark.parametrize("recipe", ["paper", "histogram", None])
def test_other_steps_take_numbers_as_they_are(rng, recipe):
    X = pd.DataFrame({"x": rng.lognormal(3, 2, 60), "y": rng.random(60)})
    Y = (rng.random((60, 2)) < 0.5).astype(int)
    for steps, log, expected in ((recipe, True, 0), ("scale", False, 0), ("scale", True, 1)):
        model = NAIM3L(features=Recipe(steps, log=log)).fit({"a": X}, {"a": Y})
        assert sum(column.log_shift > 0 for column in model.columns_["a"]) == expected


def test_empty_counts():
    assert module.find_shift(Counter()) == module.find_shift(Counter({module.ZERO: 9})) == 0
