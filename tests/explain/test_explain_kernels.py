"""What can be said of models with kernels, held against the definitions."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from naim3l import NAIM3L
from naim3l.estimators import PerViewRidge
from naim3l.explain import (
    check_explained,
    feature_weights,
    label_relations,
    linear_views,
    related_labels,
    score_spectrum,
    top_features,
    top_features_of_all,
    view_kernels,
    view_shares,
)
from report_models import LABELS, draw


@pytest.fixture(scope="module")
def data():
    return draw()


@pytest.fixture(scope="module")
def curved(data):
    return NAIM3L(ridge=1.0, kernel="rbf", n_landmarks=25, gamma=0.7).fit(*data)


@pytest.fixture(scope="module")
def mixed(data):
    kernels = {"clinic": "rbf", "lab": None}
    return PerViewRidge(kernel=kernels, n_landmarks=None).fit(*data)


def own(A, B):
    return np.asarray(A @ B.T)


def test_kernels_are_named(data, curved, mixed):
    assert view_kernels(curved) == {"clinic": ("rbf", 0.7), "lab": ("rbf", 0.7)}
    kernels = view_kernels(mixed)
    assert kernels["lab"] == ("linear", None) and kernels["clinic"].gamma > 0
    assert linear_views(curved) == [] and linear_views(mixed) == ["lab"]
    called = PerViewRidge(kernel=own).fit(*data)
    assert view_kernels(called)["lab"] == ("own()", None) and linear_views(called) == []


def test_columns_have_no_weights_where_rows_are_compared(curved, mixed):
    message = r"'clinic' has kernel 'rbf'.*: scores are not linear in the columns"
    for model in (curved, mixed):
        with pytest.raises(ValueError, match=message):
            feature_weights(model, "clinic")
    with pytest.raises(ValueError, match=message):
        top_features(curved, "flu")
    with pytest.raises(ValueError, match=message):
        top_features_of_all(curved)


def test_views_without_a_kernel_keep_their_columns(data, mixed):
    X, Y = data
    plain = PerViewRidge().fit(X, Y)
    found = feature_weights(mixed, "lab", X)
    np.testing.assert_array_equal(found.weights, feature_weights(plain, "lab", X).weights)
    for label, sides in top_features_of_all(mixed, 3, X).items():
        assert sides == top_features(mixed, label, 3, X)
        assert {feature.view for side in sides.values() for feature in side} == {"lab"}


@pytest.mark.parametrize("recipe", ["scale", None])
def test_weights_of_a_linear_kernel_are_those_of_columns(data, recipe):
    X, Y = data
    if recipe is None:
        X = {view: sparse.csr_array(table.to_numpy()) for view, table in X.items()}
    linear = PerViewRidge(kernel="linear", transformer=recipe, n_landmarks=None).fit(X, Y)
    plain = PerViewRidge(transformer=recipe).fit(X, Y)
    assert linear_views(linear) == ["clinic", "lab"]
    for rows in (X, None):
        found, expected = (feature_weights(model, "lab", rows) for model in (linear, plain))
        np.testing.assert_allclose(found.weights, expected.weights, atol=1e-6)
        assert (found.columns, found.kind) == (expected.columns, expected.kind)
        assert found.length == pytest.approx(expected.length)
        np.testing.assert_allclose(
            label_relations(linear, rows), label_relations(plain, rows), atol=1e-6
        )


def test_shares_and_relations_are_those_of_scores(data, curved, mixed):
    X, _ = data
    for model in (curved, mixed):
        scores = model.decision_function(X)
        variance = {view: S.var(axis=0) for view, S in scores.items()}
        for view, share in view_shares(model, X).items():
            np.testing.assert_allclose(share, variance[view] / sum(variance.values()))
        centred = np.concatenate([S - S.mean(axis=0) for S in scores.values()])
        np.testing.assert_allclose(label_relations(model, X), np.corrcoef(centred.T), atol=1e-12)
        assert len(related_labels(model, "gout", X=X)) == 3


def test_without_rows_the_landmarks_stand_for_them(data, mixed):
    X, _ = data
    # All training rows are landmarks here, so that both ways agree where each view is alone.
    scores = mixed.decision_function(X)["clinic"]
    parts = view_shares(mixed)
    lab = PerViewRidge(kernel={"clinic": None, "lab": None}).fit(*data)
    of_lab = view_shares(lab)
    ratio = parts["clinic"] / parts["lab"] / (of_lab["clinic"] / of_lab["lab"])
    expected = np.var(scores, axis=0) / _variance_told(lab, "clinic")
    np.testing.assert_allclose(ratio, expected, rtol=1e-6)
    alone = PerViewRidge(kernel="rbf", n_landmarks=None).fit(
        {"lab": X["lab"]}, {"lab": data[1]["lab"]}
    )
    given = label_relations(alone, {"lab": X["lab"]})
    np.testing.assert_allclose(label_relations(alone), given, atol=1e-6)


def _variance_told(model, view):
    """Variance of scores of a view whose features the recipe "scale" makes uncorrelated."""
    components = model.transformers_[view][-2]
    variances = components.pca_.explained_variance_[: components.n_components_]
    return (variances / variances.sum()) @ model.coef_[view] ** 2


def test_spectrum_is_that_of_the_scores(data, curved):
    X, Y = data
    S = np.concatenate(list(curved.decision_function(X).values()))
    found = score_spectrum(curved, X, Y)
    np.testing.assert_allclose(found["singular_values"], np.linalg.svd(S, compute_uv=False))
    assert {part["label"] for part in found["parts"]} <= set(LABELS)


def test_pipelines_in_pipelines_are_followed(data):
    X, Y = data
    scale = make_pipeline(StandardScaler())
    nested = make_pipeline(FunctionTransformer(feature_names_out="one-to-one"), scale)
    model = PerViewRidge(transformer=nested).fit(X, Y)
    found = feature_weights(model, "lab")
    assert found.columns == list(X["lab"].columns)
    deviation, scaled = X["lab"].std(ddof=0), model.coef_["lab"]
    slope = scaled / np.where(deviation > 0, deviation, 1).reshape(-1, 1)
    np.testing.assert_allclose(found.weights, slope * deviation.to_numpy()[:, None])


@pytest.mark.torch
def test_networks_and_what_is_no_model_are_refused(data):
    from naim3l.deep import DeepNAIM3L

    X, Y = data
    model = DeepNAIM3L(max_epochs=1, hidden=(3,), device="cpu", random_state=0).fit(X, Y)
    calls = [
        lambda model: check_explained(model),
        lambda model: feature_weights(model, "lab"),
        lambda model: top_features(model, "flu"),
        lambda model: top_features_of_all(model),
        lambda model: label_relations(model, X),
        lambda model: related_labels(model, "flu"),
        lambda model: view_shares(model, X),
        lambda model: view_kernels(model),
        lambda model: score_spectrum(model, X, Y),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="DeepNAIM3L has no readable weights"):
            call(model)
        with pytest.raises(ValueError, match="OneHotEncoder has no readable weights"):
            call(OneHotEncoder())
