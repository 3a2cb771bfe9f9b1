"""Columns that tables share: one model of all rows, whose scores every table adds to its own."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.base import clone

from naim3l import NAIM3L, NAIM3LCV, Kernel, LabelSubspaceRidge, Recipe, evaluate, load
from naim3l.decisions.held_out import Folds, hold_out_folds
from naim3l.decisions.learning import N_FOLDS
from naim3l.estimators import BlendNAIM3L, PerViewLogistic, PerViewRidge
from naim3l.estimators.shared import BENT_SIZE, PAIRS, SharedFit, common_ridges
from naim3l.estimators.training import read_training
from naim3l.problem.sufficient_statistics import RowStatistics

APART = Recipe(shared=False)


def people(seed, n=120, views=("a", "b", "c"), *, noise=False, aligned=False):
    """Tables that know age and sex, which decide on two labels; own columns decide on another."""
    rng = np.random.default_rng(seed)
    X, y = {}, {}
    age, sex = rng.integers(20, 90, n), rng.integers(0, 2, n)
    for view in views:
        if not aligned:
            age, sex = rng.integers(20, 90, n), rng.integers(0, 2, n)
        own = rng.normal(size=(n, 30))
        table = pd.DataFrame(own, columns=[f"{view}{j}" for j in range(30)])
        shown = (rng.integers(20, 90, n), rng.integers(0, 2, n)) if noise else (age, sex)
        X[view] = table.assign(age=shown[0], sex=np.where(shown[1], "f", "m"))
        risk = np.column_stack([(age - 60) / 12, 1.5 * sex - 1 + (age - 50) / 30, 1.5 * own[:, 0]])
        y[view] = pd.DataFrame(rng.random(risk.shape) < expit(risk), columns=["x", "y", "z"])
    return X, {view: table.astype(float) for view, table in y.items()}


def auc(model, X, y):
    return evaluate(y, model.decision_function(X))["macro-AUC"]


def models():
    return [
        NAIM3L(decide="guarded", random_state=0),
        NAIM3LCV(lams=2, ridges=(1.0,), cv=3, random_state=0),
        LabelSubspaceRidge(random_state=0),
        PerViewRidge(3.0, decide="guarded", random_state=0),
        PerViewLogistic(decide="guarded", random_state=0),
        NAIM3L(decide="guarded", features="rbf", random_state=0),
        BlendNAIM3L([("one", PerViewRidge(3.0)), ("two", NAIM3L())], random_state=0),
    ]


@pytest.mark.parametrize("number", range(len(models())))
def test_every_model_with_a_learned_rule_learns_from_shared_columns(number):
    model = models()[number]
    apart = {"features": APART}
    if isinstance(model, BlendNAIM3L):
        apart = {"one__features": APART, "two__features": APART}
    elif model.features == "rbf":
        apart = {"features": Kernel("rbf", recipe=APART)}
    X, y = people(0, 60)
    new, truth = people(1, 1000)
    gained = auc(model.fit(X, y), new, truth)
    members = getattr(model, "members_", {"": model}).values()
    assert all(of.shared_.columns.columns == ["age", "sex"] for of in members)
    assert gained > auc(clone(model).set_params(**apart).fit(X, y), new, truth) + 0.01


@pytest.mark.torch
def test_networks_learn_from_shared_columns():
    pytest.importorskip("torch")
    from naim3l import deep

    X, y = people(0, 60)
    options = {"decide": "guarded", "device": "cpu", "random_state": 0}
    model = deep.DeepNAIM3L(
        features="auto", network=deep.Network(hidden=(4,)), training=deep.Training(max_epochs=3)
    ).set_params(**options)
    model.fit(X, y)
    assert model.shared_.stackings
    assert_array_equal(model.predict_proba(X)["a"], model.predict_proba(X)["a"])


def folds_of(X, y):
    model = PerViewRidge(decide="guarded", random_state=0)
    model._forget()
    problem = read_training(model, X, y)
    return Folds.of(problem, hold_out_folds(problem, N_FOLDS, np.random.RandomState(0)))


def candidates(folds, Y):
    """All fits to the labels Y of the stacked rows."""
    shared, rates = folds.rows.shared, folds.rows.base_rates
    sums = RowStatistics.of(shared.X, Y, fit_intercept=True).view()
    straight = np.arange(shared.X.shape[1]) < len(shared.columns.numbers)
    given = [(sums, np.sqrt(rates * (1 - rates)), np.where(straight, 1.0, s)) for s in (0, 0.3)]
    assert BENT_SIZE == 0.3
    return [W for of in given for W in common_ridges(*of, PAIRS)]


def test_the_fit_is_that_of_all_rows_together():
    folds = folds_of(*people(0))
    fit = SharedFit.of(folds)
    assert min(np.abs(W - fit.weights).max() for W in candidates(folds, folds.rows.Y)) < 1e-9
    assert_allclose(fit.mean, folds.rows.shared.X.mean(axis=0), atol=1e-12)


def test_held_out_scores_come_from_a_fit_without_them():
    folds = folds_of(*people(0))
    fit, hidden = SharedFit.of(folds), folds.hidden(2)
    fits = candidates(folds, np.where(hidden, 0, folds.rows.Y))
    for scores in (fit.scores, fit.nested):
        found = scores[hidden[:, 1], 1]
        expected = [(folds.rows.shared.X @ W[:-1])[hidden[:, 1], 1] for W in fits]
        # Up to their mean and size, which are those of all rows.
        assert max(np.corrcoef(found, S)[0, 1] for S in expected) > 1 - 1e-12


def test_bends_are_used_where_they_tell():
    """The young and the old have the label; where risks only rise, bends are left out."""
    X, y = people(0, 300)
    assert (SharedFit.of(folds_of(X, y)).weights[3:-1] == 0).all()
    for view, table in X.items():
        y[view]["x"] = (np.abs(table["age"] - 55) > 18).astype(float)
    fit = SharedFit.of(folds_of(X, y))
    assert (fit.weights[3:-1] != 0).all()
    assert evaluate(pd.DataFrame(fit.problem.Y[:, :1] > 0), fit.final[:, :1])["macro-AUC"] > 0.95


def test_a_score_is_the_sum_of_own_and_shared_columns():
    X, y = people(0)
    model = NAIM3L(decide="guarded", random_state=0).fit(X, y)
    batch = model._batches(X)["b"]
    features, _ = model.features_["b"].encode(batch)
    own = model._score_features("b", features)
    stacking, shared = model.shared_.stackings["b"], model.shared_
    parts = shared.contributions("b", batch)
    assert parts.shape == (120, 2, 3)
    total = stacking.factors[0] * own + parts.sum(axis=1)
    # The rest is the same for all rows.
    rest = model.decision_function(X)["b"] - total
    assert_allclose(rest, np.broadcast_to(rest[0], rest.shape), rtol=1e-9, atol=1e-10)
    common = shared.common_part("b", batch) - shared.common_contributions("b", batch).sum(axis=1)
    assert_allclose(common, np.broadcast_to(common[0], common.shape), rtol=1e-9, atol=1e-10)
    # Age alone decides on the first label.
    assert parts[:, 0, 0].std() > 5 * parts[:, 1, 0].std()


def test_noise_gets_no_weight():
    X, y = people(0, 300, noise=True)
    new, truth = people(1, 1000, noise=True)
    model, apart = (
        NAIM3L(decide="guarded", features=of, random_state=0).fit(X, y) for of in ("auto", APART)
    )
    assert all(of.weights[1].mean() < 0.1 for of in model.shared_.stackings.values())
    assert auc(model, new, truth) > auc(apart, new, truth) - 0.005


def test_a_fixed_rule_does_not_use_shared_columns():
    X, y = people(0)
    model = NAIM3L().fit(X, y)
    assert model.shared_ is None
    assert model.fit(X, {v: of[["x"]] for v, of in y.items()}).shared_ is None


def test_a_view_that_lacks_the_columns_and_a_single_view():
    X, y = people(0)
    X["c"] = X["c"].drop(columns=["age", "sex"])
    model = NAIM3L(decide="guarded", random_state=0).fit(X, y)
    assert set(model.shared_.stackings) == {"a", "b"}
    assert (model.shared_.contributions("c", model._batches(X)["c"]) == 0).all()
    assert np.isfinite(model.predict_proba(X)["c"]).all()
    alone = NAIM3L(decide="guarded", random_state=0).fit({"a": X["a"]}, {"a": y["a"]})
    assert alone.shared_ is None


def test_tables_have_different_numbers_of_rows():
    X, y = people(0, 60)
    X["a"], y["a"] = X["a"][:40], y["a"][:40]
    model = PerViewRidge(3.0, decide="guarded", random_state=0).fit(X, y)
    assert model.shared_.columns.columns == ["age", "sex"]
    assert {view: len(P) for view, P in model.predict_proba(X).items()} == dict(a=40, b=60, c=60)


def test_missing_cells_and_rows_and_a_table_without_the_column():
    X, y = people(0)
    model = NAIM3L(decide="guarded", random_state=0).fit(X, y)
    lost = X["a"].head(3).copy()
    lost.loc[0, "age"], lost.loc[1, :] = np.nan, None
    S = model.decision_function({"a": lost})["a"]
    assert np.isfinite(S[[0, 2]]).all() and np.isnan(S[1]).all()
    with pytest.raises(ValueError, match="age"):
        model.predict({"a": X["a"].drop(columns="age")})


def test_a_label_that_a_table_never_records_is_borrowed_as_before():
    X, y = people(0, 300)
    y["a"]["x"] = np.nan
    model = NAIM3L(decide="guarded", random_state=0).fit(X, y)
    assert "a" in model.decisions_.borrowing and "a" in model.shared_.stackings
    assert_allclose(model.predict_proba(X)["a"][:, 0].mean(), model.view_rates_["a"][0], atol=0.01)
    assert np.isfinite(model.fuse(X).to_numpy()).all()


def test_save_and_load(tmp_path):
    X, y = people(0)
    for features in ("auto", Recipe(shared=("age",))):
        model = NAIM3L(decide="guarded", features=features, random_state=0).fit(X, y)
        model.save(tmp_path / "model")
        loaded = load(tmp_path / "model")
        for view, S in model.decision_function(X).items():
            assert_array_equal(loaded.decision_function(X)[view], S)
        assert_array_equal(loaded.fuse(X), model.fuse(X))
    assert loaded.features.shared == ("age",)
    assert loaded.shared_.columns.columns == ["age"]


# Samples that are in several tables.


def test_shared_columns_count_once_for_a_sample_in_several_tables():
    """Age alone tells: the answer of three tables is not surer than that of one."""
    X, y = people(0, 300)
    new, _ = people(1, 2000, aligned=True)
    model = NAIM3L(decide="guarded", random_state=0).fit(X, y)
    fused = np.asarray(model.fuse(new, overlap=0))[:, 0]
    tables = [P[:, 0] for P in model.predict_proba(new).values()]
    explained = [np.polyfit(new["a"]["age"], np.log(P / (1 - P)), 1)[0] for P in (fused, *tables)]
    assert_allclose(explained[0], np.mean(explained[1:]), rtol=0.15)


def test_a_row_without_values_changes_nothing_about_its_sample():
    X, y = people(0)
    model = NAIM3L(decide="guarded", random_state=0).fit(X, y)
    rows = X["a"].iloc[[*range(len(X["a"])), 0]]
    last = np.arange(len(rows)) == len(rows) - 1
    more = X | {"a": rows.mask(np.broadcast_to(last[:, None], rows.shape))}
    overlap = 0.2
    assert_allclose(model.fuse(more, overlap=overlap), model.fuse(X, overlap=overlap))


def test_a_sample_in_one_table_has_the_answer_of_that_table():
    X, y = people(0)
    model = NAIM3L(decide="guarded", random_state=0).fit(X, y)
    rows = {"a": X["a"].head(20), "b": X["b"].set_index(X["b"].index + 10).head(20)}
    fused = model.fuse(rows)
    for view, part in (("a", slice(0, 10)), ("b", slice(20, 30))):
        alone = pd.DataFrame(model.predict_proba(rows)[view], index=rows[view].index)
        at = fused.index[part]
        assert_allclose(fused.loc[at], alone.loc[at], rtol=1e-10)


# What is reported.


@pytest.mark.slow
def test_compare_says_what_shared_columns_add():
    X, y = people(0, 150)
    model = NAIM3LCV(lams=2, ridges=(1.0,), cv=3, random_state=0)
    found = model.compare(X, y, boosting=True)
    assert found["shared"] == ["age", "sex"]
    metric = found["blocks"][0]["metrics"]["macro-AUC"]
    assert metric["shared"]["low"] > 0
    # The rivals learn from these columns, too.
    other = NAIM3LCV(lams=2, ridges=(1.0,), cv=3, features=APART, random_state=0)
    without = other.compare(X, y, boosting=True)
    apart = without["blocks"][0]["metrics"]["macro-AUC"]
    assert without["shared"] == [] and apart["shared"] is None
    for method in ("uncoupled", "subspace", "boosting", "value"):
        assert metric[method] > apart[method] + 0.01
    gain = metric["value"] - apart["value"]
    assert_allclose(metric["shared"]["value"], gain, atol=1e-10)
    assert model.uncoupled_.shared_.stackings
    assert model.uncoupled_.predict_proba(X)["a"].shape == (150, 3)


def test_chunks_give_the_same_as_memory():
    dd = pytest.importorskip("dask.dataframe", reason="needs dask")
    X, y = people(0, 300)
    model = LabelSubspaceRidge(1.0, 0.0, random_state=0).fit(X, y)
    chunks = [{view: dd.from_pandas(of, npartitions=3) for view, of in t.items()} for t in (X, y)]
    other = LabelSubspaceRidge(1.0, 0.0, random_state=0).fit(*chunks)
    assert other.shared_.columns.numbers == model.shared_.columns.numbers
    for view, part in model.shared_.columns.parts.items():
        assert_allclose(other.shared_.columns.parts[view].mean, part.mean, rtol=1e-10)
        assert_allclose(other.shared_.columns.parts[view].scale, part.scale, rtol=1e-10)
    if other.shared_.ridge == model.shared_.ridge:
        assert_allclose(other.shared_.coef, model.shared_.coef, atol=1e-9)
    # Rows are held out by hashes, so that what is learned from them differs a little.
    for view, P in model.predict_proba(X).items():
        found = other.predict_proba(chunks[0])[view].compute()
        assert np.abs(np.asarray(found) - P).mean() < 0.03
        assert view in other.shared_.stackings


# Many columns.


def genes(n_columns, rank=4, n=60, n_labels=3):
    """Tables that share many columns, which are sums of few."""
    rng = np.random.default_rng(0)
    parts, weights = rng.normal(size=(rank, n_columns)), rng.normal(size=(rank, n_labels))
    X, y = {}, {}
    for view in ("a", "b"):
        Z = rng.normal(size=(n, rank))
        names = [f"g{j}" for j in range(n_columns)]
        X[view] = pd.DataFrame(Z @ parts, columns=names).assign(**{view: rng.normal(size=n)})
        risk = rng.random((n, n_labels)) < expit(3 * Z @ weights)
        y[view] = pd.DataFrame(risk, columns=["x", "y", "z"]).astype(float)
    return X, y


def test_leading_axes_of_many_columns_give_the_same(monkeypatch):
    """With as many axes as the columns have dimensions, nothing is lost."""
    folds = folds_of(*genes(20))
    whole = SharedFit.of(folds)
    monkeypatch.setattr("naim3l.estimators.shared.MOST_AXES", 5)
    fit = SharedFit.of(folds)
    assert fit.weights.shape == whole.weights.shape == (21, 3)
    assert fit.ridge == whole.ridge
    assert_allclose(fit.weights, whole.weights, atol=1e-8)
    assert_allclose(fit.scores, whole.scores, atol=1e-8)


def test_thousands_of_shared_columns():
    X, y = genes(3000)
    model = PerViewRidge(decide="guarded", random_state=0).fit(X, y)
    assert len(model.shared_.coef) == 3000 and model.shared_.stackings
    assert auc(model, *genes(3000, n=200)) > 0.8


def test_without_room_for_bends_there_are_none(monkeypatch):
    folds = folds_of(*people(0))
    assert folds.rows.shared.X.shape[1] > 6
    monkeypatch.setattr("naim3l.estimators.shared.MOST_AXES", 6)
    fit = SharedFit.of(folds)
    assert (fit.weights[3:-1] == 0).all() and (fit.weights[:3] != 0).all()
