"""Methods that are compared with each other, each with parameters chosen in the same way.

To add one, name it in ``RIVALS``, and its candidates in ``grids``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from naim3l import (
    NAIM3L,
    Decisions,
    Kernel,
    LabelSubspaceRidge,
    PerViewLogistic,
    PerViewRidge,
    evaluate,
)
from naim3l.estimators import FusedRidge
from naim3l.extend import AlignedModel
from naim3l_bench.candidates import compare_on_held_out
from naim3l_bench.clock import timed
from naim3l_bench.methods import (
    DM2L,
    GLOCAL,
    IMSF,
    IMVWL,
    LRMMC,
    LVSL,
    MVLIV,
    CPMNets,
    MultiGraph,
)
from naim3l_bench.trials import (
    Method,
    Outcome,
    Parameters,
    Trial,
    WideTrial,
    by_sample,
    fuse_arrays,
)

# Share of the known entries of each label that are held out to choose among candidates.
SHARE = 0.2
GUESSING = "guessing"


@dataclass(frozen=True)
class Rival:
    """A method to compare.

    Attributes
    ----------
    model : class of a model
    aligned : bool
        Whether it is given aligned rows, and has one score for all views of a sample.
    published : str
        Its name in the paper's tables; empty if it is not there.
    slow : bool
        Whether the choice and the fit on Corel5k, 3500 rows and 260 labels, take more than half a
        minute of one core.
    features : object
        What becomes of the features of a trial; None leaves them as they are.
    final : mapping of str to object
        Parameters of the final fit alone, which matter only after the choice.
    """

    model: type[Any]
    aligned: bool = False
    published: str = ""
    slow: bool = False
    features: Any = None
    final: Mapping[str, Any] = field(default_factory=dict)

    @property
    def by_choice(self) -> bool:
        """Whether it is given aligned rows without need, which the paper does not do."""
        return self.aligned and not issubclass(self.model, AlignedModel)


RIVALS: dict[str, Rival] = {
    "NAIM3L": Rival(NAIM3L, published="NAIM3L"),
    "NAIM3L-tuned": Rival(NAIM3L, slow=True),
    "PerViewRidge": Rival(PerViewRidge),
    "LabelSubspaceRidge": Rival(LabelSubspaceRidge),
    "PerViewLogistic": Rival(PerViewLogistic, slow=True),
    "IMVWL": Rival(IMVWL, aligned=True, published="iMVWL", slow=True),
    "LRMMC": Rival(LRMMC, aligned=True, published="lrMMC", slow=True),
    "MVLIV": Rival(MVLIV, aligned=True, published="MVL-IV", slow=True),
    "CPMNets": Rival(CPMNets, aligned=True, slow=True),
    "MultiGraph": Rival(MultiGraph, aligned=True, published="LabelMe"),
    "IMSF": Rival(IMSF, aligned=True, published="iMSF", slow=True),
    "LVSL": Rival(LVSL, aligned=True, slow=True, features=Kernel("rbf", recipe=None)),
    "FusedRidge": Rival(FusedRidge, aligned=True),
    "DM2L": Rival(DM2L, aligned=True, slow=True),
    "GLOCAL": Rival(GLOCAL, aligned=True, slow=True),
    "NAIM3L-aligned": Rival(NAIM3L, aligned=True, slow=True),
    "NAIM3L-evidence": Rival(
        NAIM3L, aligned=True, slow=True, final={"decide": Decisions("sign", True, "evidence")}
    ),
}


def method_name(rival: str) -> str:
    """Name of a rival's method in ``methods.METHODS``."""
    return f"compare {rival}"


def run_rival(name: str, trial: Trial, parameters: Parameters, seed: int) -> Outcome:
    """Choose among ``parameters["candidates"]``, and fit the best on all entries."""
    try:
        if RIVALS[name].aligned:
            return _run_aligned(RIVALS[name], trial, parameters["candidates"], seed)
        return _run_per_view(RIVALS[name], trial, parameters["candidates"], seed)
    except (FloatingPointError, ValueError, MemoryError) as error:
        raise ValueError(f"{name}: {error}") from error


def _run_per_view(rival: Rival, trial: Trial, candidates: Any, seed: int) -> Outcome:
    model, numbers = choose_and_fit(rival, candidates, trial.X_train, trial.Y_train, seed)
    return _per_view_outcome(trial, model.decision_function(trial.X_test), numbers)


def _per_view_outcome(trial: Trial, scores: dict[str, Any], numbers: dict[str, Any]) -> Outcome:
    fused = evaluate(trial.truth, fuse_arrays(by_sample(trial, scores)))
    return Outcome(scores, numbers, metrics={"all views": fused})


def _run_aligned(rival: Rival, trial: Trial, candidates: Any, seed: int) -> Outcome:
    wide = WideTrial.of(trial)
    model, numbers = choose_and_fit(
        rival, candidates, wide.X_train, wide.Y_train, seed, views=wide.views
    )
    metrics: dict[str, Any] = {
        "all views": evaluate(trial.truth, model.decision_function(wide.X_test)),
        "fused": None,
    }
    if wide.X_shown is not None:
        S = model.decision_function(wide.X_shown)
        metrics["fused"] = evaluate(trial.truth, S, protocol="fused")
    return Outcome({}, numbers, metrics=metrics)


def choose_and_fit(
    rival: Rival, candidates: Any, X: Any, Y: Any, seed: int, **options: Any
) -> tuple[Any, dict[str, Any]]:
    """The model with the best candidate, fitted on all entries, and numbers about it.

    This is the choice of every method: each candidate is fitted to the training rows without a
    fifth of the known entries, the same for all candidates, and measured by AP on these entries.

    Parameters
    ----------
    rival : Rival
    candidates : sequence of mappings of str to object
        Parameters to choose from.
    X, Y : mappings of str to ndarray, or ndarrays
        Training rows and labels, of separate tables or a wide one.
    seed : int
        Of the held-out entries, and of the models.
    **options : object
        Further parameters of the models.
    """
    # By sign, which needs no held-out rows.
    options |= {"features": rival.features, "random_state": seed, "decide": "sign"}
    best, held_out, choice_seconds = 0, list[float](), 0.0
    if len(candidates) > 1:
        models = [rival.model(**options, **candidate) for candidate in candidates]
        (best, held_out), choice_seconds = timed(
            compare_on_held_out, models, X, Y, share=SHARE, metric="AP", random_state=seed
        )
    model = rival.model(**options | candidates[best] | rival.final)
    _, fit_seconds = timed(model.fit, X, Y)
    return model, {
        "chosen": dict(candidates[best]),
        "held_out": held_out,
        "choice_seconds": choice_seconds,
        "fit_seconds": fit_seconds,
        "n_iter": getattr(model, "n_iter_", None),
        "converged": getattr(model, "converged_", True),
    }


def guess(trial: Trial, parameters: Parameters, seed: int) -> Outcome:
    """Each label's share of positives as its score in all rows, greater than 0 if above one half.

    Shares are of the known entries of a view, with one more of each value.
    """
    scores = {}
    for view, Y in trial.Y_train.items():
        n_yes, n_no = (Y == 1).sum(axis=0), (Y == 0).sum(axis=0)
        rates = (n_yes - n_no) / (n_yes + n_no + 2)
        scores[view] = np.tile(rates, (len(trial.X_test[view]), 1))
    return _per_view_outcome(trial, scores, {})


RIVAL_METHODS: dict[str, Method] = {
    method_name(GUESSING): guess,
    **{method_name(name): partial(run_rival, name) for name in RIVALS},
}
