"""Ridges that searches choose on small tables, and what the models reach on new rows.

Small tables of different samples with few known labels, see `naim3l_bench.studies`; macro-AUC and
log-loss are those of the tables' probabilities for samples that were set aside. To compare with
another checkout, run the same script with PYTHONPATH set to its sources and another --runs.

    python benchmarks/search_ends.py --data DATA --runs results/search_ends.jsonl
"""

import os
import time
import warnings
from functools import partial

from kept_runs import make_parser, run_missing

STUDIES = ("yeast", "emotions", "birds", "nhanes_2017")
SIZES = ((100, 0.2), (100, 1.0), (300, 0.2), (500, 0.5))  # rows of each table, known labels


def run(name, n_rows, known, seed, folder):
    """What each model chooses, and its measures."""
    import numpy as np

    from naim3l import NAIM3LCV, LabelSubspaceRidge
    from naim3l_bench.studies import log_loss, macro_auc, make_study, open_population

    warnings.simplefilter("ignore")
    study = make_study(open_population(name, folder), n_rows, known, seed)
    found = {}
    for key, model in {
        "NAIM3LCV": NAIM3LCV(random_state=seed),
        "LabelSubspaceRidge": LabelSubspaceRidge(random_state=seed),
        "ridge per table": LabelSubspaceRidge(shrinkage=0.0, random_state=seed),
    }.items():
        start = time.process_time()
        model.fit(study.X, study.Y)
        seconds = time.process_time() - start
        P = list(model.predict_proba(study.X_test).values())
        found[key] = {
            "pair": [getattr(model, "lam_", getattr(model, "shrinkage_", 0.0)), model.ridge_],
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
    tasks = [(name, *size, seed) for seed in seeds for name in names for size in sizes]
    records = run_missing(
        partial(run, folder=arguments.data), tasks, arguments.runs, arguments.jobs
    )
    print_table(records)


def print_table(records):
    """Means over the runs of each study in Markdown, and over all."""
    import numpy as np

    print("| study | model | ridge: fits | macro-AUC | log-loss | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in [*dict.fromkeys(task[0] for task in records), "all"]:
        of_study = [record for task, record in records.items() if name in ("all", task[0])]
        for model in of_study[0]:
            of = [record[model] for record in of_study]
            ridges, counts = np.unique([run["pair"][1] for run in of], return_counts=True)
            shown = ", ".join(f"{r:g}: {n}" for r, n in zip(ridges, counts, strict=True))
            means = [np.mean([run[key] for run in of]) for key in ("macro-AUC", "log-loss")]
            cells = [name, model, shown, *(f"{of_measure:.2f}" for of_measure in means)]
            print(f"| {' | '.join(cells)} | {sum(run['seconds'] for run in of):.0f} |")


if __name__ == "__main__":
    main()
