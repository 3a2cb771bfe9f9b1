"""Statistics of streamed parts are those of the rows in memory: whole, and without each fold."""

from dataclasses import dataclass
from functools import reduce

import numpy as np
import pytest

from naim3l.decisions.rules import rates_by_block
from naim3l.problem.boundedness import bounding_ridge
from naim3l.problem.compressed import CompressedProblem
from naim3l.problem.row_sums import LabelCounts, PartStatistics
from naim3l.problem.rows import Problem
from naim3l.problem.sampling import RowSample, entry_folds
from naim3l.problem.streamed import StreamedProblem
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


def streamed(views, *, wide=False, limit=10_000, n_parts=3, n_folds=N_FOLDS, free=False):
    """The problem from parts of the tables, as a pass over these makes it."""
    statistics, samples = [], []
    for v, table in enumerate(views):
        number, parts, sampled = 0 if wide else v, [], []
        for at in np.array_split(np.arange(len(table.rows)), n_parts):
            X, rows, Y = table.X[at], table.rows[at], table.Y[at]
            folds = entry_folds(n_folds, SEED, number, rows, Y) if n_folds else None
            parts.append(
                PartStatistics.of(X, Y, folds, n_folds=n_folds, fit_intercept=True, free=free)
            )
            sampled.append(RowSample.of(limit, SEED, number, rows, [X, Y]))
        statistics.append(reduce(PartStatistics.combine, parts))
        samples.append(reduce(RowSample.combine, sampled))
    return StreamedProblem(
        statistics,
        samples,
        seed=SEED,
        names=["one", "two"],
        n_folds=n_folds,
        positive_weight=WEIGHT,
        table_counts=counts_of(views, n_folds) if wide else None,
    )


def counts_of(views, n_folds):
    """Counts of the rows of a wide table with any view, each once."""
    rows, first = np.unique(np.concatenate([t.rows for t in views]), return_index=True)
    Y = np.concatenate([t.Y for t in views])[first]
    folds = entry_folds(n_folds, SEED, 0, rows, Y) if n_folds else None
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
        for R, S in zip(one.factors, other.factors, strict=True):
            assert R.shape == S.shape
            gram = S.T @ S
            np.testing.assert_allclose(R.T @ R, gram, rtol=0, atol=1e-12 * np.abs(gram).max())


@pytest.mark.parametrize("wide", [False, True], ids=["apart", "wide"])
@pytest.mark.parametrize("n_parts", [1, 2, 200])  # of 200 parts, some have no rows
def test_statistics_are_those_of_the_rows_in_memory(wide, n_parts):
    views = draw(wide=wide)
    problem, rows = streamed(views, wide=wide, n_parts=n_parts), in_memory(views, wide=wide)
    np.testing.assert_array_equal(problem.sample.Y, rows.Y)
    for X, X_rows in zip(problem.sample.X, rows.X, strict=True):
        np.testing.assert_array_equal(X, X_rows)
    if wide:
        np.testing.assert_array_equal(problem.sample.samples, rows.samples)
    np.testing.assert_array_equal(problem.fold_of == -1, rows.Y == 0)
    assert_same(problem.whole, CompressedProblem.from_problem(rows))
    for fold in range(N_FOLDS):
        hidden = problem.fold_of == fold
        expected = CompressedProblem.from_problem(rows.without(hidden))
        assert_same(problem.without_fold(fold), expected)


def test_fits_on_either_have_the_same_weights():
    views = draw(1)
    problem, rows = streamed(views), in_memory(views)
    pairs = [
        (problem.whole, rows),
        (problem.without_fold(1), rows.without(problem.fold_of == 1)),
    ]
    for compressed, expected in pairs:
        W, W_rows = (
            solve_fast(Objective(form, 0.3, ridge=1.0), tol=1e-6, form="compressed").W
            for form in (compressed, expected)
        )
        np.testing.assert_allclose(W, W_rows, rtol=0, atol=1e-9 * np.abs(W_rows).max())


def test_the_bounding_ridge_of_either_is_the_same():
    views = draw(1)
    for table in views:  # hardly any positives, so that many rows are free
        table.Y[40:][table.Y[40:] > 0] = -1
    problem, rows = streamed(views, free=True), in_memory(views)
    expected = bounding_ridge(rows, 20.0)
    assert expected > 0
    assert bounding_ridge(problem.whole, 20.0) == pytest.approx(expected, rel=1e-9)
    for fold in range(N_FOLDS):
        expected = bounding_ridge(rows.without(problem.fold_of == fold), 20.0)
        found = bounding_ridge(problem.without_fold(fold), 20.0)
        assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("wide", [False, True], ids=["apart", "wide"])
def test_rates_are_those_of_all_rows_whatever_the_sample(wide):
    views = draw(2, wide=wide)
    problem, rows = streamed(views, wide=wide, limit=20), in_memory(views, wide=wide)
    blocks = ["fused"] if wide else ["one", "two"]
    np.testing.assert_allclose(problem.base_rates, rows.base_rates)
    np.testing.assert_allclose(problem.sample.base_rates, rows.base_rates)
    found, expected = problem.view_rates(blocks), rates_by_block(rows, blocks)
    for given, wanted in zip(found.values(), expected.values(), strict=True):
        np.testing.assert_allclose(given, wanted)
    assert problem.n_rows == rows.n_rows


def test_a_sampled_row_of_a_wide_table_has_all_of_its_views():
    views = draw(3, wide=True)
    for table in views:
        table.X[:, 0] = table.rows
    problem = streamed(views, wide=True, limit=40)
    sampled = [X[:, 0] for X in problem.sample.X]
    together = np.unique(np.concatenate(sampled))
    for table, rows in zip(views, sampled, strict=True):
        np.testing.assert_array_equal(rows, np.intersect1d(table.rows, together))
    np.testing.assert_array_equal(together[problem.sample.samples], np.concatenate(sampled))
    assert 30 < len(together) < 80
    # Entries of one sample are held out together.
    folds = problem.sample.by_view_and_sample(problem.fold_of)
    both = ~np.isnan(folds).any(axis=(0, 2))
    np.testing.assert_array_equal(folds[0, both], folds[1, both])


@pytest.mark.parametrize("wide", [False, True], ids=["apart", "wide"])
def test_positives_of_a_label_that_are_all_in_one_fold_are_in_none(wide):
    views = draw(4, wide=wide)
    for table in views:  # one positive of label 0, in the same row of a wide table
        table.Y[:, 0] = np.where(table.Y[:, 0] > 0, -1, table.Y[:, 0])
    row = np.intersect1d(views[0].rows, views[1].rows)[3]
    for table in views if wide else views[:1]:
        table.Y[table.rows == row, 0] = 1
    problem, rows = streamed(views, wide=wide), in_memory(views, wide=wide)
    assert (problem.fold_of[:, 0][rows.Y[:, 0] > 0] == -1).all()
    assert (problem.fold_of[:, 0][rows.Y[:, 0] < 0] >= 0).all()
    for fold in range(N_FOLDS):
        expected = rows.without(problem.fold_of == fold)
        assert (expected.Y[:, 0] > 0).any()
        assert_same(problem.without_fold(fold), CompressedProblem.from_problem(expected))


def test_without_folds_nothing_is_held_out():
    views = draw(5)
    problem = streamed(views, n_folds=0)
    assert (problem.fold_of == -1).all()
    assert_same(problem.whole, CompressedProblem.from_problem(in_memory(views)))


def test_it_has_the_shapes_of_the_problem_in_memory(rng):
    views = draw(6)
    problem, rows = streamed(views, limit=10), in_memory(views)
    assert problem.names == rows.names and problem.weight_slices == rows.weight_slices
    assert (problem.n_weights, problem.n_labels) == (rows.n_weights, rows.n_labels)
    W = rng.normal(size=(problem.n_weights, problem.n_labels))
    for found, expected in zip(problem.split_weights(W), rows.split_weights(W), strict=True):
        for A, B in zip(found, expected, strict=True):
            np.testing.assert_array_equal(A, B)
