"""Studies of filling in: unknown labels of rows that are in the training tables.

Tables have samples in common. An entry is hidden by sample, that is in every table that the sample
is in: what is asked for is recorded nowhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from naim3l import NAIM3LCV, Decisions
from naim3l.extend import Bridge, learn_bridge
from naim3l_bench import studies
from naim3l_bench.clock import timed
from naim3l_bench.datasets import open_npz
from naim3l_bench.funcat import NAME as FUNCAT
from naim3l_bench.funcat import FunCat, read_funcat
from naim3l_bench.studies import accuracy, log_loss

Matrix = NDArray[np.float64]
Tables = Mapping[str, Matrix]

MOST_ROWS = 1200  # of each table
DATASETS = (
    *("yeast", "emotions", "birds", "arxiv2007"),
    *("corel5k_lear4", FUNCAT, "nhanes_2017"),
)
MEASURES = ("log-loss", "accuracy", "AUC", "AP")
TIMED = ("fit", "without", "with")
METHODS = ("base rates", "without", "with", "own", "labels only")
# Of boosting, as `naim3l.NAIM3L.compare` has them.
N_TREES = (0, 10, 30, 100)
SETTINGS: dict[str, Any] = {
    "learning_rate": 0.1,
    "max_leaf_nodes": 15,
    "max_bins": 63,
    "l2_regularization": 1.0,
    "early_stopping": False,
    "random_state": 0,
}


@dataclass(frozen=True)
class Sources:
    """Tables that are not aligned, with complete labels, and the sample of each row."""

    views: Mapping[str, Any]  # tables (n_rows_v, n_columns_v): arrays, or data frames
    labels: Tables  # (n_rows_v, n_labels): 1, 0, NaN
    samples: Mapping[str, NDArray[np.intp]]  # (n_rows_v,)


@dataclass(frozen=True)
class Filling:
    """Tables with the labels that are known, and those that are hidden; NaN elsewhere."""

    X: dict[str, Any]
    Y: dict[str, Matrix]
    hidden: dict[str, Matrix]  # none of labels that are not known to be yes, or no, in any table


@lru_cache
def open_sources(name: str, folder: str | Path) -> Sources:
    """A dataset of `DATASETS`, from files in a folder."""
    if name == FUNCAT:
        return _classified(read_funcat(folder))
    if name in studies.POPULATIONS:
        population = studies.open_population(name, folder)
        views, labels = population.views, population.labels
    else:
        data = open_npz(Path(folder) / f"{name}.npz")
        views, labels = dict(data.views), np.asarray(data.labels, dtype=float)
    rows = {view: _rows_with_values(table) for view, table in views.items()}
    return Sources(
        {view: _take(table, rows[view]) for view, table in views.items()},
        {view: labels[rows[view]] for view in views},
        rows,
    )


def _classified(genes: FunCat) -> Sources:
    """Genes without ids: those with the same labels, of all levels, are taken to be one sample."""
    of_rows: dict[bytes, int] = {}
    tables, labels, samples = {}, {}, {}
    for view, table in genes.views.items():
        rows = genes.classified(view)
        Y = genes.labels[view][rows]
        tables[view], labels[view] = table[rows], Y[:, genes.frequent].astype(float)
        samples[view] = np.array([of_rows.setdefault(y.tobytes(), len(of_rows)) for y in Y])
    return Sources(tables, labels, samples)


def make_filling(
    sources: Sources, unknown: float, seed: int, *, most: int = MOST_ROWS, disjoint: bool = False
) -> Filling:
    """Tables of a random half of at most ``2 * most`` samples each, with a share unknown.

    With ``disjoint``, each table has samples of its own, at most ``most``. One yes and one no of
    each label stay known in some table, if there are any.
    """
    rng = np.random.default_rng((seed, round(100 * unknown)))
    samples = np.unique(np.concatenate(list(sources.samples.values())))
    order, views = rng.permutation(samples), list(sources.views)
    rows = {}
    for j, view in enumerate(views):
        used = order[j :: len(views)] if disjoint else order[: 2 * most]
        there = rng.permutation(np.flatnonzero(np.isin(sources.samples[view], used)))
        rows[view] = there[: min(most, len(there) if disjoint else -(-len(there) // 2))]
    X = {view: _take(sources.views[view], rows[view]) for view in views}
    truth = {view: sources.labels[view][rows[view]] for view in views}
    of_rows = {view: sources.samples[view][rows[view]] for view in views}
    draws = rng.random((samples.max() + 1, next(iter(truth.values())).shape[1]))
    closed = draws < unknown
    _keep_one_each(closed, draws, truth, of_rows)
    Y = {view: np.where(closed[of_rows[view]], np.nan, truth[view]) for view in views}
    known = np.concatenate(list(Y.values()))
    measured = (known == 1).any(axis=0) & (known == 0).any(axis=0)
    hidden = {
        view: np.where(closed[of_rows[view]] & measured, truth[view], np.nan) for view in views
    }
    return Filling(X, Y, hidden)


def _keep_one_each(closed: Any, draws: Matrix, truth: Tables, samples: Mapping[str, Any]) -> None:
    """Open, in place, an entry of each value of a label that would else be known nowhere."""
    stacked, of_rows = np.concatenate(list(truth.values())), np.concatenate(list(samples.values()))
    for k in range(stacked.shape[1]):
        for value in (0, 1):
            having = of_rows[stacked[:, k] == value]
            if len(having) and closed[having, k].all():
                closed[having[np.argmax(draws[having, k])], k] = False


def measure_filling(filling: Filling, seed: int) -> dict[str, float]:
    """Measures of `METHODS` on the hidden entries, as in "AP, with", and what the fit learned.

    "without" and "with" are probabilities of `naim3l.NAIM3LCV` without and with the known labels of
    the rows. "own" has the correlations of the labels of each table alone, "labels only" the base
    rates in place of what the features tell.
    """
    X, Y = filling.X, filling.Y
    model = NAIM3LCV(random_state=seed)
    problem, scores, _ = model._fit_held_out(X, Y)  # as a member of a blend, with few decisions
    _, of_fit = timed(model.fit, X, Y)
    without, of_without = timed(model.predict_proba, X)
    given, of_given = timed(model.predict_proba, X, known=Y)
    seconds = zip(TIMED, (of_fit, of_without, of_given), strict=True)
    found = {f"seconds, {name}": of for name, of in seconds}

    curves, truth = model.decisions_.calibrations, problem.truth_of(problem.Y != 0)
    # Held-out log-odds and known labels of each table, as the fit has them.
    tables = {
        view: (curves[view].log_odds(scores[rows]), truth[rows])
        for view, rows in zip(X, problem.row_slices, strict=True)
    }
    final: dict[str, Any] = {
        view: curves[view].log_odds(S) for view, S in model.decision_function(X).items()
    }
    own = {view: learn_bridge([table]) for view, table in tables.items()}
    rates = {view: np.broadcast_to(rate, Y[view].shape) for view, rate in model.view_rates_.items()}
    constant = {view: np.asarray(logit(rate)) for view, rate in rates.items()}
    only = learn_bridge(
        [
            (np.where(np.isnan(held_out), np.nan, constant[view][0]), labels)
            for view, (held_out, labels) in tables.items()
        ]
    )
    answers = {
        "base rates": rates,
        "without": without,
        "with": given,
        "own": {view: _bridged(own[view], eta, Y[view]) for view, eta in final.items()},
        "labels only": {view: _bridged(only, eta, Y[view]) for view, eta in constant.items()},
    }
    for name, P in answers.items():
        found |= {f"{key}, {name}": value for key, value in measure(filling.hidden, P).items()}
    losses = [
        log_loss(truth, given[view]) / log_loss(truth, without[view])
        for view, truth in filling.hidden.items()
    ]
    return found | _learned(model) | {"worst table": 100 * (max(losses) - 1)}


def measure_disjoint(filling: Filling, seed: int) -> dict[str, float]:
    """Measures with the known labels, of a fit that is told that no sample is in two tables."""
    found = dict[str, float]()
    for name, disjoint in (("checked alone", False), ("disjoint", True)):
        model = NAIM3LCV(decide=Decisions(disjoint=disjoint), random_state=seed)
        model.fit(filling.X, filling.Y)
        answers = {"without": model.predict_proba(filling.X)}
        answers[name] = model.predict_proba(filling.X, known=filling.Y)
        for of, P in answers.items():
            found |= {f"{key}, {of}": value for key, value in measure(filling.hidden, P).items()}
        found |= {f"{key}, {name}": value for key, value in _learned(model).items()}
    return found


def _bridged(bridge: Bridge | None, log_odds: Matrix, known: Matrix) -> Matrix:
    return expit(log_odds if bridge is None else bridge.log_odds(log_odds, known))


def _learned(model: Any) -> dict[str, float]:
    """What a fit has learned about known labels; the gain in percent."""
    bridge = model.decisions_.bridge
    if bridge is None:
        return dict.fromkeys(("strength", "noise", "predicted"), 0.0)
    numbers = {"strength": bridge.strength, "noise": bridge.noise, "predicted": 100 * bridge.gain}
    return {name: float(value) for name, value in numbers.items()}


def measure_boosting(filling: Filling, seed: int) -> dict[str, float]:
    """Measures of gradient boosting per label and table, with the other labels as columns.

    A column has the known values of a label, NaN where it is unknown. The number of trees of a
    table is that with the lowest log-loss on a third of its known entries, fitted to the others.
    """
    P = {view: _boosted(np.asarray(filling.X[view]), Y, seed) for view, Y in filling.Y.items()}
    return {f"{key}, boosting": value for key, value in measure(filling.hidden, P).items()}


@threadpool_limits.wrap(limits=1, user_api="openmp")
def _boosted(X: Matrix, Y: Matrix, seed: int) -> Matrix:
    """Probabilities (n_rows, n_labels) in one table."""
    known = np.isfinite(Y)
    third = np.random.default_rng(seed).permutation(len(Y)) % 3 == 0
    losses = np.zeros(len(N_TREES))
    for k in range(Y.shape[1]):
        tried = known[:, k] & third
        stages = _stages(X, Y, k, known[:, k] & ~third, tried, N_TREES)
        sign = np.where(Y[tried, k] > 0, -1.0, 1.0)
        losses += np.logaddexp(0, sign * stages).sum(axis=1)
    best, every = N_TREES[int(losses.argmin())], np.ones(len(Y), dtype=bool)
    of_labels = [_stages(X, Y, k, known[:, k], every, (best,))[0] for k in range(Y.shape[1])]
    return np.asarray(expit(np.column_stack(of_labels)))


def _stages(
    X: Matrix, Y: Matrix, k: int, training: Any, rows: Any, n_trees: Sequence[int]
) -> Matrix:
    """Log-odds of a label in rows, by numbers of trees; of its base rate without trees."""
    y = Y[training, k] > 0
    rate = (y.sum() + 0.5) / (len(y) + 1)
    found = np.full((len(n_trees), rows.sum()), logit(rate))
    if max(n_trees) and len(np.unique(y)) == 2 and rows.any():
        columns = np.hstack([X, np.delete(Y, k, axis=1)])
        columns[:, np.isnan(columns[training]).all(axis=0)] = 0  # scikit-learn refuses these
        leaf = int(np.clip(training.sum() // 20, 5, 20))
        model = HistGradientBoostingClassifier(
            **SETTINGS | {"max_iter": max(n_trees)}, min_samples_leaf=leaf
        ).fit(columns[training], y)
        of_trees = list(model.staged_decision_function(columns[rows]))
        for i, n in enumerate(n_trees):
            if n:
                found[i] = of_trees[n - 1]
    return found


def measure(hidden: Tables, P: Tables) -> dict[str, float]:
    """`MEASURES` of probabilities on hidden entries, means over the tables, in percent.

    Log-loss (times 100) and accuracy are those of all entries of a table, AUC and AP means over the
    labels that have both values.
    """
    tables = [_measure_table(truth, P[view]) for view, truth in hidden.items()]
    return {name: float(np.nanmean([of_table[name] for of_table in tables])) for name in MEASURES}


def _measure_table(truth: Matrix, P: Matrix) -> dict[str, float]:
    rankings = []
    for y, p in zip(truth.T, P.T, strict=True):
        used = np.isfinite(y)
        if len(np.unique(y[used])) == 2:
            rankings.append(auc_and_ap(y[used], p[used]))
    auc, ap = 100 * np.mean(rankings, axis=0) if rankings else (np.nan, np.nan)
    of_entries = {"log-loss": log_loss(truth, P), "accuracy": accuracy(truth, P > 0.5)}
    return of_entries | {"AUC": float(auc), "AP": float(ap)}


def auc_and_ap(y: NDArray[Any], scores: NDArray[Any]) -> tuple[float, float]:
    """Area under the curve, and average precision, of one label; those of scikit-learn, faster."""
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(y) - 1)  # of equal scores
    yes = np.cumsum(y[order])[ends]
    called = ends + 1.0
    more_yes, more_no = np.diff(yes, prepend=0), np.diff(called - yes, prepend=0)
    auc = np.sum(more_no * (yes - more_yes / 2)) / (yes[-1] * (called - yes)[-1])
    return float(auc), float(np.sum(more_yes * yes / called) / yes[-1])


def _rows_with_values(table: Any) -> NDArray[np.intp]:
    if hasattr(table, "iloc"):
        return np.flatnonzero(table.notna().any(axis=1).to_numpy())
    return np.flatnonzero(~np.isnan(table).all(axis=1))


def _take(table: Any, rows: NDArray[np.intp]) -> Any:
    return table.iloc[rows].reset_index(drop=True) if hasattr(table, "iloc") else table[rows]
