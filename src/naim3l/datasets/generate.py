"""Generated tables that cannot be joined, with known weights."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch, check_random_state

from naim3l._arrays import Matrix


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
    as 1 / (k + 1). Each ``b_k`` lies between two scores such that label k has the corresponding
    number of positives over the rows of all views, and at least one.

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
        If True, all views describe the same objects: row i, its labels and its unknown entries
        are the same in each view.
    random_state : int, RandomState or None, default=None
        Factors, noise and unknown entries use separate random streams: the same seed with other
        `noise` or `missing_labels` gives the same objects.

    Returns
    -------
    Bunch
        Dicts by view. ``views``: X, (n_samples, n_features of the view). ``labels``: (n_samples,
        n_labels), int, or float with NaN where unknown if `missing_labels` > 0.
        ``complete_labels``: the same, int, with all entries known. ``scores``: (n_samples,
        n_labels), the true scores. ``coef``: (n_features of the view, n_labels). ``intercept``:
        (n_labels,).

    Examples
    --------
    >>> import numpy as np
    >>> from naim3l.datasets import make_unpaired
    >>> data = make_unpaired((100, 50), n_features=(9, 8), n_labels=3, random_state=0)
    >>> {view: (data.views[view].shape, data.labels[view].shape) for view in data.views}
    {'view0': ((100, 9), (100, 3)), 'view1': ((50, 8), (50, 3))}
    >>> scores = data.views["view0"] @ data.coef["view0"] + data.intercept["view0"]
    >>> np.array_equal(scores > 0, data.labels["view0"])
    True
    """
    sizes = _check_sizes(n_samples, n_features, aligned)
    _check_numbers(n_labels, n_latent, n_features, labels_per_row, noise, missing_labels)
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
    known = hide_rng.random_sample(scores.shape) >= missing_labels if missing_labels else None
    ends = np.cumsum(sets)[:-1]

    def per_view(table: Any) -> dict[str, Any]:
        if aligned:
            return {name: table.copy() for name in names}
        return dict(zip(names, np.split(table, ends), strict=True))

    complete = (scores > 0).astype(np.int64)
    latent, views, coef = per_view(Z), {}, {}
    for name, d in zip(names, n_features, strict=True):
        B, B_inverse = _mixing(weight_rng, n_latent, d)
        views[name] = latent[name] @ B
        if noise:
            views[name] += noise * noise_rng.standard_normal(views[name].shape)
        coef[name] = B_inverse @ C
    return Bunch(
        views=views,
        labels=per_view(_hide(complete, scores, known)),
        complete_labels=per_view(complete),
        scores=per_view(scores),
        coef=coef,
        intercept={name: b.copy() for name in names},
    )


def _mixing(rng: np.random.RandomState, n_latent: int, d: int) -> tuple[Matrix, Matrix]:
    """Map from factors to features, (n_latent, d), and its right inverse, (d, n_latent)."""
    # Orthonormal columns: full rank by construction, and inverted without loss of accuracy.
    Q, _ = np.linalg.qr(rng.standard_normal((d, n_latent)))
    scale = np.sqrt(d / n_latent)
    return scale * Q.T, Q / scale


def _intercepts(scores: Matrix, labels_per_row: float) -> Matrix:
    """Shifts, (n_labels,), that give each column of scores its number of positives."""
    n_rows, n_labels = scores.shape
    counts = np.rint(_frequencies(n_labels, labels_per_row) * n_rows).astype(int)
    counts = np.clip(counts, 1, n_rows - 1)
    b = np.empty(n_labels)
    for k, count in enumerate(counts):
        below, above = n_rows - count - 1, n_rows - count
        ordered = np.partition(scores[:, k], (below, above))
        # Halfway between two rows, so that rounding cannot change a label.
        b[k] = -(ordered[below] + ordered[above]) / 2
    return b


def _frequencies(n_labels: int, labels_per_row: float) -> Matrix:
    """Label frequencies that sum to `labels_per_row`, with odds decreasing as 1, 1/2, 1/3, ..."""
    odds = 1.0 / np.arange(1, n_labels + 1)
    low, high = 0.0, 1.0
    while (high * odds / (1 + high * odds)).sum() < labels_per_row:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        too_few = (middle * odds / (1 + middle * odds)).sum() < labels_per_row
        low, high = (middle, high) if too_few else (low, middle)
    return high * odds / (1 + high * odds)


def _hide(complete: NDArray[np.int64], scores: Matrix, known: NDArray[np.bool_] | None) -> Any:
    """Labels with NaN where not known, except at the highest score of each label."""
    if known is None:
        return complete
    known[scores.argmax(axis=0), np.arange(scores.shape[1])] = True
    return np.where(known, complete, np.nan)


def _check_sizes(
    n_samples: int | Sequence[int], n_features: Sequence[int], aligned: bool
) -> list[int]:
    """Number of rows of each view."""
    if np.ndim(n_features) != 1 or len(n_features) == 0:
        raise ValueError(f"n_features={n_features!r}; a sequence with a size per view is needed.")
    sizes: list[int] = np.atleast_1d(n_samples).tolist()
    if np.ndim(n_samples) == 0:
        sizes = sizes * len(n_features)
    for name, values in (("n_samples", sizes), ("n_features", n_features)):
        if not all(isinstance(value, Integral) and value >= 1 for value in values):
            raise ValueError(f"{name}={values!r}; whole numbers of 1 or more are needed.")
    if len(sizes) != len(n_features) or (aligned and len(set(sizes)) > 1):
        raise ValueError(
            f"n_samples={n_samples!r}; with {len(n_features)} views (n_features) and "
            f"aligned={aligned}, one int or {len(n_features)} ints are needed, equal if aligned."
        )
    if sum(sizes[:1] if aligned else sizes) < 2:
        raise ValueError(f"n_samples={n_samples!r}; at least two rows are needed in all.")
    return sizes


def _check_numbers(
    n_labels: int,
    n_latent: int,
    n_features: Sequence[int],
    labels_per_row: float,
    noise: float,
    missing_labels: float,
) -> None:
    for name, value in (("n_labels", n_labels), ("n_latent", n_latent)):
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name}={value!r}; a whole number of 1 or more is needed.")
    if n_latent > min(n_features):
        raise ValueError(
            f"n_latent={n_latent}; at most the smallest of n_features is needed: {min(n_features)}."
        )
    if not (isinstance(labels_per_row, Real) and 0 < labels_per_row < n_labels):
        raise ValueError(
            f"labels_per_row={labels_per_row!r}; more than 0 and less than n_labels={n_labels} "
            "is needed."
        )
    if not (isinstance(noise, Real) and 0 <= noise < np.inf):
        raise ValueError(f"noise={noise!r}; a finite number of 0 or more is needed.")
    if not (isinstance(missing_labels, Real) and 0 <= missing_labels < 1):
        raise ValueError(f"missing_labels={missing_labels!r}; a number in [0, 1) is needed.")
