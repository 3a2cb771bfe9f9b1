"""All methods take the same tables: cells of all kinds, in every library, and sparse matrices."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone

from naim3l import NAIM3L, NAIM3LCV, LabelSubspaceRidge, PerViewLogistic, PerViewRidge
from naim3l.estimators import BlendNAIM3L, FusedRidge
from naim3l_bench import methods

N = 80
WORDS = ["fever", "cough", "knee", "toe", "swollen", "since", "sunday", "travel", "work", "cold"]
SEPARATE = {
    "NAIM3L": NAIM3L(),
    "NAIM3LCV": NAIM3LCV(lams=2, ridges=[1.0], cv=2),
    "PerViewRidge": PerViewRidge(),
    "PerViewLogistic": PerViewLogistic(),
    "LabelSubspaceRidge": LabelSubspaceRidge(),
    "BlendNAIM3L": BlendNAIM3L(),
    "DeepNAIM3L": None,
}
WIDE = SEPARATE | {"FusedRidge": FusedRidge()}
WIDE |= {name: getattr(methods, name)() for name in methods.__all__}


def messy(rng, prefix):
    """A data frame with numbers, categories, dates, free text, truth values, and missing cells."""
    frame = pd.DataFrame({
        "number": rng.normal(size=N),
        "ward": rng.choice(["A", "B", "C"], N),
        "kind": pd.Categorical(rng.choice(["u", "v"], N)),
        "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, N), "D"),
        "text": [" ".join(rng.choice(WORDS, 6)) for _ in range(N)],
        "holes": np.where(rng.random(N) < 0.3, np.nan, rng.normal(size=N)),
        "flag": rng.random(N) < 0.5,
    })  # fmt: skip
    frame.loc[3, "ward"], frame.loc[5, "text"] = None, None
    return frame.add_prefix(prefix)


def make_tables(form):
    """Two tables of the same samples, and their labels."""
    rng = np.random.default_rng(0)
    tables = {view: messy(rng, f"{view}_") for view in ("clinic", "lab")}
    signal = np.column_stack([table.iloc[:, 0] for table in tables.values()])
    yes = signal + 0.5 * rng.normal(size=(N, 2)) > 0
    labels = pd.DataFrame(yes, columns=["flu", "gout"]).astype(float)
    labels = labels.mask(rng.random(labels.shape) < 0.2)
    if form == "polars":
        return {view: pl.from_pandas(of) for view, of in tables.items()}, pl.from_pandas(labels)
    if form == "sparse":
        tables = {
            view: sparse.random_array((N, 9), density=0.3, rng=rng, format="csr") for view in tables
        }
        return tables, labels.to_numpy()
    return tables, labels


def joined(tables, form):
    """One wide table, and the columns of each view."""
    views = {view: [*of.columns] for view, of in tables.items()} if form != "sparse" else {}
    if form == "sparse":
        views = {"clinic": slice(0, 9), "lab": slice(9, 18)}
        return sparse.hstack(list(tables.values()), format="csr"), views
    if form == "polars":
        return pl.concat(list(tables.values()), how="horizontal"), views
    return pd.concat(list(tables.values()), axis=1), views


def made(name, model, **parameters):
    if name == "DeepNAIM3L":
        pytest.importorskip("torch")
        from naim3l import deep

        model = deep.DeepNAIM3L(training=deep.Training(max_epochs=2), device="cpu")
    return clone(model).set_params(random_state=0, **parameters)


def named(models):
    return [pytest.param(of, marks=[pytest.mark.torch] * (of == "DeepNAIM3L")) for of in models]


forms = pytest.mark.parametrize("form", ["pandas", "polars", "sparse"])


@forms
@pytest.mark.parametrize("name", named(SEPARATE))
def test_separate_tables(name, form):
    tables, labels = make_tables(form)
    model = made(name, SEPARATE[name]).fit(tables, dict.fromkeys(tables, labels))
    for scores in model.decision_function(tables).values():
        assert scores.shape == (N, 2) and np.isfinite(scores).all()


@forms
@pytest.mark.parametrize("name", named(WIDE))
def test_one_wide_table(name, form):
    tables, labels = make_tables(form)
    table, views = joined(tables, form)
    scores = made(name, WIDE[name], views=views).fit(table, labels).decision_function(table)
    assert scores.shape == (N, 2) and np.isfinite(scores).all()
