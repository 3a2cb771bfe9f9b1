"""Shares of the views in what scores say."""

from typing import Any

import numpy as np

from naim3l._arrays import Matrix
from naim3l.estimators.linear import LinearViewModel
from naim3l.explain import model_views


def view_shares(model: LinearViewModel, X: Any) -> dict[str, Matrix]:
    """Share of each view in the variance of the scores, per label.

    This is the variance of the label's scores over the rows of a view, divided by the sum over all
    views. Where the views of a wide table are fused by evidence, it is the variance of the log-odds
    that the view contributes.

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, PerViewRidge or PerViewLogistic
        Fitted model.
    X : tables in the form of the fit
        Rows over which the variance is computed.

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
    >>> {view: share.round(2).tolist() for view, share in view_shares(model, data.views).items()}
    {'view0': [0.67, 0.52, 0.54], 'view1': [0.33, 0.48, 0.46]}
    """
    model_views.check_explained(model)
    model_views.check_in_memory(X)
    evidence, variances = model.decisions_.evidence, {}
    for view, S in model.view_scores(X).items():
        present = S[~np.isnan(S).any(axis=1)]
        differ = (present != present[:1]).any(axis=0)  # the mean of equal scores is rounded
        variances[view] = (
            np.where(differ, present.var(axis=0), 0.0) if len(present) else 0.0 * differ
        )
        if evidence is not None:
            curve = evidence.calibrations[model.views_.index(view)]
            variances[view] = variances[view] * (curve.slope / curve.spread) ** 2
    total = np.sum(list(variances.values()), axis=0)
    divisor = np.where(total > 0, total, np.nan)
    return {view: variance / divisor for view, variance in variances.items()}
