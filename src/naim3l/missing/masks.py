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
    """Rows with the first positive of a label.

    Parameters
    ----------
    Y : array-like of shape (n_samples, n_labels)
        Complete labels, 0 or 1. A label without a positive has no such row.

    Returns
    -------
    int ndarray
        Row numbers, ascending and distinct.

    Examples
    --------
    >>> from naim3l.missing import first_positives
    >>> first_positives([[0, 0], [1, 0], [1, 1]])
    array([1, 2])
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
    test_size : float in [0, 1], default=0.3
        Share of the rows for testing, rounded down: ``floor(test_size * n_samples)`` rows.
    random_state : int, RandomState or None, default=None
        Determines the test rows.

    Returns
    -------
    train : int ndarray
        Rows for training, ascending.
    test : int ndarray
        All other rows, ascending.

    Examples
    --------
    >>> from naim3l.missing import split_rows
    >>> split_rows([[1, 0], [0, 1], [1, 1], [0, 0]], test_size=0.5, random_state=0)
    (array([0, 1]), array([2, 3]))
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
    """Mask of the labels to hide: a share of each label's positives and of its negatives.

    Parameters
    ----------
    Y : array-like of shape (n_samples, n_labels)
        Complete labels, 0 or 1.
    ratio : float in [0, 1]
        The paper's beta. Of each label, ``floor(ratio * count)`` of the positives and, separately,
        of the negatives are hidden. With a ratio below 1, a label that has positives keeps one.
    random_state : int, RandomState or None, default=None
        Determines the entries.

    Returns
    -------
    bool ndarray of shape (n_samples, n_labels)
        True where the label is to be hidden.

    Examples
    --------
    Half of the two positives and half of the two negatives are hidden:

    >>> import numpy as np
    >>> from naim3l.missing import hide_labels
    >>> Y = np.array([[1], [1], [0], [0]])
    >>> np.where(hide_labels(Y, 0.5, random_state=0), np.nan, Y).ravel()
    array([ 1., nan, nan,  0.])
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
    """Mask of the views that each row keeps: a share of the rows is dropped from every view.

    Rows are drawn from those without a first positive, and every row keeps a view: rows that have
    only one view left are not drawn again. If too few rows remain to draw from, earlier draws are
    exchanged, so that an error means that no choice of rows exists.

    Parameters
    ----------
    Y : array-like of shape (n_samples, n_labels)
        Complete labels, 0 or 1.
    n_views : int
        Number of views.
    ratio : float in [0, 1]
        The paper's alpha: ``floor(ratio * n_samples)`` rows are dropped from each view. If m rows
        have no first positive, at most ``floor((n_views - 1) * m / n_views)`` can be.
    observed : array-like of shape (n_samples, n_views), optional
        False where a view is missing in the data themselves; by default none is. The ratio is
        then a share of the view's observed rows, and each row keeps an observed view.
    random_state : int, RandomState or None, default=None
        Determines the rows.

    Returns
    -------
    bool ndarray of shape (n_samples, n_views)
        True where the row keeps the view.

    Raises
    ------
    ValueError
        So many rows cannot be dropped. The message names the largest possible ratio, or the view.

    Examples
    --------
    Each view loses two of six rows. Rows 0 and 1 have the first positives and keep both views:

    >>> from naim3l.missing import remove_views
    >>> Y = [[1, 0], [0, 1], [1, 1], [1, 0], [0, 0], [1, 0]]
    >>> remove_views(Y, 2, 0.34, random_state=0).astype(int)
    array([[1, 1],
           [1, 1],
           [1, 0],
           [1, 0],
           [0, 1],
           [0, 1]])
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

    The change is a maximum flow from the views that need more rows, through views and rows, to
    the views that rows can still lose. It flows backwards where a row is already dropped.
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
    """Rows that each view has, in a random order for each view.

    Parameters
    ----------
    present : bool array-like of shape (n_samples, n_views)
        True where a row has the view.
    random_state : int, RandomState or None, default=None
        Determines the orders.

    Returns
    -------
    tuple of int ndarrays
        Row numbers by view.

    Examples
    --------
    >>> from naim3l.missing import shuffle_rows
    >>> shuffle_rows([[True, True], [True, False], [True, True]], random_state=0)
    (array([2, 1, 0]), array([0, 2]))
    """
    rng = check_random_state(random_state)
    return tuple(rng.permutation(np.flatnonzero(column)) for column in np.transpose(present))
