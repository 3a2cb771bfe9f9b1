"""Symmetric matrices as their upper triangles, which are half as many numbers to send."""

import numpy as np

from naim3l._arrays import Matrix


def triangles(G: Matrix) -> Matrix:
    """Upper triangles (..., n (n + 1) / 2) of symmetric matrices (..., n, n), row by row."""
    return np.ascontiguousarray(G[(..., *np.triu_indices(G.shape[-1]))])


def symmetric(of: Matrix) -> Matrix:
    """Symmetric matrices (..., n, n) from their upper triangles."""
    n = int(np.sqrt(2 * of.shape[-1]))
    G, (i, j) = np.empty((*of.shape[:-1], n, n)), np.triu_indices(n)
    G[..., i, j] = G[..., j, i] = of
    return G
