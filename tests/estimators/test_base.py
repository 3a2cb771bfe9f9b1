"""What every model per view has, on one that learns next to nothing, and on all of them."""

import inspect
from dataclasses import dataclass

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.utils import get_tags

import naim3l
from naim3l import NAIM3L, NAIM3LCV, DataWarning, Kernel, Recipe, estimators
from naim3l.estimators.base import ViewModel, WithProbabilities, most_probable

EVERY = [kind for kind in vars(estimators).values()
         if isinstance(kind, type) and issubclass(kind, ViewModel)]  # fmt: skip
# Other values of parameters that are no numbers or switches.
OTHER = {
    "device": "cuda", "views": {"a": [0], "b": [1]}, "features": "rbf", "decide": "half",
    "variant": "loss", "solver": "paper", "metric": "AUC", "lams": [0.5], "ridges": [3.0],
    "ridge": 3.0, "mu": 2.0, "init": {}, "n_jobs": 1,
    "shrinkage": 2.0,
}  # fmt: skip
VIEWS = {"a": [0, 1, 2], "b": [3, 4]}


@dataclass(eq=False, repr=False)
class Sums(ViewModel):
    """Score of label k: the sum of a row's features, less k."""

    features: object = None

    def fit(self, X, y=None):
        problem = self._read_training(X, y)
        self.offsets_ = np.arange(problem.n_labels)
        self.decisions_ = self._fixed_decisions()
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


@pytest.fixture
def wide(rng):
    X = rng.normal(size=(30, 5))
    Y = (X @ rng.normal(size=(5, 3)) > 0).astype(float)
    X[::5, 3:], X[1::5, :3] = np.nan, np.nan
    return X, Y


class TestPredictions:
    def test_scores_decisions_and_filled_labels_of_separate_tables(self, tables):
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
        assert list(model.predict({"b": X["b"]})) == ["b"]  # some of the views will do

    def test_scores_of_a_wide_table_are_means_over_the_views_of_a_row(self, wide):
        X, Y = wide
        X[7] = np.nan
        with pytest.warns(DataWarning, match=r"X: 1 rows \(7\) have no view at all and are left"):
            model = Sums(views=VIEWS).fit(X, Y)
        sums = np.stack([X[:, :3].sum(axis=1), X[:, 3:].sum(axis=1)])[:, np.arange(30) != 7]
        with pytest.warns(DataWarning, match=r"1 rows \(7\) have no view at all: .*scores are NaN"):
            scores = model.decision_function(X)
        np.testing.assert_allclose(np.delete(scores, 7, 0)[:, 0], np.nanmean(sums, axis=0))
        assert np.isnan(scores[7]).all()
        with pytest.warns(
            DataWarning, match=r"X, row 7: all values are missing, .*\(1 such rows\)"
        ):
            labels = model.predict(X)
        assert np.isnan(labels[7]).all()
        np.testing.assert_array_equal(np.delete(labels, 7, 0), model.predict(np.delete(X, 7, 0)))

    @pytest.mark.parametrize("container", ["default", "pandas", "polars"])
    def test_labels_of_rows_without_a_value_are_missing(self, tables, container):
        X, Y = tables
        model = Sums().fit(X, Y).set_output(transform=container)
        rows = {view: of[:3].copy() for view, of in X.items()}
        rows["a"][[0, 2]] = np.nan
        with pytest.warns(DataWarning, match=r"view 'a', row 0: all values .*\(2 such rows\)"):
            found = {view: np.asarray(labels) for view, labels in model.predict(rows).items()}
        assert np.isnan(found["a"]).all(axis=1).tolist() == [True, False, True]
        assert found["a"].dtype == np.float64 and found["b"].dtype == np.int64

    def test_known_labels_stay_and_rows_without_features_stay_unknown(self, tables):
        X, Y = tables
        X["a"][0] = np.nan
        model = Sums().fit(X, Y)
        filled = model.impute_labels(X, Y)["a"]
        assert np.isnan(filled[0]).all()
        swapped = {view: pd.DataFrame(y[:, ::-1], columns=["q", "p"]) for view, y in Y.items()}
        named = Sums().fit(X, {view: pd.DataFrame(y, columns=["p", "q"]) for view, y in Y.items()})
        np.testing.assert_array_equal(named.impute_labels(X, swapped)["b"][["p", "q"]], Y["b"])
        assert named.score(X, swapped) == pytest.approx(model.score(X, Y))

    def test_the_score_of_one_label_is_the_share_of_right_decisions(self, tables):
        X, Y = tables
        Y = {view: labels[:, :1] for view, labels in Y.items()}
        model = Sums(decide=0.7).fit(X, Y)
        decided = model.predict(X)
        right = [np.mean((decided[v] == Y[v])[~np.isnan(Y[v])]) for v in X]
        assert model.score(X, Y) == pytest.approx(np.mean(right))
        assert model.score(X, Y) != pytest.approx(Sums().fit(X, Y).score(X, Y))

    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_containers_of_results(self, wide, library):
        X, Y = wide
        frame = pd.DataFrame(X, columns=list("pqrst"), index=np.arange(30) + 100)
        model = Sums(views=VIEWS).fit(
            frame, pd.DataFrame(Y, columns=["u", "v", "w"], index=frame.index)
        )
        scores = model.decision_function(frame)
        found = clone(model).set_output(transform=library).fit(frame, Y).decision_function(frame)
        assert isinstance(found, pd.DataFrame if library == "pandas" else pl.DataFrame)
        np.testing.assert_array_equal(found.to_numpy(), scores)
        named = model.set_output(transform=library).predict(frame)
        assert list(named.columns) == ["u", "v", "w"]
        if library == "pandas":
            assert named.index.equals(frame.index)
        model.set_output(transform=None)
        assert not isinstance(model.predict(frame), np.ndarray)
        assert isinstance(model.set_output(transform="default").predict(frame), np.ndarray)
        with pytest.raises(ValueError, match="transform must be one of"):
            model.set_output(transform="arrow")

    def test_one_label_given_as_a_vector(self, wide):
        X, Y = wide
        model = NAIM3L(views=VIEWS, ridge=1.0, decide="guarded", random_state=0).fit(X, Y[:, 0])
        yes = model.predict_proba(X)
        assert yes.shape == (30, 2) and model.predict(X).shape == (30,)
        assert model.decision_function(X).shape == (30,) and model.classes_.tolist() == [0, 1]
        np.testing.assert_allclose(yes.sum(axis=1), 1)
        column = clone(model).fit(X, Y[:, :1])
        np.testing.assert_allclose(column.predict_proba(X), yes[:, 1:])
        assert column.predict(X).shape == (30, 1) and column.classes_.tolist() == ["label0"]
        frame = model.set_output(transform="pandas").predict_proba(X)
        assert list(frame.columns) == ["0", "1"]


class TestProbabilities:
    def test_a_method_that_is_there_only_with_probabilities(self):
        class Model:
            def __init__(self, has_probabilities):
                self.has_probabilities = has_probabilities

            @WithProbabilities
            def twice(self, number):
                """Twice the number."""
                return 2 * number

        assert Model(True).twice(3) == 6 and not hasattr(Model(False), "twice")
        with pytest.raises(AttributeError, match=r'^Model.twice needs probabilities: .*"guarded"'):
            Model(False).twice(3)
        assert Model.twice.__doc__ == "Twice the number."
        assert list(inspect.signature(Model.twice).parameters) == ["self", "number"]

    @pytest.mark.parametrize("least", [None, 0.5, 0.75, 1.0])
    def test_the_more_probable_value_if_it_is_probable_enough(self, rng, least):
        yes = np.append(rng.random(50), [0, 0.25, 0.5, 0.75, 1, np.nan]).reshape(-1, 4)
        for p, value in zip(yes.flat, most_probable(yes, least).flat, strict=True):
            if np.isnan(value):
                assert np.isnan(p) or max(p, 1 - p) < (least or 0)
            else:
                assert (p if value == 1 else 1 - p) == max(p, 1 - p) >= (least or 0)

    def test_unknown_entries_get_their_most_probable_value(self, wide):
        X, Y = wide
        model = NAIM3L(views=VIEWS, ridge=1.0, decide="f1", random_state=0).fit(X, Y)
        unknown, chances = np.full_like(Y, np.nan), model.predict_proba(X)
        np.testing.assert_array_equal(model.impute_labels(X, unknown), chances > 0.5)
        sure = model.impute_labels(X, unknown, min_confidence=0.9)
        np.testing.assert_array_equal(np.isnan(sure), np.maximum(chances, 1 - chances) < 0.9)
        for confidence in (0.4, 1.1, "high", True):
            with pytest.raises(ValueError, match=r"must be a number from 0\.5 to 1"):
                model.impute_labels(X, unknown, min_confidence=confidence)
        with pytest.raises(ValueError, match="min_confidence needs probabilities"):
            Sums(views=VIEWS).fit(X, Y).impute_labels(X, unknown, min_confidence=0.9)

    def test_rules_of_predictions(self, wide):
        X, Y = wide
        model = NAIM3L(views=VIEWS, ridge=1.0, decide="guarded", random_state=0).fit(X, Y)
        for rule in ("sign", "half", "f1", "cardinality"):
            thresholds = model.decisions_.rules[rule]["fused"] if rule != "sign" else 0
            np.testing.assert_array_equal(
                model.predict(X, decide=rule), model.decision_function(X) > thresholds
            )
        with pytest.raises(ValueError, match="decide"):
            model.predict(X, decide="coin")


class TestFits:
    def test_nothing_of_an_earlier_fit_is_left_after_an_error(self, tables):
        X, Y = tables
        model = NAIM3L(max_iter=3, tol=0).fit(X, Y)
        with pytest.raises(ValueError, match="no label is observed"):
            model.fit(X, {view: np.full_like(of_view, np.nan) for view, of_view in Y.items()})
        assert not [name for name in vars(model) if name.endswith("_")]
        with pytest.raises(NotFittedError):
            model.predict(X)

    def test_another_form_forgets_the_first(self, tables, wide):
        X, Y = tables
        model = Sums().fit({v: pd.DataFrame(x).add_prefix(v) for v, x in X.items()}, Y)
        assert list(model.feature_names_in_["b"]) == ["b0", "b1"]
        model.fit(np.nan_to_num(wide[0]), wide[1])  # warnings are errors
        assert model.views_ == ["all"] and model.n_features_in_ == 5
        assert not hasattr(model, "feature_names_in_")

    def test_features_of_other_views_are_refused(self, tables):
        with pytest.raises(
            ValueError, match=r"features: no views \['c'\]; the data have \['a', 'b"
        ):
            Sums(features={"a": None, "b": None, "c": None}).fit(*tables)

    def test_thresholds_of_labels_that_do_not_exist_are_refused(self, tables):
        model = Sums(decide={"label0": 0.5}).fit(*tables)
        np.testing.assert_array_equal(model.thresholds_["a"], [0.5, 0])
        with pytest.raises(ValueError, match="label9"):
            Sums(decide={"label9": 0.5}).fit(*tables)

    def test_tags(self):
        tags = get_tags(NAIM3L())
        assert tags.target_tags.required and tags.target_tags.multi_output
        assert tags.target_tags.two_d_labels and tags.input_tags.sparse
        for features in ("auto", Recipe(None), SimpleImputer(), "rbf", Kernel()):
            assert get_tags(NAIM3L(features=features)).input_tags.allow_nan
        for features in ("scale", None, Recipe(plan=False), Kernel(recipe=None)):
            assert not get_tags(NAIM3L(features=features)).input_tags.allow_nan

    def test_subclasses_may_hide_parameters(self, tables):
        """scikit-learn's get_params knows nothing of them."""

        class Curved(NAIM3L):
            def __init__(self, gamma=0.5, lam=1.0):
                self.gamma = gamma
                super().__init__(lam, features=Kernel(gamma=gamma), ridge=1.0)

        class Search(NAIM3LCV):
            def __init__(self, lams=2):
                super().__init__(lams, (1.0,), cv=2, metric="log-loss", random_state=0)

        assert set(Curved().fit(*tables).gamma_.values()) == {0.5}
        assert Search().fit(*tables).ridge_ == 1.0
        with pytest.raises(ValueError, match="lam"):
            Curved(lam=-1).fit(*tables)


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_method_asks_for_a_fit_first(kind, wide, tmp_path):
    X, Y = wide
    calls = {
        "decision_function": [{}],
        "view_scores": [{}],
        "predict": [{}, {"decide": "half"}, {"known": Y}],
        "predict_proba": [{}, {"known": Y}],
        "fuse": [{}, {"kind": "labels"}],
        "impute_labels": [{"y": Y}, {"y": Y, "min_confidence": 0.8}],
        "check_labels": [{"y": Y}],
        "score": [{"y": Y}],
    }
    for form in (X, {"a": X}):
        model = kind(decide="guarded")
        for method, options in calls.items():
            for given in options:
                with pytest.raises(NotFittedError, match="not fitted yet"):
                    getattr(model, method)(form, **given)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.save(tmp_path / "m.naim3l")
    # Whether there are probabilities is not the first thing to say, either.
    for options in ({"known": Y}, {}):
        with pytest.raises(NotFittedError):
            kind(decide="sign").predict(X, **options)
    with pytest.raises(NotFittedError):
        kind(decide="sign").impute_labels(X, Y, min_confidence=0.8)


def other(name, value):
    """Another value of a parameter, which is allowed."""
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else OTHER[name]


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_parameters_that_are_set_after_the_fit_change_no_prediction(kind, wide, tmp_path):
    X, Y = wide
    model = kind(views=VIEWS, random_state=0).fit(X, Y)
    expected = model.decision_function(X), *model.view_scores(X).values(), model.predict(X)
    model.set_params(
        **{name: other(name, value) for name, value in model.get_params(False).items()}
    )
    model.save(tmp_path / "m.naim3l")
    for same in (model, naim3l.load(tmp_path / "m.naim3l")):
        found = same.decision_function(X), *same.view_scores(X).values(), same.predict(X)
        for one, two in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, two)
