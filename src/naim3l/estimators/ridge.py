"""Per-view ridge regression on the observed entries, the simplest method to compare with."""

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval

from naim3l._arrays import Matrix
from naim3l.estimators.linear import PerViewModel
from naim3l.problem.rows import Problem


@dataclass(eq=False, repr=False)
class PerViewRidge(PerViewModel):
    """Ridge regression of each label in each view, on the rows in which the label is known.

    Views and labels are independent of each other: column k of a view's weights solves
    ``(X' diag(P_k) X + ridge I) w = X' (P_k * Y_k)``, where intercepts are not penalised. For a
    view with fewer rows than columns, an equivalent system in the rows is solved.

    Parameters
    ----------
    ridge : float, default=1.0
        Weight of the squared weights; greater than 0. Increase it when few labels are known.
    views, features, positive_weight, fit_intercept, decide, random_state
        As in :class:`naim3l.NAIM3L`; with a kernel this is kernel ridge regression.

    Attributes
    ----------
    coef_, intercept_, dual_coef_, gamma_, features_, columns_, decisions_, thresholds_, \
fusion_weights_, fusion_overlap_, base_rates_, views_, label_names_, n_features_in_, \
feature_names_in_
        As in :class:`naim3l.NAIM3L`.

    Examples
    --------
    >>> from naim3l import PerViewRidge, evaluate
    >>> from naim3l.datasets import make_unpaired
    >>> data = make_unpaired(60, n_features=(9, 8), n_labels=4, missing_labels=0.3, random_state=0)
    >>> model = PerViewRidge(ridge=1.0).fit(data.views, data.labels)
    >>> metrics = evaluate(data.complete_labels, model.decision_function(data.views))
    >>> round(metrics["AP"], 2)
    1.0
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PerViewModel._parameter_constraints,
        # With 0, weights need not be unique.
        "ridge": [Interval(Real, 1e-10, 1e10, closed="both")],
    }

    ridge: float = 1.0

    def _solve(self, problem: Problem) -> Matrix:
        return problem.ridge_solutions([self.ridge])[0]
