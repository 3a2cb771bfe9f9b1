"""Trace norm as a function that torch can differentiate, after Algorithm 2.

The gradient of the trace norm at ``A = U diag(s) V'`` is ``UV'``. It needs no derivative of a
decomposition, whose formula divides by differences of singular values and fails where two of
them are equal. With ``A'A = V diag(s^2) V'`` the gradient is ``A V diag(1/s) V'``. Singular values
below a cut-off are left out, which selects one sub-gradient where the norm is not differentiable.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def trace_norm(A: Tensor, *, cutoff: float | None = None) -> Tensor:
    """Sum of the singular values of each matrix, with ``UV'`` as its gradient.

    Parameters
    ----------
    A : tensor of shape (..., n_rows, n_columns)
        Finite values in float32 or float64. The decomposition is in float64, which CPUs and CUDA
        support and MPS does not.
    cutoff : float, optional
        Eigenvalues of the Gram matrix (squared singular values) up to this one count as zero. By
        default the rounding error of the largest.

    Returns
    -------
    tensor of shape (...)

    Examples
    --------
    >>> import torch
    >>> from naim3l.deep import trace_norm
    >>> A = torch.eye(3, dtype=torch.float64, requires_grad=True)  # three equal singular values
    >>> trace_norm(A).backward()
    >>> bool(torch.allclose(A.grad, torch.eye(3, dtype=torch.float64)))
    True
    """
    if 0 in A.shape[-2:]:
        return A.sum(dim=(-2, -1))  # zero, but still part of the graph
    return _TraceNorm.apply(A, cutoff)


class _TraceNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, A: Tensor, cutoff: float | None) -> Tensor:
        tall = A.shape[-2] >= A.shape[-1]
        # A Gram matrix in float32 loses singular values below 1 % of the largest one, which for
        # rare labels is large: their common offset.
        D = A.double()
        eigenvalues, vectors = torch.linalg.eigh(D.mT @ D if tall else D @ D.mT)
        kept = eigenvalues > _threshold(A, eigenvalues, cutoff)
        roots = torch.where(kept, eigenvalues, 0).sqrt()
        if ctx.needs_input_grad[0]:
            weights = torch.where(kept, 1 / torch.where(kept, roots, 1), 0)
            ctx.save_for_backward(D, (vectors * weights.unsqueeze(-2)) @ vectors.mT)
            ctx.tall, ctx.dtype = tall, A.dtype
        return roots.sum(dim=-1).to(A.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        D, T = ctx.saved_tensors
        UV = (D @ T if ctx.tall else T @ D).to(ctx.dtype)
        return gradients[0][..., None, None] * UV, None


def _threshold(A: Tensor, eigenvalues: Tensor, cutoff: float | None) -> Tensor | float:
    """Absolute cut-off, or the rounding error of the largest eigenvalue of each matrix."""
    if cutoff is not None:
        return cutoff
    # Rounding of the decomposition and of the entries; errors of A enter squared.
    rounding = max(torch.finfo(torch.float64).eps, torch.finfo(A.dtype).eps ** 2)
    return rounding * max(A.shape[-2:]) * eigenvalues[..., -1:].clamp(min=0)
