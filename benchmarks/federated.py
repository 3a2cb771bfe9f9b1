"""Sites with a table each: alone, after one round by file, and with NAIM3L in rounds; and bytes.

Every table of yeast (two), yeast_funcat (eight) and Corel5k (six) is a site, with rows that no
other site has where there are enough. Half of the labels are unknown. Measures are those of new
rows, means over sites, in percent. "one round" chooses its parameters at each site. "rounds" has
the lam and ridge of the search in one place; with "search", sites choose them by sums, which would
take hours for Corel5k. Finished runs are kept.

    python benchmarks/federated.py --data DATA --seeds 3 --runs results/federated.jsonl

With --costs, rounds, bytes and seconds of one process on generated tables, by labels, rows, columns
and sites. Seconds are of all sites together, and have no network in them.
"""

import warnings
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from time import perf_counter

import numpy as np
from kept_runs import make_parser, run_missing

MEASURES = ("macro-AUC", "label AP", "AP", "1-RL")
COREL_FILES = ("corel5k_lear4.npz", "corel5k_recomputed_gist_hsv.npz")
COREL_ROWS = 583  # of each table: six of them, and a test
SMALL = {"lams": [0.1, 0.3, 1.0], "ridges": [10.0], "cv": 3}
ALONE = "alone: label subspace"
COUNTS = {"": 10, ", no minimum count": 0}
# Labels, rows of a site, columns of a site, and sites: one of them at a time is changed.
USUAL, CHANGED = (12, 300, 20, 3), ((6, 35, 100, 260), (1000, 10_000), (80, 320), (2, 6, 12))


def open_study(name, folder, seed):
    """Tables, labels and test rows by site."""
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
    from sklearn.base import clone

    from naim3l import NAIM3L, NAIM3LCV, LabelSubspaceRidge
    from naim3l_bench.label_space import fit_logistic
    from naim3l_bench.studies import Tables

    warnings.simplefilter("ignore")
    X, Y, X_test, Y_test = open_study(name, folder, seed)
    sites = {view: ({view: X[view]}, {view: Y[view]}) for view in X}
    options = {"decide": "sign", "random_state": seed}
    ridge, search = LabelSubspaceRidge(**options), NAIM3LCV(**options)
    plain = LabelSubspaceRidge(shrinkage=0.0, **options)
    ways = {
        "alone: logistic regression": lambda rows: fit_logistic(Tables(*rows, {}, {}), seed),
        "alone: ridge": lambda rows: clone(plain).fit(*rows),
        ALONE: lambda rows: clone(ridge).fit(*rows),
        "alone: NAIM3LCV": lambda rows: clone(search).fit(*rows),
    }
    rates = {view: np.nan_to_num(np.nanmean(of, axis=0)) for view, of in Y.items()}
    guesses = {view: np.tile(of, (len(Y_test[view]), 1)) for view, of in rates.items()}
    found = {"guessing": measure(guesses, Y_test)}
    for title, fit in ways.items():
        start = perf_counter()
        models = {view: fit(rows) for view, rows in sites.items()}
        found[title] = measure(score(models, X_test), Y_test) | {"seconds": perf_counter() - start}
    for title, model in (("label subspace", ridge), ("NAIM3LCV", search)):
        start, models = perf_counter(), dict.fromkeys(X, model.fit(X, Y))
        found[f"one place: {title}"] = measure(score(models, X_test), Y_test)
        found[f"one place: {title}"]["seconds"] = perf_counter() - start
    apart = {"one round": ridge, "rounds": NAIM3L(search.lam_, ridge=search.ridge_)}
    if name != "corel5k":
        apart["rounds, small search"] = clone(search).set_params(**SMALL)
        apart["rounds, search"] = clone(search)
    for title, model in apart.items():
        for suffix, count in COUNTS.items():
            models, cost = run_sites(sites, model, count)
            found[title + suffix] = measure(score(models, X_test), Y_test) | cost
    return found


def run_sites(sites, model, minimum_count):
    """Models of all sites, and what they cost: rounds, bytes that a site sends, seconds."""
    from naim3l.federated import simulate

    start = perf_counter()
    result = simulate(sites, model, minimum_count=minimum_count)
    sent = next(iter(result.bytes_sent.values()))
    cost = {"rounds": len(sent), "bytes": sum(sent), "seconds": perf_counter() - start}
    return result.models, cost


def score(models, X_test):
    """Scores of test rows by site."""
    return {v: model.decision_function({v: X_test[v]})[v] for v, model in models.items()}


def run_cost(n_labels, n_rows, n_columns, n_sites):
    """Costs of one round and of a fit in rounds, to generated tables of so many sites."""
    from naim3l import NAIM3L, LabelSubspaceRidge
    from naim3l.datasets import make_unpaired

    warnings.simplefilter("ignore")
    data = make_unpaired(
        [n_rows] * n_sites,
        n_features=[n_columns] * n_sites,
        n_labels=n_labels,
        labels_per_row=2.0,
        missing_labels=0.5,
        noise=1.0,
        random_state=0,
    )
    sites = {view: ({view: X}, {view: data.labels[view]}) for view, X in data.views.items()}
    ridge = LabelSubspaceRidge(1.0, 1.0, decide="sign")
    return {
        title: run_sites(sites, model, 10)[1]
        for title, model in (("one round", ridge), ("rounds", NAIM3L(0.4, ridge=1.0)))
    }


def print_costs(path, n_jobs):
    """Costs where one of labels, rows, columns and sites is changed at a time, in Markdown."""
    tasks = [USUAL]
    for i, values in enumerate(CHANGED):
        tasks += [(*USUAL[:i], value, *USUAL[i + 1 :]) for value in values]
    header = ("labels", "rows", "columns", "sites", "one round", "s", "rounds", "bytes", "s")
    print(f"| {' | '.join(header)} |\n{'|---' * len(header)}|")
    for task, found in run_missing(run_cost, sorted(tasks), path, n_jobs).items():
        one, rounds = found["one round"], found["rounds"]
        cells = [*task, size(one["bytes"]), f"{one['seconds']:.1f}"]
        cells += [rounds["rounds"], size(rounds["bytes"]), f"{rounds['seconds']:.1f}"]
        print(f"| {' | '.join(map(str, cells))} |")


def measure(scores, Y_test):
    """Measures of scores on test rows, means over sites."""
    from naim3l import evaluate
    from naim3l_bench.label_space import label_ap

    found = []
    for view, S in scores.items():
        metrics = evaluate(Y_test[view], S)
        own = {name: 100 * metrics[name] for name in MEASURES if name in metrics}
        found.append(own | {"label AP": label_ap(Y_test[view], S)})
    return {name: fmean(of[name] for of in found) for name in MEASURES}


def print_table(studies):
    """Means over seeds, in Markdown; bytes are those that a site sends."""
    header = ("data", "at each site", *MEASURES, "gain", "rounds", "sent by a site", "s")
    print(f"| {' | '.join(header)} |\n{'|---' * len(header)}|")
    for study, runs in studies.items():
        for method in runs[0]:
            of = [record[method] for record in runs]
            cells = [f"{fmean(record[name] for record in of):.1f}" for name in MEASURES]
            cells += [gain(runs, method), mean_cost(of, "rounds"), mean_cost(of, "bytes")]
            print(f"| {' | '.join([study, method, *cells, mean_cost(of, 'seconds')])} |")


def gain(runs, method):
    """Gain of macro-AUC over the label subspace of each site alone, and its standard error."""
    gains = [of[method]["macro-AUC"] - of[ALONE]["macro-AUC"] for of in runs]
    error = f" ± {stdev(gains) / len(gains) ** 0.5:.1f}" if len(gains) > 1 else ""
    return "–" if method == ALONE else f"{fmean(gains):+.1f}{error}"


def mean_cost(records, name):
    """Mean of rounds, bytes or seconds; a dash if there are none."""
    if name not in records[0]:
        return "–"
    mean = fmean(record[name] for record in records)
    return size(mean) if name == "bytes" else f"{mean:.0f}"


def size(n):
    """Bytes in words."""
    return f"{n / 1e6:.1f} MB" if n >= 1e6 else f"{n / 1e3:.1f} kB"


def main():
    parser = make_parser(__doc__, "results/federated.jsonl")
    parser.add_argument("--studies", nargs="+", default=["yeast", "yeast_funcat", "corel5k"])
    parser.add_argument("--costs", action="store_true", help="rounds, bytes and seconds")
    arguments = parser.parse_args()
    if arguments.costs:
        print_costs(arguments.runs.with_suffix(".costs.jsonl"), arguments.jobs)
        return
    names = ["yeast"] if arguments.quick else arguments.studies
    n_seeds = 1 if arguments.quick else arguments.seeds
    seeds = range(arguments.first, arguments.first + n_seeds)
    tasks = [(name, seed) for name in names for seed in seeds]
    run_here = partial(run, folder=arguments.data)
    records = run_missing(run_here, tasks, arguments.runs, arguments.jobs)
    print_table({name: [records[name, seed] for seed in seeds] for name in names})


if __name__ == "__main__":
    main()
