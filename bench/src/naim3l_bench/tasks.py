"""What is to be computed: tasks named by everything that determines them, and plans of them."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from naim3l import __version__
from naim3l_bench.datasets import CATALOG, MultiView
from naim3l_bench.grids import Grids

# Raised where the numbers that tasks compute change between releases: old records are then not
# reused. Defaults of estimators, recipes and folds are not in the settings, but among these.
RECORD_VERSION = 1
# The same for methods whose numbers changed alone.
METHOD_VERSIONS = {"decisions": 4, "fusions": 3, "model, tuned": 3, "logistic, tuned": 3}

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
