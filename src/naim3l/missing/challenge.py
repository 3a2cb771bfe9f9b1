"""An experiment with missing views and labels, which can be saved, loaded and applied."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Bunch, _safe_indexing, check_random_state

from naim3l._arrays import Mask
from naim3l.files.whole import written_whole
from naim3l.missing.checks import check_labels, check_observed, check_ratio
from naim3l.missing.masks import (
    Rows,
    Seed,
    hide_labels,
    remove_views,
    shuffle_rows,
    split_rows,
)

_FORMAT = "naim3l challenge 1"


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
    >>> from naim3l.datasets import load_yeast
    >>> from naim3l.missing import make_challenge
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
        >>> from naim3l.datasets import load_yeast
        >>> from naim3l.missing import make_challenge
        >>> yeast = load_yeast()
        >>> challenge = make_challenge(yeast.labels, n_views=2, alpha=0.4, random_state=0)
        >>> trial = challenge.apply(yeast.views, yeast.labels)
        >>> model = PerViewRidge().fit(trial.X_train, trial.Y_train)
        >>> round(evaluate(trial.Y_test, model.decision_function(trial.X_test))["AP"], 2)
        0.73
        """
        known = check_labels(Y).astype(np.float64)
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
        """Write the challenge to an .npz file, completely or not at all.

        Parameters
        ----------
        path : str or path-like
            An existing file is replaced.

        Examples
        --------
        >>> from naim3l.missing import make_challenge
        >>> Y = [[1, 0], [0, 1], [1, 1], [0, 0], [1, 0], [0, 1]]
        >>> make_challenge(Y, n_views=2, alpha=0.25, random_state=0).save("challenge.npz")
        """
        arrays = {"format": _FORMAT, **vars(self)}
        for name in ("train_order", "test_order"):
            arrays |= {f"{name}_{v}": rows for v, rows in enumerate(arrays.pop(name))}
        with written_whole(path) as part, part.open("wb") as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Challenge from a file that `save` wrote.

        Parameters
        ----------
        path : str or path-like
            Path of the file.

        Returns
        -------
        Challenge
            Equal to the one that was saved.

        Raises
        ------
        ValueError
            The file is damaged or of another kind.

        Examples
        --------
        >>> from naim3l.missing import Challenge, make_challenge
        >>> Y = [[1, 0], [0, 1], [1, 1], [0, 0], [1, 0], [0, 1]]
        >>> make_challenge(Y, n_views=2, alpha=0.25, random_state=0).save("challenge.npz")
        >>> Challenge.load("challenge.npz").alpha
        0.25
        """
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
    >>> from naim3l.missing import make_challenge
    >>> Y = [[1, 0], [0, 1], [1, 1], [0, 0], [1, 0], [0, 1]]
    >>> challenge = make_challenge(Y, n_views=2, alpha=0.25, test_size=0.34, random_state=0)
    >>> challenge.train, challenge.test
    (array([0, 1, 4, 5]), array([2, 3]))
    >>> challenge.train_order  # rows of the two views
    (array([4, 1, 0]), array([5, 0, 1]))
    """
    positive = check_labels(Y)
    alpha, beta = check_ratio("alpha", alpha), check_ratio("beta", beta)
    seen = check_observed(observed, len(positive), n_views)
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
