"""Tables of several sites, for tests of what they learn together."""

import numpy as np
import pandas as pd

from naim3l.datasets import make_unpaired

LABELS = [f"dx{k}" for k in range(5)]


def make_sites(n_sites, layout):
    """Tables and label tables by site, with missing labels, and a label that the last lacks.

    "tables apart": each has other columns; "several tables": the first has two; "rows of one
    table": the same columns everywhere.
    """
    n_tables = n_sites + (layout == "several tables")
    data = make_unpaired(
        [90 + 10 * v for v in range(n_tables)],
        n_features=[8 + v for v in range(n_tables)],
        n_labels=5,
        missing_labels=0.3,
        noise=1,
        random_state=0,
    )
    tables = list(zip(data.views.values(), data.labels.values(), strict=True))
    if layout == "rows of one table":
        X, Y = tables[-1]
        parts = np.array_split(np.arange(len(X)), n_sites)
        tables = [(X[rows], Y[rows]) for rows in parts]
    frames = [(pd.DataFrame(X).add_prefix("x"), pd.DataFrame(Y, columns=LABELS)) for X, Y in tables]
    X, Y = frames[-1]
    frames[-1] = X, Y.drop(columns="dx3")
    sites = {f"site{i}": {f"table{i}": frame} for i, frame in enumerate(frames[:n_sites])}
    if layout == "several tables":
        sites["site0"]["more"] = frames[n_sites]
    return {
        site: tuple({view: frame[i] for view, frame in of.items()} for i in range(2))
        for site, of in sites.items()
    }
