"""yeast_funcat: laboratories' tables about genes, without a key, and one tree of functions.

Rows of different tables are about the same genes, but nothing says which, so that this is a study
of tables that really cannot be joined. Training and test rows are those of the published split.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l_bench.studies import Matrix, Tables

NAME = "yeast_funcat"
# Of this table it is not known which of its genes are among the test rows of others.
LEFT_OUT = "eisen"
UNCLASSIFIED = "99"  # a label of genes that have no other
LEVEL, LEAST_YES = 2, 800  # of the frequent labels: depth in the tree, and positives in all tables
TEST_SPLIT = 2
# Of the training rows, in draws without hidden labels, which would else all be the same.
SHARE = 0.8


@dataclass(frozen=True)
class FunCat:
    """The tables, and all labels of their rows.

    Attributes
    ----------
    views : dict of str to ndarray of shape (n_rows_v, n_columns_v)
        NaN where a cell is empty.
    labels : dict of str to bool ndarray of shape (n_rows_v, n_labels)
    test : dict of str to bool ndarray of shape (n_rows_v,)
        Test rows of the published split.
    names : list of str
        Path of each label in the tree, such as "11/02/03".
    """

    views: dict[str, Matrix]
    labels: dict[str, NDArray[np.bool_]]
    test: dict[str, NDArray[np.bool_]]
    names: list[str]

    def classified(self, view: str) -> NDArray[np.intp]:
        """Numbers of the rows of a table that have a label."""
        return np.flatnonzero(self.labels[view][:, self.all_functions].any(axis=1))

    def test_rows(self, view: str) -> NDArray[np.intp]:
        """Numbers of those of them that are test rows."""
        rows = self.classified(view)
        return rows[self.test[view][rows]]

    @property
    def all_functions(self) -> NDArray[np.bool_]:
        """Mask (n_labels,) of all but the unclassified."""
        return np.array([name != UNCLASSIFIED for name in self.names])

    @property
    def frequent(self) -> NDArray[np.bool_]:
        """Mask (n_labels,) of those of the second level with enough positives."""
        counts = np.sum([Y.sum(axis=0) for Y in self.labels.values()], axis=0)
        of_level = np.array([name.count("/") == LEVEL - 1 for name in self.names])
        return np.asarray(of_level & (counts >= LEAST_YES))


def read_funcat(folder: str | Path) -> FunCat:
    """All tables but the one that is left out, from the file in a folder."""
    with np.load(Path(folder) / f"{NAME}.npz", allow_pickle=False) as data:
        views = [of.removeprefix("view_") for of in data.files if of.startswith("view_")]
        views.remove(LEFT_OUT)
        return FunCat(
            {view: data[f"view_{view}"].astype(float) for view in views},
            {view: data[f"labels_{view}"] > 0 for view in views},
            {view: data[f"split_{view}"] == TEST_SPLIT for view in views},
            [str(name) for name in data["label_names"]],
        )


def draw(genes: FunCat, used: NDArray[np.bool_], hidden: float, seed: int) -> Tables:
    """Tables of a draw: classified genes, the labels that are used, and a share of them unknown.

    Each entry is hidden by itself, of each table by itself. If none is, a random share of the
    training rows is left out instead. The test rows, and their labels, are all there.
    """
    rng = np.random.default_rng((seed, round(100 * hidden)))
    found = Tables({}, {}, {}, {})
    for view, table in genes.views.items():
        labels, test = genes.labels[view][:, used].astype(float), genes.test_rows(view)
        training = np.setdiff1d(genes.classified(view), test)
        if not hidden:
            training = np.sort(rng.permutation(training)[: round(SHARE * len(training))])
        unknown = rng.random((len(training), labels.shape[1])) < hidden
        found.X[view], found.Y[view] = table[training], np.where(unknown, np.nan, labels[training])
        found.X_test[view], found.Y_test[view] = table[test], labels[test]
    return found


def resample_genes(genes: FunCat, n_draws: int, seed: int = 0) -> dict[str, NDArray[np.intp]]:
    """How often each test row of a table is in each of some resamples of the test genes.

    Genes that have the same labels, of all levels, are drawn together, as nothing tells them apart.

    Returns
    -------
    dict of str to ndarray of shape (n_draws, n_rows_v)
    """
    rows = {view: genes.test_rows(view) for view in genes.views}
    labels = np.concatenate([genes.labels[view][of] for view, of in rows.items()])
    gene = np.unique(np.packbits(labels, axis=1), axis=0, return_inverse=True)[1].ravel()
    n_genes = gene.max() + 1
    drawn = np.random.default_rng(seed).multinomial(n_genes, np.full(n_genes, 1 / n_genes), n_draws)
    of_tables = np.split(gene, np.cumsum([len(of) for of in rows.values()])[:-1])
    return {view: drawn[:, of] for view, of in zip(rows, of_tables, strict=True)}


def weighted_macro_auc(truth: Matrix, P: Matrix, weights: NDArray[Any]) -> Matrix:
    """Macro-AUC in percent of rows that count with weights, (n_draws,).

    Parameters
    ----------
    truth, P : ndarray of shape (n_rows, n_labels)
    weights : ndarray of shape (n_draws, n_rows)
    """
    of_rows = np.ascontiguousarray(weights.T, dtype=float)
    found = [_weighted_auc(y > 0, p, of_rows) for y, p in zip(truth.T, P.T, strict=True)]
    return 100 * np.nanmean(found, axis=0)


def _weighted_auc(yes: NDArray[np.bool_], p: Matrix, weights: Matrix) -> Matrix:
    """AUC (n_draws,) by weights (n_rows, n_draws); NaN without both values."""
    order = np.argsort(p)
    p, yes, weights = p[order], yes[order], weights[order]
    # Weight of the negatives among the first i rows, for all i.
    below = np.zeros((len(p) + 1, weights.shape[1]))
    np.cumsum(np.where(yes[:, None], 0, weights), axis=0, out=below[1:])
    first, last = (np.searchsorted(p, p[yes], side) for side in ("left", "right"))
    won = (weights[yes] * (below[first] + below[last]) / 2).sum(axis=0)  # ties are half won
    pairs = weights[yes].sum(axis=0) * below[-1]
    return np.divide(won, pairs, out=np.full(len(won), np.nan), where=pairs > 0)


def raise_parents(P: Matrix, names: Sequence[str]) -> Matrix:
    """Probabilities (n_rows, n_labels) in which no parent is less probable than its child.

    Each is the largest of the label and of all below it in the tree.
    """
    raised, place = P.copy(), {name: k for k, name in enumerate(names)}
    for name in sorted(names, key=lambda name: -name.count("/")):  # children before parents
        parent = place.get(name.rpartition("/")[0])
        if parent is not None:
            raised[:, parent] = np.maximum(raised[:, parent], raised[:, place[name]])
    return raised
