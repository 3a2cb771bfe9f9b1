"""What coupling is said to add, beside what it adds on new rows.

For each split, `NAIM3LCV.compare` claims a gain over ridge regression per table, with an interval,
on rows (or entries) that it held out; the real gain is that on samples that were set aside. See
`naim3l_bench.studies`. Finished runs are kept in a file of JSON lines, and not repeated.

    python benchmarks/gains.py --data DATA --seeds 10 --runs results/gains.jsonl
"""

import argparse
import json
import os
import sys
import warnings
from pathlib import Path

# Rows of each table, and share of known labels; a third of the samples is set aside.
STUDIES = {"nhanes_2017": (500, 0.5), "yeast": (500, 0.5), "birds": (300, 0.5)}
STUDIES["arxiv2007"] = (400, 0.5)


def run(name, folder, seed):
    """Claimed and real gains of one split."""
    from naim3l_bench.studies import make_study, measure_gain, open_population

    warnings.simplefilter("ignore")
    n_rows, known = STUDIES[name]
    study = make_study(open_population(name, folder), n_rows, known, seed)
    return {"study": name, "seed": seed, **measure_gain(study, seed)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("results/gains.jsonl"))
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from joblib import Parallel, delayed

    arguments.runs.parent.mkdir(parents=True, exist_ok=True)
    lines = arguments.runs.read_text().splitlines() if arguments.runs.exists() else []
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    done = {(r["study"], r["seed"]): r for r in map(json.loads, lines)}
    left = [(name, arguments.data, s) for name in STUDIES for s in seeds if (name, s) not in done]
    made = Parallel(n_jobs=arguments.jobs, return_as="generator_unordered")(
        delayed(run)(*task) for task in left
    )
    with arguments.runs.open("a") as file:
        for i, record in enumerate(made):
            file.write(json.dumps(record) + "\n")
            file.flush()
            done[record["study"], record["seed"]] = record
            print(f"\r{i + 1} of {len(left)}", end="", file=sys.stderr)
    runs = [record for (_, seed), record in done.items() if seed in seeds]
    print_table(runs)


def print_table(runs):
    """Means over the splits of each study, and of all, in Markdown."""
    import numpy as np

    print("| measure, held out | study | claimed | real | difference | interval covers | width |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    keys = [key for key in runs[0] if key not in ("study", "seed")]
    for key in sorted(
        keys, key=lambda key: (key.split(", ")[1] == "entries", not key.startswith("headline"))
    ):
        for name in [*STUDIES, "all"]:
            of = [run[key] for run in runs if name in ("all", run["study"])]
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
