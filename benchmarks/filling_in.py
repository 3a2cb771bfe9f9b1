"""Unknown labels of rows in the training tables, filled in from their features and known labels.

Entries are hidden by sample, in every table that a sample is in; see `naim3l_bench.filling_in`. The
method was chosen with seeds 0 to 2, so others are used here. Finished runs are kept in a file of
JSON lines, and not repeated.

    python benchmarks/filling_in.py --data DATA --first 3 --seeds 10 --runs results/filling_in.jsonl
"""

import os
import warnings
from functools import partial

from kept_runs import make_parser, run_missing

UNKNOWN = (0.3, 0.6, 0.9)
BOOSTED = ("yeast", "emotions", "birds")
DISJOINT = ("nhanes_2017", 0.6)
CHANGE = 0.5  # percent that log-loss with known labels may be above that without


def run(kind, name, unknown, seed, folder):
    """Measures of one draw; kind is "answers", "boosting" or "disjoint"."""
    from naim3l_bench import filling_in as study

    warnings.simplefilter("ignore")
    sources = study.open_sources(name, folder)
    filling = study.make_filling(sources, unknown, seed, disjoint=kind == "disjoint")
    measures = {
        "answers": study.measure_filling,
        "boosting": study.measure_boosting,
        "disjoint": study.measure_disjoint,
    }
    return measures[kind](filling, seed)


def main():
    parser = make_parser(__doc__, "results/filling_in.jsonl")
    parser.set_defaults(first=3)
    parser.add_argument("--datasets", nargs="+")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from naim3l_bench.filling_in import DATASETS

    names = arguments.datasets or (["emotions"] if arguments.quick else list(DATASETS))
    n_seeds = 2 if arguments.quick else arguments.seeds
    seeds = range(arguments.first, arguments.first + n_seeds)
    cells = [("answers", name, unknown) for name in names for unknown in UNKNOWN]
    cells += [("boosting", name, unknown) for name in names for unknown in UNKNOWN]
    cells = [cell for cell in cells if cell[0] == "answers" or cell[1] in BOOSTED]
    cells += [("disjoint", *DISJOINT)] if DISJOINT[0] in names else []
    tasks = [(*cell, seed) for seed in seeds for cell in cells]
    run_here = partial(run, folder=arguments.data)
    records = run_missing(run_here, tasks, arguments.runs, arguments.jobs)
    runs = {cell: [records[*cell, seed] for seed in seeds] for cell in cells}
    answers, boosting, disjoint = (
        {tuple(cell): of for (kind, *cell), of in runs.items() if kind == wanted}
        for wanted in ("answers", "boosting", "disjoint")
    )
    print_answers(answers)
    print_changes(answers, seeds)
    if boosting:
        print_boosting(boosting, answers)
    if disjoint:
        print_disjoint(disjoint)


def print_answers(cells):
    """Measures of all methods."""
    columns = {
        "log-loss": ("base rates", "without", "with", "own", "labels only"),
        "AUC": ("without", "with", "own", "labels only"),
        "AP": ("without", "with"),
        "accuracy": ("without", "with"),
    }
    head = [f"{measure}: {' / '.join(methods)}" for measure, methods in columns.items()]
    rows = [
        [
            *cell,
            *(join_means(measure, [(runs, of) for of in columns[measure]]) for measure in columns),
        ]
        for cell, runs in named(cells)
    ]
    print_table(["dataset", "unknown", *head], rows)


def print_changes(cells, seeds):
    """What known labels change, beside what was predicted, and the cells where that is a loss."""
    head = ["dataset", "unknown", "change of log-loss", "predicted", "seeds with a loss"]
    head += ["worst seed", "worst table", "strength", "s, fit", "s, without", "s, with"]
    rows, failed = [], []
    for (name, unknown), runs in named(cells):
        changes = [100 * (run["log-loss, with"] / run["log-loss, without"] - 1) for run in runs]
        change, worst = sum(changes) / len(changes), max(changes)
        if change > CHANGE:
            failed.append(f"{name}, {unknown}: {change:+.2f} %")
        row = [name, unknown, f"{change:+.2f} %", f"{-mean(runs, 'predicted'):+.2f} %"]
        row += [str(sum(of_seed > 0 for of_seed in changes))]
        row += [f"{worst:+.2f} % (seed {seeds[changes.index(worst)]})"]
        row += [f"{max(run['worst table'] for run in runs):+.2f} %"]
        row += [f"{mean(runs, 'strength'):.2f}"]
        row += [f"{mean(runs, 'seconds, fit'):.1f}"]
        row += [f"{mean(runs, f'seconds, {key}'):.3f}" for key in ("without", "with")]
        rows.append(row)
    print_table(head, rows)
    print(f"Log-loss is more than {CHANGE} % higher in {len(failed)} of {len(cells)} cells.")
    for line in failed:
        print("-", line)
    print()


def print_boosting(cells, answers):
    """Boosting with labels as columns, beside the model on the same tables."""
    measures = ("log-loss", "AUC", "AP", "accuracy")
    rows, others = [], dict(named(answers))
    for cell, runs in named(cells):
        of = [(runs, "boosting"), (others[cell], "without"), (others[cell], "with")]
        rows.append([*cell, *(join_means(measure, of) for measure in measures)])
    head = [f"{measure}: boosting / without / with" for measure in measures]
    print_table(["dataset", "unknown", *head], rows)


def print_disjoint(cells):
    """What it adds to declare tables of different samples as such."""
    head = ["dataset", "unknown", "log-loss", "AUC", "AP", "accuracy", "strength", "predicted"]
    methods = ("without", "checked alone", "disjoint")
    rows = []
    for cell, runs in named(cells):
        row = [
            join_means(measure, [(runs, of) for of in methods])
            for measure in ("log-loss", "AUC", "AP", "accuracy")
        ]
        row += [
            " / ".join(f"{mean(runs, f'{key}, {of}'):.2f}" for of in methods[1:])
            for key in ("strength", "predicted")
        ]
        rows.append([*cell, *row])
    print(" / ".join(methods), end="\n\n")
    print_table(head, rows)


def mean(runs, key):
    """Mean of a measure over runs."""
    return sum(run[key] for run in runs) / len(runs)


def join_means(measure, of_methods):
    """Means of a measure over the runs of each method, in one cell."""
    digits = 2 if measure == "log-loss" else 1
    return " / ".join(f"{mean(runs, f'{measure}, {of}'):.{digits}f}" for runs, of in of_methods)


def named(cells):
    """Texts of the dataset and the unknown share, and the runs, of each cell."""
    return [((name, f"{100 * unknown:.0f} %"), runs) for (name, unknown), runs in cells.items()]


def print_table(head, rows):
    """A table in Markdown, with an empty line after it."""
    print("| " + " | ".join(head) + " |")
    print("| --- " * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


if __name__ == "__main__":
    main()
