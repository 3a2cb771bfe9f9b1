"""Batches of rows drawn view by view, in which every label has rows."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]


def count_batches(n_rows: Sequence[int], batch_size: int) -> int:
    """Batches in an epoch: as many as the longest view needs, and all views share them."""
    return -(-max(n_rows) // batch_size)


def deal_batches(
    positives: Sequence[NDArray[np.bool_]], n_batches: int, rng: np.random.Generator
) -> list[list[Rows]]:
    """Rows of each view in each batch of one epoch; rows of different views are not matched.

    Every row is in one batch, and rows that share their rarest label are dealt in turn, so that
    labels are spread evenly. A batch in which a label has no row in any view gets one of its rows
    on top, drawn at random; that row is then in more than one batch.

    Parameters
    ----------
    positives : sequence of bool ndarray, each of shape (n_rows_v, n_labels)
        Where a label is observed positive.
    n_batches : int
    rng : numpy Generator

    Returns
    -------
    list of n_batches lists of int ndarray, one per view
        Possibly empty where a view has fewer rows than there are batches.
    """
    counts = np.sum([mask.sum(axis=0) for mask in positives], axis=0)
    dealt = [_deal(mask, counts, n_batches, rng) for mask in positives]
    batches = [[rows[b] for rows in dealt] for b in range(n_batches)]
    if n_batches > 1:
        _fill_up(batches, positives, counts, rng)
    return batches


def _deal(
    mask: NDArray[np.bool_], counts: NDArray[np.integer], n_batches: int, rng: np.random.Generator
) -> list[Rows]:
    """Rows of one view by batch, each once."""
    # Position of each label from rare to common; rows without a positive come last.
    rank = np.empty(len(counts) + 1, dtype=np.intp)
    rank[np.argsort(counts, kind="stable")] = np.arange(len(counts))
    rank[-1] = len(counts)
    rarest = np.where(mask, rank[:-1], len(counts)).min(axis=1, initial=len(counts))
    shuffled = rng.permutation(len(mask))
    order = shuffled[np.argsort(rarest[shuffled], kind="stable")]
    batch_of = rng.permutation(n_batches)[np.arange(len(order)) % n_batches]
    return [rng.permutation(order[batch_of == b]) for b in range(n_batches)]


def _fill_up(
    batches: list[list[Rows]],
    positives: Sequence[NDArray[np.bool_]],
    counts: NDArray[np.integer],
    rng: np.random.Generator,
) -> None:
    """Add to each batch, in place, a row of each label that it lacks."""
    first = np.cumsum([0, *(len(mask) for mask in positives)])
    stacked = np.concatenate(positives)
    for batch in batches:
        taken = [mask[rows].any(axis=0) for mask, rows in zip(positives, batch, strict=True)]
        present = np.any(taken, axis=0)
        for label in np.flatnonzero((counts > 0) & ~present):
            row = rng.choice(np.flatnonzero(stacked[:, label]))
            view = int(np.searchsorted(first, row, side="right")) - 1
            batch[view] = np.append(batch[view], row - first[view])
