"""LVSL: the objective and its blocks from their definitions, and what it reduces to."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel

from naim3l import Kernel
from naim3l.extend import AlignedRows
from naim3l_bench.methods import LVSL
from naim3l_bench.methods.lvsl import LabelSpaces, ViewRows, smoothed_weights
from naim3l_bench.methods.multigraph import centred_labels

VIEWS = {"a": slice(0, 4), "b": slice(4, 7)}


@pytest.fixture
def table(rng):
    X = rng.normal(size=(120, 7))
    truth = (X @ rng.normal(size=(7, 4)) + 0.3 * rng.normal(size=(120, 4)) > 0.3).astype(float)
    Y = np.where(rng.random(truth.shape) < 0.4, np.nan, truth)
    X[::5, :4], X[1::5, 4:] = np.nan, np.nan
    return X, Y, truth


def label_spaces(table, **options):
    X, Y, _ = table
    present = ~np.isnan(X[:, [0, 4]]).T
    features = [np.nan_to_num(X[:, at]) for at in VIEWS.values()]
    rows = AlignedRows(features, present, np.nan_to_num(2 * Y - 1), positive_weight=1.5)
    Y, _ = centred_labels(rows)
    views = [ViewRows(X_v[has], Y[has], rows.P[has], 5)
             for X_v, has in zip(features, present, strict=True)]  # fmt: skip
    return LabelSpaces(views, Y, rows.P, LVSL(**options))


def objective(spaces):
    """The objective in the docstring of the class, term by term."""
    options, C, theta = spaces.options, spaces.C, spaces.theta
    total = options.low_rank_weight * np.linalg.norm(C, "nuc")
    total += options.agreement / 2 * np.sum(spaces.P * (spaces.Y - spaces.Y @ C) ** 2)
    smoothing = options.view_smoothing / 4 * spaces.Y.size
    total += smoothing * (np.sum(theta**2) - 1 / len(theta))
    for view, weight, B, T in zip(spaces.views, theta, spaces.B, spaces.T, strict=True):
        total += weight / 2 * np.sum((view.X @ B - T) ** 2)
        total += weight / 2 * options.smoothness * np.trace(T.T @ view.laplacian.toarray() @ T)
        total += options.ridge / 2 * np.sum(B**2)
        total += options.agreement / 2 * np.sum(view.P * (T - view.Y @ C) ** 2)
    return total


@pytest.mark.parametrize("options", [
    {}, {"agreement": 1.0, "smoothness": 2.0, "low_rank_weight": 20.0, "view_smoothing": 0.05},
], ids=["defaults", "strong terms"])  # fmt: skip
def test_the_objective_is_as_defined_and_never_rises(table, options):
    spaces = label_spaces(table, **options)
    values = []
    for _ in range(15):
        values.append(spaces.update()["objective"])
        assert values[-1] == pytest.approx(objective(spaces))
    assert (np.diff(values) <= 1e-9 * values[0]).all()


def test_weights_and_targets_are_minimised_one_after_the_other(table):
    spaces = label_spaces(table, agreement=2.0, smoothness=1.0)
    spaces.update()
    view, theta_v, T_v = spaces.views[0], spaces.theta[0], spaces.T[0]
    B = view.regress(T_v, spaces.options.ridge / theta_v)
    gradient = theta_v * view.X.T @ (view.X @ B - T_v) + spaces.options.ridge * B
    assert np.abs(gradient).max() < 1e-8
    fitted = view.X @ B
    T = spaces._targets(view, theta_v, fitted, T_v)
    L = view.laplacian.toarray()
    gradient = theta_v * (T - fitted + L @ T) + 2.0 * view.P * (T - view.Y @ spaces.C)
    assert np.abs(gradient).max() < 1e-4


def test_steps_of_the_correlations_end_where_the_trace_norm_balances_the_squares(table):
    spaces = label_spaces(table, agreement=1.0, low_rank_weight=60.0)
    spaces.update()
    for _ in range(500):
        spaces.C, trace_norm = spaces._correlations(spaces.T)
    pairs = [(spaces.Y, spaces.P, spaces.Y)]
    pairs += [(view.Y, view.P, T) for view, T in zip(spaces.views, spaces.T, strict=True)]
    slope = -sum(Y.T @ (P * (Y @ spaces.C - T)) for Y, P, T in pairs)
    # A subgradient of the trace norm: spectral norm 1, and its product with C is the trace norm.
    assert np.linalg.norm(slope, 2) == pytest.approx(60.0)
    assert np.sum(slope * spaces.C) == pytest.approx(60.0 * trace_norm)
    assert trace_norm == pytest.approx(np.linalg.norm(spaces.C, "nuc")) and trace_norm > 0


def test_correlations_shrink_to_low_rank_with_their_weight(table):
    ranks = []
    for weight in (1e-3, 60.0, 1e3):
        spaces = label_spaces(table, agreement=1.0, low_rank_weight=weight)
        for _ in range(200):
            spaces.update()
        ranks.append(np.linalg.matrix_rank(spaces.C, tol=1e-6))
    assert ranks[0] == 4 > ranks[1] > ranks[2] == 0


def test_view_weights_minimise_their_part_of_the_objective(rng):
    costs = np.array([0.1, 0.3, 2.0])
    w = smoothed_weights(costs)
    assert w.sum() == pytest.approx(1) and w.min() > 0
    for other in rng.dirichlet(np.ones(3), size=300):
        assert costs @ other + other @ other / 2 >= costs @ w + w @ w / 2 - 1e-6
    np.testing.assert_allclose(smoothed_weights(np.ones(4)), 0.25)
    np.testing.assert_allclose(smoothed_weights(np.zeros(1)), 1)


def test_one_complete_view_is_kernel_ridge_regression(rng):
    """Targets that must agree with the labels leave kernel ridge regression onto them."""
    X = rng.normal(size=(60, 3))
    Y = (np.sin(2 * X[:, :2]) + 0.2 * rng.normal(size=(60, 2)) > 0).astype(float)
    exact = Kernel("rbf", n_landmarks=None, recipe=None)
    model = LVSL(0.5, smoothness=0, agreement=1e6, low_rank_weight=0, features=exact).fit(X, Y)
    [gamma] = model.gamma_.values()
    signed = 2 * Y - 1
    reference = KernelRidge(alpha=0.5, kernel="precomputed")
    reference.fit(rbf_kernel(X, gamma=gamma), signed - signed.mean(axis=0))
    new = rng.normal(size=(10, 3))
    expected = reference.predict(rbf_kernel(new, X, gamma=gamma)) + signed.mean(axis=0)
    np.testing.assert_allclose(model.decision_function(new), expected, atol=1e-3)
    np.testing.assert_allclose(model.correlations_, np.eye(2), atol=1e-4)


def test_unknown_labels_leave_a_regression_on_the_known_rows(rng):
    """Without smoothness, targets of unknown labels are the predictions, and so without effect."""
    X, known = rng.normal(size=(80, 4)), rng.random(80) < 0.5
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=80) > 0, 1.0, 0.0)
    options = {
        "smoothness": 0,
        "agreement": 1e6,
        "low_rank_weight": 0,
        "features": None,
        "tol": 1e-13,
        "max_iter": 2000,
    }
    model = LVSL(**options).fit(X, np.where(known, y, np.nan)[:, None])
    target = 2 * y[known] - 1
    A = X[known]
    w = np.linalg.solve(A.T @ A + 0.1 * np.eye(4), A.T @ (target - target.mean()))
    np.testing.assert_allclose(model.coef_[:, 0], w, atol=1e-3)


def test_a_row_is_scored_by_the_weighted_mean_of_the_views_it_has(table):
    X, Y, _ = table
    model = LVSL(views=VIEWS, features=None).fit(X, Y)
    parts = [np.nan_to_num(X[:, at]) @ model.coef_[at] for at in VIEWS.values()]
    weights = model.view_weights_[:, None] * ~np.isnan(X[:, [0, 4]]).T
    expected = sum(w[:, None] * S for w, S in zip(weights, parts, strict=True))
    expected = expected / weights.sum(axis=0)[:, None] + model.offset_
    np.testing.assert_allclose(model.decision_function(X), expected)


def test_planted_labels_are_found_from_some_of_them(table):
    X, Y, truth = table
    complete = ~np.isnan(X).any(axis=1)
    model = LVSL(views=VIEWS).fit(X, Y)
    assert model.converged_ and model.n_iter_ == len(model.history_)
    hidden = np.isnan(Y) & complete[:, None]
    assert np.mean((model.decision_function(X) > 0)[hidden] == truth[hidden]) > 0.8


@pytest.mark.filterwarnings("ignore:label:naim3l.DataWarning")
def test_a_label_of_one_value_is_no_error(table):
    X, Y, _ = table
    Y[:, 0] = 0
    scores = LVSL(views=VIEWS).fit(X, Y).decision_function(X)
    np.testing.assert_allclose(scores[:, 0], -1)


def test_a_constant_view_is_an_error_that_says_what_to_do(table):
    X, Y = table[0].copy(), table[1]
    X[:, VIEWS["b"]] = 2.0
    with pytest.raises(ValueError, match=r"view 'b': all rows are equal .* Leave the view out, or"):
        LVSL(views=VIEWS, features=Kernel(recipe=None)).fit(X, Y)
    LVSL(views=VIEWS, features=Kernel(gamma=1.0, recipe=None)).fit(X, Y)
