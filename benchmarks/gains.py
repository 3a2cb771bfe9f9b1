"""What coupling is said to add, beside what it adds on new rows.

For each split, `NAIM3LCV.compare` claims a gain over ridge regression per table, with an interval,
on rows (or entries) that it held out; the real gain is that on samples that were set aside. See
`naim3l_bench.studies`. Finished runs are kept in a file of JSON lines, and not repeated.

    python benchmarks/gains.py --data DATA --seeds 10 --runs results/gains.jsonl
"""

import os
import warnings
from functools import partial

from kept_runs import make_parser, run_missing

# Rows of each table, and share of known labels; a third of the samples is set aside.
STUDIES = {"nhanes_2017": (500, 0.5), "yeast": (500, 0.5), "birds": (300, 0.5)}
STUDIES["arxiv2007"] = (400, 0.5)


def run(name, seed, folder):
    """Claimed and real gains of one split."""
    from naim3l_bench.studies import make_study, measure_gain, open_population

    warnings.simplefilter("ignore")
    n_rows, known = STUDIES[name]
    return measure_gain(make_study(open_population(name, folder), n_rows, known, seed), seed)


def main():
    parser = make_parser(__doc__, "results/gains.jsonl")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    n_seeds = 2 if arguments.quick else arguments.seeds
    names = ["birds"] if arguments.quick else list(STUDIES)
    tasks = [(name, arguments.first + i) for name in names for i in range(n_seeds)]
    run_here = partial(run, folder=arguments.data)
    print_table(run_missing(run_here, tasks, arguments.runs, arguments.jobs))


def print_table(records):
    """Means over the splits of each study, and of all, in Markdown."""
    import numpy as np

    print("| measure, held out | study | claimed | real | difference | interval covers | width |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    keys = next(iter(records.values()))
    for key in sorted(keys, key=lambda key: (key.endswith("entries"), key[0] != "h")):
        for name in [*dict.fromkeys(study for study, _ in records), "all"]:
            of = [record[key] for (study, _), record in records.items() if name in ("all", study)]
            claimed, real, low, high = (
                np.array([each[part] for each in of]) for part in ("value", "real", "low", "high")
            )
            covers = (low <= real) & (real <= high)
            print(
                f"| {key} | {name} | {claimed.mean():+.2f} | {real.mean():+.2f} | "
                f"{(claimed - real).mean():+.2f} | {covers.sum()} of {len(covers)} | "
                f"{(high - low).mean():.2f} |"
            )


if __name__ == "__main__":
    main()
