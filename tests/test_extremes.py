"""Numbers far from any use: a finite model, or an error that names them; never NumPy's warnings."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from naim3l import NAIM3L, NAIM3LCV, DataWarning, Kernel
from naim3l.estimators import PerViewLogistic, PerViewRidge
from study import run

FEW = {"max_iter": 10}
SEARCH = {"lams": [0.4], "ridges": [1.0], "cv": 2, "random_state": 0, **FEW}
EXTREMES = (0.0, 5e-324, 1e-300, 1e-100, 1e-10, 1e-6, 1e6, 1e10, 1e100, 1e300, 1.7e308)
SCALES = (1e-200, 1e-101, 1e-99, 1e-8, 1e8, 1e99, 1e101, 1e200)
MODELS = {
    "fast": lambda **options: NAIM3L(**FEW | options),
    "paper": lambda **options: NAIM3L(**FEW | {"solver": "paper", "random_state": 0} | options),
    "tuned": lambda **options: NAIM3LCV(**SEARCH | options),
    "kernel": lambda gamma=1.0, **options: NAIM3L(
        **FEW | {"features": Kernel(gamma=gamma)} | options
    ),
    "ridge": PerViewRidge,
    "logistic": PerViewLogistic,
}
NUMBERS = [
    *(("fast", name) for name in ("lam", "ridge", "mu", "tol", "positive_weight", "decide")),
    *(("paper", name) for name in ("lam", "ridge", "mu", "tol")),
    ("kernel", "gamma"),
    ("ridge", "ridge"),
    ("ridge", "positive_weight"),
    ("logistic", "C"),
    ("logistic", "positive_weight"),
]


def tables(scale=1.0):
    rng = np.random.default_rng(0)
    X = {"a": rng.normal(size=(30, 4)), "b": rng.normal(size=(25, 3))}
    Y = {v: (x[:, :2] + 0.5 * rng.normal(size=(len(x), 2)) > 0).astype(float) for v, x in X.items()}
    return {view: scale * x for view, x in X.items()}, Y


def fit(model, scale=1.0):
    """What a fit says, if it is refused; else its numbers are all finite."""
    X, Y = tables(scale)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", DataWarning)
        try:
            scores = model.fit(X, Y).decision_function(X)
        except (ValueError, FloatingPointError) as error:
            return str(error)
    arrays = [*scores.values(), *model.coef_.values(), *model.intercept_.values()]
    arrays += [list(record.values()) for record in getattr(model, "history_", [])]
    assert all(np.isfinite(array).all() for array in arrays)
    return None


@pytest.mark.parametrize(("kind", "name"), NUMBERS)
def test_a_number_is_refused_by_name_or_gives_a_finite_model(kind, name):
    for value in EXTREMES:
        refusal = fit(MODELS[kind](**{name: value}))
        told = (
            ("lower lam", "diverged") if value in (1e-6, 1e6) else (name, "lower lam", "diverged")
        )
        assert refusal is None or any(text in refusal for text in told), (value, refusal)


@pytest.mark.parametrize("name", ["lams", "ridges"])
def test_numbers_of_a_search(name):
    for value in (5e-324, 1e-100, 1e-10, 1e10, 1e300):
        refusal = fit(MODELS["tuned"](**{name: [value]}))
        assert refusal is None or f"{name}[0]" in refusal or "smaller lams" in refusal


@pytest.mark.parametrize("kind", [kind for kind in MODELS if kind != "kernel"])
@pytest.mark.parametrize("features", ["auto", None])
def test_features_of_any_scale(kind, features):
    for scale in SCALES:
        refusal = fit(MODELS[kind](features=features), scale)
        if 1e-100 < scale < 1e50:
            assert refusal is None or "diverged" in refusal
        elif scale in (1e-200, 1e-101):
            assert "view 'a', column 0: its largest value is" in refusal and "1e-100" in refusal
        elif scale in (1e101, 1e200):
            assert "view 'a', row 0, column 0" in refusal and "1e+100" in refusal


def test_one_tiny_column_among_others_is_named():
    X, Y = tables()
    X["b"][:, 2] *= 1e-150
    with pytest.raises(ValueError, match=r"view 'b', column 2: .*too small to be squared"):
        NAIM3L().fit(X, Y)
    model = NAIM3L(features=None, **FEW)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(tables()[0], Y)
    assert np.isfinite(model.decision_function(X)["b"]).all()  # in new rows it is as good as 0


@pytest.mark.parametrize("name", ["cv", "lams"])
def test_fits_of_a_search_are_counted(name):
    assert name in fit(NAIM3LCV(**SEARCH | {name: 10**9}))


def test_whole_numbers_that_no_float_can_hold():
    assert "lam" in fit(NAIM3L(10**400))
    assert fit(NAIM3L(max_iter=10**400, tol=1e300)) is None
    assert fit(NAIM3L(features=Kernel(n_landmarks=10**400), max_iter=3, tol=0)) is None


def test_start_weights_beyond_use():
    for weight in (1e60, 1e300):
        init = {"a": np.full((5, 2), weight), "b": np.zeros((4, 2))}
        assert "init" in fit(NAIM3L(features=None, init=init, **FEW))


@pytest.mark.parametrize("option", ["--lam", "--ridge", "--positive-weight"])
def test_on_the_command_line(tmp_path, option):
    """Before any table is read, let alone fitted."""
    files = ["lab=none.csv", "--labels", "sick", "-o", str(tmp_path / "m.naim3l")]
    done = run("fit", *files, option, "1e300")
    assert done.exit_code == 1
    name = option.strip("-").replace("-", "_")
    assert done.stderr.startswith("naim3l: ") and name in done.stderr and "1e+300" in done.stderr
