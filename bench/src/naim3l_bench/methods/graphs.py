"""Graphs of the nearest neighbours of rows, and systems of equations of their Laplacians."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.neighbors import NearestNeighbors, kneighbors_graph

from naim3l_bench.arrays import Matrix


def heat_graph(X: Matrix, n_neighbors: int) -> tuple[sparse.csr_array, float]:
    """Weights ``exp(-d^2 / t)`` of pairs of rows of which one is a nearest neighbour of the other.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    n_neighbors : int
        Number of neighbours of each row; fewer if there are fewer other rows.

    Returns
    -------
    CSR array of shape (n_rows, n_rows)
        Symmetric weights, without those of a row with itself.
    float
        Bandwidth ``t``, the median of the squared distances of neighbours.
    """
    n_neighbors = min(n_neighbors, len(X) - 1)
    if n_neighbors < 1:
        return sparse.csr_array((len(X), len(X))), 1.0
    graph = sparse.csr_array(kneighbors_graph(X, n_neighbors, mode="distance"))
    squared = graph.data**2
    bandwidth = float(np.median(squared)) or 1.0  # 0 if most rows have duplicates
    graph.data = np.exp(-squared / bandwidth)
    return sparse.csr_array(graph.maximum(graph.T)), bandwidth


def normalized_laplacian(weights: sparse.csr_array) -> sparse.csr_array:
    """``I - D^(-1/2) A D^(-1/2)`` of weights ``A``; rows without neighbours are zero."""
    degrees = weights.sum(axis=1)
    linked = degrees > 0
    scale = sparse.diags_array(np.where(linked, 1 / np.sqrt(np.where(linked, degrees, 1)), 0))
    return sparse.csr_array(sparse.diags_array(linked.astype(float)) - scale @ weights @ scale)


def view_laplacian(
    X: Matrix, present: NDArray[np.bool_], n_neighbors: int
) -> tuple[sparse.csr_array, float]:
    """Normalised Laplacian of the rows that have a view, and the bandwidth of its weights.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    present : bool ndarray of shape (n_samples,)
    n_neighbors : int

    Returns
    -------
    CSR array of shape (n_samples, n_samples)
        Zero in the rows and columns of samples that lack the view.
    float
    """
    weights, bandwidth = heat_graph(X[present], n_neighbors)
    among = sparse.coo_array(normalized_laplacian(weights))
    at = np.flatnonzero(present)
    size = (len(X), len(X))
    return sparse.csr_array((among.data, (at[among.row], at[among.col])), shape=size), bandwidth


def neighbor_mean(
    X: Matrix, rows: Matrix, values: Matrix, n_neighbors: int, bandwidth: float
) -> Matrix:
    """Mean of the values of each row's nearest neighbours, weighted as in `heat_graph`.

    Parameters
    ----------
    X : ndarray of shape (n_new, n_features)
    rows : ndarray of shape (n_rows, n_features)
        Rows among which neighbours are searched.
    values : ndarray of shape (n_rows, n_labels)
    n_neighbors : int
    bandwidth : float

    Returns
    -------
    ndarray of shape (n_new, n_labels)
    """
    search = NearestNeighbors(n_neighbors=min(n_neighbors, len(rows))).fit(rows)
    distances, neighbors = search.kneighbors(X)
    # Only ratios matter; beside the nearest row, the weights of distant rows do not underflow.
    weights = np.exp((distances[:, :1] ** 2 - distances**2) / bandwidth)
    weights /= weights.sum(axis=1, keepdims=True)
    starts = np.arange(0, weights.size + 1, weights.shape[1])
    size = (len(X), len(rows))
    return sparse.csr_array((weights.ravel(), neighbors.ravel(), starts), shape=size) @ values


def solve_shifted(
    A: sparse.csr_array, shift: Matrix, B: Matrix, X: Matrix, *, tol: float, max_iter: int
) -> Matrix:
    """Columns ``x_k`` of ``(A + diag(shift_k)) x_k = b_k``, by conjugate gradients from ``X``.

    There is one matrix per column, but one product with ``A`` per iteration serves all columns.
    A column is left alone once its residual is small. Every iteration lowers the quadratic
    function of each column, so that the result is no worse than ``X`` however it ends.

    Parameters
    ----------
    A : CSR array of shape (n, n)
        Symmetric and positive semi-definite.
    shift : ndarray of shape (n, n_columns)
        Diagonals, greater than 0.
    B, X : ndarray of shape (n, n_columns)
        Right-hand sides, and where to start.
    tol : float
        Norm of a residual, relative to that of its right-hand side, at which a column is solved;
        both are divided by the diagonal first, so that rows of small weight count as others do.
    max_iter : int
        Largest number of iterations.

    Returns
    -------
    ndarray of shape (n, n_columns)
    """
    X = np.where(B.any(axis=0), X, 0)  # relative to 0, no residual is small
    result = X.copy()
    diagonal = A.diagonal()[:, None] + shift  # the preconditioner
    R = B - A @ X - shift * X
    bounds = tol * np.linalg.norm(B / diagonal, axis=0)
    left, P = np.arange(X.shape[1]), np.zeros_like(X)
    rho: Matrix = np.ones(X.shape[1])
    for _ in range(max_iter):
        unsolved = np.linalg.norm(R / diagonal, axis=0) > bounds
        if not unsolved.all():
            left, bounds, rho = left[unsolved], bounds[unsolved], rho[unsolved]
            R, P, shift, diagonal = (M[:, unsolved] for M in (R, P, shift, diagonal))
        if not len(left):
            break
        Z = R / diagonal
        rho_old, rho = rho, _dots(R, Z)
        P = Z + (rho / rho_old) * P
        AP = A @ P + shift * P
        step = rho / _dots(P, AP)
        result[:, left] += step * P
        R = R - step * AP
    return result


def _dots(A: Matrix, B: Matrix) -> Matrix:
    """Inner products of columns."""
    return np.einsum("ij,ij->j", A, B)
