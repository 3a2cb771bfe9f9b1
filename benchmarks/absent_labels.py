"""Labels that a table never records, beside base rates and the same model if it recorded them.

Each table loses a fifth of the labels, which stay in others; samples that were set aside have all.
See `naim3l_bench.absent`. Finished runs are kept in a file of JSON lines, and not repeated.

    python benchmarks/absent_labels.py --data DATA --seeds 10 --runs results/absent_labels.jsonl
"""

import os
import time
import warnings
from functools import partial

from kept_runs import make_parser, run_missing

COLUMNS = (
    "study",
    "tables, labels",
    "pairs",
    "AUC (raw score; if recorded)",
    "log-loss (base rates; if recorded)",
    "gain: predicted",
    "real",
    "AUC: predicted range",
    "inside",
    "borrowed",
)
# Of two measures of a run.
DIFFERENCES = (
    ("log-loss less base rates", "log-loss", "log-loss, base rates"),
    ("AUC less raw score", "AUC", "AUC, raw"),
    ("AUC less recorded", "AUC", "AUC, recorded"),
    ("real less predicted gain", "gain", "predicted gain"),
)
BAD = ("pairs worse than base rates", "pairs with AUC below 50")


def run(name, seed, folder):
    """Measures of one study."""
    from naim3l_bench.absent import choose_lost, measure_absent, open_tables

    warnings.simplefilter("ignore")
    tables, start = open_tables(name, folder, seed), time.perf_counter()
    shape = len(tables.Y), next(iter(tables.Y.values())).shape[1]
    found = measure_absent(tables, choose_lost(*shape, seed), seed)
    return found | {"shape": shape, "seconds": time.perf_counter() - start}


def main():
    parser = make_parser(__doc__, "results/absent_labels.jsonl")
    parser.add_argument("--studies", nargs="+")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from naim3l_bench.absent import STUDIES

    names = arguments.studies or (["emotions"] if arguments.quick else STUDIES)
    n_seeds = 2 if arguments.quick else arguments.seeds
    seeds = range(arguments.first, arguments.first + n_seeds)
    tasks = [(name, seed) for seed in seeds for name in names]
    run_here = partial(run, folder=arguments.data)
    records = run_missing(run_here, tasks, arguments.runs, arguments.jobs)
    print_tables({name: [records[name, seed] for seed in seeds] for name in names})


def print_tables(studies):
    """Means over the seeds of each study in Markdown, differences, and what does not hold."""
    from naim3l_bench.absent import failing, summarise

    runs = {name: [summarise(record) for record in of] for name, of in studies.items()}
    print_row(COLUMNS)
    print_row(["---"] * len(COLUMNS))
    for name, records in studies.items():
        of = {key: sum(run[key] for run in runs[name]) / len(records) for key in runs[name][0]}
        n_borrowed = sum(not record["obstacle"] for record in records)
        cells = (
            name,
            "{}, {}".format(*records[0]["shape"]),
            f"{of['pairs'] * len(records):.0f}",
            f"{of['AUC']:.1f} ({of['AUC, raw']:.1f}; {of['AUC, recorded']:.1f})",
            f"{of['log-loss']:.1f} ({of['log-loss, base rates']:.1f}; "
            f"{of['log-loss, recorded']:.1f})",
            f"{of['predicted gain']:.1f} ± {of['predicted error']:.1f} %",
            f"{of['gain']:.1f} %",
            f"{of['low']:.0f} to {of['high']:.0f}",
            f"{of['inside']:.0f} %",
            f"{n_borrowed} of {len(records)}",
        )
        print_row(cells)
    print()
    print_differences(runs)
    failed = [f"{name}: {sentence}" for name, of in runs.items() for sentence in failing(of)]
    print(f"\n{len(failed)} claims do not hold:")
    for line in failed:
        print("-", line)


def print_differences(runs):
    """Paired differences with their standard errors, and how bad single seeds and pairs are."""
    from naim3l_bench.absent import mean_difference

    print_row(["study", *(title for title, *_ in DIFFERENCES), "least gain of a seed", *BAD])
    print_row(["---"] * (2 + len(DIFFERENCES) + len(BAD)))
    for name, of in runs.items():
        pairs = (mean_difference(of, *which) for _, *which in DIFFERENCES)
        cells = [f"{mean:+.2f} ± {error:.2f}" for mean, error in pairs]
        shares = [f"{sum(run[key] for run in of) / len(of):.0f} %" for key in BAD]
        print_row([name, *cells, f"{min(run['gain'] for run in of):.1f} %", *shares])


def print_row(cells):
    print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
