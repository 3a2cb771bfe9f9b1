"""Boosting, NAIM3LCV and blends of both on new rows, for few and many known labels.

Tables of different samples, and test samples that were set aside before the fit; see
`naim3l_bench.studies`. Finished runs are kept in a file of JSON lines, and not repeated.

    python benchmarks/blend_boosting.py --data DATA --seeds 10 --runs results/blend_boosting.jsonl
"""

import os
import warnings
from functools import partial

from kept_runs import make_parser, run_missing

# Studies, rows of each table, and shares of known labels.
CELLS = (
    ("emotions", 100, 0.05),
    ("birds", 100, 0.05),
    ("yeast", 100, 0.05),
    ("nhanes_2017", 100, 0.05),
    ("emotions", 500, 0.2),
    ("nhanes_2017", 500, 0.2),
    ("emotions", 1500, 1.0),
    ("nhanes_2017", 1500, 1.0),
)
MEMBERS = ("coupled", "kernel", "boosting")
BLENDS = (("coupled", "boosting"), ("coupled", "kernel"), MEMBERS)
MEASURES = ("log-loss", "Brier", "macro-AUC")


def run(name, n_rows, known, seed, folder):
    """Measures of each model and blend on test samples, means over the tables."""
    from naim3l import NAIM3L, NAIM3LCV
    from naim3l.estimators import BlendNAIM3L, PerViewBoosting
    from naim3l_bench.studies import make_study, open_population

    class Blends(BlendNAIM3L):
        """A blend that can also blend some of its members, without fitting them again."""

        def _learn(self, *found):
            self.found = found
            super()._learn(*found)

        def probabilities_of(self, names, X):
            rules, fitted, problem, scores = self.found
            at = [list(fitted).index(name) for name in names]
            self._learn(rules, {name: fitted[name] for name in names}, problem, scores[:, at])
            self.found = rules, fitted, problem, scores
            return self.predict_proba(X)

    warnings.simplefilter("ignore")
    study = make_study(open_population(name, folder), n_rows, known, seed)
    models = (NAIM3LCV(), NAIM3L(features="rbf", ridge=1.0), PerViewBoosting())
    model = Blends(list(zip(MEMBERS, models, strict=True)), random_state=seed)
    model.fit(study.X, study.Y)
    found = {name: of.predict_proba(study.X_test) for name, of in model.members_.items()}
    found |= {" + ".join(of): model.probabilities_of(of, study.X_test) for of in BLENDS}
    return {title: measure(study.Y_test, P) for title, P in found.items()}


def measure(truth, probabilities):
    """Measures by name."""
    from naim3l_bench.studies import brier, log_loss, macro_auc

    values = [[of(truth, P) for P in probabilities.values()] for of in (log_loss, brier, macro_auc)]
    return {name: sum(of) / len(of) for name, of in zip(MEASURES, values, strict=True)}


def main():
    parser = make_parser(__doc__, "results/blend_boosting.jsonl")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    n_seeds = 2 if arguments.quick else arguments.seeds
    cells = CELLS[:1] if arguments.quick else CELLS
    seeds = range(arguments.first, arguments.first + n_seeds)
    tasks = [(*cell, seed) for seed in seeds for cell in cells]
    run_here = partial(run, folder=arguments.data)
    records = run_missing(run_here, tasks, arguments.runs, arguments.jobs)
    print_table({cell: [records[(*cell, seed)] for seed in seeds] for cell in cells})


def print_table(cells):
    """Means in Markdown; of blends, their difference to the best member, and its error."""
    import numpy as np

    head = ["study", "rows", "known", "seeds", *MEMBERS, *(" + ".join(of) for of in BLENDS)]
    for measure in MEASURES:
        print(f"\n{measure}\n\n| {' | '.join(head)} |\n{'| --- ' * len(head)}|")
        for (name, n_rows, known), runs in cells.items():
            values = {title: np.array([of[title][measure] for of in runs]) for title in runs[0]}
            texts = [name, str(n_rows), f"{100 * known:.0f} %", str(len(runs))]
            texts += [f"{values[title].mean():.2f}" for title in MEMBERS]
            sign = -1 if measure == "macro-AUC" else 1
            for of in BLENDS:
                best = min(of, key=lambda title: sign * values[title].mean())
                apart = values[" + ".join(of)] - values[best]
                error = apart.std(ddof=1) / len(apart) ** 0.5
                texts.append(f"{apart.mean():+.2f} ({error:.2f})")
            print(f"| {' | '.join(texts)} |")


if __name__ == "__main__":
    main()
