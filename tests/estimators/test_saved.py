"""Every estimator comes back from its file as it was, and from pickle."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

import naim3l
from naim3l import NAIM3L, NAIM3LCV, Decisions, Kernel, PerViewLogistic, PerViewRidge, Recipe
from naim3l.datasets import make_unpaired
from naim3l.estimators import BlendNAIM3L, FusedRidge, PerViewBoosting

SEARCH = {"lams": [0.1, 1.0], "ridges": [1.0], "cv": 2, "random_state": 0}
PER_VIEW = {"a": Recipe(n_components=2), "b": Kernel("rbf", n_landmarks=5)}
MODELS = {
    "NAIM3L": NAIM3L(),
    "NAIM3L of the paper": NAIM3L(
        solver="paper", features="paper", max_iter=9, tol=0, random_state=0
    ),
    "NAIM3L per view": NAIM3L(features=PER_VIEW, decide={"sick": 0.2}),
    "NAIM3L as given": NAIM3L(np.float32(0.3), features={"a": None, "b": "scale"}, decide=-0.1),
    "NAIM3L by evidence": NAIM3L(decide=Decisions("f1", fusion="evidence"), random_state=0),
    "NAIM3LCV": NAIM3LCV(**SEARCH),
    "PerViewRidge": PerViewRidge(2.0, decide="half", random_state=0),
    "PerViewLogistic": PerViewLogistic(features="rbf", decide="guarded", random_state=0),
    "PerViewBoosting": PerViewBoosting(5, decide="half", random_state=0),
    "FusedRidge": FusedRidge(decide="f1", random_state=0),
    "BlendNAIM3L": BlendNAIM3L(
        [("m", NAIM3L(features=PER_VIEW)), ("r", PerViewRidge())], random_state=0
    ),
}
VIEWS = {"a": ["x0", "x1", "ward", "seen"], "b": ["y0", "y1", "y2"]}


@pytest.fixture(scope="module")
def table():
    """A wide table with cells of several kinds, of which rows lack views, and labels in words."""
    rng = np.random.default_rng(0)
    data = make_unpaired(60, n_features=(2, 3), n_labels=2, n_latent=2, labels_per_row=1,
                         aligned=True, noise=0.3, random_state=0)  # fmt: skip
    X = pd.DataFrame(np.hstack(list(data.views.values())), columns=["x0", "x1", "y0", "y1", "y2"])
    X["ward"] = rng.choice(["north", "south"], 60)
    X["seen"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, 60), "D")
    X.loc[4:9, VIEWS["b"]] = None
    X.loc[3, "x1"] = None
    words = np.where(data.labels["view0"] == 1, "yes", "no")
    return X, pd.DataFrame(words, columns=["sick", "smoker"])


def numbers_only(model):
    """Whether a model takes no words or dates."""
    return model.get_params().get("features") in ("paper", MODELS["NAIM3L as given"].features)


def fit(model, table):
    (X, Y), views = table, VIEWS
    if numbers_only(model):
        X = X.drop(columns=["ward", "seen"]).drop(index=3)
        Y, views = Y.drop(index=3), {"a": slice(0, 2), "b": range(2, 5)}
    return copy.deepcopy(model).set_params(views=views).fit(X, Y), X, Y


def results(model, X, Y):
    made = [model.decision_function(X), model.predict(X), model.impute_labels(X, Y)]
    made += model.view_scores(X).values()
    return [*made, model.predict_proba(X)] if model.has_probabilities else made


def attributes(model):
    """Names of public attributes, learned and computed."""
    return {name for name in dir(model) if name.endswith("_") and not name.startswith("_")}


@pytest.mark.parametrize("name", MODELS)
def test_the_same_predictions_attributes_and_next_fit(name, table, tmp_path):
    model, X, Y = fit(MODELS[name], table)
    model.save(tmp_path / "m.naim3l")
    loaded = naim3l.load(tmp_path / "m.naim3l")
    expected = results(model, X, Y)
    for same in (loaded, pickle.loads(pickle.dumps(model))):
        assert type(same) is type(model) and attributes(same) == attributes(model)
        for found, value in zip(results(same, X, Y), expected, strict=True):
            np.testing.assert_array_equal(found, value)
    loaded.save(tmp_path / "again.naim3l")
    assert (tmp_path / "again.naim3l").read_bytes() == (tmp_path / "m.naim3l").read_bytes()
    again = loaded.fit(X, Y)  # with the parameters that were stored
    for found, value in zip(results(again, X, Y), expected, strict=True):
        np.testing.assert_array_equal(found, value)


def test_parts_of_others_need_trust(table, tmp_path):
    X, Y = table
    X = X[["x0", "x1"]].fillna(0.0)
    model = NAIM3L(features=StandardScaler()).fit(X, Y)
    model.save(tmp_path / "m.naim3l")
    about = naim3l.inspect_file(tmp_path / "m.naim3l")
    assert about["class"] == "NAIM3L"
    loaded = naim3l.load(tmp_path / "m.naim3l", trusted=[StandardScaler])
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_what_could_not_be_loaded_again_is_not_saved(table, tmp_path):
    X, Y = table
    X = X[["x0", "x1"]].fillna(0.0)
    model = NAIM3L(features=Kernel(lambda A, B: A @ B.T, recipe=None)).fit(X, Y)
    with pytest.raises(TypeError, match=r"kernel|name"):
        model.save(tmp_path / "m.naim3l")
    assert not list(tmp_path.iterdir())
    with pytest.raises(TypeError, match="features"):
        NAIM3L(features=type("Mine", (StandardScaler,), {})()).fit(X, Y).save(tmp_path / "m")
