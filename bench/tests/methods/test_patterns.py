"""Logistic tasks of patterns of views, from their definitions."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from naim3l.extend import AlignedRows
from naim3l_bench.arrays import consecutive_slices
from naim3l_bench.methods.imsf import (
    PatternTasks,
    columns_of_patterns,
    sort_patterns,
    standardisation,
)


@pytest.fixture
def rows(rng):
    """Three views, of which rows have one to three; half of the labels are unknown."""
    present = rng.random((3, 40)) < 0.6
    present[0] |= ~present.any(axis=0)
    features = [rng.normal(2, 3, size=(40, d)) * has[:, None]
                for d, has in zip((2, 3, 1), present, strict=True)]  # fmt: skip
    Y = rng.choice([-1.0, 0.0, 1.0], size=(40, 3))
    return AlignedRows(features, present, Y, positive_weight=1.5)


@pytest.fixture
def tasks(rows):
    return PatternTasks(rows, *standardisation(rows))


def task_of(tasks, pattern):
    return next(i for i, p in enumerate(tasks.patterns) if (p == pattern).all())


def naive_loss(tasks, rows, W, k):
    """Sum over tasks of the mean loss, row by row."""
    mean, scale = standardisation(rows)
    X = (np.hstack(rows.features) - mean) / scale
    sums, totals, seen = {}, {}, {}
    for i, y in enumerate(rows.Y[:, k]):
        if y != 0:
            p = task_of(tasks, rows.present[:, i])
            w = W[tasks.weight_slices[p], k]
            score = X[i][np.repeat(rows.present[:, i], rows.widths)] @ w[:-1] + w[-1]
            weight = rows.positive_weight if y > 0 else 1
            sums[p] = sums.get(p, 0) + weight * np.log(1 + np.exp(-y * score))
            totals[p] = totals.get(p, 0) + weight
            seen.setdefault(p, set()).add(y)
    return sum(sums[p] / totals[p] for p in sums if len(seen[p]) == 2)


def test_patterns_are_ordered_by_views_and_then_rows():
    present = np.array([[1, 1, 1, 0, 0, 1, 0], [0, 1, 0, 1, 1, 1, 1]], dtype=bool)
    patterns, order, counts = sort_patterns(present)
    assert patterns.tolist() == [[True, True], [False, True], [True, False]]
    assert order.tolist() == [1, 5, 3, 4, 6, 0, 2] and counts.tolist() == [2, 3, 2]
    columns = columns_of_patterns(patterns, [2, 1])
    assert [at.tolist() for at in columns] == [[0, 1, 2], [2], [0, 1]]


def test_features_are_standardised_over_the_rows_that_have_them(rows):
    mean, scale = standardisation(rows)
    for X, has, at in zip(
        rows.features, rows.present, consecutive_slices(rows.widths), strict=True
    ):
        np.testing.assert_allclose(mean[at], X[has].mean(axis=0))
        np.testing.assert_allclose(scale[at], X[has].std(axis=0))


def test_losses_are_means_over_the_known_rows_of_each_trained_task(tasks, rows, rng):
    W = rng.normal(size=tasks.start.shape)
    expected = [naive_loss(tasks, rows, W, k) for k in range(3)]
    np.testing.assert_allclose(tasks.losses(W), expected)
    np.testing.assert_allclose(tasks.losses(W[:, [2]], np.array([2])), expected[2:])


def test_the_gradient_is_that_of_finite_differences(tasks, rng):
    W = 0.3 * rng.normal(size=tasks.start.shape)
    for k in range(3):
        at = np.array([k])
        numeric = approx_fprime(W[:, k], lambda w, at=at: tasks.losses(w[:, None], at)[0], 1e-7)
        np.testing.assert_allclose(tasks.gradient(W[:, at], at)[:, 0], numeric, atol=1e-6)


def test_groups_have_the_weights_of_a_feature_in_all_tasks_with_its_view(tasks, rng):
    W = rng.normal(size=tasks.start.shape)
    norms = tasks.norms(W)
    for feature in range(6):
        held = [W[at][list(columns).index(feature)]
                for at, columns in zip(tasks.weight_slices, tasks.columns, strict=True)
                if feature in columns]  # fmt: skip
        np.testing.assert_allclose(norms[feature], np.linalg.norm(held, axis=0))


def test_the_prox_minimises_its_objective(tasks, rng):
    V, thresholds = rng.normal(size=tasks.start.shape), np.array([0.3, 1.0, 3.0])

    def value(W):
        return np.sum((W - V) ** 2, axis=0) / 2 + thresholds * tasks.norms(W).sum(axis=0)

    W = tasks.prox(V, thresholds)
    for _ in range(50):  # a point that is best in a convex problem is best among its neighbours
        other = W + rng.normal(scale=rng.choice([1e-3, 0.1, 1]), size=W.shape)
        # 1-strong convexity: every other point is worse by half of its squared distance.
        assert (value(other) >= value(W) + np.sum((other - W) ** 2, axis=0) / 2 - 1e-9).all()
    intercepts = [at.stop - 1 for at in tasks.weight_slices]
    np.testing.assert_array_equal(W[intercepts], V[intercepts])
    assert not tasks.prox(V, np.full(3, 1e3))[np.setdiff1d(range(len(V)), intercepts)].any()


def test_the_start_is_the_best_without_features(tasks):
    intercepts = [at.stop - 1 for at in tasks.weight_slices]
    assert np.abs(tasks.gradient(tasks.start)[intercepts]).max() < 1e-12
    others = np.delete(tasks.start, intercepts, axis=0)
    assert not others.any()


def test_tasks_of_one_known_value_are_left_out(rows):
    Y = rows.Y.copy()
    alone = (rows.present == rows.present[:, :1]).all(axis=0)
    Y[alone, 0] = np.where(Y[alone, 0] > 0, 0, Y[alone, 0])
    tasks = PatternTasks(rows.with_labels(Y), *standardisation(rows))
    p = task_of(tasks, rows.present[:, 0])
    assert not tasks.trained[p, 0]
    assert not tasks.omega[tasks.row_slices[p], 0].any()


@pytest.mark.parametrize("min_rows", [1, 2, 3, 30])
def test_tasks_need_known_rows_of_each_value_or_half_as_many_as_the_best(rows, min_rows):
    rows.Y[(rows.present[:, :1] == rows.present).all(axis=0)] = 0  # some have no known labels
    found = PatternTasks(rows, *standardisation(rows), min_rows)
    for k in range(3):
        known = [rows.Y[(p == rows.present.T).all(axis=1), k].tolist() for p in found.patterns]
        fewer = [min(y.count(1), y.count(-1)) for y in known]
        expected = [n > 0 and (n >= min_rows or 2 * n >= max(fewer)) for n in fewer]
        assert any(expected) and found.trained[:, k].tolist() == expected
