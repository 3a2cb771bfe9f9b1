"""What a model has learned, held against the definitions."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    QuantileTransformer,
    StandardScaler,
)

from naim3l import NAIM3L, Decisions, Kernel, Recipe
from naim3l.datasets import make_unpaired
from naim3l.estimators import PerViewRidge
from naim3l.explain import (
    top_features,
)
from naim3l.explain.column_weights import column_weights, strongest_columns
from naim3l.explain.model_views import linear_views, view_kernels
from naim3l.report.summary import summarise, view_shares

LABELS = ["flu", "asthma", "gout"]


@pytest.fixture(scope="module")
def data():
    """Two tables with a scale per column, a constant column, unknown labels and names."""
    made = make_unpaired(
        (50, 40),
        n_features=(6, 5),
        n_labels=3,
        n_latent=4,
        noise=0.3,
        labels_per_row=1.2,
        missing_labels=0.2,
        random_state=0,
    )
    X, Y = {}, {}
    for view, table in made.views.items():
        values = table * np.geomspace(0.1, 50, table.shape[1]) + 7
        values[:, 2] = 3
        X[view] = pd.DataFrame(values, columns=[f"{view}.c{j}" for j in range(values.shape[1])])
        Y[view] = pd.DataFrame(made.labels[view], columns=LABELS)
    return X, Y


@pytest.fixture(scope="module")
def curved(data):
    return NAIM3L(ridge=1.0, features=Kernel("rbf", n_landmarks=25, gamma=0.7)).fit(*data)


@pytest.fixture(scope="module")
def mixed(data):
    features = {"view0": Kernel("rbf", n_landmarks=None), "view1": "auto"}
    return PerViewRidge(features=features).fit(*data)


def ridge(data, features, **options):
    return PerViewRidge(features=features, **options).fit(*data)


class TestColumnWeights:
    @pytest.mark.parametrize("recipe", ["auto", "scale", "paper"])
    def test_weight_is_the_slope_of_the_score_before_normalisation(self, data, recipe):
        X, _ = data
        model = ridge(data, recipe)
        for view, table in X.items():
            components = model.features_[view].recipe.components
            found = column_weights(model, view, X)
            assert found.columns == list(table.columns)
            at = table.to_numpy()[:1]
            for j in range(table.shape[1]):
                step = np.zeros_like(at)
                step[0, j] = table.iloc[:, j].std(ddof=0)
                slope = (components(at + step) - components(at)) @ model.coef_[view]
                np.testing.assert_allclose(found.weights[j], slope[0], atol=1e-9)
            lengths = np.linalg.norm(components(table.to_numpy()), axis=1)
            assert found.length == pytest.approx(np.sqrt(np.mean(lengths**2)))
            assert (found.weights[2] == 0).all()  # the constant column
            # All components are kept here, so that the recipe knows the deviations.
            alone = column_weights(model, view)
            np.testing.assert_allclose(alone.weights, found.weights, atol=1e-9)

    def test_weights_are_those_of_the_scores_where_rows_have_one_length(self):
        rng = np.random.default_rng(0)
        corners = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T
        X = {"a": 2.0 * np.repeat(corners, 4, axis=0)}
        Y = {"a": (X["a"] @ rng.normal(size=(3, 2)) > 0.1).astype(int)}
        model = PerViewRidge(features="paper").fit(X, Y)
        found = column_weights(model, "a")
        assert found.columns == ["column 0", "column 1", "column 2"]
        # One standard deviation is 2; scores are linear in the corners.
        scores = model.decision_function(X)["a"]
        weights = found.weights / found.length
        np.testing.assert_allclose(X["a"] / 2 @ weights, scores - scores.mean(0))

    def test_without_rows_the_kept_components_give_the_deviation(self, data):
        X, _ = data
        model = ridge(data, Recipe("paper", n_components=2))
        recipe = model.features_["view0"].recipe
        kept = recipe.components(X["view0"].to_numpy()) @ recipe.axes
        slope = recipe.axes.T @ model.coef_["view0"]
        weights = column_weights(model, "view0").weights
        np.testing.assert_allclose(weights, slope * kept.std(axis=0)[:, None])

    def test_histogram_weights_belong_to_roots_of_shares(self, rng):
        X = {"words": rng.poisson(3, size=(40, 5)) + 1.0}
        Y = {"words": (rng.random((40, 2)) < 0.4).astype(int)}
        model = PerViewRidge(features="histogram").fit(X, Y)
        found = column_weights(model, "words", X)
        assert found.columns == [f"column {j}" for j in range(5)]
        roots = np.sqrt(X["words"] / X["words"].sum(axis=1, keepdims=True))
        slope = model.features_["words"].recipe.axes.T @ model.coef_["words"]
        np.testing.assert_allclose(found.weights, slope * roots.std(axis=0)[:, None], atol=1e-12)

    def test_each_value_of_text_has_a_weight(self, data):
        X, Y = data
        towns = np.array(["Ulm", "Bonn", "Jena"])[np.arange(50) % 3]
        X = {"view0": X["view0"].assign(town=towns)}
        model = PerViewRidge().fit(X, {"view0": Y["view0"]})
        found = column_weights(model, "view0", X)
        assert found.columns[-3:] == ["town_Bonn", "town_Jena", "town_Ulm"]
        components = model.features_["view0"].recipe.components
        rows, _ = model.features_["view0"].rows(model._batches(X)["view0"])
        step = np.zeros_like(rows[:1])
        step[0, -1] = (towns == "Ulm").std()
        slope = (components(rows[:1] + step) - components(rows[:1])) @ model.coef_["view0"]
        np.testing.assert_allclose(found.weights[-1], slope[0], atol=1e-9)

    def test_weights_of_a_transformer_are_those_of_its_output(self, data):
        X, Y = data
        X = {"view0": X["view0"].assign(town=np.array(["Ulm", "Bonn"])[np.arange(50) % 2])}
        numbers = [name for name in X["view0"] if name != "town"]
        encoder = ("town", OneHotEncoder(sparse_output=False), ["town"])
        columns = ColumnTransformer(
            [encoder, ("numbers", StandardScaler(), numbers)], verbose_feature_names_out=False
        )
        model = PerViewRidge(features=columns).fit(X, {"view0": Y["view0"]})
        found = column_weights(model, "view0", X)
        assert found.length == 1
        assert found.columns == ["town_Bonn", "town_Ulm", *numbers]
        sizes = model.features_["view0"].transformer.transform(X["view0"]).std(axis=0)
        np.testing.assert_allclose(found.weights, model.coef_["view0"] * sizes[:, None])
        np.testing.assert_array_equal(column_weights(model, "view0").weights, model.coef_["view0"])

    def test_names_that_do_not_match_are_numbers(self, data):
        nameless = ridge(data, FunctionTransformer(lambda X: np.hstack([X, X])))
        found = column_weights(nameless, "view0")
        assert found.columns == [f"feature {j}" for j in range(12)]
        named = ridge(data, make_pipeline(QuantileTransformer(n_quantiles=10), Normalizer()))
        assert column_weights(named, "view0").columns == list(data[0]["view0"].columns)

    def test_columns_as_they_are_and_sparse_ones(self, data):
        X, Y = data
        raw = ridge(data, None)
        sizes = X["view0"].to_numpy().std(axis=0)[:, None]
        found = column_weights(raw, "view0", X)
        np.testing.assert_allclose(found.weights, raw.coef_["view0"] * sizes)
        assert found.length == 1
        X = {view: sparse.csr_array(table.to_numpy()) for view, table in X.items()}
        again = PerViewRidge(features=None).fit(X, Y)
        weights = column_weights(again, "view0", X).weights
        np.testing.assert_allclose(weights, again.coef_["view0"] * sizes, atol=1e-5)

    def test_wide_tables_keep_the_names_of_their_columns(self, data):
        X, Y = data
        wide = pd.concat([X["view0"].iloc[:40], X["view1"]], axis=1)
        wide.iloc[:3, :6] = np.nan
        views = {"first": slice(0, 6), "second": [10, 9, 7]}
        model = PerViewRidge(views=views).fit(wide, Y["view1"])
        expected = ["view1.c4", "view1.c3", "view1.c1"]
        assert column_weights(model, "second", wide).columns == expected
        unnamed = PerViewRidge(views=views).fit(wide.to_numpy(), Y["view1"].to_numpy())
        assert column_weights(unnamed, "second").columns == ["column 10", "column 9", "column 7"]

    def test_the_largest_of_all_views(self, data):
        X, _ = data
        model = ridge(data, "scale")
        found = top_features(model, "asthma", 3, X)
        every = {}
        for view in X:
            columns, weights, length = column_weights(model, view, X)
            of_label = weights[:, LABELS.index("asthma")] / length
            every |= {(view, name): of for name, of in zip(columns, of_label, strict=True)}
        for side, sign in (("for", 1), ("against", -1)):
            largest = sorted((w for w in every.values() if sign * w > 0), key=abs, reverse=True)
            assert [feature.weight for feature in found[side]] == largest[:3]
            assert all(every[f.view, f.column] == f.weight for f in found[side])
        assert strongest_columns(model, LABELS, 3, X)["asthma"] == found
        assert len(top_features(model, "asthma", 99)["for"]) <= 11


class TestKernels:
    def test_are_named(self, data, curved, mixed):
        assert view_kernels(curved) == {"view0": ("rbf", 0.7), "view1": ("rbf", 0.7)}
        kernels = view_kernels(mixed)
        assert kernels["view1"] == ("linear", None) and kernels["view0"].gamma > 0
        assert linear_views(curved) == [] and linear_views(mixed) == ["view1"]

        def own(A, B):
            return np.asarray(A @ B.T)

        called = ridge(data, Kernel(own))
        assert view_kernels(called)["view1"] == ("own()", None) and linear_views(called) == []

    def test_columns_have_no_weights_where_rows_are_compared(self, curved, mixed):
        message = r"'view0' has kernel 'rbf'.*: scores are not linear in the columns"
        with pytest.raises(ValueError, match=message):
            top_features(curved, "flu")
        assert {of.view for side in top_features(mixed, "flu").values() for of in side} == {"view1"}

    @pytest.mark.parametrize("recipe", ["scale", None])
    def test_weights_of_a_linear_kernel_are_those_of_columns(self, data, recipe):
        X, Y = data
        if recipe is None:
            X = {view: sparse.csr_array(table.to_numpy()) for view, table in X.items()}
        linear, plain = (
            PerViewRidge(features=features).fit(X, Y)
            for features in (Kernel("linear", n_landmarks=None, recipe=recipe), recipe)
        )
        assert linear_views(linear) == ["view0", "view1"]
        for rows in (X, None):
            found, expected = (column_weights(model, "view1", rows) for model in (linear, plain))
            np.testing.assert_allclose(found.weights, expected.weights, atol=1e-6)
            assert found.columns == expected.columns
            assert found.length == pytest.approx(expected.length)


class TestShares:
    def test_shares_are_those_of_scores(self, data, curved, mixed):
        X, _ = data
        for model in (curved, mixed, ridge(data, "scale")):
            scores = model.decision_function(X)
            variance = {view: S.var(axis=0) for view, S in scores.items()}
            for view, share in view_shares(model, X).items():
                np.testing.assert_allclose(share, variance[view] / sum(variance.values()))

    @pytest.mark.parametrize("fusion", ["mean", "evidence"])
    def test_shares_of_a_wide_table_are_of_what_a_view_adds(self, data, fusion):
        X, Y = data
        wide = pd.concat([X["view0"].iloc[:40], X["view1"]], axis=1)
        views = {"first": slice(0, 6), "second": slice(6, 11)}
        decide = Decisions("sign", fusion == "evidence", fusion)
        model = PerViewRidge(views=views, decide=decide, random_state=0).fit(wide, Y["view1"])
        scores = model.decision_function(wide)
        # Scores of rows with both views are sums over this; with one view, they are its own.
        times = 2 if fusion == "mean" else 1 + model.fusion_overlap_
        parts = {}
        for view, columns in views.items():
            without = wide.copy()
            without.iloc[:, columns] = np.nan
            other = model.decision_function(without)
            parts[view] = np.var(times * scores - other, axis=0)
        for view, share in view_shares(model, wide).items():
            np.testing.assert_allclose(share, parts[view] / sum(parts.values()))

    def test_constant_scores_have_no_shares(self, data):
        model = ridge(data, None)
        for W in model.coef_.values():
            W[:, 1] = 0
        shares = view_shares(model, data[0])["view0"]
        assert np.isnan(shares[1]) and np.isfinite(shares[[0, 2]]).all()


def test_errors_say_what_there_is(data):
    model = ridge(data, "scale")
    with pytest.raises(ValueError, match=r"no label 'cold'; .*'flu'"):
        top_features(model, "cold")
    with pytest.raises(ValueError, match="n must be a whole number >= 1, got 0"):
        top_features(model, "flu", 0)
    with pytest.raises(NotFittedError):
        top_features(PerViewRidge(), "flu")
    with pytest.raises(TypeError, match="need rows in memory, and X is read in chunks"):
        top_features(model, "flu", X={"view0": "folder/*.parquet"})


@pytest.mark.parametrize("model", [OneHotEncoder(), None])
def test_other_models_are_refused(data, model):
    X, Y = data
    calls = [
        lambda: top_features(model, "flu"),
        lambda: summarise(model, X, Y),
        lambda: view_kernels(model),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=f"{type(model).__name__} has no readable weights"):
            call()
