"""What is to be computed: tasks, named by everything that determines them, and plans of them."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from naim3l import __version__
from naim3l_bench.datasets import CATALOG, MultiView

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
        "LabelSubspaceRidge": {"ridge": (0.03, 0.3, 3.0, 30.0), "shrinkage": (0.1, 1.0)},
        "PerViewLogistic": {"C": STRENGTHS},
        "IMVWL": {"label_weight": (0.01, 0.05, 0.2, 1.0), "rank": (20, 50)},
        "LRMMC": {"lam": (0.01, 0.03, 0.1, 0.3), "shrinkage": (0.03, 0.1)},
        "MVLIV": {"ridge": (0.5, 2.0), "label_scale": (0.3, 1.0), "rank": (20, 50)},
        "CPMNets": {"lam": (0.1, 1.0, 3.0, 10.0), "ridge": (0.03, 0.5)},
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
    return {
        "n_kernel_components": 400,
        "n_components": 200,
        "overlap": 0.5,
        "network": {"hidden": [2048, 1024], "noise": 0.4},
        "training": {"max_epochs": 40},
    }


@dataclass(frozen=True)
class Grids:
    """Values to choose from on held-out entries, and sizes of costly runs."""

    # Where the paper has no lambda for a dataset; in steps of about 2.
    lams: tuple[float, ...] = (0.01, 0.03, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
    # Iterations of Algorithm 1 to take metrics after; the paper's program stops at the last.
    checkpoints: tuple[int, ...] = (20, 50, 100, 200)
    # Of models on features of their own. Without a ridge the objective may have a lower bound at
    # small values only.
    lams_with_ridge: tuple[float, ...] = (0.2, 0.4, 0.8)
    lams_without_ridge: tuple[float, ...] = (0.01, 0.03, 0.1, 0.2, 0.4, 0.8)
    # Beside lambda: on features, on kernels, and of the curves of the frontier.
    ridges: tuple[float, ...] = (1.0, 10.0)
    kernel_ridges: tuple[float, ...] = (1.0, 3.0)
    frontier_ridges: tuple[float, ...] = (0.3, 3.0)
    # Of ridge regression, the former also of the frontier; and of logistic regression.
    ridges_alone: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 30.0)
    kernel_ridges_alone: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0)
    Cs: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0)
    kernel_Cs: tuple[float, ...] = (1.0, 10.0, 100.0)
    n_landmarks: int = 400  # of kernel models
    # Parameters of networks that are not their defaults; the blend also has components of its two
    # members and the overlap of views.
    deep: Mapping[str, Any] = field(default_factory=lambda: {"n_components": 200})
    blend: Mapping[str, Any] = field(default_factory=_blend)
    # Of each method that is compared, by parameter; at most ``BUDGET`` combinations.
    rivals: Mapping[str, Mapping[str, tuple[Any, ...]]] = field(default_factory=_rivals)


# Raised where the numbers that tasks compute change between releases: old records are then not
# reused. Defaults of estimators, recipes and folds are not in the settings, but among these.
RECORD_VERSION = 2
# The same for methods whose numbers changed alone.
METHOD_VERSIONS = {"decisions": 5, "fusions": 4, "model, tuned": 4, "logistic, tuned": 4}

# Protocols by name: the rows that features are fitted on, and the scores that are compared.
PROTOCOLS = {
    "paper": ("all", "per view"),
    "clean": ("train", "per view"),
    "fused": ("train", "fused"),
}
# With two views, half of the rows cannot leave both: the first positive of each label stays in
# both views and every other sample in one. This stands in for 0.5 there.
HALF_OF_TWO = 0.49
# Lambda of data that the paper does not have.
DEFAULT_LAM = 0.4
# A run of 200 iterations costs as much as ten fits: where many are needed, fewer seeds do.
FEW_SEEDS = 3


@dataclass(frozen=True)
class Task:
    """One computation whose outcome is one record.

    Attributes
    ----------
    kind : str
        "fit", or a key of ``runner.SIMPLE_KINDS``.
    settings : mapping of str to JSON values
        All that determines the outcome.
    """

    kind: str
    settings: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Name of the task: equal if and only if kind, settings and program are."""
        version = METHOD_VERSIONS.get(self.settings.get("method", ""), RECORD_VERSION)
        program = {"naim3l": __version__, "version": version}
        named = {"kind": self.kind, **program, **self.settings}
        return json.dumps(named, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class Plan:
    """What a user asked to reproduce.

    Attributes
    ----------
    sources : dict of str to MultiView
        Datasets by name.
    repeats : int
        Number of seeds, each a split with its own missing views and labels.
    first_seed : int
        The first of the seeds, which follow each other.
    protocols : tuple of str
        Keys of ``PROTOCOLS``.
    quick : bool
        Leave out what takes minutes and shows nothing new: the large sizes of Table 7.
    grids : Grids
        Values to try.
    methods : tuple of str
        Keys of ``rivals.RIVALS`` that item "compare" compares; none for all.
    """

    sources: Mapping[str, MultiView]
    repeats: int = 10
    first_seed: int = 0
    protocols: tuple[str, ...] = ("paper",)
    quick: bool = False
    grids: Grids = field(default_factory=Grids)
    methods: tuple[str, ...] = ()

    @property
    def seeds(self) -> range:
        return range(self.first_seed, self.first_seed + self.repeats)

    def at_most(self, repeats: int) -> "Plan":
        """The plan with no more than so many seeds, for runs that are costly."""
        return replace(self, repeats=min(self.repeats, repeats))

    def fits(
        self,
        dataset: str,
        method: str,
        parameters: Mapping[str, Any],
        *,
        protocol: str,
        alpha: float = 0.5,
        beta: float = 0.5,
        aligned: bool = False,
        features: str | None = None,
    ) -> list[Task]:
        """A fit for each seed; see ``methods.METHODS`` for methods and their parameters.

        ``features`` takes the place of what the protocol says, see ``trials.make_trial``.
        """
        source = self.sources[dataset]
        if len(source.views) == 2 and alpha == 0.5:
            alpha = HALF_OF_TWO
        shared = {
            "dataset": dataset,
            "data": source.digest,
            "method": method,
            "parameters": dict(parameters),
            "alpha": alpha,
            "beta": beta,
            "aligned": aligned,
            "features": features or PROTOCOLS[protocol][0],
        }
        return [Task("fit", shared | {"seed": seed}) for seed in self.seeds]

    def groups(self) -> Iterator[tuple[str, str]]:
        """Pairs of dataset and protocol."""
        for dataset in self.sources:
            for protocol in self.protocols:
                yield dataset, protocol


def distinct(tasks: Iterable[Task]) -> list[Task]:
    """The tasks, once each."""
    return list({task.key: task for task in tasks}.values())


def paper_name(dataset: str) -> str:
    """Name under which the paper's figures of a dataset are kept: without variant suffix."""
    return dataset.removesuffix("-genuine")


def paper_lam(dataset: str) -> float | None:
    """Lambda of the paper's experiments, None for data that it does not have."""
    return CATALOG[paper_name(dataset)].lam if paper_name(dataset) in CATALOG else None


def usual_lam(dataset: str) -> float:
    """Lambda of the paper's experiments, or the default one, where none is chosen."""
    return paper_lam(dataset) or DEFAULT_LAM
