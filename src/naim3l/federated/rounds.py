"""NAIM3L in rounds: solver "fast" at every site, with sums over views replaced by sums over sites.

Each site runs the same iterations on its own tables. What views share in one fit, sites exchange:
upper triangles of Gram matrices of their scores, a few numbers, and no weight, row or residual. All
sites get the same answers, decide alike, and end with the weights of one fit to all tables.

A transport provides a single function, `Exchange`. In turn it asks for the sums of named arrays of
all sites, and `answer` is what the coordinator makes of them; it needs no data and keeps no state.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from naim3l._arrays import Arrays, Matrix
from naim3l._text import some
from naim3l._warnings import warn_user
from naim3l.decisions.rules import Decisions
from naim3l.estimators.naim3l import NAIM3L, CoupledModel
from naim3l.estimators.naim3l_cv import NAIM3LCV
from naim3l.federated.secure import reveal
from naim3l.federated.shares import (
    MINIMUM_COUNT,
    Elsewhere,
    fit_at_site,
    read_site,
    symmetric,
    triangles,
)
from naim3l.files.checkpoint import fingerprint
from naim3l.problem.cost_model import choose_form
from naim3l.problem.statistics_problem import StatisticsProblem
from naim3l.solvers.nuclear import threshold_of_gram
from naim3l.solvers.thresholding import shrink_labels, shrink_relaxed, sum_trace_norms

SHRINK, THE_END = "shrinkage", "the end"
# Parameters that all sites must have alike.
AGREED = ("variant", "positive_weight", "fit_intercept", "max_iter", "tol")
OF_MODEL: dict[type, tuple[str, ...]] = {
    NAIM3L: ("lam", "ridge", "mu"),
    NAIM3LCV: ("lams", "ridges", "cv", "metric"),
}


class Ask(NamedTuple):
    """What all sites ask for at the same time, about the arrays that they send with it."""

    what: str  # `SHRINK`, or the sum of something
    threshold: float = 0.0


Exchange = Callable[[Ask, Arrays], Arrays]


def answer(asks: Mapping[str, Ask], sent: Mapping[str, Arrays]) -> Arrays:
    """What a coordinator returns to all sites, given what each asks for and sends.

    Sums of arrays of one name; or, for `SHRINK`, what multiplies the scores of each label, and
    the sum of the trace norms of these.
    """
    first, *others = sorted(asks)
    ask, arrays = asks[first], [sent[site] for site in sorted(sent)]
    for site in others:
        if asks[site] != ask:
            raise ValueError(
                f"sites {first!r} and {site!r} are not at the same step: they ask for {ask.what} "
                f"and {asks[site].what}. All need the same labels and parameters."
            )
    sums = {name: reveal(np.sum([of[name] for of in arrays], axis=0)) for name in arrays[0]}
    if ask.what != SHRINK:
        return sums
    T, norms = threshold_of_gram(symmetric(sums["grams"]), ask.threshold)
    return {"shrinkage": triangles(T), "norm": np.array(norms.sum())}


class SiteProblem(StatisticsProblem):
    """Statistics of the own tables, which ask for the sums of all sites where views share some."""

    gram_roots = None  # weights of all sites may be more than labels

    def __init__(self, own: StatisticsProblem, exchange: Exchange) -> None:
        super().__init__(own.views, fit_intercept=own.fit_intercept, rows=own.rows)
        self.rotations, self.exchange = own.rotations, exchange
        heights = np.array([float(rows.stop - rows.start) for rows in self.label_slices])
        sizes = {"heights": heights, "n_positives": np.array(float(own.n_positives))}
        found = exchange(Ask("sizes"), sizes)
        self._n_positives = int(found["n_positives"])
        # Nothing is sent for labels that are nowhere positive.
        self.seen = np.flatnonzero(found["heights"])

    @property
    def n_positives(self) -> int:
        return self._n_positives

    def add_up(self, *numbers: float) -> Sequence[float]:
        found = self.exchange(Ask("numbers"), {"numbers": np.array(numbers, dtype=float)})
        return found["numbers"].tolist()

    def add_gram(self, K: Matrix) -> Matrix:
        return symmetric(self.exchange(Ask("gram"), {"gram": triangles(K)})["gram"])

    def shrink(self, A: Matrix, threshold: float) -> tuple[Matrix, float]:
        """Thresholded blocks of all labels, (n_block_rows, n_labels), and trace norms of all."""
        blocks = [A[self.label_slices[k]] for k in self.seen]
        grams = np.array([block.T @ block for block in blocks])
        found = self.exchange(Ask(SHRINK, threshold), {"grams": triangles(grams)})
        Z, shrinkage = np.zeros_like(A), symmetric(found["shrinkage"])
        for k, block, T in zip(self.seen, blocks, shrinkage, strict=True):
            Z[self.label_slices[k]] = block @ T
        return Z, float(found["norm"])


@shrink_labels.register
def _(problem: SiteProblem, A: Matrix, threshold: float) -> tuple[Matrix, float | None]:
    return problem.shrink(A, threshold) if threshold else (A.copy(), None)


@shrink_relaxed.register
def _(
    problem: SiteProblem, B: Any, Z: Any, scores: Matrix, factors: Any, threshold: Any, *_: Any
) -> tuple[Matrix, Matrix, float, float, bool]:
    B = factors[0] * B + factors[1] * Z + factors[2] * scores
    Z = shrink_labels(problem, B, threshold)[0]
    return B, Z, float(np.linalg.norm(scores - Z)), float(np.linalg.norm(Z)), True


@sum_trace_norms.register
def _(problem: SiteProblem, A: Matrix) -> float:
    return problem.shrink(A, 0.0)[1]


class InRounds(Elsewhere):
    """A site that asks for sums while it fits; ``own`` is the problem with all of its labels."""

    def __init__(self, labels: Any, left_out: Any, exchange: Exchange, own: Any) -> None:
        super().__init__(labels, left_out)
        self.exchange, self.own = exchange, own

    def settle(self, problem: Any) -> None:
        own = problem.label_counts.sum(axis=1)
        total = self.exchange(Ask("counts"), {"counts": own.astype(float)})["counts"]
        elsewhere, nowhere = np.rint(total).astype(np.int64) - own, total[1] == 0
        if nowhere.any():
            warn_user(
                f"labels {some(np.array(self.labels)[nowhere].tolist())} take part at no site, and "
                "each site learns them from its own rows alone: leave them out of the study, or "
                "lower the minimum count."
            )
            if self.left_out:
                elsewhere[:, nowhere] = self.own.label_counts.sum(axis=1)[:, nowhere]
        problem.settle(elsewhere)

    def complete(self, W: Matrix, ridge: float) -> Matrix:
        """Weights in which labels that are left out here have those of ridge regression."""
        if not self.left_out:
            return W
        left_out = np.isin(np.array(self.labels), self.left_out)
        # Few rows need some ridge, also where the sites together need none.
        alone = self.own.rotated().whole.ridge_solutions([max(ridge, 1.0)])[0]
        return np.where(left_out, alone, W)

    def add_up(self, values: Matrix) -> Matrix:
        return self.exchange(Ask("held-out sums"), {"sums": values})["sums"]

    def in_form(self, problem: Any) -> SiteProblem:
        own = choose_form(problem, "statistics")
        assert isinstance(own, StatisticsProblem)
        return SiteProblem(own, self.exchange)


def fit_in_rounds(
    X: Any,
    y: Any,
    estimator: CoupledModel,
    exchange: Exchange,
    *,
    site: str,
    labels: Sequence[str] | None = None,
    minimum_count: int = MINIMUM_COUNT,
) -> Any:
    """The model of a site, fitted at the same time as those of the others; options as for `share`.

    All parameters of the objective, the search and the solver must be those of all sites, and
    whether a rule is learned; features, the rule and random_state are the site's own. `NAIM3LCV`
    measures each pair of lam and ridge on held-out rows of every table, in folds that each site
    deals by itself, and takes the mean over the tables of all sites, which is its criterion for
    separate tables in one place; a gamma "auto" of kernels is not tuned. Labels that are too rare
    at a site are learned there by ridge regression on the own rows. ``exchange`` is called with the
    same `Ask` at all sites.
    """
    check_parameters(estimator)
    model = clone(estimator)
    [own, *_], names, left_out = read_site(model, X, y, site, labels, minimum_count)
    names_of = (*AGREED, *OF_MODEL[type(model)])
    agreed = {name: np.ravel(getattr(model, name)).tolist() for name in names_of}
    agreed["learned"] = Decisions.of(model.decide)._learn
    study = fingerprint([], {"labels": names, "parameters": agreed})[:16]
    exchange(Ask(f"study {study}"), {"sites": np.ones(1)})
    known = InRounds(names, left_out, exchange, own if left_out else None)
    fit_at_site(model, known, lambda of: of.fit(X, y))
    exchange(Ask(THE_END), {"sites": np.ones(1)})
    return model


def check_parameters(estimator: Any) -> None:
    """Refuse a model that sites cannot fit in rounds."""
    if type(estimator) not in OF_MODEL:
        raise TypeError(f"rounds are for NAIM3L and NAIM3LCV, got {type(estimator).__name__}.")
    given = estimator.get_params(deep=False)
    if given.get("ridge") == "auto":
        raise ValueError(
            'ridge must be a number: "auto" would need the rows of all sites. NAIM3LCV chooses one.'
        )
    if given.get("n_jobs") not in (None, 1):
        raise ValueError("rounds need n_jobs=None: sites fit one fold after the other.")
    if given.get("solver") == "paper" or estimator.device != "cpu" or given.get("init") is not None:
        raise ValueError(
            "rounds need solver='auto', device='cpu' and no init: weights that others know would "
            "tell them sums of columns."
        )
