"""Blocks of the objective of GLOCAL: its definition, and the law of each update."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from naim3l_bench.methods import glocal as correlations
from naim3l_bench.methods.glocal import Factors, LabelCorrelations, Weights

WEIGHTS = Weights(latent=0.7, local=0.05, overall=0.3, V=0.2, U=0.4, W=0.6)
BLOCKS = ["V", "U", "W"]


def draw(seed=0, n_rows=25, n_features=6, n_labels=5, rank=3, n_clusters=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    Y = rng.choice([-1.0, 0.0, 1.0], size=(n_rows, n_labels))
    P = np.where(Y > 0, 2.0, np.abs(Y))
    clusters = np.arange(n_clusters)[:, None] == rng.integers(0, n_clusters, n_rows)
    Z = rng.normal(size=(n_clusters, n_labels, 4))
    at = Factors(
        U=rng.normal(size=(n_labels, rank)),
        V=rng.normal(size=(n_rows, rank)),
        W=rng.normal(size=(n_features, rank)),
        Z=Z / np.linalg.norm(Z, axis=2, keepdims=True),
    )
    return X, Y, P, clusters, at


def naive(X, Y, P, clusters, at, weights=WEIGHTS):
    """The objective, entry by entry and with Laplacians."""
    value = 0.0
    for i, k in np.ndindex(Y.shape):
        value += P[i, k] * (at.V[i] @ at.U[k] - Y[i, k]) ** 2 / 2
    for i, x in enumerate(X):
        value += weights.latent / 2 * np.sum((at.V[i] - at.W.T @ x) ** 2)
    F = X @ at.W @ at.U.T
    for rows, Z_q in zip(clusters, at.Z, strict=True):
        L, F_q = Z_q @ Z_q.T, F[rows]
        value += weights.overall * rows.sum() / len(X) / 2 * np.trace(F @ L @ F.T)
        value += weights.local / 2 * np.trace(F_q @ L @ F_q.T)
    for name in BLOCKS:
        value += getattr(weights, name) / 2 * np.sum(getattr(at, name) ** 2)
    return value


def test_the_objective_is_that_of_the_definition():
    *data, at = draw()
    assert LabelCorrelations(*data, WEIGHTS).objective(at) == pytest.approx(naive(*data, at))


def slopes(value, at, name, step=1e-5):
    """Derivatives of the objective in the entries of a block, by finite differences."""
    block = getattr(at, name)
    found = np.empty_like(block)
    for entry in np.ndindex(block.shape):
        moved = np.zeros_like(block)
        moved[entry] = step
        up, down = (value(replace(at, **{name: block + sign * moved})) for sign in (1, -1))
        found[entry] = (up - down) / (2 * step)
    return found


@pytest.mark.parametrize("pairs", [2**22, 20], ids=["at once", "in parts"])
@pytest.mark.parametrize("name", BLOCKS)
def test_an_update_is_where_the_derivatives_vanish(name, pairs, monkeypatch):
    monkeypatch.setattr(correlations, "PAIR_NUMBERS", pairs)
    *data, at = draw()
    objective = LabelCorrelations(*data, WEIGHTS)
    assert np.abs(slopes(objective.objective, at, name)).max() > 0.1
    at = replace(at, **{name: getattr(objective, f"solve_{name}")(at)})
    assert np.abs(slopes(objective.objective, at, name)).max() < 1e-5


def test_rows_of_laplacians_keep_their_length_and_are_the_best_given_the_others():
    *data, at = draw()
    objective = LabelCorrelations(*data, WEIGHTS)
    better = replace(at, Z=objective.solve_Z(at))
    np.testing.assert_allclose(np.linalg.norm(better.Z, axis=2), 1)
    assert objective.objective(better) < objective.objective(at)
    rng, last = np.random.default_rng(1), better.Z.shape[1] - 1
    for _ in range(20):  # the last row was updated last, so the others have not changed since
        other = better.Z.copy()
        row = rng.normal(size=other.shape[2])
        other[:, last] = row / np.linalg.norm(row)
        assert objective.objective(replace(better, Z=other)) > objective.objective(better)


@pytest.mark.parametrize("seed", range(3))
def test_no_update_raises_the_objective(seed):
    *data, at = draw(seed)
    objective = LabelCorrelations(*data, WEIGHTS)
    values = [objective.objective(at)]
    for name in ["Z", *BLOCKS] * 4:
        at = replace(at, **{name: getattr(objective, f"solve_{name}")(at)})
        values.append(objective.objective(at))
    assert all(after <= before + 1e-9 for before, after in pairwise(values))


def test_labels_without_scores_keep_their_rows():
    *data, at = draw()
    at = replace(at, U=np.zeros_like(at.U))
    np.testing.assert_array_equal(LabelCorrelations(*data, WEIGHTS).solve_Z(at), at.Z)
