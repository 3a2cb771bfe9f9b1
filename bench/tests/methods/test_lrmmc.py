"""lrMMC: planted factors, missing views and labels, and the estimator around the two stages."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from naim3l.extend import AlignedRows
from naim3l_bench.methods import LRMMC
from naim3l_bench.methods.lrmmc import CommonRepresentation, LabelCompletion
from naim3l_bench.methods.shared_space import fold_in, rescale
from planted_rows import VIEWS, planted, with_gaps

AS_GIVEN = {"views": VIEWS, "features": None, "random_state": 0}


@pytest.fixture
def small(rng):
    return planted(rng, n_rows=40)


def test_recovers_planted_labels_and_their_rank(rng):
    X, Y = planted(rng)
    model = LRMMC(**AS_GIVEN).fit(X[:200], Y[:200])
    assert np.mean(model.predict(X[200:]) == Y[200:]) > 0.9
    assert model.basis_.shape == (13, 3)


@pytest.mark.parametrize("fill_missing", [False, True])
def test_learns_from_missing_views_and_labels(rng, fill_missing):
    X, Y = planted(rng)
    train, known = with_gaps(rng, X[:200], Y[:200])
    model = LRMMC(fill_missing=fill_missing, **AS_GIVEN).fit(train, known)
    assert np.mean(model.predict(X[200:]) == Y[200:]) > 0.85
    missing = np.isnan(known)
    assert np.mean(model.impute_labels(train, known)[missing] == Y[:200][missing]) > 0.75


def test_a_filled_view_is_its_mean(rng, small):
    X, Y = small
    model = LRMMC(fill_missing=True, **AS_GIVEN).fit(X, Y)
    lacking, filled = X.copy(), X.copy()
    lacking[:, 7:], filled[:, 7:] = np.nan, X[:, 7:].mean(axis=0)
    expected = model.decision_function(filled)
    np.testing.assert_allclose(model.decision_function(lacking), expected, atol=1e-9)


def test_the_objectives_do_not_rise(rng):
    data = with_gaps(rng, *planted(rng, n_rows=60))
    model = LRMMC(max_iter=25, tol=0, **AS_GIVEN).fit(*data)
    records = model.history_
    assert [record["stage"] for record in records] == [1] * 25 + [2] * (len(records) - 25)
    weights = [record.get("m", 0) for record in records[25:]]
    assert weights == sorted(weights, reverse=True) and len(set(weights)) > 1
    for one, two in pairwise(records):
        if one["stage"] == two["stage"] and one.get("m") == two.get("m"):
            assert two["objective"] <= one["objective"] * (1 + 1e-12)


def test_a_training_row_that_is_folded_in_has_its_own_representation(rng):
    X, Y = with_gaps(rng, *planted(rng, n_rows=60))
    seen = {}

    class Spy(LRMMC):
        def _solve(self, rows, generator):
            seen["rows"] = rows
            return super()._solve(rows, generator)

    model = Spy(tol=1e-9, max_iter=3000, rank=4, **AS_GIVEN).fit(X, Y)
    rows: AlignedRows = seen["rows"]
    views = rescale(rows.features, rows.present, model.centre_, model.scale_)
    B = fold_in(model.basis_, views, rows.present, np.diag(model.penalties_))
    T = [model.basis_[:7].T, model.basis_[7:].T]
    # The representation is in units in which its entries are 1 on average.
    np.testing.assert_allclose(np.mean(B**2), 1, rtol=1e-3)
    first = CommonRepresentation(views, rows.present, 0.03, 0.01)
    _, gradient = first.loss_and_gradient(B, T)
    U, _, Vt = np.linalg.svd(B, full_matrices=False)
    factor = np.vdot(-gradient, U @ Vt) / len(Vt)  # of a minimum: -gradient = factor U V'
    np.testing.assert_allclose(-gradient, factor * U @ Vt, atol=2e-2 * factor)


def test_a_large_weight_leaves_nothing_but_the_intercepts(rng, small):
    X, Y = small
    model = LRMMC(lam=1e4, **AS_GIVEN).fit(X, Y)
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, np.broadcast_to(model.intercept_, scores.shape), atol=1e-9)


def test_scores_do_not_depend_on_the_units_of_a_view(rng, small):
    X, Y = small
    other = X.copy()
    other[:, :7] = 1000 * X[:, :7] - 40
    one, two = (LRMMC(**AS_GIVEN).fit(table, Y) for table in (X, other))
    np.testing.assert_allclose(two.decision_function(other), one.decision_function(X), atol=1e-6)


def test_positives_can_weigh_more(small):
    X, Y = small
    even, more = (LRMMC(positive_weight=w, **AS_GIVEN).fit(X, Y) for w in (1.0, 5.0))
    assert more.decision_function(X).mean() > even.decision_function(X).mean() + 0.1


def test_an_interrupt_is_raised_and_only_the_second_stage_leaves_a_model(small, monkeypatch):
    X, Y = small
    shrink, calls = LabelCompletion.shrink, []

    def interrupted(self, *args):
        calls.append(args)
        if len(calls) > 3:
            raise KeyboardInterrupt
        return shrink(self, *args)

    monkeypatch.setattr(LabelCompletion, "shrink", interrupted)
    model = LRMMC(**AS_GIVEN)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.predict(X).shape == Y.shape
    monkeypatch.setattr(CommonRepresentation, "shrink_B", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)
