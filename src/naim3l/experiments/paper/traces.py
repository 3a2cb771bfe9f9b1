"""Algorithm 1 of the paper observed on its way; shared by Fig. 7, Fig. 8 and the ablation."""

from dataclasses import replace
from typing import Any

from naim3l.experiments.paper.comparison import VARIANTS
from naim3l.experiments.tasks import Plan, Task, paper_lam
from naim3l.solvers.paper import DEFAULT_MU, EIGENVALUE_CUTOFF

# A run of 200 iterations costs as much as ten fits: where many are needed, fewer seeds do.
FEW_SEEDS = 3
DEFAULT_LAM = 0.4


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
        lam = paper_lam(dataset) or DEFAULT_LAM
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


def few_seeds(plan: Plan) -> Plan:
    """The plan with no more seeds than costly runs are worth."""
    return replace(plan, repeats=min(plan.repeats, FEW_SEEDS))
