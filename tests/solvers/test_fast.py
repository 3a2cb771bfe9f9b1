"""Solver "fast": the model of "paper", a certificate that holds, an objective that never rises."""

import itertools

import numpy as np
import pytest

import oracle
from naim3l.problem.rows import Problem
from naim3l.problem.statistics_problem import StatisticsProblem
from naim3l.solvers import fast, solve_fast, solve_paper, start_again
from naim3l.solvers.fast import STATE
from naim3l.solvers.objective import Objective


@pytest.mark.parametrize("name", ["planted_problem", "real_problem"])
def test_agrees_with_paper_run_long_on_the_objective(request, name, terms):
    objective = Objective(request.getfixturevalue(name), 0.4, **terms)
    fast = solve_fast(objective)
    W = np.random.default_rng(0).uniform(-1, 1, fast.W.shape)
    paper = solve_paper(objective, W, max_iter=4000, tol=1e-7, guarded=True)
    assert fast.converged
    assert objective.value(fast.W) == pytest.approx(objective.value(paper.W), rel=1e-4)


@pytest.mark.parametrize("form", ["rows", "statistics"])
def test_certificate_and_records_hold_by_their_definitions(make_problem, terms, form):
    features, labels, problem = make_problem(seed=3)
    objective = Objective(problem, 0.4, **terms)
    result = solve_fast(objective, tol=1e-6, max_iter=2000, form=form)
    assert result.converged
    last = result.history[-1]
    value = oracle.objective(features, labels, result.W, lam=0.4, **terms)
    assert last["objective"] == pytest.approx(value, rel=1e-8)
    assert result.stationarity == last["stationarity"] < 1e-6
    assert last["feasibility"] < 1e-6 and last["concave_gap"] < 1e-6
    # Without the nonsmooth terms the gradient itself must vanish.
    if terms.get("low_rank") is False:
        gradient = oracle.gradient(features, labels, result.W, lam=0.4, **terms)
        assert np.linalg.norm(gradient) < 1e-5 * np.linalg.norm(problem.targets)
    else:  # and with them, no small step may lead lower
        rng = np.random.default_rng(0)
        for scale, _ in itertools.product((1e-1, 1e-2, 1e-3), range(20)):
            W = result.W + scale * rng.normal(size=result.W.shape)
            assert objective.value(W) >= value - 1e-6 * abs(value)


@pytest.mark.parametrize("lam", [1e-3, 0.03, 1.0, 10.0, 100.0])
def test_objective_never_rises_between_outer_steps(planted_problem, lam, terms):
    objective = Objective(planted_problem, lam, **terms)
    result = solve_fast(objective, max_iter=60, tol=0)
    outer = [record["objective"] for record in result.history if record["outer"]]
    assert outer and np.all(np.diff(outer) <= 1e-11 * np.abs(outer[:-1]))


@pytest.mark.parametrize("form", ["rows", "statistics"])
@pytest.mark.parametrize("lam", [0.05, 0.4, 2.0])
def test_a_looser_fit_ends_near_the_objective_of_a_tight_one(planted_problem, lam, form):
    """Weak coupling, with which the concave term may be linearised freely, and strong."""
    objective = Objective(planted_problem, lam, ridge=1.0)
    loose = solve_fast(objective, form=form)
    tight = solve_fast(objective, tol=1e-6, max_iter=2000, form=form)
    assert loose.converged and tight.converged and loose.n_iter < tight.n_iter
    assert objective.value(loose.W) == pytest.approx(objective.value(tight.W), rel=1e-4)


@pytest.mark.parametrize("lam", [0.05, 2.0])
def test_records_have_the_objective_of_an_outer_step(planted_problem, lam):
    objective = Objective(planted_problem, lam, ridge=1.0)
    recorded, values = [], []

    def compare(record, W):
        values.append(objective.value(W))
        recorded.append(record["objective"])
        if record["outer"]:
            assert recorded[-1] == pytest.approx(values[-1], rel=1e-9)
        elif recorded[-1] != recorded[0]:  # that of the start
            assert any(recorded[-1] == pytest.approx(value, rel=1e-9) for value in values)

    result = solve_fast(objective, callback=compare)
    assert result.history[-1]["objective"] == pytest.approx(objective.value(result.W), rel=1e-9)
    stopped = solve_fast(objective, max_iter=3)
    assert not stopped.converged
    parts = objective.parts(stopped.W)
    assert {name: stopped.history[-1][name] for name in parts} == pytest.approx(parts, rel=1e-9)


@pytest.mark.parametrize("lam", [1e-3, 0.1, 1.0, 100.0])
@pytest.mark.parametrize("mu", [None, 0.3, 5.0])
def test_converges_for_any_lam_with_mu_given_or_not(planted_problem, lam, mu):
    objective = Objective(planted_problem, lam, high_rank=False)
    result = solve_fast(objective, mu=mu, max_iter=3000)
    assert result.converged
    if mu is not None:
        assert {record["mu"] for record in result.history} == {mu}


def test_both_forms_give_the_same_iterates(make_problem, terms, monkeypatch):
    monkeypatch.setattr("naim3l.solvers.weights.STEP_ACCURACY", 0.0)
    *_, problem = make_problem(seed=4, n_rows=(80, 60))
    objective = Objective(problem, 0.4, **terms)
    one, two = (solve_fast(objective, max_iter=12, tol=0, form=f) for f in ("rows", "statistics"))
    np.testing.assert_allclose(one.W, two.W, rtol=1e-7, atol=1e-8)
    for record, other in zip(one.history, two.history, strict=True):
        assert record["objective"] == pytest.approx(other["objective"], rel=1e-9)


def test_inexact_steps_end_where_exact_ones_do(make_problem):
    *_, problem = make_problem(seed=4, n_rows=(80, 60))
    objective = Objective(problem, 0.4, high_rank=False, ridge=0.5)
    one, two = (
        solve_fast(objective, max_iter=2000, tol=1e-7, form=f) for f in ("rows", "statistics")
    )
    assert one.converged
    np.testing.assert_allclose(one.W, two.W, atol=1e-5)


def test_start_does_not_matter_for_the_convex_variant(planted_problem):
    problem = planted_problem
    objective = Objective(problem, 0.4, high_rank=False)
    rng = np.random.default_rng(0)
    starts = [None, np.zeros_like(problem.targets), rng.uniform(-1, 1, problem.targets.shape)]
    values = [objective.value(solve_fast(objective, W, tol=1e-6, max_iter=3000).W) for W in starts]
    assert values == pytest.approx(values[:1] * 3, rel=1e-6)


def test_an_objective_without_bound_is_an_error_that_says_what_to_do():
    """More features than rows, rows without a positive: nothing holds the high-rank term."""
    rng = np.random.default_rng(0)
    Y = rng.choice([-1, 0, 1], p=[0.4, 0.5, 0.1], size=(30, 6))
    problem = Problem([rng.normal(size=(30, 60))], [Y])
    with pytest.raises(FloatingPointError, match=r"without bound.*ridge='auto'.*lower lam"):
        solve_fast(Objective(problem, 30.0), form="rows")
    # Statistics leave out the directions that no equation determines; the fall is slower there.
    result = solve_fast(Objective(problem, 30.0), form="statistics")
    assert not result.converged and result.history[-1]["objective"] < 0
    for form in ("rows", "statistics"):
        assert solve_fast(Objective(problem, 0.3, ridge=1.0), form=form).converged


class TestSecondStart:
    def coupled(self, lam):
        """More columns than rows: at a large lam, where a fit ends depends on its start."""
        rng = np.random.default_rng(55)
        X = [rng.normal(size=(n, d)) for n, d in ((45, 16), (50, 54), (17, 16))]
        Y = [rng.choice([-1, 0, 1], p=[0.4, 0.3, 0.3], size=(len(X_v), 7)) for X_v in X]
        return Objective(Problem(X, Y), lam, ridge=0.6)

    def test_with_weak_coupling_there_is_none(self, monkeypatch):
        objective = self.coupled(0.05)
        result = solve_fast(objective)
        monkeypatch.setattr(fast, "solve_fast", None)
        assert start_again(objective, result) is result

    def test_with_strong_coupling_the_lowest_objective_is_kept(self, monkeypatch):
        objective, found = self.coupled(2.0), []

        def kept(*given, **options):
            found.append(solve_fast(*given, **options))
            return found[-1]

        monkeypatch.setattr(fast, "solve_fast", kept)
        first = solve_fast(objective, max_iter=40)
        best = start_again(objective, first, max_iter=40)
        values = [objective.value(result.W) for result in (first, *found)]
        assert len(values) > 1 and len(set(values)) == len(values)
        assert objective.value(best.W) == min(values)
        assert best.history[-1]["objective"] == pytest.approx(min(values))

    def test_an_interrupt_ends_the_starts_and_keeps_the_best(self, monkeypatch):
        objective, seen = self.coupled(2.0), []
        first = solve_fast(objective, max_iter=40)

        def stop(record, W):
            seen.append(record)
            raise KeyboardInterrupt

        best = start_again(objective, first, max_iter=40, callback=stop)
        assert len(seen) == 1 and best.interrupted
        assert objective.value(best.W) <= objective.value(first.W)


def test_warm_start_along_a_path_reaches_the_solutions_of_cold_starts(planted_problem):
    statistics = StatisticsProblem.of(planted_problem)
    warm, n_warm, n_cold = None, 0, 0
    for lam in (0.01, 0.02, 0.04, 0.08):
        objective = Objective(statistics, lam, ridge=0.1)
        warm = solve_fast(objective, warm=warm, tol=1e-5)
        cold = solve_fast(objective, tol=1e-5)
        assert warm.converged
        assert objective.value(warm.W) == pytest.approx(objective.value(cold.W), rel=1e-6)
        n_warm, n_cold = n_warm + warm.n_iter, n_cold + cold.n_iter
    assert n_warm < n_cold


@pytest.mark.parametrize("lam", [1e-4, 0.08])
def test_warm_start_at_another_ridge_reaches_the_solution_of_a_cold_start(planted_problem, lam):
    """From the state where lam matters, from the ridge solution where that is lower."""
    statistics = StatisticsProblem.of(planted_problem)
    warm = solve_fast(Objective(statistics, lam, ridge=0.1), tol=1e-5)
    for ridge in (1.0, 10.0):
        objective = Objective(statistics, lam, ridge=ridge)
        state = warm.state
        before = state.B.copy(), state.W.copy()
        warm, cold = solve_fast(objective, warm=warm, tol=1e-5), solve_fast(objective, tol=1e-5)
        assert warm.converged and warm.state.step.ridge == ridge
        assert objective.value(warm.W) == pytest.approx(objective.value(cold.W), rel=1e-6)
        np.testing.assert_array_equal(state.B, before[0])  # other fits start from it, too
        np.testing.assert_array_equal(state.W, before[1])


def test_float32_reaches_the_same_objective(planted_problem):
    problem = planted_problem
    labels = [problem.Y[rows] for rows in problem.row_slices]
    single = Problem([X.astype(np.float32) for X in problem.features], labels)
    statistics = StatisticsProblem.of(single)
    assert statistics.targets.dtype == np.float32
    result = solve_fast(Objective(statistics, 0.4), tol=1e-3)
    assert result.converged and result.W.dtype == np.float32
    reference = Objective(problem, 0.4)
    double = reference.value(solve_fast(reference, tol=1e-3).W)
    assert reference.value(result.W.astype(float)) == pytest.approx(double, rel=1e-3)


def test_tol_zero_runs_all_iterations_and_interrupt_keeps_the_last(planted_problem):
    objective = Objective(planted_problem, 0.4)
    assert solve_fast(objective, max_iter=5, tol=0).n_iter == 5
    seen = []

    def interrupt(record, W):
        seen.append(record)
        if len(seen) == 3:
            raise KeyboardInterrupt

    result = solve_fast(objective, tol=0, callback=interrupt)
    assert result.interrupted and result.n_iter == 3
    np.testing.assert_array_equal(result.W, solve_fast(objective, max_iter=3, tol=0).W)


class Store:
    """A store in memory, which writes at every offer."""

    def __init__(self):
        self.stored = {}

    def get(self, name):
        return self.stored.get(name)

    def put(self, name, arrays):
        self.stored[name] = {key: np.array(A) for key, A in arrays.items()}

    def offer(self, name, make):
        self.put(name, make())


def stop_after(n):
    def callback(record, W, seen=itertools.count(1)):  # noqa: B008 -- one counter per definition
        if next(seen) == n:
            raise KeyboardInterrupt

    return callback


@pytest.mark.parametrize("large", [1, 10**9], ids=["nearly exact thresholding", "exact"])
@pytest.mark.parametrize("form", ["rows", "statistics"])
def test_an_interrupted_fit_resumes_to_the_same_weights(planted_problem, monkeypatch, form, large):
    monkeypatch.setattr("naim3l.problem.base.LARGE_NUMBERS", large)
    objective, store = Objective(planted_problem, 0.4, ridge=0.5), Store()
    whole = solve_fast(objective, form=form)
    for n in (1, 4, 9):
        solve_fast(objective, form=form, callback=stop_after(n), checkpoint=store)
    resumed = solve_fast(objective, form=form, checkpoint=store)
    assert resumed.history == whole.history
    np.testing.assert_array_equal(resumed.W, whole.W)
    # A finished fit is not continued.
    again = solve_fast(objective, form=form, callback=stop_after(1), checkpoint=store)
    assert again.converged and not again.interrupted
    np.testing.assert_array_equal(again.W, whole.W)


def test_of_a_large_state_only_weights_are_kept(planted_problem, monkeypatch):
    monkeypatch.setattr("naim3l.solvers.fast.STATE_LIMIT", 0)
    monkeypatch.setattr("naim3l.solvers.fast.STATE_TIMES", 0)
    objective, store = Objective(planted_problem, 0.4, ridge=0.5), Store()
    solve_fast(objective, callback=stop_after(5), checkpoint=store)
    assert set(store.stored[STATE]) == {"W", "mu", "history"}
    resumed, whole = solve_fast(objective, checkpoint=store), solve_fast(objective)
    assert resumed.converged
    assert objective.value(resumed.W) == pytest.approx(objective.value(whole.W), rel=1e-4)
