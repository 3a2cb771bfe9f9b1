"""The objective of the model as a loss for networks, on all rows or on a batch."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from numbers import Real
from typing import Any, TypeAlias

import torch
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus
from torch.nn.utils.rnn import pad_sequence

from naim3l._text import documented
from naim3l.estimators.naim3l import VARIANTS

PerView: TypeAlias = Tensor | Sequence[Tensor] | Mapping[str, Tensor]

DATA_TERMS = ("squared", "logistic")
LOSS_OPTIONS: dict[str, Any] = {
    "lam": [Interval(Real, 0, 1e10, closed="both")],
    "variant": [StrOptions(set(VARIANTS))],
    "data_term": [StrOptions(set(DATA_TERMS))],
    "positive_weight": [Interval(Real, 1e-6, 1e6, closed="both")],
    "cutoff": [Interval(Real, 0, None, closed="left"), None],
}
LARGEST_SHARE = 1 + 1e-6  # with rounding error
# Blocks with at least this share of the rows of the largest one are decomposed together.
STACKED_SHARE = 0.75


@documented(variants=VARIANTS, data_terms=DATA_TERMS)
@dataclass(eq=False)
class NAIM3LLoss(nn.Module):
    """The objective of the linear model, as a function of scores from any network.

    ::

        1/2 ||P * (A - Y)||^2 / p                               loss
        + lam * sum_k ||A_k||_* / sqrt(p_k)                     low_rank
        - lam * ||A||_* / sqrt(p)                               high_rank

    ``A`` has the scores of the rows of all views, ``A_k`` those of the rows whose label k is
    observed positive, ``Y`` the labels as 1 and -1, and ``P`` selects the known labels. On all
    rows the shares p and p_k are 1, and this is `naim3l.solvers.objective.Objective`.

    On a batch, p is the share of all rows that it contains, and p_k the share of the rows with
    label k. The first term is then an unbiased estimate of the term on all rows. Trace norms are
    not sums over rows: for rows drawn at random, ``p ||A||_* <= E ||A_b||_* <= sqrt(p) ||A||_*``,
    nearly with equality on the right where a batch has many more rows than the scores have dominant
    directions. So they are divided by ``sqrt(p)``, and underestimated by this factor at worst.

    Parameters
    ----------
    lam : float, default=0.4
        Weight of the regulariser; 0 leaves it out.
    variant : <variants>, default="full"
        Terms of the regulariser. "low-rank" leaves out the high-rank term, "loss" both.
    data_term : <data_terms>, default="squared"
        "logistic" has ``2 log(1 + exp(-y a))`` instead of ``1/2 (a - y)^2``. With the factor 2,
        both have the same slope at a = 0.
    positive_weight : float, default=1.0
        Weight of observed positives in the loss term.
    cutoff : float, optional
        Cut-off of `trace_norm`.

    Examples
    --------
    >>> import torch
    >>> from naim3l.deep import NAIM3LLoss
    >>> nets = {"image": torch.nn.Linear(5, 3), "text": torch.nn.Linear(4, 3)}
    >>> X = {"image": torch.randn(8, 5), "text": torch.randn(6, 4)}  # rows have no counterparts
    >>> Y = {view: torch.randint(2, (len(rows), 3)).float() for view, rows in X.items()}
    >>> Y["text"][:, 2] = torch.nan  # never recorded there
    >>> loss = NAIM3LLoss(lam=0.4)({view: nets[view](rows) for view, rows in X.items()}, Y)
    >>> loss.backward()
    """

    lam: float = 0.4
    _: KW_ONLY
    variant: str = "full"
    data_term: str = "squared"
    positive_weight: float = 1.0
    cutoff: float | None = field(default_factory=lambda: None)  # numpydoc lists None in a class

    def __post_init__(self) -> None:
        super().__init__()
        given = {name: getattr(self, name) for name in LOSS_OPTIONS}
        validate_parameter_constraints(LOSS_OPTIONS, given, caller_name="NAIM3LLoss")

    def forward(
        self, scores: PerView, labels: PerView, *, share: float = 1.0, label_shares: Any = None
    ) -> Tensor:
        """Total loss of all views.

        Parameters
        ----------
        scores : tensor of shape (n_rows, n_labels), or sequence or mapping of them by view
            Scores of the rows of the batch.
        labels : of the form of ``scores``
            1 = yes, 0 = no, NaN = unknown; other values are refused.
        share : float, default=1.0
            Share p of all rows that the batch contains, above 0 and at most 1.
        label_shares : tensor or array-like of shape (n_labels,), optional
            Shares p_k, for batches that favour the rows of some labels; by default all are p. They
            are used for labels that are positive in the batch, and must be above 0 there. Values
            above 1, where rows are drawn more than once, count as 1.

        Returns
        -------
        zero-dimensional tensor
            The loss.

        Examples
        --------
        >>> import torch
        >>> from naim3l.deep import NAIM3LLoss
        >>> scores, labels = torch.tensor([[1.0, -1.0]]), torch.tensor([[1.0, 0.0]])
        >>> NAIM3LLoss(lam=0.0)(scores, labels)  # all scores are as they should be
        tensor(0.)
        """
        parts = self.parts(scores, labels, share=share, label_shares=label_shares)
        return torch.stack(list(parts.values())).sum()

    def parts(
        self, scores: PerView, labels: PerView, *, share: float = 1.0, label_shares: Any = None
    ) -> dict[str, Tensor]:
        """Terms of the loss, with their signs and weights.

        Parameters
        ----------
        scores, labels, share, label_shares
            As for `forward`.

        Returns
        -------
        dict of str to zero-dimensional tensor
            "loss", "low_rank" and "high_rank", which sum to the result of `forward`.

        Examples
        --------
        >>> import torch
        >>> from naim3l.deep import NAIM3LLoss
        >>> parts = NAIM3LLoss().parts(torch.eye(2), torch.eye(2))
        >>> {name: round(term.item(), 2) for name, term in parts.items()}
        {'loss': 1.0, 'low_rank': 0.8, 'high_rank': -0.8}
        """
        A, Y = _stack(scores, labels)
        if not (isinstance(share, Real) and 0 < share <= LARGEST_SHARE):
            raise ValueError(
                f"share must be above 0 and at most 1, the batch's part of all rows; got {share!r}."
            )
        if label_shares is not None:
            label_shares = _check_label_shares(label_shares, Y)
        return self._terms(A, Y, float(share), label_shares)

    def _terms(
        self, A: Tensor, Y: Tensor, share: Any, label_shares: Tensor | None
    ) -> dict[str, Tensor]:
        """`parts` of stacked scores and labels, without its checks.

        They are (..., n_rows, n_labels), shares (...), and those of labels (..., n_labels); rows of
        zeros without any known label change nothing.
        """
        has_low_rank, has_high_rank = VARIANTS[self.variant]
        with torch.autocast(A.device.type, enabled=False):
            # Squares of half-precision numbers keep no digits that a decomposition could use.
            A = A.float() if A.dtype in (torch.float16, torch.bfloat16) else A
            if label_shares is None:
                label_shares = torch.full(A.shape[-1:], float(share), device=A.device)
            low_rank = high_rank = A.new_zeros(A.shape[:-2])
            if has_low_rank and self.lam > 0:
                factors = label_shares.to(A).clamp(max=1).rsqrt()
                low_rank = self.lam * label_trace_norms(A, Y, factors, self.cutoff)
            if has_high_rank and self.lam > 0:
                high_rank = -self.lam / share**0.5 * trace_norm(A, cutoff=self.cutoff)
            loss = self._data_term(A, Y) / share
        return {"loss": loss, "low_rank": low_rank, "high_rank": high_rank}

    def _data_term(self, A: Tensor, Y: Tensor) -> Tensor:
        """The first term of stacked scores and labels, on all rows."""
        known = ~Y.isnan()
        signs = torch.where(Y > 0, 1.0, -1.0).to(A.dtype)
        entries = (A - signs) ** 2 / 2 if self.data_term == "squared" else 2 * softplus(-signs * A)
        weights = torch.where(Y > 0, self.positive_weight, 1.0).to(A.dtype)
        return torch.where(known, weights * entries, 0).sum(dim=(-2, -1))


def label_trace_norms(A: Tensor, Y: Tensor, factors: Tensor, cutoff: Any = None) -> Tensor:
    """Sum over labels of a factor times the trace norm of the scores of their positive rows.

    Scores and labels are (..., n_rows, n_labels), factors (..., n_labels). Blocks of similar height
    are stacked and decomposed in one call, because for small blocks the overhead of a call exceeds
    the arithmetic.
    """
    n_rows, n_labels = A.shape[-2:]
    block, rows = (Y.mT > 0).reshape(-1, n_rows).nonzero(as_tuple=True)
    heights = torch.bincount(block, minlength=factors.numel()).tolist()
    rows_of = (rows + block // n_labels * n_rows).cpu().split(heights)
    groups: list[list[int]] = []  # tallest first; labels without rows are in none
    for k in sorted((k for k, n in enumerate(heights) if n), key=lambda k: -heights[k]):
        if groups and heights[k] >= STACKED_SHARE * heights[groups[-1][0]]:
            groups[-1].append(k)
        else:
            groups.append([k])
    stacked = A.reshape(-1, n_labels)
    filled = torch.cat([stacked, A.new_zeros(1, n_labels)])  # the last row pads the blocks
    total, factor_of = A.new_zeros(factors.numel() // n_labels), factors.flatten()
    for group in groups:
        parts = [rows_of[k] for k in group]
        chosen = pad_sequence(parts, batch_first=True, padding_value=len(stacked)).to(A.device)
        blocks = filled.index_select(0, chosen.flatten()).view(*chosen.shape, -1)
        places = torch.tensor(group, device=A.device)
        norms = factor_of[places] * trace_norm(blocks, cutoff=cutoff)
        total = total.index_add(0, places // n_labels, norms)
    return total.view(A.shape[:-2])


def _stack(scores: Any, labels: Any) -> tuple[Tensor, Tensor]:
    """Scores and labels of all views in one tensor each, checked."""
    if any(isinstance(scores, kind) != isinstance(labels, kind) for kind in (Tensor, Mapping)):
        raise TypeError("scores and labels must both be a tensor, both sequences or both mappings.")
    A, Y = scores, labels
    if isinstance(A, Tensor):
        A, Y = {"all": A}, {"all": Y}
    elif not isinstance(A, Mapping):
        A, Y = dict(enumerate(A)), dict(enumerate(Y))
    if set(A) != set(Y) or not A:
        raise ValueError(f"scores are of views {list(A)}, labels of {list(Y)}.")
    width = next(iter(A.values())).shape[-1]
    for view, block in A.items():
        known = Y[view]
        if block.ndim != 2 or block.shape != known.shape or block.shape[1] != width:
            raise ValueError(
                f"view {view!r}: scores {tuple(block.shape)} and labels {tuple(known.shape)}; "
                f"both must be (n_rows, {width})."
            )
        # On CUDA this waits for the device, which trace norms do several times.
        for i, k in (~((known == 0) | (known == 1) | known.isnan())).nonzero().tolist():
            raise ValueError(
                f"view {view!r}, row {i}, label {k}: {float(known[i, k]):g} is not a label; "
                "labels are 1 = yes, 0 = no, NaN = unknown."
            )
    return torch.cat(list(A.values())), torch.cat([Y[view] for view in A])


def _check_label_shares(given: Any, Y: Tensor) -> Tensor:
    """Shares of the rows of each label, one per column of ``Y``, on its device."""
    shares = torch.empty(0)
    with suppress(TypeError, ValueError):
        shares = torch.as_tensor(given, dtype=torch.float64, device=Y.device)
    if shares.shape != Y.shape[1:]:
        raise ValueError(f"label_shares must be {Y.shape[1]} numbers, one per label; got {given}.")
    for k in ((Y > 0).any(dim=0) & ~((shares > 0) & shares.isfinite())).nonzero().flatten():
        raise ValueError(
            f"label_shares, label {k}: must be a finite number > 0 for a label that is positive in "
            f"the batch, got {float(shares[k]):g}."
        )
    return shares


def trace_norm(A: Tensor, *, cutoff: float | None = None) -> Tensor:
    """Sum of the singular values of each matrix, with ``UV'`` as its gradient.

    Parameters
    ----------
    A : tensor of shape (..., n_rows, n_columns)
        Finite values in float32 or float64; the decomposition is in float64, which MPS lacks.
    cutoff : float, optional
        Eigenvalues of the Gram matrix (squared singular values) up to this one count as zero. By
        default the rounding error of the largest.

    Returns
    -------
    tensor of shape (...)
        The norms.

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
    """Value and gradient of the trace norm, after Algorithm 2.

    The gradient at ``A = U diag(s) V'`` is ``UV'``, with ``A'A = V diag(s^2) V'`` the same as
    ``A V diag(1/s) V'``. It needs no derivative of a decomposition, which fails where two singular
    values are equal. Those below a cut-off are left out, which selects one sub-gradient.
    """

    @staticmethod
    def forward(ctx: Any, A: Tensor, cutoff: Any) -> Tensor:
        tall = A.shape[-2] >= A.shape[-1]
        # A Gram matrix in float32 loses singular values below 1 % of the largest one, which for
        # rare labels is large: their common offset.
        D = A.double()
        eigenvalues, vectors = torch.linalg.eigh(D.mT @ D if tall else D @ D.mT)
        if cutoff is None:
            # Rounding of the decomposition and of the entries, whose errors enter squared.
            rounding = max(torch.finfo(torch.float64).eps, torch.finfo(A.dtype).eps ** 2)
            cutoff = rounding * max(A.shape[-2:]) * eigenvalues[..., -1:].clamp(min=0)
        kept = eigenvalues > cutoff
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
