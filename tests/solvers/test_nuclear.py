"""Each function of nuclear.py is proved from its definition, over shapes and ranks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naim3l.solvers.nuclear import (
    inverse_root_of_gram,
    singular_value_threshold,
    trace_norm,
    trace_norm_subgradient,
)


@st.composite
def matrices(draw):
    """Matrix of any shape, tall, wide or square, and of any rank, zero included."""
    n, c = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    rank = draw(st.integers(0, min(n, c)))
    scale = draw(st.sampled_from([1e-3, 1.0, 1e3]))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    return scale * rng.normal(size=(n, rank)) @ rng.normal(size=(rank, c)), rng


def spectral_norm(A):
    return np.linalg.norm(A, 2)


@given(matrices())
def test_trace_norm_is_the_sum_of_singular_values(drawn):
    A, _ = drawn
    assert trace_norm(A) == pytest.approx(np.linalg.svd(A, compute_uv=False).sum(), rel=1e-9)


@given(matrices())
def test_trace_norm_is_the_greatest_inner_product_with_a_contraction(drawn):
    """Dual norm: <A, B> <= ||A||_* for every B of spectral norm 1."""
    A, rng = drawn
    B = rng.normal(size=A.shape)
    assert np.sum(A * B) / spectral_norm(B) <= trace_norm(A) * (1 + 1e-9)


@given(matrices())
def test_subgradient_is_a_contraction_that_attains_the_norm(drawn):
    """G is in the sub-differential at A exactly if ||G||_2 <= 1 and <A, G> = ||A||_*."""
    A, _ = drawn
    G = trace_norm_subgradient(A)
    assert G.shape == A.shape
    assert spectral_norm(G) <= 1 + 1e-6
    assert np.sum(A * G) == pytest.approx(trace_norm(A), rel=1e-9)


@given(matrices())
def test_subgradient_inequality(drawn):
    A, rng = drawn
    B = A + rng.normal(size=A.shape)
    lower = trace_norm(A) + np.sum(trace_norm_subgradient(A) * (B - A))
    assert trace_norm(B) >= lower - 1e-9 * (1 + abs(lower))


@given(matrices())
def test_subgradient_equals_the_singular_vectors_product(drawn):
    A, _ = drawn
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    kept = s > 1e-7 * max(s.max(), 1e-300)
    # The Gram matrix squares the condition: the drawn ranks leave a clear gap most of the time.
    if kept.any() and s[kept].min() < 1e-4 * s.max():
        return
    np.testing.assert_allclose(trace_norm_subgradient(A), U[:, kept] @ Vt[kept], atol=1e-7)


def test_subgradient_is_the_gradient_where_there_is_one(rng):
    A, D, h = rng.normal(size=(7, 4)), rng.normal(size=(7, 4)), 1e-6
    numerical = (trace_norm(A + h * D) - trace_norm(A - h * D)) / (2 * h)
    assert np.sum(trace_norm_subgradient(A) * D) == pytest.approx(numerical, rel=1e-6)


@pytest.mark.parametrize("shape", [(9, 4), (4, 9)])
def test_cutoff_drops_squared_singular_values_up_to_it(rng, shape):
    U, _, Vt = np.linalg.svd(rng.normal(size=shape), full_matrices=False)
    s = np.array([2.0, 1.0, 0.08, 0.06])  # squares: 4, 1, 0.0064, 0.0036
    A = U * s @ Vt
    np.testing.assert_allclose(
        trace_norm_subgradient(A, cutoff=0.005), U[:, :3] @ Vt[:3], atol=1e-10
    )
    assert trace_norm(A, cutoff=0.005) == pytest.approx(s[:3].sum())
    assert trace_norm(A) == pytest.approx(s.sum())
    norm, T = inverse_root_of_gram(A.T @ A, cutoff=0.005)
    assert norm == pytest.approx(s.sum())  # the cut-off is for the sub-gradient alone
    np.testing.assert_allclose(A @ T, U[:, :3] @ Vt[:3], atol=1e-10)


@settings(max_examples=200)
@given(matrices(), st.floats(0, 3))
def test_threshold_satisfies_the_three_point_inequality(drawn, t):
    """Z = prox(A) exactly if f(B) >= f(Z) + <A - Z, B - Z> for every B, f = t ||.||_*."""
    A, rng = drawn
    Z = singular_value_threshold(A, t)
    scale = 1 + np.linalg.norm(A)
    for B in (A, np.zeros_like(A), Z + rng.normal(size=A.shape), -A):
        gap = t * trace_norm(B) - t * trace_norm(Z) - np.sum((A - Z) * (B - Z))
        assert gap >= -1e-7 * scale**2


@given(matrices(), st.floats(0, 3))
def test_threshold_shrinks_each_singular_value(drawn, t):
    A, _ = drawn
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    expected = U * np.maximum(s - t, 0) @ Vt
    np.testing.assert_allclose(
        singular_value_threshold(A, t), expected, atol=1e-7 * (1 + s.max(initial=0))
    )


def test_threshold_zero_is_the_identity_and_a_copy(rng):
    A = rng.normal(size=(3, 5))
    Z = singular_value_threshold(A, 0.0)
    np.testing.assert_array_equal(Z, A)
    assert Z is not A


@pytest.mark.parametrize("shape", [(0, 4), (4, 0)])
def test_empty_matrices(shape):
    A = np.empty(shape)
    assert trace_norm(A) == 0
    assert trace_norm_subgradient(A).shape == shape
    assert singular_value_threshold(A, 1.0).shape == shape


@given(st.integers(1, 5), st.integers(1, 8), st.integers(1, 8), st.floats(0.01, 3))
def test_a_stack_is_treated_matrix_by_matrix(n, rows, columns, t):
    rng = np.random.default_rng(rows)
    stack = rng.normal(size=(n, rows, columns)) * rng.choice([0.01, 1, 10], size=(n, 1, 1))
    stack[0, rows // 2 :] = 0  # a matrix filled up with rows of zeros
    np.testing.assert_allclose(trace_norm(stack), [trace_norm(A) for A in stack])
    for function in (trace_norm_subgradient, lambda A: singular_value_threshold(A, t)):
        expected = np.stack([function(A) for A in stack])
        np.testing.assert_allclose(function(stack), expected, atol=1e-9)
        assert not np.any(function(stack)[0, rows // 2 :])


@given(matrices(), st.sampled_from([1e-9, 1e-3, 0.1, 0.25, 0.9]))
def test_slack_keeps_a_contraction_that_misses_the_norm_by_it(drawn, share):
    A, _ = drawn
    whole, _ = inverse_root_of_gram(A.T @ A)
    slack = share * whole
    found, T = inverse_root_of_gram(A.T @ A, slack=slack)
    assert found == whole
    assert spectral_norm(A @ T) <= 1 + 1e-6
    missing = whole - np.sum(A * (A @ T))
    if share <= 0.25:
        assert missing == pytest.approx(slack, rel=0.01, abs=1e-9 * whole)
    else:  # weights of at most 1 / sqrt(s^2 + max(s)^2) keep a part of the largest
        assert 0 <= missing <= slack * (1 + 1e-9)
