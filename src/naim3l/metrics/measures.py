"""The metrics: how each is defined and computed, and what other modules need to know about it.

A new metric is a method of `ScoredLabels`, an entry of `MEASURES`, and a function in
`naim3l.metrics`, which has the docstring of the method. `evaluate`, scorers, the search of
`NAIM3LCV`, reports and the command line take names and explanations from the entry.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import Mask, Matrix


@dataclass(frozen=True)
class ScoredLabels:
    """Checked labels and scores, which are sorted, ranked and counted at most once.

    Each metric is a function of weights of shape (n_draws, n_rows), finite and not negative, and
    returns values of shape (n_draws,), NaN if no row with a positive weight is left to measure.
    """

    positive: Mask  # (n_rows, n_labels); an entry that is neither is unknown
    negative: Mask
    scores: Matrix
    threshold: Any = 0.0  # a number, or (n_labels,)

    def hamming_loss(self, weights: Matrix) -> Matrix:
        """Share of observed entries whose predicted label is wrong.

        A score equal to the threshold is a "no". Otherwise as ``hamming_loss`` of scikit-learn.
        """
        n_wrong = (self._predicted ^ self.positive).sum(axis=1)
        return _divide(weights @ n_wrong, weights @ self._observed.sum(axis=1))

    def ranking_loss(self, weights: Matrix) -> Matrix:
        """Mean over rows of the share of (positive, negative) pairs in the wrong order.

        A tie is an error. Rows that lack positives or negatives are left out; scikit-learn's
        ``label_ranking_loss`` counts them as 0 and agrees otherwise.
        """
        row, rank, hits = self._ranked_positives
        n_wrong = np.bincount(row, rank - hits, minlength=len(self.scores))
        return _row_mean(weights, _divide(n_wrong, self._n_pairs))

    def average_precision(self, weights: Matrix) -> Matrix:
        """Mean over rows of the mean precision at the rank of each positive.

        Tied labels share the last of their ranks. Rows that lack positives or negatives are left
        out; ``label_ranking_average_precision_score`` counts them as 1 and agrees otherwise.
        """
        return _row_mean(weights, self._row_precision)

    def fused_precision(self, weights: Matrix) -> Matrix:
        """As in later papers: 0 for a row with observed labels of which none is positive."""
        empty = self.negative.any(axis=1) & ~self.positive.any(axis=1)
        return _row_mean(weights, np.where(empty, 0.0, self._row_precision))

    def adapted_auc(self, weights: Matrix) -> Matrix:
        """Area under the curve drawn by the T best-scored labels of every row, T = 1..n_labels.

        For each T the T best labels of a row (all of them if fewer are observed) are predicted,
        and TP and FP are counted over all rows; the trapezoid area under (FPR, TPR) is divided by
        ``FPR(n_labels) - FPR(1)``. Ties are broken by column order. The value is NaN without an
        observed positive, or if the curve has no width (one label, no negatives).
        """
        _, positive, negative = self._best_first
        if not positive.shape[1]:
            return np.full(len(weights), np.nan)
        tp = np.cumsum(weights @ positive, axis=1)
        fp = np.cumsum(weights @ negative, axis=1)
        # FPR is fp / fp[-1] in the area and in the divisor alike, so fp[-1] cancels.
        area = np.trapezoid(_divide(tp, tp[:, -1:]), fp, axis=1)
        return _divide(area, fp[:, -1] - fp[:, 0])

    def coverage(self, weights: Matrix) -> Matrix:
        """Mean number of best-scored labels to take until all positives of a row are among them.

        Tied labels share the last of their ranks. Rows without a positive are left out;
        scikit-learn's ``coverage_error`` counts them as 0 and agrees otherwise.
        """
        lowest = np.min(self.scores, axis=1, where=self.positive, initial=np.inf)
        depth = (self._observed & (self.scores >= lowest[:, None])).sum(axis=1)
        return _row_mean(weights, np.where(self.positive.any(axis=1), depth, np.nan))

    def one_error(self, weights: Matrix) -> Matrix:
        """Share of rows whose best-scored label is not positive.

        A tie is an error: where several labels share the best score all must be positive, so the
        order of the columns does not matter. Rows without a positive are left out.
        """
        best_positive = np.max(self.scores, axis=1, where=self.positive, initial=-np.inf)
        best_negative = np.max(self.scores, axis=1, where=self.negative, initial=-np.inf)
        wrong = best_negative >= best_positive
        return _row_mean(weights, np.where(self.positive.any(axis=1), wrong, np.nan))

    def macro_auc(self, weights: Matrix) -> Matrix:
        """Mean over labels of the area under the ROC curve, a tie counting one half.

        Labels observed in one class only are left out. Otherwise as scikit-learn's
        ``roc_auc_score(average="macro")``.
        """
        return label_mean(weights, self.label_aucs(weights))

    def label_aucs(self, weights: Matrix) -> Matrix:
        """AUC of each label, (n_labels, n_draws)."""
        columns = zip(self.scores.T, self.positive.T, self.negative.T, strict=True)
        aucs = [_roc_auc(weights, *column) for column in columns]
        return np.reshape(aucs, (-1, len(weights)))  # also without labels

    def micro_auc(self, weights: Matrix) -> Matrix:
        """Area under the ROC curve of all observed entries pooled, a tie counting one half.

        With no unknown entry this is scikit-learn's ``roc_auc_score(average="micro")``.
        """
        return _roc_auc(weights, self.scores, self.positive, self.negative)

    def macro_f1(self, weights: Matrix) -> Matrix:
        """Mean over labels of F1, 0 for a label neither positive nor predicted anywhere.

        Labels without an observed entry are left out. Otherwise as scikit-learn's
        ``f1_score(average="macro", zero_division=0)``.
        """
        return label_mean(weights, _f1(*(weights @ counts for counts in self._f1_counts)).T)

    def micro_f1(self, weights: Matrix) -> Matrix:
        """F1 of all observed entries pooled, 0 where none is positive or predicted.

        Otherwise as scikit-learn's ``f1_score(average="micro", zero_division=0)``.
        """
        return _f1(*(weights @ counts.sum(axis=1) for counts in self._f1_counts))

    def example_f1(self, weights: Matrix) -> Matrix:
        """Mean over rows of F1, 0 for a row with nothing positive and nothing predicted.

        Rows without an observed entry are left out. Otherwise as scikit-learn's
        ``f1_score(average="samples", zero_division=0)``.
        """
        return _row_mean(weights, _f1(*(counts.sum(axis=1) for counts in self._f1_counts)))

    @cached_property
    def _observed(self) -> Mask:
        return self.positive | self.negative

    @cached_property
    def _predicted(self) -> Mask:
        return self._observed & (self.scores > self.threshold)

    @cached_property
    def _f1_counts(self) -> tuple[Mask, NDArray[np.int8], Mask]:
        """True positives; positives plus predicted entries; observed entries."""
        called = self._predicted.astype(np.int8) + self.positive
        return self._predicted & self.positive, called, self._observed

    @cached_property
    def _n_pairs(self) -> NDArray[np.intp]:
        """Pairs of a positive and a negative in each row."""
        return self.positive.sum(axis=1) * self.negative.sum(axis=1)

    @cached_property
    def _row_precision(self) -> Matrix:
        """Mean precision at the positives of each row, NaN for rows with one class only."""
        row, rank, hits = self._ranked_positives
        precision = np.bincount(row, hits / rank, minlength=len(self.scores))
        return _divide(precision, np.where(self._n_pairs > 0, self.positive.sum(axis=1), 0))

    @cached_property
    def _best_first(self) -> tuple[Any, ...]:
        """Negated scores, positives, negatives; each row sorted, its unknown entries last."""
        tables = np.where(self._observed, -self.scores, np.inf), self.positive, self.negative
        order = np.argsort(tables[0], axis=1, kind="stable")  # ties by column order
        return tuple(np.take_along_axis(table, order, axis=1) for table in tables)

    @cached_property
    def _ranked_positives(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """For each positive: its row, and how many labels / positives score at least as high."""
        keys, positive, _ = self._best_first
        last = np.ones(keys.shape, dtype=bool)  # the last label of each group of ties
        last[:, :-1] = keys[:, :-1] != keys[:, 1:]
        n_labels = keys.shape[1]
        ends = np.where(last, np.arange(n_labels), n_labels)
        ends = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
        row, position = np.nonzero(positive)
        end = ends[row, position]
        hits = np.cumsum(positive, axis=1, dtype=np.intp)[row, end]
        return row, end + 1, hits


Metric = Callable[[ScoredLabels, Matrix], Matrix]


@dataclass(frozen=True)
class Measure:
    """A metric, and what is known about it."""

    name: str  # key in the result of `naim3l.evaluate`
    title: str  # for readers who do not know that name
    meaning: str
    compute: Metric
    of_decisions: bool = False  # depends on thresholds, because it measures decisions, not scores
    ranks_labels: bool = False  # those of a row: it is undefined, or constant, for one label
    lower_is_better: bool = False
    percent: bool = True  # a share, which is shown in percent; otherwise a number of labels
    place: int = 0  # position in tables about a model, from 1; 0 leaves it out

    @property
    def label(self) -> str:
        """Title, with the name and the direction if they are not obvious."""
        notes = [self.name] * (self.title != self.name)
        notes += ["lower is better"] * self.lower_is_better
        return f"{self.title} ({', '.join(notes)})" if notes else self.title


_DECISIONS, _RANKS = {"of_decisions": True}, {"ranks_labels": True}
_LOSS = {"ranks_labels": True, "lower_is_better": True}
_TABLE: tuple[tuple[str, str, Metric, dict[str, Any]], ...] = (
    ("1-HL", "accuracy", lambda of, w: 1 - of.hamming_loss(w), {**_DECISIONS, "place": 2}),
    ("1-RL", "pairs in order", lambda of, w: 1 - of.ranking_loss(w), {**_RANKS, "place": 4}),
    ("AP", "average precision", ScoredLabels.average_precision, {**_RANKS, "place": 3}),
    ("AUC", "adapted AUC", ScoredLabels.adapted_auc, {**_RANKS, "place": 5}),
    ("coverage", "coverage", ScoredLabels.coverage, {**_LOSS, "percent": False, "place": 9}),
    ("one-error", "one-error", ScoredLabels.one_error, {**_LOSS, "place": 10}),
    ("macro-AUC", "macro-AUC", ScoredLabels.macro_auc, {"place": 1}),
    ("micro-AUC", "micro-AUC", ScoredLabels.micro_auc, {}),
    ("macro-F1", "F1 by label", ScoredLabels.macro_f1, {**_DECISIONS, "place": 6}),
    ("micro-F1", "F1 of all entries", ScoredLabels.micro_f1, {**_DECISIONS, "place": 7}),
    ("example-F1", "F1 by row", ScoredLabels.example_f1, {**_DECISIONS, "place": 8}),
)
_MEANINGS = {
    "1-HL": "share of the known yes and no that the model predicts correctly",
    "1-RL": "of all pairs of a label that applies to a row and one that does not, the share in "
    "which the first has the higher score",
    "AP": "how far up the labels that apply are when a row's labels are sorted by score, averaged "
    "over rows",
    "AUC": "area under the curve for the top-ranked labels of all rows, as the paper defines it",
    "coverage": "number of top-ranked labels of a row that include all labels that apply, averaged "
    "over rows",
    "one-error": "share of rows whose top-ranked label does not apply",
    "macro-AUC": "how well rows with the label are ranked above rows without it, averaged over "
    "labels (50 % is guessing)",
    "micro-AUC": "how well entries that are yes are ranked above entries that are no, over all "
    "labels",
    "macro-F1": "100 % if the model finds every yes of a label and predicts no other, averaged "
    "over labels",
    "micro-F1": "the same for all entries together",
    "example-F1": "the same for the labels of a row, averaged over rows",
}
MEASURES = {
    name: Measure(name, title, _MEANINGS[name], compute, **known)
    for name, title, compute, known in _TABLE
}
# With more labels than this, a model is there to rank the labels of a row, otherwise to rank rows.
FEW_LABELS = 20
# What is computed instead in results by other protocols than that of the paper.
PROTOCOLS: dict[str, dict[str, Metric]]
PROTOCOLS = {"paper": {}, "fused": {"AP": ScoredLabels.fused_precision}}


def headline(n_labels: int) -> str:
    """The metric of what a model with so many labels is for."""
    return "AP" if n_labels > FEW_LABELS else "macro-AUC"


def _divide(a: Any, b: Any, otherwise: float = np.nan) -> Matrix:
    """Quotient, or ``otherwise`` where the divisor is 0."""
    a, b = np.broadcast_arrays(a, b)
    return np.divide(a, b, where=b > 0, out=np.full(a.shape, float(otherwise)))


def _row_mean(weights: Matrix, values: Matrix) -> Matrix:
    """Weighted mean, (n_draws,), of the values of the rows, (n_rows,), that are not NaN."""
    defined = ~np.isnan(values)
    weights = weights.compress(defined, axis=1)
    return _divide((weights * values[defined]).sum(axis=1), weights.sum(axis=1))


def label_mean(weights: Matrix, values: Any) -> Matrix:
    """Mean, (n_draws,), of the values of the labels, (n_labels, n_draws), that are not NaN."""
    defined = ~np.isnan(values)
    return _divide(values.sum(axis=0, where=defined), defined.sum(axis=0))


def _f1(right: Any, called: Any, observed: Any) -> Matrix:
    """F1 from counts or weighted sums; 0 if ``called`` is 0, NaN if ``observed`` is 0."""
    return np.where(observed > 0, _divide(2 * right, called, otherwise=0), np.nan)


def _roc_auc(weights: Matrix, scores: Matrix, positive: Mask, negative: Mask) -> Matrix:
    """Weighted share, (n_draws,), of pairs in the right order; columns of scores are pooled."""
    p, of_p = _ascending(weights, scores, positive)
    n, of_n = _ascending(weights, scores, negative)
    up_to = np.zeros((len(weights), len(n) + 1))  # weight of the k lowest negatives, k = 0, ...
    np.cumsum(of_n, axis=1, out=up_to[:, 1:])
    below = up_to.take(np.searchsorted(n, p, side="left"), axis=1)
    not_above = up_to.take(np.searchsorted(n, p, side="right"), axis=1)
    right = (of_p * (below + not_above)).sum(axis=1)
    return _divide(right, 2 * of_p.sum(axis=1) * up_to[:, -1])


def _ascending(weights: Matrix, scores: Matrix, mask: Mask) -> tuple[Matrix, Matrix]:
    """Scores under a mask, ascending, and the weights, (n_draws, n_scores), of their rows."""
    chosen = scores[mask]
    if (weights == weights[:, :1]).all():  # a sort is much faster than the order of the rows
        return np.sort(chosen), np.repeat(weights[:, :1], len(chosen), axis=1)
    order = np.argsort(chosen)
    return chosen[order], weights.take(np.nonzero(mask)[0][order], axis=1)
