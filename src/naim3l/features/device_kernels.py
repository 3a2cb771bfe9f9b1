"""Distances and cluster centres of rows on a device of torch, such as a GPU.

They have the values of the functions of scikit-learn on the CPU, except for rounding.
"""

from typing import Any

import numpy as np

from naim3l._arrays import Matrix, as_numpy
from naim3l.problem.on_device import find_device

# Numbers of a block of pairs of rows, whose columns are compared one by one.
BLOCK_NUMBERS = 2**27
# Centres have settled when they move by less than this share of the columns' mean variance.
SETTLED = 1e-4


def squared_distances(A: Any, B: Any, device: str) -> Matrix:
    """Squared Euclidean distances of two tables of rows, (n, m)."""
    A, B = _move(A, device), _move(B, device)
    return as_numpy(_squared(A, B).clamp_(min=0))


def chi2_distances(A: Any, B: Any, device: str) -> Matrix:
    """``sum (x - y)^2 / (x + y)`` of two tables of rows, (n, m)."""
    A, B = _move(A, device), _move(B, device)
    found = A.new_empty((A.shape[0], B.shape[0]))
    step = max(1, BLOCK_NUMBERS // max(1, B.shape[0] * B.shape[1]))
    for start in range(0, A.shape[0], step):
        x = A[start : start + step, None]
        total = x + B
        found[start : start + step] = ((x - B).square() / total.where(total > 0, 1.0)).sum(dim=-1)
    return as_numpy(found)


def manhattan_distances(A: Any, B: Any, device: str) -> Matrix:
    """``sum |x - y|`` of two tables of rows, (n, m)."""
    import torch

    return as_numpy(torch.cdist(_move(A, device), _move(B, device), p=1.0))


def inner_products(A: Any, B: Any, device: str) -> Matrix:
    """Inner products of two tables of rows, (n, m)."""
    return as_numpy(_move(A, device) @ _move(B, device).T)


def centres(rows: Any, n_centres: int, n_rounds: int, device: str) -> Matrix:
    """Centres of k-means, (n_centres, n_columns), started at the first rows.

    A centre without rows moves to the row that is farthest from its own.
    """
    X = _move(rows, device)
    mean = X.mean(dim=0)
    X = X - mean  # distances by products lose digits if means are large
    C, settled = X[:n_centres].clone(), SETTLED * float(X.var(dim=0, correction=0).mean())
    nearest = None
    for _ in range(n_rounds):
        distances = _squared(X, C)
        closest, labels = distances.min(dim=1)
        if nearest is not None and bool((labels == nearest).all()):
            break
        nearest = labels
        # A product with zeros and ones: sums in an order that does not depend on threads.
        belongs = (labels[:, None] == labels.new_tensor(range(n_centres))).to(X.dtype)
        counts = belongs.sum(dim=0)
        moved = (belongs.T @ X) / counts.clamp(min=1)[:, None]
        empty = (counts == 0).nonzero()[:, 0]
        if len(empty):
            moved[empty] = X[closest.argsort(descending=True, stable=True)[: len(empty)]]
        shift = float((moved - C).square().sum())
        C = moved
        if shift <= settled:
            break
    return as_numpy(C + mean)


def _squared(A: Any, B: Any) -> Any:
    return A.square().sum(dim=1)[:, None] + B.square().sum(dim=1) - 2 * (A @ B.T)


def _move(rows: Any, device: str) -> Any:
    import torch

    dense = rows.toarray() if hasattr(rows, "toarray") else rows
    array = np.ascontiguousarray(dense, dtype=np.float64)
    if not array.flags.writeable:  # torch warns of arrays that it could change
        array = array.copy()
    return torch.from_numpy(array).to(find_device(device))
