"""Correlations as sums, and conditional means of a Gaussian model that is known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from naim3l.decisions import label_correlation
from naim3l.decisions.label_correlation import Conditional, LabelCorrelation


@pytest.fixture
def R(rng):
    return np.corrcoef(rng.normal(size=(7, 12)))


@pytest.fixture
def values(rng):
    found = rng.normal(size=(40, 7))
    found[rng.random((40, 7)) < 0.5] = np.nan
    found[0], found[1, 1:] = np.nan, np.nan
    found[2] = rng.normal(size=7)
    return found


def conditional_mean(R, noise, row, k):
    """Of label k given the known ones of a row except itself, of R plus noise, from definition."""
    J = [j for j in np.flatnonzero(np.isfinite(row)) if j != k]
    return R[k, J] @ np.linalg.inv(R[np.ix_(J, J)] + noise * np.eye(len(J))) @ row[J] if J else 0.0


@pytest.mark.parametrize("noise", [0.1, 1.0])
@pytest.mark.parametrize("most_exact", [64, 3])
def test_expected_values_are_conditional_means(R, values, noise, most_exact, monkeypatch):
    """With many labels, of the matrix with few axes."""
    monkeypatch.setattr(label_correlation, "MOST_EXACT", most_exact)
    monkeypatch.setattr(label_correlation, "N_AXES", 3)
    monkeypatch.setattr(label_correlation, "ROWS_AT_ONCE", 11)
    conditional = Conditional.of(R)
    L = conditional.loadings
    taken = L @ L.T + np.diag(conditional.rest)
    if most_exact > 7:
        assert_allclose(taken, R)
    assert_allclose(np.diag(taken), 1)
    expected, left_out = conditional.expected(values, noise), conditional.left_out(values, noise)
    for i, row in enumerate(values):
        for k in range(7):
            found, other = expected[i, k], left_out[i, k]
            if np.isfinite(row[k]):
                found, other = other, found
            assert_allclose(found, conditional_mean(taken, noise, row, k), atol=1e-12)
            assert np.isnan(other)


def test_sums_of_parts_are_those_of_all_rows(values):
    whole = LabelCorrelation.of(values)
    parts = [LabelCorrelation.of(values[rows]) for rows in (slice(9), slice(9, 30), slice(30, 40))]
    total = LabelCorrelation.total(parts)
    assert_allclose(total.products, whole.products)
    assert_allclose((total - parts[1]).counts, (parts[0] + parts[2]).counts)
    both = np.isfinite(values[:, 2]) & np.isfinite(values[:, 5])
    assert whole.counts[2, 5] == both.sum()
    assert_allclose(whole.products[2, 5], (values[both, 2] * values[both, 5]).sum())


def test_correlations_are_those_of_the_values_with_many_rows(rng, R):
    drawn = rng.multivariate_normal(np.zeros(7), R, 20_000)
    drawn[rng.random(drawn.shape) < 0.3] = np.nan
    assert_allclose(LabelCorrelation.of(drawn).matrix(), R, atol=0.05)


def test_a_matrix_of_pairs_known_in_different_rows_becomes_positive_definite():
    """Three labels, of which each pair is opposite in the rows in which both are known."""
    opposite = np.array([[1.0, -1], [-1, 1]] * 50)
    values = np.full((300, 3), np.nan)
    for i, pair in enumerate(([0, 1], [1, 2], [0, 2])):
        values[100 * i : 100 * (i + 1), pair] = opposite
    R = LabelCorrelation.of(values).matrix()
    assert np.linalg.eigvalsh(R)[0] > 0.01
    assert_allclose(np.diag(R), 1)
    assert (R[np.triu_indices(3, 1)] < -0.4).all()


def test_a_permutation_of_labels_and_rows_changes_nothing(R, values, rng):
    labels, rows = rng.permutation(7), rng.permutation(40)
    one = Conditional.of(R).expected(values, 0.3)
    other = Conditional.of(R[np.ix_(labels, labels)]).expected(values[rows][:, labels], 0.3)
    assert_allclose(other, one[rows][:, labels], atol=1e-12)
