"""What every model per view has, on one that learns next to nothing."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import naim3l
from naim3l import NAIM3L, NAIM3LCV, estimators
from naim3l.estimators import base
from naim3l.estimators.base import ViewModel

EVERY = [kind for kind in vars(estimators).values()
         if isinstance(kind, type) and issubclass(kind, ViewModel)]  # fmt: skip
# Other values of parameters that are no numbers or switches.
OTHER = {
    "device": "cuda",
    "views": {"a": [0], "b": [1]}, "transformer": None, "label_coding": "signed",
    "threshold": "f1", "fusion": "evidence", "kernel": "rbf", "gamma": 2.0, "solver": "paper",
    "metric": "AUC", "lams": [0.5], "ridges": [3.0], "gamma_factors": [2.0], "ridge": 3.0,
    "mu": 2.0, "init": {}, "checkpoint": "file", "n_jobs": 1,
}  # fmt: skip


class Sums(ViewModel):
    """Score of label k: the sum of a row's features, less k."""

    fit_intercept = False

    def __init__(self, views=None, transformer=None, label_coding="binary", threshold="sign",
                 calibrate=False, fusion="mean", random_state=None):  # fmt: skip
        self.views = views
        self.transformer = transformer
        self.label_coding = label_coding
        self.threshold = threshold
        self.calibrate = calibrate
        self.fusion = fusion
        self.random_state = random_state

    def fit(self, X, y=None):
        self._check_parameters(X)
        problem = self._read_training(X, y)
        self.offsets_ = np.arange(problem.n_labels)
        self._keep_decisions(self._fixed_decisions())
        return self

    def __sklearn_is_fitted__(self):
        return hasattr(self, "offsets_")

    def _score_features(self, view, features):
        return features.sum(axis=1, keepdims=True) - self.offsets_


@pytest.fixture
def tables(rng):
    X = {"a": rng.normal(size=(8, 3)), "b": rng.normal(size=(5, 2))}
    Y = {view: (np.arange(2 * len(rows)).reshape(-1, 2) % 3 == 0) * 1.0 for view, rows in X.items()}
    Y["a"][0] = np.nan
    return X, Y


def test_scores_decisions_and_filled_labels_of_tables_apart(tables):
    X, Y = tables
    model = Sums().fit(X, Y)
    scores = model.decision_function(X)
    for view, rows in X.items():
        expected = rows.sum(axis=1)[:, None] - np.array([0, 1])
        np.testing.assert_allclose(scores[view], expected)
        np.testing.assert_array_equal(model.predict(X)[view], expected > 0)
    filled = model.impute_labels(X, Y)["a"]
    np.testing.assert_array_equal(filled[0], scores["a"][0] > 0)
    np.testing.assert_array_equal(filled[1:], Y["a"][1:])
    assert 0 <= model.score(X, Y) <= 1


def test_scores_of_a_wide_table_are_means_over_the_views_of_a_row(tables):
    X, Y = tables
    wide = np.hstack([X["a"][:5], X["b"]])
    wide[1, 3:] = np.nan
    model = Sums(views={"a": [0, 1, 2], "b": [3, 4]}).fit(wide, np.nan_to_num(Y["a"][:5]))
    sums = np.stack([wide[:, :3].sum(axis=1), wide[:, 3:].sum(axis=1)])
    np.testing.assert_allclose(model.decision_function(wide)[:, 0], np.nanmean(sums, axis=0))
    frame = model.set_output(transform="pandas").predict(wide)
    assert isinstance(frame, pd.DataFrame) and list(frame.columns) == ["label0", "label1"]


def test_the_score_of_one_label_is_the_share_of_right_decisions(tables):
    X, Y = tables
    Y = {view: labels[:, :1] for view, labels in Y.items()}
    model = Sums(threshold=0.7).fit(X, Y)
    decided = model.predict(X)
    right = [np.mean((decided[v] == Y[v])[~np.isnan(Y[v])]) for v in X]
    assert model.score(X, Y) == pytest.approx(np.mean(right))
    assert model.score(X, Y) != pytest.approx(Sums().fit(X, Y).score(X, Y))


def test_nothing_is_predicted_before_the_fit(tables):
    with pytest.raises(NotFittedError):
        Sums().decision_function(tables[0])


class TestSubclassesWithAnInitOfTheirOwn:
    """scikit-learn's get_params knows nothing of the parameters that they hide."""

    def test_hidden_parameters_are_checked(self, tables):
        class Bad(NAIM3L):
            def __init__(self, threshold="sign"):
                super().__init__(lam=-1, threshold=threshold)

        with pytest.raises(ValueError, match="lam must be"):
            Bad().fit(*tables)

    def test_hidden_parameters_count_where_others_depend_on_them(self, tables):
        class Curved(NAIM3L):
            def __init__(self, gamma="auto", high_rank=True):
                super().__init__(kernel="rbf", gamma=gamma, high_rank=high_rank, ridge=1.0)

        assert set(Curved(0.5).fit(*tables).gamma_.values()) == {0.5}  # warnings are errors

    def test_searches(self, tables):
        class Search(NAIM3LCV):
            def __init__(self, lams=2, note="x"):
                super().__init__(lams, (1.0,), cv=2, metric="log-loss", random_state=0)
                self.note = note

        assert Search().fit(*tables).ridge_ == 1.0


class TestFailedFits:
    def test_nothing_of_an_earlier_fit_is_left(self, tables):
        X, Y = tables
        model = NAIM3L(max_iter=3, tol=0).fit(X, Y)
        with pytest.raises(ValueError, match="no label is observed"):
            model.fit(X, {view: np.full_like(of_view, np.nan) for view, of_view in Y.items()})
        assert not [name for name in vars(model) if name.endswith("_")]
        with pytest.raises(NotFittedError):
            model.predict(X)

    def test_attributes_are_lacking_before_the_fit(self):
        with pytest.raises(AttributeError, match="'NAIM3L' object has no attribute 'views_'"):
            _ = NAIM3L().views_

    def test_names_are_lacking_where_tables_had_none(self, tables):
        model = NAIM3L(max_iter=3, tol=0).fit(*tables)
        assert not hasattr(model, "feature_names_in_") and model.n_features_in_ == {"a": 3, "b": 2}

    def test_the_checkpoint_of_an_interrupted_fit_outlives_the_saving(
        self, tables, tmp_path, monkeypatch
    ):
        def stop(*args):
            raise KeyboardInterrupt

        model = NAIM3L(checkpoint=tmp_path / "c", calibrate=True, random_state=0, ridge=1.0)
        model.fit(*tables)
        monkeypatch.setattr(base, "learn_decisions", stop)
        with pytest.raises(KeyboardInterrupt):
            model.fit(*tables)
        model.save(tmp_path / "m")
        assert (tmp_path / "c").exists()


def other(name, value):
    """Another value of a parameter, which is allowed."""
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else OTHER[name]


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_parameters_that_are_set_after_the_fit_change_no_prediction(kind, rng, tmp_path):
    X = rng.normal(size=(30, 5))
    Y = (X @ rng.normal(size=(5, 3)) > 0).astype(float)
    X[::5, 3:], X[1::5, :3] = np.nan, np.nan
    model = kind(views={"a": [0, 1, 2], "b": [3, 4]}, random_state=0).fit(X, Y)
    expected = model.decision_function(X), *model.view_scores(X).values(), model.predict(X)
    model.set_params(
        **{name: other(name, value) for name, value in model.get_params(False).items()}
    )
    model.save(tmp_path / "m.skops")
    for same in (model, naim3l.load(tmp_path / "m.skops")):
        found = same.decision_function(X), *same.view_scores(X).values(), same.predict(X)
        for one, two in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, two)
