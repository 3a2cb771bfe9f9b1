"""Runs that are kept in a file of JSON lines, and not repeated."""

import json
import sys

from joblib import Parallel, delayed


def run_missing(run, tasks, path, n_jobs):
    """Records of all tasks, by task; those that the file lacks are run, and added to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.read_text().splitlines() if path.exists() else []
    done = {tuple(task): record for task, record in map(json.loads, lines)}
    left = [task for task in tasks if task not in done]
    made = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
        delayed(_with_task)(run, task) for task in left
    )
    with path.open("a") as file:
        for i, (task, record) in enumerate(made):
            file.write(json.dumps([task, record]) + "\n")
            file.flush()
            done[task] = record
            print(f"\r{i + 1} of {len(left)}", end="", file=sys.stderr)
    return {task: done[task] for task in tasks}


def _with_task(run, task):
    return task, run(*task)
