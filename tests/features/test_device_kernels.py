"""Distances and centres on a device are those of scikit-learn."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.metrics.pairwise import additive_chi2_kernel, euclidean_distances

torch = pytest.importorskip("torch")

from naim3l.features import device_kernels  # noqa: E402

pytestmark = pytest.mark.torch

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device")),
]  # fmt: skip


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.poisson(1.5, (70, 9)) * 1.0, rng.poisson(1.5, (20, 9)) * 1.0


@pytest.mark.parametrize("device", DEVICES)
def test_distances(rows, device, monkeypatch):
    A, B = rows
    expected = euclidean_distances(A, B, squared=True)
    np.testing.assert_allclose(device_kernels.squared_distances(A, B, device), expected, atol=1e-10)
    found = device_kernels.squared_distances(sparse.csr_array(A), B, device)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_allclose(device_kernels.inner_products(A, B, device), A @ B.T)
    expected = np.abs(A[:, None] - B).sum(axis=2)
    np.testing.assert_allclose(device_kernels.manhattan_distances(A, B, device), expected)
    monkeypatch.setattr(device_kernels, "BLOCK_NUMBERS", 400)  # in several blocks
    expected = -additive_chi2_kernel(A, B)
    np.testing.assert_allclose(device_kernels.chi2_distances(A, B, device), expected, atol=1e-10)


@pytest.mark.parametrize("device", DEVICES)
def test_centres_are_those_of_k_means(device):
    rng = np.random.default_rng(1)
    X = 100 + rng.normal(size=(300, 4)) + 10 * rng.integers(3, size=(300, 1))
    found = device_kernels.centres(X, 6, 10, device)
    means = KMeans(6, init=X[:6], n_init=1, max_iter=10).fit(X)
    np.testing.assert_allclose(found, means.cluster_centers_, rtol=1e-9)


def test_a_centre_without_rows_moves_to_the_farthest_row():
    X = np.array([[0.0], [0.0], [1.0], [9.0]])  # the first two centres are equal
    found = device_kernels.centres(X, 2, 10, "cpu")
    assert sorted(found.ravel()) == [pytest.approx(1 / 3), 9.0]
