"""Table 3: incomplete views alone."""

from functools import partial

from naim3l.experiments.paper.comparison import MetricTable, variant_fits
from naim3l.experiments.paper.published import TABLE3

TITLE = "Table 3: half of the views missing, labels complete, rows aligned"
_table = MetricTable("Table 3", TABLE3, {"NAIM3L-V": partial(variant_fits, beta=0.0, aligned=True)})
tasks, numbers, tables, figures = _table.tasks, _table.numbers, _table.tables, _table.figures
