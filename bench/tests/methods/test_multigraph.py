"""Labels that are smooth on graphs: the objective, its solution, and scores of new rows."""

import numpy as np
import pytest

from naim3l.extend import AlignedRows
from naim3l_bench.methods import MultiGraph
from naim3l_bench.methods.graphs import view_laplacian
from naim3l_bench.methods.multigraph import RIDGE, SmoothLabels, best_view_weights, centred_labels

VIEWS = {"a": slice(0, 3), "b": slice(3, 5)}


@pytest.fixture
def table(rng):
    """Clusters that both views show; labels follow them. Views and labels are missing."""
    cluster = rng.integers(4, size=120)
    X = rng.normal(size=(4, 5))[cluster] * 4 + 0.5 * rng.normal(size=(120, 5))
    truth = (np.arange(4) == cluster[:, None]).astype(float)
    X[::5, :3], X[1::5, 3:] = np.nan, np.nan
    Y = np.where(rng.random(truth.shape) < 0.5, np.nan, truth)
    return X, Y, truth


@pytest.fixture
def rows(table):
    X, Y, _ = table
    present = ~np.isnan(X[:, [0, 3]]).T
    features = [np.nan_to_num(X[:, at]) for at in VIEWS.values()]
    return AlignedRows(features, present, np.nan_to_num(2 * Y - 1), positive_weight=1.5)


def laplacians(rows):
    return [view_laplacian(X, has, 6)[0] / has.mean()
            for X, has in zip(rows.features, rows.present, strict=True)]  # fmt: skip


def objective(rows, F, theta, label_weight, power):
    """The objective, edge by edge and entry by entry."""
    Y, _ = centred_labels(rows)
    smooth = [f @ L.toarray() @ f for L in laplacians(rows) for f in F.T]
    by_view = np.reshape(smooth, (2, -1)).sum(axis=1)
    fit = sum(p * (f - y) ** 2 for p, f, y in zip(rows.P.flat, F.flat, Y.flat, strict=True))
    return theta**power @ by_view + label_weight * fit + RIDGE * np.sum(F**2)


def test_labels_are_centred_at_the_weighted_mean_of_known_entries(rows):
    Y, offset = centred_labels(rows)
    for k in range(4):
        known = rows.Y[:, k] != 0
        weights = np.where(rows.Y[known, k] > 0, 1.5, 1)
        assert offset[k] == pytest.approx(np.average(rows.Y[known, k], weights=weights))
        np.testing.assert_allclose(Y[known, k], rows.Y[known, k] - offset[k])
        assert not Y[~known, k].any()


@pytest.mark.parametrize("power", [1.5, 2.0, 5.0])
def test_view_weights_minimise_the_objective(power, rng):
    costs = np.array([0.5, 2.0, 3.0])
    theta = best_view_weights(costs, power)
    assert theta.sum() == pytest.approx(1)
    for other in rng.dirichlet(np.ones(3), size=200):
        assert other**power @ costs >= theta**power @ costs
    np.testing.assert_allclose(best_view_weights(np.zeros(3), power), 1 / 3)
    assert best_view_weights(np.array([0.0, 1.0]), power)[1] > 0


def test_the_objective_is_as_defined_and_never_rises(rows):
    Y, _ = centred_labels(rows)
    labels = SmoothLabels(laplacians(rows), Y, 0.5 * rows.P, power=2.0)
    values = [labels.update()["objective"] for _ in range(8)]
    assert values[-1] == pytest.approx(objective(rows, labels.F, labels.theta, 0.5, 2.0))
    assert (np.diff(values) <= 1e-12 * values[0]).all() and values[-1] < values[0]


def test_scores_solve_the_system_of_each_label(rows):
    Y, _ = centred_labels(rows)
    parts = laplacians(rows)
    labels = SmoothLabels(parts, Y, 3 * rows.P, power=2.0)
    theta = labels.theta
    labels.update()
    A = sum(w * L.toarray() for w, L in zip(theta**2, parts, strict=True))
    for k in range(4):
        matrix = A + np.diag(3 * rows.P[:, k] + RIDGE)
        expected = np.linalg.solve(matrix, 3 * rows.P[:, k] * Y[:, k])
        np.testing.assert_allclose(labels.F[:, k], expected, atol=1e-4)


def test_scores_of_new_rows_are_means_of_neighbours_in_the_views_they_have(table):
    X, Y, _ = table
    model = MultiGraph(views=VIEWS, features=None, n_neighbors=3).fit(X[:100], Y[:100])
    scores = model.decision_function(X[100:])
    for x, score in zip(X[100:], scores, strict=True):
        total, weight = 0, 0
        for v, at in enumerate(VIEWS.values()):
            if np.isnan(x[at]).any():
                continue
            rows = np.flatnonzero(model.present_[v])
            squared = np.sum((model.rows_[rows, at] - x[at]) ** 2, axis=1)
            near = np.argsort(squared)[:3]
            by_kernel = np.exp(-squared[near] / model.bandwidths_[v])
            mean = np.average(model.scores_[rows[near]], axis=0, weights=by_kernel)
            total, weight = total + model.view_weights_[v] * mean, weight + model.view_weights_[v]
        np.testing.assert_allclose(score, total / weight + model.offset_, atol=1e-8)


def test_planted_clusters_are_found_from_half_of_the_labels(table):
    X, Y, truth = table
    model = MultiGraph(views=VIEWS).fit(X[:100], Y[:100])
    assert model.converged_ and model.view_weights_.sum() == pytest.approx(1)
    assert np.mean(model.decision_function(X[100:]).argmax(1) == truth[100:].argmax(1)) > 0.9
    filled = model.scores_ + model.offset_  # of unknown entries, too
    assert np.mean(filled.argmax(axis=1) == truth[:100].argmax(axis=1)) > 0.9


def test_a_view_of_noise_gets_less_weight(rng):
    cluster = rng.integers(4, size=200)
    signal = rng.normal(size=(4, 3))[cluster] * 4 + rng.normal(size=(200, 3))
    X = np.hstack([signal, rng.normal(size=(200, 3))])
    Y = (np.arange(4) == cluster[:, None]).astype(float)
    model = MultiGraph(views={"signal": [0, 1, 2], "noise": [3, 4, 5]}, features=None).fit(X, Y)
    assert model.view_weights_[0] > 0.8


def test_a_view_of_few_rows_does_not_get_all_of_the_weight(table):
    X, Y, _ = table
    X[4:, 3:] = np.nan
    X[4:, :3] = np.nan_to_num(X[4:, :3])
    model = MultiGraph(views=VIEWS, features=None).fit(X, Y)
    assert model.view_weights_.min() > 0.01
    assert np.isfinite(model.decision_function(X)).all()


def test_a_row_that_no_path_links_to_a_known_label_gets_the_mean(rng):
    X = np.concatenate([rng.normal(size=(30, 2)), rng.normal(1e3, 1, size=(30, 2))])
    Y = (X[:, :1] > X[:, 1:]).astype(float)
    Y[30:] = np.nan
    model = MultiGraph(features=None, n_neighbors=5).fit(X, Y)
    np.testing.assert_allclose(model.decision_function(X[30:]), model.offset_[0], atol=1e-6)


@pytest.mark.filterwarnings("ignore:label:naim3l.DataWarning")
def test_a_label_of_one_value_is_no_error(table):
    X, Y, _ = table
    Y[:, 0] = 0
    assert (MultiGraph(views=VIEWS).fit(X, Y).predict(X)[:, 0] == 0).all()
