"""The yeast data: two views of 2417 genes, shipped with the package."""

import gzip
from importlib.resources import files

import numpy as np
from sklearn.utils import Bunch

# The header names columns, not views: the profile starts after the 79 expression levels.
_VIEWS = {"expression": slice(0, 79), "phylogenetic": slice(79, 103)}
_LABELS = slice(103, 117)


def load_yeast(*, as_frame: bool = False) -> Bunch:
    """Load the yeast data, two aligned views of 2417 genes with 14 labels.

    Parameters
    ----------
    as_frame : bool, default=False
        If True, views and labels are pandas data frames with named columns.

    Returns
    -------
    Bunch
        ``views``: dict of float arrays, "expression" of shape (2417, 79) and "phylogenetic" of
        shape (2417, 24). ``labels``: int array of shape (2417, 14) of 0 and 1. ``label_names``:
        list of 14 names. ``feature_names``: dict of lists, one per view. ``DESCR``: description
        and origin of the data.

    Examples
    --------
    >>> from naim3l.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> {view: X.shape for view, X in yeast.views.items()}, yeast.labels.shape
    ({'expression': (2417, 79), 'phylogenetic': (2417, 24)}, (2417, 14))
    """
    folder = files("naim3l.datasets").joinpath("data")
    with folder.joinpath("yeast.csv.gz").open("rb") as file, gzip.open(file, "rt") as lines:
        names = lines.readline().strip().split(",")
        table = np.loadtxt(lines, delimiter=",", dtype=np.float64)
    feature_names = {view: names[columns] for view, columns in _VIEWS.items()}
    # Copies, so that a view does not keep the whole table alive.
    views = {view: table[:, columns].copy() for view, columns in _VIEWS.items()}
    data = Bunch(views=views, labels=table[:, _LABELS].astype(np.int64))
    data.update(label_names=names[_LABELS], feature_names=feature_names)
    data.DESCR = folder.joinpath("README.md").read_text("utf-8")
    if as_frame:
        import pandas as pd

        data.views = {v: pd.DataFrame(X, columns=feature_names[v]) for v, X in views.items()}
        data.labels = pd.DataFrame(data.labels, columns=data.label_names)
    return data
