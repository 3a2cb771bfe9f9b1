"""Rows of two views, and labels, of points in a space of three dimensions."""

import numpy as np

VIEWS = {"a": slice(0, 7), "b": slice(7, 13)}


def planted(rng, n_rows=300, n_labels=6):
    """Complete rows (n_rows, 13) and labels (n_rows, n_labels)."""
    H = rng.normal(size=(n_rows, 3))
    return H @ rng.normal(size=(3, 13)), (H @ rng.normal(size=(3, n_labels)) > 0) * 1.0


def with_gaps(rng, X, Y, *, views=True, labels=True):
    """Copies in which a fifth of the rows lacks each view, and half of the labels are unknown."""
    X, Y = X.copy(), Y.copy()
    if views:
        X[::5, VIEWS["a"]], X[1::5, VIEWS["b"]] = np.nan, np.nan
    if labels:
        Y[rng.random(Y.shape) < 0.5] = np.nan
    return X, Y
