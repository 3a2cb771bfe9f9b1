"""Labels that a table never records: what is predicted there, beside what would be if it did.

Every table of a study loses some of the labels. The same model is fitted without and with them, and
both are measured on samples that were set aside, where the lost labels are known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy
from sklearn.metrics import roc_auc_score

from naim3l import NAIM3LCV
from naim3l_bench.funcat import NAME as FUNCAT
from naim3l_bench.funcat import FunCat, read_funcat
from naim3l_bench.studies import Matrix, Tables, make_study, open_population

LOST = 0.2  # share of the labels that each table loses
KNOWN = 0.5  # share of the others, and of all labels if they are recorded
N_ROWS = {"nhanes_2017": 1000, "yeast_funcat": 1000}  # of each table
USUAL_ROWS = 500
STUDIES = ("nhanes_2017", "yeast", "emotions", "birds", "arxiv2007", FUNCAT)


def open_tables(name: str, folder: str | Path, seed: int) -> Tables:
    """Tables of a study of `STUDIES`, with half of the labels unknown."""
    n_rows = N_ROWS.get(name, USUAL_ROWS)
    if name == FUNCAT:
        return _draw_funcat(read_funcat(folder), n_rows, seed)
    study = make_study(open_population(name, folder), n_rows, KNOWN, seed)
    return Tables(study.X, study.Y, study.X_test, dict.fromkeys(study.X, study.Y_test))


def _draw_funcat(genes: FunCat, n_rows: int, seed: int) -> Tables:
    """Frequent labels of a random part of the training rows, and all test rows."""
    rng, used, found = np.random.default_rng((seed, n_rows)), genes.frequent, Tables({}, {}, {}, {})
    for view, table in genes.views.items():
        labels, test = genes.labels[view][:, used].astype(float), genes.test[view]
        rows = rng.permutation(np.flatnonzero(~test))[:n_rows]
        unknown = rng.random((len(rows), labels.shape[1])) >= KNOWN
        found.X[view], found.Y[view] = table[rows], np.where(unknown, np.nan, labels[rows])
        found.X_test[view], found.Y_test[view] = table[test], labels[test]
    return found


def choose_lost(n_tables: int, n_labels: int, seed: int) -> NDArray[np.bool_]:
    """Labels that each table loses, (n_tables, n_labels): a fifth of them, at least one.

    Every label stays in two tables, or in one of two.
    """
    rng = np.random.default_rng((seed, n_tables, n_labels))
    n_lost, most = max(1, round(LOST * n_labels)), n_tables - (2 if n_tables > 2 else 1)
    lost = np.zeros((n_tables, n_labels), dtype=bool)
    for v in rng.permutation(n_tables):
        left = np.flatnonzero(lost.sum(axis=0) < most)
        lost[v, rng.choice(left, min(n_lost, len(left)), replace=False)] = True
    return lost


def connect(tables: Tables, n: int, seed: int) -> tuple[Tables, NDArray[np.bool_]]:
    """Tables with n + 1 random labels, of which each loses one, and which these are."""
    n_labels = next(iter(tables.Y.values())).shape[1]
    rng = np.random.default_rng((seed, n, n_labels))
    used = rng.choice(n_labels, n + 1, replace=False)
    Y, Y_test = ({v: of[:, used] for v, of in Y.items()} for Y in (tables.Y, tables.Y_test))
    lost = np.arange(n + 1) == np.arange(len(Y))[:, None] % (n + 1)
    return replace(tables, Y=Y, Y_test=Y_test), lost


def lose(tables: Tables, lost: NDArray[np.bool_]) -> Tables:
    """The tables without the labels that they lose."""
    Y = {
        view: np.where(of_table, np.nan, labels)
        for (view, labels), of_table in zip(tables.Y.items(), lost, strict=True)
    }
    return replace(tables, Y=Y)


def measure_absent(tables: Tables, lost: NDArray[np.bool_], seed: int) -> dict[str, Any]:
    """Measures of each lost label in the table that lost it, and what the model expected.

    A pair of table and label counts if the test rows have both values. Log-loss is that of an
    entry; "raw" are scores before anything is borrowed, "recorded" the same model with the labels.
    """
    model, recorded = (
        NAIM3LCV(random_state=seed).fit(tables.X, Y) for Y in (lose(tables, lost).Y, tables.Y)
    )
    P, if_recorded = (of.predict_proba(tables.X_test) for of in (model, recorded))
    raw = model._view_scores(tables.X_test)
    obstacles = {(of.view, of.label): of.obstacle for of in model.absent_labels_}
    pairs = []
    for view, of_table in zip(tables.X, lost, strict=True):
        present = np.isfinite(P[view]).all(axis=1)
        for k in np.flatnonzero(of_table):
            used = present & np.isfinite(tables.Y_test[view][:, k])
            y = tables.Y_test[view][used, k]
            if len(np.unique(y)) < 2:
                continue
            p, q = P[view][used, k], if_recorded[view][used, k]
            pairs.append(
                {
                    "view": view,
                    "label": int(k),
                    "n": len(y),
                    "obstacle": obstacles[view, model.label_names_[k]],
                    "AUC": auc(y, p),
                    "AUC, raw": auc(y, raw[view][used, k]),
                    "AUC, recorded": auc(y, q),
                    "log-loss": log_loss(y, p),
                    "log-loss, base rates": log_loss(y, model.view_rates_[view][k]),
                    "log-loss, recorded": log_loss(y, q),
                }
            )
    simulated = model.decisions_.simulation
    said = {} if simulated is None else {key: float(of) for key, of in vars(simulated).items()}
    obstacle = "nothing is absent" if simulated is None else simulated.obstacle
    return {"pairs": pairs, "simulation": said, "obstacle": obstacle}


def auc(y: Matrix, scores: Matrix) -> float:
    """Area under the ROC curve, in percent."""
    return 100 * float(roc_auc_score(y, scores))


def log_loss(y: Matrix, p: Any) -> float:
    """Mean log-loss of probabilities, times 100."""
    return -100 * float(np.mean(xlogy(y, p) + xlogy(1 - y, 1 - p)))


# Measures of pairs, of which a run has means.
OF_PAIRS = (
    "AUC",
    "AUC, raw",
    "AUC, recorded",
    "log-loss",
    "log-loss, base rates",
    "log-loss, recorded",
)


def summarise(run: Mapping[str, Any]) -> dict[str, float]:
    """Means over the pairs of a result of `measure_absent`, and its gains, in percent.

    Gains are shares of the log-loss of base rates, pooled over entries as in the simulation.
    """
    pairs, said = run["pairs"], run["simulation"]
    found = {of: float(np.mean([pair[of] for pair in pairs])) for of in OF_PAIRS}
    n = np.array([pair["n"] for pair in pairs])
    reached, base = (
        n @ np.array([pair[of] for pair in pairs]) for of in ("log-loss", "log-loss, base rates")
    )
    inside = [100 * said["low"] <= pair["AUC"] <= 100 * said["high"] for pair in pairs]
    losses = [pair["log-loss"] - pair["log-loss, base rates"] for pair in pairs]
    return found | {
        "gain": 100 * float(1 - reached / base),
        "predicted gain": 100 * said["gain"],
        "predicted error": 100 * said["error"],
        "low": 100 * said["low"],
        "high": 100 * said["high"],
        "inside": 100 * float(np.mean(inside)),
        "pairs worse than base rates": 100 * float(np.mean(np.array(losses) > 1e-9)),
        "pairs with AUC below 50": 100 * float(np.mean([pair["AUC"] < 50 for pair in pairs])),
        "pairs": len(pairs),
    }


def failing(runs: Sequence[Mapping[str, float]]) -> list[str]:
    """Sentences on what results of `summarise` with several seeds contradict.

    Log-loss is at most that of base rates, AUC is between that of base rates and that if the labels
    were recorded, and the gain is at least the predicted one: each within two standard errors of
    the mean difference.
    """
    claims = (
        ("log-loss", "log-loss, base rates"),
        ("AUC, base rates", "AUC"),
        ("AUC", "AUC, recorded"),
        ("predicted gain", "gain"),
    )
    found = []
    for less, more in claims:
        values = [{"AUC, base rates": 50.0, **run} for run in runs]
        mean, error = mean_difference(values, less, more)
        if mean > 2 * error:
            found.append(f"{less} - {more} = {mean:+.2f} (standard error {error:.2f})")
    return found


def mean_difference(
    runs: Sequence[Mapping[str, float]], first: str, second: str
) -> tuple[float, float]:
    """Mean over seeds of a measure less another, and its standard error."""
    differences = np.array([of[first] - of[second] for of in runs])
    return float(differences.mean()), float(differences.std(ddof=1) / len(runs) ** 0.5)
