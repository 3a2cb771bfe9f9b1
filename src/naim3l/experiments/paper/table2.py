"""Table 2: incomplete views, missing labels and non-aligned rows at once."""

from naim3l.experiments.paper.comparison import MetricTable, variant_fits
from naim3l.experiments.paper.published import TABLE2

TITLE = "Table 2: half of the views and half of the labels missing, rows not aligned"
_table = MetricTable("Table 2", TABLE2, {"NAIM3L": variant_fits})
tasks, numbers, tables, figures = _table.tasks, _table.numbers, _table.tables, _table.figures
