"""Linear models per view, of features or of kernel values."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from naim3l.estimators.kernel_model import KernelModel
from naim3l.problem.rows import Problem
from naim3l.solvers import SolverResult


@dataclass(kw_only=True, eq=False, repr=False)
class LinearViewModel(KernelModel):
    """Base of the methods that learn one linear model per view.

    ``fit`` of a subclass computes stacked weights of the problem, passes them to
    ``_keep_weights``, and ends with ``_learn``.
    """

    fit_intercept: bool = True
    fusion: str = "mean"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    @property
    def dual_coef_(self) -> dict[str, NDArray[np.floating]]:
        """Weights (n_landmarks, n_labels) of the kernel values, for views with a kernel.

        Scores are ``k(x, landmarks) @ dual_coef_[view] + intercept_[view]``.
        """
        return {
            view: kernel_map.normalization_ @ self.coef_[view]
            for view, kernel_map in self.kernel_maps_.items()
        }

    def _read(self, X: Any, y: Any) -> Problem:
        problem = super()._read(X, y)
        return problem.rotated() if self._in_span() else problem

    def _in_span(self) -> bool:
        """Whether the weights of a view lie in the span of its rows, so that it may be rotated."""
        return True

    def _score_features(self, view: str, features: Any) -> NDArray[np.floating]:
        return features @ self.coef_[view] + self.intercept_[view]

    def _keep_weights(self, problem: Problem, W: NDArray[np.floating]) -> None:
        coefficients, intercepts = problem.split_weights(W)
        self.coef_ = dict(zip(self.views_, coefficients, strict=True))
        self.intercept_ = dict(zip(self.views_, intercepts, strict=True))
        # From here on the model can predict, even if the rest of the fit is interrupted.
        self._keep_decisions(self._fixed_decisions())

    def _keep_result(self, problem: Problem, result: SolverResult) -> None:
        """Set the attributes that an iterative solver determines; then raise its interrupt."""
        if result.history:  # otherwise it was interrupted in the first iteration
            self._keep_weights(problem, result.W)
            self.n_iter_ = result.n_iter
            self.converged_ = result.converged
            self.stationarity_ = result.stationarity
            self.objective_ = result.history[-1]["objective"]
            self.history_ = result.history
        if result.interrupted:
            raise KeyboardInterrupt


class PerViewModel(LinearViewModel):
    """Base of the methods without a coupling between views, which solve the problem directly."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the weights of all views.

        Parameters
        ----------
        X : mapping of str to table, or one wide table of shape (n_rows, n_columns)
            As for :meth:`naim3l.NAIM3L.fit`.
        y : mapping of str to label table, or one label table of shape (n_rows, n_labels)
            Labels of the rows of ``X``, as for :meth:`naim3l.NAIM3L.fit`.

        Returns
        -------
        self
            The fitted model.

        Examples
        --------
        >>> from naim3l import PerViewRidge
        >>> from naim3l.datasets import make_unpaired
        >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
        >>> model = PerViewRidge().fit(data.views, data.labels)
        >>> {view: weights.shape for view, weights in model.coef_.items()}
        {'view0': (8, 3), 'view1': (8, 3)}
        """
        self._check_parameters(X)
        problem = self._read_training(X, y)
        self._keep_weights(problem, self._solve(problem))
        self._learn(problem, self._solve)
        return self

    @abstractmethod
    def _solve(self, problem: Problem) -> NDArray[np.floating]:
        """Stacked weights (n_weights, n_labels) of all views and labels."""
