"""Counts of different values: exact up to a bound, and a sample of the values beyond it."""

from collections import Counter
from decimal import Decimal
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from naim3l.input import distinct
from naim3l.input.distinct import ValueCounts

VALUES = st.lists(st.one_of(st.integers(-3, 3), st.sampled_from(["a", "b", 0.5, True])))


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_parts_add_up_to_the_whole(parts):
    whole = [value for part in parts for value in part]
    counts = reduce(ValueCounts.combine, (ValueCounts.of(Counter(part)) for part in parts))
    assert counts.counts == Counter(whole)
    assert counts.n_values == len(set(whole))
    assert counts.all_differ == (len(set(whole)) == len(whole))


@given(st.lists(st.lists(st.integers(-5, 5)), min_size=1, max_size=4))
def test_numbers(parts):
    whole = np.array([number for part in parts for number in part], dtype=float)
    counted = (ValueCounts.of_numbers(np.array(part, dtype=float)) for part in parts)
    counts = reduce(ValueCounts.combine, counted)
    assert counts.n_values == len(set(whole)) and not counts.is_sample
    assert sorted(counts.repeats) == sorted(Counter(whole).values())
    assert counts.all_differ == (len(set(whole)) == len(whole))


def test_equal_numbers_are_one_value():
    assert ValueCounts.of_numbers(np.array([0.0, -0.0])).n_values == 1
    hashes = distinct._hashes([1, 1.0, True, Decimal(1), np.int64(1)])
    assert len(set(hashes.tolist())) == 1


@pytest.mark.parametrize("build", [str, float])
def test_beyond_the_bound(build, monkeypatch):
    """The sample is the same for all ways to cut the rows, and has the counts of all rows."""
    monkeypatch.setattr(distinct, "MOST_VALUES", 4000)
    values = [build(i % 25_000) for i in range(40_000)]

    def count(part):
        return ValueCounts.of_numbers(np.array(part)) if build is float else (
            ValueCounts.of(Counter(part)))  # fmt: skip

    whole = count(values)
    assert whole.is_sample and len(whole.hashes) == 4000
    assert whole.n_values == pytest.approx(25_000, rel=0.05)
    assert not whole.all_differ and set(whole.repeats.tolist()) == {1, 2}
    assert whole.repeats.mean() == pytest.approx(40 / 25, rel=0.05)
    for size in (1000, 7000, 39_999):
        parts = [values[i : i + size] for i in range(0, len(values), size)]
        found = reduce(ValueCounts.combine, map(count, parts))
        assert found.is_sample
        assert_array_equal(found.hashes, whole.hashes)
        assert_array_equal(found.repeats, whole.repeats)
    assert count(values[:25_000]).all_differ
