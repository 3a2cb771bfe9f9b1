"""Methods that NAIM3L is compared with; all of them need aligned rows.

They have the interface of :class:`naim3l.estimators.FusedRidge`, and its attributes besides their
own; those that iterate have ``history_``, ``n_iter_``, ``converged_`` and ``objective_`` as
:class:`naim3l.NAIM3L` has. `naim3l.load` needs the class of a saved model: ``trusted=[DM2L]``.

Examples
--------
>>> from naim3l import evaluate, join_views
>>> from naim3l.datasets import make_unpaired
>>> from naim3l_bench.methods import DM2L
>>> data = make_unpaired(
...     60, n_features=(9, 8), n_labels=4, aligned=True, missing_labels=0.3, random_state=0
... )
>>> wide, views = join_views(data.views)
>>> model = DM2L(lam=0.4, views=views).fit(wide, data.labels["view0"])
>>> metrics = evaluate(data.complete_labels["view0"], model.decision_function(wide))
>>> round(metrics["AP"], 2)
0.99
"""

from naim3l_bench.methods.cpm_nets import CPMNets
from naim3l_bench.methods.dm2l import DM2L
from naim3l_bench.methods.glocal import GLOCAL
from naim3l_bench.methods.imsf import IMSF
from naim3l_bench.methods.imvwl import IMVWL
from naim3l_bench.methods.lrmmc import LRMMC
from naim3l_bench.methods.lvsl import LVSL
from naim3l_bench.methods.multigraph import MultiGraph
from naim3l_bench.methods.mvliv import MVLIV

__all__ = [
    "DM2L",
    "GLOCAL",
    "IMSF",
    "IMVWL",
    "LRMMC",
    "LVSL",
    "MVLIV",
    "CPMNets",
    "MultiGraph",
]
