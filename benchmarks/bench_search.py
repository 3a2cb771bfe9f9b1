"""A search that drops clearly worse pairs compared with the full search: choice, loss and time.

    python benchmarks/bench_search.py --data DATA --against OTHER_CHECKOUT/src

Half of the views (with two views, slightly less) and half of the labels are hidden, as in the
paper. Searches are those of ``NAIM3LCV(decide="f1")``: the default 30 pairs and
three folds on the paper's features, and six pairs and two folds by log-loss on kernel features, as
in docs/research/accuracy.md. The held-out metric of both choices is that of the full search, and
its standard error is that of the mean over folds. Times are CPU seconds of the whole fit, on one
BLAS thread, each in a process of its own. "solves" is the time with dropping in multiples of one
``NAIM3L`` fit with the chosen pair. With --against, the same search is also timed with the library
of another checkout.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from time import process_time

import numpy as np
from common import print_machine, print_markdown, progress

from naim3l import NAIM3L, NAIM3LCV, Kernel
from naim3l.datasets import make_unpaired
from naim3l_bench.datasets import available, open_dataset
from naim3l_bench.trials import draw_challenge, make_trial

DATASETS = ("emotions", "birds", "yeast", "arxiv2007", "corel5k-4", "corel5k-6 kernel")
FULL, DROPPING, OTHER = "full", "dropping", "other"
KERNEL = {"lams": [0.2, 0.4, 0.8], "ridges": [1.0, 3.0], "cv": 2, "metric": "log-loss"}
KERNEL |= {"tol": 1e-3, "kernel": "hellinger", "n_landmarks": 400}
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def search_once(path, options):
    """What a search chooses, and its CPU seconds; the work of one process."""
    warnings.simplefilter("ignore")
    with np.load(path) as stored:
        X, Y = (
            {name[2:]: stored[name] for name in stored.files if name.startswith(kind)}
            for kind in ("X_", "Y_")
        )
    exhaustive, features = options.pop("exhaustive", False), None
    if "kernel" in options:
        features = Kernel(options.pop("kernel"), options.pop("n_landmarks"))
    model = NAIM3LCV(features=features, decide="f1", **options)
    model._exhaustive = exhaustive
    start = process_time()
    model.fit(X, Y)
    seconds = process_time() - start
    start = process_time()
    NAIM3L(model.lam_, ridge=model.ridge_, features=features, tol=model.tol).fit(X, Y)
    one = process_time() - start
    results = model.cv_results_
    splits = [results[f"split{fold}_test_score"] for fold in range(model.cv)]
    found = {"seconds": seconds, "one": one, "pair": [model.lam_, model.ridge_]}
    found |= {name: results[name].tolist() for name in ("lam", "ridge", "mean_test_score")}
    found |= {"error": (results["std_test_score"] / np.sqrt(model.cv - 1)).tolist()}
    print(json.dumps(found | {"fits": int(np.isfinite(splits).sum())}))


def in_process(path, options, source=None):
    """`search_once` in a process of its own, with the library of another checkout if given."""
    environment = os.environ | ONE_THREAD
    if source is not None:
        environment["PYTHONPATH"] = str(source)
    command = [sys.executable, __file__, "--worker", str(path), json.dumps(options)]
    shown = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(shown.stdout.splitlines()[-1])


def write_trial(name, data, seed, path, quick):
    """Training rows of a dataset, in a file for the processes."""
    if quick:
        sizes = {"n_features": (9, 8), "n_labels": 4, "missing_labels": 0.3}
        made = make_unpaired(80, **sizes, random_state=seed)
        X, Y = made.views, made.labels
    else:
        dataset = name.split("-")[0].split()[0]
        source = open_dataset(dataset, data)
        if name == "corel5k-4":
            source.views = {view: X for view, X in source.views.items() if "Recomputed" not in view}
            source.observed = source.observed[:, : len(source.views)]
        alpha = 0.5 if len(source.views) > 2 else 0.45
        settings = {"alpha": alpha, "beta": 0.5, "aligned": False, "seed": seed}
        features = "raw" if "kernel" in name else "train"
        trial = make_trial(source, draw_challenge(source, settings), features=features, seed=seed)
        X, Y = trial.X_train, trial.Y_train
    tables = {f"X_{view}": table for view, table in X.items()}
    np.savez(path, **tables, **{f"Y_{view}": labels for view, labels in Y.items()})


def measure(name, seed, path, against, quick):
    """Results of the searches of one trial, by kind."""
    options = {"random_state": seed} | (KERNEL if "kernel" in name else {})
    if quick:
        options |= {"lams": 4}
        options |= {"kernel": "rbf", "n_landmarks": 10} if "kernel" in name else {}
    found = {}
    for kind in (DROPPING, FULL):
        progress(f"{name}, seed {seed}: {kind}")
        found[kind] = in_process(path, options | {"exhaustive": kind == FULL})
    if against is not None:
        progress(f"{name}, seed {seed}: {against}")
        found[OTHER] = in_process(path, options, against)
    return found


def row_of(name, seed, found):
    full, dropping = found[FULL], found[DROPPING]
    pairs = list(zip(full["lam"], full["ridge"], strict=True))
    row = {"dataset, seed": f"{name}, {seed}"}
    chosen = {kind: pairs.index(tuple(found[kind]["pair"])) for kind in (FULL, DROPPING)}
    row |= {f"lam, ridge: {kind}": "{:.2g}, {:g}".format(*pairs[i]) for kind, i in chosen.items()}
    row |= {f"metric: {kind}": f"{full['mean_test_score'][i]:.4f}" for kind, i in chosen.items()}
    row |= {"standard error": f"{full['error'][chosen[FULL]]:.4f}"}
    row |= {"fits": f"{dropping['fits']} : {full['fits']}"}
    row |= {f"{kind} s": of["seconds"] for kind, of in found.items()}
    row |= {"solves": f"{dropping['seconds'] / dropping['one']:.1f}"}
    others = {kind: of["seconds"] for kind, of in found.items() if kind != DROPPING}
    return row | {f"{kind} : dropping": s / dropping["seconds"] for kind, s in others.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with the datasets")
    parser.add_argument("--against", help="source folder of another checkout")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        search_once(arguments.worker[0], json.loads(arguments.worker[1]))
        return
    print_machine()
    names, seeds = arguments.only, arguments.seeds
    if not arguments.quick:
        there = available(arguments.data)
        names = [name for name in names if name.split("-")[0] in there]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for seed in seeds[: 1 if arguments.quick else None]:
                path = Path(folder) / "trial.npz"
                write_trial(name, arguments.data, seed, path, arguments.quick)
                found = measure(name, seed, path, arguments.against, arguments.quick)
                rows.append(row_of(name, seed, found))
    print_markdown("Search of lam and ridge", rows)


if __name__ == "__main__":
    main()
