"""Reports on fitted models: first the numbers as plain data, then an HTML page of them."""

from naim3l.report.page import write_report
from naim3l.report.summary import summarise

__all__ = ["summarise", "write_report"]
