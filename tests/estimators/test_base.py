"""What every model per view has, on one that learns next to nothing."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from naim3l.estimators.base import ViewModel


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
