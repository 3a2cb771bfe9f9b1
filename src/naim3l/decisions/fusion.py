"""One score per sample from several: from those of its views, or of unlike models of a view."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit

from naim3l._arrays import Matrix
from naim3l.decisions.calibration import Calibration
from naim3l.files.stored import Array, ListOf, Nested
from naim3l.input.batches import Batch

Scores = NDArray[np.float64]

FUSIONS = ("mean", "evidence", "learned")
# Learned weights differ between groups of rare, medium and frequent labels.
N_GROUPS = 3
# Strength of the prior of learned weights, in units of one entry's log-loss.
PULL = 10.0
# Probabilities are clipped to this distance from 0 and 1, so that no view decides alone.
LEAST_PROBABILITY = 1e-9


def fuse_arrays(scores: Matrix) -> Scores:
    """Mean over the views that a sample has, (n_samples, n_labels).

    Parameters
    ----------
    scores : ndarray of shape (n_views, n_samples, n_labels)
        NaN in the rows of samples that lack the view; the result is NaN for samples without views.
    """
    present = ~np.isnan(scores)
    count = present.sum(axis=0)
    total = np.where(present, scores, 0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def add_evidence(
    log_odds: Matrix, base: Matrix, weights: Matrix | None = None, overlap: Matrix | float = 0.0
) -> Scores:
    """Log-odds of each label given all views that a sample has, (n_samples, n_labels).

    The evidence of a view is the difference between its log-odds and those of the base rate. The
    evidence of views that are independent given the label is added up (overlap 0); that of
    identical views counts once, as in the mean (overlap 1). In general, the sum over n views is
    divided by 1 + overlap (n - 1).

    Parameters
    ----------
    log_odds : ndarray of shape (n_views, n_samples, n_labels)
        Calibrated log-odds by view. NaN in the rows of samples that lack the view; the result is
        NaN for samples without views.
    base : ndarray of shape (n_labels,)
        Prior log-odds of the labels.
    weights : ndarray of shape (n_views, n_labels), optional
        Weights of each view's evidence, by default 1.
    overlap : float or ndarray of shape (n_labels,)
        From 0 for independent views to 1 for identical ones.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        Log-odds; NaN for samples without views.
    """
    evidence = log_odds - base
    if weights is not None:
        evidence = evidence * weights[:, None, :]
    n_views = (~np.isnan(evidence)).sum(axis=0)
    total = np.nansum(evidence, axis=0) / _overlap_factor(n_views, overlap)
    return np.where(n_views == 0, np.nan, base + total)


def _overlap_factor(n_views: Any, overlap: Any) -> Any:
    return 1 + overlap * np.maximum(n_views - 1, 0)


@dataclass(frozen=True)
class Evidence:
    """Fusion by added evidence: a calibration of every view, and weights of their evidence.

    Attributes
    ----------
    calibrations : list of Calibration, one per view
    weights : ndarray of shape (n_views, n_labels)
    overlap : ndarray of shape (n_labels,)
        From 0 for independent views to 1 for identical ones.
    """

    calibrations: list[Calibration]
    weights: Matrix
    overlap: Matrix

    _stored: ClassVar[Mapping[str, Any]] = {
        "calibrations": ListOf(Nested(Calibration), "views"),
        "weights": Array("f", "views", "labels"),
        "overlap": Array("f", "labels", low=0, high=1),
    }

    @classmethod
    def plain(cls, calibrations: list[Calibration]) -> "Evidence":
        """Evidence of weight 1 for every view, without overlap."""
        n_labels = len(calibrations[0].base)
        return cls(calibrations, np.ones((len(calibrations), n_labels)), np.zeros(n_labels))

    def fuse(self, scores: Matrix) -> Scores:
        """Log-odds (n_samples, n_labels) of scores (n_views, n_samples, n_labels)."""
        return add_evidence(*self._log_odds(scores), self.weights, self.overlap)

    def _log_odds(self, scores: Matrix) -> tuple[Matrix, Matrix]:
        return calibrated(self.calibrations, scores), self.calibrations[0].base

    def learned(self, scores: Matrix, truth: Matrix) -> "Evidence":
        """The same with the weights and overlap that fit samples best."""
        return Evidence(self.calibrations, *fit_weights(*self._log_odds(scores), truth))


def fuse_views(scores: Matrix, evidence: Evidence | None) -> Scores:
    """Scores (n_samples, n_labels) of those by view, (n_views, n_samples, n_labels)."""
    return fuse_arrays(scores) if evidence is None else evidence.fuse(scores)


def label_groups(truth: Matrix, n_groups: int = N_GROUPS) -> NDArray[np.intp]:
    """Group of each label, from rare to frequent, with about as many positives in each group."""
    positives = np.nansum(truth, axis=0)
    order = np.argsort(positives, kind="stable")
    # Midpoints of the labels' positives, cumulated from rare to frequent.
    middle = np.cumsum(positives[order]) - positives[order] / 2
    group = np.empty(len(positives), dtype=np.intp)
    group[order] = np.minimum(n_groups * middle / max(positives.sum(), 1), n_groups - 1)
    return group


def fit_weights(
    log_odds: Matrix, base: Matrix, truth: Matrix, pull: float = PULL
) -> tuple[Matrix, Matrix]:
    """Weights (n_views, n_labels) and overlap (n_labels,) of evidence with the lowest log-loss.

    There is one non-negative weight per view and group of labels, shrunk towards 1, and one overlap
    per group, shrunk towards 0. Without the overlap, the same weights would have to be right for
    samples with one view and for samples with all views.

    Parameters
    ----------
    log_odds, base
        As in `add_evidence`, for entries that were held out of the fit; NaN elsewhere.
    truth : ndarray of shape (n_samples, n_labels)
        1, 0, NaN = unknown.
    pull : float
        Strength of the shrinkage, in units of one entry's log-loss.
    """
    n_views = (~np.isnan(log_odds)).sum(axis=0)
    found = _fit_by_group(np.nan_to_num(log_odds - base), n_views, base, truth, pull, 1.0)
    return found[:-1], found[-1]


def _fit_by_group(
    evidence: Matrix, n_views: Any, base: Matrix, truth: Matrix, pull: float, centre: float
) -> Matrix:
    """`least_log_loss` of each group of labels, (n_weights + 1, n_labels)."""
    groups, found = label_groups(truth), np.empty((len(evidence) + 1, truth.shape[1]))
    known = ~np.isnan(truth) & (n_views > 0)
    starts = np.broadcast_to(base, known.shape)
    for group in np.unique(groups):
        of_group = groups == group
        at = known[:, of_group]
        found[:, of_group] = least_log_loss(
            evidence[:, :, of_group][:, at],
            n_views[:, of_group][at],
            starts[:, of_group][at],
            truth[:, of_group][at],
            pull,
            centre,
        )[:, None]
    return found


def least_log_loss(
    E: Matrix, n_views: Matrix, start: Matrix, yes: Matrix, pull: float, centre: float
) -> Matrix:
    """Weights w (n_views,) followed by the overlap r, with the lowest log-loss.

    The log-odds of entry i, of a sample with n views, are ``start + w @ E / (1 + r (n - 1))``.
    Weights are shrunk towards ``centre``, and the overlap towards 0.
    """
    neutral = np.append(np.full(len(E), centre), 0.0)

    def loss(parameters: Matrix) -> tuple[float, Matrix]:
        w, r = parameters[:-1], parameters[-1]
        factor = _overlap_factor(n_views, r)
        added = w @ E / factor
        log_odds = start + added
        value = -np.sum(log_expit(np.where(yes > 0, log_odds, -log_odds)))
        value += 0.5 * pull * np.sum((parameters - neutral) ** 2)
        wrong = (expit(log_odds) - yes) / factor
        slope = np.append(E @ wrong, -wrong @ (added * (n_views - 1)))
        return float(value), slope + pull * (parameters - neutral)

    bounds = [(0, None)] * len(E) + [(0, 1)]
    return np.asarray(minimize(loss, neutral, jac=True, method="L-BFGS-B", bounds=bounds).x)


@dataclass(frozen=True)
class Blend:
    """Log-odds of several models for the rows of one view, as one.

    Attributes
    ----------
    calibrations : list of Calibration, one per model
    weights : ndarray of shape (n_models, n_labels)
        Weights of what the log-odds of each model add to the base rates of the labels.
    """

    calibrations: list[Calibration]
    weights: Matrix

    _stored: ClassVar[Mapping[str, Any]] = {
        "calibrations": ListOf(Nested(Calibration), "members"),
        "weights": Array("f", "members", "labels"),
    }

    def log_odds(self, scores: Matrix) -> Matrix:
        """Log-odds (n_rows, n_labels) of scores (n_models, n_rows, n_labels)."""
        return blend(calibrated(self.calibrations, scores), self.calibrations[0].base, self.weights)


def calibrated(calibrations: list[Calibration], scores: Matrix) -> Matrix:
    """Log-odds by view or model, (n, n_rows, n_labels), of scores in the same shape."""
    pairs = zip(calibrations, scores, strict=True)
    return np.stack([calibration.log_odds(S) for calibration, S in pairs])


def blend(log_odds: Matrix, base: Matrix, weights: Matrix) -> Matrix:
    """Base rates and the weighted sum of what each model adds to them, (n_rows, n_labels).

    Of calibrated log-odds (n_models, n_rows, n_labels); the result is NaN where one of them is.
    """
    return np.asarray(base + np.einsum("mrl,ml->rl", log_odds - base, weights))


def blend_weights(log_odds: Matrix, base: Matrix, truth: Matrix, pull: float = PULL) -> Matrix:
    """Weights (n_models, n_labels) with which `blend` has the lowest log-loss.

    As in `fit_weights`, but shrunk towards equal weights that sum to 1. All entries have all
    models, so that there is no overlap to learn.
    """
    complete = ~np.isnan(log_odds).any(axis=0)
    evidence = np.nan_to_num(log_odds - base)
    return _fit_by_group(evidence, complete.astype(np.intp), base, truth, pull, 1 / len(log_odds))[
        :-1
    ]


def fuse(scores: Mapping[str, Any], *, base_rates: Any = None, overlap: float = 0.0) -> Any:
    """Scores or probabilities of samples, fused over the views that each sample has.

    Views may be trained on rows that cannot be matched, and be fused for new rows that can. Rows
    of pandas tables are matched by index. Arrays and other data frames have no index, so that
    row i of every view must be the same sample, with NaN or null if it lacks the view.

    Parameters
    ----------
    scores : mapping of str to ndarray or data frame of shape (n_rows, n_labels)
        Results of ``decision_function`` or ``predict_proba`` by view. All must be of one library;
        data frames need the same columns, and those of pandas unique indexes.
    base_rates : array-like of shape (n_labels,), Series or mapping, optional
        Share of positives of each label, such as ``base_rates_`` of a model, by name or in the
        order of the columns of the first table. If given, scores must be probabilities, and the
        evidence of each view beyond the base rate is added up, which is usually more accurate
        than the mean. By default the mean over views is returned.
    overlap : float from 0 to 1, default=0.0
        How much of what a view says the other views say, too; only with ``base_rates``. The sum of
        the evidence of n views is divided by 1 + overlap (n - 1), so that identical views count
        as one view with 1, and independent views count in full with 0.

    Returns
    -------
    ndarray or data frame of shape (n_samples, n_labels)
        Means, or probabilities with ``base_rates``, in a table of the same library. For pandas it
        has a row for each index that occurs in a view, in the order of first occurrence.

    Examples
    --------
    Ann has both views, and both raise the probability above the base rate of 0.5:

    >>> import pandas as pd
    >>> from naim3l import fuse
    >>> clinic = pd.DataFrame({"flu": [0.8, 0.4]}, index=["Ann", "Bob"])
    >>> lab = pd.DataFrame({"flu": [0.8, 0.3]}, index=["Ann", "Cid"])
    >>> fuse({"clinic": clinic, "lab": lab}, base_rates=[0.5]).round(2)
          flu
    Ann  0.94
    Bob  0.40
    Cid  0.30
    >>> fuse({"clinic": clinic, "lab": lab})  # the mean
         flu
    Ann  0.8
    Bob  0.4
    Cid  0.3
    """
    if not (isinstance(overlap, Real) and 0 <= overlap <= 1):
        raise ValueError(f"overlap must be a number from 0 to 1, got {overlap!r}.")
    if overlap and base_rates is None:
        raise ValueError(f"overlap={overlap:g} has no effect on the mean; give base_rates, too.")
    if not isinstance(scores, Mapping) or not scores:
        raise TypeError("scores must be a mapping {view: table} of at least one view.")
    tables = {view: Batch(table, f"view {view!r}") for view, table in scores.items()}
    first = next(iter(tables.values()))
    labels = _labels(first)
    for table in tables.values():
        _check_alike(table, first, next(iter(tables)))
    index, rows = _match_rows(tables)
    n_samples = first.shape[0] if index is None else len(index)
    stacked = np.full((len(tables), n_samples, len(labels)), np.nan)
    for S, table, at in zip(stacked, tables.values(), rows, strict=True):
        S[at] = table.numbers(allowed="scores")[:, [_labels(table).index(k) for k in labels]]
    if base_rates is None:
        fused = fuse_arrays(stacked)
    else:
        fused = _fuse_probabilities(stacked, _rates(base_rates, labels), overlap)
    if first.frame is None:
        return fused
    if index is None:
        return nw.from_numpy(fused, labels, backend=first.frame.implementation).to_native()
    pandas = nw.get_native_namespace(first.frame)
    return pandas.DataFrame(fused, index=index, columns=first.data.columns)


def _labels(table: Batch) -> list[Any]:
    """Names of the columns, or their positions if they have none."""
    return list(range(table.shape[1]) if table.frame is None else table.frame.columns)


def _check_alike(table: Batch, first: Batch, first_view: str) -> None:
    """Refuse a table of another library, or with other columns, than the first."""
    if sparse.issparse(table.data):
        raise TypeError(f"{table.origin}: a sparse matrix; scores are needed for all labels.")
    if type(table.data) is not type(first.data):
        raise TypeError(
            f"{table.origin}: a {type(table.data).__qualname__} of {type(table.data).__module__}, "
            f"but {first_view!r} is a {type(first.data).__qualname__} of "
            f"{type(first.data).__module__}; give tables of one library."
        )
    if set(_labels(table)) != set(_labels(first)):
        raise ValueError(f"{table.origin}: columns differ from those of {first_view!r}.")


def _match_rows(tables: Mapping[str, Batch]) -> tuple[Any, list[Any]]:
    """Index of the samples, None for tables without one, and positions of each table's rows."""
    first_view, first = next(iter(tables.items()))
    if hasattr(first.data, "iloc"):
        indexes = [table.data.index for table in tables.values()]
        for view, index in zip(tables, indexes, strict=True):
            _check_index(view, index)
        index = indexes[0].append(indexes[1:]).drop_duplicates()
        return index, [index.get_indexer(own) for own in indexes]
    for table in tables.values():
        if table.shape[0] != first.shape[0]:
            raise ValueError(
                f"{table.origin}: {table.shape[0]} rows, and {first.shape[0]} of {first_view!r}; "
                "without an index rows are matched by position, so all views need as many. "
                "Tables of pandas are matched by index."
            )
    return None, [slice(None)] * len(tables)


def _check_index(view: str, index: Any) -> None:
    """Refuse an index that does not identify the sample of each row."""
    if not index.is_unique:
        twice = index[index.duplicated()][0]
        raise ValueError(f"view {view!r}: index {twice!r} occurs more than once.")
    unknown = index.to_frame().isna().to_numpy().any(axis=1)
    if unknown.any():
        raise ValueError(
            f"view {view!r}, row {unknown.argmax()}: the index is missing (NaN), so the row cannot "
            "be matched; drop such rows, or give them an index of their own."
        )


def _rates(base_rates: Any, labels: list[Any]) -> Matrix:
    """Base rates in the order of the labels, by name where they have names."""
    if hasattr(base_rates, "iloc") and type(base_rates.index).__name__ != "RangeIndex":
        base_rates = base_rates.to_dict()
    if isinstance(base_rates, Mapping):
        missing = [label for label in labels if label not in base_rates]
        if missing:
            raise ValueError(f"base_rates: no entry for label {missing[0]!r}.")
        base_rates = [base_rates[label] for label in labels]
    try:
        return np.asarray(base_rates, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"base_rates must be numbers: {error}.") from None


def _fuse_probabilities(P: Matrix, rates: Matrix, overlap: float) -> Scores:
    """Probabilities (n_samples, n_labels) from those of views, (n_views, n_samples, n_labels)."""
    if rates.shape != P.shape[2:] or not ((rates > 0) & (rates < 1)).all():
        raise ValueError(
            f"base_rates must be {P.shape[2]} numbers between 0 and 1, one per label; got "
            f"{rates!r}."
        )
    outside = (P < 0) | (P > 1)
    if outside.any():
        raise ValueError(
            f"with base_rates= scores must be probabilities, got {P[outside][0]:g}; "
            "predict_proba gives them."
        )
    log_odds = logit(np.clip(P, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY))
    return expit(add_evidence(log_odds, logit(rates), overlap=overlap))
