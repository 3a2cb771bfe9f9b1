"""Blocks of rows of all labels in one array, and functions of every block."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property, partial, wraps
from threading import local
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from naim3l._arrays import Matrix

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

# With fewer numbers in the blocks of all labels, starting threads costs more than it gains.
LARGE_NUMBERS = 100_000
# Blocks with at least this share of the rows of the largest are stacked with it, until the stack
# has this share of the time of all, so that threads are equally busy.
STACKED_SHARE, STACKED_COST = 0.9, 0.1
# NumPy lets other threads run only in calls whose result has more numbers than this, which the
# eigenvalues of one matrix do not have.
RELEASED_NUMBERS = 500

_pools = ThreadpoolController()
limited_blas = partial(_pools.limit, limits=1, user_api="blas")


def one_blas_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator for functions that divide labels among threads, with one thread of BLAS.

    Its own threads do not speed up small decompositions, and keep cores busy while they wait.
    """

    # The decorator of threadpoolctl up to 3.7 keeps what to restore in one place for all calls: one
    # within another would leave BLAS with one thread for good.
    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with limited_blas():
            return function(*args, **kwargs)

    return limited


def blas_threads() -> int:
    """Number of threads that BLAS may use, as set by the user, or by joblib in its workers."""
    return max([info["num_threads"] for info in _pools.info() if info["user_api"] == "blas"] or [1])


_here = local()  # has the attribute "started" in threads of thread_map, "pool" in kept_threads


def free_threads(n_threads: int) -> int:
    """Number of threads that `thread_map` divides items among."""
    return 1 if hasattr(_here, "started") else n_threads


@one_blas_thread
def thread_map(function: Callable[[T], R], items: Iterable[T], n_threads: int) -> list[R]:
    """``function`` of every item, in order, divided among threads with single-threaded BLAS.

    In a thread that was itself started here, all items are left to that thread.
    """
    if free_threads(n_threads) == 1:
        return [function(item) for item in items]
    if hasattr(_here, "pool"):
        return list(_here.pool.map(function, items))
    with _threads(n_threads) as pool:
        return list(pool.map(function, items))


def _threads(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, initializer=setattr, initargs=(_here, "started", 1))


@contextmanager
def kept_threads(n_threads: int) -> Iterator[None]:
    """Let all calls of `thread_map` in this thread use the same threads."""
    if free_threads(n_threads) == 1 or hasattr(_here, "pool"):
        yield
        return
    with _threads(n_threads) as _here.pool:
        try:
            yield
        finally:
            del _here.pool


def map_views(function: Callable[[int], R], n_views: int, n_threads: int) -> list[R]:
    """``function`` of the position of every view, divided among threads.

    If there are more threads than views, these are left to the function itself.
    """
    if n_views < n_threads:
        return [function(v) for v in range(n_views)]
    return thread_map(function, range(n_views), n_threads)


class LabelBlocks(ABC):
    """One block of rows for every label, all in one array of shape (n_positives, n_labels).

    Base of the forms of a problem; weights of all views are stacked, (n_weights, n_labels).

    Attributes
    ----------
    weight_slices : list of slice, one per view
        Rows of each view's weights.
    fit_intercept : bool
        Whether the last weight of each view is an intercept.
    label_slices : list of slice, one per label
        Rows of each label's block.
    stacked : bool
        Whether blocks of a group of labels follow each other in the order of ``label_groups``, each
        padded with rows of zeros to the height of the first, so that their stack is a part of the
        array.
    n_threads : int
        Number of threads among which labels are divided.
    """

    stacked = False

    weight_slices: list[slice]
    fit_intercept: bool
    label_slices: list[slice]
    n_threads: int

    @property
    def n_weights(self) -> int:
        return self.weight_slices[-1].stop

    @cached_property
    def penalised(self) -> NDArray[np.bool_]:
        """Mask (n_weights, n_labels) of the weights that a ridge applies to: all but intercepts.

        The intercept of a label that is known in no row of the view is an ordinary weight,
        because the loss does not limit it.
        """
        mask = np.ones((self.n_weights, self.n_labels), dtype=bool)
        if self.fit_intercept:
            mask[[weights.stop - 1 for weights in self.weight_slices]] = ~self.known_labels
        return mask

    @property
    @abstractmethod
    def identity(self) -> list[Any]:
        """Arrays that two different problems do not have in common; the last tells labels apart."""

    @property
    @abstractmethod
    def known_labels(self) -> NDArray[np.bool_]:
        """Whether each label is known in some row of each view, (n_views, n_labels)."""

    def asarray(self, A: Any) -> Any:
        """A NumPy array, in the library and on the device of the problem."""
        return np.asarray(A)

    @property
    def n_labels(self) -> int:
        return len(self.label_slices)

    @property
    def n_positives(self) -> int:
        """Number of rows of all blocks."""
        return self.label_slices[-1].stop

    @property
    def large(self) -> bool:
        """Whether most of the time is arithmetic on the blocks of all labels."""
        return self.n_positives * self.n_labels >= LARGE_NUMBERS

    @property
    def n_block_threads(self) -> int:
        """Number of threads for work on the blocks of all labels; 1 if these are small."""
        return self.n_threads if self.large else 1

    @abstractmethod
    def loss_and_gradient(self, W: Matrix) -> tuple[float, Matrix]:
        """The loss, and ``X'(P * (XW - Y))`` of shape (n_weights, n_labels)."""

    def loss(self, W: Matrix) -> float:
        """``1/2 sum P * (XW - Y)^2``."""
        return self.loss_and_gradient(W)[0]

    @abstractmethod
    def multiply_gram(self, W: Matrix) -> Matrix:
        """``X'XW`` for all views, (n_weights, n_labels)."""

    def multiply_blocks(self, blocks: list[Matrix], W: Matrix) -> Matrix:
        """A matrix of each view times its weights, stacked."""
        pairs = zip(blocks, self.weight_slices, strict=True)
        return np.concatenate([block @ W[weights] for block, weights in pairs])

    @property
    def gram_roots(self) -> list[Matrix] | None:
        """``R`` of each view with ``X'X = RR'``, if weights are fewer than labels; or None."""
        return None

    @abstractmethod
    def multiply_positive_gram(self, W: Matrix) -> Matrix:
        """``sum_k X_k'X_k W`` for all views, (n_weights, n_labels)."""

    def map_labels(self, function: Callable[[Matrix], Matrix], A: Matrix) -> Matrix:
        """``function`` of every label's block of ``A``, for functions that keep the shape.

        Parameters
        ----------
        function : callable
            From a stack of blocks (..., n, n_labels) to one of the same shape. Rows of zeros
            that pad a block must stay zero, and must not change the other rows.
        A : ndarray of shape (n_positives, n_labels)
        """
        result = np.empty_like(A)

        def assign(group: int, into: Matrix, blocks: Matrix) -> None:
            into[...] = function(blocks)

        self.change_labels(assign, [result], [A])
        return result

    def sum_labels(self, function: Callable[[Matrix], Matrix], A: Matrix) -> float:
        """Sum over labels of ``function``, from a stack of blocks (..., n, n_labels) to (...)."""
        # Summed in the order of the groups, not in the order in which threads finish.
        return float(sum(self.change_labels(lambda _, blocks: function(blocks).sum(), [], [A])))

    def change_labels(
        self, function: Callable[..., R], changed: Sequence[Matrix], read: Sequence[Matrix]
    ) -> list[R]:
        """Results of ``function`` for groups of labels, which are divided among threads.

        Parameters
        ----------
        function : callable
            Its arguments are the position of the group, which is the same in every call, and stacks
            of blocks (..., n, n_labels) of each array, padded with rows of zeros. It changes the
            first ones in place.
        changed, read : sequence of ndarray, each of shape (n_positives, n_labels)
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
        """Labels whose blocks are decomposed together, see `group_labels`."""
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


def consecutive_slices(sizes: Iterable[int]) -> list[slice]:
    """Slices of the given sizes, one after the other."""
    stops = np.cumsum(list(sizes)).tolist()
    return [slice(start, stop) for start, stop in zip([0, *stops[:-1]], stops, strict=True)]


def distinct(arrays: NDArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First index of each distinct array of a stack, and the index of each among these."""
    if len(set(map(bytes, arrays[:, :1]))) == len(arrays):  # mostly they differ in the first row
        return np.arange(len(arrays)), np.arange(len(arrays))
    seen: dict[bytes, int] = {}
    inverse = np.array([seen.setdefault(A.tobytes(), len(seen)) for A in arrays])
    _, first = np.unique(inverse, return_index=True)
    return first, inverse
