"""Ridge regression per view, whose predictions are shrunk in a space of labels that views share.

In closed form, most of what coupling adds: views only exchange a sum of label by label.
"""

from dataclasses import KW_ONLY, dataclass
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.utils._param_validation import Interval, StrOptions

from naim3l._arrays import Matrix
from naim3l._progress import progress_bar
from naim3l._text import documented
from naim3l.decisions.bridge import learn_bridge
from naim3l.decisions.calibration import HeldOutScores, fit_calibrations
from naim3l.decisions.held_out import AUTO, METRICS, Folds
from naim3l.decisions.learning import N_FOLDS
from naim3l.decisions.rules import RULES
from naim3l.estimators.collected import LearnsFromStatistics, Statistics
from naim3l.estimators.linear import FACTOR, LinearViewModel
from naim3l.estimators.ridge_fits import MOST_SHRINKAGE, Pair, RidgeFits, all_pairs, fit_pairs
from naim3l.features.encoding import NAMES
from naim3l.files.stored import Number, Sometimes, Text
from naim3l.input.sources import any_chunked
from naim3l.problem.rows import Problem


def fill_probabilities(problem: Problem, scores: Matrix, final: Matrix) -> Matrix:
    """Probability of every entry (n_rows, n_labels) given the known labels of its row.

    ``scores`` are a result of `Folds.scores`, and ``final`` those of all rows by the final fit,
    which stand in where there are none: mostly in rows without known labels, which no fit uses.
    """
    tables = HeldOutScores.of_views(problem, scores, final)
    curves = fit_calibrations(tables, problem.view_rates)
    both = list(zip(curves, tables, strict=True))
    pairs = [(curve.log_odds(of.scores), of.truth) for curve, of in both]
    bridge = learn_bridge(pairs, groups=problem.groups_of_views)
    found = np.empty(scores.shape)
    for rows, (curve, of) in zip(problem.row_slices, both, strict=True):
        log_odds = curve.log_odds(np.where(np.isnan(of.scores), of.final, of.scores))
        found[rows] = expit(log_odds if bridge is None else bridge.log_odds(log_odds, of.truth))
    return found


def soften(problem: Problem, probabilities: Matrix, weight: float, rows: Any = True) -> Problem:
    """The problem whose unknown entries are probabilities, with a weight in the loss.

    ``rows`` is a mask (n_rows,) of those that are used; the others have no weight.
    """
    unknown = problem.Y == 0
    soft = problem.with_labels(np.where(unknown, 2 * probabilities - 1, problem.Y))
    used = np.broadcast_to(rows, len(problem.Y))[:, None]
    soft.P = used * np.where(unknown, weight, problem.P)
    return soft


@documented(features=NAMES, rules=RULES)
@dataclass(eq=False, repr=False)
class LabelSubspaceRidge(LearnsFromStatistics, LinearViewModel):
    """Ridge regression per view, shrunk in a space of labels that all views share.

    What ridge regression explains of the labels, in all views together, has strong and weak
    directions in the space of labels; predictions along weak ones are shrunk. Without shrinkage
    this is `PerViewRidge`. It is a closed form, in which views only exchange one matrix of label by
    label, and in most comparisons nearly as good as :class:`naim3l.NAIM3LCV`.

    Parameters
    ----------
    ridge : float or "auto", default="auto"
        Weight of the squared weights, greater than 0. "auto" chooses it on held-out rows.
    shrinkage : float or "auto", default="auto"
        Directions that explain as much as ``shrinkage`` times the average one are halved; 0 shrinks
        none. "auto" chooses it together with ``ridge``.
    soft_labels : float, default=0.0
        Weight, up to 1, of unknown training labels, which are filled in with their probabilities
        given the features and the known labels of the row, in a second fit. It needs tables in
        memory.
    metric : str, default="auto"
        By what parameters are chosen, as in :class:`naim3l.NAIM3LCV`.
    views, features, positive_weight, fit_intercept, random_state
        As in :class:`naim3l.NAIM3L`.
    decide : <rules>, float, mapping of label to float, or Decisions, default="guarded"
        As in :class:`naim3l.NAIM3L`.
    verbose : int, default=0
        1 shows progress bars on a terminal.

    Attributes
    ----------
    ridge_, shrinkage_ : float
        The pair that was used.
    metric_ : str
        The metric by which it was chosen, never "auto"; only if held-out rows were needed.
    coef_, intercept_, dual_coef_, gamma_, features_, columns_, decisions_, thresholds_, \
fusion_overlap_, base_rates_, view_rates_, views_, label_names_, classes_, n_features_in_, \
feature_names_in_
        As in :class:`naim3l.NAIM3L`.

    Examples
    --------
    >>> from naim3l import LabelSubspaceRidge, datasets, evaluate
    >>> data = datasets.make_unpaired(120, n_labels=6, missing_labels=0.5, noise=1, random_state=0)
    >>> model = LabelSubspaceRidge(random_state=0).fit(data.views, data.labels)
    >>> model.ridge_, model.shrinkage_
    (1.0, 1.0)
    >>> metrics = evaluate(data.complete_labels, model.decision_function(data.views))
    >>> round(metrics["AP"], 2)
    0.86
    """

    _parameter_constraints = LinearViewModel._parameter_constraints | {
        "ridge": [StrOptions({AUTO}), FACTOR],
        "shrinkage": [StrOptions({AUTO}), Interval(Real, 0, MOST_SHRINKAGE, closed="both")],
        "soft_labels": [Interval(Real, 0, 1, closed="both")],
        "metric": [StrOptions({AUTO, *METRICS})],
        "verbose": ["verbose"],
    }
    _stored = LinearViewModel._stored | {
        "ridge_": Number(above=0),
        "shrinkage_": Number(0),
        "metric_": Sometimes(Text(METRICS)),
    }

    ridge: float | str = AUTO
    shrinkage: float | str = AUTO
    _: KW_ONLY
    soft_labels: float = 0.0
    metric: str = AUTO
    decide: Any = "guarded"
    verbose: int = 0

    def _fit(self, X: Any, y: Any) -> None:
        decisions = self._check_parameters()
        if self.soft_labels and (isinstance(X, Statistics) or any_chunked(X)):
            raise TypeError("soft_labels needs tables in memory; of chunks, it must be 0.")
        chunks = self._passes(decisions._learn) | {"open_checkpoint": lambda facts: None}
        problem = self._read_training(X, y, decisions, **chunks).rotated()
        rates, fits, elsewhere = self.base_rates_, list[Matrix](), self._site.products
        pairs = all_pairs(self.ridge, self.shrinkage)
        pair = pairs[0]
        if chunks["n_folds"]:
            folds = self._hold_out(problem, N_FOLDS)
            with progress_bar("ridges", N_FOLDS, shown=self.verbose > 0) as advance:
                found = RidgeFits.of(folds, rates, self.metric, pairs, advance, elsewhere)
            if len(pairs) > 1 and np.isnan(found.values).all():
                raise ValueError(
                    f"metric {found.metric!r} is undefined on the held-out rows: too few labels "
                    "are known. Use another metric, or give the ridge and the shrinkage."
                )
            self.metric_ = found.metric
            pair, fits, _ = found.best([shrinkage for _, shrinkage in pairs])
        W = fit_pairs(problem.whole, rates, [pair], elsewhere)(pair)
        if self.soft_labels:
            W, fits = self._fit_softly(problem, folds, fits, W, pair)
        self.ridge_, self.shrinkage_ = pair
        self._keep_weights(problem, W)
        if decisions._learn:
            self._learn_decisions(folds, fits, W)

    def _passes(self, learn: bool) -> dict[str, Any]:
        one = len(all_pairs(self.ridge, self.shrinkage)) == 1
        return {"n_folds": N_FOLDS if learn or self.soft_labels or not one else 0}

    def _fit_softly(
        self, problem: Problem, folds: Folds, fits: list[Matrix], W: Matrix, pair: Pair
    ) -> tuple[Matrix, list[Matrix]]:
        """Weights of all rows, and without each fold, with soft labels."""
        rates, fold_of, n_folds = problem.base_rates, folds.fold_of, len(folds)

        def fit(of: Problem) -> Matrix:
            return fit_pairs(of, rates, [pair])(pair)

        def fit_softly(of: Problem, without: list[Matrix], W: Matrix, rows: Any = True) -> Matrix:
            own, final = Folds.of(of, np.where(of.Y == 0, -1, fold_of)), of.multiply(W)
            filled = fill_probabilities(of, own.scores(without, final), final)
            return fit(soften(of, filled, self.soft_labels, rows))

        # A fold is held out of everything that its soft fit learns from: of the fits that score
        # other folds, too.
        both = {
            frozenset(two): fit(problem.without(np.isin(fold_of, two)))
            for two in combinations(range(n_folds), 2)
        }
        of_row, found = fold_of.max(axis=1, initial=-1), list[Matrix]()
        for fold in range(n_folds):
            without = [both.get(frozenset((fold, other)), fits[fold]) for other in range(n_folds)]
            rest = problem.without(fold_of == fold)
            found.append(fit_softly(rest, without, fits[fold], of_row != fold))
        return fit_softly(problem, fits, W), found
