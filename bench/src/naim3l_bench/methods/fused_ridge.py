"""FusedRidge: ridge regression on the columns of all views, the simplest control."""

from dataclasses import dataclass

import numpy as np

from naim3l_bench.methods.aligned import ConcatenatedModel, Learned, linear_arrays
from naim3l_bench.methods.aligned_rows import AlignedRows
from naim3l_bench.methods.constraints import FACTOR


@dataclass(eq=False, repr=False)
class FusedRidge(ConcatenatedModel):
    """Ridge regression of each label on the columns of all views, for aligned rows.

    The features of all views are concatenated; a row that lacks a view has the mean of the
    training rows that have it. Labels are independent of each other, as in
    :class:`naim3l.PerViewRidge`.

    Parameters
    ----------
    ridge : float, default=5.0
        Weight of the squared weights; greater than 0. Increase it when few labels are known.
    views, features, positive_weight, fit_intercept, decide, random_state
        As in :class:`naim3l.NAIM3L`. The kernel of a row is the sum of those of its views.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features, n_labels)
        Weights of the features of all views, in the order of ``views_``.
    intercept_ : ndarray of shape (n_labels,)
        Intercepts.
    fill_ : ndarray of shape (n_features,)
        Features of a missing view: the means of the training rows.
    n_encoded_ : dict of str to int
        Number of features of each view, after its transformer.
    gamma_, features_, columns_, decisions_, thresholds_, base_rates_, view_rates_, views_, \
label_names_, classes_, n_features_in_, feature_names_in_
        As in :class:`naim3l.NAIM3L`.

    Examples
    --------
    >>> from naim3l import datasets, evaluate, join_views
    >>> from naim3l_bench.methods import FusedRidge
    >>> data = datasets.make_unpaired(60, aligned=True, missing_labels=0.3, random_state=0)
    >>> wide, views = join_views(data.views)
    >>> model = FusedRidge(ridge=5.0, views=views).fit(wide, data.labels["view0"])
    >>> metrics = evaluate(data.complete_labels["view0"], model.decision_function(wide))
    >>> round(metrics["AP"], 2)
    0.94
    """

    _parameter_constraints = ConcatenatedModel._parameter_constraints | {"ridge": [FACTOR]}

    ridge: float = 5.0

    def _solve(self, rows: AlignedRows, rng: np.random.RandomState) -> Learned:
        fill = rows.means()
        problem = self._fused_problem(rows, fill)
        return Learned(linear_arrays(problem, problem.ridge_solutions([self.ridge])[0], fill))
