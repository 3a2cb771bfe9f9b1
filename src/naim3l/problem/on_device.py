"""A problem whose arrays are on a device of torch, such as a GPU.

A GPU is fast at products and slow at decompositions. The rows are therefore kept as they are: there
a W-step by conjugate gradients takes a few products, while statistics of the rows would have to be
factored for every label. Functions of the labels' blocks are computed from Gram matrices alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l.problem.rows import Problem

CPU = "cpu"
# Blocks with at least this share of the rows of the largest are stacked with it. A stack of small
# matrices takes as long as one of them, so that few stacks are better than little padding.
STACKED_SHARE = 0.5


@dataclass(frozen=True)
class _Stack:
    """Blocks of some labels, as a stack of blocks of one height.

    Attributes
    ----------
    rows : tensor of int, of shape (n_blocks, height)
        Row of the array that has all blocks; one after its last for rows of zeros that pad a block.
    inside, outside : tensor of int
        Positions of the rows that are no padding, in the flattened stack and in the array.
    tall : bool
        Whether blocks have at least as many rows as columns.
    """

    rows: Any
    inside: Any
    outside: Any
    tall: bool

    def grams(self, padded: Any) -> tuple[Any, Any]:
        """Blocks of an array, and the Gram matrices of their smaller side."""
        blocks = padded[self.rows]
        return blocks, blocks.mT @ blocks if self.tall else blocks @ blocks.mT


def check_device(name: str, device: Any) -> None:
    """Refuse anything but "cpu", "auto" and devices of torch that can be used here."""
    if not isinstance(device, str):
        raise ValueError(f"{name} must be 'cpu', 'cuda' or 'auto', got {device!r}.")
    if device != CPU:
        find_device(device)


def is_usable(device: str) -> bool:
    """Whether a device other than the CPU is asked for, and is there."""
    if device == CPU:
        return False
    try:
        return bool(find_device(device).type != CPU)
    except ValueError:
        return False


def find_device(device: Any) -> Any:
    """Device of torch with the given name; "auto" is CUDA if available, otherwise the CPU."""
    try:
        import torch
    except ImportError:
        raise ValueError(
            f"device={device!r} needs torch; install it with pip install 'naim3l[torch]', or use "
            "device='cpu'."
        ) from None
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device must be 'auto' or a device of torch, got {device!r}.") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r}, but CUDA is not available here.")
    try:
        torch.zeros(1, device=found).cpu()  # "meta" has no values to copy back
    except Exception as error:  # each kind of device raises its own errors
        reason = str(error).partition(". ")[0]  # the rest is for people who build torch
        raise ValueError(
            f"device={device!r} cannot be used here ({reason}); use 'auto' or 'cpu'."
        ) from error
    return found


def free_memory(device: Any) -> int | None:
    """Bytes that are left on a device of torch; None if it does not tell."""
    import torch

    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else None


class DeviceProblem(Problem):
    """The rows of a problem on a device, in float64, with the products that a solver needs.

    Conventions are those of `Problem`. Sums are computed in a fixed order, so that results of the
    same device are the same to the last bit.

    Parameters
    ----------
    problem : Problem
        Sparse features become dense.
    device : torch.device
    """

    X: list[Any]
    Y: Any
    positive_rows: Any

    def __init__(self, problem: Problem, device: Any) -> None:
        import torch

        self._torch, self.device = torch, device
        self.fit_intercept, self.positive_weight = problem.fit_intercept, problem.positive_weight
        self.samples, self.names, self.n_threads = problem.samples, problem.names, 1
        self.row_slices, self.weight_slices = problem.row_slices, problem.weight_slices
        self.label_slices = problem.label_slices
        self.X = [self.asarray(_dense(X)) for X in problem.X]
        self.Y = self.asarray(problem.Y)
        self.positive_rows = self.asarray(problem.positive_rows)
        self._turns = [
            (self.asarray(rows), self.asarray(positives))
            for rows, positives in _turns(problem.positive_rows)
        ]
        # Small, or of types on which libraries differ: computed before they are moved.
        self.__dict__["n_positives_of_rows"] = self.asarray(problem.n_positives_of_rows)
        self.__dict__["penalised"] = self.asarray(problem.penalised)
        self._tall, self._short = self._stack_labels()

    def asarray(self, A: Any) -> Any:
        """A NumPy array as a tensor on the device, numbers with a point in float64."""
        tensor = self._torch.from_numpy(np.ascontiguousarray(A)).to(self.device)
        return tensor.double() if tensor.is_floating_point() else tensor

    @cached_property
    def P(self) -> Any:
        """Weight of each entry in the loss, (n_rows, n_labels)."""
        return (self.Y != 0) + (self.positive_weight - 1) * (self.Y > 0).double()

    def multiply(self, W: Any) -> Any:
        """``XW`` for all rows: (n_weights, n_labels) -> (n_rows, n_labels)."""
        return self._multiply(W)

    def _stack_views(self, function: Callable[[int], Any]) -> Any:
        return self._torch.cat([function(v) for v in range(len(self.X))])

    def scatter(self, Z: Any) -> Any:
        """Sums over labels of the rows ``Z_k``, (n_positives, n_labels) -> (n_rows, n_labels)."""
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
        """``X'X`` of each view, (n_weights_v, n_weights_v)."""
        return [X.T @ X for X in self.X]

    @cached_property
    def positive_grams(self) -> list[Any]:
        """`positive_gram` of each view."""
        return [self.positive_gram(v) for v in range(len(self.X))]

    # Functions of the labels' blocks, stacked with others of similar height. Gram matrices of tall
    # ones have one size, whatever their heights, and are handled together.

    def map_grams(self, function: Callable[[Any], Any], A: Any) -> Any:
        """Blocks of ``A`` times a function of their Gram matrices.

        Parameters
        ----------
        function : callable
            From a stack of Gram matrices, of the smaller side of a block, (..., n, n), to one of
            the same shape. It multiplies the block from the right if the block is tall, otherwise
            from the left. Rows and columns of zeros must stay zero.
        A : tensor of shape (n_positives, n_labels)
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
        tall: list[_Stack] = []
        short: list[_Stack] = []
        for group in groups:
            rows = np.full((len(group), sizes[group[0]]), self.n_positives)
            for row, k in zip(rows, group, strict=True):
                row[: sizes[k]] = np.arange(self.label_slices[k].start, self.label_slices[k].stop)
            inside = np.flatnonzero(rows < self.n_positives)
            is_tall = bool(sizes[group[-1]] >= self.n_labels)
            at = [self.asarray(index) for index in (rows, inside, rows.ravel()[inside])]
            (tall if is_tall else short).append(_Stack(at[0], at[1], at[2], is_tall))
        return tall, short


def with_zeros(A: Any) -> Any:
    """Rows of a tensor and one row of zeros, at which indices of padding point."""
    padded = A.new_zeros((A.shape[0] + 1, A.shape[1]))
    padded[:-1] = A
    return padded


def _dense(X: Any) -> Any:
    return X.toarray() if sparse.issparse(X) else X


def _turns(
    positive_rows: NDArray[np.intp],
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
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
