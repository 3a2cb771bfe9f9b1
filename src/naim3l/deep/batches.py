"""Batches of rows, drawn separately for each view, in which every label has rows."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]


def count_batches(
    n_rows: Sequence[int], batch_size: int, least: Sequence[int] | None = None
) -> int:
    """Number of batches in an epoch, which is determined by the view with the most rows.

    With ``least`` as for `deal_batches`, it is limited so that at least one view can be in all
    batches.
    """
    least = [1] * len(n_rows) if least is None else least
    most = max(n // few for n, few in zip(n_rows, least, strict=True))
    return max(1, min(-(-max(n_rows) // batch_size), most))


def deal_batches(
    positives: Sequence[NDArray[np.bool_]],
    n_batches: int,
    rng: np.random.Generator,
    least: Sequence[int] | None = None,
) -> list[list[Rows]]:
    """Rows of each view in each batch of one epoch; rows of different views are not matched.

    Every row is in one batch. Rows with the same rarest label are distributed in turn, so that
    labels are spread evenly. If a label has no row of any view in a batch, one of its rows is drawn
    at random and added; that row is then in more than one batch.

    Parameters
    ----------
    positives : sequence of bool ndarray, each of shape (n_rows_v, n_labels)
        Where a label is observed positive.
    n_batches : int
    rng : numpy Generator
    least : sequence of int, optional
        Minimum number of rows of each view in a batch, if the view is in the batch at all and has
        that many rows; 1 by default. To reach it, a view may be left out of some batches, and
        a row that is added for its label brings other rows with it.

    Returns
    -------
    list of n_batches lists of int ndarray, one per view
        Arrays may be empty if a view has fewer than ``least`` rows per batch.
    """
    least = [1] * len(positives) if least is None else least
    counts = np.sum([mask.sum(axis=0) for mask in positives], axis=0)
    dealt = [
        _deal(mask, counts, n_batches, few, rng) for mask, few in zip(positives, least, strict=True)
    ]
    batches = [[rows[b] for rows in dealt] for b in range(n_batches)]
    if n_batches > 1:
        _fill_up(batches, positives, counts, rng)
        for batch in batches:
            for v, few in enumerate(least):
                batch[v] = _join_others(batch[v], len(positives[v]), few, rng)
    return batches


def _deal(
    mask: NDArray[np.bool_],
    counts: NDArray[np.integer],
    n_batches: int,
    least: int,
    rng: np.random.Generator,
) -> list[Rows]:
    """Rows of one view by batch; each row occurs once."""
    # Position of each label from rare to common; rows without a positive come last.
    rank = np.empty(len(counts) + 1, dtype=np.intp)
    rank[np.argsort(counts, kind="stable")] = np.arange(len(counts))
    rank[-1] = len(counts)
    rarest = np.where(mask, rank[:-1], len(counts)).min(axis=1, initial=len(counts))
    shuffled = rng.permutation(len(mask))
    order = shuffled[np.argsort(rarest[shuffled], kind="stable")]
    n_own = max(1, min(n_batches, len(order) // least))  # batches that get rows of this view
    batch_of = rng.permutation(n_batches)[np.arange(len(order)) % n_own]
    return [rng.permutation(order[batch_of == b]) for b in range(n_batches)]


def _fill_up(
    batches: list[list[Rows]],
    positives: Sequence[NDArray[np.bool_]],
    counts: NDArray[np.integer],
    rng: np.random.Generator,
) -> None:
    """Add a row of each missing label to each batch, in place."""
    first = np.cumsum([0, *(len(mask) for mask in positives)])
    stacked = np.concatenate(positives)
    for batch in batches:
        taken = [mask[rows].any(axis=0) for mask, rows in zip(positives, batch, strict=True)]
        present = np.any(taken, axis=0)
        for label in np.flatnonzero((counts > 0) & ~present):
            row = rng.choice(np.flatnonzero(stacked[:, label]))
            view = int(np.searchsorted(first, row, side="right")) - 1
            batch[view] = np.append(batch[view], row - first[view])


def _join_others(rows: Rows, n_rows: int, least: int, rng: np.random.Generator) -> Rows:
    """Rows of a view in a batch, with random additional rows if there are some but too few."""
    if not 0 < len(rows) < least:
        return rows
    others = np.setdiff1d(np.arange(n_rows), rows)
    n_more = min(least - len(rows), len(others))
    return np.append(rows, rng.choice(others, n_more, replace=False))
