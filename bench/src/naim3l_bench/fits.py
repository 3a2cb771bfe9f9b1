"""What experiments fit to a trial: each a small adapter from a trial to scores and numbers.

To add one, write a function of a trial, its parameters and a seed, and name it in ``METHODS``.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_info

from naim3l import (
    NAIM3L,
    NAIM3LCV,
    DataWarning,
    Decisions,
    Kernel,
    PerViewLogistic,
    PerViewRidge,
    Recipe,
    evaluate,
)
from naim3l.estimators import BlendNAIM3L
from naim3l.extend import (
    HISTOGRAM_KERNELS,
    Calibration,
    Objective,
    Problem,
    add_evidence,
    fit_calibration,
    fit_cuts,
    solve_paper,
)
from naim3l_bench.arrays import Mask, Matrix
from naim3l_bench.candidates import compare_on_held_out, score_held_out
from naim3l_bench.clock import timed
from naim3l_bench.features import FourthRoots, GivenKernel, KernelComponents, with_features
from naim3l_bench.rivals import RIVAL_METHODS
from naim3l_bench.trials import METRICS as METRIC_NAMES
from naim3l_bench.trials import (
    LogOdds,
    Method,
    Outcome,
    Parameters,
    Trial,
    WideTrial,
    by_sample,
    fuse_arrays,
    measure,
    measure_calibrated,
    measure_overlapping,
    rank_labels,
    shown_by_sample,
    spectrum_of_scores,
)

NEVER, FREQUENT = "always no", "more frequent value"
SHRUNK, EXPECTED = "f1, shrunk", "expected F1"
MEASURES = ("example-F1", "micro-F1", "macro-F1", "1-HL")
# Known positives at which a label's own threshold counts as much as the common one.
HOLD = 20
PER_ROW = "labels per row"
# How accurate fits without held-out entries are, as in NAIM3L.
FOLD_MAX_ITER, FOLD_TOL = 100, 3e-3


def measure_rules(model: NAIM3LCV, trial: Trial, seed: int) -> dict[str, dict[str, float]]:
    """Measures of every rule, and of guessing, per view and averaged over views.

    Parameters
    ----------
    model : NAIM3LCV
        Fitted on the trial, with probabilities, and with features as they are.
    trial : Trial
    seed : int
        Of the folds that entries are held out in for "f1, shrunk".
    """
    decided: dict[str, dict[str, Mask]] = {}
    scores = model.decision_function(trial.X_test)
    shrunk = _shrunk_f1(model, trial, seed)
    for view, S in scores.items():
        P = model.decisions_.calibrations[view].probabilities(S)
        of_view = {
            NEVER: np.zeros(S.shape, dtype=bool),
            FREQUENT: np.broadcast_to(model.base_rates_ > 0.5, S.shape),
            "sign": S > 0,
            **{rule: cuts[view] < S for rule, cuts in model.decisions_.rules.items()},
            SHRUNK: shrunk[view] < S,
            EXPECTED: best_sets(P),
        }
        for rule, yes in of_view.items():
            decided.setdefault(rule, {})[view] = yes
    truth = {view: trial.truth[rows].astype(float) for view, rows in trial.test_rows.items()}
    return {rule: _measure(truth, by_view) for rule, by_view in decided.items()}


def _measure(truth: dict[str, Matrix], decided: dict[str, Mask]) -> dict[str, float]:
    found = evaluate(truth, {view: np.where(yes, 1.0, -1.0) for view, yes in decided.items()})
    per_row = float(np.mean([yes.sum(axis=1).mean() for yes in decided.values()]))
    return {name: found[name] for name in MEASURES} | {PER_ROW: per_row}


def best_sets(P: Matrix) -> Mask:
    """Labels of each row, (n_rows, n_labels), that maximise its expected F1, nearly.

    The likeliest k labels, where k is the best of ``2 sum(k largest) / (k + sum of all)``: the
    expectation of a ratio is taken for the ratio of expectations. No label at all, whose F1 is 1
    if none is true, is compared with the probability of that, labels taken as independent.

    Examples
    --------
    >>> best_sets(np.array([[0.9, 0.6, 0.1], [0.1, 0.1, 0.05]])).tolist()
    [[True, True, False], [False, False, False]]
    """
    order = np.argsort(-P, axis=1, kind="stable")
    summed = np.cumsum(np.take_along_axis(P, order, axis=1), axis=1)
    expected = 2 * summed / (np.arange(1, P.shape[1] + 1) + P.sum(axis=1, keepdims=True))
    size = np.where(np.prod(1 - P, axis=1) >= expected.max(axis=1), 0, expected.argmax(axis=1) + 1)
    return np.argsort(order, axis=1) < size[:, None]


def _shrunk_f1(model: NAIM3LCV, trial: Trial, seed: int) -> dict[str, Matrix]:
    """Thresholds of "f1", in standard deviations of a label's scores, drawn to a common one."""
    chosen = NAIM3L(
        model.lam_, ridge=model.ridge_, features=None, max_iter=FOLD_MAX_ITER, tol=FOLD_TOL
    )
    held_out = score_held_out(chosen, trial.X_train, trial.Y_train, random_state=seed)
    thresholds = {}
    for view, scores in held_out.items():
        truth = trial.Y_train[view]
        calibration = fit_calibration(scores, truth, model.base_rates_)
        log_odds = calibration.log_odds(scores)
        own = fit_cuts(log_odds, truth, "f1")
        common = fit_cuts(log_odds.reshape(-1, 1), truth.reshape(-1, 1), "f1")
        n_yes = (truth == 1).sum(axis=0)
        cut = (n_yes * own + HOLD * common) / (n_yes + HOLD)
        thresholds[view] = calibration.scores_at(cut)
    return thresholds


KERNEL, ROOTS = "kernel components", "fourth roots"


@contextmanager
def limited_torch() -> Iterator[None]:
    """Keep torch to the number of threads that joblib gives to the process."""
    import torch

    threads = torch.get_num_threads()
    blas = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    torch.set_num_threads(max(blas or [1]))  # joblib's limit, which torch does not see
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def make_network(options: Parameters, **parameters: Any) -> Any:
    """A network, whose options are values of JSON."""
    from naim3l.deep import DeepNAIM3L, Network, Training

    given = {**options, **parameters}
    given["network"] = Network(**given.get("network", {}))
    given["training"] = Training(**given.get("training", {}))
    return DeepNAIM3L(**given)


def make_members(
    kernel: str, n_kernel_components: int, n_components: int, network: Parameters, **options: Any
) -> list[tuple[str, Any]]:
    """Two networks with a shared head each: on components of a kernel, and on roots of counts.

    If the kernel is not one of histograms, the second is on standardised columns.
    """
    second: tuple[str, Any] = "components", Recipe("scale", n_components, plan=False)
    if kernel in HISTOGRAM_KERNELS:
        second = ROOTS, FourthRoots(n_components)
    members = [(KERNEL, KernelComponents(kernel, n_kernel_components)), second]
    options |= {"lam": 0.0, "network": {"shared_head": True, **network}}
    return [(name, make_network(options, features=features)) for name, features in members]


def run_blend(trial: Trial, parameters: Parameters, seed: int) -> Outcome:
    """The blend and its members, fused with the overlap that the parameters name."""
    options = dict(parameters)
    overlap = options.pop("overlap")
    model = BlendNAIM3L(make_members(**options), random_state=seed)
    with limited_torch():
        model.fit(trial.X_train, trial.Y_train)
    scores = model.decision_function(trial.X_test)
    curves = {"blend": model.decisions_.calibrations} | {
        name: {view: of.calibrations[m] for view, of in model.blends_.items()}
        for m, name in enumerate(model.members_)
    }
    measured = {}
    for name, of_view in curves.items():
        found = scores if name == "blend" else model.members_[name].decision_function(trial.X_test)
        log_odds = {view: of_view[view].log_odds(S) for view, S in found.items()}
        measured[name] = measure_overlapping(trial, log_odds, logit(model.base_rates_), overlap)
    weights = {name: np.unique(w).tolist() for name, w in model.weights_.items()}
    return Outcome(scores, {"weights": weights}, curves["blend"], {"members": measured})


LOG_LOSS = "log-loss"
# Probabilities are clipped to this distance from 0 and 1.
LEAST_PROBABILITY = 1e-9
# The model of the paper, whatever the data are, unless a task asks for a ridge.
NO_RIDGE = {"ridge": 0.0}
# Whether an objective has its low-rank and its high-rank terms, by variant of NAIM3L.
TERMS = {"full": (True, True), "low-rank": (True, False), "loss": (False, False)}


def run_method(trial: Trial, name: str, parameters: Parameters, seed: int) -> dict[str, Any]:
    """Record of a fit: metrics by protocol, spectrum of the scores, numbers, CPU seconds.

    The record of a fit that failed has the reason alone.
    """
    with warnings.catch_warnings():
        # The record of a fit has what these report.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", DataWarning)
        try:
            outcome, seconds = timed(METHODS[name], trial, parameters, seed)
        except (FloatingPointError, ValueError) as error:  # diverged, or too little left to fit on
            return {"impossible": str(error)}
    metrics = (measure(trial, outcome.scores) if outcome.scores else {}) | outcome.metrics
    if outcome.calibrations:
        curves = outcome.calibrations
        log_odds = {view: curves[view].log_odds(S) for view, S in outcome.scores.items()}
        metrics |= measure_calibrated(trial, log_odds, next(iter(curves.values())).base)
    spectrum = spectrum_of_scores(trial, outcome.scores) if outcome.scores else None
    return {
        "metrics": metrics,
        "spectrum": spectrum,
        "numbers": outcome.numbers,
        "seconds": seconds,
    }


def _fit_numbers(model: Any) -> dict[str, Any]:
    names = ("n_iter_", "converged_", "stationarity_", "objective_")
    return {name.removesuffix("_"): getattr(model, name) for name in names}


def _naim3l(trial: Trial, parameters: Parameters, seed: int) -> Outcome:
    model = NAIM3L(features=None, random_state=seed, **{**NO_RIDGE, **parameters})
    model.fit(trial.X_train, trial.Y_train)
    return Outcome(model.decision_function(trial.X_test), _fit_numbers(model))


def _naim3l_cv(trial: Trial, parameters: Parameters, seed: int) -> Outcome:
    model = NAIM3LCV(features=None, decide="sign", random_state=seed, **parameters)
    model.fit(trial.X_train, trial.Y_train)
    chosen = {"lam": model.lam_, "ridge": model.ridge_, "held_out": model.best_score_}
    return Outcome(model.decision_function(trial.X_test), chosen | _fit_numbers(model))


def _ridge_cv(trial: Trial, parameters: Parameters, seed: int) -> Outcome:
    """Ridge per view, chosen by AP on folds of observed entries."""
    X, Y = trial.X_train, trial.Y_train
    models = [PerViewRidge(ridge, features=None) for ridge in parameters["ridges"]]
    folds = {"cv": parameters["cv"], "metric": "AP", "random_state": seed}
    best, held_out = compare_on_held_out(models, X, Y, **folds)
    scores = models[best].fit(X, Y).decision_function(trial.X_test)
    return Outcome(scores, {"ridge": models[best].ridge, "held_out": held_out[best]})


def _trace(trial: Trial, parameters: Parameters, seed: int) -> Outcome:
    """Algorithm 1 measured as it runs: metrics after some iterations, objectives after all.

    Parameters are those of ``solve_paper``, lambda and the variant, and ``at``, the iterations to
    measure after; those after the last iteration are of the last weights.
    """
    options = dict(parameters)
    at = options.pop("at")
    terms = TERMS[options.pop("variant", "full")]
    signed = [np.where(np.isnan(Y), 0, 2 * Y - 1) for Y in trial.Y_train.values()]
    problem = Problem(list(trial.X_train.values()), signed)
    objective = Objective(problem, options.pop("lam"), *terms)
    W = np.random.RandomState(seed).uniform(-1, 1, (problem.n_weights, problem.n_labels))

    path: dict[str, Any] = {}
    curves: dict[str, list[float]] = {"objective": [], "surrogate": []}

    def watch(record: Mapping[str, float], W: NDArray) -> None:
        for name, values in curves.items():
            values.append(record[name])
        if len(curves["objective"]) in at:
            path[str(len(curves["objective"]))] = measure(trial, _scores(trial, problem, W))

    result = solve_paper(objective, W, callback=watch, **options)
    if result.interrupted:
        raise KeyboardInterrupt
    last = _scores(trial, problem, result.W)
    path |= {str(n): measure(trial, last) for n in at if n > result.n_iter}
    numbers = {"n_iter": result.n_iter, "converged": result.converged, "path": path, **curves}
    return Outcome(last, numbers)


def _model_cv(trial: Trial, parameters: Parameters, seed: int) -> Outcome:
    """Model with features of its own, tuned and calibrated on held-out entries."""
    options = with_features(parameters)
    if not options.pop("search_gamma", True):
        options["features"] = GivenKernel(options["features"])
    model = NAIM3LCV(random_state=seed, **options).fit(trial.X_train, trial.Y_train)
    gammas = {
        view: model.gamma_[view] if features.transformer is None else features.transformer.gamma_
        for view, features in model.features_.items()
    }
    chosen = {"lam": model.lam_, "ridge": model.ridge_, "gamma": gammas}
    chosen |= {"held_out": model.best_score_} | _fit_numbers(model)
    curves = model.decisions_.calibrations
    return Outcome(model.decision_function(trial.X_test), chosen, curves)


def _logistic_cv(trial: Trial, parameters: Parameters, seed: int) -> Outcome:
    """Logistic regression per view and label: bandwidths, folds and calibration of the others."""
    options = with_features(parameters)
    Cs, n_folds = options.pop("Cs"), options.pop("cv")
    X, Y = trial.X_train, trial.Y_train
    features = options.setdefault("features", "auto")
    gammas = dict.fromkeys(X)
    folds: dict[str, Any] = {"cv": n_folds, "metric": LOG_LOSS, "random_state": seed}
    if isinstance(features, Kernel):
        alone = NAIM3LCV([1.0], [1.0], variant="loss", decide="sign", features=features, **folds)
        gammas = alone.fit(X, Y).gamma_
        options["features"] = {v: replace(features, gamma=g) for v, g in gammas.items()}
        features = {v: GivenKernel(features, g) for v, g in gammas.items()}  # as in the search
    models = [PerViewLogistic(C, features=features) for C in Cs]
    best, held_out = compare_on_held_out(models, X, Y, **folds)
    curves = Decisions("sign", probabilities=True)
    model = PerViewLogistic(Cs[best], decide=curves, random_state=seed, **options).fit(X, Y)
    numbers = {"C": Cs[best], "gamma": gammas, "held_out": held_out[best]}
    scores = model.decision_function(trial.X_test)
    return Outcome(scores, numbers, model.decisions_.calibrations)


def _deep(trial: Trial, parameters: Parameters, seed: int) -> Outcome:
    """Networks under the logistic loss; PCA before them keeps ``n_components``."""
    model = make_network(with_features(parameters), random_state=seed)
    with limited_torch():
        model.fit(trial.X_train, trial.Y_train)
    # Scores of the logistic loss are log-odds as they are; fits on folds would take too long.
    scores = model.decision_function(trial.X_test)
    given = dict.fromkeys(scores, LogOdds(logit(model.base_rates_)))
    return Outcome(scores, {"epochs": len(model.history_)}, given)


def calibration_error(truth: Matrix, probabilities: Matrix) -> float:
    """How far probabilities are from observed frequencies, in ten bins of equal width.

    The mean over bins, weighted by their numbers of entries, of the absolute difference between the
    mean probability and the share of positives.
    """
    bins = np.minimum((probabilities * 10).astype(np.intp), 9).ravel()
    excess = np.bincount(bins, (probabilities - truth).ravel(), minlength=10)
    return float(np.abs(excess).sum() / truth.size)


def _decisions(trial: Trial, parameters: Parameters, seed: int) -> Outcome:
    """What calibration does to scores, and complete fusion."""
    decide = Decisions("sign", probabilities=True)
    model = NAIM3L(features=None, decide=decide, random_state=seed, **{**NO_RIDGE, **parameters})
    model.fit(trial.X_train, trial.Y_train)
    scores = model.decision_function(trial.X_test)
    truth = {view: trial.truth[rows] for view, rows in trial.test_rows.items()}
    numbers: dict[str, Any] = {}
    # A score between -1 and 1 taken for a probability as it is.
    plain = {view: np.clip((S + 1) / 2, 0, 1) for view, S in scores.items()}
    for name, of in (("calibrated", model.predict_proba(trial.X_test)), ("plain", plain)):
        errors = [calibration_error(truth[view].astype(float), P) for view, P in of.items()]
        numbers[f"calibration error, {name}"] = float(np.mean(errors))
        shares = [_explained(truth[view], P, model.base_rates_) for view, P in of.items()]
        numbers[f"log-loss explained, {name}"] = float(np.mean(shares))
    numbers |= _complete_fusion(trial, scores)
    return Outcome(scores, numbers)


def _rules(trial: Trial, parameters: Parameters, seed: int) -> Outcome:
    """Decisions of every rule, from one tuned fit."""
    model = NAIM3LCV(features=None, random_state=seed, **parameters)
    model.fit(trial.X_train, trial.Y_train)
    numbers = measure_rules(model, trial, seed)
    return Outcome(model.decision_function(trial.X_test), dict(numbers))


def _explained(truth: NDArray, probabilities: NDArray, rates: NDArray) -> float:
    """Share of the log-loss of the labels' base rates that probabilities avoid."""
    loss, loss_of_rates = (
        log_loss(
            truth.ravel(),
            np.clip(p, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY).ravel(),
            labels=[0, 1],
        )
        for p in (probabilities, np.broadcast_to(rates, truth.shape))
    )
    return float(1 - loss / loss_of_rates)


def _fusions(trial: Trial, parameters: Parameters, seed: int) -> Outcome:
    """Ways to fuse the views of samples that are known to be the same, in training too."""
    wide = WideTrial.of(trial)
    options = {"decide": Decisions("sign", True, "evidence"), **NO_RIDGE, **parameters}
    model = NAIM3L(views=wide.views, features=None, random_state=seed, **options)
    model.fit(wide.X_train, wide.Y_train)
    scores = {v: X @ model.coef_[v] + model.intercept_[v] for v, X in trial.X_test.items()}
    evidence = model.decisions_.evidence
    assert evidence is not None
    numbers: dict[str, Any] = {"overlap": evidence.overlap}
    curve = model.decisions_.calibrations["fused"]
    for shown, table in (
        ("all views", by_sample(trial, scores)),
        ("half hidden", shown_by_sample(trial, scores)),
    ):
        if table is None:
            continue
        fused = {
            "mean": fuse_arrays(table),
            "ranks": fuse_arrays(rank_labels(table)),
            "evidence": _add_evidence(evidence.calibrations, table),
            "overlap learned": curve.log_odds(evidence.fuse(table)),
        }
        numbers[shown] = {way: _short(evaluate(trial.truth, S)) for way, S in fused.items()}
        seen = ~np.isnan(fused["evidence"]).any(axis=1)
        for way in ("evidence", "overlap learned"):  # the others give no probabilities
            P = expit(fused[way][seen])
            share = _explained(trial.truth[seen], P, model.base_rates_)
            numbers[shown][way]["explained"] = share
        numbers[shown]["best view alone"] = _short(_best_alone(trial, table))
    return Outcome(scores, numbers)


def _add_evidence(calibrations: list[Calibration], table: NDArray[np.float64]) -> NDArray:
    """Log-odds (n_samples, n_labels) with the evidence of every view added up."""
    log_odds = [curve.log_odds(S) for curve, S in zip(calibrations, table, strict=True)]
    return add_evidence(np.stack(log_odds), calibrations[0].base)


def _best_alone(trial: Trial, table: NDArray[np.float64]) -> dict[str, float]:
    """Metrics of the view with the highest AP, on the samples of the table that have it."""
    alone = []
    for S in table:
        seen = ~np.isnan(S).any(axis=1)
        alone.append(evaluate(trial.truth[seen], S[seen]))
    return max(alone, key=lambda metrics: metrics["AP"])


def _short(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: metrics[name] for name in METRIC_NAMES}


def _complete_fusion(trial: Trial, scores: Mapping[str, NDArray]) -> dict[str, float]:
    """AP of the best single view and of the mean over all views of each test sample."""
    alone = [evaluate(trial.truth[trial.test_rows[view]], S)["AP"] for view, S in scores.items()]
    fused = evaluate(trial.truth, fuse_arrays(by_sample(trial, scores)))["AP"]
    return {"AP, best view": max(alone), "AP, all views fused": fused}


def _scores(trial: Trial, problem: Problem, W: NDArray) -> dict[str, NDArray[np.float64]]:
    """Scores of the test rows of every view, from stacked weights."""
    parts = zip(trial.X_test.items(), *problem.split_weights(W), strict=True)
    return {view: X @ coefficients + intercepts for (view, X), coefficients, intercepts in parts}


METHODS: dict[str, Method] = {
    "NAIM3L": _naim3l,
    "NAIM3L, tuned": _naim3l_cv,
    "ridge, tuned": _ridge_cv,
    "Algorithm 1": _trace,
    "decisions": _decisions,
    "rules": _rules,
    "model, tuned": _model_cv,
    "logistic, tuned": _logistic_cv,
    "deep": _deep,
    "blend": run_blend,
    "fusions": _fusions,
    **RIVAL_METHODS,
}
