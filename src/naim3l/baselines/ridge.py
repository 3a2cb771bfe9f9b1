"""Per-view ridge regression on the observed entries: what one would try first."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l.base import LinearViewModel
from naim3l.kernels import N_LANDMARKS
from naim3l.parameters import check_number
from naim3l.problem import Problem


class PerViewRidge(LinearViewModel):
    """Ridge regression of each label on each view's rows where it is known.

    Nothing couples views or labels: column k of a view's weights solves
    ``(X' diag(P_k) X + ridge I) w = X' (P_k * Y_k)``, with the intercept not penalised.

    Parameters
    ----------
    ridge : float, default=1.0
        Greater than 0.
    views, transformer, kernel, n_landmarks, gamma, positive_weight, fit_intercept, \
label_coding, threshold, calibrate, fusion, random_state
        As in :class:`naim3l.NAIM3L`; with a kernel this is kernel ridge regression.

    Attributes
    ----------
    coef_, intercept_, transformers_, views_, label_names_, thresholds_, calibration_
        As in :class:`naim3l.NAIM3L`.
    """

    def __init__(
        self,
        ridge: float = 1.0,
        *,
        views: Mapping[str, Any] | None = None,
        transformer: Any = "auto",
        kernel: Any = None,
        n_landmarks: int | None = N_LANDMARKS,
        gamma: Any = "auto",
        positive_weight: float = 1.0,
        fit_intercept: bool = True,
        label_coding: str = "binary",
        threshold: Any = "sign",
        calibrate: bool = False,
        fusion: str = "mean",
        random_state: Any = None,
    ):
        self.ridge = ridge
        self.views = views
        self.transformer = transformer
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.gamma = gamma
        self.positive_weight = positive_weight
        self.fit_intercept = fit_intercept
        self.label_coding = label_coding
        self.threshold = threshold
        self.calibrate = calibrate
        self.fusion = fusion
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the weights of all views; ``X`` and ``y`` as for :meth:`naim3l.NAIM3L.fit`."""
        self._check_form_parameters()
        check_number("ridge", self.ridge, above=0)
        problem = self._read_training(X, y)
        self._keep_weights(problem, masked_ridge(problem, self.ridge))
        self._learn(problem, lambda part: masked_ridge(part, self.ridge))
        return self


def masked_ridge(problem: Problem, ridge: float) -> NDArray[np.float64]:
    """Stacked weights (n_weights, n_labels) of the ridge fits of all views and labels."""
    W = np.zeros((problem.n_weights, problem.n_labels))
    right = problem.targets
    for X_v, rows, weights in zip(
        problem.X, problem.row_slices, problem.weight_slices, strict=True
    ):
        penalty = ridge * np.diag(problem.penalised[weights].astype(float))
        # Labels known in the same rows share one matrix.
        patterns, pattern_of = np.unique(problem.P[rows], axis=1, return_inverse=True)
        for pattern, counts in enumerate(patterns.T):
            known = counts > 0
            X_known = X_v[known]
            gram = X_known.T @ (sparse.diags_array(counts[known]) @ X_known)
            gram = (gram.toarray() if sparse.issparse(gram) else gram) + penalty
            labels = np.flatnonzero(pattern_of == pattern)
            # The intercept alone is not penalised: without a known row its equation is 0 = 0.
            W[weights][:, labels] = np.linalg.lstsq(gram, right[weights][:, labels])[0]
    return W
