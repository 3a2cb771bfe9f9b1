"""Per-view logistic regression on the observed entries."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgWarning
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from naim3l.estimators.linear import PerViewModel
from naim3l.problem.rows import Problem

NEWTON_COLUMNS = 1000
NEWTON: dict[str, Any] = {"solver": "newton-cholesky"}
GRADIENTS: dict[str, Any] = {"solver": "lbfgs", "tol": 1e-6, "max_iter": 1000}


@dataclass(eq=False, repr=False)
class PerViewLogistic(PerViewModel):
    """Logistic regression of each label on each view's rows where it is known.

    Nothing couples views or labels. Scores are log-odds; a label that is known to be yes, or no,
    in all rows of a view has the log-odds of its frequency there, one that is known in none those
    of its frequency in other views (without an intercept, 0).

    Parameters
    ----------
    C : float, default=1.0
        As in scikit-learn's LogisticRegression: one over the weight of the squared weights.
    views, transformer, kernel, n_landmarks, gamma, positive_weight, fit_intercept, \
label_coding, threshold, calibrate, fusion, random_state
        As in :class:`naim3l.NAIM3L`.

    Attributes
    ----------
    coef_, intercept_, transformers_, views_, label_names_, thresholds_, calibration_, base_rates_
        As in :class:`naim3l.NAIM3L`.
    """

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
                # Two entries of the label's rate in all views keep the frequency off 0 and 1.
                W[weights.stop - 1, k] = logit((n_yes + 2 * rates[k]) / (len(known) + 2))
    return W


def _fit_label(X: Any, y: NDArray, counts: NDArray, C: float, problem: Problem) -> NDArray:
    """Weights of one label, the intercept last if there is one."""
    fit_intercept = problem.fit_intercept
    # Newton steps: few, and each costs little while columns are some hundreds. Each forms a matrix
    # of pairs of columns, so that beyond that gradients have to do.
    options = NEWTON if X.shape[1] <= NEWTON_COLUMNS else GRADIENTS
    model = LogisticRegression(C=C, fit_intercept=fit_intercept, **options)
    with warnings.catch_warnings():
        # Of Newton steps on badly scaled columns, after which gradients take over by themselves.
        warnings.simplefilter("ignore", LinAlgWarning)
        model.fit(X, y > 0, sample_weight=counts)
    return np.append(model.coef_[0], model.intercept_ if fit_intercept else [])
