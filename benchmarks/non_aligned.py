"""What coupling adds where nothing can be joined: nine laboratories' tables about genes.

Tables, labels and test rows of yeast_funcat, see `naim3l_bench.funcat`: 34 frequent labels, or all
of the tree with ``--all-labels``, with half of the labels hidden and with none. All methods choose
their parameters on held-out training rows. Finished runs are kept, and not repeated.

    python benchmarks/non_aligned.py --data DATA --runs results/non_aligned.jsonl
"""

import os
import warnings
from functools import partial

from kept_runs import make_parser, run_missing

HIDDEN = (0.5, 0.0)
OF_MANY = ("ridge per table", "label subspace", "NAIM3LCV")  # fast enough for hundreds of labels
GUESSING = "guessing"


def methods_of(labels):
    """Methods that are compared, beside guessing."""
    more = ("logistic regression per table", "half and half")
    return OF_MANY if labels == "all" else (*OF_MANY[:1], more[0], *OF_MANY[1:], more[1])


def run(labels, hidden, seed, folder):
    """Measures of all methods on one draw."""
    from naim3l_bench.funcat import draw, read_funcat
    from naim3l_bench.label_space import measure_guessing, measure_methods

    warnings.simplefilter("ignore")
    genes = read_funcat(folder)
    used = genes.all_functions if labels == "all" else genes.frequent
    tables = draw(genes, used, hidden, seed)
    found = measure_methods(tables, seed, methods_of(labels))
    return {GUESSING: measure_guessing(tables) | {"seconds": 0.0}} | found


def main():
    parser = make_parser(__doc__, "results/non_aligned.jsonl")
    parser.add_argument("--all-labels", action="store_true")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    labels = "all" if arguments.all_labels else "frequent"
    seeds = range(arguments.first, arguments.first + (2 if arguments.quick else arguments.seeds))
    tasks = [(labels, hidden, seed) for seed in seeds for hidden in HIDDEN]
    run_here = partial(run, folder=arguments.data)
    records = run_missing(run_here, tasks, arguments.runs, arguments.jobs)
    for hidden in HIDDEN:
        print(f"\n{100 * hidden:.0f} % of the labels hidden\n")
        print_table([records[labels, hidden, seed] for seed in seeds], methods_of(labels))


def print_table(runs, methods):
    """Means and, in brackets, the difference to ridge per table with its standard error."""
    import numpy as np

    from naim3l_bench.label_space import MEASURES, differences

    first = methods[0]
    print("| method | " + " | ".join(MEASURES) + " | seconds |")
    print("| --- " * (2 + len(MEASURES)) + "|")
    for name in (GUESSING, *methods):
        cells = []
        for measure in MEASURES:
            cell = f"{np.mean([run[name][measure] for run in runs]):.2f}"
            if name not in (GUESSING, first):
                mean, error = differences(runs, name, measure, first)
                cell += f" ({mean:+.2f} ± {error:.2f})"
            cells.append(cell)
        seconds = np.median([run[name]["seconds"] for run in runs])
        print(f"| {name} | {' | '.join(cells)} | {seconds:.1f} |")


if __name__ == "__main__":
    main()
