"""The steps of the protocol: test rows, hidden labels, removed views, orders of rows."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import maximum_flow
from sklearn.utils import check_random_state

from naim3l._arrays import Mask
from naim3l.decisions.held_out import hold_out_share, whole_share
from naim3l.missing.checks import check_labels, check_observed, check_ratio, round_down

Seed = int | np.random.RandomState | None
Rows = NDArray[np.integer[Any]]


def first_positives(Y: ArrayLike) -> Rows:
    """Rows that hold the first positive of some label, ascending.

    Parameters
    ----------
    Y : array-like of shape (n_samples, n_labels)
        Complete labels, 0 or 1. A label without a positive has no such row.
    """
    positive = check_labels(Y)
    return np.unique(positive.argmax(axis=0)[positive.any(axis=0)])


def split_rows(
    Y: ArrayLike, *, test_size: float = 0.3, random_state: Seed = None
) -> tuple[Rows, Rows]:
    """Training and test rows; the first positive of every label stays in training.

    Parameters
    ----------
    Y : array-like of shape (n_samples, n_labels)
        Complete labels, 0 or 1.
    test_size : float in [0, 1]
        Share of the rows for testing, rounded down: ``floor(test_size * n_samples)`` rows.
    random_state : int, RandomState or None

    Returns
    -------
    train, test : int arrays, ascending
        Together they hold every row once.
    """
    positive = check_labels(Y)
    n_samples = len(positive)
    n_test = whole_share(check_ratio("test_size", test_size), n_samples)
    free = np.setdiff1d(np.arange(n_samples), first_positives(positive))
    largest = min(free.size, n_samples - 1)
    if n_test > largest:
        raise ValueError(
            f"test_size={test_size} asks for {n_test} of {n_samples} rows, but only {largest} can "
            "leave training, which keeps the first positive row of every label and is never empty; "
            f"test_size must be at most {round_down(largest / n_samples)}."
        )
    is_test = np.zeros(n_samples, dtype=bool)
    is_test[check_random_state(random_state).permutation(free)[:n_test]] = True
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def hide_labels(Y: ArrayLike, ratio: float, *, random_state: Seed = None) -> Mask:
    """Mask of the labels to hide: one share of each label's positives and of its negatives.

    Parameters
    ----------
    Y : array-like of shape (n_samples, n_labels)
        Complete labels, 0 or 1.
    ratio : float in [0, 1]
        The paper's beta. Of each label, ``floor(ratio * count)`` of the positives and, separately,
        of the negatives are hidden. Below 1, a label that has a positive keeps one in sight.
    random_state : int, RandomState or None

    Returns
    -------
    hidden : bool array of shape (n_samples, n_labels)
    """
    positive = check_labels(Y)
    return hold_out_share(positive, check_ratio("ratio", ratio), check_random_state(random_state))


def remove_views(
    Y: ArrayLike,
    n_views: int,
    ratio: float,
    *,
    observed: ArrayLike | None = None,
    random_state: Seed = None,
) -> Mask:
    """Mask of the views that each row keeps: one share of the rows is dropped from every view.

    The rows are drawn from those without a first positive, and every row keeps a view: the last
    view's draw avoids the rows that have no other left. Where too few remain to draw from, earlier
    draws are exchanged one by one, so that an error means that no choice of rows exists.

    Parameters
    ----------
    Y : array-like of shape (n_samples, n_labels)
        Complete labels, 0 or 1.
    n_views : int
    ratio : float in [0, 1]
        The paper's alpha: ``floor(ratio * n_samples)`` rows leave each view. If m rows hold no
        first positive, up to ``floor((n_views - 1) * m / n_views)`` can.
    observed : array-like of shape (n_samples, n_views), default all True
        False where a view is really missing. The share is then one of the view's observed rows,
        and the view that each row keeps is an observed one.
    random_state : int, RandomState or None

    Returns
    -------
    present : bool array of shape (n_samples, n_views)
    """
    positive = check_labels(Y)
    check_ratio("ratio", ratio)
    seen = check_observed(observed, len(positive), n_views)
    may_drop = seen.copy()
    may_drop[first_positives(positive)] = False
    spare = seen.sum(axis=1) - 1  # views that each row can still lose
    n_drop = whole_share(ratio, seen.sum(axis=0))
    problem = (
        f"ratio (alpha)={ratio} drops {n_drop.tolist()} rows from the views: impossible, because "
        "rows with the first positive of a label keep all their views and the others keep one"
    )
    room = spare[may_drop.any(axis=1)].sum()
    if n_drop.sum() > room:
        raise ValueError(f"{problem}; it must be at most {round_down(room / seen.sum())}.")

    rng = check_random_state(random_state)
    dropped = np.zeros_like(seen)
    for v in range(n_views):
        rows = rng.permutation(np.flatnonzero(may_drop[:, v] & (spare > 0)))[: n_drop[v]]
        dropped[rows, v] = True
        spare[rows] -= 1
    if (n_drop > dropped.sum(axis=0)).any():
        dropped = _drop_more(n_drop, may_drop, dropped, spare, rng)
    short = np.flatnonzero(n_drop > dropped.sum(axis=0))
    if short.size:
        raise ValueError(f"{problem}; view {short[0]} can lose {dropped[:, short[0]].sum()} rows.")
    return seen & ~dropped


def _drop_more(
    n_drop: Rows, may_drop: Mask, dropped: Mask, spare: Rows, rng: np.random.RandomState
) -> Mask:
    """As many dropped rows as possible, up to ``n_drop``, after exchanges between views.

    What is added is a maximum flow from the views that are short through views and rows to the
    views that rows have to spare; along what is dropped it flows back.
    """
    n_rows, n_views = dropped.shape
    source, sink = n_rows + n_views, n_rows + n_views + 1
    node = rng.permutation(n_rows)  # of each row: no row is preferred
    row, view = np.nonzero(may_drop)
    back = dropped[row, view]
    ends = np.array([n_rows + view, node[row]])
    tails, heads = np.where(back, ends[::-1], ends)
    views = n_rows + np.arange(n_views)
    edges = (
        np.concatenate([tails, np.full(n_views, source), node]),
        np.concatenate([heads, views, np.full(n_rows, sink)]),
    )
    capacity = np.concatenate([np.ones(len(row)), n_drop - dropped.sum(axis=0), spare])
    graph = sparse.csr_array((capacity.astype(np.int32), edges), shape=(sink + 1, sink + 1))
    flow = maximum_flow(graph, source, sink).flow.tocsr()
    used = np.asarray(flow[tails, heads]).ravel() > 0
    after = dropped.copy()
    after[row[used], view[used]] = ~back[used]
    return after


def shuffle_rows(present: ArrayLike, *, random_state: Seed = None) -> tuple[Rows, ...]:
    """Row numbers present in each view, in an order drawn for each view on its own.

    Parameters
    ----------
    present : bool array-like of shape (n_samples, n_views)
    random_state : int, RandomState or None
    """
    rng = check_random_state(random_state)
    return tuple(rng.permutation(np.flatnonzero(column)) for column in np.transpose(present))
