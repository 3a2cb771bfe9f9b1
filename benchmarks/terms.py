"""Counts of terms in short texts: views with far more columns than rows."""

import numpy as np
from scipy import sparse


def make_terms(
    n_rows: int = 220,
    n_terms: int = 10_000,
    n_views: int = 3,
    n_labels: int = 6,
    *,
    terms_per_row: float = 80.0,
    missing_labels: float = 0.3,
    seed: int = 0,
):
    """Counts of terms of Zipf-like frequency, and labels that make some terms more frequent.

    Term j of the vocabulary has a probability proportional to ``1 / (j + 3)``. Each label has
    terms of its own, other ones in each view; a row draws half of its terms from those of its
    labels. Rows of different views are different texts.

    Parameters
    ----------
    n_rows : int
        Rows of each view.
    n_terms : int
        Columns of each view.
    n_views, n_labels : int
    terms_per_row : float
        Mean number of words of a row, of which some occur several times.
    missing_labels : float
        Share of label entries that are unknown.
    seed : int

    Returns
    -------
    views : dict of str to sparse array of shape (n_rows, n_terms)
        Counts, in CSR format.
    labels : dict of str to ndarray of shape (n_rows, n_labels)
        1 = yes, 0 = no, NaN = unknown. Each row has at least one yes, known or not.

    Examples
    --------
    >>> views, labels = make_terms(50, 1000, n_views=2)
    >>> views["view0"].shape, labels["view1"].shape
    ((50, 1000), (50, 6))
    """
    rng = np.random.default_rng(seed)
    common = 1 / (np.arange(n_terms) + 3.0)
    views, labels = {}, {}
    for v in range(n_views):
        Y = (rng.random((n_rows, n_labels)) < 0.25).astype(float)
        Y[np.arange(n_rows), rng.integers(n_labels, size=n_rows)] = 1
        of_label = common * (rng.random((n_labels, n_terms)) < 0.05)
        shares = Y @ (of_label / of_label.sum(axis=1, keepdims=True)) / Y.sum(axis=1, keepdims=True)
        shares = (shares + common / common.sum()) / 2
        lengths = rng.poisson(terms_per_row, n_rows) + 1
        counts = [rng.multinomial(length, p) for length, p in zip(lengths, shares, strict=True)]
        views[f"view{v}"] = sparse.csr_array(np.array(counts, dtype=float))
        Y[rng.random(Y.shape) < missing_labels] = np.nan
        labels[f"view{v}"] = Y
    return views, labels
