"""Base of the methods that treat all views as one, with means in place of missing views."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import NDArray

from naim3l._arrays import Mask, Matrix
from naim3l.estimators.aligned import AlignedModel
from naim3l.estimators.kernel_model import KernelModel
from naim3l.problem.aligned_rows import AlignedRows, concatenate_views
from naim3l.problem.rows import Problem


@dataclass(kw_only=True, eq=False, repr=False)
class ConcatenatedModel(AlignedModel, KernelModel):
    """Base of the methods whose scores are linear in the concatenated features of all views.

    A row that lacks a view has the mean of the training rows that have it. With kernels, features
    of a view represent its kernel, and those of all views the sum of their kernels.
    """

    _shapes: ClassVar[Mapping[str, str]] = {"fill": "d", "coef": "dc", "intercept": "c"}

    fit_intercept: bool = True

    def _score_rows(
        self, arrays: Mapping[str, NDArray], features: list[Matrix], present: Mask
    ) -> Matrix:
        X = concatenate_views(features, present, arrays["fill"])
        return X @ arrays["coef"] + arrays["intercept"]

    def _fused_problem(self, rows: AlignedRows, fill: Matrix) -> Problem:
        """The concatenated features as the only view of a problem."""
        return Problem(
            [rows.concatenated(fill)],
            [rows.Y],
            fit_intercept=self.fit_intercept,
            positive_weight=rows.positive_weight,
            names=["all views"],
        )


def linear_arrays(problem: Problem, W: Matrix, fill: Matrix) -> dict[str, Matrix]:
    """Learned arrays of the weights of a problem with one view."""
    [coef], [intercept] = problem.split_weights(W)
    return {"fill": fill, "coef": coef, "intercept": intercept}
