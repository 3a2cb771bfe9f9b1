"""Sites with a table each: alone, after one round by file, and with NAIM3L in rounds; and bytes.

Every table of yeast (two), yeast_funcat (eight) and Corel5k (six) is a site, with rows that no
other site has where there are enough. Half of the labels are unknown. Measures are those of new
rows, means over sites, in percent. "one round" chooses its parameters at each site; NAIM3L has the
lam and ridge that NAIM3LCV chooses where all tables are in one place. Finished runs are kept.

    python benchmarks/federated.py --data DATA --seeds 3 --runs results/federated.jsonl
"""

import warnings
from functools import partial
from pathlib import Path
from statistics import fmean
from time import perf_counter

from kept_runs import make_parser, run_missing

MEASURES = ("macro-AUC", "label AP", "AP", "1-RL")
COREL_FILES = ("corel5k_lear4.npz", "corel5k_recomputed_gist_hsv.npz")
COREL_ROWS = 583  # of each table: six of them, and a test


def open_study(name, folder, seed):
    """Tables, labels and test rows by site."""
    import numpy as np

    from naim3l_bench.absent import open_tables
    from naim3l_bench.datasets import open_npz
    from naim3l_bench.studies import Population, make_study

    if name != "corel5k":
        tables = open_tables(name, folder, seed)
        return tables.X, tables.Y, tables.X_test, tables.Y_test
    data = open_npz(*(Path(folder) / file for file in COREL_FILES))
    views = {view: np.asarray(table, dtype=float) for view, table in data.views.items()}
    labels = np.asarray(data.labels, dtype=float)
    study = make_study(Population(views, labels), COREL_ROWS, 0.5, seed)
    return study.X, study.Y, study.X_test, dict.fromkeys(study.X, study.Y_test)


def run(name, seed, folder):
    """Measures of all methods on one study."""
    from naim3l import NAIM3L, NAIM3LCV, LabelSubspaceRidge
    from naim3l.federated import simulate

    warnings.simplefilter("ignore")
    X, Y, X_test, Y_test = open_study(name, folder, seed)
    sites = {view: ({view: X[view]}, {view: Y[view]}) for view in X}
    ridge = LabelSubspaceRidge(decide="sign", random_state=seed)
    start = perf_counter()
    tuned = NAIM3LCV(decide="sign", random_state=seed).fit(X, Y)
    print(
        f"{name} {seed}: lam {tuned.lam_:g}, ridge {tuned.ridge_:g}, {perf_counter() - start:.0f} s"
    )
    exact = NAIM3L(tuned.lam_, ridge=tuned.ridge_)
    alone = {
        view: LabelSubspaceRidge(decide="sign", random_state=seed).fit(*sites[view]) for view in X
    }
    found = {"alone": measure(alone, X_test, Y_test)}
    found["one place"] = measure(dict.fromkeys(X, ridge.fit(X, Y)), X_test, Y_test)
    for title, model, minimum_count in (
        ("one round", ridge, 10),
        ("one round, no minimum count", ridge, 0),
        ("NAIM3L in rounds", exact, 10),
        ("NAIM3L in rounds, no minimum count", exact, 0),
    ):
        start = perf_counter()
        result = simulate(sites, model, minimum_count=minimum_count)
        sent = next(iter(result.bytes_sent.values()))
        found[title] = measure(result.models, X_test, Y_test)
        found[title] |= {"rounds": len(sent), "bytes": sum(sent), "seconds": perf_counter() - start}
    return found


def measure(models, X_test, Y_test):
    """Measures of scores on test rows, means over sites."""
    from naim3l import evaluate
    from naim3l_bench.label_space import label_ap

    found = []
    for view, model in models.items():
        S, truth = model.decision_function({view: X_test[view]})[view], Y_test[view]
        metrics = evaluate(truth, S)
        own = {name: 100 * metrics[name] for name in MEASURES if name in metrics}
        found.append(own | {"label AP": label_ap(truth, S)})
    return {name: fmean(of[name] for of in found) for name in MEASURES}


def print_table(studies):
    """Means over seeds, in Markdown; bytes are those that a site sends."""
    header = ("data", "sites", *MEASURES, "rounds", "sent by a site")
    print(f"| {' | '.join(header)} |\n{'|---' * len(header)}|")
    for study, runs in studies.items():
        for method in runs[0]:
            of = [record[method] for record in runs]
            cells = [f"{fmean(record[name] for record in of):.1f}" for name in MEASURES]
            sent = [size(fmean(r["bytes"] for r in of)) if "bytes" in of[0] else "–"]
            rounds = [f"{fmean(r['rounds'] for r in of):.0f}" if "rounds" in of[0] else "–"]
            print(f"| {' | '.join([study, method, *cells, *rounds, *sent])} |")


def size(n):
    """Bytes in words."""
    return f"{n / 1e6:.1f} MB" if n >= 1e6 else f"{n / 1e3:.1f} kB"


def main():
    parser = make_parser(__doc__, "results/federated.jsonl")
    parser.add_argument("--studies", nargs="+", default=["yeast", "yeast_funcat", "corel5k"])
    arguments = parser.parse_args()
    names = ["yeast"] if arguments.quick else arguments.studies
    n_seeds = 1 if arguments.quick else arguments.seeds
    seeds = range(arguments.first, arguments.first + n_seeds)
    tasks = [(name, seed) for name in names for seed in seeds]
    run_here = partial(run, folder=arguments.data)
    records = run_missing(run_here, tasks, arguments.runs, arguments.jobs)
    print_table({name: [records[name, seed] for seed in seeds] for name in names})


if __name__ == "__main__":
    main()
