"""Model files that are kept, so that later versions are seen to read them.

``python tests/kept_models.py`` writes ``files/models/CLASS-VERSION.naim3l``, and the scores of some
rows to ``scores-VERSION.json`` beside them. A release adds its own, and replaces none of others.
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

from naim3l import NAIM3L, NAIM3LCV, Kernel, LabelSubspaceRidge, load
from naim3l.estimators import (
    BlendNAIM3L,
    FusedRidge,
    PerViewBoosting,
    PerViewLogistic,
    PerViewRidge,
)

FOLDER = Path(__file__).parent / "files" / "models"
ROWS = {
    "lab": [
        {"hb": 13.5, "ward": "A", "seen": "2024-03-01", "smokes": True},
        {"hb": None, "ward": "never seen", "seen": "2019-12-31", "smokes": None},
        {"hb": 9.25, "ward": None, "seen": None, "smokes": False},
    ],
    "scan": [{"x": 0.5, "y": -1.0, "z": 2.0}, {"x": 0.0, "y": 0.0, "z": 0.25}],
}


def tables():
    """A messy view and one of numbers, and their labels."""
    rng = np.random.default_rng(0)
    hb, words = rng.normal(12, 2, 30).round(2), np.array([*"AABBBC"] * 5)
    hb[::7] = np.nan
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 2000, 30), "D")
    lab = {"hb": hb, "ward": words, "seen": days, "smokes": [True, False, None] * 10}
    scan = rng.normal(size=(30, 3)).round(3)
    X = {"lab": pd.DataFrame(lab), "scan": pd.DataFrame(scan, columns=["x", "y", "z"])}
    labels = ["flu", "gout", "cold"]
    y = {view: pd.DataFrame(rng.integers(0, 2, (30, 3)), columns=labels) for view in X}
    return X, y


def fitted():
    """A fitted model of every class; torch is needed."""
    from naim3l.deep import DeepNAIM3L, Network, Training

    few = {"max_iter": 5, "tol": 0, "random_state": 0}
    X, y = tables()
    wide, views = X["lab"].join(X["scan"]), {view: list(table) for view, table in X.items()}
    scan = {"scan": X["scan"]}, {"scan": y["scan"]}
    members = [("few", PerViewRidge(features="scale")), ("two", PerViewRidge(9.0))]
    training = Training(max_epochs=2)
    kernel = {"lab": "auto", "scan": Kernel("rbf", n_landmarks=5)}
    return [
        NAIM3L(decide="f1", features=kernel, **few).fit(X, y),
        NAIM3LCV((0.1, 1.0), (1.0,), cv=2, **few).fit(X, y),
        PerViewRidge(2.0, features=None).fit(*scan),
        PerViewLogistic().fit(X, y),
        PerViewBoosting(5, random_state=0).fit(X, y),
        LabelSubspaceRidge(1.0, 0.3, random_state=0).fit(X, y),
        FusedRidge(views=views).fit(wide, y["lab"]),
        BlendNAIM3L(members, random_state=0).fit(*scan),
        DeepNAIM3L(network=Network(hidden=(4,)), training=training, random_state=0).fit(*scan),
    ]


def scores(model):
    """Scores of the rows, as lists; None is a missing one."""
    rows = {view: pd.DataFrame(ROWS[view]) for view in model.views_}
    if model.names_.wide:
        found = {
            "": model.decision_function(pd.concat([of.head(2) for of in rows.values()], axis=1))
        }
    else:
        found = model.decision_function(rows)
    return {view: np.asarray(of).tolist() for view, of in found.items()}


def write():
    FOLDER.mkdir(exist_ok=True)
    release, found = version("naim3l"), {}
    for model in fitted():
        name = f"{type(model).__name__}-{release}.naim3l"
        model.save(FOLDER / name)
        found[name] = scores(load(FOLDER / name))
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(of)}" for name, of in found.items())
    (FOLDER / f"scores-{release}.json").write_text(f"{{{lines}}}\n", encoding="utf-8")


if __name__ == "__main__":
    write()
