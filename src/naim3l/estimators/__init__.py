"""Models by name: `NAIM3L`, its search, blends, and simpler methods to compare it with."""

from naim3l.estimators.aligned import FusedRidge
from naim3l.estimators.blend import BlendNAIM3L
from naim3l.estimators.boosting import PerViewBoosting
from naim3l.estimators.linear import PerViewLogistic, PerViewRidge
from naim3l.estimators.methods import compare_methods
from naim3l.estimators.naim3l import NAIM3L
from naim3l.estimators.naim3l_cv import NAIM3LCV
from naim3l.estimators.subspace import LabelSubspaceRidge

__all__ = ["NAIM3L", "NAIM3LCV", "BlendNAIM3L", "FusedRidge", "LabelSubspaceRidge"]
__all__ += ["PerViewBoosting", "PerViewLogistic", "PerViewRidge", "compare_methods"]
