"""The protocol's promises, each as a property of random label tables."""

import math
import re
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse.csgraph import maximum_flow

from naim3l_bench.challenge import (
    hold_out_share,
    make_challenge,
    remove_views,
    split_rows,
    whole_share,
)

quick = settings(deadline=None, max_examples=60)
shapes = st.tuples(st.integers(4, 30), st.integers(1, 6))
label_tables = arrays(np.int8, shapes, elements=st.integers(0, 1))
percents = st.integers(0, 100)
seeds = st.integers(0, 2**32 - 1)


def floor_percent(percent, count):
    """Exact floor of a share given in hundredths, without floating point."""
    return math.floor(Fraction(percent, 100) * int(count))


def naive_first_positives(Y):
    rows = set()
    for column in np.asarray(Y).T:
        for i, value in enumerate(column):
            if value == 1:
                rows.add(i)
                break
    return sorted(rows)


@pytest.fixture(scope="module")
def Y():
    return (np.random.RandomState(0).random_sample((60, 5)) < 0.3).astype(int)


@pytest.fixture
def challenge(Y):
    return make_challenge(Y, 3, random_state=7)


def challenge_if_possible(Y, n_views, **options):
    """Challenge, or an example for hypothesis to skip where the labels allow none."""
    try:
        return make_challenge(Y, n_views, **options)
    except ValueError as error:
        assert re.match(r"test_size=.* can leave training|ratio .* impossible", str(error))
        reject()


# --- single steps -------------------------------------------------------------------------------


@quick
@given(label_tables, percents, seeds)
def test_split_keeps_first_positives_in_training(Y, percent, seed):
    n_samples = len(Y)
    n_test = floor_percent(percent, n_samples)
    largest = min(n_samples - len(naive_first_positives(Y)), n_samples - 1)
    if n_test > largest:
        with pytest.raises(ValueError, match="test_size"):
            split_rows(Y, test_size=percent / 100, random_state=seed)
        return
    train, test = split_rows(Y, test_size=percent / 100, random_state=seed)
    assert len(test) == n_test
    assert sorted([*train, *test]) == list(range(n_samples))
    assert (np.diff(train) > 0).all() and (np.diff(test) > 0).all()
    assert set(naive_first_positives(Y)) <= set(train.tolist())


def test_the_ratio_named_by_the_error_is_allowed(Y):
    with pytest.raises(ValueError, match="at most") as caught:
        remove_views(Y, 2, 0.5)
    ratio = float(str(caught.value).split("at most ")[1].rstrip("."))
    assert 0.4 < ratio < 0.5
    remove_views(Y, 2, ratio, random_state=0)
    with pytest.raises(ValueError, match="at most") as caught:
        split_rows(Y, test_size=0.99)
    split_rows(Y, test_size=float(str(caught.value).split("at most ")[1].rstrip(".")))


def test_rows_are_drawn_evenly():
    # Without labels nothing is protected, so every row has the same chance in every view.
    Y = np.zeros((10, 1), dtype=int)
    drawn = [make_challenge(Y, 3, test_size=0, random_state=seed) for seed in range(800)]
    for masks in ([one.present for one in drawn], [one.hidden for one in drawn]):
        assert np.abs(np.mean(masks, axis=0) - 0.5).max() < 0.1  # over five standard errors


def referee_flow(may_drop, capacity, n_drop):
    """Rows that can be dropped in all, as a maximum flow source -> views -> rows -> sink."""
    n_samples, n_views = may_drop.shape
    graph = np.zeros((n_samples + n_views + 2,) * 2, dtype=np.int32)
    views, rows = slice(1, 1 + n_views), slice(1 + n_views, 1 + n_views + n_samples)
    graph[0, views] = n_drop
    graph[views, rows] = may_drop.T
    graph[rows, -1] = capacity
    return maximum_flow(sp.csr_array(graph), 0, len(graph) - 1).flow_value


@quick
@given(st.data(), st.integers(4, 12), st.integers(1, 4), percents, seeds)
def test_really_missing_views_stay_missing_and_errors_are_real(data, n, n_views, percent, seed):
    Y = data.draw(arrays(np.int8, (n, 2), elements=st.integers(0, 1)))
    observed = data.draw(arrays(bool, (n, n_views)))
    assume(observed.any(axis=1).all())
    may_drop = observed.copy()
    may_drop[naive_first_positives(Y)] = False
    n_drop = [floor_percent(percent, column.sum()) for column in observed.T]
    flow = referee_flow(may_drop, observed.sum(axis=1) - 1, n_drop)
    if flow < sum(n_drop):
        with pytest.raises(ValueError, match=r"ratio .* impossible"):
            remove_views(Y, n_views, percent / 100, observed=observed, random_state=seed)
        return
    present = remove_views(Y, n_views, percent / 100, observed=observed, random_state=seed)
    dropped = observed & ~present
    assert not (present & ~observed).any()
    assert dropped.sum(axis=0).tolist() == n_drop
    assert not (dropped & ~may_drop).any()
    assert present.any(axis=1).all()


# --- shares -------------------------------------------------------------------------------------


@pytest.fixture
def labels(rng):
    """Labels 1, 0 and NaN of 120 rows; the last is never known to be yes."""
    Y = np.where(rng.random((120, 5)) < 0.3, np.nan, rng.random((120, 5)) < [0.5, 0.3, 0.2, 0.1, 0])
    return Y.astype(float)


@pytest.mark.parametrize("share", [0, 0.25, 0.3, 1])
def test_share_is_that_of_known_positives_and_negatives_rounded_down(labels, share):
    held_out = hold_out_share(labels, share, np.random.RandomState(0), values=(0, 1))
    assert not held_out[np.isnan(labels)].any()
    for value in (0, 1):
        of_value = labels == value
        expected = np.floor(share * of_value.sum(axis=0) + 1e-9)
        np.testing.assert_array_equal((held_out & of_value).sum(axis=0), expected)


def test_shares_are_those_of_exact_arithmetic():
    counts = np.arange(1000)
    for percent in range(101):
        np.testing.assert_array_equal(whole_share(percent / 100, counts), percent * counts // 100)


# --- seeds --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        lambda Y, seed: split_rows(Y, random_state=seed)[1],
        lambda Y, seed: remove_views(Y, 4, 0.5, random_state=seed),
        lambda Y, seed: make_challenge(Y, 4, random_state=seed).hidden,
        lambda Y, seed: make_challenge(Y, 4, random_state=seed).train_order[3],
        lambda Y, seed: make_challenge(Y, 4, random_state=seed).test_order[3],
    ],
)
def test_a_seed_decides(Y, step):
    np.testing.assert_array_equal(step(Y, 3), step(Y, 3))
    np.testing.assert_array_equal(step(Y, 3), step(Y, np.random.RandomState(3)))
    assert not np.array_equal(step(Y, 3), step(Y, 4))
    assert not np.array_equal(step(Y, None), step(Y, None))


def test_steps_draw_from_streams_of_their_own(Y):
    base = make_challenge(Y, 4, alpha=0.5, beta=0.5, random_state=3)
    for alpha, beta, aligned in [(0.0, 0.0, False), (0.3, 0.5, True), (0.5, 0.7, False)]:
        other = make_challenge(Y, 4, alpha=alpha, beta=beta, aligned=aligned, random_state=3)
        np.testing.assert_array_equal(other.train, base.train)
        np.testing.assert_array_equal(other.test, base.test)
        assert np.array_equal(other.hidden, base.hidden) == (beta == 0.5)
        assert np.array_equal(other.present, base.present) == (alpha == 0.5)
    fewer_views = make_challenge(Y, 2, alpha=0.2, random_state=3)
    np.testing.assert_array_equal(fewer_views.hidden, base.hidden)


# --- challenge ----------------------------------------------------------------------------------


@quick
@given(label_tables, st.integers(1, 4), percents, st.booleans(), seeds)
def test_challenge_follows_the_protocol(Y, n_views, percent, aligned, seed):
    options = {"alpha": percent / 100, "beta": 0.4, "test_size": 0.25, "aligned": aligned}
    challenge = challenge_if_possible(Y, n_views, **options, random_state=seed)
    train, test, n_train = challenge.train, challenge.test, len(challenge.train)
    assert len(test) == len(Y) // 4
    assert sorted([*train, *test]) == list(range(len(Y)))
    assert set(naive_first_positives(Y)) <= set(train.tolist())
    assert ((~challenge.present).sum(axis=0) == floor_percent(percent, n_train)).all()
    assert challenge.present.any(axis=1).all()
    for value in (0, 1):
        side = Y[train] == value
        expected = [floor_percent(40, count) for count in side.sum(axis=0)]
        assert (challenge.hidden & side).sum(axis=0).tolist() == expected
    for v in range(n_views):
        assert sorted(challenge.train_order[v]) == train[challenge.present[:, v]].tolist()
        assert sorted(challenge.test_order[v]) == test.tolist()
        if aligned:
            assert (np.diff(challenge.train_order[v]) > 0).all()
            assert (np.diff(challenge.test_order[v]) > 0).all()


@quick
@given(label_tables, st.integers(2, 3), seeds)
def test_applied_rows_carry_their_own_labels(Y, n_views, seed):
    # The only feature is the row number, so each row of the result tells where it came from.
    views = {f"v{v}": np.arange(len(Y))[:, None] + 1000 * v for v in range(n_views)}
    challenge = challenge_if_possible(Y, n_views, alpha=0.2, beta=0.5, random_state=seed)
    data = challenge.apply(views, Y)
    hidden = dict(zip(challenge.train.tolist(), challenge.hidden, strict=True))
    for v, name in enumerate(views):
        rows = data.X_train[name][:, 0] - 1000 * v
        for row, labels in zip(rows.tolist(), data.Y_train[name], strict=True):
            np.testing.assert_array_equal(np.isnan(labels), hidden[row])
            np.testing.assert_array_equal(labels[~hidden[row]], Y[row][~hidden[row]])
        assert sorted(rows) == challenge.train[challenge.present[:, v]].tolist()
        rows = data.X_test[name][:, 0] - 1000 * v
        assert sorted(rows) == challenge.test.tolist()
        np.testing.assert_array_equal(data.Y_test[name], Y[rows])
    for part in (data.X_train, data.Y_train, data.X_test, data.Y_test):
        assert list(part) == list(views)


@pytest.mark.parametrize(
    "make",
    [
        np.asarray,
        sp.csr_array,
        sp.csc_array,
        sp.coo_matrix,
        lambda X: pd.DataFrame(X, columns=["a", "b"]),
        lambda X: pl.DataFrame(X, schema=["a", "b"]),
    ],
    ids=["numpy", "csr", "csc", "coo", "pandas", "polars"],
)
def test_tables_of_every_library(Y, challenge, make):
    X = np.arange(2 * len(Y), dtype=np.uint8).reshape(-1, 2)
    table = make(X)
    data = challenge.apply({"a": table, "b": table, "c": table}, Y)
    for part, order in ((data.X_train, challenge.train_order), (data.X_test, challenge.test_order)):
        for got, rows in zip(part.values(), order, strict=True):
            assert sp.issparse(got) if sp.issparse(table) else type(got) is type(table)
            dense = got.toarray() if sp.issparse(got) else np.asarray(got)
            assert dense.dtype == X.dtype
            np.testing.assert_array_equal(dense, X[rows])


def test_really_missing_views_appear_nowhere(Y):
    observed = np.ones((len(Y), 3), dtype=np.uint8)
    observed[::2, 1] = 0
    challenge = make_challenge(Y, 3, alpha=0.3, observed=observed, random_state=0)
    for v in range(3):
        assert observed[challenge.train_order[v], v].all()
        expected = challenge.test[observed[challenge.test, v] == 1]
        assert sorted(challenge.test_order[v]) == expected.tolist()


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "shown"), [(2, "2"), (np.nan, "nan"), ("1", "'1'"), (None, "")])
def test_labels_other_than_0_and_1_are_named(value, shown):
    Y = np.array([[0, 1], [1, 0], [0, value]], dtype=object)
    for table in (Y, pd.DataFrame(Y)):
        with pytest.raises(ValueError, match=rf"Y has .*{shown}.* in row 2, column 1"):
            make_challenge(table, 2)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[(name, value) for name in ("alpha", "beta", "test_size") for value in (-0.1, "1", None)],
        ("n_views", 0),
        ("n_views", 2.0),
    ],
)
def test_errors_name_the_parameter(Y, name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of .* must be"):
        make_challenge(**{"Y": Y, "n_views": 3, name: value})


def test_observed_is_checked(Y):
    with pytest.raises(ValueError, match=r"observed has shape \(3, 2\); \(60, 2\) is needed"):
        make_challenge(Y, 2, observed=np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"observed has .*2.* in row 0, column 0; allowed are"):
        make_challenge(Y, 2, observed=np.full((len(Y), 2), 2))
    observed = np.ones((len(Y), 2))
    observed[5] = 0
    with pytest.raises(ValueError, match="observed has no view in row 5"):
        make_challenge(Y, 2, observed=observed)


def test_tables_that_do_not_fit_the_challenge(Y, challenge):
    X = np.zeros((len(Y), 2))
    views = {"a": X, "b": X, "c": X}
    with pytest.raises(ValueError, match="Y has shape"):
        challenge.apply(views, Y[:, :2])
    for tables, found in [
        ({"a": X}, "'a': 60}"),
        ([X] * 3, "list"),
        (views | {"b": X[1:]}, "'b': 59"),
    ]:
        with pytest.raises(ValueError, match=f"mapping of 3 names to tables of 60 rows.*{found}"):
            challenge.apply(tables, Y)
