"""Linear models per view, of features or of kernel values: their bases, ridge, logistic."""

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgWarning
from scipy.special import logit
from sklearn.linear_model import LogisticRegression
from sklearn.utils._param_validation import Interval

from naim3l._arrays import Matrix
from naim3l.estimators.base import ViewModel
from naim3l.files.stored import Array, MapOf
from naim3l.problem.rows import Problem

NEWTON_COLUMNS = 1000
NEWTON: dict[str, Any] = {"solver": "newton-cholesky"}
GRADIENTS: dict[str, Any] = {"solver": "lbfgs", "tol": 1e-6, "max_iter": 1000}
FACTOR = Interval(Real, 1e-10, 1e10, closed="both")  # with a ridge of 0, weights are not unique


@dataclass(kw_only=True, eq=False, repr=False)
class LinearViewModel(ViewModel):
    """Base of methods whose ``_fit`` passes stacked weights of a problem to ``_keep_weights``."""

    _parameter_constraints = ViewModel._parameter_constraints | {"fit_intercept": ["boolean"]}
    _stored = ViewModel._stored | {
        "coef_": MapOf(Array("f", "features", "labels"), keys="views"),
        "intercept_": MapOf(Array("f", "labels"), keys="views"),
    }

    fit_intercept: bool = True

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    @property
    def dual_coef_(self) -> dict[str, Matrix]:
        """Weights (n_landmarks, n_labels) of kernel values, which with intercepts give scores."""
        return {v: kernel.normalization @ self.coef_[v] for v, kernel in self.kernel_maps_.items()}

    def _score_features(self, view: str, features: Any) -> Matrix:
        return features @ self.coef_[view] + self.intercept_[view]

    def _keep_weights(self, problem: Any, W: Matrix) -> None:
        coefficients, intercepts = problem.split_weights(W)
        self.coef_ = dict(zip(self.views_, coefficients, strict=True))
        self.intercept_ = dict(zip(self.views_, intercepts, strict=True))
        # From here on the model can predict, even if the rest of the fit is interrupted.
        self.decisions_ = self._fixed_decisions()

    def _check_stored(self) -> None:
        """Refuse features that are not those that the weights belong to."""
        for view in self.views_:
            n = self.features_[view].n_features(len(self.names_.used[view]))
            if n is not None and n != len(self.coef_[view]):
                raise ValueError(f"view {view!r}: {len(self.coef_[view])} weights of {n} features.")


class PerViewModel(LinearViewModel):
    """Base of the methods without a coupling between views, which solve the problem directly.

    A subclass is a dataclass whose fields are its own parameters, and has the method ``_solve``.

    Parameters
    ----------
    views, features, positive_weight, fit_intercept, decide, random_state
        As in :class:`naim3l.NAIM3L`.
    """

    _borrows = False

    def _fit(self, X: Any, y: Any) -> None:
        problem = self._read_training(X, y).rotated()
        W = self._solve(problem)
        self._keep_weights(problem, W)
        self._learn(problem, self._solve, W)

    @abstractmethod
    def _solve(self, problem: Problem) -> Matrix:
        """Stacked weights (n_weights, n_labels) of all views and labels."""


def with_rates(problem: Any, W: Matrix, rates: Matrix) -> Matrix:
    """Ridge weights, in which a label that a view never records has the score of its rate there.

    Its scores would be 0, above those of most labels, which are negative.
    """
    if problem.fit_intercept:
        W = W.copy()
        for weights, known in zip(problem.weight_slices, problem.known_labels, strict=True):
            W[weights.stop - 1, ~known] = 2 * rates[~known] - 1
    return W


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
        As in :class:`naim3l.NAIM3L`; with a kernel this is kernel ridge regression. With an
        intercept, a label that a view never records has a constant score there, that of its rate.

    Attributes
    ----------
    coef_, intercept_, dual_coef_, gamma_, features_, columns_, decisions_, thresholds_, \
fusion_overlap_, base_rates_, views_, label_names_, n_features_in_, \
feature_names_in_
        As in :class:`naim3l.NAIM3L`.

    Examples
    --------
    >>> from naim3l import PerViewRidge, datasets, evaluate
    >>> data = datasets.make_unpaired(60, n_features=(9, 8), missing_labels=0.3, random_state=0)
    >>> model = PerViewRidge(ridge=1.0).fit(data.views, data.labels)
    >>> metrics = evaluate(data.complete_labels, model.decision_function(data.views))
    >>> round(metrics["AP"], 2)
    0.96
    """

    _parameter_constraints = PerViewModel._parameter_constraints | {"ridge": [FACTOR]}

    ridge: float = 1.0

    def _solve(self, problem: Problem) -> Matrix:
        return with_rates(problem, problem.ridge_solutions([self.ridge])[0], problem.base_rates)


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
fusion_overlap_, base_rates_, views_, label_names_, n_features_in_, \
feature_names_in_
        As in :class:`naim3l.NAIM3L`.

    Examples
    --------
    >>> from scipy.special import expit
    >>> from naim3l import PerViewLogistic, datasets
    >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=4, random_state=0)
    >>> model = PerViewLogistic(C=1.0).fit(data.views, data.labels)
    >>> log_odds = model.decision_function({"view1": data.views["view1"][:2]})["view1"]
    >>> expit(log_odds).round(2)  # probabilities
    array([[0.5 , 0.4 , 0.87, 0.13],
           [0.85, 0.28, 0.1 , 0.53]])
    """

    _parameter_constraints = PerViewModel._parameter_constraints | {"C": [FACTOR]}

    C: float = 1.0

    def _solve(self, problem: Problem) -> Matrix:
        W, rates = np.zeros((problem.n_weights, problem.n_labels)), problem.base_rates
        slices = zip(problem.row_slices, problem.weight_slices, strict=True)
        for features, (rows, weights) in zip(problem.features, slices, strict=True):
            for k, y in enumerate(problem.Y[rows].T):
                known, n_yes = np.flatnonzero(y), int(np.sum(y > 0))
                if 0 < n_yes < len(known):
                    counts = problem.P[rows][known, k]
                    W[weights, k] = _fit_label(features[known], y[known], counts, self.C, problem)
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
