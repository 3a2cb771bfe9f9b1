"""The paper's way of making data incomplete: hide labels, remove views, shuffle rows.

Each step is a function of complete 0/1 labels and a seed. `make_challenge` runs them in order and
returns a `Challenge`, which can be applied to tables.

Two conventions hold throughout. A share of a count is rounded down (`whole_share`). And
`random_state` is an int, a ``numpy.random.RandomState`` or None, as in scikit-learn; NumPy has
frozen the streams of ``RandomState``, so a seed gives the same challenge with every version.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import maximum_flow
from sklearn.utils import Bunch, _safe_indexing, check_random_state

from naim3l._arrays import Mask
from naim3l.decisions.held_out import hold_out_share, whole_share

Seed = int | np.random.RandomState | None
Rows = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Challenge:
    """One experiment: training and test rows, what is missing, and the order of the rows.

    Attributes
    ----------
    train, test : int ndarrays
        Row numbers; each row is in one of them.
    hidden : bool ndarray of shape (n_train, n_labels)
        Labels hidden from training, the same in all views. Row i is the sample ``train[i]``.
    present : bool ndarray of shape (n_train, n_views)
        Views that the training samples have.
    train_order, test_order : tuples of n_views int ndarrays
        Row numbers of each view in the complete table, in the order of the view.
    alpha, beta : float
        Shares of missing views and of missing labels that were requested.

    Examples
    --------
    >>> from naim3l.datasets import load_yeast, make_challenge
    >>> challenge = make_challenge(load_yeast().labels, n_views=2, alpha=0.4, random_state=0)
    >>> len(challenge.train), len(challenge.test)
    (1692, 725)
    >>> [len(rows) for rows in challenge.train_order]
    [1016, 1016]
    >>> float(challenge.hidden.mean().round(2))
    0.5
    """

    train: Rows
    test: Rows
    hidden: Mask
    present: Mask
    train_order: tuple[Rows, ...]
    test_order: tuple[Rows, ...]
    alpha: float
    beta: float

    def apply(self, views: Mapping[str, Any], Y: ArrayLike) -> Bunch:
        """Training and test tables of every view, with labels that match row by row.

        Parameters
        ----------
        views : mapping of name to table of shape (n_samples, n_features of the view)
            NumPy arrays, SciPy sparse matrices (returned as CSR), or data frames of pandas or
            polars; row i is the same sample in all views.
        Y : array-like of shape (n_samples, n_labels)
            The complete labels from which the challenge was made.

        Returns
        -------
        Bunch
            ``X_train``, ``Y_train``, ``X_test`` and ``Y_test``, each a dict by view, in the order
            of `views`. Labels are float arrays of shape (rows of the view, n_labels): 1, 0, and
            NaN where hidden from training.

        Examples
        --------
        >>> from naim3l import PerViewRidge, evaluate
        >>> from naim3l.datasets import load_yeast, make_challenge
        >>> yeast = load_yeast()
        >>> challenge = make_challenge(yeast.labels, n_views=2, alpha=0.4, random_state=0)
        >>> trial = challenge.apply(yeast.views, yeast.labels)
        >>> model = PerViewRidge().fit(trial.X_train, trial.Y_train)
        >>> round(evaluate(trial.Y_test, model.decision_function(trial.X_test))["AP"], 2)
        0.73
        """
        known = _check_labels(Y).astype(np.float64)
        shape = (len(self.train) + len(self.test), self.hidden.shape[1])
        if known.shape != shape:
            raise ValueError(f"Y has shape {known.shape}; this challenge was made for {shape}.")
        known[self.train] = np.where(self.hidden, np.nan, known[self.train])
        tables = _check_tables(views, shape[0], self.present.shape[1])
        data = Bunch()
        for part, order in (("train", self.train_order), ("test", self.test_order)):
            rows = dict(zip(tables, order, strict=True))
            data[f"X_{part}"] = {name: _safe_indexing(tables[name], rows[name]) for name in tables}
            data[f"Y_{part}"] = {name: known[rows[name]] for name in tables}
        return data


def make_challenge(
    Y: ArrayLike,
    n_views: int,
    *,
    alpha: float = 0.5,
    beta: float = 0.5,
    test_size: float = 0.3,
    aligned: bool = False,
    observed: ArrayLike | None = None,
    random_state: Seed = None,
) -> Challenge:
    """Challenge in the paper's protocol: split, hide labels, remove training views, shuffle.

    Every step has its own random stream, derived from `random_state`. The split therefore depends
    only on the seed and `test_size`, hidden labels do not depend on `alpha`, and removed views do
    not depend on `beta`.

    Parameters
    ----------
    Y : array-like of shape (n_samples, n_labels)
        Complete labels, 0 or 1.
    n_views : int
        Number of views.
    alpha : float in [0, 1], default=0.5
        Share of the training rows that each view loses, as in `remove_views`.
    beta : float in [0, 1], default=0.5
        Share of the training labels to hide, as in `hide_labels`.
    test_size : float in [0, 1], default=0.3
        Share of the rows for testing, as in `split_rows`.
    aligned : bool, default=False
        If True, the rows of every view are in ascending order instead of being shuffled.
    observed : array-like of shape (n_samples, n_views), optional
        False where a view is missing in the data themselves; it then lacks the row in training
        and in test. By default no view is missing.
    random_state : int, RandomState or None, default=None
        Determines the split, what is missing, and the orders.

    Returns
    -------
    Challenge
        The experiment; `Challenge.apply` makes its tables.

    Examples
    --------
    >>> from naim3l.datasets import make_challenge
    >>> Y = [[1, 0], [0, 1], [1, 1], [0, 0], [1, 0], [0, 1]]
    >>> challenge = make_challenge(Y, n_views=2, alpha=0.25, test_size=0.34, random_state=0)
    >>> challenge.train, challenge.test
    (array([0, 1, 4, 5]), array([2, 3]))
    >>> challenge.train_order  # rows of the two views
    (array([4, 1, 0]), array([5, 0, 1]))
    """
    positive = _check_labels(Y)
    alpha, beta = _check_ratio("alpha", alpha), _check_ratio("beta", beta)
    seen = _check_observed(observed, len(positive), n_views)
    words = check_random_state(random_state).randint(2**32, size=4, dtype=np.uint32)
    seeds = [int(seed) for seed in np.random.SeedSequence(words.tolist()).generate_state(5)]

    train, test = split_rows(positive, test_size=test_size, random_state=seeds[0])
    hidden = hide_labels(positive[train], beta, random_state=seeds[1])
    present = remove_views(
        positive[train], n_views, alpha, observed=seen[train], random_state=seeds[2]
    )
    train_order, test_order = (
        tuple(rows[np.sort(i) if aligned else i] for i in shuffle_rows(mask, random_state=seed))
        for rows, mask, seed in ((train, present, seeds[3]), (test, seen[test], seeds[4]))
    )
    return Challenge(train, test, hidden, present, train_order, test_order, alpha, beta)


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
    >>> from naim3l.datasets import first_positives
    >>> first_positives([[0, 0], [1, 0], [1, 1]])
    array([1, 2])
    """
    positive = _check_labels(Y)
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
    >>> from naim3l.datasets import split_rows
    >>> split_rows([[1, 0], [0, 1], [1, 1], [0, 0]], test_size=0.5, random_state=0)
    (array([0, 1]), array([2, 3]))
    """
    positive = _check_labels(Y)
    n_samples = len(positive)
    n_test = whole_share(_check_ratio("test_size", test_size), n_samples)
    free = np.setdiff1d(np.arange(n_samples), first_positives(positive))
    largest = min(free.size, n_samples - 1)
    if n_test > largest:
        raise ValueError(
            f"test_size={test_size} asks for {n_test} of {n_samples} rows, but only {largest} can "
            "leave training, which keeps the first positive row of every label and is never empty; "
            f"test_size must be at most {_round_down(largest / n_samples)}."
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
    >>> from naim3l.datasets import hide_labels
    >>> Y = np.array([[1], [1], [0], [0]])
    >>> np.where(hide_labels(Y, 0.5, random_state=0), np.nan, Y).ravel()
    array([ 1., nan, nan,  0.])
    """
    positive = _check_labels(Y)
    return hold_out_share(positive, _check_ratio("ratio", ratio), check_random_state(random_state))


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

    >>> from naim3l.datasets import remove_views
    >>> Y = [[1, 0], [0, 1], [1, 1], [1, 0], [0, 0], [1, 0]]
    >>> remove_views(Y, 2, 0.34, random_state=0).astype(int)
    array([[1, 1],
           [1, 1],
           [1, 0],
           [1, 0],
           [0, 1],
           [0, 1]])
    """
    positive = _check_labels(Y)
    _check_ratio("ratio", ratio)
    seen = _check_observed(observed, len(positive), n_views)
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
        raise ValueError(f"{problem}; it must be at most {_round_down(room / seen.sum())}.")

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
    >>> from naim3l.datasets import shuffle_rows
    >>> shuffle_rows([[True, True], [True, False], [True, True]], random_state=0)
    (array([2, 1, 0]), array([0, 2]))
    """
    rng = check_random_state(random_state)
    return tuple(rng.permutation(np.flatnonzero(column)) for column in np.transpose(present))


def _check_tables(views: Mapping[str, Any], n_samples: int, n_views: int) -> dict[str, Any]:
    """Tables by name that can be indexed by row, once their numbers of rows are checked."""
    if not isinstance(views, Mapping) or len(views) != n_views:
        raise ValueError(
            f"views is a {type(views).__name__} of length {len(views)}; this challenge needs "
            f"a mapping of {n_views} names to tables."
        )
    # COO and other sparse formats cannot be indexed by row.
    tables = {name: X.tocsr() if hasattr(X, "tocsr") else X for name, X in views.items()}
    for name, X in tables.items():
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if n_rows != n_samples:
            raise ValueError(f"view {name!r} has {n_rows} rows; Y has {n_samples}.")
    return tables


def _round_down(ratio: float) -> float:
    """Ratio rounded down to four digits, so that the value in an error is itself allowed."""
    return float(np.floor(ratio * 1e4 + 1e-9) / 1e4)


def _check_labels(Y: ArrayLike) -> Mask:
    """Mask of the positives, (n_samples, n_labels); raises unless all entries are 0 or 1."""
    table = np.asarray(Y.toarray() if hasattr(Y, "toarray") else Y)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"Y has shape {table.shape}; (n_samples, n_labels), not empty, is needed.")
    if table.dtype.kind in "biuf":
        valid = (table == 0) | (table == 1)
    else:  # text or nullable columns; comparisons with pandas.NA fail
        valid = np.vectorize(lambda y: isinstance(y, Real | np.bool_) and y in (0, 1))(table)
    if not valid.all():
        i, k = np.argwhere(~valid)[0]
        raise ValueError(f"Y holds {table[i, k]!r} in row {i}, column {k}; only 0 or 1 is allowed.")
    return table.astype(bool)


def _check_ratio(name: str, value: float) -> float:
    if not (isinstance(value, Real) and 0 <= value <= 1):  # NaN fails the comparison too
        raise ValueError(f"{name}={value!r}; a number from 0 to 1 is needed.")
    return float(value)


def _check_observed(observed: ArrayLike | None, n_samples: int, n_views: int) -> Mask:
    """Mask of the views that exist, (n_samples, n_views); every row needs one."""
    if not isinstance(n_views, Integral) or n_views < 1:
        raise ValueError(f"n_views={n_views!r}; a whole number of 1 or more is needed.")
    mask = np.ones((n_samples, n_views)) if observed is None else np.asarray(observed)
    shape = (n_samples, n_views)
    if mask.shape != shape or mask.dtype.kind not in "biuf" or not np.isin(mask, (0, 1)).all():
        raise ValueError(f"observed has shape {mask.shape}; 0 and 1 in {shape} are needed.")
    empty = np.flatnonzero(~mask.any(axis=1))
    if empty.size:
        raise ValueError(f"observed has no view in row {empty[0]}; every row needs one.")
    return mask.astype(bool)
