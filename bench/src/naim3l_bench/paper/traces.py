"""Runs of Algorithm 1 measured after some iterations, for Fig. 7, Fig. 8 and the ablation."""

from typing import Any

from naim3l_bench.paper.comparison import VARIANTS
from naim3l_bench.tasks import Plan, Task, usual_lam

# Those of the paper: the penalty of ADMM, and eigenvalues that count as zero.
MU, CUTOFF = 5.0, 0.005


def trace_fits(
    plan: Plan,
    dataset: str,
    protocol: str,
    variant: str = "NAIM3L",
    *,
    lam: float | None = None,
    mu: float = MU,
    cutoff: float | None = CUTOFF,
) -> list[Task]:
    """Runs of Algorithm 1, by default with the paper's lambda, mu and cut-off."""
    if lam is None:
        lam = usual_lam(dataset)
    parameters: dict[str, Any] = {
        "lam": lam,
        "mu": mu,
        "max_iter": plan.grids.checkpoints[-1],
        "tol": 0.0,
        "eigenvalue_cutoff": cutoff,
        "at": plan.grids.checkpoints,
        **VARIANTS[variant],
    }
    return plan.fits(dataset, "Algorithm 1", parameters, protocol=protocol)
