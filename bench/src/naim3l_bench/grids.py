"""The values that experiments try: part of a plan, so that a small run can have few."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Candidates of every method that is compared with others.
BUDGET = 8
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


def _rivals() -> dict[str, dict[str, tuple[Any, ...]]]:
    """Values by method and parameter; candidates are all combinations.

    The default of every parameter is within its values, as is what the papers suggest, if they do.
    """
    tuned = {"lam": (0.1, 0.2, 0.4, 0.8), "ridge": (0.3, 5.0)}
    return {
        "NAIM3L": {"lam": (0.01, 0.03, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2), "ridge": (0.0,)},
        "NAIM3L-tuned": tuned,
        "PerViewRidge": {"ridge": (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)},
        "PerViewLogistic": {"C": STRENGTHS},
        "IMVWL": {"label_weight": (0.01, 0.05, 0.2, 1.0), "rank": (20, 50)},
        "LRMMC": {"lam": (0.01, 0.03, 0.1, 0.3), "shrinkage": (0.03, 0.1)},
        "MVLIV": {"ridge": (0.5, 2.0), "label_scale": (0.3, 1.0), "rank": (20, 50)},
        "FusedRidge": {"ridge": STRENGTHS},
        "DM2L": {"lam": (0.03, 0.3, 1.0, 3.0), "ridge": (1.0, 10.0)},
        "GLOCAL": {"lam": (0.1, 1.0), "ridge": (0.05, 0.25), "rank": (20, 50)},
        "MultiGraph": {"label_weight": (1.0, 3.0, 10.0, 100.0), "n_neighbors": (10, 20)},
        "IMSF": {"sparsity": (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)},
        "LVSL": {"ridge": (0.1, 0.5, 2.0, 10.0), "agreement": (1.0, 100.0)},
        "NAIM3L-aligned": tuned,
        "NAIM3L-evidence": tuned,
    }


def _blend() -> dict[str, Any]:
    network = {"hidden": [2048, 1024], "max_epochs": 40, "noise": 0.4}
    return {"n_kernel_components": 400, "n_components": 200, "overlap": 0.5, **network}


@dataclass(frozen=True)
class Grids:
    """Values to choose from on held-out entries, and sizes of costly runs.

    Attributes
    ----------
    lams : tuple of float
        Where the paper has no lambda for a dataset; in steps of about 2.
    checkpoints : tuple of int
        Iterations of Algorithm 1 after which metrics are taken; the paper's program stops at the
        last.
    lams_with_ridge, lams_without_ridge : tuple of float
        Of models on features of their own. Without a ridge the objective may have a lower bound at
        small values only.
    ridges, kernel_ridges, frontier_ridges : tuple of float
        Beside lambda: on features, on kernels, and of the curves of the frontier.
    ridges_alone, kernel_ridges_alone : tuple of float
        Of ridge regression; the former are those of the frontier, too.
    Cs, kernel_Cs : tuple of float
        Of logistic regression.
    n_landmarks : int
        Of kernel models.
    deep : mapping of str to object
        Parameters of the networks that are not their defaults.
    blend : mapping of str to object
        Parameters of the blend: components of its two members, the overlap of views, and
        parameters of the networks that are not their defaults.
    rivals : mapping of str to mapping of str to tuple
        Of each method that is compared, by parameter; the candidates are all combinations, at most
        ``BUDGET``.
    """

    lams: tuple[float, ...] = (0.01, 0.03, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
    checkpoints: tuple[int, ...] = (20, 50, 100, 200)
    lams_with_ridge: tuple[float, ...] = (0.2, 0.4, 0.8)
    lams_without_ridge: tuple[float, ...] = (0.01, 0.03, 0.1, 0.2, 0.4, 0.8)
    ridges: tuple[float, ...] = (1.0, 10.0)
    kernel_ridges: tuple[float, ...] = (1.0, 3.0)
    frontier_ridges: tuple[float, ...] = (0.3, 3.0)
    ridges_alone: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 30.0)
    kernel_ridges_alone: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0)
    Cs: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0)
    kernel_Cs: tuple[float, ...] = (1.0, 10.0, 100.0)
    n_landmarks: int = 400
    deep: Mapping[str, Any] = field(default_factory=lambda: {"n_components": 200})
    blend: Mapping[str, Any] = field(default_factory=_blend)
    rivals: Mapping[str, Mapping[str, tuple[Any, ...]]] = field(default_factory=_rivals)
