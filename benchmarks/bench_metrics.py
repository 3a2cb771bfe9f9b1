"""Seconds per metric on 10,000 x 300, and the ratio to scikit-learn where it has the metric.

Run: python benchmarks/bench_metrics.py
"""

from time import perf_counter

import numpy as np
import sklearn.metrics as skm

from naim3l import metrics

N_ROWS, N_LABELS, REPEATS = 10_000, 300, 3
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
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(N_ROWS, N_LABELS))
    y = (rng.random(scores.shape) < 0.05).astype(int)
    y_unknown = np.where(rng.random(scores.shape) < 0.5, np.nan, y)
    print(f"{'metric':<20}{'complete':>10}{'half NaN':>10}{'sklearn / ours':>16}")
    for name, reference in REFERENCES.items():
        function = getattr(metrics, name)
        complete = best_seconds(function, y, scores)
        half = best_seconds(function, y_unknown, scores)
        ratio = ""
        if reference is not None:
            ratio = f"{best_seconds(reference, y, scores) / complete:.1f}"
        print(f"{name:<20}{complete:>10.3f}{half:>10.3f}{ratio:>16}")


if __name__ == "__main__":
    main()
