"""Label-subspace ridge, soft labels and blends on new rows, beside ridge per table and NAIM3LCV.

All are tuned in the same way, on the same held-out rows; see `naim3l_bench.label_space`. Finished
runs are kept in a file of JSON lines, and not repeated.

    python benchmarks/label_space.py --data DATA --first 10 --runs results/label_space.jsonl
"""

import os
import warnings
from functools import partial

from kept_runs import make_parser, run_missing


def run(name, seed, folder):
    """Measures of all methods on one study."""
    from naim3l_bench.absent import open_tables
    from naim3l_bench.label_space import measure_methods

    warnings.simplefilter("ignore")
    return measure_methods(open_tables(name, folder, seed), seed)


def main():
    parser = make_parser(__doc__, "results/label_space.jsonl")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from naim3l_bench.absent import STUDIES

    names = ["emotions"] if arguments.quick else STUDIES
    n_seeds = 2 if arguments.quick else arguments.seeds
    seeds = range(arguments.first, arguments.first + n_seeds)
    tasks = [(name, seed) for seed in seeds for name in names]
    run_here = partial(run, folder=arguments.data)
    records = run_missing(run_here, tasks, arguments.runs, arguments.jobs)
    print_table({name: [records[name, seed] for seed in seeds] for name in names})


def print_table(studies):
    """Means over the seeds in Markdown; differences beyond two standard errors have a sign."""
    import numpy as np

    from naim3l_bench.label_space import MEASURES, METHODS, REFERENCE, differences

    print("| study | method | " + " | ".join(MEASURES) + " | seconds |")
    print("| --- " * (3 + len(MEASURES)) + "|")
    for study, runs in studies.items():
        for name in METHODS:
            cells = []
            for measure in MEASURES:
                cell = f"{np.mean([run[name][measure] for run in runs]):.2f}"
                if name != REFERENCE:
                    mean, error = differences(runs, name, measure)
                    better = (mean < 0) == (measure == "log-loss")
                    cell += "" if abs(mean) <= 2 * error else " +" if better else " -"
                cells.append(cell)
            seconds = np.median([run[name]["seconds"] for run in runs])
            print(f"| {study} | {name} | {' | '.join(cells)} | {seconds:.1f} |")


if __name__ == "__main__":
    main()
