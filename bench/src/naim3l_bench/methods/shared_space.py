"""Samples of several views as points of one space of few dimensions, some views missing.

A view is modelled as ``X_v = H U_v'``: the points ``H`` (n_samples, rank) are common to all views,
and each view has a basis ``U_v`` (n_features_v, rank). Bases of all views are stacked.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from naim3l.extend import AlignedRows
from naim3l_bench.arrays import Mask, Matrix, consecutive_slices


def split_columns(stacked: NDArray, features: Sequence[Matrix]) -> list[NDArray]:
    """Parts that belong to each view of an array with a row for each feature of all views."""
    return [stacked[at] for at in consecutive_slices(X_v.shape[1] for X_v in features)]


def unit_rows(rows: AlignedRows) -> tuple[Matrix, Matrix]:
    """Centres and scales of all features, (n_features,), with which rows are of length 1.

    The centre is the mean of the rows that have the view. All features of a view have one scale,
    the root of the mean squared distance of its rows from the mean.
    """
    centre, scales = rows.means(), []
    for X_v, has_view, middle in zip(
        rows.features, rows.present, split_columns(centre, rows.features), strict=True
    ):
        length = np.sqrt(np.square(X_v[has_view] - middle).sum(axis=1).mean())
        scales.append(np.full(X_v.shape[1], length if length > 0 else 1.0))
    return centre, np.concatenate(scales)


def rescale(
    features: Sequence[Matrix], present: Mask, centre: Matrix, scale: Matrix
) -> list[Matrix]:
    """``(X_v - centre) / scale`` of all views, zero in the rows that lack the view."""
    parts = zip(
        features,
        present,
        split_columns(centre, features),
        split_columns(scale, features),
        strict=True,
    )
    return [np.where(o[:, None], (X_v - middle) / by, 0.0) for X_v, o, middle, by in parts]


def by_pattern(
    basis: Matrix, features: Sequence[Matrix], present: Mask
) -> Iterator[tuple[Mask, Matrix, Matrix]]:
    """Normal equations of the points of rows, for all rows with the same views at a time.

    Parameters
    ----------
    basis : ndarray of shape (n_features, rank)
    features : sequence of ndarray, each of shape (n_rows, n_features_v)
        Zero in the rows that lack the view.
    present : bool ndarray of shape (n_views, n_rows)

    Yields
    ------
    rows : bool ndarray of shape (n_rows,)
        Rows that have the same views.
    gram : ndarray of shape (rank, rank)
        ``sum_v U_v'U_v`` over these views.
    right : ndarray of shape (n of these rows, rank)
        ``sum_v X_v U_v``.
    """
    U = split_columns(basis, features)
    grams = np.array([U_v.T @ U_v for U_v in U])
    right = along_bases(features, U)
    patterns, pattern_of = np.unique(present, axis=1, return_inverse=True)
    for i, pattern in enumerate(patterns.T):
        rows = pattern_of.ravel() == i  # NumPy 2.0.0 has one more dimension
        yield rows, grams[pattern].sum(axis=0), right[rows]


def fold_in(
    basis: Matrix,
    features: Sequence[Matrix],
    present: Mask,
    penalty: Matrix,
    pull: Matrix | float = 0.0,
) -> Matrix:
    """Points ``h`` that minimise ``sum_v |x_v - U_v h|^2 + h' penalty h + 2 pull'h``.

    Parameters
    ----------
    basis, features, present
        As in `by_pattern`.
    penalty : ndarray of shape (rank, rank)
        Positive definite.
    pull : float or ndarray of shape (n_rows, rank)

    Returns
    -------
    ndarray of shape (n_rows, rank)
    """
    points = np.empty((present.shape[1], basis.shape[1]))
    pull = np.broadcast_to(pull, points.shape)
    for rows, gram, right in by_pattern(basis, features, present):
        points[rows] = np.linalg.solve(gram + penalty, (right - pull[rows]).T).T
    return points


def along_bases(features: Sequence[Matrix], U: Sequence[Matrix]) -> Matrix:
    """``sum_v X_v U_v``, of shape (n_rows, rank)."""
    return np.sum([X_v @ U_v for X_v, U_v in zip(features, U, strict=True)], axis=0)
