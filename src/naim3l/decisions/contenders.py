"""What a model answers about rows with known labels, beside what simpler methods answer."""

from dataclasses import dataclass

import numpy as np

from naim3l._arrays import Mask, Matrix
from naim3l.decisions.calibration import Calibration


@dataclass(frozen=True)
class Answers:
    """Scores, decisions and probabilities of a method for rows.

    Attributes
    ----------
    scores : ndarray of shape (n_rows, n_labels)
    margins : ndarray of shape (n_rows, n_labels)
        How far the scores are above the thresholds: positive where the answer is yes.
    probabilities : ndarray of shape (n_rows, n_labels), or None
        None if the method has none.
    """

    scores: Matrix
    margins: Matrix
    probabilities: Matrix | None = None

    @classmethod
    def decided(
        cls, scores: Matrix, thresholds: Matrix, curve: Calibration | None = None
    ) -> "Answers":
        """Answers of scores by thresholds (n_labels,), with the probabilities of a curve."""
        probabilities = None if curve is None else curve.probabilities(scores)
        return cls(scores, scores - thresholds, probabilities)

    def take(self, rows: Mask) -> "Answers":
        """The answers about some of the rows."""
        probabilities = None if self.probabilities is None else self.probabilities[rows]
        return Answers(self.scores[rows], self.margins[rows], probabilities)

    def beside(self, other: "Answers") -> "Answers":
        """These answers, and those of another for the entries that these lack (NaN)."""
        probabilities = None
        if self.probabilities is not None and other.probabilities is not None:
            probabilities = _filled(self.probabilities, other.probabilities)
        return Answers(
            _filled(self.scores, other.scores),
            _filled(self.margins, other.margins),
            probabilities,
        )


@dataclass(frozen=True)
class Judged:
    """Rows with known labels, and the answers of a model and of simpler methods.

    Attributes
    ----------
    name : str
        Name of the view, or "fused".
    kind : {"view", "fused"}
    truth : ndarray of shape (n_rows, n_labels)
        1, 0, NaN = unknown.
    model, guessing : Answers
    uncoupled : Answers or None
        The same model without a coupling of the views; None if it was not fitted.
    decided : bool
        Whether the model decides on these scores. It does not on those of single views if its
        decisions are based on fused scores.
    """

    name: str
    kind: str
    truth: Matrix
    model: Answers
    guessing: Answers
    uncoupled: Answers | None = None
    decided: bool = True


def guess(rates: Matrix, n_rows: int) -> Answers:
    """Answers that depend on the frequency of each label alone.

    The decision is the more frequent value of the label.

    Parameters
    ----------
    rates : ndarray of shape (n_labels,)
        Share of positives of each label.
    n_rows : int
    """
    scores = np.broadcast_to(rates, (n_rows, len(rates)))
    return Answers(scores, scores - 0.5, scores)


def _filled(values: Matrix, other: Matrix) -> Matrix:
    return np.where(np.isnan(values), other, values)
