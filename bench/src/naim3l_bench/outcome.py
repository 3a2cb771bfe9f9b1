"""What a method reports about a trial."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l.extend import Calibration
from naim3l_bench.trials import Trial

Parameters = Mapping[str, Any]


@dataclass
class Outcome:
    """Scores of the test rows of every view, and what else a method reports.

    A method that has one score for all views of a sample has no scores by view, and measures the
    others itself.
    """

    scores: dict[str, NDArray[np.float64]]
    numbers: dict[str, Any] = field(default_factory=dict)
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)  # of scores, by view
    metrics: dict[str, Any] = field(default_factory=dict)  # besides those of `trials.measure`


Method = Callable[[Trial, Parameters, int], Outcome]  # the last argument is a seed
