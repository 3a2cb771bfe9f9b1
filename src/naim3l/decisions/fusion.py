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
from naim3l.decisions.calibration import Calibration, fit_calibration
from naim3l.files.stored import Array, ListOf, Nested
from naim3l.input.batches import Batch

FUSIONS = ("mean", "evidence", "learned")
# Learned weights differ between groups of rare, medium and frequent labels.
N_GROUPS = 3
# Strength of the prior of learned weights, in units of one entry's log-loss.
PULL = 10.0
# Probabilities are clipped to this distance from 0 and 1, so that no view decides alone.
LEAST_PROBABILITY = 1e-9


def fuse_arrays(scores: Matrix) -> Matrix:
    """Mean over the views that a sample has, of scores (n_views, n_samples, n_labels), or NaN."""
    present = ~np.isnan(scores)
    count = present.sum(axis=0)
    total = np.where(present, scores, 0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def add_evidence(
    log_odds: Matrix, base: Matrix, weights: Matrix | None = None, overlap: Matrix | float = 0.0
) -> Matrix:
    """Log-odds of each label given all views that a sample has, (n_samples, n_labels).

    The evidence of a view is the difference between its log-odds and those of the base rate. The
    evidence of views that are independent given the label is added up (overlap 0); that of
    identical views counts once, as in the mean (overlap 1). In general, the sum over n views is
    divided by 1 + overlap (n - 1).

    Parameters
    ----------
    log_odds : ndarray of shape (n_views, n_samples, n_labels)
        Calibrated log-odds by view, NaN in the rows of samples that lack the view.
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
    total = np.nansum(evidence, axis=0) / (1 + overlap * np.maximum(n_views - 1, 0))
    return np.where(n_views == 0, np.nan, base + total)


@dataclass(frozen=True)
class Evidence:
    """Fusion by added evidence: a calibration of every view, and weights of their evidence."""

    calibrations: list[Calibration]
    weights: Matrix  # (n_views, n_labels)
    overlap: Matrix  # (n_labels,)

    _stored: ClassVar[Mapping[str, Any]] = {
        "calibrations": ListOf(Nested(Calibration), "views"),
        "weights": Array("f", "views", "labels"),
        "overlap": Array("f", "labels", low=0, high=1),
    }

    @classmethod
    def fit(cls, scores: Matrix, truth: Matrix, rates: Matrix, *, learned: bool) -> "Evidence":
        """Evidence of scores (n_views, n_samples, n_labels), of weight 1 unless it is learned."""
        curves = [fit_calibration(S, truth, rates) for S in scores]
        if learned:
            found = fit_weights(calibrated(curves, scores), curves[0].base, truth)
        else:
            found = np.ones((len(scores), len(rates))), np.zeros(len(rates))
        return cls(curves, *found)

    def fuse(self, scores: Matrix) -> Matrix:
        """Log-odds (n_samples, n_labels) of scores (n_views, n_samples, n_labels)."""
        log_odds = calibrated(self.calibrations, scores)
        return add_evidence(log_odds, self.calibrations[0].base, self.weights, self.overlap)


def fuse_views(scores: Matrix, evidence: Evidence | None) -> Matrix:
    """Scores (n_samples, n_labels) of those by view, (n_views, n_samples, n_labels)."""
    return fuse_arrays(scores) if evidence is None else evidence.fuse(scores)


def label_groups(truth: Matrix) -> NDArray[np.intp]:
    """Group of each label, from rare to frequent, with about as many positives in each group."""
    positives = np.nansum(truth, axis=0)
    order = np.argsort(positives, kind="stable")
    # Midpoints of the labels' positives, cumulated from rare to frequent.
    middle = np.cumsum(positives[order]) - positives[order] / 2
    group = np.empty(len(positives), dtype=np.intp)
    group[order] = np.minimum(N_GROUPS * middle / max(positives.sum(), 1), N_GROUPS - 1)
    return group


def fit_weights(log_odds: Matrix, base: Matrix, truth: Matrix) -> tuple[Matrix, Matrix]:
    """Weights (n_views, n_labels) and overlap (n_labels,) of evidence with the lowest log-loss.

    There is one non-negative weight per view and group of labels, shrunk towards 1, and one overlap
    per group, shrunk towards 0. Without the overlap, the same weights would have to be right for
    samples with one view and for samples with all views.
    """
    n_views = (~np.isnan(log_odds)).sum(axis=0)
    found = _fit_by_group(log_odds, n_views, base, truth, 1.0)
    return found[:-1], found[-1]


def _fit_by_group(
    log_odds: Matrix, n_views: Any, base: Matrix, truth: Matrix, centre: float
) -> Matrix:
    """`_least_log_loss` of each group of labels, (n_weights + 1, n_labels)."""
    evidence = np.nan_to_num(log_odds - base)
    groups, found = label_groups(truth), np.empty((len(evidence) + 1, truth.shape[1]))
    known = ~np.isnan(truth) & (n_views > 0)
    starts = np.broadcast_to(base, known.shape)
    for group in np.unique(groups):
        at = known & (groups == group)
        entries = (evidence[:, at], n_views[at], starts[at], truth[at])
        found[:, groups == group] = _least_log_loss(*entries, centre)[:, None]
    return found


def _least_log_loss(
    E: Matrix, n_views: Matrix, start: Matrix, yes: Matrix, centre: float
) -> Matrix:
    """Weights w (n_views,) followed by the overlap r, with the lowest log-loss.

    The log-odds of entry i, of a sample with n views, are ``start + w @ E / (1 + r (n - 1))``.
    Weights are shrunk towards ``centre``, and the overlap towards 0.
    """
    neutral = np.append(np.full(len(E), centre), 0.0)

    def loss(parameters: Matrix) -> tuple[float, Matrix]:
        w, r = parameters[:-1], parameters[-1]
        factor = 1 + r * (n_views - 1)
        added = w @ E / factor
        log_odds = start + added
        value = -np.sum(log_expit(np.where(yes > 0, log_odds, -log_odds)))
        value += 0.5 * PULL * np.sum((parameters - neutral) ** 2)
        wrong = (expit(log_odds) - yes) / factor
        slope = np.append(E @ wrong, -wrong @ (added * (n_views - 1)))
        return float(value), slope + PULL * (parameters - neutral)

    bounds = [(0, None)] * len(E) + [(0, 1)]
    return np.asarray(minimize(loss, neutral, jac=True, method="L-BFGS-B", bounds=bounds).x)


@dataclass(frozen=True)
class Blend:
    """Log-odds of several models for the rows of one view, as one."""

    calibrations: list[Calibration]
    weights: Matrix  # (n_models, n_labels), of what each model adds to the base rates

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
    """Base rates and the weighted sum of what each model adds to them, (n_rows, n_labels)."""
    return np.asarray(base + np.einsum("mrl,ml->rl", log_odds - base, weights))


def blend_weights(log_odds: Matrix, base: Matrix, truth: Matrix) -> Matrix:
    """Weights (n_models, n_labels) with which `blend` has the lowest log-loss.

    As in `fit_weights`, but without overlap, and shrunk towards equal weights that sum to 1.
    """
    complete = (~np.isnan(log_odds).any(axis=0)).astype(np.intp)
    return _fit_by_group(log_odds, complete, base, truth, 1 / len(log_odds))[:-1]


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
    """
    if not (isinstance(overlap, Real) and 0 <= overlap <= 1):
        raise ValueError(f"overlap must be a number from 0 to 1, got {overlap!r}.")
    if overlap and base_rates is None:
        raise ValueError(f"overlap={overlap:g} has no effect on the mean; give base_rates, too.")
    if not isinstance(scores, Mapping) or not scores:
        raise TypeError("scores must be a mapping {view: table} of at least one view.")
    tables = [Batch(table, f"view {view!r}") for view, table in scores.items()]
    first, labels = tables[0], _labels(tables[0])
    for table in tables:
        _check_alike(table, first)
    index, rows = _match_rows([table.data for table in tables])
    n_samples = first.shape[0] if index is None else len(index)
    stacked = np.full((len(tables), n_samples, len(labels)), np.nan)
    for S, table, at in zip(stacked, tables, rows, strict=True):
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


def _check_alike(table: Batch, first: Batch) -> None:
    """Refuse a table of another library, with other columns, or whose rows cannot be matched."""
    if sparse.issparse(table.data):
        raise TypeError(f"{table.origin}: a sparse matrix; scores are needed for all labels.")
    kinds = [f"{type(of.data).__module__}.{type(of.data).__qualname__}" for of in (table, first)]
    if kinds[0] != kinds[1]:
        raise TypeError(
            f"{table.origin}: a {kinds[0]}, but {first.origin} is a {kinds[1]}; give tables of one "
            "library."
        )
    if set(_labels(table)) != set(_labels(first)):
        raise ValueError(f"{table.origin}: columns differ from those of {first.origin}.")
    index: Any = table.data.index if hasattr(table.data, "iloc") else None
    if index is None and table.shape[0] != first.shape[0]:
        raise ValueError(
            f"{table.origin}: {table.shape[0]} rows, and {first.shape[0]} of {first.origin}; "
            "without an index rows are matched by position, so all views need as many. Tables of "
            "pandas are matched by index."
        )
    if index is not None and not index.is_unique:
        twice = index[index.duplicated()][0]
        raise ValueError(f"{table.origin}: index {twice!r} occurs more than once.")
    if index is not None and (unknown := index.to_frame().isna().to_numpy().any(axis=1)).any():
        raise ValueError(
            f"{table.origin}, row {unknown.argmax()}: the index is missing (NaN), so the row "
            "cannot be matched; drop such rows, or give them an index of their own."
        )


def _match_rows(tables: list[Any]) -> tuple[Any, list[Any]]:
    """Index of the samples, None for tables without one, and positions of each table's rows."""
    if not hasattr(tables[0], "iloc"):
        return None, [slice(None)] * len(tables)
    index = tables[0].index.append([table.index for table in tables[1:]]).drop_duplicates()
    return index, [index.get_indexer(table.index) for table in tables]


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
        rates = np.asarray(base_rates, dtype=float)
    except (TypeError, ValueError):
        rates = np.empty(0)
    if rates.shape != (len(labels),) or not ((rates > 0) & (rates < 1)).all():
        raise ValueError(
            f"base_rates must be {len(labels)} numbers between 0 and 1, one per label; got "
            f"{base_rates!r}."
        )
    return rates


def _fuse_probabilities(P: Matrix, rates: Matrix, overlap: float) -> Matrix:
    """Probabilities (n_samples, n_labels) from those of views, (n_views, n_samples, n_labels)."""
    outside = (P < 0) | (P > 1)
    if outside.any():
        raise ValueError(
            f"with base_rates= scores must be probabilities, got {P[outside][0]:g}; "
            "predict_proba gives them."
        )
    log_odds = logit(np.clip(P, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY))
    return expit(add_evidence(log_odds, logit(rates), overlap=overlap))
