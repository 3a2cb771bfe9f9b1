"""The paper's way of making data incomplete: hide labels, remove views, shuffle rows.

A share of a count is rounded down (`whole_share`). NumPy has frozen the streams of ``RandomState``,
so a seed gives the same challenge with every version.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import maximum_flow
from sklearn.utils import Bunch, _safe_indexing, check_random_state
from sklearn.utils._param_validation import Interval, validate_parameter_constraints
from sklearn.utils.validation import _num_samples

from naim3l_bench.arrays import Mask

Seed = int | np.random.RandomState | None
Rows = NDArray[np.integer[Any]]

_SHARE = [Interval(Real, 0, 1, closed="both")]
_ALLOWED = dict.fromkeys(("alpha", "beta", "ratio", "test_size"), _SHARE)
_ALLOWED["n_views"] = [Interval(Integral, 1, None, closed="left")]


@dataclass(frozen=True, eq=False)
class Challenge:
    """One experiment: training and test rows, what is missing, and the order of the rows.

    Attributes
    ----------
    train : ndarray of int
        Row numbers, ascending.
    test : ndarray of int
        Those of all other rows.
    hidden : bool ndarray of shape (n_train, n_labels)
        Labels hidden from training, the same in all views. Row i is the sample ``train[i]``.
    present : bool ndarray of shape (n_train, n_views)
        Views that the training samples have.
    train_order, test_order : tuples of n_views int ndarrays
        Row numbers of each view in the complete table, in the order of the view.

    Examples
    --------
    >>> from naim3l.datasets import load_yeast
    >>> from naim3l_bench.challenge import make_challenge
    >>> challenge = make_challenge(load_yeast().labels, n_views=2, alpha=0.4, random_state=0)
    >>> len(challenge.train), [len(rows) for rows in challenge.train_order], len(challenge.test)
    (1692, [1016, 1016], 725)
    """

    train: Rows
    test: Rows
    hidden: Mask
    present: Mask
    train_order: tuple[Rows, ...]
    test_order: tuple[Rows, ...]

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
        >>> from naim3l.datasets import load_yeast
        >>> from naim3l_bench.challenge import make_challenge
        >>> Y, views = load_yeast().labels, load_yeast().views
        >>> trial = make_challenge(Y, n_views=2, alpha=0.4, random_state=0).apply(views, Y)
        >>> model = PerViewRidge().fit(trial.X_train, trial.Y_train)
        >>> round(evaluate(trial.Y_test, model.decision_function(trial.X_test))["AP"], 2)
        0.73
        """
        known = _ones(Y).astype(np.float64)
        shape, n_views = (len(self.train) + len(self.test), len(self.hidden.T)), len(self.present.T)
        if known.shape != shape:
            raise ValueError(f"Y has shape {known.shape}; this challenge was made for {shape}.")
        known[self.train] = np.where(self.hidden, np.nan, known[self.train])
        sizes = isinstance(views, Mapping) and {v: _num_samples(X) for v, X in views.items()}
        if not sizes or list(sizes.values()) != [shape[0]] * n_views:
            needed = f"a mapping of {n_views} names to tables of {shape[0]} rows is needed"
            raise ValueError(f"{needed}; views is a {type(views).__name__}, with rows: {sizes}.")
        data = Bunch(X_train={}, Y_train={}, X_test={}, Y_test={})
        for part, order in (("train", self.train_order), ("test", self.test_order)):
            for (name, X), rows in zip(views.items(), order, strict=True):
                table = X.tocsr() if hasattr(X, "tocsr") else X  # others cannot be indexed by row
                data[f"X_{part}"][name] = _safe_indexing(table, rows)
                data[f"Y_{part}"][name] = known[rows]
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

    Every step has its own random stream: the split depends only on the seed and `test_size`, hidden
    labels do not depend on `alpha`, and removed views do not depend on `beta`.

    Parameters
    ----------
    Y : array-like of shape (n_samples, n_labels)
        Complete labels, 0 or 1.
    n_views : int
        Number of views.
    alpha : float in [0, 1], default=0.5
        Share of the training rows that each view loses, as in `remove_views`.
    beta : float in [0, 1], default=0.5
        Share of the positives and of the negatives of each label that are hidden from training.
        Below 1, a label that has positives keeps one.
    test_size : float in [0, 1], default=0.3
        Share of the rows for testing, as in `split_rows`.
    aligned : bool, default=False
        If True, the rows of every view are in ascending order instead of being shuffled.
    observed : array-like of shape (n_samples, n_views), optional
        False where a view is missing in the data themselves, for training and for testing.
    random_state : int, RandomState or None, default=None
        Determines the split, what is missing, and the orders.

    Returns
    -------
    Challenge
        The experiment; `Challenge.apply` makes its tables.

    Examples
    --------
    >>> from naim3l_bench.challenge import make_challenge
    >>> Y = [[1, 0], [0, 1], [1, 1], [0, 0], [1, 0], [0, 1]]
    >>> challenge = make_challenge(Y, n_views=2, alpha=0.25, test_size=0.34, random_state=0)
    >>> challenge.train_order  # rows of the two views
    (array([4, 1, 0]), array([5, 0, 1]))
    """
    validate_parameter_constraints(_ALLOWED, {"alpha": alpha, "beta": beta}, "make_challenge")
    positive = _ones(Y)
    seen = _views_there(observed, len(positive), n_views)
    words = check_random_state(random_state).randint(2**32, size=4, dtype=np.uint32)
    seeds = [int(seed) for seed in np.random.SeedSequence(words.tolist()).generate_state(5)]

    train, test = split_rows(positive, test_size=test_size, random_state=seeds[0])
    hidden = hold_out_share(positive[train], beta, np.random.RandomState(seeds[1]))
    options: dict[str, Any] = {"observed": seen[train], "random_state": seeds[2]}
    present = remove_views(positive[train], n_views, alpha, **options)
    orders = []
    for rows, mask, seed in ((train, present, seeds[3]), (test, seen[test], seeds[4])):
        rng = np.random.RandomState(seed)
        shuffled = [rng.permutation(np.flatnonzero(column)) for column in mask.T]
        orders.append(tuple(rows[np.sort(i) if aligned else i] for i in shuffled))
    return Challenge(train, test, hidden, present, *orders)


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
    train : ndarray of int
        Row numbers, ascending.
    test : ndarray of int
        Those of all other rows.

    Examples
    --------
    >>> from naim3l_bench.challenge import split_rows
    >>> split_rows([[1, 0], [0, 1], [1, 1], [0, 0]], test_size=0.5, random_state=0)
    (array([0, 1]), array([2, 3]))
    """
    validate_parameter_constraints(_ALLOWED, {"test_size": test_size}, "split_rows")
    positive = _ones(Y)
    n_samples = len(positive)
    n_test = whole_share(test_size, n_samples)
    free = np.setdiff1d(np.arange(n_samples), _first_positives(positive))
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


def remove_views(
    Y: ArrayLike,
    n_views: int,
    ratio: float,
    *,
    observed: ArrayLike | None = None,
    random_state: Seed = None,
) -> Mask:
    """Mask of the views that each row keeps: a share of the rows is dropped from every view.

    Rows with the first positive of a label keep all their views, and every row keeps one. Draws are
    exchanged between views where needed: an error means that no choice of rows exists.

    Parameters
    ----------
    Y : array-like of shape (n_samples, n_labels)
        Complete labels, 0 or 1.
    n_views : int
        Number of views.
    ratio : float in [0, 1]
        The paper's alpha: ``floor(ratio * n_samples)`` rows are dropped from each view.
    observed : array-like of shape (n_samples, n_views), optional
        False where a view is missing in the data themselves; by default none is. The ratio is
        then a share of the view's observed rows, and each row keeps an observed view.
    random_state : int, RandomState or None, default=None
        Determines the rows.

    Returns
    -------
    bool ndarray of shape (n_samples, n_views)
        True where the row keeps the view.

    Examples
    --------
    >>> from naim3l_bench.challenge import remove_views
    >>> Y = [[1, 0], [0, 1], [1, 1], [1, 0], [0, 0], [1, 0]]  # rows 0 and 1 keep all views
    >>> remove_views(Y, 2, 0.34, random_state=0).T.astype(int)
    array([[1, 1, 1, 1, 0, 0],
           [1, 1, 0, 0, 1, 1]])
    """
    validate_parameter_constraints(_ALLOWED, {"ratio": ratio}, "remove_views")
    positive = _ones(Y)
    seen = _views_there(observed, len(positive), n_views)
    may_drop = seen.copy()
    may_drop[_first_positives(positive)] = False
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

    The change is a maximum flow from the views that need more rows, through views and rows, to the
    views that rows can still lose; backwards where a row is already dropped.
    """
    n_rows, n_views = dropped.shape
    source, sink = n_rows + n_views, n_rows + n_views + 1
    node = rng.permutation(n_rows)  # of each row: no row is preferred
    row, view = np.nonzero(may_drop)
    back = dropped[row, view]
    ends = np.array([n_rows + view, node[row]])
    tails, heads = np.where(back, ends[::-1], ends)
    starts = np.concatenate([tails, np.full(n_views, source), node])
    stops = np.concatenate([heads, n_rows + np.arange(n_views), np.full(n_rows, sink)])
    capacity = np.concatenate([np.ones(len(row)), n_drop - dropped.sum(axis=0), spare])
    graph = sparse.csr_array((capacity.astype(np.int32), (starts, stops)), shape=(sink + 1,) * 2)
    flow = maximum_flow(graph, source, sink).flow.tocsr()
    used = np.asarray(flow[tails, heads]).ravel() > 0
    dropped[row[used], view[used]] = ~back[used]
    return dropped


def _first_positives(positive: Mask) -> Rows:
    """Rows, ascending, with the first positive of a label."""
    return np.unique(positive.argmax(axis=0)[positive.any(axis=0)])


def _round_down(ratio: float) -> float:
    """Ratio rounded down to four digits, so that the value in an error is itself allowed."""
    return float(np.floor(ratio * 1e4 + 1e-9) / 1e4)


def _views_there(observed: ArrayLike | None, n_samples: int, n_views: int) -> Mask:
    """Mask of the views that exist, (n_samples, n_views); every row needs one."""
    validate_parameter_constraints(_ALLOWED, {"n_views": n_views}, "make_challenge")
    shape = (n_samples, n_views)
    mask = _ones(np.ones(shape) if observed is None else observed, "observed", shape)
    lacking = np.flatnonzero(~mask.any(axis=1))
    if lacking.size:
        raise ValueError(f"observed has no view in row {lacking[0]}; every row needs one.")
    return mask


def _ones(table: ArrayLike, name: str = "Y", shape: tuple[int, int] | None = None) -> Mask:
    """Mask of the ones of a table of 0 and 1, by default the labels, (n_samples, n_labels)."""
    values = np.asarray(table)
    if values.ndim != 2 or not values.size or shape not in (None, values.shape):
        needed = "a row and a column are needed" if shape is None else f"{shape} is needed"
        raise ValueError(f"{name} has shape {values.shape}; {needed}.")
    wrong = np.argwhere((values != 0) & (values != 1))
    if len(wrong):
        row, column = wrong[0]
        raise ValueError(
            f"{name} has {values[row, column]!r} in row {row}, column {column}; allowed are 0 "
            "and 1."
        )
    return np.asarray(values == 1)


def hold_out_share(
    Y: NDArray[Any], share: float, rng: np.random.RandomState, *, values: Sequence[int] = (1, 0)
) -> Mask:
    """Mask of a share, rounded down, of the entries of each label with each of the values."""
    held_out = np.zeros(Y.shape, dtype=bool)
    for k, column in enumerate(Y.T):
        for value in values:
            rows = rng.permutation(np.flatnonzero(column == value))
            held_out[rows[: whole_share(share, rows.size)], k] = True
    return held_out


def whole_share(share: float, count: Any) -> Any:
    """Share of a count (int or int array), rounded down."""
    # The tiny term makes 0.29 of 100 rows 29, where the bare product is 28.999999999999996.
    return np.floor(share * np.asarray(count) + 1e-9).astype(np.intp)
