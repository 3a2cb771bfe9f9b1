"""How many rows have a view, also if some of its columns are left out."""

from functools import reduce

import numpy as np
import pytest
from scipy import sparse

from naim3l.features import row_patterns
from naim3l.features.row_patterns import RowPatterns


def in_parts(missing, cuts):
    return reduce(RowPatterns.combine, map(RowPatterns.of, np.split(missing, cuts)))


@pytest.mark.parametrize("n_columns", [3, 8, 70, 130])
def test_rows_that_lack_the_columns_left(rng, n_columns):
    missing = rng.random((40, n_columns)) < rng.choice([0.2, 0.98], size=(40, 1))
    missing[:3], missing[3:5] = True, False
    patterns = in_parts(missing, [0, 7, 31])
    assert patterns == RowPatterns.of(missing)
    assert patterns.n_present == (~missing).any(axis=1).sum()
    for _ in range(5):
        columns = rng.permutation(n_columns)[: rng.integers(1, n_columns)].tolist()
        assert patterns.select_columns(columns) == RowPatterns.of(missing[:, columns])


def test_too_many_patterns(rng, monkeypatch):
    missing = rng.random((300, 70)) < 0.5
    assert len(RowPatterns.of(missing).partly) == 300
    monkeypatch.setattr(row_patterns, "MOST_PATTERNS", 50)
    for patterns in (in_parts(missing, [30, 60]), RowPatterns.of(missing)):
        assert patterns.partly is None and patterns.select_columns([0]).n_present == 300


def test_sparse_masks():
    missing = np.array([[True, True], [False, False], [False, True]])
    assert RowPatterns.of(sparse.csr_array(missing)) == RowPatterns(2, 2, None)
    assert RowPatterns.of(sparse.csr_array(missing[:2])) == RowPatterns(2, 1, {})
