"""What every method for aligned rows has, on one that learns next to nothing and on a ridge."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import naim3l
from naim3l import DataWarning
from naim3l.datasets import make_unpaired
from naim3l.estimators import FusedRidge
from naim3l.estimators.aligned import AlignedModel, Learned

VIEWS = {"a": [0, 1, 2], "b": [3, 4]}


@dataclass(eq=False, repr=False)
class Sums(AlignedModel):
    """Score of label k: the sum of all features of a row, less k, times its number of views."""

    _shapes = {"offsets": "c"}  # noqa: RUF012

    max_iter: int = 4
    tol: float = 0.0
    stop_in: int = 99

    def _solve(self, rows, rng):
        n_iter = min(self.max_iter, self.stop_in)
        history = [{"objective": 1 / n} for n in range(1, n_iter + 1)]
        arrays = {"offsets": np.arange(float(rows.Y.shape[1]))}
        converged = self.tol > 0.5
        return Learned(arrays, history, converged, interrupted=self.stop_in < self.max_iter)

    def _score_rows(self, arrays, features, present):
        sums = sum(X.sum(axis=1) for X in features)[:, None] - arrays["offsets"]
        return sums * present.sum(axis=0)[:, None]


@pytest.fixture
def table(rng):
    """Two views of 30 rows and three labels; some rows lack a view, some labels are unknown."""
    X = rng.normal(size=(30, 5))
    Y = (X @ rng.normal(size=(5, 3)) > 0).astype(float)
    X[::5, 3:], X[1::5, :3], Y[::4, 1] = np.nan, np.nan, np.nan
    return X, Y


def of_sums(X):
    n_views = 2.0 - np.isnan(X[:, [0, 3]]).sum(axis=1, keepdims=True)
    return (np.nansum(X, axis=1)[:, None] - np.arange(3)) * n_views


def fit_sums(table, **options):
    return Sums(views=VIEWS, features=None, **options).fit(*table)


class TestScores:
    def test_are_those_of_all_views_of_a_row_at_once(self, table):
        X, Y = table
        model = fit_sums(table)
        np.testing.assert_allclose(model.decision_function(X), of_sums(X))
        np.testing.assert_array_equal(model.predict(X), of_sums(X) > 0)
        filled = model.impute_labels(X, Y)
        np.testing.assert_array_equal(filled[~np.isnan(Y)], Y[~np.isnan(Y)])
        np.testing.assert_array_equal(filled[np.isnan(Y)], (of_sums(X) > 0)[np.isnan(Y)])

    def test_of_a_view_are_those_of_a_row_without_the_others(self, table):
        X, _ = table
        model = fit_sums(table)
        for view, columns in VIEWS.items():
            alone = np.full_like(X, np.nan)
            alone[:, columns] = X[:, columns]
            expected = np.where(np.isnan(X[:, columns[:1]]), np.nan, of_sums(alone))
            np.testing.assert_allclose(model.view_scores(X)[view], expected)

    def test_are_nan_in_a_row_without_views(self, table):
        X, _ = table
        X[7] = np.nan
        with pytest.warns(DataWarning, match="have no view at all and are left out"):
            model = fit_sums(table)
        with pytest.warns(DataWarning, match="their scores are NaN"):
            scores = model.decision_function(X)
        np.testing.assert_allclose(np.delete(scores, 7, 0), of_sums(np.delete(X, 7, 0)))
        assert np.isnan(scores[7]).all()


class TestFit:
    @pytest.mark.parametrize("model", [Sums(), FusedRidge()], ids=["own", "ridge"])
    def test_separate_tables_are_refused_with_what_to_do_instead(self, model):
        data = make_unpaired(20, n_features=(4, 3), n_labels=3, n_latent=3, random_state=0)
        message = rf"{type(model).__name__} needs aligned rows.*NAIM3L and PerViewRidge.*join_views"
        with pytest.raises(TypeError, match=message):
            model.fit(data.views, data.labels)

    def test_records_are_kept_and_a_lack_of_convergence_is_a_warning(self, table):
        model = fit_sums(table)
        assert model.n_iter_ == len(model.history_) == 4 and not model.converged_
        assert model.objective_ == 0.25
        with pytest.warns(ConvergenceWarning, match="Sums did not converge in max_iter=4 .*1e-05"):
            fit_sums(table, tol=1e-5)
        assert fit_sums(table, tol=0.6).converged_
        assert not hasattr(FusedRidge().fit(np.nan_to_num(table[0]), table[1]), "history_")

    def test_an_interrupt_keeps_what_was_learned(self, table):
        model = Sums(views=VIEWS, features=None, stop_in=2)
        with pytest.raises(KeyboardInterrupt):
            model.fit(*table)
        assert model.n_iter_ == 2 and np.isfinite(model.decision_function(table[0])).all()

    def test_labels_of_one_dimension_and_a_sparse_table(self, rng):
        X = rng.normal(size=(40, 6))
        y = (X[:, 0] + 0.3 * rng.normal(size=40) > 0).astype(float)
        model = FusedRidge(random_state=0).fit(sparse.csr_array(X), y)
        assert model.predict(X).shape == (40,)
        assert np.mean(model.predict(X) == y) > 0.6


class TestFiles:
    def test_a_method_of_another_package_is_loaded_if_it_is_trusted(self, table, tmp_path):
        model = fit_sums(table)
        model.save(tmp_path / "m.naim3l")
        again = naim3l.load(tmp_path / "m.naim3l", trusted=[Sums])
        np.testing.assert_array_equal(
            again.decision_function(table[0]), model.decision_function(table[0])
        )
        with pytest.raises(naim3l.ModelFileError, match="Sums"):
            naim3l.load(tmp_path / "m.naim3l")
