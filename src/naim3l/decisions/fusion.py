"""One score per sample from several: from those of its views, or of unlike models of a view."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Annotated, Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import nnls
from scipy.special import expit, logit

from naim3l._arrays import Mask, Matrix
from naim3l._text import some
from naim3l._warnings import warn_user
from naim3l.decisions.calibration import Calibration
from naim3l.decisions.stacking import stacking_weights
from naim3l.files.stored import Array, ListOf, Nested, Number
from naim3l.input.batches import Batch

FUSIONS = ("evidence", "mean")
AUTO, PAIRS = "auto", "pairs"
# Overlap where too few rows have several views to learn it from.
USUAL_OVERLAP, MOST_OVERLAP = 0.1, 0.95
# Rows that two views need to have in common, and rows that count as much as the usual overlap.
FEWEST_ROWS, PRIOR_ROWS = 20, 50
# Learned weights differ between groups of rare, medium and frequent labels.
N_GROUPS = 3
# Strength of the priors of learned weights, in units of one entry's log-loss.
PULL = 30.0
# Probabilities are clipped to this distance from 0 and 1, so that no view decides alone.
LEAST_PROBABILITY = 1e-9


def fuse_arrays(scores: Matrix) -> Matrix:
    """Mean over the views that a sample has, of scores (n_views, n_samples, n_labels), or NaN."""
    present = ~np.isnan(scores)
    count = present.sum(axis=0)
    total = np.where(present, scores, 0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def add_evidence(log_odds: Matrix, base: Matrix, overlap: Matrix | float = 0.0) -> Matrix:
    """Log-odds of each label given all views that a sample has, (n_samples, n_labels).

    The evidence of a view is the difference between its log-odds and those of the rate. The
    evidence of views that are independent given the label is added up (overlap 0); that of
    identical views counts once, as in the mean (overlap 1). In general, the sum over n views is
    divided by 1 + overlap (n - 1), and added to the mean log-odds of the rates of these views, so
    that a sample with one view has the log-odds of that view.

    Parameters
    ----------
    log_odds : ndarray of shape (n_views, n_samples, n_labels)
        Calibrated log-odds by view, NaN in the rows of samples that lack the view.
    base : ndarray of shape (n_labels,) or (n_views, n_labels)
        Log-odds of the rates of the labels, in all views or in each.
    overlap : float, or ndarray of shape (n_labels,) or (n_views, n_views)
        From 0 for independent views to 1 for identical ones; or a result of `learn_covariance`,
        with which the sum is weighted so that it tells samples with a label best from others.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        Log-odds; NaN for samples without views.
    """
    present = ~np.isnan(log_odds)
    n_views = present.sum(axis=0)
    start = np.where(present, np.broadcast_to(base, (len(log_odds), base.shape[-1]))[:, None], 0.0)
    if np.ndim(overlap) == 2:
        factors = _discriminant(present, np.asarray(overlap))
    else:
        factors = 1 / (1 + np.asarray(overlap) * np.maximum(n_views - 1, 0))
    total = start.sum(axis=0) / np.maximum(n_views, 1)
    total += np.where(present, factors * (log_odds - start), 0.0).sum(axis=0)
    return np.where(n_views == 0, np.nan, total)


def _discriminant(present: Mask, covariance: Matrix) -> Matrix:
    """Factors of the evidence of the views that a sample has, of the shape of ``present``.

    Calibrated evidence differs between the samples with a label and those without it by its
    variance within each of the two, so Fisher's discriminant has the factors w of ``C w = diag C``,
    which are 1 for a view alone. None is negative, as evidence for a label never counts against it.
    """
    flat = present.reshape(len(present), -1)
    patterns, of = np.unique(np.packbits(flat, axis=0), axis=1, return_inverse=True)
    patterns = np.unpackbits(patterns, axis=0, count=len(present)).astype(bool)
    factors = np.zeros(patterns.shape)
    for pattern, w in zip(patterns.T, factors.T, strict=True):
        C = covariance[np.ix_(pattern, pattern)]
        if len(C):
            root = np.linalg.cholesky(C)
            w[pattern] = nnls(root.T, np.linalg.solve(root, np.diag(C)))[0]
    return factors[:, of.ravel()].reshape(present.shape)


def learn_overlap(log_odds: Matrix, base: Matrix) -> float | None:
    """Overlap of views, from samples whose views belong together; their labels are not needed.

    The covariance of two views' evidence over all samples is that within the samples with the
    label and those without it, and that between the two groups. The latter follows from the
    probabilities, as does the part of the variances that is between the groups. What is left of the
    covariance, as a share of the product of the standard deviations within the groups, is the
    overlap; sums go over all pairs of views and labels. With few samples it is drawn to the usual.

    Log-odds and ``base`` are those of `add_evidence`. The overlap is at most `MOST_OVERLAP`, and
    None where no two views have enough samples in common.
    """
    pairs = _within_groups(log_odds, base)
    apart = np.tri(len(log_odds), k=-1, dtype=bool)
    within, scale = (pairs[name][apart].sum() for name in ("within", "scale"))
    if scale <= 0:
        return None
    found, most = float(np.clip(within / scale, 0.0, MOST_OVERLAP)), pairs["most"][apart].max()
    return float((most * found + PRIOR_ROWS * USUAL_OVERLAP) / (most + PRIOR_ROWS))


def learn_covariance(log_odds: Matrix, base: Matrix) -> Matrix | None:
    """Covariance of the views' evidence within the samples with a label, and without it.

    (n_views, n_views); means over labels. Parameters are those of `learn_overlap`, to which the
    correlation of two views with few samples in common is drawn.
    """
    common = learn_overlap(log_odds, base)
    if common is None:
        return None
    pairs = _within_groups(log_odds, base)
    most, scale = pairs["most"], pairs["scale"]
    own = np.divide(pairs["within"], scale, where=scale > 0, out=np.zeros_like(scale))
    R = (most * own + PRIOR_ROWS * common) / (most + PRIOR_ROWS)
    np.fill_diagonal(R, 1.0)
    eigenvalues, V = np.linalg.eigh(np.clip(R, 0.0, 1.0))
    R = (V * np.maximum(eigenvalues, 1 - MOST_OVERLAP)) @ V.T
    variances, n = (np.diag(pairs[name]) for name in ("within", "n"))
    # A view that says nothing has no evidence that a factor could change.
    spread = np.sqrt(np.where(variances > 0, variances / np.maximum(n, 1), 1.0) / np.diag(R))
    return np.asarray(R * np.outer(spread, spread))


def _within_groups(log_odds: Matrix, base: Matrix) -> dict[str, Matrix]:
    """For each pair of views, and each view with itself, (n_views, n_views), sums over labels.

    Of covariances within the groups and products of standard deviations there, times samples in
    common, and of these, "n"; "most" is their number for a label.
    """
    base = np.broadcast_to(base, (len(log_odds), log_odds.shape[-1]))
    evidence, P = log_odds - base[:, None], expit(log_odds)
    contrast = [_between_groups(e, p) for e, p in zip(evidence, P, strict=True)]
    names, shape = ("within", "scale", "n", "most"), (len(evidence),) * 2
    found: dict[str, Matrix] = {name: np.zeros(shape) for name in names}
    for u in range(len(evidence)):
        for v in range(u + 1):
            both = np.isfinite(evidence[u]) & np.isfinite(evidence[v])
            n = both.sum(axis=0)
            used, count = n >= FEWEST_ROWS, np.maximum(n, 1)
            parts = [np.where(both, evidence[w], 0.0) for w in (u, v)]
            centred = [np.where(both, part - part.sum(axis=0) / count, 0.0) for part in parts]
            covariance = (centred[0] * centred[1]).sum(axis=0) / count
            rate = (np.where(both, P[u] + P[v], 0.0).sum(axis=0) / count) / 2
            between = rate * (1 - rate)  # times the contrasts: what groups add
            spreads = [
                np.sqrt(np.maximum((part**2).sum(axis=0) / count - between * contrast[w] ** 2, 0))
                for part, w in zip(centred, (u, v), strict=True)
            ]
            weight = np.where(used, n, 0.0)  # more samples count more
            sums = {
                "within": weight @ (covariance - between * contrast[u] * contrast[v]),
                "scale": weight @ (spreads[0] * spreads[1]),
                "n": weight.sum(),
                "most": weight.max(initial=0.0),
            }
            for name, value in sums.items():
                found[name][u, v] = found[name][v, u] = value
    return found


def _between_groups(evidence: Matrix, P: Matrix) -> Matrix:
    """Expected evidence of samples with each label less that of the others, (n_labels,)."""
    known = np.isfinite(evidence)
    e, p = np.where(known, evidence, 0.0), np.where(known, P, 0.0)
    q = np.where(known, 1 - P, 0.0)
    tiny = np.finfo(float).tiny
    return (p * e).sum(axis=0) / (p.sum(axis=0) + tiny) - (q * e).sum(axis=0) / (
        q.sum(axis=0) + tiny
    )


@dataclass(frozen=True)
class Evidence:
    """Fusion of the views of a wide table by added evidence."""

    # Of every view.
    calibrations: Annotated[list[Calibration], ListOf(Nested(Calibration), "views")]
    overlap: Annotated[float, Number(0, 1)]

    @classmethod
    def of(cls, calibrations: list[Calibration], scores: Matrix) -> "Evidence":
        """Evidence whose overlap is learned from scores (n_views, n_samples, n_labels)."""
        log_odds = calibrated(calibrations, scores)
        return cls(calibrations, overlap_of(log_odds, _bases(calibrations)))

    def fuse(self, scores: Matrix) -> Matrix:
        """Log-odds (n_samples, n_labels) of scores (n_views, n_samples, n_labels)."""
        log_odds = calibrated(self.calibrations, scores)
        return add_evidence(log_odds, _bases(self.calibrations), self.overlap)


def fuse_views(scores: Matrix, evidence: Evidence | None) -> Matrix:
    """Scores (n_samples, n_labels) of those by view, (n_views, n_samples, n_labels)."""
    return fuse_arrays(scores) if evidence is None else evidence.fuse(scores)


def _bases(calibrations: list[Calibration]) -> Matrix:
    """Log-odds of the rates of labels, (n, n_labels)."""
    return np.stack([calibration.base for calibration in calibrations])


def label_groups(truth: Matrix) -> NDArray[np.intp]:
    """Group of each label, from rare to frequent, with about as many positives in each group."""
    positives = np.nansum(truth, axis=0)
    order = np.argsort(positives, kind="stable")
    # Midpoints of the labels' positives, cumulated from rare to frequent.
    middle = np.cumsum(positives[order]) - positives[order] / 2
    group = np.empty(len(positives), dtype=np.intp)
    group[order] = np.minimum(N_GROUPS * middle / max(positives.sum(), 1), N_GROUPS - 1)
    return group


@dataclass(frozen=True)
class Blend:
    """Log-odds of several models for the rows of one view, as one."""

    calibrations: Annotated[list[Calibration], ListOf(Nested(Calibration), "members")]
    # (n_models, n_labels), of what each model adds to the rates.
    weights: Annotated[Matrix, Array("f", "members", "labels")]

    def log_odds(self, scores: Matrix) -> Matrix:
        """Log-odds (n_rows, n_labels) of scores (n_models, n_rows, n_labels)."""
        return blend(calibrated(self.calibrations, scores), self.calibrations[0].base, self.weights)


def calibrated(calibrations: list[Calibration], scores: Matrix) -> Matrix:
    """Log-odds by view or model, (n, n_rows, n_labels), of scores in the same shape."""
    pairs = zip(calibrations, scores, strict=True)
    return np.stack([calibration.log_odds(S) for calibration, S in pairs])


def blend(log_odds: Matrix, base: Matrix, weights: Matrix) -> Matrix:
    """Rates and the weighted sum of what each model adds to them, as log-odds (n_rows, n_labels).

    ``base`` are log-odds of the rates, (n_labels,) or (n_rows, n_labels).
    """
    return np.asarray(base + np.einsum("mrl,ml->rl", log_odds - base, weights))


def blend_weights(log_odds: Matrix, base: Matrix, truth: Matrix) -> Matrix:
    """Weights (n_models, n_labels) with which `blend` has the lowest log-loss.

    There is one non-negative weight per model and group of labels. The weights of a group are
    shrunk towards those of all labels, and these towards the share of each model in the sum of
    squared evidence: where little is known, a model that cannot tell rows apart has no weight, and
    models that can have weights that sum to 1.
    """
    evidence = np.nan_to_num(log_odds - base)
    groups, found = label_groups(truth), np.empty((len(evidence), truth.shape[1]))
    known = ~np.isnan(truth) & ~np.isnan(log_odds).any(axis=0)
    starts = np.broadcast_to(base, known.shape)
    squares = (evidence[:, known] ** 2).sum(axis=1)
    said = squares.sum()
    centre = squares / said if said > 0 else np.full(len(evidence), 1 / len(evidence))

    def weigh(at: Mask, around: Matrix) -> Matrix:
        """One weight for each model, (n_models, 1), of some of the entries."""
        entries = evidence[:, at, None], starts[at, None], truth[at, None], at[at, None]
        return stacking_weights(entries, around, PULL)

    common = weigh(known, centre[:, None])
    for group in np.unique(groups):
        found[:, groups == group] = weigh(known & (groups == group), common)
    return found


def fuse(scores: Mapping[str, Any], *, base_rates: Any = None, overlap: Any = AUTO) -> Any:
    """Scores or probabilities of samples, fused over the views that each sample has.

    Views may be trained on rows that cannot be matched, and be fused for new rows that can. Rows
    of pandas tables are matched by index. Arrays and other data frames have no index, so that
    row i of every view must be the same sample, with NaN or null if it lacks the view. The method
    ``fuse`` of a fitted model also decides on yes and no.

    Parameters
    ----------
    scores : mapping of str to ndarray or data frame of shape (n_rows, n_labels)
        Results of ``decision_function`` or ``predict_proba`` by view. All must be of one library;
        data frames need the same columns. Rows of one table with the same index are averaged
        first: their scores, or with ``base_rates`` their log-odds.
    base_rates : array-like of shape (n_labels,), Series or mapping, optional
        Share of positives of each label, such as ``base_rates_`` of a model, by name or in the
        order of the columns of the first table; or a mapping of view to these, such as
        ``view_rates_``, where rates differ between views. If given, scores must be probabilities,
        and the evidence of each view beyond its rate is added up, which is usually more accurate
        than the mean. By default the mean over views is returned.
    overlap : float from 0 to 1, "auto" or "pairs", default="auto"
        How much of what a view says the other views say, too; only with ``base_rates``. The sum of
        the evidence of n views is divided by 1 + overlap (n - 1), so that identical views count
        as one view with 1, and independent views count in full with 0. "auto" learns it from
        these rows, whose labels need not be known; with fewer than 20 rows in two views it is 0.1.
        "pairs" learns an overlap of each pair of views, and how much each says, for hundreds of
        rows: views that resemble others, such as two histograms of colours, then count less.

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
    >>> fuse({"clinic": clinic, "lab": lab}, base_rates=[0.5], overlap=0).round(2)
          flu
    Ann  0.94
    Bob  0.40
    Cid  0.30
    """
    check_overlap(overlap)
    if overlap not in (AUTO, 0) and base_rates is None:
        raise ValueError(f"overlap={overlap!r} has no effect on the mean; give base_rates, too.")
    if base_rates is None:
        stacked, labels, contain = stack_views(scores)
        return contain(fuse_arrays(stacked))
    log_odds, labels, contain = stack_views(scores, _log_odds)
    rates = logit(_rates(base_rates, labels, list(scores)))
    return contain(expit(add_evidence(log_odds, rates, overlap_of(log_odds, rates, overlap))))


def check_overlap(overlap: Any) -> None:
    """Refuse anything but a number from 0 to 1, "auto" or "pairs"."""
    is_number = isinstance(overlap, Real) and not isinstance(overlap, bool)
    is_name = isinstance(overlap, str) and overlap in (AUTO, PAIRS)
    if not is_name and not (is_number and 0 <= overlap <= 1):
        raise ValueError(
            f"overlap must be a number from 0 to 1, {AUTO!r} or {PAIRS!r}, got {overlap!r}."
        )


def stack_views(
    scores: Mapping[str, Any], transform: Callable[[Matrix], Matrix] = np.asarray
) -> tuple[Matrix, list[Any], Callable[[Matrix], Any]]:
    """Scores (n_views, n_samples, n_labels), their labels, and a function that makes a table.

    Scores are transformed, and then averaged over the rows of a table with the same index. The
    function takes an array (n_samples, n_labels), and gives a table of the library, with the
    samples, of the given tables.
    """
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
        numbers = table.numbers(allowed="scores")[:, [_labels(table).index(k) for k in labels]]
        _put_means(S, at, transform(numbers))

    def contain(values: Matrix) -> Any:
        if first.frame is None:
            return values
        if index is None:
            return nw.from_numpy(values, labels, backend=first.frame.implementation).to_native()
        pandas = nw.get_native_namespace(first.frame)
        return pandas.DataFrame(values, index=index, columns=first.data.columns)

    return stacked, labels, contain


def _put_means(S: Matrix, at: Any, scores: Matrix) -> None:
    """Write scores to rows ``at`` of others: means over those of the same row that are not NaN."""
    if isinstance(at, slice) or len(np.unique(at)) == len(at):
        S[at] = scores
        return
    order = np.argsort(at, kind="stable")
    rows, starts = np.unique(at[order], return_index=True)
    present = ~np.isnan(scores[order])
    count = np.add.reduceat(present, starts, axis=0, dtype=np.intp)
    total = np.add.reduceat(np.where(present, scores[order], 0.0), starts, axis=0)
    S[rows] = np.where(count > 0, total / np.maximum(count, 1), np.nan)


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
    if index is not None and (unknown := index.to_frame().isna().to_numpy().any(axis=1)).any():
        raise ValueError(
            f"{table.origin}, row {unknown.argmax()}: the index is missing (NaN), so the row "
            "cannot be matched; drop such rows, or give them an index of their own."
        )


def _match_rows(tables: list[Any]) -> tuple[Any, list[Any]]:
    """Index of the samples, None for tables without one, and positions of each table's rows."""
    if not hasattr(tables[0], "iloc"):
        return None, [slice(None)] * len(tables)
    every = tables[0].index.append([table.index for table in tables[1:]])
    index = every.drop_duplicates()
    if len(tables) > 1 and len(index) == sum(table.index.nunique() for table in tables):
        first = [f"{table.index[0]!r}" for table in tables if len(table)]
        warn_user(
            "fuse: no sample is in two tables, so that nothing is fused; rows are matched by "
            f"index, and the first ones are {some(first, 4, str)}."
        )
    return index, [index.get_indexer(table.index) for table in tables]


def _rates(base_rates: Any, labels: list[Any], views: list[str]) -> Matrix:
    """Base rates (n_labels,), or by view (n_views, n_labels), in the order of labels and views."""
    values = base_rates.values() if isinstance(base_rates, Mapping) else ()
    if not any(isinstance(of, Mapping) or np.ndim(of) for of in values):
        return _rates_of_labels(base_rates, labels)
    missing = [view for view in views if view not in base_rates]
    if missing:
        raise ValueError(f"base_rates: no entry for view {missing[0]!r}.")
    return np.stack([_rates_of_labels(base_rates[view], labels) for view in views])


def _rates_of_labels(base_rates: Any, labels: list[Any]) -> Matrix:
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


def _log_odds(P: Matrix) -> Matrix:
    """Log-odds of probabilities, which are checked."""
    outside = (P < 0) | (P > 1)
    if outside.any():
        raise ValueError(
            f"with base_rates= scores must be probabilities, got {P[outside][0]:g}; "
            "predict_proba gives them."
        )
    return np.asarray(logit(np.clip(P, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)))


def overlap_of(log_odds: Matrix, base: Matrix, overlap: Any = AUTO) -> Any:
    """The given overlap, or the one learned from these views, or the usual one."""
    if not isinstance(overlap, str):
        return float(overlap)
    found = (learn_overlap if overlap == AUTO else learn_covariance)(log_odds, base)
    return USUAL_OVERLAP if found is None else found
