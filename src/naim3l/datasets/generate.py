"""Generated tables that cannot be joined, with known weights."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import Bunch, check_random_state
from sklearn.utils._param_validation import Interval, validate_parameter_constraints

from naim3l._arrays import Matrix

_COUNT = [Interval(Integral, 1, None, closed="left")]
_ALLOWED = {"n_features": ["array-like"], "n_labels": _COUNT, "n_latent": _COUNT} | {
    "labels_per_row": [Interval(Real, 0, None, closed="neither")],
    "noise": [Interval(Real, 0, np.inf, closed="left")],
    "missing_labels": [Interval(Real, 0, 1, closed="left")],
}


def make_unpaired(
    n_samples: int | Sequence[int] = 1000,
    *,
    n_features: Sequence[int] = (20, 30),
    n_labels: int = 10,
    n_latent: int = 8,
    labels_per_row: float = 2.0,
    noise: float = 0.0,
    missing_labels: float = 0.0,
    aligned: bool = False,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    """Generate tables with different objects in their rows, shared labels and known weights.

    Row i of view v has latent factors z, standard normal. Its features are ``z B_v``, of unit
    variance on average, plus noise; label k is positive where its score ``z C_k + b_k`` is. So the
    views share only the meaning of the labels. Without noise, the score is exactly
    ``X_v @ coef[v] + intercept[v]``.

    Labels are ordered by frequency, a few common and many rare: the odds of label k decrease
    as 1 / (k + 1), and each has a positive in some view.

    Parameters
    ----------
    n_samples : int or sequence of int, default=1000
        Number of rows of each view.
    n_features : sequence of int, default=(20, 30)
        Number of columns of each view. There are as many views, "view0", "view1", ...
    n_labels : int, default=10
        Number of labels.
    n_latent : int, default=8
        Number of latent factors, at most the smallest of `n_features`.
    labels_per_row : float, default=2.0
        Mean number of positives per row, over all views; between 0 and `n_labels`.
    noise : float, default=0.0
        Standard deviation of the noise that is added to each feature.
    missing_labels : float in [0, 1), default=0.0
        Probability that a label entry is unknown. The entry with the highest score of each label
        stays known, so that each label has an observed positive in some view.
    aligned : bool, default=False
        If True, row i is the same object, with the same labels, in all views.
    random_state : int, RandomState or None, default=None
        Seed. The same with other `noise` or `missing_labels` gives the same objects.

    Returns
    -------
    Bunch
        Dicts by view. ``views``: X, (n_samples, n_features of the view). ``labels``: (n_samples,
        n_labels), int, or float with NaN where unknown if `missing_labels` > 0, and
        ``complete_labels``, with all entries known. ``scores``, (n_samples, n_labels), ``coef``,
        (n_features of the view, n_labels), and ``intercept``, (n_labels,): the true ones.

    Examples
    --------
    >>> from naim3l.datasets import make_unpaired
    >>> data = make_unpaired((100, 50), n_features=(9, 8), n_labels=3, random_state=0)
    >>> {view: (data.views[view].shape, data.labels[view].shape) for view in data.views}
    {'view0': ((100, 9), (100, 3)), 'view1': ((50, 8), (50, 3))}
    >>> scores = data.views["view0"] @ data.coef["view0"] + data.intercept["view0"]
    >>> bool(((scores > 0) == data.labels["view0"]).all())
    True
    """
    validate_parameter_constraints(_ALLOWED, locals(), "make_unpaired")
    sizes = _check_sizes(n_samples, n_features, aligned)
    if n_latent > min(n_features):
        raise ValueError(f"n_latent={n_latent}; the smallest of n_features={n_features} is less.")
    if labels_per_row >= n_labels:
        raise ValueError(f"labels_per_row={labels_per_row} must be less than n_labels={n_labels}.")
    words = check_random_state(random_state).randint(2**32, size=4, dtype=np.uint32)
    seeds = np.random.SeedSequence(words.tolist()).generate_state(4)
    weight_rng, latent_rng, noise_rng, hide_rng = (np.random.RandomState(seed) for seed in seeds)

    names = [f"view{v}" for v in range(len(sizes))]
    C = weight_rng.standard_normal((n_latent, n_labels))
    C /= np.linalg.norm(C, axis=0)
    # Aligned views share one set of objects; otherwise each view has its own.
    sets = sizes[:1] if aligned else sizes
    Z = latent_rng.standard_normal((sum(sets), n_latent))
    scores = Z @ C
    b = _intercepts(scores, labels_per_row)
    scores += b
    labels: Any = (scores > 0).astype(np.int64)
    complete = labels
    if missing_labels:
        known = hide_rng.random_sample(scores.shape) >= missing_labels
        known[scores.argmax(axis=0), np.arange(n_labels)] = True
        labels = np.where(known, complete, np.nan)

    def per_view(table: Any) -> dict[str, Any]:
        if aligned:
            return {name: table.copy() for name in names}
        return dict(zip(names, np.split(table, np.cumsum(sets)[:-1]), strict=True))

    latent, views, coef = per_view(Z), {}, {}
    for name, d in zip(names, n_features, strict=True):
        # Orthonormal columns: full rank by construction, and inverted without loss of accuracy.
        Q, _ = np.linalg.qr(weight_rng.standard_normal((d, n_latent)))
        scale = np.sqrt(d / n_latent)
        views[name], coef[name] = latent[name] @ (scale * Q.T), (Q / scale) @ C
        if noise:
            views[name] += noise * noise_rng.standard_normal(views[name].shape)
    data = Bunch(views=views, labels=per_view(labels), complete_labels=per_view(complete))
    data.update(scores=per_view(scores), coef=coef, intercept={name: b.copy() for name in names})
    return data


def _intercepts(scores: Matrix, labels_per_row: float) -> Matrix:
    """Shifts, (n_labels,), that give each column of scores its number of positives.

    Frequencies sum to ``labels_per_row``, with odds that decrease as 1, 1/2, 1/3, ...
    """
    n_rows, n_labels = scores.shape
    odds = 1.0 / np.arange(1, n_labels + 1)
    low, high = 0.0, 1.0
    while (high * odds / (1 + high * odds)).sum() < labels_per_row:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        too_few = (middle * odds / (1 + middle * odds)).sum() < labels_per_row
        low, high = (middle, high) if too_few else (low, middle)
    counts = np.rint(high * odds / (1 + high * odds) * n_rows).astype(int)
    b = np.empty(n_labels)
    for k, below in enumerate(n_rows - np.clip(counts, 1, n_rows - 1) - 1):
        ordered = np.partition(scores[:, k], (below, below + 1))
        # Halfway between two rows, so that rounding cannot change a label.
        b[k] = -(ordered[below] + ordered[below + 1]) / 2
    return b


def _check_sizes(
    n_samples: int | Sequence[int], n_features: Sequence[int], aligned: bool
) -> list[int]:
    """Number of rows of each view."""
    sizes: list[int] = np.atleast_1d(n_samples).tolist()
    sizes = sizes * len(n_features) if np.ndim(n_samples) == 0 else sizes
    whole = all(isinstance(size, Integral) and size >= 1 for size in [*sizes, *n_features])
    equal = len(sizes) == len(n_features) and not (aligned and len(set(sizes)) > 1)
    if not (whole and equal and sizes and sum(sizes[:1] if aligned else sizes) >= 2):
        raise ValueError(
            f"n_samples={n_samples!r} and n_features={n_features!r}; a whole number of 1 or more "
            "is needed for each view, two rows in all, and as many in each view if aligned."
        )
    return sizes
