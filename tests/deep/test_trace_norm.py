import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

from naim3l.deep import trace_norm  # noqa: E402
from naim3l.solvers.nuclear import trace_norm as numpy_trace_norm  # noqa: E402
from naim3l.solvers.nuclear import trace_norm_subgradient  # noqa: E402

SHAPES = [(5, 3), (3, 5), (4, 4), (1, 6), (2, 3, 6, 2)]
DTYPES = [torch.float32, torch.float64]


def with_singular_values(values, shape, rng, dtype=torch.float64):
    U, _, Vt = np.linalg.svd(rng.normal(size=shape), full_matrices=False)
    return torch.tensor(U[:, : len(values)] * values @ Vt[: len(values)], dtype=dtype)


def gradient(A, **options):
    A = A.clone().requires_grad_()
    trace_norm(A, **options).sum().backward()
    return A.grad


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradient_is_that_of_finite_differences(shape, rng):
    A = torch.tensor(rng.normal(size=shape), requires_grad=True)
    assert torch.autograd.gradcheck(trace_norm, (A,))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_value_and_gradient_are_those_of_the_numpy_functions(shape, rng):
    A = rng.normal(size=shape)
    np.testing.assert_allclose(trace_norm(torch.tensor(A)), numpy_trace_norm(A), rtol=1e-12)
    np.testing.assert_allclose(gradient(torch.tensor(A)), trace_norm_subgradient(A), atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("values", [[2, 2, 2], [3, 1, 1, 1], [1, 1, 0, 0], [1, 1e-9], [0], [1e-15]])
@pytest.mark.parametrize("shape", [(7, 5), (5, 7)], ids=str)
def test_gradient_is_bounded_where_singular_values_repeat_or_vanish(values, shape, dtype, rng):
    A = with_singular_values(np.array(values, dtype=float), shape, rng, dtype)
    G = gradient(A)
    assert G.dtype == dtype and torch.isfinite(G).all()
    assert torch.linalg.matrix_norm(G, 2) <= 1 + 1e-3
    # A sub-gradient: <G, A> is the norm itself, up to singular values that count as zero.
    eps = torch.finfo(dtype).eps
    slack = max(values) * max(shape) ** 1.5 * eps**0.5
    assert abs(float((G * A).sum()) - sum(values)) <= slack


def test_inequality_of_sub_gradients_holds_at_repeated_singular_values(rng):
    A = with_singular_values(np.array([2.0, 2.0, 0.0]), (6, 4), rng)
    G = gradient(A)
    for _ in range(50):
        B = A + torch.tensor(rng.normal(size=A.shape)) * float(rng.choice([1e-3, 1.0]))
        assert trace_norm(B) >= trace_norm(A) + (G * (B - A)).sum() - 1e-12


def test_zero_matrix_and_empty_ones_have_gradient_zero():
    for shape in [(3, 2), (0, 4), (4, 0), (2, 0, 3)]:
        A = torch.zeros(shape, dtype=torch.float64)
        assert trace_norm(A).sum() == 0
        assert torch.equal(gradient(A), A)


def test_small_singular_values_beside_a_large_offset_count_in_float32(rng):
    A = (-5 + 0.01 * rng.normal(size=(2000, 30))).astype(np.float32)
    exact = numpy_trace_norm(A.astype(float))
    assert float(trace_norm(torch.from_numpy(A))) == pytest.approx(exact, rel=1e-5)
    G = gradient(torch.from_numpy(A))
    np.testing.assert_allclose(G, trace_norm_subgradient(A.astype(float)), atol=1e-5)


def test_rows_of_zeros_change_nothing(rng):
    A = torch.tensor(rng.normal(size=(4, 3)))
    filled = torch.cat([A, torch.zeros(2, 3, dtype=A.dtype)])
    torch.testing.assert_close(trace_norm(filled), trace_norm(A))
    torch.testing.assert_close(gradient(filled)[:4], gradient(A))
    assert not gradient(filled)[4:].any()


def test_cutoff_leaves_small_singular_values_out(rng):
    A = with_singular_values(np.array([2.0, 0.05]), (5, 4), rng)
    assert float(trace_norm(A, cutoff=0.005)) == pytest.approx(2.0)
    assert torch.linalg.matrix_rank(gradient(A, cutoff=0.005)) == 1
    assert torch.linalg.matrix_rank(gradient(A)) == 2


def test_each_matrix_of_a_stack_has_its_own_factor(rng):
    A = torch.tensor(rng.normal(size=(3, 4, 2)), requires_grad=True)
    (trace_norm(A) @ torch.tensor([1.0, 0.0, -2.0], dtype=A.dtype)).backward()
    torch.testing.assert_close(A.grad[0], gradient(A.detach()[0]))
    assert not A.grad[1].any()
    torch.testing.assert_close(A.grad[2], -2 * gradient(A.detach()[2]))
