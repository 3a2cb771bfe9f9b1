"""Statistics of rows that add up: of months and sites, by file, without reading the rows again.

`ColumnPlan` says how rows are read, `collect` reads those of a source, and `combine` adds up; the
method ``fit_statistics`` of a model fits it to the result.
"""

from naim3l.estimators.collected import Statistics, combine
from naim3l.estimators.collecting import collect
from naim3l.estimators.plans import ColumnPlan

__all__ = ["ColumnPlan", "Statistics", "collect", "combine"]
