"""Runs that are kept in a file of JSON lines, and not repeated."""

import argparse
import json
import sys
from pathlib import Path

from joblib import Parallel, delayed


def make_parser(doc, runs):
    """Options of a script that keeps its runs in a file."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path(runs))
    parser.add_argument("--quick", action="store_true", help="one small study, two seeds")
    return parser


def run_missing(run, tasks, path, n_jobs):
    """Records of all tasks, by task; those that the file lacks are run, and added to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done = read_runs(path)
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


def read_runs(path):
    """Records of a file, by task."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {tuple(task): record for task, record in map(json.loads, lines)}


def write_runs(path, records):
    """Replace a file by these records."""
    path.write_text("".join(json.dumps([task, of]) + "\n" for task, of in records.items()))


def _with_task(run, task):
    return task, run(*task)
