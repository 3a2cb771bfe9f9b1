"""Folds and samples by hashes: balanced, independent, and the same for any chunks."""

from functools import reduce
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from naim3l._hashing import STEP, splitmix64
from naim3l.problem.sampling import ALL_BITS, RowSample, deal_keys, fold_keys

ROWS = np.arange(30_000)


def chi_square(observed):
    """Sum of squared differences from equal counts, relative to these; about its size - 1."""
    expected = observed.mean()
    return np.sum((observed - expected) ** 2) / expected


def test_hashes_are_those_of_the_published_generator():
    """The first numbers of SplitMix64 with seed 1234567, as its other implementations give them."""
    states = np.uint64(1234567) + np.arange(3, dtype=np.uint64) * STEP
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert splitmix64(states).tolist() == expected


def row_folds(n_folds, seed, view, rows, Y):
    """Fold of each entry of rows with these numbers."""
    return deal_keys(n_folds, fold_keys(seed, view, rows), Y)


class TestFolds:
    @pytest.mark.parametrize("n_folds", [2, 3, 5])
    @pytest.mark.parametrize("seed", [0, 1, 2**63 + 5])
    def test_they_are_balanced_and_independent_between_rows(self, n_folds, seed):
        folds = row_folds(n_folds, seed, 0, ROWS, np.ones((len(ROWS), 1)))[:, 0]
        assert folds.dtype == np.int8
        assert chi_square(np.bincount(folds, minlength=n_folds)) < n_folds + 15
        for step in (1, 2, 1000):
            pairs = np.bincount(n_folds * folds + np.roll(folds, step), minlength=n_folds**2)
            assert chi_square(pairs) < n_folds**2 + 35

    def test_known_entries_of_a_row_are_in_one(self, rng):
        Y = rng.integers(-1, 2, size=(200, 4))
        of_rows = row_folds(5, 3, 1, np.arange(200), np.ones((200, 1)))
        np.testing.assert_array_equal(
            row_folds(5, 3, 1, np.arange(200), Y), np.where(Y == 0, -1, of_rows)
        )

    def test_there_may_be_127(self):
        folds = row_folds(127, 0, 0, ROWS, np.ones((len(ROWS), 1)))
        assert (folds.min(), folds.max()) == (0, 126)

    def test_other_seeds_and_views_have_other_folds(self):
        Y = np.ones((len(ROWS), 2))
        given_by = [row_folds(3, seed, view, ROWS, Y) for seed, view in [(0, 0), (1, 0), (0, 1)]]
        for one, other in [(0, 1), (0, 2), (1, 2)]:
            assert np.mean(given_by[one] == given_by[other]) == pytest.approx(1 / 3, abs=0.01)

    def test_unknown_entries_are_in_none(self, rng):
        Y = rng.integers(-1, 2, size=(100, 3))
        folds = row_folds(3, 0, 0, np.arange(100), Y)
        np.testing.assert_array_equal(folds == -1, Y == 0)
        every = row_folds(3, 0, 0, np.arange(100), np.ones_like(Y))
        np.testing.assert_array_equal(folds[Y != 0], every[Y != 0])

    def test_they_depend_on_the_row_alone(self):
        Y = np.ones((300, 3))
        whole = row_folds(3, 0, 0, np.arange(300), Y)
        chosen = np.array([299, 3, 77])
        np.testing.assert_array_equal(row_folds(3, 0, 0, chosen, Y[:3]), whole[chosen])

    def test_no_rows(self):
        assert row_folds(3, 0, 0, np.arange(0), np.ones((0, 4))).shape == (0, 4)


def sample(rows, limit, **options):
    """Sample whose arrays are functions of the row numbers."""
    dense = np.column_stack([rows, rows**2])
    table = pd.DataFrame({"text": rows.astype(str)})
    return RowSample.of(limit, 0, 0, rows, [dense, sparse.csr_array(dense), table], **options)


class TestSamples:
    @settings(max_examples=30)
    @given(
        st.lists(st.integers(0, 200), max_size=6),
        st.sampled_from([0, 1, 10, 199, 200, 500]),
        st.randoms(),
    )
    def test_chunks_combine_to_the_sample_of_all_rows(self, cuts, limit, random):
        chunks = [
            sample(np.arange(a, b), limit, n_rows=random.choice([None, 200]))
            for a, b in pairwise(sorted([0, 200, *cuts]))
        ]
        random.shuffle(chunks)
        found, whole = reduce(RowSample.combine, chunks), sample(np.arange(200), limit)
        np.testing.assert_array_equal(found.rows, whole.rows)
        np.testing.assert_array_equal(found.hashes, whole.hashes)
        assert len(found.rows) == min(limit, 200) and (np.diff(found.rows) > 0).all()
        dense, sparse_rows, table = found.arrays
        np.testing.assert_array_equal(dense, np.column_stack([found.rows, found.rows**2]))
        np.testing.assert_array_equal(sparse_rows.toarray(), dense)
        assert list(table["text"]) == [str(row) for row in found.rows]

    def test_it_is_a_random_subset_independent_of_folds(self):
        found = RowSample.of(6000, 0, 0, ROWS, [])
        assert chi_square(np.bincount(found.rows // 3000)) < 30
        folds = row_folds(3, 0, 0, found.rows, np.ones((6000, 1)))
        assert chi_square(np.bincount(folds[:, 0])) < 15
        other = RowSample.of(6000, 1, 0, ROWS, [])
        assert np.isin(found.rows, other.rows).mean() == pytest.approx(0.2, abs=0.02)

    def test_a_chunk_keeps_few_more_than_its_share_if_the_number_of_rows_is_known(self):
        found = RowSample.of(1000, 0, 0, ROWS[:3000], [], n_rows=len(ROWS))
        assert 50 < len(found.rows) < 200
        chunks = [RowSample.of(1000, 0, 0, R, [], n_rows=len(ROWS)) for R in np.split(ROWS, 10)]
        whole = reduce(RowSample.combine, chunks)
        np.testing.assert_array_equal(whole.rows, RowSample.of(1000, 0, 0, ROWS, []).rows)

    def test_rows_up_to_a_hash(self):
        found = sample(np.arange(100), 30)
        every = sample(np.arange(100), 100)
        np.testing.assert_array_equal(every.up_to(found.highest).rows, found.rows)
        assert sample(np.arange(100), 100).highest == ALL_BITS

    def test_arrays_make_the_same_sample(self):
        found = sample(np.arange(100), 30)
        again = RowSample.from_arrays(found.to_arrays() | {"other": np.zeros(3)})
        assert (again.limit, again.highest) == (found.limit, found.highest)
        np.testing.assert_array_equal(again.rows, found.rows)
        np.testing.assert_array_equal(again.combine(again).hashes, found.combine(found).hashes)
        for A, B in zip(again.arrays, found.arrays, strict=True):
            np.testing.assert_array_equal(A, B.toarray() if sparse.issparse(B) else B)

    def test_all_rows_up_to_the_highest_hash_are_in_it(self):
        """Also if the table has fewer rows than were announced."""
        every = RowSample.of(len(ROWS), 0, 0, ROWS, [])
        for rows, n_rows in [(ROWS, None), (ROWS, len(ROWS)), (ROWS[::4], len(ROWS))]:
            found = RowSample.of(500, 0, 0, rows, [], n_rows=n_rows)
            expected = np.intersect1d(every.up_to(found.highest).rows, rows)
            np.testing.assert_array_equal(found.rows, expected)
