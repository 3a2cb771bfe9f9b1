"""Properties of all scores: shares of the views, related labels, ranks."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import Matrix
from naim3l._threads import one_blas_thread
from naim3l.estimators.linear import LinearViewModel
from naim3l.explain import model_views

MOST_OF_IT = 0.99  # of the sum of squares, in the singular values that count as dimensions


def view_shares(model: LinearViewModel, X: Any = None) -> dict[str, Matrix]:
    """Share of each view in the variance of the scores, per label.

    This is the variance of the label's scores over the rows of a view, divided by the sum over all
    views. Where the views of a wide table are fused by evidence, it is the variance of the log-odds
    that the view contributes.

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, PerViewRidge or PerViewLogistic
        Fitted model.
    X : tables in the form of the fit, optional
        Rows over which the variance is computed. Without them, it is that of the training rows with
        features assumed to be uncorrelated; for a view with a kernel, it is that of its landmarks.

    Returns
    -------
    dict of str to ndarray of shape (n_labels,)
        Shares by view, which sum to 1; NaN for a label whose scores are constant.

    Examples
    --------
    >>> from naim3l import NAIM3L, datasets
    >>> from naim3l.explain import view_shares
    >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> model = NAIM3L().fit(data.views, data.labels)
    >>> {view: shares.round(2).tolist() for view, shares in view_shares(model).items()}
    {'view0': [0.65, 0.53, 0.55], 'view1': [0.35, 0.47, 0.45]}
    """
    model_views.check_explained(model)
    added, variances = _slopes_added(model), {}
    for view, (covariance, _) in _score_covariances(model, X).items():
        variances[view] = added.get(view, 1.0) ** 2 * np.diag(covariance)
    total = np.sum(list(variances.values()), axis=0)
    divisor = np.where(total > 0, total, np.nan)
    return {view: variance / divisor for view, variance in variances.items()}


def label_relations(model: LinearViewModel, X: Any = None) -> Matrix:
    """Correlations between the scores of each pair of labels.

    With weights ``W_v`` and the scatter ``S_v`` of a view's features around their mean, these are
    the cosines that belong to ``sum_v W_v' S_v W_v``: the correlation of the two labels' scores
    over the rows of all views. Each view is centred because means and intercepts reflect how
    frequent labels are, not whether they occur together.

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, PerViewRidge or PerViewLogistic
        Fitted model.
    X : tables in the form of the fit, optional
        Rows from which the scatter is computed. Without them, it is diagonal, with the variances
        of the components in training; for a view with a kernel, it is that of its landmarks.

    Returns
    -------
    ndarray of shape (n_labels, n_labels)
        Symmetric, with 1 on the diagonal; 0 for a label whose scores are constant.

    Examples
    --------
    >>> from naim3l import NAIM3L, datasets
    >>> from naim3l.explain import label_relations
    >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> model = NAIM3L().fit(data.views, data.labels)
    >>> label_relations(model, data.views).round(2)
    array([[ 1.  , -0.24,  0.41],
           [-0.24,  1.  ,  0.1 ],
           [ 0.41,  0.1 ,  1.  ]])
    """
    model_views.check_explained(model)
    parts = list(_score_covariances(model, X).values())
    counted = all(n is not None for _, n in parts)  # otherwise all views have equal weight
    total = np.sum([cov * (n if counted else 1) for cov, n in parts], axis=0)
    norms = np.sqrt(np.diag(total))
    norms[norms == 0] = 1
    cosines = total / norms / norms[:, None]
    cosines = np.clip((cosines + cosines.T) / 2, -1, 1)
    np.fill_diagonal(cosines, 1)
    return cosines


def related_labels(
    model: LinearViewModel, label: str, n: int = 5, X: Any = None
) -> list[tuple[str, float]]:
    """The labels with the largest absolute `label_relations` to a label.

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, PerViewRidge or PerViewLogistic
        Fitted model.
    label : str
        Name of the label.
    n : int, default=5
        Maximum number of labels to return.
    X : tables in the form of the fit, optional
        As for `label_relations`.

    Returns
    -------
    list of (str, float)
        Labels and cosines, strongest first. Negative cosines mean that the labels exclude each
        other.

    Examples
    --------
    >>> from naim3l import NAIM3L, datasets
    >>> from naim3l.explain import related_labels
    >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> model = NAIM3L().fit(data.views, data.labels)
    >>> for label, cosine in related_labels(model, "label0", X=data.views):
    ...     print(label, round(cosine, 2))
    label2 0.41
    label1 -0.24
    """
    model_views.check_label(model, label, n)
    k = model.label_names_.index(label)
    cosines = label_relations(model, X)[k]
    order = [i for i in np.argsort(-np.abs(cosines), kind="stable") if i != k][:n]
    return [(model.label_names_[i], float(cosines[i])) for i in order]


@one_blas_thread  # many small matrices: threads would only wait for each other
def score_spectrum(model: LinearViewModel, X: Any, y: Any) -> dict[str, Any]:
    """Singular values of the scores of all rows, and of the rows that share a label.

    The model assumes that the scores of all rows have high rank, and the scores of rows that share
    a label low rank. Rows of all views are stacked, as in the fit.

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, PerViewRidge or PerViewLogistic
        Fitted model.
    X : tables in the form of the fit
        Rows to score.
    y : label tables in the form of the fit
        Labels of the rows of ``X``.

    Returns
    -------
    dict
        For all rows "n_rows", "singular_values" (descending), "rank", "trace_norm" and
        "dimensions", the number of singular values with 99 % of the sum of squares. "parts" has the
        same, and "label", for the rows where each label is known positive, if there are some; and
        "mean" and "median" are taken over the parts.

    Examples
    --------
    >>> from naim3l import NAIM3L, datasets
    >>> from naim3l.explain import score_spectrum
    >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> model = NAIM3L().fit(data.views, data.labels)
    >>> spectrum = score_spectrum(model, data.views, data.labels)
    >>> spectrum["n_rows"], spectrum["rank"]
    (120, 3)
    >>> [(part["label"], part["dimensions"]) for part in spectrum["parts"]]
    [('label0', 3), ('label1', 3), ('label2', 3)]
    """
    model_views.check_explained(model)
    truth, scores, observed = model_views.read_truth(model, X, y), [], []
    for view, of_view in model.view_scores(X).items():
        present = ~np.isnan(of_view).any(axis=1)
        scores.append(of_view[present])
        observed.append(truth[model.names_.table_of(view)][present] == 1)
    S, positive = np.concatenate(scores), np.concatenate(observed)
    parts = [
        {"label": model.label_names_[k], **_spectrum(S[rows])[0]}
        for k, rows in enumerate(positive.T)
        if rows.any()
    ]
    names = ("n_rows", "rank", "trace_norm", "dimensions")
    over = {
        word: {name: float(take([part[name] for part in parts])) for name in names if parts}
        for word, take in (("mean", np.mean), ("median", np.median))
    }
    whole, values = _spectrum(S)
    return {"singular_values": values.tolist(), **whole, "parts": parts, **over}


def _spectrum(S: Matrix) -> tuple[dict[str, Any], NDArray[np.floating]]:
    """Summary of the singular values, with the rank as in ``matrix_rank``, and the values."""
    values = np.linalg.svd(S, compute_uv=False)
    held = np.cumsum(values**2)
    rounding = values[0] * max(S.shape) * np.finfo(values.dtype).eps
    summary = {
        "n_rows": len(S),
        "rank": int((values > rounding).sum()),
        "trace_norm": float(values.sum()),
        "dimensions": int(np.searchsorted(held, MOST_OF_IT * held[-1]) + 1) if held[-1] else 0,
    }
    return summary, values


def _slopes_added(model: LinearViewModel) -> Mapping[str, Matrix]:
    """Factor of each view's scores in the fused log-odds, (n_labels,); empty for the mean."""
    evidence = model.decisions_.evidence
    if evidence is None:
        return {}
    pairs = zip(model.views_, evidence.calibrations, strict=True)
    return {view: curve.slope / curve.spread for view, curve in pairs}


def _score_covariances(model: LinearViewModel, X: Any) -> Mapping[str, tuple[Matrix, Any]]:
    """Covariance of the labels' scores, (n_labels, n_labels), and number of rows, by view."""
    if X is None:
        return {view: _covariance_without_rows(model, view) for view in model.views_}
    model_views.check_in_memory(X)
    scores = {view: S[~np.isnan(S).any(axis=1)] for view, S in model.view_scores(X).items()}
    return {view: (_covariance(S), len(S)) for view, S in scores.items()}


def _covariance_without_rows(model: LinearViewModel, view: str) -> tuple[Matrix, Any]:
    """Covariance of a view's scores from its features, and the number of rows if known."""
    if view not in model_views.linear_views(model):
        features = model_views.landmark_features(model.kernel_maps_[view])
        return _covariance(features @ model.coef_[view]), None
    W, recipe = model_views.linear_weights(model, view), model.features_[view].recipe
    if recipe is None:
        return W.T @ W, None
    return (W.T * (recipe.variances / recipe.variances.sum())) @ W, recipe.n_rows


def _covariance(S: Matrix) -> Matrix:
    S = S - S.mean(axis=0) if len(S) else S
    return S.T @ S / max(len(S), 1)
