"""A problem whose arrays are on a device of torch, such as a GPU.

A GPU is fast at products and slow at decompositions. So the rows are kept as they are, with which a
W-step takes a few products, and functions of the labels' blocks need only Gram matrices.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import as_dense
from naim3l.problem.rows import Problem

# Blocks with at least this share of the rows of the largest are stacked with it. A stack of small
# matrices takes as long as one of them, so that few stacks are better than little padding.
STACKED_SHARE = 0.5


@dataclass(frozen=True)
class _Stack:
    """Blocks of some labels, as a stack of blocks of one height."""

    rows: Any  # in the array of all blocks; one after its last for padding, (n_blocks, height)
    inside: Any  # positions of the rows that are no padding, in the flattened stack
    outside: Any  # and in the array
    tall: bool  # whether blocks have at least as many rows as columns

    def grams(self, padded: Any) -> tuple[Any, Any]:
        """Blocks of an array, and the Gram matrices of their smaller side."""
        blocks = padded[self.rows]
        return blocks, blocks.mT @ blocks if self.tall else blocks @ blocks.mT


class TorchProblem(Problem):
    """The rows of a problem on a device, in float64 and dense, with the products of a solver.

    Sums are computed in a fixed order, so that results of the same device are the same to the last
    bit.
    """

    X: list[Any]
    Y: Any
    positive_rows: Any

    def __init__(self, problem: Problem, device: Any) -> None:
        import torch

        self._torch, self.device, self._in_memory = torch, device, problem
        self.fit_intercept, self.positive_weight = problem.fit_intercept, problem.positive_weight
        self.samples, self.names, self.n_threads = problem.samples, problem.names, 1
        self.row_slices, self.weight_slices = problem.row_slices, problem.weight_slices
        self.label_slices, self.rotations = problem.label_slices, problem.rotations
        self.X = [self.asarray(as_dense(X)) for X in problem.X]
        self.Y = self.asarray(problem.Y)
        self.positive_rows = self.asarray(problem.positive_rows)
        self._turns = [
            (self.asarray(rows), self.asarray(positives))
            for rows, positives in _turns(problem.positive_rows)
        ]
        # Small, or of types on which libraries differ: computed before they are moved.
        for name in ("n_positives_of_rows", "penalised"):
            self.__dict__[name] = self.asarray(getattr(problem, name))
        self._tall, self._short = self._stack_labels()

    def asarray(self, A: Any) -> Any:
        """A NumPy array as a tensor on the device, numbers with a point in float64."""
        tensor = self._torch.from_numpy(np.ascontiguousarray(A)).to(self.device)
        return tensor.double() if tensor.is_floating_point() else tensor

    @property
    def rows(self) -> Problem:
        return self._in_memory

    def bounding_ridge(self, lam: float) -> float:
        return self._in_memory.bounding_ridge(lam)  # needs decompositions

    @cached_property
    def P(self) -> Any:
        return (self.Y != 0) + (self.positive_weight - 1) * (self.Y > 0).double()

    def multiply(self, W: Any) -> Any:
        return self._multiply(W)

    def _stack_views(self, function: Callable[[int], Any]) -> Any:
        return self._torch.cat([function(v) for v in range(self.n_views)])

    def scatter(self, Z: Any) -> Any:
        sums = self._torch.zeros_like(self.Y)
        # The first positive of every row, then the second of those with two, and so on: additions
        # in an order that does not depend on threads.
        for rows, positives in self._turns:
            sums[rows] += Z[positives]
        return sums

    def _weighted_gram(self, v: int, row_weights: Any) -> Any:
        X = self.X[v]
        return X.T @ (row_weights[self.row_slices[v]] * X)

    @cached_property
    def grams(self) -> list[Any]:
        return [X.T @ X for X in self.X]

    @cached_property
    def positive_grams(self) -> list[Any]:
        return [self.positive_gram(v) for v in range(self.n_views)]

    # Functions of the labels' blocks, stacked with others of similar height. Gram matrices of tall
    # ones have one size, whatever their heights, and are handled together.

    def map_grams(self, function: Callable[[Any], Any], A: Any) -> Any:
        """Blocks of ``A`` (n_block_rows, n_labels) times a function of their Gram matrices.

        The function gets stacks of Gram matrices (..., n, n) of the smaller side of a block. Its
        result, of the same shape, multiplies tall blocks from the right, others from the left. Rows
        and columns of zeros must stay zero.
        """
        result, padded = self._torch.empty_like(A), with_zeros(A)
        tall = [stack.grams(padded) for stack in self._tall]
        if tall:
            factors = function(self._torch.cat([grams for _, grams in tall]))
            of_stacks = factors.split([len(grams) for _, grams in tall])
            for stack, (blocks, _), T in zip(self._tall, tall, of_stacks, strict=True):
                result[stack.outside] = (blocks @ T).flatten(0, 1)[stack.inside]
        for stack in self._short:
            blocks, grams = stack.grams(padded)
            result[stack.outside] = (function(grams) @ blocks).flatten(0, 1)[stack.inside]
        return result

    def sum_grams(self, function: Callable[[Any], Any], A: Any) -> float:
        """Sum over labels of a function from Gram matrices (..., n, n) to numbers (...)."""
        padded = with_zeros(A)
        tall = [stack.grams(padded)[1] for stack in self._tall]
        stacks = [self._torch.cat(tall)] if tall else []
        stacks += [stack.grams(padded)[1] for stack in self._short]
        return float(sum(function(grams).sum() for grams in stacks))

    def _stack_labels(self) -> tuple[list[_Stack], list[_Stack]]:
        """Stacks of tall blocks, and of the others."""
        sizes = np.array([rows.stop - rows.start for rows in self.label_slices])
        groups: list[list[int]] = []
        for k in np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)].tolist():
            first = sizes[groups[-1][0]] if groups else 0
            alike = sizes[k] >= STACKED_SHARE * first and (
                sizes[k] >= self.n_labels or first < self.n_labels
            )
            if groups and alike:
                groups[-1].append(k)
            else:
                groups.append([k])
        tall, short = list[_Stack](), list[_Stack]()
        for group in groups:
            rows = np.full((len(group), sizes[group[0]]), self.n_block_rows)
            for row, k in zip(rows, group, strict=True):
                row[: sizes[k]] = np.arange(self.label_slices[k].start, self.label_slices[k].stop)
            inside = np.flatnonzero(rows < self.n_block_rows)
            is_tall = bool(sizes[group[-1]] >= self.n_labels)
            at = [self.asarray(index) for index in (rows, inside, rows.ravel()[inside])]
            (tall if is_tall else short).append(_Stack(at[0], at[1], at[2], is_tall))
        return tall, short


def with_zeros(A: Any) -> Any:
    """Rows of a tensor and one row of zeros, at which indices of padding point."""
    padded = A.new_zeros((A.shape[0] + 1, A.shape[1]))
    padded[:-1] = A
    return padded


def _turns(positive_rows: NDArray[np.intp]) -> list[tuple[Any, Any]]:
    """Rows with at least one, two, ... positives, and the position of that positive of each."""
    order = np.argsort(positive_rows, kind="stable")
    rows = positive_rows[order]
    first = np.flatnonzero(np.diff(rows, prepend=-1))
    counts = np.diff(first, append=len(rows))
    turns = []
    for turn in range(int(counts.max(initial=0))):
        at = first[counts > turn] + turn
        turns.append((rows[at], order[at]))
    return turns
