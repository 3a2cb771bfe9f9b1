"""Tasks to records: only what is missing, features once per trial, several fits at a time."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from naim3l.datasets import MultiView
from naim3l.experiments import label_ranks, subgradient
from naim3l.experiments.methods import run_method
from naim3l.experiments.store import Record, Store, append, keep_masks
from naim3l.experiments.tasks import Task
from naim3l.experiments.trials import Trial, draw_challenge, make_trial, masks_digest

Sources = Mapping[str, MultiView]
# What the kinds of tasks that need no trial compute from settings and data.
SIMPLE_KINDS: dict[str, Callable[[Sources, Mapping[str, Any]], dict[str, Any]]] = {
    "labels": label_ranks.compute,
    "subgradient": subgradient.compute,
}
# Fields of a fit that its features and labels depend on.
TRIAL_FIELDS = ("dataset", "data", "alpha", "beta", "aligned", "features", "seed")


def run_tasks(
    tasks: Iterable[Task],
    sources: Sources,
    store: Store,
    *,
    n_jobs: int = 1,
    on_record: Callable[[Record], Any] | None = None,
) -> None:
    """Compute the tasks that the store lacks; each record is on disk as soon as it is there.

    A run that ends before its time, by whatever cause, loses the computations that were under
    way, one per job.

    Parameters
    ----------
    tasks : iterable of Task
    sources : mapping of str to MultiView
    store : Store
    n_jobs : int
        Fits at a time, each in a process with one thread.
    on_record : callable, optional
        Called with each new record.
    """
    todo = missing_tasks(tasks, store)
    quiet = [task for task in todo if task.kind == "fit"]
    timed = [task for task in todo if task.kind != "fit"]  # alone, so that times mean something
    for task in timed:
        record = append(store.folder, task, SIMPLE_KINDS[task.kind](sources, task.settings))
        _take(store, record, on_record)
    run = Parallel(n_jobs, return_as="generator_unordered", pre_dispatch="n_jobs + 1")
    for record in run(_work(quiet, sources, store.folder)):
        _take(store, record, on_record)


def missing_tasks(tasks: Iterable[Task], store: Store) -> list[Task]:
    """Tasks without a record, once each."""
    return list({task.key: task for task in tasks if task not in store}.values())


def default_jobs() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _take(store: Store, record: Record, on_record: Callable[[Record], Any] | None) -> None:
    store.add(record)
    if on_record is not None:
        on_record(record)


def _work(tasks: list[Task], sources: Sources, folder: Path) -> Iterator[Any]:
    """Calls to make, trial by trial; the features of one are made when its first is due."""
    by_trial: dict[str, list[Task]] = {}
    for task in tasks:
        name = json.dumps([task.settings[field] for field in TRIAL_FIELDS])
        by_trial.setdefault(name, []).append(task)
    for group in by_trial.values():
        settings = group[0].settings
        source = sources[settings["dataset"]]
        try:
            challenge = draw_challenge(source, settings)
        except ValueError as error:
            for task in group:
                yield delayed(append)(folder, task, {"impossible": str(error)})
            continue
        trial = make_trial(source, challenge, features=settings["features"], seed=settings["seed"])
        digest = masks_digest(challenge, trial)
        keep_masks(folder, challenge, digest)
        for task in group:
            yield delayed(_fit)(folder, task, trial, digest)


def _fit(folder: Path, task: Task, trial: Trial, digest: str) -> Record:
    settings = task.settings
    outcome = run_method(trial, settings["method"], settings["parameters"], settings["seed"])
    return append(folder, task, {"masks": digest, **outcome})
