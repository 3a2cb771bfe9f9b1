"""Entries held out of training, and how networks are judged on them."""

import numpy as np
import torch
from numpy.typing import NDArray

from naim3l.deep.loss import NAIM3LLoss
from naim3l.held_out import deal_entries, hidden_metric
from naim3l.problem import Problem


def hide_entries(problem: Problem, share: float, rng: np.random.RandomState) -> NDArray[np.bool_]:
    """Mask of about this share of the known entries, of the shape of ``problem.Y``."""
    return deal_entries(problem, max(2, round(1 / share)), rng) == 0


class Judge:
    """Average precision of scores on hidden entries, the larger the better.

    Where no row has a positive and a negative among them, as with one label, it is the loss on
    them with its sign changed.

    Parameters
    ----------
    problem : Problem
        With the identity for features and all entries known.
    hidden : bool ndarray of the shape of ``problem.Y``
    loss : NAIM3LLoss
        Whose data term counts.
    """

    def __init__(self, problem: Problem, hidden: NDArray[np.bool_], loss: NAIM3LLoss) -> None:
        if not hidden.any():
            raise ValueError("validation: too few entries are known to hold some of them out.")
        self.problem, self.hidden = problem, hidden
        self.loss = NAIM3LLoss(0.0, data_term=loss.data_term, positive_weight=loss.positive_weight)
        truth = np.where(hidden, problem.Y > 0, np.nan)
        self._truth = torch.from_numpy(truth)
        ranked = (truth == 1).any(axis=1) & (truth == 0).any(axis=1)
        self.ranks = bool(ranked.any())

    def __call__(self, scores: NDArray[np.float64]) -> float:
        """Value of stacked scores, (n_rows, n_labels)."""
        if self.ranks:
            return hidden_metric(self.problem, self.hidden, scores, "AP")
        return -float(self.loss(torch.from_numpy(scores), self._truth)) / int(self.hidden.sum())
