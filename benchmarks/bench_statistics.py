"""Statistics that add up, by source: what the shareable ones cost in labels, accuracy and digits.

Training rows of yeast (half of the labels unknown), and generated ones, are divided into sources.
Each is collected as it is and as shareable; models are fitted to the sums, and compared with one
fit to all rows. Weights are compared as the largest difference, relative to the largest weight;
metrics are those of new rows, in percent, means over views.

    python benchmarks/bench_statistics.py --markdown
"""

import argparse
import warnings

import numpy as np
from common import number, print_machine, print_markdown, print_table
from sklearn.base import clone

from naim3l import NAIM3L, LabelSubspaceRidge, evaluate
from naim3l.datasets import load_yeast, make_unpaired
from naim3l.statistics import ColumnPlan, collect, combine
from naim3l_bench.challenge import make_challenge

SOURCES = (1, 3, 12)
METRICS = ("macro-AUC", "AP")
MODELS = {
    "NAIM3L": NAIM3L(lam=0.4, ridge=1.0, random_state=0),
    "LabelSubspaceRidge": LabelSubspaceRidge(1.0, 1.0, decide="sign", random_state=0),
}


def yeast():
    """Training tables and labels, and those of new rows."""
    found = load_yeast()
    data = make_challenge(found.labels, 2, alpha=0.4, random_state=0).apply(
        found.views, found.labels
    )
    return data.X_train, data.Y_train, data.X_test, data.Y_test


def generated(n_rows):
    """The same of generated rows, half of them new."""
    data = make_unpaired(2 * n_rows, n_features=(30, 20), n_labels=15, missing_labels=0.5,
                         noise=1.0, random_state=0)  # fmt: skip
    halves = [slice(0, n_rows), slice(n_rows, None)]
    every = (data.views, data.labels), (data.views, data.complete_labels)
    return tuple(
        {view: table[rows] for view, table in of.items()}
        for rows, pair in zip(halves, every, strict=True)
        for of in pair
    )


def divided(tables, n_sources):
    """The tables of each source: rows in turn."""
    return [{v: of[i::n_sources] for v, of in tables.items()} for i in range(n_sources)]


def measured(model, X, Y):
    scores = model.decision_function(X)
    return [np.mean([evaluate(Y[v], scores[v])[m] for v in X]) for m in METRICS]


def compare(name, study):
    """A row for each model and number of sources."""
    X, Y, X_test, Y_test = study
    for method, model in MODELS.items():
        plan = ColumnPlan.of(X, Y, estimator=model)
        whole = clone(model).fit_statistics(collect(plan, X, Y))
        for n_sources in SOURCES:
            row = {"study": name, "model": method, "sources": n_sources}
            for kind, shareable in (("sums", False), ("shareable", True)):
                pairs = zip(*(divided(of, n_sources) for of in (X, Y)), strict=True)
                each = [
                    collect(plan, *pair, source=str(i), shareable=shareable)
                    for i, pair in enumerate(pairs)
                ]
                row[f"{kind}: MB"] = number(sum(len(of.to_bytes()) for of in each) / 1e6, 2)
                row |= dict.fromkeys([f"{kind}: {of}" for of in ("weights", *METRICS)])
                try:
                    found = clone(model).fit_statistics(combine(each))
                except ValueError:  # no label is left
                    continue
                largest = max(np.abs(W).max() for W in whole.coef_.values())
                error = max(np.abs(found.coef_[v] - W).max() for v, W in whole.coef_.items())
                row[f"{kind}: weights"] = number(error / largest, 2)
                for metric, value in zip(METRICS, measured(found, X_test, Y_test), strict=True):
                    row[f"{kind}: {metric}"] = f"{100 * value:.1f}"
            known = [(of.found[v][0].n_known > 0).ravel() for of in each for v in X]
            row["labels left out (%)"] = f"{100 * (1 - np.mean(known)):.0f}"
            yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    studies = {"yeast": yeast()} if not options.quick else {}
    for n_rows in (300,) if options.quick else (1000, 20_000):
        studies[f"{n_rows} rows"] = generated(n_rows)
    rows = [row for name, study in studies.items() for row in compare(name, study)]
    print_machine()
    (print_markdown if options.markdown else print_table)("Statistics by source", rows)


if __name__ == "__main__":
    main()
