"""One score per sample from those of its views."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Matrix = NDArray[np.floating]

FUSIONS = ("mean", "learned")


def fuse_arrays(scores: Matrix, weights: Matrix | None = None) -> NDArray[np.float64]:
    """Weighted mean over the views that a sample has, (n_samples, n_labels).

    Parameters
    ----------
    scores : ndarray of shape (n_views, n_samples, n_labels)
        NaN in the rows of samples that lack the view; NaN comes back for those that lack all.
    weights : ndarray of shape (n_views,), optional
        Not negative; all equal by default.
    """
    present = ~np.isnan(scores)
    share = present * (np.ones(len(scores)) if weights is None else weights)[:, None, None]
    total = share.sum(axis=0)
    # Views of weight zero alone: the plain mean is better than nothing.
    share = np.where(total > 0, share, present)
    total = share.sum(axis=0)
    fused = (share * np.where(present, scores, 0)).sum(axis=0)
    return np.where(total > 0, fused / np.where(total > 0, total, 1), np.nan)


def fit_weights(scores: Matrix, truth: Matrix) -> Matrix:
    """Weights (n_views,), adding up to 1, with the least squared error of the fused scores.

    Parameters
    ----------
    scores : ndarray of shape (n_views, n_samples, n_labels)
        Of entries that the fit did not see; NaN elsewhere.
    truth : ndarray of shape (n_samples, n_labels)
        1, 0, NaN = unknown.
    """
    known = ~np.isnan(truth) & ~np.isnan(scores).all(axis=0)
    S = scores[:, known]
    present = ~np.isnan(S)
    S = np.where(present, S, 0)
    target = 2 * truth[known] - 1

    def loss(logits: Matrix) -> tuple[float, Matrix]:
        # Softmax keeps weights positive; the gradient is that of a quotient of two sums.
        weights = np.exp(logits - logits.max())
        total = weights @ present
        fused = weights @ S / total
        error = fused - target
        per_weight = (S - fused * present) / total
        return 0.5 * float(error @ error), weights * (per_weight @ error)

    found = minimize(loss, np.zeros(len(S)), jac=True, method="L-BFGS-B", bounds=[(-5, 5)] * len(S))
    weights = np.exp(found.x - found.x.max())
    return weights / weights.sum()


def fuse(scores: Mapping[str, Any]) -> Any:
    """Mean score of each sample over the tables of several views, matched by their index.

    For rows that do carry a key: views trained apart can still be joined where new rows are known
    to belong together.

    Parameters
    ----------
    scores : mapping of str to pandas DataFrame
        Such as ``decision_function`` gives after ``set_output(transform="pandas")``, or
        ``predict_proba``; unique indexes, the same columns.

    Returns
    -------
    pandas DataFrame
        A row for every index that some view has, in the order of first appearance.
    """
    import pandas as pd

    if not isinstance(scores, Mapping) or not scores:
        raise TypeError("scores must be a mapping {view: data frame} of at least one view.")
    for view, frame in scores.items():
        if not isinstance(frame, pd.DataFrame):
            raise TypeError(f"view {view!r}: a pandas DataFrame is needed, its index tells who is "
                            f"who; got {type(frame).__name__}.")  # fmt: skip
        if not frame.index.is_unique:
            twice = frame.index[frame.index.duplicated()][0]
            raise ValueError(f"view {view!r}: index {twice!r} occurs more than once.")
    frames = list(scores.values())
    for view, frame in scores.items():
        if set(frame.columns) != set(frames[0].columns):
            raise ValueError(f"view {view!r}: columns differ from those of {next(iter(scores))!r}.")
    index = pd.Index(dict.fromkeys(key for frame in frames for key in frame.index))
    stacked = np.stack([frame.reindex(index)[frames[0].columns].to_numpy() for frame in frames])
    return pd.DataFrame(fuse_arrays(stacked), index=index, columns=frames[0].columns)
