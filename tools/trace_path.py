"""Print the path of two small tables: modules of naim3l, and calls from one into another.

Counted with ``sys.setprofile`` until the solver is entered, for ``NAIM3L().fit`` of two data frames
and for ``naim3l fit`` of two CSV files. Run it after a change of the path, and update the picture
in ``docs/develop/architecture.md``: ``python tools/trace_path.py --edges``.
"""

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import ThreadpoolController

SOLVER = "naim3l.solvers.fast"


class _Entered(Exception):
    """The solver is entered; no error."""


@dataclass
class Trace:
    """Modules in the order in which they are entered, and calls from one into another."""

    modules: dict[str, None] = field(default_factory=dict)
    changes: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def n_changes(self) -> int:
        return sum(self.changes.values())


def trace(work: Callable[[], Any]) -> Trace:
    """Path of a function until `SOLVER` is entered.

    A change is a call from code of one module of naim3l into code of another, directly or through
    other packages. Imports are not counted: the function is run once before. With two threads of
    BLAS, views are divided among threads, in which calls are not counted.
    """
    work()
    found, stack = Trace(), list[str]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("naim3l."):
            return
        if event == "call":
            if module == SOLVER:
                raise _Entered
            found.modules.setdefault(module)
            if stack and stack[-1] != module:
                found.changes[stack[-1], module] += 1
            stack.append(module)
        elif event == "return" and stack:
            stack.pop()

    try:
        with ThreadpoolController().limit(limits=2, user_api="blas"):
            sys.setprofile(note)
            work()
    except _Entered:
        pass
    finally:
        sys.setprofile(None)
    return found


def make_tables() -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]:
    """Two tables that share no row, and their labels."""
    rng = np.random.default_rng(0)
    X, Y = {}, {}
    for view, n_rows, n_columns in (("clinic", 40, 4), ("lab", 30, 3)):
        Z = rng.normal(size=(n_rows, n_columns)).round(3)
        X[view] = pd.DataFrame(Z, columns=[f"{view}_{j}" for j in range(n_columns)])
        Y[view] = pd.DataFrame((Z[:, :2] > 0).astype(int), columns=["flu", "gout"])
    return X, Y


def fit_frames() -> None:
    """Fit two data frames, as in Python."""
    from naim3l import NAIM3L

    X, Y = make_tables()
    NAIM3L().fit(X, Y)


def fit_files() -> None:
    """Fit two CSV files, as on the command line."""
    from naim3l.cli import app

    X, Y = make_tables()
    with tempfile.TemporaryDirectory() as folder:
        views = []
        for view, table in X.items():
            path = Path(folder, f"{view}.csv")
            table.assign(**Y[view]).to_csv(path, index=False)
            views.append(f"{view}={path}")
        options = ["--labels", "flu", "--labels", "gout", "--lam", "0.4", "--json"]
        app(["fit", *views, *options, "-o", f"{folder}/model.naim3l"], standalone_mode=False)


PATHS = {"NAIM3L().fit of two frames": fit_frames, "naim3l fit of two CSV files": fit_files}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", action="store_true", help="Also print who calls whom.")
    edges = parser.parse_args().edges
    for title, work in PATHS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = trace(work)
        print(f"{title}: {len(found.modules)} modules, {found.n_changes} changes")
        print("  " + " > ".join(module.removeprefix("naim3l.") for module in found.modules))
        for (caller, called), n in found.changes.most_common() if edges else ():
            print(f"  {n:4} {caller.removeprefix('naim3l.')} -> {called.removeprefix('naim3l.')}")


if __name__ == "__main__":
    main()
