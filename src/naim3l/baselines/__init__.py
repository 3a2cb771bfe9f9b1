"""Methods to compare with; each has ``fit``, ``decision_function`` and ``predict`` like NAIM3L."""

from naim3l.baselines.logistic import PerViewLogistic
from naim3l.baselines.ridge import PerViewRidge

__all__ = ["PerViewLogistic", "PerViewRidge"]
