"""Table 6: the model without its high-rank term (II) and without both (I)."""

from functools import partial

from naim3l.experiments.paper.comparison import VARIANTS, MetricTable, variant_fits
from naim3l.experiments.paper.published import TABLE6

TITLE = "Table 6: what the two terms of the regulariser add"
_table = MetricTable(
    "Table 6", TABLE6, {name: partial(variant_fits, variant=name) for name in VARIANTS}
)
tasks, numbers, tables, figures = _table.tasks, _table.numbers, _table.tables, _table.figures
