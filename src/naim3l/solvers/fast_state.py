"""State of solver "fast": its start, another fit's, and its part of a checkpoint."""

import json
import math
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from naim3l._arrays import Matrix, as_numpy, namespace_of
from naim3l.files.checkpoint import Arrays
from naim3l.solvers.objective import Objective, ObjectiveParts
from naim3l.solvers.result import SolverResult
from naim3l.solvers.thresholding import Bases, shrink_labels
from naim3l.solvers.weights import WeightStep, make_weight_step

FIRST_MU = 0.5
# The start minimises the loss plus the penalty with this mu and Z = 0.
START_MU = 0.005
LEAST_MU = 1e-8
# Fields of the state in a checkpoint.
STATE_ARRAYS = ("W", "B", "XU", "high_rank", "touched")
STATE_NUMBERS = ("threshold", "divisor", "mu", "lam", "worst", "exact", "checked", "follow_below")
# The multipliers have a block for every label. Where they take more than this many bytes, and more
# than this many times the size of the weights, a checkpoint stores only the weights. Where Z is not
# exact, it and the bases take up to twice as much again.
STATE_LIMIT, STATE_TIMES = 2**25, 8
BASIS = "basis"  # begins the names of singular vectors, of which each group of labels has some


@dataclass
class State:
    """Iterates of the splitting, and the linearisation that they minimise.

    The multipliers divided by mu are ``U = (B - Z) / divisor``. An exact Z follows from B, so that
    a checkpoint stores only B. Both have a block for every label, of up to the size of W.
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
    high_rank: Matrix  # lam X'G, with G where the concave term was linearised last
    touched: Matrix  # those weights
    outer: ObjectiveParts  # at the last outer step
    step: WeightStep
    # Singular vectors for thresholding. Over-relaxed iterates alternate, so that those of two
    # iterations ago are nearer than the last ones.
    bases: tuple[Bases, Bases] = field(default_factory=lambda: ({}, {}))
    exact: bool = True  # whether Z is
    worst: float = 0.0  # larger residual of the last iteration
    checked: bool = True  # whether these are weights of that step
    follow_below: float = math.inf  # residual below which every iteration linearises anew


def state_arrays(result: SolverResult) -> Arrays:
    """What `resume_fit` needs to continue after the last complete iteration."""
    state = result.state
    whole = 8 * math.prod(state.B.shape) <= max(STATE_LIMIT, STATE_TIMES * result.W.nbytes)
    names = (*STATE_ARRAYS, *STATE_NUMBERS) if whole else ("W", "mu")
    arrays = {name: getattr(state, name) for name in names}
    if whole and not state.exact:
        arrays["Z"] = state.Z
    if whole:
        for i, bases in enumerate(state.bases):
            arrays |= {f"{BASIS} {i} {group}": vectors for group, vectors in bases.items()}
    arrays["history"] = np.frombuffer(json.dumps(result.history).encode(), dtype=np.uint8)
    return {name: as_numpy(value) for name, value in arrays.items()}


def resume_fit(objective: Objective, stored: Arrays) -> SolverResult:
    """The result after the last iteration that a checkpoint has, from `state_arrays`."""
    history = json.loads(stored["history"].tobytes())
    last = history[-1]["stationarity"]
    if "B" not in stored:
        state = start_state(objective, stored["W"], float(stored["mu"]))
        return SolverResult(stored["W"], history=history, stationarity=last, state=state)
    problem = objective.problem
    values: dict[str, Any] = {name: problem.asarray(stored[name]) for name in STATE_ARRAYS}
    values |= {name: float(stored[name]) for name in STATE_NUMBERS}
    bases: tuple[Bases, Bases] = ({}, {})
    for name, vectors in stored.items():
        if name.startswith(BASIS):
            i, group = map(int, name.split()[1:])
            bases[i][group] = vectors
    if "Z" in stored:
        Z = problem.asarray(stored["Z"])
    else:
        Z = shrink_labels(problem, values["B"], values["threshold"])[0]
    XZ = problem.label_scores_transposed(Z)
    step = make_weight_step(problem, objective.ridge)
    outer = ObjectiveParts(*(history[-1][field.name] for field in fields(ObjectiveParts)))
    state = State(**values, Z=Z, XZ=XZ, step=step, outer=outer, bases=bases)
    return SolverResult(stored["W"], history=history, stationarity=last, state=state)


def start_state(objective: Objective, W: Matrix | None, mu: float | None) -> State:
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
    scores, threshold = problem.label_scores(W), threshold_of(objective, mu)
    Z, label_norms = shrink_labels(problem, scores, threshold)
    XZ = problem.label_scores_transposed(Z)
    scores_norm, high_rank = objective.high_rank_term(W)
    return State(
        W=W,
        B=scores,
        threshold=threshold,
        Z=Z,
        divisor=1.0,
        XZ=XZ,
        XU=problem.multiply_positive_gram(W) - XZ,
        mu=mu,
        lam=objective.lam,
        high_rank=high_rank,
        touched=W,
        outer=objective.parts(W, label_norms=label_norms, scores_norm=scores_norm),
        step=step,
    )


def restart_state(objective: Objective, last: State, mu: float | None) -> State:
    """The state of another fit, its multipliers scaled to the new lam.

    At another ridge, a new start is taken instead if the objective is lower there.
    """
    scores_norm, high_rank = objective.high_rank_term(last.W)
    outer = objective.parts(last.W, scores_norm=scores_norm)
    step = last.step
    if step.ridge != objective.ridge:
        new = start_state(objective, None, mu)
        if new.outer.total < outer.total:
            return new
        step = new.step
    mu = last.mu if mu is None else mu
    factor = objective.lam / last.lam * last.mu / mu
    return replace(
        last,
        step=step,
        bases=(dict(last.bases[0]), dict(last.bases[1])),
        worst=0.0,
        follow_below=math.inf,
        # Changed in place, and still used by the other fit.
        B=namespace_of(last.B).asarray(last.B, copy=True),
        Z=namespace_of(last.Z).asarray(last.Z, copy=True),
        divisor=last.divisor / factor,
        XU=factor * last.XU,
        mu=mu,
        lam=objective.lam,
        high_rank=high_rank,
        touched=last.W,
        checked=True,
        outer=outer,
    )


def threshold_of(objective: Objective, mu: float) -> float:
    """By how much singular values are reduced; 0 without the low-rank term."""
    return objective.lam / mu if objective.low_rank else 0.0
