"""Entries held out of training, and the loss of networks on them."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from naim3l.decisions.held_out import hold_out_folds
from naim3l.deep.loss import NAIM3LLoss
from naim3l.problem.rows import Problem

# Number of parts of the known entries, of which some are held out: shares are accurate to 0.1 %.
N_PARTS = 1000


def hold_out_validation(
    problem: Problem, share: float, rng: np.random.RandomState
) -> NDArray[np.bool_]:
    """Mask of the known entries to judge networks on, of the shape of ``problem.Y``.

    At least one entry is held out if possible. With a share of at most 0.5, no two consecutive
    entries are held out, so no label loses all its positives.
    """
    part_of, n_parts = hold_out_folds(problem, N_PARTS, rng), max(1, round(share * N_PARTS))
    # The parts are evenly spaced. Entries of a label are in consecutive parts, so holding out the
    # first parts would take all entries of some labels and none of others.
    hidden = (part_of >= 0) & (part_of * n_parts % N_PARTS < n_parts)
    if not hidden.any():
        raise ValueError(
            f"validation={share:g}: too few labels are known to hold some of them out."
        )
    return hidden


def as_scores(problem: Problem) -> Problem:
    """The labels of a problem with the identity as features, so that weights are scores."""
    sizes = [rows.stop - rows.start for rows in problem.row_slices]
    identity = [sparse.eye_array(n, format="csr") for n in sizes]
    return Problem(identity, [problem.Y], fit_intercept=False, samples=problem.samples)


class Judge:
    """Mean loss of scores on hidden entries; smaller is better.

    It is the data term alone: most rows have at most one hidden entry, so a ranking metric would be
    too noisy to choose an epoch.

    Parameters
    ----------
    Y : ndarray of shape (n_rows, n_labels)
        Labels of the rows of all views: 1 = yes, -1 = no, 0 = unknown.
    hidden : bool ndarray of the shape of ``Y``
        Hidden entries, at least one of which is known.
    loss : NAIM3LLoss
        Loss whose data term is used.
    """

    def __init__(
        self, Y: NDArray[np.floating], hidden: NDArray[np.bool_], loss: NAIM3LLoss
    ) -> None:
        self._truth = torch.from_numpy(np.where(hidden, Y > 0, np.nan))
        self._n_hidden = int(hidden.sum())
        self._loss = loss

    def __call__(self, scores: NDArray[np.float64]) -> float:
        """Loss of stacked scores, (n_rows, n_labels)."""
        A = torch.from_numpy(scores)
        return float(self._loss.data_loss(A, self._truth)) / self._n_hidden
