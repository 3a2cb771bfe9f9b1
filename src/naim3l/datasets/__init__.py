"""Datasets: an embedded table, generators, and the paper's way of making data incomplete."""

from naim3l.datasets.challenge import Challenge, make_challenge, remove_views, split_rows
from naim3l.datasets.generate import make_unpaired
from naim3l.datasets.patients import make_patients
from naim3l.datasets.yeast import load_yeast

__all__ = ["Challenge", "load_yeast", "make_challenge", "make_patients", "make_unpaired"]
__all__ += ["remove_views", "split_rows"]
