"""Methods that NAIM3L is compared with; all of them need aligned rows."""

from naim3l_bench.methods.dm2l import DM2L
from naim3l_bench.methods.glocal import GLOCAL
from naim3l_bench.methods.imsf import IMSF
from naim3l_bench.methods.imvwl import IMVWL
from naim3l_bench.methods.lrmmc import LRMMC
from naim3l_bench.methods.lvsl import LVSL
from naim3l_bench.methods.multigraph import MultiGraph
from naim3l_bench.methods.mvliv import MVLIV

__all__ = ["DM2L", "GLOCAL", "IMSF", "IMVWL", "LRMMC", "LVSL", "MVLIV", "MultiGraph"]
