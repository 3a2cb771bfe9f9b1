"""Ridges of the search up to 10, and continued where 10 is best: choices and what they reach.

Small tables of different samples, see `naim3l_bench.studies`; macro-AUC and log-loss are those of
the tables' probabilities for samples that were set aside. Runs are kept in a file of JSON lines.

    python benchmarks/search_ends.py --data DATA --seeds 4 --runs results/search_ends.jsonl
"""

import os
import time
import warnings
from functools import partial

from kept_runs import make_parser, run_missing

STUDIES = ("yeast", "emotions", "birds", "nhanes_2017")
SIZES = ((100, 0.2), (100, 1.0), (300, 0.2), (500, 0.5))  # rows of each table, known labels
GRIDS = {"up to 10": (0.0, 1.0, 10.0), "auto": "auto"}


def run(name, n_rows, known, seed, folder):
    """What each grid chooses, and its measures."""
    import numpy as np

    from naim3l import NAIM3LCV
    from naim3l_bench.studies import log_loss, macro_auc, make_study, open_population

    warnings.simplefilter("ignore")
    study, found = make_study(open_population(name, folder), n_rows, known, seed), {}
    for grid, ridges in GRIDS.items():
        start = time.process_time()
        model = NAIM3LCV(ridges=ridges, random_state=seed).fit(study.X, study.Y)
        seconds = time.process_time() - start
        P = list(model.predict_proba(study.X_test).values())
        found[grid] = {
            "pair": [model.lam_, model.ridge_],
            "macro-AUC": float(np.mean([macro_auc(study.Y_test, of) for of in P])),
            "log-loss": float(np.mean([log_loss(study.Y_test, of) for of in P])),
            "seconds": seconds,
        }
    return found


def main():
    parser = make_parser(__doc__, "results/search_ends.jsonl")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    names, sizes = (["emotions"], SIZES[:1]) if arguments.quick else (STUDIES, SIZES)
    n_seeds = 2 if arguments.quick else arguments.seeds
    seeds = range(arguments.first, arguments.first + n_seeds)
    tasks = [(name, *size, seed) for seed in seeds for size in sizes for name in names]
    here = partial(run, folder=arguments.data)
    print_table(run_missing(here, tasks, arguments.runs, arguments.jobs))


def print_table(records):
    """Means over the runs of each study, and of all, with standard errors, in Markdown."""
    import numpy as np

    print("| study | ridges chosen: up to 10 | auto | macro-AUC | auto | log-loss | auto | time |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in [*dict.fromkeys(task[0] for task in records), "all"]:
        of = [record for task, record in records.items() if name in ("all", task[0])]
        cells = [name]
        for grid in GRIDS:
            ridges, n = np.unique([run[grid]["pair"][1] for run in of], return_counts=True)
            cells.append(", ".join(f"{r:g}: {m}" for r, m in zip(ridges, n, strict=True)))
        for key in ("macro-AUC", "log-loss"):
            one, other = (np.array([run[grid][key] for run in of]) for grid in GRIDS)
            error = (other - one).std(ddof=1) / len(of) ** 0.5
            cells += [f"{one.mean():.2f}", f"{(other - one).mean():+.2f} ({error:.2f})"]
        one, other = (sum(run[grid]["seconds"] for run in of) for grid in GRIDS)
        print(f"| {' | '.join(cells)} | {other / one:.2f} |")


if __name__ == "__main__":
    main()
