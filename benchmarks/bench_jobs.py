"""What a user waits for: whole jobs, in this checkout and in an older one, side by side.

    python benchmarks/bench_jobs.py --data DATA --before CHECKOUT

Every run has a fresh process, the two checkouts in turn. Reading files and importing libraries are
not timed, except by the jobs that are about that. "busy" is a run beside another process that uses
one core.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import warnings
from pathlib import Path
from time import perf_counter

HERE = Path(__file__).resolve().parent


def fit_raw(data):
    """NAIM3L from raw tables: recipe "paper", Corel5k with four views."""
    from naim3l import NAIM3L

    X, Y = corel5k(data, "corel5k-genuine")
    return lambda: NAIM3L(0.4, features="paper").fit(X, Y)


def search_linear(data):
    """NAIM3LCV(decide="f1") on the features of the same."""
    from naim3l import NAIM3LCV, Recipe

    X, Y = corel5k(data, "corel5k-genuine")
    X = {view: Recipe("paper").fit(table)[1] for view, table in X.items()}
    model = NAIM3LCV(features=None, decide="f1", random_state=0)
    return lambda: model.fit(X, Y)


def search_kernel(data):
    """NAIM3LCV with kernels and calibration: Corel5k with six views, 400 landmarks."""
    from naim3l import NAIM3LCV, Kernel

    X, Y = corel5k(data, "corel5k")
    kernel, options = Kernel("hellinger", n_landmarks=400), {"metric": "log-loss", "tol": 1e-3}
    model = NAIM3LCV([0.2, 0.4, 0.8], [1.0, 3.0], cv=2, features=kernel, random_state=0, **options)
    return lambda: model.fit(X, Y)


def fit_text(data):
    """NAIM3L(features=TfidfTransformer(sublinear_tf=True), ridge=1): 220 rows, 1,900 terms."""
    return _text(1900, search=False)


def fit_long_text(data):
    """The same with 10,000 terms."""
    return _text(10_000, search=False)


def search_text(data):
    """NAIM3LCV with that transformer, 10,000 terms."""
    return _text(10_000, search=True)


def _text(n_terms, *, search):
    from sklearn.feature_extraction.text import TfidfTransformer
    from terms import make_terms

    from naim3l import NAIM3L, NAIM3LCV

    X, Y = make_terms(n_terms=n_terms)
    features = TfidfTransformer(sublinear_tf=True)
    if search:
        return lambda: NAIM3LCV(features=features, random_state=0).fit(X, Y)
    return lambda: NAIM3L(features=features, ridge=1, max_iter=10).fit(X, Y)


def show_help(data):
    """The command naim3l --help."""
    return lambda: subprocess.run([sys.executable, "-m", "naim3l", "--help"], stdout=-3, check=True)


def show_completion(data):
    """A completion of the shell."""
    words = {"_NAIM3L_COMPLETE": "complete_bash", "COMP_WORDS": "naim3l f", "COMP_CWORD": "1"}
    command = [sys.executable, "-m", "naim3l"]
    return lambda: subprocess.run(command, stdout=-3, env=os.environ | words, check=False)


def start_python(data):
    """An empty program of Python."""
    return lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)


JOBS = (fit_raw, search_linear, search_kernel, fit_text, fit_long_text, search_text)
JOBS += (show_help, show_completion, start_python)
BUSY = (fit_raw,)  # also measured beside a busy process
LONG = (search_linear, search_kernel)  # measured once
OF_FILES = (fit_raw, search_linear, search_kernel)  # left out without the files
QUICK = (fit_text, show_help, start_python)


def corel5k(data, name):
    """Raw training tables of seed 0, half of the views and labels missing."""
    from naim3l_bench.datasets import open_dataset
    from naim3l_bench.trials import draw_challenge, make_trial

    settings = {"alpha": 0.5, "beta": 0.5, "aligned": False, "seed": 0}
    source = open_dataset(name, data)
    trial = make_trial(source, draw_challenge(source, settings), features="raw", seed=0)
    return trial.X_train, trial.Y_train


def run(name, data):
    """Seconds of a job, in this process."""
    warnings.simplefilter("ignore")
    job = {job.__name__: job for job in JOBS}[name](data)
    start = perf_counter()
    job()
    print(json.dumps(perf_counter() - start))


def in_checkout(name, checkout, data):
    """Seconds of a job with the code of a checkout."""
    root = Path(checkout).resolve()
    path = os.pathsep.join(map(str, (root / "src", root / "bench" / "src", HERE)))
    command = [sys.executable, __file__, "--run", name, *(["--data", data] if data else [])]
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(job, arguments, busy):
    """Median seconds before, if there is another checkout, and after; long jobs run once."""
    checkouts = {"before": arguments.before, "after": HERE.parent}
    found = {when: [] for when, checkout in checkouts.items() if checkout}
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
    try:
        for _ in range(1 if job in LONG else arguments.repeats):
            for when, seconds in found.items():
                print(f"{job.__name__}, {when}", file=sys.stderr, flush=True)
                seconds.append(in_checkout(job.__name__, checkouts[when], arguments.data))
    finally:
        if other is not None:
            other.kill()
    return {when: statistics.median(seconds) for when, seconds in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with the Corel5k files")
    parser.add_argument("--before", help="another checkout of this repository")
    parser.add_argument("--jobs", nargs="+", choices=[job.__name__ for job in JOBS])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--quick", action="store_true", help="short jobs once, to check that it runs"
    )
    parser.add_argument("--run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        return run(arguments.run, arguments.data)
    from common import print_machine, print_markdown

    print_machine()
    jobs = [job for job in JOBS if arguments.data or job not in OF_FILES]
    if arguments.quick:
        jobs, arguments.repeats = QUICK, 1
    rows = []
    for job in jobs:
        if arguments.jobs and job.__name__ not in arguments.jobs:
            continue
        for busy in (False, True) if job in BUSY else (False,):
            row = compare(job, arguments, busy)
            if arguments.before:
                row["before : after"] = row["before"] / row["after"]
            title = job.__doc__.rstrip(".") + (", beside a busy process" if busy else "")
            rows.append({"job": title} | row)
    print_markdown("Seconds of whole jobs.", rows)


if __name__ == "__main__":
    main()
