"""Per-view logistic regression on the observed entries."""

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgWarning
from scipy.special import logit
from sklearn.linear_model import LogisticRegression
from sklearn.utils._param_validation import Interval

from naim3l.estimators.linear import PerViewModel
from naim3l.problem.rows import Problem

NEWTON_COLUMNS = 1000
NEWTON: dict[str, Any] = {"solver": "newton-cholesky"}
GRADIENTS: dict[str, Any] = {"solver": "lbfgs", "tol": 1e-6, "max_iter": 1000}


@dataclass(eq=False, repr=False)
class PerViewLogistic(PerViewModel):
    """Logistic regression of each label in each view, on the rows in which the label is known.

    Views and labels are independent of each other. Scores are log-odds. A label that has only one
    known value in a view, or none, has constant scores there: the log-odds of its frequency in the
    view, shrunk towards its frequency in all views, or 0 without intercepts.

    Parameters
    ----------
    C : float, default=1.0
        Inverse of the weight of the squared weights, as in scikit-learn's LogisticRegression.
        Decrease it when few labels are known.
    views, features, positive_weight, fit_intercept, decide, random_state
        As in :class:`naim3l.NAIM3L`.

    Attributes
    ----------
    coef_, intercept_, dual_coef_, gamma_, features_, columns_, decisions_, thresholds_, \
fusion_weights_, fusion_overlap_, base_rates_, views_, label_names_, n_features_in_, \
feature_names_in_
        As in :class:`naim3l.NAIM3L`.

    Examples
    --------
    >>> from scipy.special import expit
    >>> from naim3l import PerViewLogistic
    >>> from naim3l.datasets import make_unpaired
    >>> data = make_unpaired(60, n_features=(9, 8), n_labels=4, missing_labels=0.3, random_state=0)
    >>> model = PerViewLogistic(C=1.0).fit(data.views, data.labels)
    >>> log_odds = model.decision_function({"view1": data.views["view1"][:2]})["view1"]
    >>> expit(log_odds).round(2)  # probabilities
    array([[0.58, 0.39, 0.8 , 0.18],
           [0.79, 0.32, 0.1 , 0.48]])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PerViewModel._parameter_constraints,
        "C": [Interval(Real, 1e-10, 1e10, closed="both")],
    }

    C: float = 1.0

    def _solve(self, problem: Problem) -> NDArray[np.floating]:
        return masked_logistic(problem, self.C)


def masked_logistic(problem: Problem, C: float) -> NDArray[np.float64]:
    """Stacked weights (n_weights, n_labels) of the logistic fits of all views and labels."""
    W = np.zeros((problem.n_weights, problem.n_labels))
    rates = problem.base_rates
    for features, rows, weights in zip(
        problem.features, problem.row_slices, problem.weight_slices, strict=True
    ):
        for k, y in enumerate(problem.Y[rows].T):
            known = np.flatnonzero(y)
            n_yes = int(np.sum(y > 0))
            if 0 < n_yes < len(known):
                counts = problem.P[rows][known, k]
                W[weights, k] = _fit_label(features[known], y[known], counts, C, problem)
            elif problem.fit_intercept:
                # Two additional entries with the label's rate avoid frequencies of 0 and 1.
                W[weights.stop - 1, k] = logit((n_yes + 2 * rates[k]) / (len(known) + 2))
    return W


def _fit_label(X: Any, y: NDArray, counts: NDArray, C: float, problem: Problem) -> NDArray:
    """Weights of one label; the intercept, if there is one, is the last."""
    fit_intercept = problem.fit_intercept
    # Few Newton steps are needed, but each forms a matrix of pairs of columns, which is cheap for
    # some hundreds of columns only.
    options = NEWTON if X.shape[1] <= NEWTON_COLUMNS else GRADIENTS
    model = LogisticRegression(C=C, fit_intercept=fit_intercept, **options)
    with warnings.catch_warnings():
        # A Newton step failed on badly scaled columns; scikit-learn then falls back to gradients.
        warnings.simplefilter("ignore", LinAlgWarning)
        model.fit(X, y > 0, sample_weight=counts)
    return np.append(model.coef_[0], model.intercept_ if fit_intercept else [])
