"""Sums without rows: their definitions, over any division of the rows into chunks."""

from functools import reduce
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from naim3l.problem.shareable import GramStatistics, Occurrences
from naim3l.problem.sufficient_statistics import RowStatistics

LEAST = 10


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    return X, rng.choice([-1, 0, 1], size=(300, 4)).astype(np.int8)


def chunks(X, Y, n):
    return [(X[at], Y[at]) for at in np.array_split(np.arange(len(Y)), n)]


def sums(X, Y):
    return GramStatistics.of(RowStatistics.of(X, Y, fit_intercept=True))


@pytest.mark.parametrize("n_chunks", [1, 4, 30])
def test_sums_are_those_of_their_definition(rows, n_chunks):
    X, Y = rows
    found = reduce(GramStatistics.combine, [sums(*chunk) for chunk in chunks(X, Y, n_chunks)])
    Z = np.pad(X, [(0, 0), (0, 1)], constant_values=1)
    assert_allclose(found.gram, Z.T @ Z)
    for k, y in enumerate(Y.T):
        assert_allclose(found.known_grams[k], Z[y != 0].T @ Z[y != 0])
        assert_allclose(found.positive_grams[k], Z[y > 0].T @ Z[y > 0])
        assert_allclose(found.targets[:, k], Z.T @ y, atol=1e-9)
        assert_allclose(found.positive_sums[:, k], Z[y > 0].sum(axis=0))
    back = found.rows()
    for k, R in enumerate(np.split(back.factors, np.cumsum(back.heights)[:-1])):
        assert_allclose(R.T @ R, found.positive_grams[k], atol=1e-9)


def test_a_root_has_no_more_rows_than_there_are(rows):
    X, Y = rows
    Y[:, 0] = 0
    Y[:3, 0] = 1
    Y[:, 1] = -1
    assert sums(X, Y).rows().heights.tolist()[0][:2] == [3, 0]


def test_sums_are_taken_away(rows):
    X, Y = rows
    whole, part = sums(X, Y), sums(X[:100], Y[:100])
    for name, array in whole.minus(part).to_arrays().items():
        assert_allclose(array, sums(X[100:], Y[100:]).to_arrays()[name], atol=1e-9)
    with pytest.raises(ValueError, match="not there"):
        part.minus(whole)


def few(n_rows):
    return 0 < n_rows < LEAST


def must_go(Y, left):
    """Whether sums over sets of rows of the labels that are left tell of few rows."""
    sets = [{*np.flatnonzero(Y[:, k] == sign)} for k in left for sign in (1, -1, 0)]
    owner = [k for k in left for _ in range(3)]
    if any(few(len(of)) for of in sets):
        return True
    everyone = {*range(len(Y))}
    return any(
        few(len(sets[i] ^ sets[j])) or few(len(everyone - (sets[i] ^ sets[j])))
        for i, j in combinations(range(len(sets)), 2)
        if owner[i] != owner[j]
    )


@pytest.mark.parametrize("seed", range(8))
def test_labels_are_left_out_until_no_sum_and_no_difference_is_of_few_rows(seed):
    rng = np.random.default_rng(seed)
    Y = rng.choice([-1, 0, 1], size=(200, 6)).astype(np.int8)
    Y[:, 1] = np.where(np.arange(200) < seed, 1, -1)  # fewer than 10 yes
    Y[:, 3] = Y[:, 2]
    Y[rng.choice(200, 3 * seed, replace=False), 3] = 0  # differs in up to 21 rows
    Y[:, 5] = -Y[:, 4]  # differs in none
    found = reduce(
        Occurrences.combine, [Occurrences.of(*c) for c in chunks(np.empty((200, 0)), Y, 7)]
    )
    rare = found.rare_labels(LEAST)
    left = np.flatnonzero(~rare).tolist()
    assert not must_go(Y, left)
    for k in np.flatnonzero(rare):  # none is left out in vain
        assert must_go(Y, [*left, int(k)])
    assert {0, 4, 5} <= {*left} and (1 in left) == (seed == 0)


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("n_chunks", [1, 3, 40])
def test_columns_that_few_rows_have_are_found_in_any_chunks(n_chunks, as_sparse):
    rng = np.random.default_rng(0)
    X = np.zeros((400, 12))
    for j in range(12):  # so many rows have another value
        X[rng.choice(400, 2 * j, replace=False), j] = rng.normal(size=2 * j)
    X[:, ::2] += 3.0
    given = sparse.csr_array(X) if as_sparse else X
    Y = np.zeros((400, 1), dtype=np.int8)
    found = reduce(Occurrences.combine, [Occurrences.of(*c) for c in chunks(given, Y, n_chunks)])
    assert_array_equal(found.rare_columns(LEAST), [0 < 2 * j < LEAST for j in range(12)])
