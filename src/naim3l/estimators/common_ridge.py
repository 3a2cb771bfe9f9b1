"""Ridge regression of few features, in which labels have weights like each other.

Many labels depend on a column such as age alike: most diseases are more frequent in old people. The
weights of each label are drawn towards common ones, which are learned from the known entries of all
labels, so that a few entries of each are enough. Where labels disagree, the common weights are
small, and the method is ridge regression.
"""

from collections.abc import Sequence

import numpy as np

from naim3l._arrays import Matrix
from naim3l.problem.sufficient_statistics import ViewStatistics


def common_ridges(
    sums: ViewStatistics, spread: Matrix, sizes: Matrix, pairs: Sequence[tuple[float, float]]
) -> list[Matrix]:
    """Weights (n_features + 1, n_labels) for pairs of ``ridge`` and ``hold``; intercepts are last.

    Over all ``w_k`` and ``m`` they minimise ``sum_k |X_k w_k - y_k|^2 + ridge |w_k - m|^2``, summed
    over labels, and ``hold |m|^2``. There, labels are divided by their ``spread`` (n_labels,), and
    features are multiplied by their ``sizes`` (n_features,): a size of 0 leaves one out. Rows and
    labels are those around their means, of the rows in which a label is known.
    """
    total = np.maximum(sums.known_grams[:, -1, -1], 1.0)
    x_mean = sums.known_grams[:, -1, :-1] / total[:, None]
    y_mean = sums.targets[-1] / total
    grams = sums.known_grams[:, :-1, :-1] - np.einsum("k,ki,kj->kij", total, x_mean, x_mean)
    right = (sums.targets[:-1].T - x_mean * sums.targets[-1][:, None]) * sizes / spread[:, None]
    squares, Q = np.linalg.eigh(grams * sizes * sizes[:, None])
    squares, along = np.maximum(squares, 0.0), np.einsum("kij,ki->kj", Q, right)
    found = []
    for ridge, hold in pairs:
        # The share of each direction of a label's features that its entries leave open.
        left = ridge / (squares + ridge)
        whole = np.einsum("kij,kj,klj->il", Q, left * squares, Q) + hold * np.eye(len(sizes))
        common = np.linalg.solve(whole, np.einsum("kij,kj->i", Q, left * along))
        solved = (along + ridge * np.einsum("kij,i->kj", Q, common)) / (squares + ridge)
        coef = sizes * np.einsum("kij,kj->ki", Q, solved) * spread[:, None]
        found.append(np.vstack([coef.T, y_mean - (x_mean * coef).sum(axis=1)]))
    return found
