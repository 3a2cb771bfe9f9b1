"""Weights of rows: those of scikit-learn, and a whole number counts a row so many times."""

import math

import numpy as np
import pytest
import sklearn.metrics as skm
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose

from naim3l import metrics
from naim3l.metrics.measures import PROTOCOLS


@st.composite
def weighted_tables(draw):
    """Labels with unknown entries, scores with ties, and a whole number for each row."""
    shape = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    Y = draw(hnp.arrays(float, shape, elements=st.sampled_from([0.0, 1.0, math.nan])))
    S = draw(hnp.arrays(float, shape, elements=st.integers(-2, 2).map(float)))
    times = draw(hnp.arrays(int, shape[0], elements=st.integers(0, 3)))
    return Y, S, times


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    Y = (rng.random((40, 6)) < 0.4).astype(float)
    Y[:, 0], Y[:, 1] = 1, 0  # every row has both classes, and so has every label
    Y[0, 0], Y[0, 1] = 0, 1
    return Y, rng.integers(-2, 3, size=Y.shape).astype(float), rng.exponential(size=40)


def assert_same(found, expected):
    assert_allclose(list(found.values()), list(expected.values()), rtol=1e-12, atol=1e-12)
    assert found.keys() == expected.keys()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(drawn=weighted_tables())
def test_whole_weights_count_like_repeated_rows_in_every_protocol(protocol, drawn):
    Y, S, times = drawn
    repeated = np.repeat(Y, times, axis=0), np.repeat(S, times, axis=0)
    found = metrics.evaluate(Y, S, protocol=protocol, sample_weight=times)
    assert_same(found, metrics.evaluate(*repeated, protocol=protocol))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_only_ratios_of_weights_matter(protocol, table):
    Y, S, w = table
    found = metrics.evaluate(Y, S, protocol=protocol, sample_weight=w)
    assert_same(metrics.evaluate(Y, S, protocol=protocol, sample_weight=1e-3 * w), found)
    plain = metrics.evaluate(Y, S, protocol=protocol)
    assert all(not math.isclose(found[name], plain[name], rel_tol=1e-6) for name in plain)


def test_weights_are_those_of_sklearn(table):
    Y, S, w = table
    for ours, theirs in (
        (metrics.ranking_loss, skm.label_ranking_loss),
        (metrics.average_precision, skm.label_ranking_average_precision_score),
        (metrics.coverage, skm.coverage_error),
        (metrics.macro_auc, skm.roc_auc_score),
    ):
        assert_allclose(ours(Y, S, sample_weight=w), theirs(Y, S, sample_weight=w))
    expected = skm.roc_auc_score(Y, S, average="micro", sample_weight=w)
    assert_allclose(metrics.micro_auc(Y, S, sample_weight=w), expected)
    loss = skm.hamming_loss(Y, S > 0, sample_weight=w)
    assert_allclose(metrics.hamming_loss(Y, S, sample_weight=w), loss)
    for ours, average in (("macro", "macro"), ("micro", "micro"), ("example", "samples")):
        expected = skm.f1_score(Y, S > 0, average=average, zero_division=0, sample_weight=w)
        assert_allclose(getattr(metrics, f"{ours}_f1")(Y, S, sample_weight=w), expected)


def test_weights_of_views(table):
    Y, S, w = table
    views = {"a": Y, "b": Y[:10]}, {"a": S, "b": -S[:10]}
    found = metrics.evaluate(*views, sample_weight={"b": w[:10], "a": w})
    a = metrics.evaluate(Y, S, sample_weight=w)
    b = metrics.evaluate(Y[:10], -S[:10], sample_weight=w[:10])
    assert found == pytest.approx({name: (a[name] + b[name]) / 2 for name in a})


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, None, "2"])
def test_a_bad_weight_is_named(value):
    with pytest.raises(ValueError, match=r"sample_weight has .* in row 1; allowed are") as e:
        metrics.coverage([[1, 0], [0, 1]], [[1, 0], [0, 1]], sample_weight=[1, value])
    assert repr(value) in str(e.value)


@pytest.mark.parametrize("shape", [(), (3,), (2, 1)])
def test_weights_of_a_wrong_shape(shape):
    with pytest.raises(ValueError, match=r"sample_weight must be \(2,\), got shape \(.*\)\.$"):
        metrics.coverage([[1, 0], [0, 1]], [[1, 0], [0, 1]], sample_weight=np.ones(shape))


def test_weights_of_wrong_views():
    views = {"a": [[1, 0]]}, {"a": [[1.0, 0.0]]}
    with pytest.raises(
        ValueError, match="y_true, scores, sample_weight must all be tables, or all"
    ):
        metrics.evaluate(*views, sample_weight=[1.0])
    with pytest.raises(ValueError, match=r"same views; y_true lacks \['b'\]"):
        metrics.evaluate(*views, sample_weight={"b": [1.0]})
    with pytest.raises(ValueError, match=r"view 'a': sample_weight has -1.0 in row 0"):
        metrics.evaluate(*views, sample_weight={"a": [-1.0]})
