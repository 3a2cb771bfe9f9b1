"""Linear models per view, of features or of kernel values."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from naim3l._arrays import Matrix
from naim3l.estimators.base import ViewModel
from naim3l.files.stored import Array, MapOf
from naim3l.problem.rows import Problem


@dataclass(kw_only=True, eq=False, repr=False)
class LinearViewModel(ViewModel):
    """Base of the methods that learn one linear model per view.

    ``fit`` of a subclass computes stacked weights of the problem, passes them to
    ``_keep_weights``, and ends with ``_learn``.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ViewModel._parameter_constraints,
        "fit_intercept": ["boolean"],
    }
    _stored: ClassVar[Mapping[str, Any]] = {
        **ViewModel._stored,
        "coef_": MapOf(Array("f", "features", "labels"), keys="views"),
        "intercept_": MapOf(Array("f", "labels"), keys="views"),
    }

    fit_intercept: bool = True

    _in_span = True  # whether weights lie in the span of a view's rows, so that it may be rotated

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    @property
    def dual_coef_(self) -> dict[str, Matrix]:
        """Weights (n_landmarks, n_labels) of the kernel values, for views with a kernel.

        Scores are ``k(x, landmarks) @ dual_coef_[view] + intercept_[view]``.
        """
        return {
            view: kernel_map.normalization @ self.coef_[view]
            for view, kernel_map in self.kernel_maps_.items()
        }

    def _read_training(self, X: Any, y: Any, **chunks: Any) -> Any:
        problem = super()._read_training(X, y, **chunks)
        return problem.rotated() if self._in_span else problem

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
        problem = self._read_training(X, y)
        self._keep_weights(problem, self._solve(problem))
        self._learn(problem, self._solve)
        return self

    @abstractmethod
    def _solve(self, problem: Problem) -> Matrix:
        """Stacked weights (n_weights, n_labels) of all views and labels."""
