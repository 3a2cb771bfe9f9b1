"""Solver "fast": a splitting with an exact W-step, few iterations, and a certificate."""

import json
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from naim3l._arrays import Matrix, as_numpy, inner, namespace_of, norm
from naim3l.files.checkpoint import Arrays, Checkpoint
from naim3l.problem.blocks import one_blas_thread
from naim3l.problem.choice import choose_form
from naim3l.solvers.nuclear import shrink_labels
from naim3l.solvers.objective import Objective
from naim3l.solvers.result import Callback, Record, SolverResult
from naim3l.solvers.weights import WeightStep, make_weight_step

FIRST_MU = 0.5
# Strong over-relaxation helps while the multipliers are far off, but with it feasibility shrinks at
# best by the factor |1 - relaxation| per iteration.
FIRST_RELAXATION, RELAXATION = 1.9, 1.3
N_FIRST = 6
# The start minimises the loss plus the penalty with this mu and Z = 0.
START_MU = 0.005
LEAST_MU = 1e-8
# mu follows the ratio of the residuals, by at most this factor per iteration, ...
MU_FACTOR = 1.2
# ... and stays fixed after this many iterations, so that convergence is that of a fixed mu.
MU_REST = 60
ROUNDING = 1e-12
# Name of the solver's part of a checkpoint, and the fields of the state in it.
PART = "solver"
STATE_ARRAYS = ("W", "B", "XU", "high_rank")
STATE_NUMBERS = ("threshold", "divisor", "mu", "lam", "outer_objective")
# The multipliers have a block for every label. Where they take more than this many bytes, and more
# than this many times the size of the weights, a checkpoint stores only the weights.
STATE_LIMIT, STATE_TIMES = 2**25, 8
# Labels are 1 and -1; scores beyond this mean that the objective is unbounded below.
SCORE_LIMIT = 1e6
_UNBOUNDED_MESSAGE = (
    "solver 'fast': the objective falls without bound. Rows without an observed positive are "
    "rewarded for high rank, and here nothing limits them: use ridge='auto' or a larger ridge, "
    "lower lam, or use high_rank=False."
)


@dataclass
class _State:
    """Iterates of the splitting, and the linearisation that they minimise.

    The multipliers divided by mu are ``U = (B - Z) / divisor``. Z follows from B, so a checkpoint
    stores only B. It has a block for every label, of up to the size of W.
    """

    W: Matrix  # (n_weights, n_labels)
    B: Matrix  # the last input of the thresholding, (n_positives, n_labels)
    threshold: float  # of the last thresholding
    Z: Matrix  # its output
    divisor: float  # factor by which mu has grown since
    XZ: Matrix  # sum_k X_k' Z_k, (n_weights, n_labels)
    XU: Matrix  # sum_k X_k' U_k, updated rather than recomputed
    mu: float
    lam: float
    high_rank: Matrix  # lam X'G, G a sub-gradient at the last outer step
    outer_objective: float  # at the last outer step
    step: WeightStep


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
    checkpoint: Checkpoint | None = None,
) -> SolverResult:
    """Weights at which the objective is stationary, started at ``W`` or at a ridge solution.

    The concave term is linearised at an outer step, and the remaining convex problem is solved by
    the splitting ``Z_k = X_k W``. As soon as the true objective is lower than at the last outer
    step, the iterate becomes the next outer step. So the objective never rises from one outer step
    to the next. Because the linearisation bounds the objective from above, a next outer step is
    always found unless the last one was stationary.

    Parameters
    ----------
    objective : Objective
    W : ndarray of shape (n_weights, n_labels), optional
    mu : float, optional
        Penalty of the splitting. By default it is adapted.
    max_iter : int
    tol : float
        Stop at an outer step where the relative stationarity residual, the relative feasibility
        residual and the relative gap of the linearisation are all below it; 0 runs all iterations.
    callback : callable, optional
        Called with the record of each iteration.
    form : {"auto", "rows", "compressed"}
        What the loop works on: the rows, or statistics computed in one pass, after which the cost
        of an iteration does not depend on the number of rows. By default the cheaper form is used.
    warm : SolverResult, optional
        A result for the same problem, in the form that the loop works on, at another ``lam`` or
        ridge. Its weights, multipliers and mu are reused instead of ``W``, and at the same ridge
        its factorisation of the W-step. At another ridge the ridge solution is used if the
        objective is lower there.
    checkpoint : Checkpoint, optional
        Stores the state from time to time. If it contains a state, the iterations resume there and
        end at the same weights as an uninterrupted fit. If the state is too large (see
        ``STATE_LIMIT``), only the weights are stored: a resumed fit starts from them and reaches
        the same tolerances, but not bit-for-bit the same weights.

    Returns
    -------
    SolverResult

    Raises
    ------
    FloatingPointError
        If the objective falls without bound.
    """
    objective = replace(objective, problem=choose_form(objective.problem, form))
    return _solve(objective, W, mu, max_iter, tol, callback, warm, checkpoint)


@one_blas_thread
def _solve(
    objective: Objective,
    W: Matrix | None,
    mu: float | None,
    max_iter: int,
    tol: float,
    callback: Callback | None,
    warm: SolverResult | None,
    checkpoint: Checkpoint | None,
) -> SolverResult:
    stored = None if checkpoint is None else checkpoint.get(PART)
    if stored is not None:
        result = _resume(objective, stored)
    else:
        state = _start(objective, W, mu) if warm is None else _restart(objective, warm.state, mu)
        result = SolverResult(as_numpy(state.W), state=state)
    state = result.state
    result.converged = bool(result.history) and _is_converged(result.history[-1], tol)
    if result.converged:  # a finished fit, whose model was not saved
        return result
    try:
        for n_iter in range(result.n_iter + 1, max_iter + 1):
            relaxation = FIRST_RELAXATION if n_iter <= N_FIRST else RELAXATION
            record = _iterate(objective, state, relaxation)
            result.W, result.stationarity = as_numpy(state.W), record["stationarity"]
            result.converged = _is_converged(record, tol)
            result.history.append(record)
            if callback is not None:
                callback(record, result.W)
            if result.converged:
                break
            if mu is None and n_iter <= MU_REST:
                _balance(state, record)
            if checkpoint is not None:
                checkpoint.offer(PART, lambda: _arrays(result))
        if checkpoint is not None:
            checkpoint.put(PART, _arrays(result))
    except KeyboardInterrupt:
        result.interrupted = True
    return result


def _is_converged(record: Record, tol: float) -> bool:
    worst = max(record[name] for name in ("stationarity", "feasibility", "concave_gap"))
    return bool(worst < tol and record["outer"])


def _arrays(result: SolverResult) -> Arrays:
    """What `_resume` needs to continue after the last complete iteration."""
    state = result.state
    whole = 8 * math.prod(state.B.shape) <= max(STATE_LIMIT, STATE_TIMES * result.W.nbytes)
    names = (*STATE_ARRAYS, *STATE_NUMBERS) if whole else ("W", "mu")
    arrays = {name: getattr(state, name) for name in names}
    arrays["history"] = np.frombuffer(json.dumps(result.history).encode(), dtype=np.uint8)
    return {name: as_numpy(value) for name, value in arrays.items()}


def _resume(objective: Objective, stored: Arrays) -> SolverResult:
    history = json.loads(stored["history"].tobytes())
    last = history[-1]["stationarity"]
    if "B" not in stored:
        state = _start(objective, stored["W"], float(stored["mu"]))
        return SolverResult(stored["W"], history=history, stationarity=last, state=state)
    problem = objective.problem
    fields: dict[str, Any] = {name: problem.asarray(stored[name]) for name in STATE_ARRAYS}
    fields |= {name: float(stored[name]) for name in STATE_NUMBERS}
    Z = shrink_labels(problem, fields["B"], fields["threshold"])
    XZ = problem.label_scores_transposed(Z)
    step = make_weight_step(problem, objective.ridge)
    state = _State(**fields, Z=Z, XZ=XZ, step=step)
    return SolverResult(stored["W"], history=history, stationarity=last, state=state)


def _start(objective: Objective, W: Matrix | None, mu: float | None) -> _State:
    """A primal-dual pair that is feasible for the splitting."""
    problem = objective.problem
    step = make_weight_step(problem, objective.ridge)
    mu = FIRST_MU if mu is None else mu
    if W is None:
        # Without the low-rank term, only undetermined directions need the penalty.
        start_mu = START_MU if objective.low_rank else LEAST_MU
        zero = namespace_of(problem.targets).zeros_like(problem.targets)
        W = step(problem.targets, start_mu, zero)
    else:
        W = problem.asarray(W)
    scores, threshold = problem.label_scores(W), _threshold(objective, mu)
    Z = shrink_labels(problem, scores, threshold)
    scores_norm, high_rank = objective.high_rank_term(W)
    return _State(
        W=W,
        B=scores,
        threshold=threshold,
        Z=Z,
        divisor=1.0,
        XZ=problem.label_scores_transposed(Z),
        XU=problem.label_scores_transposed(scores - Z),
        mu=mu,
        lam=objective.lam,
        high_rank=high_rank,
        outer_objective=objective.parts(W, label_scores=scores, scores_norm=scores_norm).total,
        step=step,
    )


def _restart(objective: Objective, last: _State, mu: float | None) -> _State:
    """The state of another fit, its multipliers scaled to the new lam.

    At another ridge, a new start is taken instead if the objective is lower there.
    """
    scores_norm, high_rank = objective.high_rank_term(last.W)
    outer_objective = objective.parts(last.W, scores_norm=scores_norm).total
    step = last.step
    if step.ridge != objective.ridge:
        start = _start(objective, None, mu)
        if start.outer_objective < outer_objective:
            return start
        step = start.step
    mu = last.mu if mu is None else mu
    factor = objective.lam / last.lam * last.mu / mu
    return replace(
        last,
        step=step,
        # Changed in place, and still used by the other fit.
        B=namespace_of(last.B).asarray(last.B, copy=True),
        divisor=last.divisor / factor,
        XU=factor * last.XU,
        mu=mu,
        lam=objective.lam,
        high_rank=high_rank,
        outer_objective=outer_objective,
    )


def _iterate(objective: Objective, state: _State, relaxation: float) -> Record:
    """Make one iteration in place, and return its record."""
    problem, mu = objective.problem, state.mu
    W_old, XZ_old = state.W, state.XZ
    right = problem.targets + state.high_rank + mu * (state.XZ - state.XU)
    W = state.W = state.step(right, mu, W_old)
    scores = problem.label_scores(W)
    if not norm(scores) <= SCORE_LIMIT * math.sqrt(math.prod(scores.shape)):
        raise FloatingPointError(_UNBOUNDED_MESSAGE)
    # Scaled multipliers (B - Z) / divisor, and the relaxed scores; in few passes over large arrays.
    B = state.B
    B *= 1 / state.divisor
    B += relaxation * scores
    B += (1 - relaxation - 1 / state.divisor) * state.Z
    state.XU += relaxation * problem.multiply_positive_gram(W) + (1 - relaxation) * state.XZ
    state.threshold, state.divisor = _threshold(objective, mu), 1.0
    state.Z = shrink_labels(problem, B, state.threshold)
    state.XZ = problem.label_scores_transposed(state.Z)
    state.XU -= state.XZ

    scores_norm, high_rank = objective.high_rank_term(W)
    loss, gradient = problem.loss_and_gradient(W)
    gradient += objective.ridge_gradient(W)
    parts = objective.parts(W, loss=loss, label_scores=scores, scores_norm=scores_norm)
    stationarity = objective.stationarity(gradient, mu * state.XU, state.high_rank)
    scores -= state.Z
    primal = norm(scores)
    # Labels are 1 and -1: compare with scores of that size, not with vanishing ones.
    size = max(norm(state.Z), math.sqrt(problem.n_observed_positives))
    # How far the linearisation lies above the concave term, relative to the objective.
    gap = objective.lam * scores_norm - inner(W, state.high_rank)
    scale = abs(parts.total) + objective.lam * scores_norm + 1e-300
    outer = parts.total <= state.outer_objective + ROUNDING * scale
    if outer:
        state.high_rank, state.outer_objective = high_rank, parts.total
    return parts.as_record() | {
        "change": float(namespace_of(W).max(abs(W - W_old))),
        "primal_residual": primal,
        "dual_residual": mu * norm(state.XZ - XZ_old),
        "stationarity": stationarity,
        "feasibility": primal / size,
        "concave_gap": max(gap, 0.0) / scale,
        "mu": mu,
        "outer": bool(outer),
    }


def _threshold(objective: Objective, mu: float) -> float:
    return objective.lam / mu if objective.low_rank else 0.0


def _balance(state: _State, record: Record) -> None:
    """Move mu towards equal residuals, without changing the multipliers themselves."""
    feasibility, stationarity = record["feasibility"], record["stationarity"]
    if min(feasibility, stationarity) <= 0:
        return
    factor = float(np.clip(np.sqrt(feasibility / stationarity), 1 / MU_FACTOR, MU_FACTOR))
    state.mu *= factor
    state.divisor *= factor
    state.XU /= factor
