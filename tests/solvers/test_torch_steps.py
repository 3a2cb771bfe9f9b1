"""Thresholding, trace norms and W-steps by products, compared with what is known of them."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("array_api_compat")

from naim3l.problem.rows import Problem  # noqa: E402
from naim3l.problem.torch_problem import TorchProblem  # noqa: E402
from naim3l.solvers import torch_steps  # noqa: E402
from naim3l.solvers.thresholding import shrink_labels, shrink_relaxed, sum_trace_norms  # noqa: E402
from naim3l.solvers.weights import IterativeWeightStep, make_weight_step  # noqa: E402

pytestmark = pytest.mark.torch

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=NO_GPU)]
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
    found = A @ torch_steps.shrink_gram(K, threshold)
    expected = (U * (s - threshold).clamp(min=0)) @ V.mT
    error = (found - expected).abs().max()
    # A squared singular value has a rounding error of the size of the largest one.
    assert error <= 1e-9 * max(float(s.max()), threshold)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SPECTRA)
def test_trace_norm_is_the_sum_of_singular_values(name, device):
    _, _, s, _, K = with_spectrum(SPECTRA[name], device)
    found = torch_steps.trace_norm_of_gram(K)
    assert found.shape == (3,)
    most = 30 * torch_steps.LEAST_ROOT * float(s[1:].norm()) + 1e-300
    torch.testing.assert_close(found, s.sum().expand(3), rtol=0, atol=most)


def test_matrices_of_one_batch_do_not_affect_each_other():
    Ks = [with_spectrum(SPECTRA[name], "cpu", 1)[-1] for name in ("offset", "low rank", "zero")]
    together = torch_steps.shrink_gram(torch.cat(Ks), 0.5)
    for T, K in zip(together, Ks, strict=True):
        torch.testing.assert_close(T, torch_steps.shrink_gram(K, 0.5)[0], rtol=0, atol=1e-10)


def test_rows_and_columns_of_zeros_stay_zero():
    K = torch.zeros(1, 35, 35, dtype=torch.float64)
    K[:, :30, :30] = with_spectrum(SPECTRA["spread"], "cpu", 1)[-1]
    T = torch_steps.shrink_gram(K, 0.5)
    assert T[:, 30:].abs().max() < 1e-12


def test_eigenvalues_are_computed_where_products_lose_digits(monkeypatch):
    A, U, s, V, K = with_spectrum(SPECTRA["spread"], "cpu")
    monkeypatch.setattr(torch_steps, "WORST_ROOT", -1.0)  # no inverse root is good enough
    monkeypatch.setattr(torch_steps, "sign", lambda M, low: torch.full_like(M, torch.nan))
    found = A @ torch_steps.shrink_gram(K, 0.5)
    torch.testing.assert_close(found, (U * (s - 0.5).clamp(min=0)) @ V.mT)


def test_sign_has_eigenvalues_one_and_minus_one():
    M = torch.diag(torch.tensor([1.0, 0.3, 1e-6, -1e-6, -1.0], dtype=torch.float64))[None]
    expected = torch.diag(torch.tensor([1.0, 1, 1, -1, -1], dtype=torch.float64))[None]
    torch.testing.assert_close(torch_steps.sign(M, 1e-6), expected)


def both(device, n_labels=12, sizes=((90, 5), (20, 4))):
    """A problem with tall and short blocks, in memory and on a device."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=size) for size in sizes]
    Y = [rng.choice([-1.0, 0, 1], (len(rows), n_labels), p=[0.5, 0.3, 0.2]) for rows in X]
    Y[0][:, 0] = -1  # a label with few positives, whose block is short
    problem = Problem(X, Y)
    return problem, TorchProblem(problem, torch.device(device))


def close(found, expected, atol):
    np.testing.assert_allclose(found.cpu().numpy(), expected, atol=atol)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("threshold", [0.0, 1.5])
def test_tall_and_short_blocks_are_thresholded_as_in_memory(device, threshold):
    problem, moved = both(device)
    assert moved._tall and moved._short
    arrays = np.random.default_rng(2).normal(size=(3, problem.n_block_rows, problem.n_labels))
    tensors = [moved.asarray(A.copy()) for A in arrays]  # some are changed in place
    found, norms = shrink_labels(moved, tensors[0], threshold)
    Z, expected = shrink_labels(problem, arrays[0], threshold)
    close(found, Z, atol=1e-9)
    assert norms == pytest.approx(expected)
    total = sum_trace_norms(problem, arrays[0])
    assert sum_trace_norms(moved, tensors[0]) == pytest.approx(total)
    B, Z, *numbers = shrink_relaxed(moved, *tensors, (0.5, -0.9, 1.4), threshold)
    B_rows, Z_rows, *expected = shrink_relaxed(problem, *arrays, (0.5, -0.9, 1.4), threshold)
    close(B, B_rows, atol=1e-12)
    close(Z, Z_rows, atol=1e-9)
    assert numbers == pytest.approx(expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_weight_steps_solve_the_same_systems_as_in_memory(device, ridge):
    problem, moved = both(device)
    B = problem.targets
    step = make_weight_step(moved, ridge, 1e-10)
    assert isinstance(step, torch_steps.TorchWeightStep)
    for mu in (0.5, 0.6, 2.0):  # the preconditioner of 0.5 is used for 0.6, too
        found = step(moved.asarray(B), mu, moved.asarray(np.zeros_like(B)))
        expected = IterativeWeightStep(problem, ridge, 1e-10)(B, mu, np.zeros_like(B))
        close(found, expected, atol=1e-7)
