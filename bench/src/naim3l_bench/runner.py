"""Tasks to records: only what is missing, several fits at a time."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from naim3l_bench.challenge import Challenge
from naim3l_bench.datasets import MultiView
from naim3l_bench.fits import run_method
from naim3l_bench.paper import table1, table7
from naim3l_bench.records import Record, Store, append
from naim3l_bench.tasks import Task, distinct
from naim3l_bench.trials import Trial, draw_challenge, make_trial, masks_digest

Sources = Mapping[str, MultiView]
# What the kinds of tasks that need no trial compute from settings and data.
SIMPLE_KINDS: dict[str, Callable[[Sources, Mapping[str, Any]], dict[str, Any]]] = {
    "labels": table1.compute,
    "subgradient": table7.compute,
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
    """Compute the tasks that the store lacks; each record is written as soon as it is computed.

    A run that is stopped, for whatever reason, loses only the computations in progress, one per
    job.

    Parameters
    ----------
    tasks : iterable of Task
    sources : mapping of str to MultiView
    store : Store
    n_jobs : int
        Fits at a time; if several, each in a process with one thread.
    on_record : callable, optional
        Called with each new record.
    """
    todo = missing_tasks(tasks, store)
    for task in todo:  # one after the other: some of them measure times
        if task.kind != "fit":
            record = append(store.folder, task, SIMPLE_KINDS[task.kind](sources, task.settings))
            _take(store, record, on_record)
    fits = [task for task in todo if task.kind == "fit"]
    run = Parallel(n_jobs, return_as="generator_unordered", pre_dispatch="n_jobs + 1")
    for record in run(_work(fits, sources, store.folder)):
        _take(store, record, on_record)


def missing_tasks(tasks: Iterable[Task], store: Store) -> list[Task]:
    """Tasks without a record, once each."""
    return distinct(task for task in tasks if task not in store)


def default_jobs() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _take(store: Store, record: Record, on_record: Callable[[Record], Any] | None) -> None:
    store.add(record)
    if on_record is not None:
        on_record(record)


def _work(tasks: list[Task], sources: Sources, folder: Path) -> Iterator[Any]:
    """Calls to make, trial by trial, so that a process makes few trials more than once."""
    by_trial: dict[str, list[Task]] = {}
    for task in tasks:
        by_trial.setdefault(_trial_key(task), []).append(task)
    for group in by_trial.values():
        source = sources[group[0].settings["dataset"]]
        try:
            challenge = draw_challenge(source, group[0].settings)
        except ValueError as error:
            for task in group:
                yield delayed(append)(folder, task, {"impossible": str(error)})
            continue
        for task in group:
            yield delayed(_fit)(folder, task, source, challenge)


def _fit(folder: Path, task: Task, source: MultiView, challenge: Challenge) -> Record:
    settings = task.settings
    try:
        trial, digest = _prepared(task, source, challenge)
    except ValueError as error:  # a view that the recipe cannot take
        return append(folder, task, {"impossible": str(error)})
    outcome = run_method(trial, settings["method"], settings["parameters"], settings["seed"])
    return append(folder, task, {"masks": digest, **outcome})


# The last trial that this process made, by its key; others would only take memory.
_last_trial: dict[str, tuple[Trial, str]] = {}


def _prepared(task: Task, source: MultiView, challenge: Challenge) -> tuple[Trial, str]:
    """Trial of a task and the digest of its masks."""
    key = _trial_key(task)
    if key not in _last_trial:
        settings = task.settings
        trial = make_trial(source, challenge, features=settings["features"], seed=settings["seed"])
        digest = masks_digest(challenge, trial)
        _last_trial.clear()
        _last_trial[key] = trial, digest
    return _last_trial[key]


def _trial_key(task: Task) -> str:
    return json.dumps([task.settings[field] for field in TRIAL_FIELDS])
