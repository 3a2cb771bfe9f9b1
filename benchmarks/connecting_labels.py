"""AUC of a label that a table never records, against the number of labels that connect the tables.

Each table of a study loses one of n + 1 random labels, which the other tables keep; new rows have
all. See `naim3l_bench.absent`. Finished runs are kept in a file of JSON lines, and not repeated.

    python benchmarks/connecting_labels.py --data DATA --seeds 10 --write
"""

import os
import warnings
from functools import partial

import numpy as np
from kept_runs import make_parser, run_missing
from pages import RESEARCH, write_part

NUMBERS = {"nhanes_2017": (1, 2, 4, 7, 11), "yeast_funcat": (1, 2, 4, 8, 16, 33)}
PAGE, PART = RESEARCH / "labels-as-bridge.md", "connecting labels"


def run(name, n, seed, folder):
    """Pairs of a table and the label that it lost."""
    from naim3l_bench.absent import connect, measure_absent, open_tables

    warnings.simplefilter("ignore")
    return measure_absent(*connect(open_tables(name, folder, seed), n, seed), seed)


def table(name, records, seeds):
    """Means over the pairs of a run, and over the seeds, with standard errors, in Markdown."""
    header = ["labels that connect", "AUC", "AUC, if recorded", "borrowed"]
    lines = [f"**{name}**", "", row(header), row(["---"] * len(header))]
    for n in NUMBERS[name]:
        runs = [records[name, n, seed] for seed in seeds]
        cells = [str(n)]
        for key in ("AUC", "AUC, recorded"):
            means = [np.mean([pair[key] for pair in of["pairs"]]) for of in runs if of["pairs"]]
            error = np.std(means, ddof=1) / len(means) ** 0.5
            cells.append(f"{np.mean(means):.1f} ± {error:.1f}")
        cells.append(f"{sum(not of['obstacle'] for of in runs)} of {len(runs)}")
        lines.append(row(cells))
    return "\n".join(lines) + "\n"


def row(cells):
    return f"| {' | '.join(cells)} |"


def main():
    parser = make_parser(__doc__, "results/connecting_labels.jsonl")
    parser.add_argument("--write", action="store_true", help="write the tables into the page")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    names = list(NUMBERS)[: 1 if arguments.quick else None]
    n_seeds = 2 if arguments.quick else arguments.seeds
    seeds = range(arguments.first, arguments.first + n_seeds)
    tasks = [(name, n, seed) for seed in seeds for name in names for n in NUMBERS[name]]
    of_folder = partial(run, folder=arguments.data)
    records = run_missing(of_folder, tasks, arguments.runs, arguments.jobs)
    text = "\n".join(table(name, records, seeds) for name in names)
    print(text)
    if arguments.write:
        write_part(PAGE, PART, f"\n{text}\n")


if __name__ == "__main__":
    main()
