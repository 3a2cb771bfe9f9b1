"""Fused answers on new rows beside guessing and logistic regression, for few and many known labels.

Tables of different samples, and test samples that are in all tables and were set aside before the
fit; see `naim3l_bench.studies`. Finished runs are kept in a file of JSON lines, and not repeated.

    python benchmarks/new_rows.py --data DATA --seeds 10 --runs results/new_rows.jsonl
"""

import os
import warnings
from functools import partial

from kept_runs import make_parser, run_missing

SIZES, KNOWN = (100, 500, 1500), (0.05, 0.2, 1.0)
# Columns of two tables: a title, a measure, and others in brackets.
ANSWERS = (
    ("Brier (base rates)", "Brier", "Brier, base rates"),
    ("log-loss (base rates)", "log-loss", "log-loss, base rates"),
    ("accuracy (more frequent value)", "accuracy", "accuracy, more frequent"),
    ("micro-F1 (p > 1/2)", "micro-F1", "micro-F1, p > 1/2"),
)
TABLES = (
    ("AUC, fused (mean of logistic)", "AUC", "AUC, mean of logistic"),
    ("best table (mean of tables)", "AUC, best table", "AUC, mean of tables"),
    ("AUC of a table (logistic)", "table AUC", "table AUC, logistic"),
    (
        "Brier of a table (base rates; logistic)",
        "table Brier",
        "table Brier, base rates",
        "table Brier, logistic",
    ),
)


def run(name, n_rows, known, seed, folder):
    """Measures of one study."""
    from naim3l_bench.studies import make_study, measure_study, open_population

    warnings.simplefilter("ignore")
    return measure_study(make_study(open_population(name, folder), n_rows, known, seed), seed)


def main():
    parser = make_parser(__doc__, "results/new_rows.jsonl")
    parser.add_argument("--studies", nargs="+")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from naim3l_bench.studies import POPULATIONS

    names = arguments.studies or (["emotions"] if arguments.quick else list(POPULATIONS))
    sizes = SIZES[:1] if arguments.quick else SIZES
    cells = [(name, n, known) for name in names for n in sizes for known in KNOWN]
    n_seeds = 2 if arguments.quick else arguments.seeds
    seeds = range(arguments.first, arguments.first + n_seeds)
    tasks = [(*cell, seed) for cell in cells for seed in seeds]
    run_here = partial(run, folder=arguments.data)
    print_tables(cells, seeds, run_missing(run_here, tasks, arguments.runs, arguments.jobs))


def print_tables(cells, seeds, records):
    """Measures of all cells in Markdown, and the claims that do not hold."""
    from naim3l_bench.studies import CLAIMS, failing, with_best_table

    failed = []
    for columns in (ANSWERS, TABLES):
        print("| study | rows | known | " + " | ".join(title for title, *_ in columns) + " |")
        print("| --- " * (3 + len(columns)) + "|")
        for name, n, known in cells:
            runs = with_best_table([records[name, n, known, seed] for seed in seeds])
            means = {key: sum(run[key] for run in runs) / len(runs) for key in runs[0]}
            texts = [
                f"{means[first]:.1f} ({'; '.join(f'{means[of]:.1f}' for of in others)})"
                for _, first, *others in columns
            ]
            print(f"| {name} | {n} | {100 * known:.0f} % | {' | '.join(texts)} |")
            if columns is TABLES:
                where = f"{name}, {n} rows, {100 * known:.0f} % known"
                failed += [f"{where}: {sentence}" for sentence in failing(runs)]
        print()
    print(f"{len(failed)} of {len(cells) * len(CLAIMS)} claims do not hold:")
    for line in failed:
        print("-", line)


if __name__ == "__main__":
    main()
