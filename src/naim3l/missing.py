"""The paper's way of making data incomplete: hide labels, remove views, shuffle rows.

Each step is a function of complete 0/1 labels and a seed; `make_challenge` runs them in order and
keeps the outcome in a `Challenge`, which can be saved, loaded and applied to tables.

Two conventions hold throughout. A share of a count is rounded down (`whole_share`). And
`random_state` is an int, a ``numpy.random.RandomState`` or None, as in scikit-learn; NumPy has
frozen the streams of ``RandomState``, so a seed gives the same rows with every version.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import maximum_flow
from sklearn.utils import Bunch, _safe_indexing, check_random_state

from naim3l._arrays import Mask
from naim3l.decisions.held_out import hold_out_share, whole_share
from naim3l.files.whole import written_whole

Seed = int | np.random.RandomState | None
Rows = NDArray[np.integer[Any]]

_FORMAT = "naim3l challenge 1"


def first_positives(Y: ArrayLike) -> Rows:
    """Rows that hold the first positive of some label, ascending.

    Parameters
    ----------
    Y : array-like of shape (n_samples, n_labels)
        Complete labels, 0 or 1. A label without a positive has no such row.
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
    test_size : float in [0, 1]
        Share of the rows for testing, rounded down: ``floor(test_size * n_samples)`` rows.
    random_state : int, RandomState or None

    Returns
    -------
    train, test : int arrays, ascending
        Together they hold every row once.
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


@dataclass(frozen=True, eq=False)
class Challenge:
    """One experiment: which rows train, which test, what is missing, and the order of the rows.

    Attributes
    ----------
    train, test : int arrays
        Row numbers; together every row once.
    hidden : bool array of shape (n_train, n_labels)
        Labels hidden from training, alike in all views. Row i is the sample ``train[i]``.
    present : bool array of shape (n_train, n_views)
        Views that the training samples have.
    train_order, test_order : tuples of n_views int arrays
        Per view, the row numbers of the full table that the view holds, in the view's own order.
    alpha, beta : float
        Shares of missing views and of missing labels that were asked for.
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
            NumPy, SciPy sparse (comes back as CSR), pandas or polars; rows aligned across views.
        Y : array-like of shape (n_samples, n_labels)
            The complete labels that the challenge was made from.

        Returns
        -------
        data : Bunch with X_train, Y_train, X_test, Y_test
            Each a dict by view, in the order of `views`. Labels are float arrays of shape
            (rows of the view, n_labels): 1, 0, and NaN where hidden from training.
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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the challenge to an .npz file, whole or not at all."""
        arrays = {"format": _FORMAT, **vars(self)}
        for name in ("train_order", "test_order"):
            arrays |= {f"{name}_{v}": rows for v, rows in enumerate(arrays.pop(name))}
        with written_whole(path) as part, part.open("wb") as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Challenge read from a file that `save` wrote; ValueError if it is anything else."""
        with open(path, "rb") as file:  # a file that cannot be opened keeps its OSError
            try:
                # Reading every array also compares its checksum.
                fields: dict[str, Any] = dict(np.load(file, allow_pickle=False))
                if fields.pop("format") != _FORMAT:
                    raise ValueError(f"its format is not {_FORMAT!r}")
                views = range(fields["present"].shape[1])
                for name in ("train_order", "test_order"):
                    fields[name] = tuple(fields.pop(f"{name}_{v}") for v in views)
                fields |= {name: float(fields[name]) for name in ("alpha", "beta")}
                return cls(**fields)
            except Exception as error:  # damage surfaces as many types, from BadZipFile to KeyError
                cause = f"{type(error).__name__}: {error}"
                raise ValueError(f"{path} is not a complete challenge file ({cause}).") from error


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

    Every step draws from a stream of its own, derived from `random_state`. So the split depends on
    the seed and `test_size` alone, hidden labels not on `alpha`, and removed views not on `beta`.

    Parameters
    ----------
    Y : array-like of shape (n_samples, n_labels)
        Complete labels, 0 or 1.
    n_views : int
    alpha, beta, test_size : float in [0, 1]
        See `remove_views` and `hide_labels`, here used on training rows, and `split_rows`.
    aligned : bool
        True keeps the rows of every view in ascending order instead of shuffling them.
    observed : array-like of shape (n_samples, n_views), default all True
        False where a view is really missing: it then lacks the row in training and in test.
    random_state : int, RandomState or None
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


def _round_down(ratio: float) -> float:
    """Ratio cut to four digits, so that the value an error names is itself allowed."""
    return float(np.floor(ratio * 1e4 + 1e-9) / 1e4)


def _check_labels(Y: ArrayLike) -> Mask:
    """Mask of the positives, (n_samples, n_labels), once all entries are known to be 0 or 1."""
    table = np.asarray(Y.toarray() if hasattr(Y, "toarray") else Y)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"Y has shape {table.shape}; (n_samples, n_labels), not empty, is needed.")
    if table.dtype.kind in "biuf":
        valid = (table == 0) | (table == 1)
    else:  # text, or nullable columns, where pandas.NA refuses to be compared
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
