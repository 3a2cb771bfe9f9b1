"""Streamed fits of naim3l and of linear models by stochastic gradients, for bench_scale.py."""

from time import perf_counter

import numpy as np
from scale_data import N_LABELS, VIEWS
from scale_runs import make_model, warm_up, workers
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from naim3l import evaluate

# By which method of NAIM3L the test rows are scored; probabilities need a calibrated fit.
METHODS = {"naim3l": "decision_function", "naim3l, calibrated": "predict_proba"}
EPOCHS = (1, 3)


@threadpool_limits.wrap(limits=1)
def compare(data, test):
    """Seconds and test metrics of each method, by its name.

    Parameters
    ----------
    data, test : Dataset
        The test rows must fit in memory.
    """
    held_out = {view: _whole(test, view) for view in VIEWS}
    X_test = {view: X for view, (X, _) in held_out.items()}
    Y_test = {view: Y for view, (_, Y) in held_out.items()}
    results = {}
    with workers(threads=1):
        warm_up(data.folder, calibrate=True)
        for name, method in METHODS.items():
            start = perf_counter()
            model = make_model(calibrate=method == "predict_proba").fit(data.paths, data.labels)
            seconds = perf_counter() - start
            lazy = getattr(model, method)(test.paths)
            scores = {view: of_view.compute().to_numpy() for view, of_view in lazy.items()}
            results[name] = seconds, _metrics(Y_test, scores)
    for n_epochs in EPOCHS:
        start = perf_counter()
        fitted = {view: sgd_fit(data, view, n_epochs) for view in VIEWS}
        seconds = perf_counter() - start
        scores = {view: sgd_scores(*fitted[view], X_test[view]) for view in VIEWS}
        name = f"SGDClassifier, {n_epochs} epoch{'s' if n_epochs > 1 else ''}"
        results[name] = seconds, _metrics(Y_test, scores)
    guess = {view: np.tile(model.base_rates_, (len(Y), 1)) for view, Y in Y_test.items()}
    return results | {"guessing": (None, _metrics(Y_test, guess))}


def sgd_fit(data, view, n_epochs):
    """Scaler of the columns, fitted in a pass of its own, and one classifier per label."""
    scaler = StandardScaler()
    for X, _ in data.groups(view):
        scaler.partial_fit(X)
    models = [SGDClassifier(loss="log_loss", random_state=k) for k in range(N_LABELS)]
    for _ in range(n_epochs):
        for X, Y in data.groups(view):
            X = scaler.transform(X)
            for model, y in zip(models, Y.T, strict=True):
                known = ~np.isnan(y)
                model.partial_fit(X[known], y[known], classes=[0, 1])
    return scaler, models


def sgd_scores(scaler, models, X):
    """Scores of all labels, (n, n_labels)."""
    X = scaler.transform(X)
    return np.column_stack([model.decision_function(X) for model in models])


def _whole(data, view):
    """Features and labels of all rows of a view."""
    return tuple(map(np.concatenate, zip(*data.groups(view), strict=True)))


def _metrics(Y, scores):
    found = evaluate(Y, scores)
    return {name: found[name] for name in ("AP", "macro-AUC")}
