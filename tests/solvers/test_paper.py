"""Solver "paper" equals the naive oracle, stops as the paper says, and ends nowhere in silence."""

import itertools
from functools import partial

import numpy as np
import pytest

import oracle
from naim3l.problem.rows import Problem
from naim3l.problem.statistics_problem import StatisticsProblem
from naim3l.solvers import solve_paper
from naim3l.solvers.nuclear import trace_norm_subgradient
from naim3l.solvers.objective import Objective
from naim3l.solvers.paper import EIGENVALUE_CUTOFF
from variants import VARIANTS


def start(problem, seed=0):
    shape = (problem.n_weights, problem.n_labels)
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def assert_equals_oracle(features, labels, *, lam, n_iter, mu=5.0, fit_intercept=True, **terms):
    """Weights of every iteration agree to 1e-9 relative."""
    problem = Problem(features, labels, fit_intercept=fit_intercept)
    W0 = start(problem)
    expected = oracle.iterate(
        features, labels, W0, lam=lam, mu=mu, fit_intercept=fit_intercept, **terms
    )
    objective = Objective(problem, lam, **terms)
    seen = []
    solve = partial(solve_paper, objective, W0, mu=mu, tol=0)
    for t in range(1, n_iter + 1):
        W, Z, Lambda = next(expected)
        if t in (1, 2, 5) or t == n_iter:
            result = solve(max_iter=t, callback=lambda record, W: seen.append(record))
            error = np.linalg.norm(result.W - W) / np.linalg.norm(W)
            assert error <= 1e-9, f"iteration {t}: {error:.1e}"
    X, Y = oracle.block_rows(features, fit_intercept), np.concatenate(labels)
    again = oracle.iterate(
        features, labels, W0, lam=lam, mu=mu, fit_intercept=fit_intercept, **terms
    )
    previous = next(itertools.islice(again, n_iter - 2, None))[1]
    dual = sum(X[Y[:, k] == 1].T @ (Z[k] - previous[k]) for k in range(Y.shape[1]))
    assert seen[-1]["dual_residual"] == pytest.approx(mu * np.linalg.norm(dual), rel=1e-5, abs=1e-8)
    change = max(np.abs(Z[k] - previous[k]).max(initial=0) for k in range(Y.shape[1]))
    assert seen[-1]["change"] >= change * (1 - 1e-6)
    primal = sum(np.sum((X[Y[:, k] == 1] @ W - Z[k]) ** 2) for k in range(Y.shape[1]))
    assert seen[-1]["primal_residual"] == pytest.approx(np.sqrt(primal), rel=1e-6, abs=1e-9)
    assert all(np.linalg.norm(A, 2) <= lam * (1 + 1e-9) for A in Lambda if len(A))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_iterates_equal_the_oracle_on_random_problems(make_problem, terms, seed):
    features, labels, _ = make_problem(
        seed=seed, n_rows=(30 + 10 * seed, 25, 20), n_features=(4, 6, 3), n_labels=4 + 3 * seed
    )
    assert_equals_oracle(features, labels, lam=0.1 + 0.3 * seed, n_iter=40, **terms)


def test_iterates_equal_the_oracle_without_intercept_and_with_another_mu(make_problem, terms):
    features, labels, _ = make_problem(seed=5)
    assert_equals_oracle(features, labels, lam=0.4, mu=8.0, n_iter=30, fit_intercept=False, **terms)


@pytest.mark.parametrize("name", ["full", "variant II", "variant I"])
def test_iterates_equal_the_oracle_with_fewer_rows_than_columns(make_problem, name):
    """The matrix of Eq. (13) is singular then; the least-norm solution is taken."""
    terms = VARIANTS[name]
    features, labels, _ = make_problem(seed=4, n_rows=(8, 60), n_features=(12, 3), n_labels=5)
    assert_equals_oracle(features, labels, lam=0.4, n_iter=25, **terms)


def test_iterates_equal_the_oracle_with_fewer_rows_than_labels(make_problem, terms):
    features, labels, _ = make_problem(seed=4, n_rows=(9, 8), n_features=(2, 2), n_labels=20)
    assert_equals_oracle(features, labels, lam=0.4, n_iter=25, **terms)


@pytest.mark.parametrize("name", ["full", "variant II", "variant I"])
def test_iterates_equal_the_oracle_on_real_data(real_problem, name):
    labels = [real_problem.Y[rows] for rows in real_problem.row_slices]
    assert_equals_oracle(real_problem.features, labels, lam=0.4, n_iter=4, **VARIANTS[name])


def test_statistics_without_rows_are_refused(make_problem):
    *_, problem = make_problem()
    views = StatisticsProblem.of(problem).views
    with pytest.raises(ValueError, match=r"works on rows in memory.*need solver='auto'"):
        solve_paper(Objective(StatisticsProblem(views, fit_intercept=True), 0.4), start(problem))


def test_stops_when_nothing_changes_by_as_much_as_tol(make_problem):
    *_, problem = make_problem()
    objective = Objective(problem, 0.4)
    result = solve_paper(objective, start(problem), max_iter=2000, tol=1e-3)
    changes = [record["change"] for record in result.history]
    assert result.converged and result.n_iter == len(changes) < 2000
    assert changes[-1] < 1e-3 <= min(changes[:-1])


def test_tol_zero_runs_all_iterations(make_problem):
    *_, problem = make_problem()
    result = solve_paper(Objective(problem, 0.4), start(problem), max_iter=7, tol=0)
    assert result.n_iter == 7 and not result.converged


@pytest.mark.parametrize(
    ("n_features", "ridge"), [((5, 7), 0.3), ((50, 40), 20.0)], ids=["tall", "wide"]
)
def test_variant_one_tends_to_masked_ridge_regression(make_problem, n_features, ridge):
    """A problem with a known answer: each column solves the normal equations of its known rows."""
    features, labels, problem = make_problem(seed=6, observed=0.8, n_features=n_features)
    objective = Objective(problem, 1.0, low_rank=False, high_rank=False, ridge=ridge)
    W = solve_paper(objective, start(problem), max_iter=5000, tol=1e-10).W
    X, Y = oracle.block_rows(features), np.concatenate(labels).astype(float)
    for k in range(problem.n_labels):
        known = Y[:, k] != 0
        penalty = ridge * np.diag(problem.penalised[:, k].astype(float))
        exact = np.linalg.solve(X[known].T @ X[known] + penalty, X[known].T @ Y[known, k])
        np.testing.assert_allclose(W[:, k], exact, atol=1e-6)


def test_variant_two_tends_to_a_minimum(make_problem, rng):
    """Its objective is convex: no direction may lead lower from the solution."""
    *_, problem = make_problem(seed=7)
    objective = Objective(problem, 0.4, high_rank=False, ridge=0.1)
    result = solve_paper(objective, start(problem), max_iter=5000, tol=1e-9)
    assert result.converged
    lowest = objective.value(result.W)
    for scale in (1e-1, 1e-2, 1e-3):
        for _ in range(20):
            D = rng.normal(size=result.W.shape)
            assert objective.value(result.W + scale * D) >= lowest - 1e-9
    assert objective.value(0.999 * result.W) >= lowest


def test_solution_does_not_depend_on_mu_or_start(make_problem):
    *_, problem = make_problem(seed=8)
    objective = Objective(problem, 0.4, high_rank=False)
    values = [
        objective.value(solve_paper(objective, start(problem, s), mu=mu, max_iter=5000, tol=1e-8).W)
        for s, mu in ((0, 5.0), (1, 5.0), (0, 12.0))
    ]
    assert values == pytest.approx(values[:1] * 3, rel=1e-8)


def few_positives():
    """Negatives in directions that no positive row has: Eq. (13) overshoots there."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Y = -np.ones((60, 2))
    Y[:4, 0], Y[4:8, 1] = 1, 1
    X[:8, 0] *= 1e-2
    return Problem([X], [Y])


def test_divergence_is_an_error_that_says_what_to_do():
    problem = few_positives()
    with pytest.raises(FloatingPointError, match=r"mu=5.*Try mu=50, or solver='fast'"):
        solve_paper(Objective(problem, 0.4), start(problem))


def test_guarded_converges_where_the_printed_algorithm_diverges():
    problem = few_positives()
    objective = Objective(problem, 0.4, high_rank=False)
    result = solve_paper(objective, start(problem), max_iter=3000, tol=1e-8, guarded=True)
    assert result.converged
    lowest, rng = objective.value(result.W), np.random.default_rng(1)
    for _ in range(50):
        W = result.W + 1e-2 * rng.normal(size=result.W.shape)
        assert objective.value(W) >= lowest - 1e-9


def test_guard_changes_nothing_where_the_penalty_dominates(make_problem):
    features, labels, _ = make_problem(observed=1.0, positive=0.6)
    problem = Problem(features, labels)
    for v in range(len(features)):
        gram, bound = problem.positive_gram(v), problem.labelled_gram(v)
        assert np.linalg.eigvalsh(5 * gram - 2 * bound).min() > 0
    objective, W = Objective(problem, 0.4), start(problem)
    guarded = solve_paper(objective, W, max_iter=20, tol=0, guarded=True)
    np.testing.assert_array_equal(guarded.W, solve_paper(objective, W, max_iter=20, tol=0).W)


def test_interrupt_keeps_the_last_whole_iteration(make_problem):
    *_, problem = make_problem()
    objective, W = Objective(problem, 0.4), start(problem)

    def interrupt(record, W, calls=itertools.count(1)):  # noqa: B008 -- one counter per definition
        if next(calls) == 3:
            raise KeyboardInterrupt

    result = solve_paper(objective, W, max_iter=50, tol=0, callback=interrupt)
    assert result.interrupted and result.n_iter == 3
    np.testing.assert_array_equal(result.W, solve_paper(objective, W, max_iter=3, tol=0).W)


def test_surrogate_majorises_the_objective_and_touches_it(make_problem):
    """Eq. (11): convex, above the objective, equal to it where it was linearised."""
    *_, problem = make_problem()
    objective = Objective(problem, 0.4)
    W0 = start(problem)
    weights = [W0]
    result = solve_paper(
        objective, W0, max_iter=60, tol=0, callback=lambda record, W: weights.append(W)
    )
    for W_old, W, record in zip(weights, weights[1:], result.history, strict=False):
        G = trace_norm_subgradient(problem.multiply(W_old), cutoff=EIGENVALUE_CUTOFF)
        convex = record["loss"] + record["low_rank"]
        linear = 0.4 * np.vdot(G, problem.multiply(W))
        assert record["surrogate"] == pytest.approx(convex - linear, rel=1e-9)
        assert record["surrogate"] >= record["objective"] - 1e-9 * abs(record["objective"])
    last = result.history[-1]
    assert last["surrogate"] == pytest.approx(last["objective"], rel=1e-4)


def test_without_cutoff_small_singular_values_count(make_problem):
    *_, problem = make_problem()
    W = 1e-3 * start(problem)  # all eigenvalues of (XW)'XW lie below the cut-off
    step = [
        solve_paper(Objective(problem, 0.4), W, max_iter=1, tol=0, eigenvalue_cutoff=cutoff).W
        for cutoff in (EIGENVALUE_CUTOFF, None)
    ]
    without = solve_paper(Objective(problem, 0.4, high_rank=False), W, max_iter=1, tol=0).W
    np.testing.assert_allclose(step[0], without)
    assert np.abs(step[1] - without).max() > 1e-3
