"""Age and sex in each of four tables: NAIM3LCV beside rivals, for few and many known labels.

Tables of adults of a health survey, each with columns of its own, and test people who are in all
tables and were set aside before the fit; see `naim3l_bench.studies`. Rivals are in
shared_rivals.py. A line of the file of finished runs is one method on one study, so that a change
of the library needs only the lines of naim3l anew: `--again naim3l`.

    python benchmarks/shared_tables.py --data DATA --seeds 10 --runs results/shared_tables.jsonl
"""

import os
import warnings
from functools import cache, partial

import numpy as np
from kept_runs import make_parser, read_runs, run_missing, write_runs
from pages import RESEARCH, write_part

SIZES, KNOWN = (100, 500, 1500), (0.05, 0.2, 1.0)
OURS = "naim3l"
METHODS = {
    OURS: "naim3l",
    "logistic": "logistic",
    "boosting": "boosting",
    "logistic, shared": "logistic, stacked",
    "boosting, shared": "boosting, stacked",
    "base rates": "base rates",
}
# Title, name of a measure, whether more is better, and digits.
MEASURES = (
    ("Macro-AUC of a table", "table AUC", True, 1),
    ("Macro-AUC, fused", "AUC", True, 1),
    ("Brier score of a table", "table Brier", False, 2),
    ("Brier score, fused", "Brier", False, 2),
)
MARGIN = 0.5  # points that naim3l may be behind the best rival
PAGE = RESEARCH / "shared-tables.md"


@cache
def open_survey(folder):
    """The survey, opened once."""
    from naim3l_bench.studies import open_shared_survey

    return open_shared_survey(folder)


def run(n_rows, known, seed, method, folder):
    """Measures of one method on one study, in percent."""
    from naim3l_bench.studies import brier, macro_auc, make_study

    warnings.simplefilter("ignore")
    study = make_study(open_survey(folder), n_rows, known, seed)
    tables, fused = probabilities(study, method, seed)
    truth = study.Y_test
    return {
        "table AUC": float(np.mean([macro_auc(truth, P) for P in tables])),
        "AUC": macro_auc(truth, fused),
        "table Brier": float(np.mean([brier(truth, P) for P in tables])),
        "Brier": brier(truth, fused),
    }


def probabilities(study, method, seed):
    """Probabilities of the test samples by a method: of each table, and fused."""
    if method == OURS:
        from naim3l import NAIM3LCV

        model = NAIM3LCV(random_state=seed).fit(study.X, study.Y)
        return list(model.predict_proba(study.X_test).values()), np.asarray(
            model.fuse(study.X_test)
        )
    from shared_rivals import RIVALS

    return RIVALS[method](study, seed)


def main():
    parser = make_parser(__doc__, "results/shared_tables.jsonl")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--cells", nargs="+", metavar="ROWS:KNOWN", help="such as 100:0.05")
    parser.add_argument("--again", nargs="+", choices=METHODS, default=[], help="forget their runs")
    parser.add_argument("--write", action="store_true", help=f"renew the tables of {PAGE.name}")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sizes = SIZES[:1] if arguments.quick else SIZES
    cells = [(n, known) for n in sizes for known in KNOWN]
    if arguments.cells:
        cells = [_read_cell(text) for text in arguments.cells]
    n_seeds = 2 if arguments.quick else arguments.seeds
    seeds = range(arguments.first, arguments.first + n_seeds)
    # One seed after the other, so that an interrupted run has whole seeds.
    tasks = [(*cell, seed, of) for seed in seeds for cell in cells for of in arguments.methods]
    again = {task for task in tasks if task[-1] in arguments.again}
    if again:
        kept = read_runs(arguments.runs)
        write_runs(arguments.runs, {t: found for t, found in kept.items() if t not in again})
    run_missing(partial(run, folder=arguments.data), tasks, arguments.runs, arguments.jobs)
    text = tables_of(read_runs(arguments.runs), cells, seeds)
    print(text)
    if arguments.write:
        write_part(PAGE, "tables", f"\n{text}\n")


def _read_cell(text):
    rows, known = text.split(":")
    return int(rows), float(known)


def tables_of(records, cells, seeds):
    """Markdown: a table for each measure, and the cells in which naim3l is behind.

    Only seeds count of which all methods have been run.
    """
    lines, behind, n_compared = [], [], 0
    for title, measure, more_is_better, digits in MEASURES:
        lines += [f"{title}:", "", _head()]
        for n, known in cells:
            whole = [s for s in seeds if all((n, known, s, of) in records for of in METHODS)]
            if len(whole) < 2:
                continue
            values = {of: [records[n, known, s, of][measure] for s in whole] for of in METHODS}
            where = f"{n}, {100 * known:.0f} %"
            best, mean, error = compare(values, more_is_better)
            n_compared += 1
            mark = ""
            if mean < -MARGIN:
                behind.append(f"- {title}, {where}: {mean:+.2f} ({METHODS[best]})")
                mark = ", **behind**"
            row = [
                f"{'**' * (of == best)}{np.mean(found):.{digits}f}{'**' * (of == best)}"
                for of, found in values.items()
            ]
            n_seeds = "" if len(whole) == len(seeds) else f" ({len(whole)} seeds)"
            row.insert(1, f"{mean:+.2f} ± {error:.2f}{mark}")
            lines.append(f"| {where}{n_seeds} | {' | '.join(row)} |")
        lines.append("")
    lines.append(
        f"naim3l is more than {MARGIN} points behind the best rival in {len(behind)} of "
        f"{n_compared} comparisons{':' if behind else '.'}"
    )
    return "\n".join([*lines, "", *behind]).rstrip() + "\n"


def _head():
    ours, *rivals = METHODS.values()
    titles = ["rows, known", ours, "beside best", *rivals]
    return f"| {' | '.join(titles)} |\n{'| --- ' * len(titles)}|"


def compare(values, more_is_better):
    """The rival with the best mean; by how much naim3l is better, and its standard error.

    Differences are paired by seed.
    """
    way = 1 if more_is_better else -1
    best = max((of for of in values if of != OURS), key=lambda of: way * np.mean(values[of]))
    difference = way * (np.array(values[OURS]) - values[best])
    error = difference.std(ddof=1) / len(difference) ** 0.5 if len(difference) > 1 else np.nan
    return best, difference.mean(), error


if __name__ == "__main__":
    main()
