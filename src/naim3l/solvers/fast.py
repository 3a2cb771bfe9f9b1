"""Solver "fast": a splitting with an exact W-step, few iterations, and a certificate."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from naim3l._arrays import Arrays, Matrix, as_numpy, inner, namespace_of, norm
from naim3l._threads import kept_threads, limited_blas
from naim3l.problem.cost_model import choose_form
from naim3l.solvers.base import Callback, Record, SolverResult
from naim3l.solvers.objective import Objective
from naim3l.solvers.thresholding import Bases, shrink_labels, shrink_relaxed
from naim3l.solvers.weights import WeightStep, make_weight_step

# The start minimises the loss plus the penalty with the second and Z = 0.
FIRST_MU, START_MU, LEAST_MU = 0.5, 0.005, 1e-8
# Strong over-relaxation helps while the multipliers are far off, but with it feasibility shrinks at
# best by the factor |1 - relaxation| per iteration. One step without relaxation makes up for that.
FIRST_RELAXATION, RELAXATION = 1.9, 1.4
N_FIRST = 5
# mu follows the ratio of the residuals, by at most this factor per iteration, and stays fixed after
# this many iterations, so that convergence is that of a fixed mu.
MU_FACTOR, MU_REST = 1.2, 60
ROUNDING = 1e-12
# After the first iterations, the concave term is linearised anew in every one while residuals fall.
# With strong coupling, new linearisations upset them. From then on, and in the first iterations, it
# is linearised anew only where the linearisation lies above it by more than this share of tol, or
# of a tenth of the other residuals, relative to the objective. A larger tol than the last number
# counts as that number here.
STALE, STALE_RESIDUAL, LOOSEST = 0.3, 0.1, 1e-4
# Thresholding may neglect this share of the last residual. It is exact where that is below the
# second number, or so little above tol that the next iteration is likely to be the last one.
NEAR, SINGLE_RESIDUAL, LAST = 0.05, 3e-5, 1.2
STATE = "solver"  # name of the state in a checkpoint
# Its fields there; Z follows from B where it is exact.
STATE_ARRAYS = ("W", "B", "Z", "XU", "high_rank", "touched")
STATE_NUMBERS = ("threshold", "divisor", "mu", "lam", "worst", "exact", "checked", "follow_below")
# Where multipliers, a block for every label, take more than this many bytes, and more than this
# many times the size of the weights, only the weights are stored.
STATE_LIMIT, STATE_TIMES = 2**25, 8
BASIS = "basis"  # begins the names of the singular vectors of a group of labels
# Coupling is strong where the high-rank term is this share of all others at the end. There, where
# a fit ends depends on its start. One of the further starts is a ridge solution, this accurate.
STRONG, START_ACCURACY = 0.5, 1e-6
# Labels are 1 and -1; scores beyond this mean that the objective is unbounded below.
SCORE_LIMIT = 1e6
_UNBOUNDED_MESSAGE = (
    "solver 'fast': the objective falls without bound. Rows without an observed positive are "
    "rewarded for high rank, and here nothing limits them: use ridge='auto' or a larger ridge, "
    "lower lam, or use variant='low-rank'."
)


@dataclass
class State:
    """Iterates of the splitting; the multipliers divided by mu are ``U = (B - Z) / divisor``."""

    W: Matrix  # (n_weights, n_labels)
    B: Matrix  # the last input of the thresholding, (n_block_rows, n_labels)
    threshold: float  # of the last thresholding
    Z: Matrix  # its output
    XZ: Matrix  # sum_k X_k' Z_k, (n_weights, n_labels)
    XU: Matrix  # sum_k X_k' U_k, updated rather than recomputed
    mu: float
    lam: float
    high_rank: Matrix  # lam X'G, with G where the concave term was linearised last
    touched: Matrix  # those weights
    outer: Record  # the objective and its parts at the last outer step
    step: WeightStep
    divisor: float = 1.0  # factor by which mu has grown since the last thresholding
    # Singular vectors for thresholding. Over-relaxed iterates alternate, so that those of two
    # iterations ago are nearer than the last ones.
    bases: tuple[Bases, Bases] = field(default_factory=lambda: ({}, {}))
    exact: bool = True  # whether Z is
    worst: float = 0.0  # larger residual of the last iteration
    checked: bool = True  # whether these are weights of that step
    follow_below: float = math.inf  # residual below which every iteration linearises anew


def solve_fast(
    objective: Objective,
    W: Matrix | None = None,
    *,
    mu: float | None = None,
    max_iter: int = 200,
    tol: float = 1e-4,
    callback: Callback | None = None,
    form: str = "auto",
    warm: SolverResult | None = None,
    checkpoint: Any = None,
) -> SolverResult:
    """Weights at which the objective is stationary, started at ``W`` or at a ridge solution.

    The concave term is replaced by a linear function above it, and the remaining convex problem is
    solved by the splitting ``Z_k = X_k W``. The linear function is replaced in every iteration if
    residuals fall, otherwise only at outer steps, at which the true objective is lower than at the
    last one. Such a step is always found unless the last one was stationary, because the linear
    function bounds the objective from above. Elsewhere the objective is not computed.

    Parameters
    ----------
    objective : Objective
        What to minimise.
    W : ndarray of shape (n_weights, n_labels), optional
        Start weights.
    mu : float, optional
        Penalty of the splitting. By default it is adapted.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Stop at an outer step where the relative stationarity residual, the relative feasibility
        residual and the relative gap of the linearisation are all below it; 0 runs all iterations.
    callback : callable, optional
        Called with the record of each iteration.
    form : {"auto", "rows", "statistics"}
        What the loop works on: the rows, or statistics computed in one pass, after which the cost
        of an iteration does not depend on the number of rows. By default the cheaper form is used.
    warm : SolverResult, optional
        A result for the same problem, in the form that the loop works on, at another ``lam`` or
        ridge, whose weights, multipliers and mu are used instead of ``W``. At another ridge the
        ridge solution is used if the objective is lower there.
    checkpoint : Checkpoint, optional
        Stores the state from time to time. If it contains a state, the iterations resume there and
        end at the same weights as an uninterrupted fit, unless the state is so large that only the
        weights are stored (see ``STATE_LIMIT``).

    Returns
    -------
    SolverResult
        Weights, and a record of each iteration.

    Raises
    ------
    FloatingPointError
        If the objective falls without bound.
    """
    objective = replace(objective, problem=choose_form(objective.problem, form))
    with kept_threads(objective.problem.n_threads), limited_blas():
        result = _begin(objective, W, mu, warm, checkpoint)
        if result.history and _is_converged(result.history[-1], tol):
            result.converged = True  # a finished fit, whose model was not saved
            return result
        try:
            for n_iter in range(result.n_iter + 1, max_iter + 1):
                record = _iterate(objective, result.state, n_iter, tol)
                result.W, result.stationarity = as_numpy(result.state.W), record["stationarity"]
                result.converged = _is_converged(record, tol)
                result.history.append(record)
                if callback is not None:
                    callback(record, result.W)
                if result.converged:
                    break
                if mu is None and n_iter <= MU_REST:
                    _balance(result.state, record)
                if checkpoint is not None:
                    checkpoint.offer(STATE, lambda: _state_arrays(result))
            if checkpoint is not None:
                checkpoint.put(STATE, _state_arrays(result))
        except KeyboardInterrupt:
            result.interrupted = True
        if result.history and not result.history[-1]["outer"]:
            result.history[-1] |= objective.parts(objective.problem.asarray(result.W))
        return result


def start_again(objective: Objective, result: SolverResult, **options: Any) -> SolverResult:
    """The result of `solve_fast`, or that of a further start if its objective is lower.

    Only where coupling is strong are there further ones: the ridge solution, solved accurately, and
    random weights of the size of the result. ``options`` are those of the first fit.
    """
    if result.interrupted or not result.history or not _is_strong(result.history[-1]):
        return result
    for W in _further_starts(objective, result.W):
        other = solve_fast(objective, W, **options)
        if other.history and other.history[-1]["objective"] < result.history[-1]["objective"]:
            result = replace(other, interrupted=False)
        if other.interrupted:
            return replace(result, interrupted=True)
    return result


def _further_starts(objective: Objective, W: Matrix) -> Iterator[Matrix]:
    problem = objective.problem
    step = make_weight_step(problem, objective.ridge, START_ACCURACY)
    zero = namespace_of(problem.targets).zeros_like(problem.targets)
    yield as_numpy(step(problem.targets, LEAST_MU, zero))
    # Each view draws for itself, so that sites with a view each have the same weights.
    blocks = [W[weights] for weights in problem.weight_slices]
    sizes = [np.sqrt(np.mean(np.square(W_v))) for W_v in blocks]
    drawn = [np.random.default_rng(0).normal(size=W_v.shape) for W_v in blocks]
    yield np.concatenate([size * W_v for size, W_v in zip(sizes, drawn, strict=True)])


def _is_strong(record: Record) -> bool:
    others = sum(record[name] for name in ("loss", "low_rank", "ridge"))
    return -record["high_rank"] > STRONG * others


def _is_converged(record: Record, tol: float) -> bool:
    worst = max(record[name] for name in ("stationarity", "feasibility", "concave_gap"))
    return bool(worst < tol and record["outer"])


def _iterate(objective: Objective, state: State, n_iter: int, tol: float) -> Record:
    """Make one iteration in place, and return its record."""
    problem, mu, lam, W_old = objective.problem, state.mu, objective.lam, state.W
    right = problem.targets + state.high_rank + mu * (state.XZ - state.XU)
    W = state.W = state.step(right, mu, W_old)
    if not math.isfinite(norm(W)):
        raise FloatingPointError(_UNBOUNDED_MESSAGE)
    scores = problem.label_scores(W)
    loss, gradient = problem.loss_and_gradient(W)
    gradient += objective.ridge_gradient(W)
    # A linear function may lie this much above the term where it touches it, so that tiny singular
    # values turn it less, see `inverse_root_of_gram`.
    level = min(tol, LOOSEST)
    slack = STALE / 2 * level * abs(state.outer["objective"]) / lam
    scores_norm, high_rank = objective.high_rank_term(W, slack=slack)
    terms = objective.fit_terms(W, loss)
    residuals, sums = _split(objective, state, n_iter, tol, scores, gradient, terms)
    worst, linear, dual = state.worst, sums[1], math.sqrt(sums[2])

    # Multipliers are lam times matrices of norm 1 at most, so this is below the objective.
    label_norms = mu * sums[0] / lam
    known: Any = {"fit": sums[3:], "scores_norm": scores_norm}
    least = objective.parts(W, label_norms=label_norms, **known)["objective"]
    scale = abs(least) + lam * scores_norm + 1e-300
    # How far the linear function lies above the concave term, relative to the objective.
    gap = max(lam * scores_norm - linear, 0.0) / scale
    followed = math.isfinite(state.follow_below)
    follows = tol > 0 and _follows(state, n_iter, worst)
    # Not at once where following has just upset the residuals.
    replaceable = not (follows or followed)
    stale = tol == 0 or (replaceable and gap > STALE * max(level, STALE_RESIDUAL * worst))
    ends = max(worst, gap) < tol
    rise = (STALE * level if ends else ROUNDING) * scale
    outer = False
    if stale:
        _check(objective, state)
    if stale or ends:
        highest = math.inf if follows else state.outer["objective"] + rise
        if least <= highest:
            parts = objective.parts(W, label_scores=scores, **known)
            outer = parts["objective"] <= highest
            state.outer = parts if outer else state.outer
        if not outer:
            _check(objective, state)
    if follows or (stale and outer):
        state.high_rank, state.touched, state.checked = high_rank, W, outer
    changes = {
        "change": float(namespace_of(W).max(abs(W - W_old))),
        "dual_residual": mu * dual,
    }
    return state.outer | residuals | changes | {"concave_gap": gap, "mu": mu, "outer": bool(outer)}


def _split(
    objective: Objective,
    state: State,
    n_iter: int,
    tol: float,
    scores: Matrix,
    gradient: Matrix,
    fit_terms: Sequence[float],
) -> tuple[Record, Sequence[float]]:
    """Update Z and the multipliers after a W-step, and return the residuals.

    The second result are sums over all sites of ``<W, sum_k X_k' U_k>``, ``<W, lam X'G>``, the
    squared change of ``sum_k X_k' Z_k``, and ``fit_terms``.
    """
    problem, mu, jumps = objective.problem, state.mu, n_iter == N_FIRST + 1
    XZ_old = state.XZ
    relaxation = FIRST_RELAXATION if n_iter <= N_FIRST else RELAXATION
    relaxation = 1.0 if jumps else relaxation
    # Scaled multipliers (B - Z) / divisor, and the relaxed scores.
    factors = (1 / state.divisor, 1 - relaxation - 1 / state.divisor, relaxation)
    XB = state.XU + relaxation * problem.multiply_positive_gram(state.W)
    XB += (1 - relaxation) * state.XZ
    state.threshold, state.divisor = _threshold_of(objective, mu), 1.0
    # Of small blocks, decompositions are not what takes the time.
    bases = state.bases[n_iter % 2 if n_iter <= N_FIRST else 0] if problem.large else None
    if jumps:
        state.bases[1].clear()  # not used any more
    near = state.worst >= max(SINGLE_RESIDUAL, LAST * tol) and not jumps
    accuracy = NEAR * state.worst if near else 0.0
    while True:
        state.B, state.Z, primal, size, state.exact = shrink_relaxed(
            problem, state.B, state.Z, scores, factors, state.threshold, bases, accuracy
        )
        state.XZ = problem.label_scores_transposed(state.Z)
        state.XU, moved = XB - state.XZ, state.XZ - XZ_old
        squares = objective.stationarity(gradient, mu * state.XU, state.high_rank)
        own = inner(state.W, state.XU), inner(state.W, state.high_rank), inner(moved, moved)
        sums = problem.add_up(primal * primal, size * size, *squares, *own, *fit_terms)
        primal, size = math.sqrt(sums[0]), math.sqrt(sums[1])
        if not primal + size <= SCORE_LIMIT * math.sqrt(problem.n_positives * problem.n_labels):
            raise FloatingPointError(_UNBOUNDED_MESSAGE)  # at all sites at once
        stationarity = math.sqrt(sums[2] / sums[3])
        # Labels are 1 and -1: compare with scores of that size, not with vanishing ones.
        feasibility = primal / max(size, math.sqrt(problem.n_positives))
        state.worst = max(stationarity, feasibility)
        if state.exact or not state.worst < tol:
            break
        factors, accuracy = (1.0, 0.0, 0.0), 0.0  # the same B again: certificates are exact
    residuals = {"primal_residual": primal, "feasibility": feasibility}
    return residuals | {"stationarity": stationarity}, sums[4:]


def _check(objective: Objective, state: State) -> None:
    """Make the point where the linear function touches the concave term the last outer step."""
    if not state.checked:
        state.outer, state.checked = objective.parts(state.touched), True


def _follows(state: State, n_iter: int, worst: float) -> bool:
    """Whether residuals still fall, so that the linear function may be replaced at once."""
    if n_iter <= N_FIRST + 1:
        return False
    follows = worst <= state.follow_below
    state.follow_below = worst if follows else -math.inf
    return follows


def _balance(state: State, record: Record) -> None:
    """Move mu towards equal residuals, without changing the multipliers themselves."""
    feasibility, stationarity = record["feasibility"], record["stationarity"]
    if min(feasibility, stationarity) <= 0:
        return
    factor = float(np.clip(np.sqrt(feasibility / stationarity), 1 / MU_FACTOR, MU_FACTOR))
    state.mu *= factor
    state.divisor *= factor
    state.XU /= factor


def _state_arrays(result: SolverResult) -> Arrays:
    """What `_resume_fit` needs to continue after the last complete iteration."""
    state = result.state
    if 8 * math.prod(state.B.shape) <= max(STATE_LIMIT, STATE_TIMES * result.W.nbytes):
        arrays = {name: getattr(state, name) for name in (*STATE_ARRAYS, *STATE_NUMBERS)}
        if state.exact:
            del arrays["Z"]
        for i, bases in enumerate(state.bases):
            arrays |= {f"{BASIS} {i} {group}": vectors for group, vectors in bases.items()}
    else:
        arrays = {"W": state.W, "mu": state.mu}
    arrays["history"] = np.frombuffer(json.dumps(result.history).encode(), dtype=np.uint8)
    return {name: as_numpy(value) for name, value in arrays.items()}


def _begin(
    objective: Objective, W: Matrix | None, mu: float | None, warm: Any, checkpoint: Any
) -> SolverResult:
    """What the iterations continue: the fit of a checkpoint, another fit, or a start."""
    stored = None if checkpoint is None else checkpoint.get(STATE)
    if stored is not None:
        return _resume_fit(objective, stored)
    if warm is None:
        state = _start_state(objective, W, mu)
    else:
        state = _restart_state(objective, warm.state, mu)
    return SolverResult(as_numpy(state.W), state=state)


def _resume_fit(objective: Objective, stored: Arrays) -> SolverResult:
    """The result after the last iteration that a checkpoint has, from `_state_arrays`."""
    problem, history = objective.problem, json.loads(stored["history"].tobytes())
    last = history[-1]  # also has the last outer step; its other entries are replaced
    result = SolverResult(stored["W"], history=history, stationarity=last["stationarity"])
    if "B" not in stored:
        result.state = _start_state(objective, stored["W"], float(stored["mu"]))
        return result
    values: dict[str, Any] = {name: float(stored[name]) for name in STATE_NUMBERS}
    values |= {name: problem.asarray(stored[name]) for name in STATE_ARRAYS if name in stored}
    if "Z" not in stored:
        values["Z"] = shrink_labels(problem, values["B"], values["threshold"])[0]
    bases: tuple[Bases, Bases] = ({}, {})
    for name, vectors in stored.items():
        if name.startswith(BASIS):
            i, group = map(int, name.split()[1:])
            bases[i][group] = vectors
    XZ = problem.label_scores_transposed(values["Z"])
    step = make_weight_step(problem, objective.ridge)
    result.state = State(**values, XZ=XZ, step=step, outer=last, bases=bases)
    return result


def _start_state(objective: Objective, W: Matrix | None, mu: float | None) -> State:
    """Start at W, or at the ridge solution, feasible for the splitting."""
    problem, step = objective.problem, make_weight_step(objective.problem, objective.ridge)
    mu = FIRST_MU if mu is None else mu
    if W is None:
        # Without the low-rank term, only undetermined directions need the penalty.
        start_mu = START_MU if objective.low_rank else LEAST_MU
        zero = namespace_of(problem.targets).zeros_like(problem.targets)
        W = step(problem.targets, start_mu, zero)
    else:
        W = problem.asarray(W)
    B, threshold, lam = problem.label_scores(W), _threshold_of(objective, mu), objective.lam
    Z, label_norms = shrink_labels(problem, B, threshold)
    XZ = problem.label_scores_transposed(Z)
    XU = problem.multiply_positive_gram(W) - XZ
    scores_norm, high_rank = objective.high_rank_term(W)
    outer = objective.parts(W, label_norms=label_norms, scores_norm=scores_norm)
    return State(W, B, threshold, Z, XZ, XU, mu, lam, high_rank, touched=W, outer=outer, step=step)


def _restart_state(objective: Objective, last: State, mu: float | None) -> State:
    """The state of another fit, scaled to the new lam; a start if that is lower at a new ridge."""
    scores_norm, high_rank = objective.high_rank_term(last.W)
    outer, step = objective.parts(last.W, scores_norm=scores_norm), last.step
    if step.ridge != objective.ridge:
        new = _start_state(objective, None, mu)
        if new.outer["objective"] < outer["objective"]:
            return new
        step = new.step
    mu = last.mu if mu is None else mu
    factor = objective.lam / last.lam * last.mu / mu
    state = replace(last, step=step, mu=mu, lam=objective.lam, outer=outer, high_rank=high_rank)
    state.divisor, state.XU, state.touched = last.divisor / factor, factor * last.XU, last.W
    state.worst, state.checked, state.follow_below = 0.0, True, math.inf
    # Changed in place, and still used by the other fit.
    state.B, state.Z = (namespace_of(A).asarray(A, copy=True) for A in (last.B, last.Z))
    state.bases = (dict(last.bases[0]), dict(last.bases[1]))
    return state


def _threshold_of(objective: Objective, mu: float) -> float:
    """By how much singular values are reduced; 0 without the low-rank term."""
    return objective.lam / mu if objective.low_rank else 0.0
