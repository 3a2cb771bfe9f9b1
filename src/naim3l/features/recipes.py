"""Feature recipes: scaling, histograms, principal components and rows of unit length.

A `FittedRecipe` is a few arrays and a pure function of rows, so that a file can hold it. It is
fitted to rows, or to their `Moments`, which add up over chunks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils.sparsefuncs import min_max_axis

from naim3l._arrays import Mask, Matrix
from naim3l._threads import one_blas_thread
from naim3l.files.stored import Array, Flag, ListOf, Maybe, OneOf, Text, Whole

MAX_COMPONENTS = 50
TEXT_COMPONENTS = 150  # more of a view with free text, which has more directions that count
MOST_COLUMNS = 5000  # the scatter of more takes too much memory, in several copies
_BLOCK = 4096  # rows of a sparse table that are made dense at a time
# The matrix of products of all pairs of columns, or of rows if these are fewer, is decomposed if it
# has at most this size, or this many times the number of axes; otherwise iterations are faster.
DIRECT_SIZE, DIRECT_TIMES = 500, 16
# Up to this size, the matrix is formed for iterations, too, unless the rows are sparse; these give
# up after one restart for so many rows, as they would take longer than the decomposition.
LARGEST_DIRECT, ROWS_PER_RESTART = 5000, 100
# Rows with a smaller share of numbers that are not zero are treated as sparse, unless the mean of
# a column exceeds this share of its root mean square: centring afterwards then loses digits.
SPARSE_SHARE, LARGEST_MEAN = 0.2, 0.99
LARGEST_RESIDUAL = 1e-12  # of eigenpairs that are used, relative to the largest eigenvalue
CHECK_STEPS = 40  # of Lanczos that look for a larger eigenvalue


@dataclass(frozen=True)
class Steps:
    """What a recipe does before PCA: roots of histograms, dropped columns, scaling."""

    histogram: bool = False
    drop: str = ""  # "constant" columns, columns of "zero", or none
    scale: bool = False


SCALE = "scale"
RECIPES = {
    SCALE: Steps(drop="constant", scale=True),
    "paper": Steps(drop="zero"),
    "histogram": Steps(histogram=True),
}


@dataclass(frozen=True)
class Recipe:
    """How the columns of a view become features.

    Parameters
    ----------
    steps : {"scale", "paper", "histogram"} or None, default="scale"
        "scale" drops constant columns, divides by the standard deviation, applies PCA and
        normalises rows to unit length. "paper" does the same without scaling, and drops only
        columns of zeros. "histogram", for counts, divides by the row's sum, takes square roots,
        applies PCA and normalises rows. None leaves the columns unchanged.
    n_components : int or None, default=50
        Maximum number of principal components, to which a view with free text adds 150. Increase it
        for wide views with many rows; None keeps all components along which rows differ.
    plan : bool, default=True
        Whether cells of all kinds become numbers first: missing numbers are replaced by the mean,
        dates become days, each frequent value of text becomes a column, and free text becomes
        weighted counts of its words; ids and columns that are almost empty are dropped, see
        ``columns_`` of a model. Otherwise all columns must be numbers, and a row has all of them or
        none.
    text : sequence of str, default=()
        Columns that are text, even if their cells are numbers, such as postal codes. Their words
        are read if more than half of their values differ.
    keep : sequence of str, default=()
        Columns that are used even if they look like ids or are almost empty.
    log : bool, default=True
        Whether, with the steps "scale", numbers become logarithms if they are skewed to the right,
        such as amounts over several decades, and their logarithms are much less.
    day_first : bool or None, default=None
        What comes first in dates such as 3/4/2024, if no day above 12 in the column tells: the day
        if True, and the month if False. None refuses such columns.
    shared : bool or sequence of str, default=True
        Whether separate tables learn together from columns of the same name, such as age and sex,
        or from those that are named. It needs ``plan`` and a learned rule, see ``shared_`` of a
        model.

    Examples
    --------
    >>> from naim3l import NAIM3L, Recipe
    >>> NAIM3L(features={"clinic": Recipe(text=["ward"]), "lab": Recipe(n_components=20)}).lam
    0.4
    """

    steps: str | None = "scale"
    n_components: int | None = MAX_COMPONENTS
    plan: bool = True
    text: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    log: bool = True
    day_first: bool | None = None
    shared: bool | tuple[str, ...] = True

    _stored: ClassVar[Mapping[str, Any]] = {
        "steps": Maybe(Text(RECIPES)),
        "n_components": Maybe(Whole(1)),
        "plan": Flag(),
        "text": ListOf(Text(), as_tuple=True),
        "keep": ListOf(Text(), as_tuple=True),
        "log": Flag(),
        "day_first": Maybe(Flag()),
        "shared": OneOf({"all": Flag(), "names": ListOf(Text(), as_tuple=True)}),
    }

    def fit(
        self, rows: Any, texts: NDArray[np.intp] | None = None
    ) -> tuple["FittedRecipe", Matrix]:
        """The recipe fitted to rows, and their features; models do this themselves.

        Parameters
        ----------
        rows : ndarray or sparse array of float, of shape (n_rows, n_columns)
            Training rows, without missing numbers.
        texts : ndarray of int, of shape (n_columns,), optional
            For each column, a number of the column of free text that it is a term of, -1 for
            others, which come first. The terms of a text are scaled together.

        Returns
        -------
        fitted : FittedRecipe
            Its method ``apply`` gives the features of other rows.
        features : ndarray of shape (n_rows, n_features)
            Features of these rows.

        Examples
        --------
        >>> import numpy as np
        >>> from naim3l import Recipe
        >>> rows = np.random.default_rng(0).normal(size=(20, 5))
        >>> fitted, features = Recipe("paper", n_components=3).fit(rows)
        >>> features.shape, bool(np.allclose(fitted.apply(rows[:2]), features[:2]))
        ((20, 3), True)
        """
        steps = RECIPES[str(self.steps)]
        if steps.histogram:
            rows = _roots(rows)
        is_sparse = sparse.issparse(rows)
        ends = min_max_axis(rows, axis=0) if is_sparse else (rows.min(axis=0), rows.max(axis=0))
        kept = _kept(steps, rows.shape[0], *ends)
        n_axes = self._n_axes(rows.shape[0], ends[0][kept], ends[1][kept], texts)
        rows, texts = _columns(rows, kept), None if texts is None else texts[kept]
        scale = deviation = None
        if steps.scale:
            # PCA centres its input, so scaling need not: sparse tables stay sparse until then.
            scaler = StandardScaler(with_mean=False).fit(rows)
            scale, deviation = _scales(scaler.scale_, scaler.var_, texts), np.sqrt(scaler.var_)
            rows = _divided(rows, scale)
        offset = np.zeros(rows.shape[1])
        if is_sparse and texts is not None:
            offset = np.where(texts < 0, np.asarray(rows.mean(axis=0)).ravel(), 0)
            rows = _shifted(rows, offset)
        centred = centred_rows(rows, n_axes)
        # Sparse rows cannot be centred before the product without losing their zeros.
        rest, n_rows = centred.mean, rows.shape[0]
        if not is_sparse:
            offset, rest = rest, offset
        found = _oriented(*leading_axes(centred, n_axes), n_rows)
        fitted = FittedRecipe(steps.histogram, kept, scale, deviation, offset, rest, *found, n_rows)
        return fitted, normalize(centred.multiply(fitted.axes.T))

    def _fit_moments(
        self, moments: "Moments", texts: NDArray[np.intp] | None = None
    ) -> "FittedRecipe":
        """The recipe fitted to the moments of rows, as `_before_moments` gives them."""
        steps, n = RECIPES[str(self.steps)], moments.n_rows
        kept = _kept(steps, n, moments.lowest, moments.highest)
        n_axes = self._n_axes(n, moments.lowest[kept], moments.highest[kept], texts)
        mean, scatter = moments.mean[kept], moments.scatter[np.ix_(kept, kept)]
        texts = None if texts is None else texts[kept]
        scale = deviation = None
        if steps.scale:
            # Like scikit-learn, leave columns as they are whose variance may be rounding alone.
            variance, eps = scatter.diagonal() / n, np.finfo(np.float64).eps
            constant = variance <= n * eps * variance + (n * mean * eps) ** 2
            deviation = np.sqrt(variance)
            scale = _scales(np.where(constant, 1, deviation), variance, texts)
            mean, scatter = mean / scale, scatter / scale / scale[:, None]
        offset = mean if texts is None else np.where(texts < 0, mean, 0)  # text stays sparse
        found = _oriented(*axes_of_scatter(scatter, n_axes), n)
        return FittedRecipe(
            steps.histogram, kept, scale, deviation, offset, mean - offset, *found, n
        )

    def _before_moments(self, rows: Any) -> Any:
        """Rows as `_fit_moments` needs the moments of them."""
        return _roots(rows) if RECIPES[str(self.steps)].histogram else rows

    def _n_axes(self, n_rows: int, lowest: NDArray, highest: NDArray, texts: NDArray | None) -> int:
        """Largest number of components of rows that differ."""
        if n_rows < 2:
            raise ValueError(f"PCA needs at least 2 rows, got n_samples = {n_rows}.")
        if (lowest == highest).all():
            raise ValueError("all rows are equal: there is no direction in which they differ.")
        most = min(n_rows - 1, len(lowest))
        if self.n_components is None:
            return most
        return min(self._most_components(texts is not None), most)

    def _most_components(self, has_text: bool) -> int:
        """Largest number of components, of a view that has free text or not."""
        assert self.n_components is not None
        return int(self.n_components) + TEXT_COMPONENTS * has_text


@dataclass(frozen=True, eq=False)
class FittedRecipe:
    """What a recipe has learned."""

    histogram: Annotated[bool, Flag()]  # whether square roots of shares are taken first
    kept: Annotated[Mask, Array("b", "encoded")]  # columns that are not dropped, (n_columns,)
    # What columns are divided by, and their standard deviations, (n_kept,), if they are scaled.
    scale: Annotated[NDArray[np.float64] | None, Maybe(Array("f", "kept", above=0))]
    deviation: Annotated[NDArray[np.float64] | None, Maybe(Array("f", "kept", low=0))]
    # Subtracted from rows, and what of their mean remains then, (n_kept,): one of them is 0.
    offset: Annotated[NDArray[np.float64], Array("f", "kept")]
    mean: Annotated[NDArray[np.float64], Array("f", "kept")]
    # Along which rows differ by more than rounding, (n_features, n_kept).
    axes: Annotated[Matrix, Array("f", "components", "kept")]
    # Of the training rows along the axes.
    variances: Annotated[NDArray[np.float64], Array("f", "components", low=0)]
    n_rows: Annotated[int, Whole()]  # in training

    def _check_stored(self) -> None:
        """Refuse a mask of other columns than those that have an offset."""
        if self.kept.sum() != len(self.offset):
            raise ValueError(f"{self.kept.sum()} columns are kept, of {len(self.offset)}.")

    @property
    def n_features(self) -> int:
        return len(self.axes)

    def before_axes(self, rows: Any) -> Any:
        """Rows as the axes are applied to them, (n_rows, n_kept), not centred."""
        if self.histogram:
            rows = _roots(rows)
        rows = _columns(rows, self.kept)
        return rows if self.scale is None else _divided(rows, self.scale)

    def apply(self, rows: Any, out: Matrix | None = None) -> Matrix:
        """Features of rows (n_rows, n_columns), of unit length, (n_rows, n_features).

        With ``out``, they are written there, and an array of rows is overwritten, too.
        """
        found = self.components(rows, out)
        sizes = np.sqrt(np.einsum("ij,ij->i", found, found))  # scikit-learn's, without its checks
        found /= np.where(sizes < 10 * np.finfo(found.dtype).eps, 1, sizes)[:, None]
        return found

    @cached_property
    def _of_columns(self) -> tuple[NDArray[np.float64], Matrix]:
        """What is subtracted from all columns, and the axes in their units, (n_columns, n_axes)."""
        scale = 1.0 if self.scale is None else self.scale
        shift, axes = np.zeros(len(self.kept)), np.zeros((len(self.kept), self.n_features))
        shift[self.kept], axes[self.kept] = self.offset * scale, (self.axes / scale).T
        return shift, axes

    def components(self, rows: Any, out: Matrix | None = None) -> Matrix:
        """Features of rows before they are normalised to unit length."""
        rows, (shift, axes) = _roots(rows) if self.histogram else rows, self._of_columns
        if out is None:
            found = np.asarray(_shifted(rows, shift) @ axes)
        else:
            rows -= shift
            found = np.matmul(rows, axes, out=out)
        found -= self.mean @ self.axes.T
        return found


def _oriented(squares: NDArray, axes: Matrix, n_rows: int) -> tuple[Matrix, NDArray]:
    """Axes along which rows differ by more than rounding, and variances along them."""
    # The largest entry of each is positive; the first of equal ones, so that rounding decides not.
    sizes = np.abs(axes)
    largest = (sizes >= (1 - 1e-6) * sizes.max(axis=1, keepdims=True)).argmax(axis=1)
    signs = np.sign(np.take_along_axis(axes, largest[:, None], axis=1))
    variances = squares / (n_rows - 1)
    rounding = np.finfo(np.float64).eps * max(n_rows, axes.shape[1]) * variances[0]
    n_kept = int(np.sum(variances > rounding))
    return np.ascontiguousarray((axes * signs)[:n_kept]), squares[:n_kept] / n_rows


def _roots(rows: Any) -> Any:
    """Square roots of shares: their distances are Hellinger distances between histograms."""
    return np.sqrt(normalize(rows, norm="l1"))


def _kept(steps: Steps, n_rows: int, lowest: NDArray, highest: NDArray) -> Mask:
    """Columns that are not dropped."""
    if not steps.drop:
        return np.ones(len(lowest), dtype=bool)
    kept = (lowest != 0) | (highest != 0) if steps.drop == "zero" else lowest < highest
    if not kept.any():
        raise ValueError(
            f"every column is {steps.drop} in all rows (n_samples = {n_rows}): nothing to learn "
            "from; leave the view out."
        )
    return np.asarray(kept)


def _columns(rows: Any, kept: Mask) -> Any:
    at = np.flatnonzero(kept)
    if kept.all() or not isinstance(rows, np.ndarray):
        return rows if kept.all() else rows[:, at]
    return np.take(rows, at, axis=1)  # three times as fast as indexing


def _scales(scale: NDArray, variances: NDArray, texts: NDArray | None) -> NDArray[np.float64]:
    """What columns are divided by: the terms of a text by one number each.

    Rare terms keep their small share in this way. A text then varies as much as all columns beside
    text together, and at least as one of them.
    """
    if texts is None:
        return scale
    total, scale = max(1, int((texts < 0).sum())), scale.copy()
    for text in np.unique(texts[texts >= 0]):
        scale[texts == text] = np.sqrt(variances[texts == text].sum() / total)
    return scale


def _shifted(rows: Any, offset: NDArray) -> Any:
    """Rows minus an offset; sparse ones stay sparse after the last column that has one."""
    if not sparse.issparse(rows):
        return rows - offset
    n = int(np.flatnonzero(offset).max(initial=-1)) + 1
    if not n:
        return rows
    first = rows[:, :n].toarray() - offset[:n]
    if n == rows.shape[1]:
        return first
    return sparse.csr_array(sparse.hstack([first, rows[:, n:]], format="csr"))


def _divided(rows: Any, scale: NDArray) -> Any:
    if not sparse.issparse(rows):
        return rows / scale
    return sparse.csr_array(rows @ sparse.diags_array(1 / scale))


@dataclass(frozen=True, eq=False)
class Moments:
    """Number, means, scatter and ranges of rows; those of chunks can be combined."""

    n_rows: int
    mean: NDArray[np.float64]
    scatter: NDArray[np.float64]  # (X - mean).T @ (X - mean)
    lowest: NDArray[np.float64]
    highest: NDArray[np.float64]

    @classmethod
    def of(cls, rows: Any, where: str = "X") -> "Moments":
        """Moments of an array or sparse table of at most `MOST_COLUMNS` columns."""
        n_rows, n_columns = rows.shape
        if n_columns > MOST_COLUMNS:
            raise MemoryError(
                f"{where}: {n_columns} columns, whose products take "
                f"{n_columns**2 * 8 / 2**30:.1f} GiB for each chunk that is read at a time (the "
                f"most are {MOST_COLUMNS} columns); leave columns out, or reduce them first, for "
                "example with sklearn.random_projection.SparseRandomProjection."
            )
        if n_rows == 0:
            zeros = np.zeros(n_columns)
            return cls(0, zeros, np.zeros((n_columns, n_columns)), zeros, zeros)
        if sparse.issparse(rows):
            blocks = (cls._of_sparse(rows[i : i + _BLOCK]) for i in range(0, n_rows, _BLOCK))
            return reduce(cls.combine, blocks)
        mean = rows.mean(axis=0)
        centred = rows - mean
        rest = centred.mean(axis=0)  # the rounding error of the mean of numbers far from 0
        centred -= rest
        ends = rows.min(axis=0), rows.max(axis=0)
        return cls(n_rows, mean + rest, centred.T @ centred, *ends)

    @classmethod
    def _of_sparse(cls, rows: Any) -> "Moments":
        """Moments of sparse rows, of which only columns with few zeros are made dense."""
        n_rows = rows.shape[0]
        few_zeros = np.bincount(rows.indices, minlength=rows.shape[1]) > SPARSE_SHARE * n_rows
        at, others = np.flatnonzero(few_zeros), np.flatnonzero(~few_zeros)
        dense, rest = cls.of(rows[:, at].toarray()), rows[:, others]
        mean, scatter = np.empty(len(few_zeros)), np.empty((len(few_zeros),) * 2)
        mean[at], mean[others] = dense.mean, rest.mean(axis=0)
        scatter[np.ix_(at, at)] = dense.scatter
        # Means of columns with many zeros are small beside their sizes, so that no digits cancel.
        centred = rows[:, at].toarray() - dense.mean
        scatter[np.ix_(others, at)] = rest.T @ centred
        scatter[np.ix_(at, others)] = scatter[np.ix_(others, at)].T
        products = (rest.T @ rest).toarray() - n_rows * np.outer(mean[others], mean[others])
        scatter[np.ix_(others, others)] = products
        return cls(n_rows, mean, scatter, *min_max_axis(rows, axis=0))

    @classmethod
    def of_blocks(cls, blocks: Iterable[Matrix], where: str = "X") -> "Moments":
        """Moments of all rows of dense blocks, of which there is one, and which are overwritten.

        Sums are of differences from the mean of the first block, so that few digits cancel.
        """
        rest = iter(blocks)
        first = cls.of(rows := next(rest), where)
        n_rows, mean, ends = first.n_rows, first.mean, [first.lowest, first.highest]
        scatter, sums = first.scatter, np.zeros_like(mean)
        for rows in rest:
            ends = [np.minimum(ends[0], rows.min(axis=0)), np.maximum(ends[1], rows.max(axis=0))]
            rows -= mean
            n_rows += len(rows)
            sums += rows.sum(axis=0)
            scatter += rows.T @ rows
        shift = sums / max(n_rows, 1)
        return cls(n_rows, mean + shift, scatter - n_rows * np.outer(shift, shift), *ends)

    def combine(self, other: "Moments") -> "Moments":
        """Moments of the rows of both (Chan, Golub and LeVeque's update)."""
        if not self.n_rows or not other.n_rows:
            return self if self.n_rows else other
        n_rows = self.n_rows + other.n_rows
        shift, share = other.mean - self.mean, other.n_rows / n_rows
        return Moments(
            n_rows,
            self.mean + share * shift,
            self.scatter + other.scatter + self.n_rows * share * np.outer(shift, shift),
            np.minimum(self.lowest, other.lowest),
            np.maximum(self.highest, other.highest),
        )


# The leading principal axes of rows, without the others.


class CentredRows:
    """Rows minus their mean, which is not subtracted from sparse rows, but from their products."""

    def __init__(self, X: Any) -> None:
        self.mean = np.asarray(X.mean(axis=0)).ravel()
        self.shift = self.mean  # centred rows are self.X - self.shift
        if sparse.issparse(X):
            self.X = X.sorted_indices()  # the order of which decides the last bits of products
        else:
            self.X = X - self.mean
            rest = self.X.mean(axis=0)  # the rounding error of the mean of numbers far from 0
            self.X -= rest
            self.mean, self.shift = self.mean + rest, np.zeros_like(rest)

    def multiply(self, V: Matrix) -> Matrix:
        """Products with columns, (n_columns, ...) -> (n_rows, ...)."""
        return np.asarray(self.X @ V - self.shift @ V)

    def multiply_transposed(self, U: Matrix) -> Matrix:
        """Products with rows, (n_rows, ...) -> (n_columns, ...)."""
        return np.asarray(self.X.T @ U - np.multiply.outer(self.shift, U.sum(axis=0)))

    def scatter(self) -> Matrix:
        """Products of all pairs of columns, (n_columns, n_columns)."""
        products = self.X.T @ self.X
        if not sparse.issparse(products):
            return np.asarray(products)
        return np.asarray(products.toarray() - len(self) * np.outer(self.shift, self.shift))

    def gram(self) -> Matrix:
        """Products of all pairs of rows, (n_rows, n_rows)."""
        products = self.X @ self.X.T
        if not sparse.issparse(products):
            return np.asarray(products)
        along = self.X @ self.shift
        return np.asarray(products.toarray() - along - along[:, None] + self.shift @ self.shift)

    def __len__(self) -> int:
        return int(self.X.shape[0])


def _iterates(shape: tuple[int, ...], n_axes: int) -> bool:
    return min(shape) > max(DIRECT_SIZE, DIRECT_TIMES * n_axes)


def centred_rows(X: Any, n_axes: int) -> CentredRows:
    """Rows minus their mean, in the form from which so many axes are found fastest."""
    if sparse.issparse(X) or not _iterates(X.shape, n_axes):
        return CentredRows(X)
    if np.count_nonzero(X) > SPARSE_SHARE * X.size:
        return CentredRows(X)
    rows = CentredRows(sparse.csr_array(X))
    largest = LARGEST_MEAN**2 * np.asarray(rows.X.power(2).mean(axis=0)).ravel()
    return rows if (rows.mean**2 <= largest).all() else CentredRows(X)


def leading_axes(rows: CentredRows, n_axes: int) -> tuple[Matrix, Matrix]:
    """Squared singular values (n_axes,), and right singular vectors in rows, largest first."""
    n_rows, n_columns = rows.X.shape
    wide = n_rows < n_columns
    form = rows.gram if wide else rows.scatter
    formed = not sparse.issparse(rows.X) and min(n_rows, n_columns) <= LARGEST_DIRECT
    if formed or not _iterates(rows.X.shape, n_axes):
        squares, U = _leading_pairs(form(), n_axes)
    else:
        found = _iterate(_products(rows), n_axes)
        squares, U = _decompose(form(), n_axes) if found is None else found
    if not wide:
        return squares, U.T.copy()
    # Nearly orthogonal columns, longest first.
    return squares, np.ascontiguousarray(np.linalg.qr(rows.multiply_transposed(U))[0].T)


def _products(rows: CentredRows) -> LinearOperator:
    """The matrix of products of all pairs of columns, or of rows if these are fewer, not formed."""
    n_rows, n_columns = rows.X.shape
    products = [rows.multiply_transposed, rows.multiply]
    first, second = products if n_rows < n_columns else products[::-1]

    def multiply(U: Matrix) -> Matrix:
        return second(first(U))

    shape = (min(n_rows, n_columns),) * 2
    return LinearOperator(shape, multiply, matmat=multiply, dtype=np.float64)


def axes_of_scatter(scatter: Matrix, n_axes: int) -> tuple[Matrix, Matrix]:
    """`leading_axes` of rows of which the products of columns are known."""
    squares, vectors = _leading_pairs(scatter, n_axes)
    return squares, vectors.T.copy()


def _leading_pairs(matrix: Matrix, n_axes: int) -> tuple[Matrix, Matrix]:
    """The largest eigenvalues (n_axes,) of a matrix and their vectors, in columns."""
    found = _iterate(matrix, n_axes) if _iterates(matrix.shape, n_axes) else None
    return _decompose(matrix, n_axes) if found is None else found


@one_blas_thread  # several threads mostly wait for each other
def _decompose(matrix: Matrix, n_axes: int) -> tuple[Matrix, Matrix]:
    last = [len(matrix) - n_axes, len(matrix) - 1]
    squares, vectors = linalg.eigh(matrix, subset_by_index=last)
    return np.maximum(squares[::-1], 0), vectors[:, ::-1]


@one_blas_thread
def _iterate(matrix: Any, n_axes: int) -> tuple[Matrix, Matrix] | None:
    """Eigenpairs by Lanczos iterations, None if these fail or leave one out."""
    size, rng = matrix.shape[0], np.random.default_rng(0)
    n_restarts = 1 + size // ROWS_PER_RESTART if size <= LARGEST_DIRECT else None
    try:
        squares, U = eigsh(matrix, n_axes, which="LA", v0=rng.normal(size=size), maxiter=n_restarts)
    except ArpackError:
        return None
    squares, U = np.maximum(squares[::-1], 0), U[:, ::-1]
    residual = np.linalg.norm(matrix @ U - U * squares, axis=0)
    accurate = residual.max() <= LARGEST_RESIDUAL * squares[0]
    if not (accurate and _is_complete(matrix, squares, U, rng.normal(size=size))):
        return None
    return squares, U


def _is_complete(matrix: Any, squares: Matrix, U: Matrix, start: NDArray[np.float64]) -> bool:
    """Whether no eigenvalue of a matrix is larger than those that were found.

    Lanczos steps from a random start find the largest of the rest. With 40 steps and a size of
    5000, eigenvalues that are larger by 6 % stay unnoticed with a probability below 1e-6 (Kuczynski
    and Wozniakowski, 1992).
    """

    def apply(u: Matrix) -> Matrix:
        u = u.ravel()
        return np.asarray(matrix @ u - U @ (squares * (U.T @ u)))

    rest = LinearOperator(matrix.shape, matvec=apply, dtype=np.float64)
    options: dict[str, Any] = {"ncv": CHECK_STEPS, "tol": 0.1, "return_eigenvectors": False}
    try:
        largest = eigsh(rest, 1, which="LA", v0=start, **options)
    except ArpackError:
        return False
    return bool(largest[0] <= squares[-1] * (1 + 1e-9) + LARGEST_RESIDUAL * squares[0])
