"""Statistics of chunks are those of the rows in memory: whole, and without each fold."""

from dataclasses import dataclass
from functools import reduce

import numpy as np
import pytest

from naim3l.problem.rows import Problem
from naim3l.problem.sampled import SampledProblem
from naim3l.problem.sampling import RowSample, deal_keys, fold_keys
from naim3l.problem.statistics_problem import StatisticsProblem
from naim3l.problem.sufficient_statistics import LabelCounts, RowStatistics
from naim3l.solvers import solve_fast
from naim3l.solvers.objective import Objective

N_FOLDS, SEED, WEIGHT, C = 3, 7, 2.5, 4


@dataclass
class Table:
    """Features of the rows that have a view, their numbers, and their labels."""

    X: np.ndarray
    rows: np.ndarray
    Y: np.ndarray


def draw(seed=0, *, wide=False, n=(160, 120), d=(4, 6)):
    """Views with their own rows, or those of the same table, of which each row lacks some."""
    rng = np.random.default_rng(seed)
    views, Y = [], None
    for n_v, d_v in zip(n, d, strict=True):
        n_v = n[0] if wide else n_v
        if Y is None or not wide:
            Y = np.where(rng.random((n_v, C)) < 0.3, 1, -1) * (rng.random((n_v, C)) < 0.5)
        rows = np.flatnonzero(rng.random(n_v) < 0.8) if wide else np.arange(n_v)
        views.append(Table(rng.normal(size=(len(rows), d_v)) + 0.5, rows, Y[rows].astype(np.int8)))
    return views


def sampled(views, *, wide=False, limit=10_000, n_chunks=3, n_folds=N_FOLDS, free=False):
    """The problem from chunks of the tables, as a pass over these makes it."""
    statistics, samples = [], []
    for v, table in enumerate(views):
        number, chunks, of_chunks = 0 if wide else v, [], []
        for at in np.array_split(np.arange(len(table.rows)), n_chunks):
            X, rows, Y = table.X[at], table.rows[at], table.Y[at]
            keys = fold_keys(SEED, number, rows)
            folds = deal_keys(n_folds, keys, Y)
            chunks.append(
                RowStatistics.of(X, Y, folds, n_folds=n_folds, fit_intercept=True, free=free)
            )
            of_chunks.append(RowSample.of(limit, SEED, number, rows, [X, Y, keys]))
        statistics.append(reduce(RowStatistics.combine, chunks))
        samples.append(reduce(RowSample.combine, of_chunks))
    return SampledProblem(
        statistics,
        samples,
        names=["one", "two"],
        n_folds=n_folds,
        positive_weight=WEIGHT,
        table_counts=counts_of(views, n_folds) if wide else None,
    )


def counts_of(views, n_folds):
    """Counts of the rows of a wide table with any view, each once."""
    rows, first = np.unique(np.concatenate([t.rows for t in views]), return_index=True)
    Y = np.concatenate([t.Y for t in views])[first]
    folds = deal_keys(n_folds, fold_keys(SEED, 0, rows), Y)
    return LabelCounts.of(Y, folds, n_folds=n_folds)


def in_memory(views, *, wide=False):
    samples = np.unique(np.concatenate([t.rows for t in views]), return_inverse=True)[1]
    return Problem(
        [t.X for t in views],
        [t.Y for t in views],
        positive_weight=WEIGHT,
        samples=samples if wide else None,
        names=["one", "two"],
    )


def assert_same(found, expected):
    for one, other in zip(found.views, expected.views, strict=True):
        for name in ("gram", "known_grams", "positive_gram", "targets", "weight", "n_positives"):
            given, wanted = np.asarray(getattr(one, name)), np.asarray(getattr(other, name))
            np.testing.assert_allclose(given, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())
        np.testing.assert_array_equal(one.heights, other.heights)
    for v in range(found.n_views):
        for R, S in zip(found.label_rows(v), expected.label_rows(v), strict=True):
            gram = S.T @ S
            np.testing.assert_allclose(R.T @ R, gram, rtol=0, atol=1e-12 * np.abs(gram).max())


@pytest.mark.parametrize("wide", [False, True], ids=["separate", "wide"])
@pytest.mark.parametrize("n_chunks", [1, 2, 200])  # of 200 chunks, some have no rows
def test_statistics_are_those_of_the_rows_in_memory(wide, n_chunks):
    views = draw(wide=wide)
    problem, rows = sampled(views, wide=wide, n_chunks=n_chunks), in_memory(views, wide=wide)
    np.testing.assert_array_equal(problem.sample.Y, rows.Y)
    for X, X_rows in zip(problem.sample.X, rows.X, strict=True):
        np.testing.assert_array_equal(X, X_rows)
    if wide:
        np.testing.assert_array_equal(problem.sample.samples, rows.samples)
    np.testing.assert_array_equal(problem.fold_of == -1, rows.Y == 0)
    assert_same(problem.whole, StatisticsProblem.of(rows))
    for fold in range(N_FOLDS):
        hidden = problem.fold_of == fold
        expected = StatisticsProblem.of(rows.without(hidden))
        assert_same(problem.without_fold(fold), expected)


def test_fits_on_either_have_the_same_weights():
    views = draw(1)
    problem, rows = sampled(views), in_memory(views)
    pairs = [
        (problem.whole, rows),
        (problem.without_fold(1), rows.without(problem.fold_of == 1)),
    ]
    for statistics, expected in pairs:
        W, W_rows = (
            solve_fast(Objective(form, 0.3, ridge=1.0), tol=1e-6, form="statistics").W
            for form in (statistics, expected)
        )
        np.testing.assert_allclose(W, W_rows, rtol=0, atol=1e-9 * np.abs(W_rows).max())


def test_the_bounding_ridge_of_either_is_the_same():
    views = draw(1)
    for table in views:  # hardly any positives, so that many rows are free
        table.Y[40:][table.Y[40:] > 0] = -1
    problem, rows = sampled(views, free=True), in_memory(views)
    expected = rows.bounding_ridge(20.0)
    assert expected > 0
    assert problem.whole.bounding_ridge(20.0) == pytest.approx(expected, rel=1e-9)
    for fold in range(N_FOLDS):
        expected = rows.without(problem.fold_of == fold).bounding_ridge(20.0)
        found = problem.without_fold(fold).bounding_ridge(20.0)
        assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("wide", [False, True], ids=["separate", "wide"])
def test_rates_are_those_of_all_rows_whatever_the_sample(wide):
    views = draw(2, wide=wide)
    problem, rows = sampled(views, wide=wide, limit=20), in_memory(views, wide=wide)
    np.testing.assert_array_equal(problem.label_counts, rows.label_counts)
    np.testing.assert_array_equal(problem.base_rates, rows.base_rates)
    np.testing.assert_array_equal(problem.table_rates, rows.table_rates)
    np.testing.assert_array_equal(problem.sample.base_rates, rows.base_rates)
    np.testing.assert_array_equal(problem.sample.table_rates, rows.table_rates)
    assert problem.n_rows == rows.n_rows


def test_a_sampled_row_of_a_wide_table_has_all_of_its_views():
    views = draw(3, wide=True)
    for table in views:
        table.X[:, 0] = table.rows
    problem = sampled(views, wide=True, limit=40)
    found = [X[:, 0] for X in problem.sample.X]
    together = np.unique(np.concatenate(found))
    for table, rows in zip(views, found, strict=True):
        np.testing.assert_array_equal(rows, np.intersect1d(table.rows, together))
    np.testing.assert_array_equal(together[problem.sample.samples], np.concatenate(found))
    assert 30 < len(together) < 80
    # Entries of one sample are held out together.
    folds = problem.sample.by_view_and_sample(problem.fold_of)
    both = ~np.isnan(folds).any(axis=(0, 2))
    np.testing.assert_array_equal(folds[0, both], folds[1, both])


@pytest.mark.parametrize("wide", [False, True], ids=["separate", "wide"])
def test_positives_of_a_label_that_are_all_in_one_fold_are_in_none(wide):
    views = draw(4, wide=wide)
    for table in views:  # one positive of label 0, in the same row of a wide table
        table.Y[:, 0] = np.where(table.Y[:, 0] > 0, -1, table.Y[:, 0])
    row = np.intersect1d(views[0].rows, views[1].rows)[3]
    for table in views if wide else views[:1]:
        table.Y[table.rows == row, 0] = 1
    problem, rows = sampled(views, wide=wide), in_memory(views, wide=wide)
    assert (problem.fold_of[:, 0][rows.Y[:, 0] > 0] == -1).all()
    assert (problem.fold_of[:, 0][rows.Y[:, 0] < 0] >= 0).all()
    for fold in range(N_FOLDS):
        expected = rows.without(problem.fold_of == fold)
        assert (expected.Y[:, 0] > 0).any()
        assert_same(problem.without_fold(fold), StatisticsProblem.of(expected))


def test_without_folds_nothing_is_held_out():
    views = draw(5)
    problem = sampled(views, n_folds=0)
    assert (problem.fold_of == -1).all()
    assert_same(problem.whole, StatisticsProblem.of(in_memory(views)))


def test_it_and_the_problem_in_memory_are_used_alike():
    views = draw(6)
    problem, rows = sampled(views, limit=10), in_memory(views)
    assert problem.sample.names == rows.sample.names == ["one", "two"]
    assert problem.whole.weight_slices == rows.whole.weight_slices
    assert rows.whole is rows.sample is rows.rows is rows and rows.fold_of is None
    assert problem.whole.rows is None and problem.rotated() is problem
    W = np.arange(1.0, problem.whole.targets.size + 1).reshape(problem.whole.targets.shape)
    for A, B in zip(problem.split_weights(W)[0], rows.split_weights(W)[0], strict=True):
        np.testing.assert_array_equal(A, B)
