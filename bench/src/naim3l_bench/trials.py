"""Trials: a dataset under a challenge, with features, and how its scores are measured."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score

from naim3l import Recipe, evaluate
from naim3l.extend import Calibration, add_evidence, trace_norm
from naim3l_bench.arrays import consecutive_slices
from naim3l_bench.challenge import Challenge, make_challenge, remove_views
from naim3l_bench.datasets import MultiView

RECIPE = Recipe("paper")
HIDDEN_TEST_VIEWS = 0.5
METRICS = ("1-HL", "1-RL", "AP", "AUC")
# Groups of labels by their known positives in a view.
FREQUENCIES = (5, 20)
FREQUENCY_NAMES = ("under 5", "5 to 20", "over 20")

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Trial:
    """Features and labels of every view, as a method gets them.

    Attributes
    ----------
    X_train, X_test : dict of str to ndarray of shape (n_rows of the view, n_features)
    Y_train : dict of str to ndarray of shape (n_rows of the view, n_labels)
        1, 0, NaN = hidden.
    truth : ndarray of shape (n_test, n_labels)
    train_rows : dict of str to ndarray of shape (n_rows of the view,)
        Training sample that each row of ``X_train`` is; for methods that are given aligned rows.
    test_rows : dict of str to ndarray of shape (n_rows of the view,)
        Row of ``truth`` that each row of ``X_test`` is; for the measuring only.
    shown : bool ndarray of shape (n_test, n_views), or None
        Test views that protocol "fused" does not hide; None where so many cannot be hidden.
    """

    X_train: Arrays
    Y_train: Arrays
    X_test: Arrays
    truth: NDArray[np.int8]
    train_rows: Arrays
    test_rows: Arrays
    shown: NDArray[np.bool_] | None


@dataclass(frozen=True)
class WideTrial:
    """A trial for methods that need aligned rows: a row is a sample, and has NaN in missing views.

    Attributes
    ----------
    X_train, X_test : ndarray of shape (n_samples, n_features of all views)
    X_shown : ndarray of the shape of X_test, or None
        ``X_test`` without the views that protocol "fused" hides.
    Y_train : ndarray of shape (n_samples, n_labels)
        1, 0, NaN = hidden.
    views : dict of str to slice
        Columns of each view.
    """

    X_train: NDArray[np.float64]
    X_test: NDArray[np.float64]
    X_shown: NDArray[np.float64] | None
    Y_train: NDArray[np.float64]
    views: dict[str, slice]

    @classmethod
    def of(cls, trial: Trial) -> "WideTrial":
        """The rows of a trial, those that are one sample side by side."""
        columns = consecutive_slices(X.shape[1] for X in trial.X_train.values())
        views = dict(zip(trial.X_train, columns, strict=True))
        n_train = 1 + max(rows.max() for rows in trial.train_rows.values())
        n_test, n_labels = trial.truth.shape
        X_train, X_test = (np.full((n, columns[-1].stop), np.nan) for n in (n_train, n_test))
        Y_train = np.full((n_train, n_labels), np.nan)
        for view, at in views.items():
            X_train[trial.train_rows[view], at] = trial.X_train[view]
            X_test[trial.test_rows[view], at] = trial.X_test[view]
            Y_train[trial.train_rows[view]] = trial.Y_train[view]
        if trial.shown is None:
            return cls(X_train, X_test, None, Y_train, views)
        X_shown = X_test.copy()
        for at, shown in zip(columns, trial.shown.T, strict=True):
            X_shown[~shown, at] = np.nan
        return cls(X_train, X_test, X_shown, Y_train, views)


def draw_challenge(source: MultiView, settings: Mapping[str, Any]) -> Challenge:
    """Split, hidden labels, removed views and row orders of a fit's settings."""
    names = ("alpha", "beta", "aligned")
    return make_challenge(
        source.labels,
        len(source.views),
        observed=source.observed,
        random_state=settings["seed"],
        **{name: settings[name] for name in names},
    )


def hide_test_views(observed: NDArray[np.bool_], *, seed: int) -> NDArray[np.bool_] | None:
    """Mask of the views to show of those observed, (n_rows, n_views); None if half must stay."""
    n_rows, n_views = observed.shape
    nobody = np.zeros((n_rows, 1), dtype=np.int8)  # no row is protected as a label's first positive
    try:
        return remove_views(
            nobody, n_views, HIDDEN_TEST_VIEWS, observed=observed, random_state=seed
        )
    except ValueError:
        return None


def make_trial(source: MultiView, challenge: Challenge, *, features: str, seed: int) -> Trial:
    """Features of a challenge, fitted on all rows ("all") or on training rows only ("train").

    "all" is what the paper's experiments did: test rows take part in the PCA. "raw" leaves
    features as they are, for models that have recipes or kernels of their own.
    """
    labels = source.labels.astype(np.float32)
    labels[challenge.train] = np.where(challenge.hidden, np.nan, labels[challenge.train])
    position = np.empty(len(labels), dtype=np.intp)
    for rows in (challenge.train, challenge.test):
        position[rows] = np.arange(len(rows))
    X_train, X_test, Y_train, train_rows, test_rows = {}, {}, {}, {}, {}
    for v, view in enumerate(source.views):
        train, test = challenge.train_order[v], challenge.test_order[v]
        make = MAKERS[features]
        try:
            X_train[view], X_test[view] = make(source, v, view, train, test)
        except ValueError as error:
            raise ValueError(f"view {view!r}: {error}") from error
        Y_train[view] = labels[train]
        train_rows[view], test_rows[view] = position[train], position[test]
    truth = source.labels[challenge.test].astype(np.int8)
    shown = hide_test_views(source.observed[challenge.test], seed=seed)
    return Trial(X_train, Y_train, X_test, truth, train_rows, test_rows, shown)


def _fitted_on_train(
    source: MultiView, v: int, view: str, train: Any, test: Any
) -> tuple[NDArray, NDArray]:
    rows, new_rows = _raw(source, v, view, train, test)
    fitted, features = RECIPE.fit(rows)
    return features, fitted.apply(new_rows)


# Rows that have a view and their features, fitted on all of them: the same for every seed.
_all_features: dict[str, tuple[NDArray, NDArray]] = {}


def _slices_of_all(
    source: MultiView, v: int, view: str, train: Any, test: Any
) -> tuple[NDArray, NDArray]:
    key = f"{source.digest} {view}"
    if key not in _all_features:
        observed = np.flatnonzero(source.observed[:, v])
        rows = source.views[view][observed].astype(np.float64)
        _all_features[key] = observed, RECIPE.fit(rows)[1]
    rows, features = _all_features[key]
    return features[np.searchsorted(rows, train)], features[np.searchsorted(rows, test)]


def _raw(source: MultiView, v: int, view: str, train: Any, test: Any) -> tuple[NDArray, NDArray]:
    X = source.views[view]
    return np.asarray(X[train], dtype=np.float64), np.asarray(X[test], dtype=np.float64)


MAKERS = {"all": _slices_of_all, "train": _fitted_on_train, "raw": _raw}


def masks_digest(challenge: Challenge, trial: Trial) -> str:
    """SHA-256 of all that was drawn: split, hidden labels, views, orders, hidden test views."""
    digest = hashlib.sha256()
    arrays: list[Any] = [challenge.train, challenge.test, challenge.hidden, challenge.present]
    arrays += [*challenge.train_order, *challenge.test_order]
    arrays += [] if trial.shown is None else [trial.shown]
    for array in arrays:
        as_bytes = np.packbits(array) if array.dtype == bool else array.astype("<i8")
        digest.update(as_bytes.tobytes())
    return digest.hexdigest()


def measure(trial: Trial, scores: Mapping[str, NDArray[np.float64]]) -> dict[str, Any]:
    """Metrics of scores of the test rows of every view, as fractions.

    Returns
    -------
    dict
        "per view": each metric on each view's rows, then the mean over views. "fused": scores
        averaged over the views of a row that are not hidden. "views": the four metrics by view.
    """
    by_view = {view: evaluate(trial.truth[trial.test_rows[view]], S) for view, S in scores.items()}
    names = next(iter(by_view.values()))
    return {
        "per view": {
            name: float(np.mean([values[name] for values in by_view.values()])) for name in names
        },
        "fused": _measure_fused(trial, scores),
        "views": {
            view: {name: values[name] for name in METRICS} for view, values in by_view.items()
        },
    }


def measure_calibrated(
    trial: Trial, log_odds: Arrays, base: NDArray[np.floating]
) -> dict[str, Any]:
    """Metrics of calibrated scores, and of other ways than the mean to fuse views.

    Parameters
    ----------
    trial : Trial
    log_odds : dict of str to ndarray of shape (n_rows of the view, n_labels)
    base : ndarray of shape (n_labels,)
        Log-odds of the labels before any feature is seen.

    Returns
    -------
    dict
        "calibrated": as "per view" of `measure`, of the log-odds. "evidence": what each view that
        is not hidden adds to the base, added up; "rank": the mean of the labels' ranks.
        "label AP": of "evidence", mean over labels of the precision of each, by known positives.
    """
    calibrated = measure(trial, log_odds)["per view"]
    table = shown_by_sample(trial, log_odds)
    if table is None:
        return {"calibrated": calibrated, "evidence": None, "rank": None, "label AP": None}
    fused = add_evidence(table, base)
    ranks = fuse_arrays(rank_labels(table))
    return {
        "calibrated": calibrated,
        "evidence": evaluate(trial.truth, fused, protocol="fused"),
        "rank": evaluate(trial.truth, ranks, protocol="fused"),
        "label AP": _label_precision(trial, fused),
    }


def measure_overlapping(
    trial: Trial, log_odds: Arrays, base: NDArray[np.floating], overlap: float
) -> dict[str, Any] | None:
    """Metrics of evidence whose sum is divided as `add_evidence` says, as fractions.

    Parameters
    ----------
    trial, log_odds, base
        As in `measure_calibrated`.
    overlap : float

    Returns
    -------
    dict or None
        The metrics, and "label AP": the mean over all labels of the precision of each, by known
        positives as well, where there are such labels. None where so many test views cannot be
        hidden.
    """
    table = shown_by_sample(trial, log_odds)
    if table is None:
        return None
    fused = add_evidence(table, base, overlap=overlap)
    groups = _label_precision(trial, fused)
    n_labels = sum(group["labels"] for group in groups.values())
    total = sum(group["labels"] * group["AP"] for group in groups.values())
    return evaluate(trial.truth, fused, protocol="fused") | {
        "label AP": total / max(n_labels, 1),
        **{name: group["AP"] for name, group in groups.items() if group["labels"]},
    }


def _label_precision(trial: Trial, fused: NDArray[np.floating]) -> dict[str, dict[str, float]]:
    """Mean over the labels of a group of the average precision of ranking rows by each."""
    seen = ~np.isnan(fused).any(axis=1)
    known = np.mean([(Y > 0).sum(axis=0) for Y in trial.Y_train.values()], axis=0)
    groups = np.digitize(known, FREQUENCIES)
    found = {}
    for g, name in enumerate(FREQUENCY_NAMES):
        labels = [k for k in np.flatnonzero(groups == g) if trial.truth[seen, k].any()]
        values = [average_precision_score(trial.truth[seen, k], fused[seen, k]) for k in labels]
        found[name] = {"labels": len(values), "AP": float(np.mean(values)) if values else 0.0}
    return found


def fuse_arrays(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the views that a sample has of scores (n_views, n_samples, n_labels).

    Scores are NaN in the rows of samples that lack the view; the result is NaN for samples without
    views.
    """
    present = ~np.isnan(scores)
    count = present.sum(axis=0)
    total = np.where(present, scores, 0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def rank_labels(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rank of each label in its row, the largest for the best score; NaN stays NaN."""
    return np.asarray(rankdata(scores, axis=-1, nan_policy="propagate"))


def by_sample(trial: Trial, scores: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Scores as (n_views, n_test, n_labels), NaN where a test sample lacks the view."""
    table = np.full((len(scores), *trial.truth.shape), np.nan)
    for v, (view, S) in enumerate(scores.items()):
        table[v, trial.test_rows[view]] = S
    return table


def _measure_fused(trial: Trial, scores: Mapping[str, NDArray[np.float64]]) -> dict | None:
    table = shown_by_sample(trial, scores)
    return None if table is None else evaluate(trial.truth, fuse_arrays(table), protocol="fused")


def shown_by_sample(trial: Trial, scores: Mapping[str, NDArray]) -> NDArray[np.float64] | None:
    """`by_sample` without the hidden test views; None where so many cannot be hidden."""
    if trial.shown is None:
        return None
    table = by_sample(trial, scores)
    table[~trial.shown.T] = np.nan
    return table


def spectrum_of_scores(trial: Trial, scores: Mapping[str, NDArray[np.float64]]) -> dict[str, Any]:
    """Rank and trace norms of the scores of all test rows, and of those that share a label.

    Returns
    -------
    dict
        "rank" and "trace_norm" of all rows of all views stacked; "label_trace_norm_mean" and
        "label_trace_norm_median" over the labels that a test row has.
    """
    stacked = np.concatenate(list(scores.values()))
    truth = np.concatenate([trial.truth[trial.test_rows[view]] for view in scores]) > 0
    of_labels = [trace_norm(stacked[rows]) for rows in truth.T if rows.any()]
    return {
        "rank": int(np.linalg.matrix_rank(stacked)),
        "trace_norm": float(trace_norm(stacked)),
        "label_trace_norm_mean": float(np.mean(of_labels)),
        "label_trace_norm_median": float(np.median(of_labels)),
    }


Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class LogOdds:
    """In place of a calibration, for scores that are log-odds as they are."""

    base: NDArray[np.float64]  # log-odds of the base rates, (n_labels,)

    def log_odds(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """The scores themselves."""
        return scores


@dataclass
class Outcome:
    """Scores of the test rows of every view, and what else a method reports.

    A method that has one score for all views of a sample has no scores by view, and measures the
    others itself.
    """

    scores: dict[str, NDArray[np.float64]]
    numbers: dict[str, Any] = field(default_factory=dict)
    calibrations: Mapping[str, Calibration | LogOdds] = field(
        default_factory=dict
    )  # of scores, by view
    metrics: dict[str, Any] = field(default_factory=dict)  # besides those of `trials.measure`


Method = Callable[[Trial, Parameters, int], Outcome]  # the last argument is a seed
