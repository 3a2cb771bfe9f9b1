"""Methods on one's own tables: whole rows that they have not seen, and what is made of folds."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t
from sklearn.base import BaseEstimator

from naim3l.datasets import make_patients
from naim3l.estimators import PerViewRidge, compare_methods

DATA = make_patients(120, random_state=0)
SEEN = []


class Spy(BaseEstimator):
    """Answers with the first column, and notes the rows of fits and of answers."""

    def fit(self, X, y):
        self.n_labels_ = next(iter(y.values())).shape[1]
        self.rows_ = {id for of in X.values() for id in of.index}
        return self

    def predict_proba(self, X):
        SEEN.append((self.rows_, {id for of in X.values() for id in of.index}))
        ranks = {view: of["own"].rank(pct=True).to_numpy()[:, None] for view, of in X.items()}
        return {view: np.tile(of, self.n_labels_) for view, of in ranks.items()}


def test_rows_of_one_id_are_held_out_together_and_each_row_once():
    SEEN.clear()
    X = {view: of.assign(own=np.arange(len(of))) for view, of in DATA.views.items()}
    list(compare_methods(X, DATA.labels, {"spy": Spy()}, n_folds=3))
    everybody = {id for of in X.values() for id in of.index}
    assert len(SEEN) == 3 and all(not fit & answered for fit, answered in SEEN)
    assert [fit | answered for fit, answered in SEEN] == [everybody] * 3
    assert sorted(id for _, answered in SEEN for id in answered) == sorted(everybody)


def test_gains_and_intervals_are_those_of_the_folds():
    rng = np.random.default_rng(0)
    X = {"a": pd.DataFrame({"own": rng.normal(size=200)})}
    y = {"a": pd.DataFrame({"k": (X["a"]["own"] + rng.normal(size=200) > 0).astype(float)})}
    found = list(compare_methods(X, y, {"one": Spy(), "ridge": PerViewRidge(decide="half")}))
    guessing, one, ridge = found
    assert guessing["means"]["macro-AUC"] == 0.5 and not guessing["gains"] and not one["gains"]
    gain = ridge["gains"]["macro-AUC"]
    assert gain["value"] == pytest.approx(ridge["means"]["macro-AUC"] - one["means"]["macro-AUC"])
    assert gain["low"] <= gain["value"] <= gain["high"]
    losses = ridge["gains"]["log-loss"]
    assert losses["high"] - losses["value"] == pytest.approx(losses["value"] - losses["low"])
    assert 0 < losses["high"] - losses["low"] < 2 * t.ppf(0.975, 4)


def test_a_label_that_a_table_lacks_is_unknown_there():
    labels = {view: of[["flu", "asthma", "gout"]] for view, of in DATA.labels.items()}
    labels["lab"] = labels["lab"][["gout", "flu"]]
    found = list(compare_methods(DATA.views, labels, {"ridge": PerViewRidge(decide="half")}))
    assert 0.55 < found[1]["means"]["macro-AUC"] < 1


def test_mistakes_are_named():
    with pytest.raises(TypeError, match="mappings of tables in memory"):
        next(compare_methods(DATA.views["lab"], DATA.labels["lab"]))
    with pytest.raises(ValueError, match="n_folds must be 2 to 90, the number of samples, got 1"):
        next(compare_methods(DATA.views, DATA.labels, n_folds=1))
