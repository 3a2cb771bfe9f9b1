"""Thresholding and trace norms by products, compared with singular values that are known."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("array_api_compat")

from naim3l.solvers import products  # noqa: E402

pytestmark = pytest.mark.torch

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device")),
]  # fmt: skip
SPECTRA = {
    "spread": np.linspace(0.1, 6, 30),
    "offset": np.array([400.0, *np.linspace(0.1, 3, 29)]),
    "repeated": np.repeat([5.0, 1.0, 0.3], 10),
    "tiny": np.logspace(2, -10, 30),
    "low rank": np.array([7.0, 2.0, 1.0] + [0.0] * 27),
    "at the threshold": np.array([4.0, 0.5, 0.5 + 1e-9, 0.5 - 1e-7] + [0.2] * 26),
    "zero": np.zeros(30),
}


def with_spectrum(singular_values, device, n_matrices=3):
    """Matrices (n_matrices, 40, 30), their left and right singular vectors, and Gram matrices."""
    torch.manual_seed(0)
    U = torch.linalg.qr(torch.randn(n_matrices, 40, 30, dtype=torch.float64))[0].to(device)
    V = torch.linalg.qr(torch.randn(n_matrices, 30, 30, dtype=torch.float64))[0].to(device)
    s = torch.from_numpy(np.array(singular_values)).to(device)
    A = (U * s) @ V.mT
    return A, U, s, V, A.mT @ A


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("threshold", [0.01, 0.5, 8.0])
@pytest.mark.parametrize("name", SPECTRA)
def test_each_singular_value_is_reduced_by_the_threshold(name, threshold, device):
    A, U, s, V, K = with_spectrum(SPECTRA[name], device)
    found = A @ products.shrink_gram(K, threshold)
    expected = (U * (s - threshold).clamp(min=0)) @ V.mT
    error = (found - expected).abs().max()
    # A squared singular value has a rounding error of the size of the largest one.
    assert error <= 1e-9 * max(float(s.max()), threshold)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SPECTRA)
def test_trace_norm_is_the_sum_of_singular_values(name, device):
    _, _, s, _, K = with_spectrum(SPECTRA[name], device)
    found = products.trace_norm_of_gram(K)
    assert found.shape == (3,)
    most = 30 * products.LEAST_ROOT * float(s[1:].norm()) + 1e-300
    torch.testing.assert_close(found, s.sum().expand(3), rtol=0, atol=most)


def test_matrices_of_one_batch_do_not_affect_each_other():
    Ks = [with_spectrum(SPECTRA[name], "cpu", 1)[-1] for name in ("offset", "low rank", "zero")]
    together = products.shrink_gram(torch.cat(Ks), 0.5)
    for T, K in zip(together, Ks, strict=True):
        torch.testing.assert_close(T, products.shrink_gram(K, 0.5)[0], rtol=0, atol=1e-10)


def test_rows_and_columns_of_zeros_stay_zero():
    K = torch.zeros(1, 35, 35, dtype=torch.float64)
    K[:, :30, :30] = with_spectrum(SPECTRA["spread"], "cpu", 1)[-1]
    T = products.shrink_gram(K, 0.5)
    assert T[:, 30:].abs().max() < 1e-12


def test_eigenvalues_are_computed_where_products_lose_digits(monkeypatch):
    A, U, s, V, K = with_spectrum(SPECTRA["spread"], "cpu")
    monkeypatch.setattr(products, "WORST_ROOT", -1.0)  # no inverse root is good enough
    monkeypatch.setattr(products, "sign", lambda M, low: torch.full_like(M, torch.nan))
    found = A @ products.shrink_gram(K, 0.5)
    torch.testing.assert_close(found, (U * (s - 0.5).clamp(min=0)) @ V.mT)


def test_sign_has_eigenvalues_one_and_minus_one():
    M = torch.diag(torch.tensor([1.0, 0.3, 1e-6, -1e-6, -1.0], dtype=torch.float64))[None]
    expected = torch.diag(torch.tensor([1.0, 1, 1, -1, -1], dtype=torch.float64))[None]
    torch.testing.assert_close(products.sign(M, 1e-6), expected)
