"""What coupling adds where nothing can be joined: eight laboratories' tables about genes.

Tables, labels and test rows of yeast_funcat, see `naim3l_bench.funcat`: 34 frequent labels, with
half of them hidden and with none, or all of the tree with ``--all-labels``, with half hidden. All
methods choose their parameters on held-out training rows. Methods with "tables apart" are fitted to
each table by itself. A line of the file of finished runs is one method on one draw.

    python benchmarks/non_aligned.py --data DATA --runs results/non_aligned.jsonl
"""

import os
import warnings
from functools import cache, partial
from statistics import median

from kept_runs import make_parser, run_missing
from pages import RESEARCH, write_part

GUESSING, FIRST, TREE = "guessing", "ridge per table", ", tree"
LOGISTIC, SUBSPACE, OURS = "logistic regression per table", "label subspace", "NAIM3LCV"
APART = ", tables apart"
HIDDEN = {"frequent": (0.5, 0.0), "all": (0.5,)}
METHODS = {
    "frequent": (
        *(GUESSING, FIRST, FIRST + APART, LOGISTIC, SUBSPACE, SUBSPACE + APART),
        *(OURS, OURS + APART, "half and half"),
    ),
    "all": (GUESSING, FIRST, SUBSPACE, SUBSPACE + APART, OURS),  # fast enough for 498 labels
}
OTHER_GENES = "macro-AUC, other genes"
N_RESAMPLES = 200  # of the test genes
PAGE = RESEARCH / "non-aligned.md"


@cache
def open_genes(folder):
    """The tables, and resamples of their test genes."""
    from naim3l_bench.funcat import read_funcat, resample_genes

    genes = read_funcat(folder)
    return genes, resample_genes(genes, N_RESAMPLES)


def run(labels, hidden, seed, method, folder):
    """Measures of a method on one draw; of all labels, also with parents raised, as "tree"."""
    from naim3l_bench.funcat import draw, raise_parents
    from naim3l_bench.label_space import guess, mean_of, measure_tables, predict

    warnings.simplefilter("ignore")
    genes, resamples = open_genes(folder)
    used = genes.all_functions if labels == "all" else genes.frequent
    tables = draw(genes, used, hidden, seed)
    P, seconds = (guess(tables), 0.0) if method == GUESSING else predict(method, tables, seed)
    found = measure(tables, P, resamples) | {"seconds": seconds}
    if labels == "all" and method != GUESSING:
        names = [name for name, of_study in zip(genes.names, used, strict=True) if of_study]
        raised = {view: raise_parents(of, names) for view, of in P.items()}
        found["tree"] = mean_of(measure_tables(tables, raised)) | {"seconds": 0.0}
    return found


def measure(tables, P, resamples):
    """Measures as means over tables, by table, and macro-AUC of each resample."""
    import numpy as np

    from naim3l_bench.funcat import weighted_macro_auc
    from naim3l_bench.label_space import mean_of, measure_tables

    by_table = measure_tables(tables, P)
    aucs = [weighted_macro_auc(tables.Y_test[view], P[view], of) for view, of in resamples.items()]
    resampled = np.mean(aucs, axis=0).tolist()
    return mean_of(by_table) | {"tables": by_table, "resampled": resampled}


def main():
    parser = make_parser(__doc__, "results/non_aligned.jsonl")
    parser.add_argument("--all-labels", action="store_true")
    parser.add_argument("--write", action="store_true", help=f"renew the tables of {PAGE.name}")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    labels = "all" if arguments.all_labels else "frequent"
    seeds = range(arguments.first, arguments.first + (2 if arguments.quick else arguments.seeds))
    hiddens, methods = HIDDEN[labels], METHODS[labels]
    # One seed after the other, so that an interrupted run has whole seeds.
    tasks = [(labels, hidden, seed, of) for seed in seeds for hidden in hiddens for of in methods]
    run_here = partial(run, folder=arguments.data)
    records = run_missing(run_here, tasks, arguments.runs, arguments.jobs)
    studies = {}
    for hidden in hiddens:
        runs = [{of: records[labels, hidden, seed, of] for of in methods} for seed in seeds]
        studies[hidden] = [with_trees(run) for run in runs]
    text = "\n".join(lines_of(studies)) + "\n"
    print(text)
    if arguments.write:
        write_part(PAGE, f"{labels} labels", f"\n{text}\n")


def with_trees(run):
    """Records by method, with those of raised parents as further methods."""
    return run | {f"{name}{TREE}": of["tree"] for name, of in run.items() if "tree" in of}


def lines_of(studies):
    """Markdown of all tables; studies are records of each draw, by the share that is hidden."""
    n_draws = len(next(iter(studies.values())))
    n_draws = "one draw" if n_draws == 1 else f"means over {n_draws} draws"
    names = list(next(iter(studies.values()))[0])
    joint = [(name, f"{name}{APART}") for name in names if f"{name}{APART}" in names]
    yield from (f"What the other tables add, {n_draws}:", "", *added(studies, joint))
    raised = [(f"{name}{TREE}", name) for name in names if f"{name}{TREE}" in names]
    if raised:
        yield from ("", f"What raised parents add, {n_draws}:", "", *added(studies, raised))
    for hidden, runs in studies.items():
        share = f"{100 * hidden:.0f} % of the labels hidden" if hidden else "No labels hidden"
        yield from ("", f"{share}, {n_draws}:", "", *measures_of(runs))
        yield from ("", f"{share}, macro-AUC by table:", "", *tables_of(runs))


def added(studies, pairs):
    """Differences between methods and their references."""
    yield from _head("hidden", "method", *_measures(), OTHER_GENES)
    for hidden, runs in studies.items():
        for pair in pairs:
            cells = [_beside(runs, key, *pair) for key in _measures()]
            yield _row(f"{100 * hidden:.0f} %", pair[0], *cells, _of_others(runs, *pair))


def measures_of(runs):
    """Means and, in brackets, the difference to the first method with its standard error."""
    yield from _head("method", *_measures(), OTHER_GENES, "seconds")
    for name in (name for name in runs[0] if TREE not in name):
        cells = [_mean(runs, name, key) for key in _measures()]
        others = ""
        if name not in (GUESSING, FIRST):
            more = [_beside(runs, key, name) for key in _measures()]
            cells = [f"{mean} ({of})" for mean, of in zip(cells, more, strict=True)]
            others = _of_others(runs, name)
        seconds = median(run[name]["seconds"] for run in runs)
        yield _row(name, *cells, others, f"{seconds:.1f}" if seconds else "")


def tables_of(runs):
    """Macro-AUC of each table by the first method, and what others add to it."""
    names = [n for n in (SUBSPACE + APART, SUBSPACE, OURS + APART, OURS) if n in runs[0]]
    yield from _head("table", FIRST, *names)
    for view in runs[0][FIRST]["tables"]:
        of_table = [{n: run[n]["tables"][view] for n in (FIRST, *names)} for run in runs]
        more = [_beside(of_table, "macro-AUC", name) for name in names]
        yield _row(view, _mean(of_table, FIRST, "macro-AUC"), *more)


def _measures():
    from naim3l_bench.label_space import MEASURES

    return MEASURES


def _head(*titles):
    return _row(*titles), "| --- " * len(titles) + "|"


def _row(*cells):
    return f"| {' | '.join(cells)} |"


def _mean(runs, name, measure):
    return f"{sum(run[name][measure] for run in runs) / len(runs):.2f}"


def _beside(runs, measure, name, reference=FIRST):
    """Mean difference; with its standard error, if there are several draws."""
    from naim3l_bench.label_space import differences

    if len(runs) == 1:
        return f"{runs[0][name][measure] - runs[0][reference][measure]:+.2f}"
    mean, error = differences(runs, name, measure, reference)
    return f"{mean:+.2f} ± {error:.2f}"


def _of_others(runs, name, reference=FIRST):
    """Middle 95 % of the difference in macro-AUC, if other test genes had been drawn."""
    import numpy as np

    if any("resampled" not in runs[0][of] for of in (name, reference)):
        return ""
    more = [np.subtract(run[name]["resampled"], run[reference]["resampled"]) for run in runs]
    low, high = np.percentile(np.mean(more, axis=0), [2.5, 97.5])
    return f"{low:+.2f} to {high:+.2f}"


if __name__ == "__main__":
    main()
