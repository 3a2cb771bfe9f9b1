"""Fitted models for tests of reports, each with the tables it was fitted on."""

import json
import warnings
from functools import cache

import numpy as np
import pandas as pd

from naim3l import NAIM3L, NAIM3LCV, Decisions
from naim3l.datasets import make_unpaired
from naim3l.report.page import render_report

LABELS = ["flu", "asthma", "gout", "measles"]
HOSTILE = "<script>alert('x')</script> & \"q\" $x_$ -- 猫"
LONG = "a_name_that_is_longer_than_a_telephone_is_wide_" * 3


def draw(n_samples=(80, 60), *, labels=LABELS, views=("clinic", "lab"), seed=0, aligned=False):
    """Tables with column names, a constant column and unknown labels; the last label is rare."""
    made = make_unpaired(
        n_samples,
        n_features=(6, 5),
        n_labels=len(labels),
        n_latent=4,
        noise=0.5,
        labels_per_row=1.0,
        missing_labels=0.3,
        aligned=aligned,
        random_state=seed,
    )
    X, Y = {}, {}
    for view, table, known in zip(views, made.views.values(), made.labels.values(), strict=True):
        table[:, 3] = 1
        X[view] = pd.DataFrame(table, columns=[f"{view}.{j}" for j in range(table.shape[1])])
        Y[view] = pd.DataFrame(known, columns=labels)
    return X, Y


def fit_separate(**options):
    """Model of separate tables, with the tables of its fit."""
    X, Y = draw()
    Y["clinic"].loc[Y["clinic"]["measles"] == 1, "measles"] = np.nan
    rare = np.flatnonzero(Y["lab"]["measles"] == 1)
    Y["lab"].loc[rare[2:], "measles"] = 0
    return NAIM3L(ridge=1.0, random_state=0, **options).fit(X, Y), X, Y


def fit_wide(fusion="mean"):
    """Model of one wide table whose second view most rows lack."""
    X, Y = draw(80, aligned=True, labels=["flu", "asthma", "gout", HOSTILE], views=("clinic", LONG))
    wide = pd.concat(X.values(), axis=1)
    wide.iloc[:50, 6:] = np.nan
    views = {"clinic": list(range(6)), LONG: list(range(6, 11))}
    decide = Decisions("sign", fusion=fusion)
    model = NAIM3L(ridge=1.0, views=views, decide=decide, random_state=0)
    return model.fit(wide, Y["clinic"]), wide, Y["clinic"]


def fit_chosen():
    X, Y = draw()
    model = NAIM3LCV((0.1, 1.0, 10.0), (0.0, 1.0), decide="f1", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, Y), X, Y


def page_of(summary):
    """The page of a summary, which is drawn once: that takes a second, and many tests read it."""
    return _rendered(json.dumps(summary))


@cache
def _rendered(summary):
    return render_report(json.loads(summary))
