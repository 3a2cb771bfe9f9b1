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

from naim3l import NAIM3L
from naim3l.datasets import make_unpaired
from naim3l.estimators import PerViewRidge
from naim3l.explain import (
    feature_weights,
    label_relations,
    related_labels,
    score_spectrum,
    top_features,
    top_features_of_all,
    view_shares,
)
from naim3l.features.recipes import LeadingComponents

LABELS = ["flu", "asthma", "gout"]


@pytest.fixture
def data():
    """Two tables with a scale per column, a constant column, unknown labels and names."""
    made = make_unpaired((50, 40), n_features=(6, 5), n_labels=3, n_latent=4, noise=0.3,
                         labels_per_row=1.2, missing_labels=0.2, random_state=0)  # fmt: skip
    X, Y = {}, {}
    for view, table in made.views.items():
        values = table * np.geomspace(0.1, 50, table.shape[1]) + 7
        values[:, 2] = 3
        X[view] = pd.DataFrame(values, columns=[f"{view}.c{j}" for j in range(values.shape[1])])
        Y[view] = pd.DataFrame(made.labels[view], columns=LABELS)
    return X, Y


def ridge(data, transformer, **options):
    return PerViewRidge(transformer=transformer, **options).fit(*data)


@pytest.mark.parametrize("recipe", ["scale", "paper"])
def test_weight_is_the_slope_of_the_score_before_normalisation(data, recipe):
    X, _ = data
    model = ridge(data, recipe)
    for view, table in X.items():
        before = model.transformers_[view][:-1]
        found = feature_weights(model, view, X)
        assert found.columns == list(table.columns) and found.labels == LABELS
        assert found.kind == "columns"
        at = table.to_numpy()[:1]
        for j in range(table.shape[1]):
            step = np.zeros_like(at)
            step[0, j] = table.iloc[:, j].std(ddof=0)
            slope = (before.transform(at + step) - before.transform(at)) @ model.coef_[view]
            np.testing.assert_allclose(found.weights[j], slope[0], atol=1e-9)
        lengths = np.linalg.norm(before.transform(table.to_numpy()), axis=1)
        assert found.length == pytest.approx(np.sqrt(np.mean(lengths**2)))
        assert (found.weights[2] == 0).all()  # the constant column
        # All components are kept here, so the transformer knows the deviations.
        np.testing.assert_allclose(feature_weights(model, view).weights, found.weights, atol=1e-9)


def test_weights_are_those_of_the_scores_where_rows_have_one_length():
    rng = np.random.default_rng(0)
    corners = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T
    X = {"a": 2.0 * np.repeat(corners, 4, axis=0)}
    Y = {"a": (X["a"] @ rng.normal(size=(3, 2)) > 0.1).astype(int)}
    model = PerViewRidge(transformer="paper").fit(X, Y)
    found = feature_weights(model, "a")
    assert found.columns == ["column 0", "column 1", "column 2"]
    # One standard deviation is 2; scores are linear in the corners.
    scores = model.decision_function(X)["a"]
    np.testing.assert_allclose(X["a"] / 2 @ found.weights / found.length, scores - scores.mean(0))


def test_without_rows_the_kept_components_tell_the_deviation(data):
    X, _ = data
    model = ridge(data, make_pipeline(LeadingComponents(2), Normalizer()))
    weights = feature_weights(model, "view0")
    pca = model.transformers_["view0"][0].pca_
    scores = pca.transform(X["view0"].to_numpy())[:, :2] @ pca.components_[:2]
    slope = pca.components_[:2].T @ model.coef_["view0"]
    np.testing.assert_allclose(weights.weights, slope * scores.std(axis=0)[:, None])


def test_histogram_weights_belong_to_roots_of_shares(rng):
    X = {"words": rng.poisson(3, size=(40, 5)) + 1.0}
    Y = {"words": (rng.random((40, 2)) < 0.4).astype(int)}
    model = PerViewRidge(transformer="histogram").fit(X, Y)
    found = feature_weights(model, "words", X)
    assert found.kind == "roots" and found.columns == [f"column {j}" for j in range(5)]
    root, components, _ = model.transformers_["words"]
    roots = root.transform(X["words"])
    for j in range(5):
        moved = roots[:1] + np.eye(5)[j] * roots[:, j].std()
        slope = (components.transform(moved) - components.transform(roots[:1])) @ model.coef_[
            "words"
        ]
        np.testing.assert_allclose(found.weights[j], slope[0], atol=1e-9)


def test_other_transformers_are_followed_as_far_as_they_are_linear(data):
    X, Y = data
    towns = np.array(["Ulm", "Bonn", "Jena"])
    X = {"view0": X["view0"].assign(town=towns[np.arange(50) % 3])}
    data = X, {"view0": Y["view0"]}
    numbers = [name for name in X["view0"] if name not in ("town", "view0.c2")]
    columns = ColumnTransformer(
        [("town", OneHotEncoder(sparse_output=False), ["town"]), ("n", StandardScaler(), numbers)],
        verbose_feature_names_out=False,
    )
    model = ridge(data, make_pipeline(columns, LeadingComponents(3), Normalizer()))
    found = feature_weights(model, "view0", X)
    assert found.kind == "features"
    assert found.columns == ["town_Bonn", "town_Jena", "town_Ulm", *numbers]
    components = model.transformers_["view0"][1].pca_.components_[:3]
    features = model.transformers_["view0"][0].transform(X["view0"])
    slope = components.T @ model.coef_["view0"] * features.std(axis=0)[:, None]
    np.testing.assert_allclose(found.weights, slope)


def test_names_that_do_not_match_are_numbers(data):
    nameless = FunctionTransformer(lambda X: np.hstack([X, X]))
    model = ridge(data, nameless)
    found = feature_weights(model, "view0")
    assert found.columns == [f"feature {j}" for j in range(12)] and found.length == 1
    np.testing.assert_array_equal(found.weights, model.coef_["view0"])
    named = ridge(data, QuantileTransformer(n_quantiles=10))
    assert feature_weights(named, "view0").columns == list(data[0]["view0"].columns)


def test_lengths_come_from_the_rows_where_no_component_tells_them(data):
    X, _ = data
    model = ridge(data, make_pipeline(StandardScaler(), Normalizer()))
    assert feature_weights(model, "view0").length == 1
    # Five columns of variance one and a constant one.
    assert feature_weights(model, "view0", X).length == pytest.approx(np.sqrt(5))
    raw = ridge(data, None)
    sizes = X["view0"].to_numpy().std(axis=0)[:, None]
    np.testing.assert_allclose(feature_weights(raw, "view0", X).weights, raw.coef_["view0"] * sizes)
    X = {view: sparse.csr_array(table.to_numpy()) for view, table in X.items()}
    again = PerViewRidge(transformer=None).fit(X, data[1])
    np.testing.assert_allclose(
        feature_weights(again, "view0", X).weights, again.coef_["view0"] * sizes, atol=1e-5
    )


def test_wide_tables_keep_the_names_of_their_columns(data):
    X, Y = data
    wide = pd.concat([X["view0"].iloc[:40], X["view1"]], axis=1)
    wide.iloc[:3, :6] = np.nan
    views = {"first": slice(0, 6), "second": [10, 9, 7]}
    model = PerViewRidge(views=views, fusion="learned", random_state=0).fit(wide, Y["view1"])
    assert feature_weights(model, "second", wide).columns == ["view1.c4", "view1.c3", "view1.c1"]
    unnamed = PerViewRidge(views=views).fit(wide.to_numpy(), Y["view1"].to_numpy())
    assert feature_weights(unnamed, "second").columns == ["column 10", "column 9", "column 7"]


@pytest.mark.parametrize("fusion", ["mean", "evidence", "learned"])
def test_shares_of_a_wide_table_are_of_what_a_view_adds(data, fusion):
    X, Y = data
    wide = pd.concat([X["view0"].iloc[:40], X["view1"]], axis=1)
    views = {"first": slice(0, 6), "second": slice(6, 11)}
    model = PerViewRidge(views=views, fusion=fusion, random_state=0).fit(wide, Y["view1"])
    scores = model.decision_function(wide)
    # Scores of rows with both views are sums over this; with one view, they are what it says.
    times = 2 if fusion == "mean" else 1 + model.fusion_overlap_
    parts = {}
    for view, columns in views.items():
        without = wide.copy()
        without.iloc[:, columns] = np.nan
        other = model.decision_function(without)
        parts[view] = np.var(times * scores - other, axis=0)
    for view, share in view_shares(model, wide).items():
        np.testing.assert_allclose(share, parts[view] / sum(parts.values()))


def test_top_features_are_the_largest_weights_of_all_views(data):
    X, _ = data
    model = ridge(data, "scale")
    found = top_features(model, "asthma", 3, X)
    every = {}
    for view in X:
        weights = feature_weights(model, view, X)
        every |= {
            (view, column): weight / weights.length
            for column, weight in zip(weights.columns, weights.weights[:, 1], strict=True)
        }
    for side, sign in (("for", 1), ("against", -1)):
        largest = sorted((w for w in every.values() if sign * w > 0), key=abs, reverse=True)[:3]
        assert [feature.weight for feature in found[side]] == largest
        assert all(every[f.view, f.column] == f.weight for f in found[side])
    assert top_features_of_all(model, 3, X)["asthma"] == found
    assert len(top_features(model, "asthma", 99)["for"]) <= 11


def test_view_shares_are_shares_of_variance(data):
    X, _ = data
    model = ridge(data, "scale")
    variance = {view: S.var(axis=0) for view, S in model.decision_function(X).items()}
    shares = view_shares(model, X)
    for view, share in shares.items():
        np.testing.assert_allclose(share, variance[view] / sum(variance.values()))
    np.testing.assert_allclose(sum(view_shares(model).values()), 1)
    # Without normalisation, features are uncorrelated on training rows: both ways agree.
    plain = ridge(data, make_pipeline(StandardScaler(), LeadingComponents()))
    for view, share in view_shares(plain).items():
        np.testing.assert_allclose(share, view_shares(plain, X)[view])
    model.coef_ = {view: np.zeros_like(W) for view, W in model.coef_.items()}
    assert np.isnan(view_shares(model)["view0"]).all()


def test_label_relations_are_correlations_of_scores(data):
    X, _ = data
    model = NAIM3L(ridge=1.0).fit(*data)
    relations = label_relations(model, X)
    scores = model.decision_function(X)
    centred = np.concatenate([S - S.mean(axis=0) for S in scores.values()])
    np.testing.assert_allclose(relations, np.corrcoef(centred.T), atol=1e-12)
    found = related_labels(model, "gout", X=X)
    assert [name for name, _ in found] in (["flu", "asthma"], ["asthma", "flu"])
    assert abs(found[0][1]) >= abs(found[1][1])
    assert dict(found)["flu"] == pytest.approx(relations[2, 0])
    assert len(related_labels(model, "gout", 1)) == 1
    plain = ridge(data, make_pipeline(StandardScaler(), LeadingComponents()))
    np.testing.assert_allclose(label_relations(plain), label_relations(plain, X), atol=1e-12)


def test_label_relations_without_rows_or_scores(data):
    model = ridge(data, None)  # nothing is known of the features: cosines of the weights
    W = np.concatenate(list(model.coef_.values()))
    W = W / np.linalg.norm(W, axis=0)
    np.testing.assert_allclose(label_relations(model), W.T @ W)
    for W in model.coef_.values():
        W[:, 1] = 0
    relations = label_relations(model)
    np.testing.assert_array_equal(relations[1], [0, 1, 0])
    np.testing.assert_array_equal(relations, relations.T)


def test_spectrum_is_that_of_the_stacked_scores(data):
    X, Y = data
    model = NAIM3L(ridge=1.0).fit(X, Y)
    spectrum = score_spectrum(model, X, {view: table[LABELS[::-1]] for view, table in Y.items()})
    S = np.concatenate(list(model.decision_function(X).values()))
    values = np.linalg.svd(S, compute_uv=False)
    np.testing.assert_allclose(spectrum["singular_values"], values)
    assert spectrum["rank"] == np.linalg.matrix_rank(S) and spectrum["n_rows"] == 90
    assert spectrum["trace_norm"] == pytest.approx(np.linalg.norm(S, "nuc"))
    held = (values**2).cumsum() / (values**2).sum()
    assert held[spectrum["dimensions"] - 1] >= 0.99 > np.append(0, held)[spectrum["dimensions"] - 1]
    positive = np.concatenate(list(Y.values())) == 1
    for k, part in enumerate(spectrum["parts"]):
        rows = S[positive[:, k]]
        assert part["label"] == LABELS[k] and part["n_rows"] == len(rows)
        assert part["rank"] == np.linalg.matrix_rank(rows)
        assert part["trace_norm"] == pytest.approx(np.linalg.norm(rows, "nuc"))
    norms = [part["trace_norm"] for part in spectrum["parts"]]
    assert spectrum["mean"]["trace_norm"] == pytest.approx(np.mean(norms))
    assert spectrum["median"]["trace_norm"] == pytest.approx(np.median(norms))


def test_spectrum_of_scores_of_known_rank():
    X = {"a": np.eye(4)}
    Y = {"a": np.array([[1, 1, np.nan], [0, 1, np.nan], [1, 0, np.nan], [0, 0, 0]])}
    model = PerViewRidge(transformer=None, fit_intercept=False)
    with pytest.warns(UserWarning, match="never observed positive"):
        model.fit(X, Y)
    model.coef_["a"] = np.array([[3.0, 0, 0], [0, 4.0, 0], [0, 0, 0], [0, 0, 0]])
    spectrum = score_spectrum(model, X, Y)
    np.testing.assert_allclose(spectrum["singular_values"], [4, 3, 0])
    assert (spectrum["rank"], spectrum["trace_norm"], spectrum["dimensions"]) == (2, 7, 2)
    assert [(p["label"], p["rank"], p["trace_norm"]) for p in spectrum["parts"]] == [
        ("label0", 1, 3),
        ("label1", 2, 7),
    ]
    model.coef_["a"][:] = 0
    assert score_spectrum(model, X, Y)["dimensions"] == 0


def test_weights_as_a_data_frame(data):
    frame = feature_weights(ridge(data, "scale"), "view1").to_frame()
    assert list(frame.columns) == LABELS and list(frame.index) == list(data[0]["view1"].columns)


def test_errors_say_what_there_is(data):
    model = ridge(data, "scale")
    with pytest.raises(ValueError, match=r"no view 'lab'; .* \['view0', 'view1'\]"):
        feature_weights(model, "lab")
    with pytest.raises(ValueError, match=r"no label 'cold'; .*'flu'"):
        top_features(model, "cold")
    with pytest.raises(ValueError, match="n must be"):
        related_labels(model, "flu", 0)
    with pytest.raises(NotFittedError):
        label_relations(PerViewRidge())
