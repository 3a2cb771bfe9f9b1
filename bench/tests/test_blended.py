import numpy as np
import pytest
from scipy.special import logit
from sklearn.decomposition import PCA
from sklearn.metrics import average_precision_score

from naim3l import evaluate
from naim3l_bench.features import FourthRoots, KernelComponents
from naim3l_bench.fits import run_method
from naim3l_bench.trials import FREQUENCY_NAMES, draw_challenge, make_trial, measure_overlapping

SMALL = {
    "n_kernel_components": 5,
    "n_components": 4,
    "network": {"hidden": [4]},
    "training": {"max_epochs": 2},
}


@pytest.fixture
def raw(source):
    settings = {"alpha": 0.3, "beta": 0.3, "aligned": False, "seed": 0}
    return make_trial(source, draw_challenge(source, settings), features="raw", seed=0)


def test_evidence_is_divided_by_the_overlap_of_the_shown_views(raw, rng):
    base = logit(np.full(raw.truth.shape[1], 0.3))
    log_odds = {view: rng.normal(size=(len(X), len(base))) for view, X in raw.X_test.items()}
    found = measure_overlapping(raw, log_odds, base, 0.5)
    fused = np.empty(raw.truth.shape)
    for i in range(len(fused)):
        shown = [v for v, view in enumerate(log_odds) if raw.shown[i, v]]
        parts = [
            S[list(raw.test_rows[view]).index(i)] - base
            for v, (view, S) in enumerate(log_odds.items())
            if v in shown
        ]
        fused[i] = base + np.sum(parts, axis=0) / (1 + 0.5 * (len(shown) - 1))
    for name, value in evaluate(raw.truth, fused, protocol="fused").items():
        np.testing.assert_allclose(found[name], value)
    labels = np.flatnonzero(raw.truth.any(axis=0))
    alone = [average_precision_score(raw.truth[:, k], fused[:, k]) for k in labels]
    assert found["label AP"] == pytest.approx(np.mean(alone))
    known = np.mean([np.nansum(Y, axis=0) for Y in raw.Y_train.values()], axis=0)
    groups = {FREQUENCY_NAMES[g] for g in np.digitize(known[labels], (5, 20))}
    assert groups == set(FREQUENCY_NAMES) & set(found)


def test_features_are_kernel_pca_and_fourth_roots(rng):
    X = rng.poisson(3.0, size=(40, 12)).astype(float)
    roots = np.sqrt(X / X.sum(axis=1, keepdims=True))
    features = KernelComponents("laplacian", 6)
    Z = features.fit_transform(X)
    np.testing.assert_allclose(features.transform(X[:5]), Z[:5], atol=1e-12)
    K = np.exp(-features.map_.gamma * np.abs(roots[:, None] - roots).sum(axis=2))
    centre = np.eye(40) - 1 / 40
    values = np.linalg.eigvalsh(centre @ K @ centre)[::-1][:6]
    np.testing.assert_allclose(np.sum(Z**2, axis=0), values, rtol=1e-6)
    fourth = np.sqrt(roots / roots.sum(axis=1, keepdims=True))
    components = PCA(5).fit_transform(fourth)
    expected = components / np.linalg.norm(components, axis=1, keepdims=True)
    found = FourthRoots(5).fit(X).transform(X)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-10)  # signs are arbitrary


@pytest.mark.torch
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_blend_and_its_members_are_measured(raw, kernel):
    if kernel == "laplacian":
        for tables in (raw.X_train, raw.X_test):
            tables.update({view: np.abs(X) for view, X in tables.items()})
    record = run_method(raw, "blend", {"kernel": kernel, "overlap": 0.5, **SMALL}, 0)
    second = "fourth roots" if kernel == "laplacian" else "components"
    assert list(record["metrics"]["members"]) == ["blend", "kernel components", second]
    for measured in record["metrics"]["members"].values():
        assert 0 < measured["AP"] <= 1 and 0 < measured["label AP"] <= 1
    assert set(record["numbers"]["weights"]) == {"kernel components", second}
