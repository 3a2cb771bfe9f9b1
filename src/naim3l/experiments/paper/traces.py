"""Runs of Algorithm 1 measured after some iterations, for Fig. 7, Fig. 8 and the ablation."""

from typing import Any

from naim3l.experiments.paper.comparison import VARIANTS
from naim3l.experiments.tasks import Plan, Task, usual_lam
from naim3l.solvers.paper import DEFAULT_MU, EIGENVALUE_CUTOFF


def trace_fits(
    plan: Plan,
    dataset: str,
    protocol: str,
    variant: str = "NAIM3L",
    *,
    lam: float | None = None,
    mu: float = DEFAULT_MU,
    cutoff: float | None = EIGENVALUE_CUTOFF,
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
