"""The yeast data: two views of 2417 genes, shipped with the package."""

import gzip
from importlib.resources import files
from typing import Any

import numpy as np
from sklearn.utils import Bunch

# The header names columns, not views: the profile starts after the 79 expression levels.
_N_EXPRESSION = 79
_N_FEATURES = 103

_DESCR = """Yeast genes and their functions

2417 genes of baker's yeast, described in two ways:

    expression      79 columns, levels measured on micro-arrays
    phylogenetic    24 columns, similarity to the genes of other organisms

Each gene belongs to some of 14 functional categories (4.24 on average, at least one). Rows are
aligned: row i of both views and of the labels is the same gene.

The table is the one in the Python package river (BSD-3-Clause), which took it from the MULAN
library; the original source is A. Elisseeff and J. Weston, "A kernel method for multi-labelled
classification", NIPS 2001. Licence and checksums are next to the file, in naim3l/datasets/data.
"""


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
    >>> {view: X.shape for view, X in yeast.views.items()}
    {'expression': (2417, 79), 'phylogenetic': (2417, 24)}
    >>> yeast.labels.sum(axis=0)  # genes in each category
    array([ 762, 1038,  983,  862,  722,  597,  428,  480,  178,  253,  289,
           1816, 1799,   34])
    """
    names, table = _read_table()
    columns = {
        "expression": slice(0, _N_EXPRESSION),
        "phylogenetic": slice(_N_EXPRESSION, _N_FEATURES),
    }
    data = Bunch(
        # Copies, so that a view does not keep the whole table alive.
        views={view: table[:, where].copy() for view, where in columns.items()},
        labels=table[:, _N_FEATURES:].astype(np.int64),
        label_names=names[_N_FEATURES:],
        feature_names={view: names[where] for view, where in columns.items()},
        DESCR=_DESCR,
    )
    return _with_frames(data) if as_frame else data


def _read_table() -> tuple[list[str], np.ndarray[Any, np.dtype[np.float64]]]:
    """Column names, and all columns as floats of shape (2417, 117)."""
    path = files("naim3l.datasets").joinpath("data", "yeast.csv.gz")
    with path.open("rb") as compressed, gzip.open(compressed, "rt", encoding="ascii") as lines:
        names = lines.readline().strip().split(",")
        return names, np.loadtxt(lines, delimiter=",", dtype=np.float64)


def _with_frames(data: Bunch) -> Bunch:
    """The same data with pandas frames in place of arrays."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("as_frame=True needs pandas: pip install pandas") from error
    data.views = {
        view: pd.DataFrame(X, columns=data.feature_names[view]) for view, X in data.views.items()
    }
    data.labels = pd.DataFrame(data.labels, columns=data.label_names)
    return data
