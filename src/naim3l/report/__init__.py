"""Reports on fitted models: first the numbers as plain data, then an HTML page of them."""

from naim3l.report.page import render_report, write_json, write_report
from naim3l.report.summary import summarise

__all__ = ["render_report", "summarise", "write_json", "write_report"]
