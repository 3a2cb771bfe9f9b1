"""What every compared method has: that of the base class, and scikit-learn's own checks."""

import warnings
from dataclasses import fields

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator

from naim3l import DataWarning, ModelFileError, load
from naim3l.extend import AlignedModel
from naim3l_bench import methods

VIEWS = {"a": [0, 1, 2], "b": [3, 4]}
EVERY = [getattr(methods, name) for name in methods.__all__]
# Parameters that make the many fits of scikit-learn's checks short.
QUICK = {
    "DM2L": {"max_iter": 10, "tol": 0},
    "GLOCAL": {"max_iter": 5, "tol": 0},
    "IMVWL": {"max_iter": 100, "tol": 0, "rank": 5},
    "LRMMC": {"max_iter": 20, "tol": 0},
    "CPMNets": {"max_iter": 5, "tol": 0},
    "MVLIV": {"max_iter": 5, "tol": 0},
}
every = pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def table(rng):
    """Two views of 30 rows and three labels; some rows lack a view, some labels are unknown."""
    X = rng.normal(size=(30, 5))
    Y = (X @ rng.normal(size=(5, 3)) > 0).astype(float)
    X[::5, 3:], X[1::5, :3], Y[::4, 1] = np.nan, np.nan, np.nan
    return X, Y


@every
def test_takes_missing_views_and_labels(kind, table):
    X, Y = table
    assert issubclass(kind, AlignedModel)
    model = kind(views=VIEWS, decide="guarded", random_state=0).fit(X, Y)
    scores = model.decision_function(X)
    assert scores.shape == Y.shape and np.isfinite(scores).all()
    assert np.mean((scores > 0) == Y) > 0.5
    for view, columns in VIEWS.items():
        lacking = np.isnan(X[:, columns]).all(axis=1)
        np.testing.assert_array_equal(np.isnan(model.view_scores(X)[view][:, 0]), lacking)


@every
def test_labels_of_one_dimension_and_a_sparse_table(kind, rng):
    X = rng.normal(size=(40, 6))
    y = (X[:, 0] + 0.3 * rng.normal(size=40) > 0).astype(float)
    model = kind(random_state=0).fit(sparse.csr_array(X), y)
    assert model.predict(X).shape == (40,)
    assert np.mean(model.predict(X) == y) > 0.6


@every
@pytest.mark.parametrize("scale", [1e-99, 1e-8, 1e8, 1e99])
@pytest.mark.filterwarnings("ignore::naim3l.DataWarning")
def test_columns_of_any_size_give_finite_scores(kind, table, scale):
    model = kind(views=VIEWS, random_state=0).fit(scale * table[0], table[1])
    assert np.isfinite(model.decision_function(scale * table[0])).all()


@every
def test_a_label_that_is_never_known_in_a_fold(kind, table):
    X, Y = table
    Y[2:, 2] = np.nan
    Y[:2, 2] = [0, 1]
    model = kind(views=VIEWS, decide="f1", random_state=0).fit(X, Y)
    assert np.isfinite(model.decision_function(X)).all()


@every
def test_the_seed_determines_the_fit(kind, table):
    one, two = (kind(views=VIEWS, random_state=3).fit(*table) for _ in "12")
    for name in kind._shapes:
        np.testing.assert_array_equal(getattr(one, f"{name}_"), getattr(two, f"{name}_"))


@every
def test_a_saved_model_is_loaded_if_its_class_is_given(kind, table, tmp_path):
    model = kind(views=VIEWS, decide="guarded", random_state=0).fit(*table)
    model.save(tmp_path / "model.naim3l")
    with pytest.raises(ModelFileError, match=kind.__name__):
        load(tmp_path / "model.naim3l")
    loaded = load(tmp_path / "model.naim3l", trusted=[kind])
    assert type(loaded) is kind
    np.testing.assert_array_equal(loaded.predict_proba(table[0]), model.predict_proba(table[0]))
    np.testing.assert_array_equal(loaded.predict(table[0]), model.predict(table[0]))


@every
@pytest.mark.parametrize("value", [-1, "auto"])
def test_every_parameter_has_its_allowed_values(kind, value, table):
    shared = {field.name for field in fields(AlignedModel)}
    for name in {field.name for field in fields(kind)} - shared:
        with pytest.raises(ValueError, match=f"'{name}' parameter of {kind.__name__} must be"):
            kind(views=VIEWS, **{name: value}).fit(*table)


@every
def test_a_fit_that_has_not_converged_warns(kind, table):
    model = kind(views=VIEWS, max_iter=1, tol=1e-12, random_state=0)
    with pytest.warns(ConvergenceWarning, match=f"{kind.__name__} did not converge in max_iter=1 "):
        model.fit(*table)
    assert not model.converged_


@every
def test_scikit_learn_checks_pass_on_binary_targets(kind):
    """Targets of some checks, such as 2 or 3, are refused as labels: they are mapped to 0 and 1."""

    def fit(self, X, y=None):
        return kind.fit(self, X, as_binary(y))

    def score(self, X, y):
        return kind.score(self, X, as_binary(y))

    model = type(f"{kind.__name__}OfAnyTarget", (kind,), {"fit": fit, "score": score})
    globals()[model.__name__] = model  # where pickle looks for it
    with warnings.catch_warnings():
        for category in (ConvergenceWarning, DataWarning, SkipTestWarning):
            warnings.simplefilter("ignore", category)
        results = check_estimator(model(**QUICK.get(kind.__name__, {})), on_fail=None, on_skip=None)
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert not failed
    assert skipped <= {"check_array_api_input"}  # needs SciPy's experimental array API switch
    assert sum(r["status"] == "passed" for r in results) >= 40


def as_binary(y):
    """The highest target and all above the lowest are yes."""
    try:
        values = np.asarray(y if not np.iscomplexobj(y) else None, dtype=float)
    except (TypeError, ValueError):
        return y
    if not np.isfinite(values).all():
        return y
    return ((values > values.min()) | (values == values.max())).astype(int)
