"""Fused answers on new rows beside guessing and logistic regression, for few and many known labels.

Tables of different samples, and test samples that are in all tables and were set aside before the
fit; see `naim3l_bench.studies`. Finished runs are kept in a file of JSON lines, and not repeated.

    python benchmarks/new_rows.py --data DATA --seeds 10 --runs results/new_rows.jsonl
"""

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path

SIZES, KNOWN = (100, 500, 1500), (0.05, 0.2, 1.0)
SHOWN = (
    ("Brier, fused (base rates)", "Brier", "Brier, base rates"),
    ("log-loss (base rates)", "log-loss", "log-loss, base rates"),
    ("accuracy (more frequent value)", "accuracy", "accuracy, more frequent"),
    ("micro-F1 (p > 1/2)", "micro-F1", "micro-F1, p > 1/2"),
    ("AUC, fused (mean of logistic)", "AUC", "AUC, mean of logistic"),
    ("best table (mean of tables)", "AUC, best table", "AUC, mean of tables"),
    ("Brier of a table (base rates; logistic)", "table Brier", "table Brier, base rates"),
    ("AUC of a table (logistic)", "table AUC", "table AUC, logistic"),
)


def run(name, folder, n_rows, known, seed):
    """Measures of one study."""
    from naim3l_bench.studies import make_study, measure_study, open_population

    warnings.simplefilter("ignore")
    study = make_study(open_population(name, folder), n_rows, known, seed)
    start = time.perf_counter()
    found = measure_study(study, seed)
    about = {"study": name, "rows": n_rows, "known": known, "seed": seed}
    return {**about, "seconds": round(time.perf_counter() - start, 1), **found}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--runs", type=Path, default=Path("results/new_rows.jsonl"))
    parser.add_argument("--studies", nargs="+")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from joblib import Parallel, delayed

    from naim3l_bench.studies import POPULATIONS

    names = arguments.studies or list(POPULATIONS)
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    arguments.runs.parent.mkdir(parents=True, exist_ok=True)
    lines = arguments.runs.read_text().splitlines() if arguments.runs.exists() else []
    done = {(r["study"], r["rows"], r["known"], r["seed"]): r for r in map(json.loads, lines)}
    cells = [(name, n, known) for name in names for n in SIZES for known in KNOWN]
    left = [
        (name, arguments.data, n, known, seed)
        for name, n, known in cells
        for seed in seeds
        if (name, n, known, seed) not in done
    ]
    made = Parallel(n_jobs=arguments.jobs, return_as="generator_unordered")(
        delayed(run)(*task) for task in left
    )
    with arguments.runs.open("a") as file:
        for i, record in enumerate(made):
            file.write(json.dumps(record) + "\n")
            file.flush()
            done[record["study"], record["rows"], record["known"], record["seed"]] = record
            print(f"\r{i + 1} of {len(left)}", end="", file=sys.stderr)
    print_tables(cells, done, seeds)


def print_tables(cells, done, seeds):
    """Measures of all cells in Markdown, and the claims that do not hold."""
    from naim3l_bench.studies import CLAIMS, failing

    print("| study | rows | known | " + " | ".join(title for title, *_ in SHOWN) + " |")
    print("| --- " * (3 + len(SHOWN)) + "|")
    failed = []
    for name, n, known in cells:
        runs = [done[name, n, known, seed] for seed in seeds if (name, n, known, seed) in done]
        if not runs:
            continue
        means = {
            key: sum(run[key] for run in runs) / len(runs) for key in runs[0] if key != "study"
        }
        texts = [f"{means[a]:.1f} ({means[b]:.1f})" for _, a, b in SHOWN]
        texts[6] = texts[6][:-1] + f"; {means['table Brier, logistic']:.1f})"
        print(f"| {name} | {n} | {100 * known:.0f} % | " + " | ".join(texts) + " |")
        failed += [f"{name}, {n} rows, {100 * known:.0f} % known: {of}" for of in failing(runs)]
    print(f"\n{len(failed)} of {len(cells) * len(CLAIMS)} claims do not hold:")
    for line in failed:
        print("-", line)


if __name__ == "__main__":
    main()
