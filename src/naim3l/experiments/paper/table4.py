"""Table 4: missing labels alone."""

from functools import partial

from naim3l.experiments.paper.comparison import MetricTable, variant_fits
from naim3l.experiments.paper.published import TABLE4

TITLE = "Table 4: half of the labels missing, views complete, rows aligned"
_table = MetricTable(
    "Table 4", TABLE4, {"NAIM3L-L": partial(variant_fits, alpha=0.0, aligned=True)}
)
tasks, numbers, tables, figures = _table.tasks, _table.numbers, _table.tables, _table.figures
