"""Seconds per metric on 10,000 x 300, and the ratio to scikit-learn where it has the metric.

    python benchmarks/bench_metrics.py

Labels are known, or half of them are unknown, which scikit-learn does not allow.
"""

import argparse
from time import perf_counter

import numpy as np
import sklearn.metrics as skm
from common import print_machine, print_table

from naim3l import metrics

SHAPE, QUICK_SHAPE, REPEATS = (10_000, 300), (400, 20), 3
REFERENCES = {
    "adapted_auc": None,
    "one_error": None,
    "evaluate": None,
    "ranking_loss": skm.label_ranking_loss,
    "average_precision": skm.label_ranking_average_precision_score,
    "coverage": skm.coverage_error,
    "macro_auc": skm.roc_auc_score,
    "micro_auc": lambda y, s: skm.roc_auc_score(y, s, average="micro"),
    "hamming_loss": lambda y, s: skm.hamming_loss(y, s > 0),
    "macro_f1": lambda y, s: skm.f1_score(y, s > 0, average="macro"),
    "micro_f1": lambda y, s: skm.f1_score(y, s > 0, average="micro"),
    "example_f1": lambda y, s: skm.f1_score(y, s > 0, average="samples", zero_division=0),
}


def best_seconds(function, *args):
    times = []
    for _ in range(REPEATS):
        start = perf_counter()
        function(*args)
        times.append(perf_counter() - start)
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to check that it runs")
    shape = QUICK_SHAPE if parser.parse_args().quick else SHAPE
    print_machine()
    rng = np.random.default_rng(0)
    scores = rng.normal(size=shape)
    y = (rng.random(shape) < 0.05).astype(int)
    y_unknown = np.where(rng.random(shape) < 0.5, np.nan, y)
    rows = []
    for name, reference in REFERENCES.items():
        function = getattr(metrics, name)
        seconds = best_seconds(function, y, scores)
        row = {"metric": name, "complete, s": seconds}
        row |= {"half unknown, s": best_seconds(function, y_unknown, scores)}
        other = best_seconds(reference, y, scores) if reference else None
        rows.append(row | {"sklearn : ours": other and other / seconds})
    print_table("Seconds of each metric, and of scikit-learn relative to these.", rows)


if __name__ == "__main__":
    main()
