"""Models by name: `NAIM3L`, its search, blends, and the methods that it is compared with."""

from naim3l.estimators.blend import BlendNAIM3L
from naim3l.estimators.dm2l import DM2L
from naim3l.estimators.fused_ridge import FusedRidge
from naim3l.estimators.glocal import GLOCAL
from naim3l.estimators.imsf import IMSF
from naim3l.estimators.imvwl import IMVWL
from naim3l.estimators.logistic import PerViewLogistic
from naim3l.estimators.lrmmc import LRMMC
from naim3l.estimators.lvsl import LVSL
from naim3l.estimators.multigraph import MultiGraph
from naim3l.estimators.mvliv import MVLIV
from naim3l.estimators.naim3l import NAIM3L
from naim3l.estimators.naim3l_cv import NAIM3LCV
from naim3l.estimators.ridge import PerViewRidge

__all__ = [
    "DM2L",
    "GLOCAL",
    "IMSF",
    "IMVWL",
    "LRMMC",
    "LVSL",
    "MVLIV",
    "NAIM3L",
    "NAIM3LCV",
    "BlendNAIM3L",
    "FusedRidge",
    "MultiGraph",
    "PerViewLogistic",
    "PerViewRidge",
]
