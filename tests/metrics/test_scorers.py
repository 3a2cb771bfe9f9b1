"""Scorers for the model selection of scikit-learn."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from naim3l import NAIM3L, evaluate
from naim3l.metrics import make_scorer
from naim3l.metrics.measures import MEASURES

VIEWS = {"a": [0, 1, 2], "b": [3, 4]}
NAMES = ["flu", "asthma", "gout"]


@pytest.fixture
def wide(rng):
    """Features with views that rows lack, and labels of which some are unknown."""
    X = rng.normal(size=(60, 5))
    Y = (X[:, :3] + 0.3 * rng.normal(size=(60, 3)) > 0).astype(float)
    X[::5, :3] = np.nan
    Y[rng.random(Y.shape) < 0.2] = np.nan
    return X, Y


def model(**parameters):
    return NAIM3L(views=VIEWS, ridge=1.0, random_state=0, **{"decide": 0.2, **parameters})


def expected_value(metric, fitted, X, Y):
    of_decisions = MEASURES[metric].of_decisions
    value = evaluate(Y, fitted.predict(X) if of_decisions else fitted.decision_function(X))[metric]
    return -value if MEASURES[metric].lower_is_better else value


@pytest.mark.parametrize("metric", MEASURES)
def test_is_the_metric_of_scores_or_of_decisions(metric, wide):
    X, Y = wide
    fitted = model().fit(X, Y)
    assert make_scorer(metric)(fitted, X, Y) == expected_value(metric, fitted, X, Y)


@pytest.mark.parametrize("metric", ["AP", "micro-F1"])
class TestForms:
    def test_words(self, metric, wide):
        X, Y = wide
        words = np.where(np.isnan(Y), "?", np.where(Y == 1, "yes", "no"))
        fitted = model().fit(X, Y)
        assert make_scorer(metric)(fitted, X, words) == make_scorer(metric)(fitted, X, Y)

    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_frames_are_matched_by_name(self, metric, wide, library):
        X, Y = wide
        build = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]
        X = build(dict(zip("uvwxy", X.T, strict=True)))
        Y = build(dict(zip(NAMES, np.nan_to_num(Y).T, strict=True)))
        fitted = model().set_output(transform=library).fit(X, Y)
        scorer = make_scorer(metric)
        assert scorer(fitted, X, Y[NAMES[::-1]]) == scorer(fitted, X, Y)


class TestModelSelection:
    def test_scores_of_folds(self, wide):
        X, Y = wide
        folds = KFold(3)
        found = cross_val_score(model(), X, Y, cv=folds, scoring=make_scorer("macro-AUC"))
        expected = [
            expected_value("macro-AUC", model().fit(X[train], Y[train]), X[test], Y[test])
            for train, test in folds.split(X)
        ]
        np.testing.assert_array_equal(found, expected)

    def test_search_in_a_pipeline_by_several_metrics(self, wide):
        X, Y = wide
        X = np.nan_to_num(X)
        pipeline = make_pipeline(StandardScaler(), model())
        scoring = {name: make_scorer(name) for name in ("one-error", "example-F1")}
        grid = {"naim3l__lam": [0.1, 1.0]}
        search = GridSearchCV(pipeline, grid, scoring=scoring, cv=2, refit="one-error").fit(X, Y)
        values = search.cv_results_["mean_test_one-error"]
        assert (values <= 0).all() and search.best_score_ == max(values)

    def test_can_be_pickled(self):
        scorer = make_scorer("AP")
        assert pickle.loads(pickle.dumps(scorer)) == scorer

    def test_predictions_with_unknown_labels(self, wide):
        """As ``y``, scikit-learn would number their values, and take NaN for a third one."""
        X, Y = wide
        options = {"cv": 3, "method": "predict_proba"}
        found = cross_val_predict(model(decide="half"), X, params={"y": Y}, **options)
        for train, test in KFold(3).split(X):
            fitted = model(decide="half").fit(X[train], Y[train])
            np.testing.assert_array_equal(found[test], fitted.predict_proba(X[test]))


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="metric is 'auc'; known are: '1-HL'"):
        make_scorer("auc")
