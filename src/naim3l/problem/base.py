"""What solvers and models need of a problem, in whatever form it is.

The forms are `Problem` (the rows), `StatisticsProblem` (sums over the rows, with which the cost of
an iteration does not depend on their number) and `TorchProblem` (the rows on a GPU).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import Mask, Matrix
from naim3l._threads import thread_map
from naim3l.problem.boundedness import FreeRows, FreeRowSums, bounding_ridge
from naim3l.problem.feature_blocks import Features
from naim3l.problem.rotation import Rotation

if TYPE_CHECKING:
    from naim3l.problem.rows import Problem

R = TypeVar("R")

# With fewer numbers in the blocks of all labels, starting threads costs more than it gains.
LARGE_NUMBERS = 100_000
# Blocks with at least this share of the rows of the largest are stacked with it, until the stack
# has this share of the time of all, so that threads are equally busy.
STACKED_SHARE, STACKED_COST = 0.9, 0.1
# NumPy lets other threads run only in calls whose result has more numbers than this, which the
# eigenvalues of one matrix do not have.
RELEASED_NUMBERS = 500


class BaseProblem(ABC):
    """Products, losses and blocks of labels, on which solvers work.

    Weights of all views are stacked, ``W`` has shape (n_weights, n_labels), and the last weight of
    each view is its intercept, if there is one. Every label has a block: the rows ``X_k`` of all
    views in which it is observed positive, or factors that stand for them. The blocks of all
    labels are in one array, of shape (n_block_rows, n_labels) after a product with weights.
    """

    # Whether blocks of a group of labels follow each other in the order of label_groups, each
    # padded with rows of zeros to the height of the first: their stack is a part of the array.
    stacked = False
    weight_slices: list[slice]  # rows of each view's weights
    label_slices: list[slice]  # rows of each label's block
    fit_intercept: bool
    rotations: list[Rotation | None]  # by view: how weights of its original columns follow
    n_threads: int  # among which labels are divided
    targets: Any  # X'(P * Y), (n_weights, n_labels)

    @property
    @abstractmethod
    def rows(self) -> "Problem | None":
        """The same problem as rows in memory; None if they are not there."""

    def as_rows(self) -> "Problem":
        """The same problem as rows in memory, for a solver that works on nothing else."""
        if self.rows is None:
            raise ValueError(
                "solver='paper' works on rows in memory; tables that are read in chunks need "
                "solver='auto'."
            )
        return self.rows

    @property
    @abstractmethod
    def identity(self) -> list[Any]:
        """Arrays that two different problems do not have in common; the last tells labels apart."""

    # Sizes.

    @property
    def n_views(self) -> int:
        return len(self.weight_slices)

    @property
    def n_labels(self) -> int:
        return len(self.label_slices)

    @property
    def n_weights(self) -> int:
        return self.weight_slices[-1].stop

    @property
    @abstractmethod
    def n_positives(self) -> int:
        """Number of labels observed positive, over all rows."""

    @property
    def n_block_rows(self) -> int:
        """Number of rows of all blocks, with those that pad them."""
        return self.label_slices[-1].stop

    @property
    @abstractmethod
    def known_labels(self) -> Mask:
        """Whether each label is known in some row of each view, (n_views, n_labels)."""

    @cached_property
    def penalised(self) -> Any:
        """Mask (n_weights, n_labels) of the weights that a ridge applies to: all but intercepts.

        The intercept of a label that is known in no row of the view is an ordinary weight,
        because the loss does not limit it.
        """
        mask = np.ones((self.n_weights, self.n_labels), dtype=bool)
        if self.fit_intercept:
            mask[[weights.stop - 1 for weights in self.weight_slices]] = ~self.known_labels
        return mask

    # Sums over all sites that take part in a fit; here there are no others.

    def add_up(self, *numbers: float) -> Sequence[float]:
        """Sums of numbers, such as squared norms, of which each site has its own."""
        return numbers

    def add_gram(self, K: Matrix) -> Matrix:
        """Sum of symmetric matrices (n_labels, n_labels)."""
        return K

    # Products.

    def asarray(self, A: Any) -> Any:
        """A NumPy array, in the library and on the device of the problem."""
        return np.asarray(A)

    @abstractmethod
    def loss_and_gradient(self, W: Matrix) -> tuple[float, Matrix]:
        """The loss ``1/2 sum P * (XW - Y)^2``, and ``X'(P * (XW - Y))``, (n_weights, n_labels)."""

    @abstractmethod
    def multiply_gram(self, W: Matrix) -> Matrix:
        """``X'XW`` for all views, (n_weights, n_labels)."""

    @abstractmethod
    def multiply_positive_gram(self, W: Matrix) -> Matrix:
        """``sum_k X_k'X_k W`` for all views, (n_weights, n_labels)."""

    @abstractmethod
    def label_scores(self, W: Matrix) -> Matrix:
        """``X_k W`` of every label: (n_weights, n_labels) -> (n_block_rows, n_labels)."""

    @abstractmethod
    def label_scores_transposed(self, Z: Matrix) -> Matrix:
        """``sum_k X_k' Z_k``: (n_block_rows, n_labels) -> (n_weights, n_labels)."""

    @property
    def gram_roots(self) -> list[Matrix] | None:
        """``R`` of each view with ``X'X = RR'``, if weights are fewer than labels; or None."""
        return None

    def multiply_blocks(self, blocks: Sequence[Matrix], W: Matrix) -> Matrix:
        """A matrix of each view times its weights, stacked."""
        pairs = zip(blocks, self.weight_slices, strict=True)
        return np.concatenate([block @ W[weights] for block, weights in pairs])

    # Weights of the original columns.

    def n_columns(self, v: int) -> int:
        """Number of columns of a view before it was rotated, without the column of ones."""
        if (rotation := self.rotations[v]) is not None:
            return int(rotation.X.shape[1])
        weights = self.weight_slices[v]
        return int(weights.stop - weights.start - self.fit_intercept)

    def split_weights(self, W: Matrix) -> tuple[list[Matrix], list[Matrix]]:
        """Coefficients (n_columns_v, n_labels) and intercepts (n_labels,) of each view."""
        coefficients, intercepts = [], []
        for weights, rotation in zip(self.weight_slices, self.rotations, strict=True):
            last = weights.stop - 1 if self.fit_intercept else weights.stop
            W_v = W[weights.start : last]
            coefficients.append(W_v.copy() if rotation is None else rotation.expand(W_v))
            intercepts.append(W[last].copy() if self.fit_intercept else np.zeros(self.n_labels))
        return coefficients, intercepts

    def stack_weights(self, blocks: Sequence[Matrix]) -> Matrix:
        """Weights (n_weights, n_labels) from (n_columns_v + fit_intercept, n_labels) by view."""
        stacked = []
        for v, (block, rotation) in enumerate(zip(blocks, self.rotations, strict=True)):
            if rotation is not None:
                n = self.n_columns(v)
                block = np.concatenate([rotation.reduce(block[:n]), block[n:]])
            stacked.append(block)
        return np.concatenate(stacked)

    @abstractmethod
    def largest_score(self, W: Matrix) -> float:
        """Largest absolute score of a row, or a bound of it; infinite or NaN if too large."""

    # Ridges.

    @abstractmethod
    def ridge_solutions(self, ridges: Sequence[float]) -> NDArray[np.float64]:
        """Weights (n_ridges, n_weights, n_labels) of ridge regressions on the known rows.

        Column k of a view solves ``(X' diag(P_k) X + ridge I) w = X'(P_k * Y_k)``, where intercepts
        are not penalised. Labels that are known in the same rows share one matrix.
        """

    def bounding_ridge(self, lam: float) -> float:
        """Ridge with which the objective has a lower bound: `boundedness.bounding_ridge`."""
        return bounding_ridge(self, lam)

    @property
    @abstractmethod
    def grams(self) -> Sequence[Any]:
        """``X'X`` of each view, (n_weights_v, n_weights_v); None if it is too large."""

    @property
    @abstractmethod
    def positive_grams(self) -> Sequence[Any]:
        """``sum_k X_k'X_k`` of each view, (n_weights_v, n_weights_v); None if it is too large."""

    @abstractmethod
    def weighted_positive_gram(self, v: int, factors: Matrix) -> Matrix:
        """``sum_k a_k X_k'X_k`` of a view, given all ``a_k``, (n_labels,)."""

    @abstractmethod
    def label_rows(self, v: int) -> Iterable[Features]:
        """``X_k`` of a view for every label, or its factor."""

    @property
    def knows_free_rows(self) -> bool:
        """Whether there are `free_rows`; statistics have them only if they were asked for."""
        return True

    @abstractmethod
    def free_rows(self) -> Sequence[FreeRows | FreeRowSums]:
        """For every label, the rows of a view with it unknown and no observed positive."""

    # Functions of the labels' blocks.

    @property
    def large(self) -> bool:
        """Whether most of the time is arithmetic on the blocks of all labels."""
        return self.n_block_rows * self.n_labels >= LARGE_NUMBERS

    @property
    def n_block_threads(self) -> int:
        """Number of threads for work on the blocks of all labels; 1 if these are small."""
        return self.n_threads if self.large else 1

    def change_labels(
        self, function: Callable[..., R], changed: Sequence[Matrix], read: Sequence[Matrix]
    ) -> list[R]:
        """Results of ``function`` for groups of labels, in order, divided among threads.

        Its arguments are the position of the group, which is the same in every call, and stacks of
        blocks (n_group, n, n_labels) of each array (n_block_rows, n_labels), padded with rows of
        zeros. It changes the first ones in place.
        """

        def work(position: int) -> R:
            group = self.label_groups[position]
            stacks = [self._stack(group, A) for A in (*changed, *read)]
            result = function(position, *stacks)
            for A, stack in zip(changed, stacks, strict=False):
                if not (self.stacked or len(group) == 1):  # otherwise the stack is a part of A
                    for k, block in zip(group, stack, strict=True):
                        rows = self.label_slices[k]
                        A[rows] = block[: rows.stop - rows.start]
            return result

        return thread_map(work, range(len(self.label_groups)), self.n_block_threads)

    @cached_property
    def label_groups(self) -> list[NDArray[np.intp]]:
        sizes = [rows.stop - rows.start for rows in self.label_slices]
        return group_labels(np.array(sizes), self.n_labels)

    def _stack(self, group: NDArray[np.intp], A: Matrix) -> Matrix:
        """Blocks of some labels as (n_group, n_rows, n_labels), padded with zeros."""
        slices = [self.label_slices[k] for k in group]
        height = slices[0].stop - slices[0].start
        if self.stacked or len(slices) == 1:
            rows = slice(slices[0].start, slices[-1].start + height)
            return A[rows].reshape(len(slices), height, A.shape[1])
        stack = np.zeros((len(slices), height, A.shape[1]), dtype=A.dtype)
        for block, rows in zip(stack, slices, strict=True):
            block[: rows.stop - rows.start] = A[rows]
        return stack


def consecutive_slices(sizes: Any) -> list[slice]:
    """Slices of the given sizes, one after the other."""
    stops = np.cumsum(sizes).tolist()
    return [slice(start, stop) for start, stop in zip([0, *stops[:-1]], stops, strict=True)]


def group_labels(sizes: NDArray[np.intp], n_labels: int) -> list[NDArray[np.intp]]:
    """Labels whose blocks, with so many rows each, are decomposed together; largest first.

    Blocks of similar size form a stack: for small ones the overhead of a call exceeds the
    arithmetic, and other threads run only while eigenvalues of several are computed.
    """
    costs = np.minimum(sizes, n_labels) ** 3.0
    most, groups, cost = STACKED_COST * costs.sum(), list[list[int]](), 0.0
    for k in np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)].tolist():
        last = groups[-1] if groups else []
        alike = bool(last) and sizes[k] >= STACKED_SHARE * sizes[last[0]]
        few = len(last) * min(sizes[k], n_labels) <= RELEASED_NUMBERS
        if alike and (cost < most or few):
            groups[-1].append(k)
            cost += costs[k]
        else:
            groups.append([k])
            cost = costs[k]
    return [np.array(group) for group in groups]
