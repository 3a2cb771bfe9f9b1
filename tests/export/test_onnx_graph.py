"""Graphs give the answers of the model in onnxruntime, whatever the names."""

import json

import numpy as np
import pandas as pd
import pytest

from naim3l import NAIM3L, Decisions, Kernel, Recipe
from naim3l.export import to_onnx

pytestmark = [pytest.mark.places, pytest.mark.filterwarnings("ignore::naim3l.DataWarning")]


def make_table(rng, n, *, strange=False):
    z = rng.normal(size=n)
    words = ["a'b", "scores", "tensor 1", "", "NA", None, "new" if strange else "scores"]
    X = pd.DataFrame(
        {
            "scores": (z + rng.normal(size=n)).round(3),
            "tensor 1": np.exp(rng.normal(0, 3, n)),
            "ward": rng.choice(words, n),
            "when": pd.Timestamp("1969-06-01") + pd.to_timedelta(rng.integers(0, 10**8, n), "s"),
            "truth": pd.array(rng.random(n) < 0.3, dtype="boolean"),
        }
    )
    for column in ("scores", "when", "truth", "tensor 1"):
        X.loc[rng.random(n) < 0.15, column] = None
    if strange:
        X.loc[0, ["scores", "tensor 1"]] = 90.0, -3.0
        X.iloc[1] = [np.nan, np.nan, "?", pd.NaT, pd.NA]
    y = pd.DataFrame({"flu": z > 0, "gout's": rng.random(n) < 0.3, "rare": z > 1}).astype(float)
    return X, y


def run(graph, X):
    """Outputs by name, for the columns of a data frame."""
    import onnxruntime

    session, given = onnxruntime.InferenceSession(graph.SerializeToString()), {}
    for each in session.get_inputs():
        column = X[each.name]
        if column.dtype.kind == "M":
            column = (column - pd.Timestamp(0)) / pd.Timedelta(days=1)
        if each.type == "tensor(string)":
            given[each.name] = column.fillna("").to_numpy(object)[:, None]
        else:
            given[each.name] = column.to_numpy(float, na_value=np.nan)[:, None]
    return dict(
        zip([of.name for of in session.get_outputs()], session.run(None, given), strict=True)
    )


def check(graph, model, X, view=None):
    found, given = run(graph, X), X if view is None else {view: X}
    results = [
        method(given) for method in (model.decision_function, model.predict_proba, model.predict)
    ]
    scores, P, D = results if view is None else (of[view] for of in results)
    np.testing.assert_allclose(found["scores_"], scores, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found["probabilities"], P, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(found["decisions"], np.nan_to_num(D, nan=-1))
    assert json.loads(graph.metadata_props[0].value) == model.label_names_


def test_graph_gives_the_answers_of_separate_tables(rng):
    (lab, labels), (clinic, other) = make_table(rng, 300), make_table(rng, 250)
    other["rare"] = np.nan
    X = {"lab": lab, "clinic": clinic[["scores", "when", "ward"]]}
    model = NAIM3L(decide="guarded", random_state=0).fit(X, {"lab": labels, "clinic": other})
    assert model.shared_ is not None and "clinic" in model.decisions_.borrowing
    new = make_table(rng, 60, strange=True)[0]
    for view, of in X.items():
        check(to_onnx(model, view), model, new[[*of.columns]], view)


@pytest.mark.parametrize("fusion", ["evidence", "mean"])
def test_graph_fuses_the_views_of_a_wide_table(rng, fusion):
    X, y = make_table(rng, 200)
    views = {"one": ["scores", "tensor 1", "ward"], "two": ["when", "truth"]}
    model = NAIM3L(views=views, decide=Decisions("f1", fusion=fusion), random_state=0).fit(X, y)
    new = make_table(rng, 50, strange=True)[0]
    new.loc[2:5, views["one"]] = None
    check(to_onnx(model), model, new)


def test_dates_are_days_and_what_onnx_lacks_is_refused_by_name(rng):
    n = 60
    X = pd.DataFrame(
        {"number": rng.normal(size=n), "day": [f"{i % 28 + 1}/3/2024" for i in range(n)]}
    )
    y = pd.DataFrame({"a": rng.random(n) < 0.5, "b": rng.random(n) < 0.5}).astype(float)
    model = NAIM3L().fit({"lab": X}, {"lab": y})
    days = pd.to_datetime(X["day"], dayfirst=True)
    found = run(to_onnx(model), X.assign(day=days))
    expected = model.decision_function({"lab": X})["lab"]
    np.testing.assert_allclose(found["scores"], expected, rtol=0, atol=1e-9)
    X = X.assign(day=[f"{i} min" for i in range(n)])
    with pytest.raises(
        ValueError, match=r"view 'lab' .* ONNX: column 'day' has numbers with units"
    ):
        to_onnx(NAIM3L().fit({"lab": X}, {"lab": y}))
    features = Kernel("rbf", n_landmarks=5, recipe=Recipe())
    with pytest.raises(ValueError, match=r"view 'lab' .* ONNX: it has kernel 'rbf'"):
        to_onnx(NAIM3L(features=features).fit({"lab": X}, {"lab": y}))
