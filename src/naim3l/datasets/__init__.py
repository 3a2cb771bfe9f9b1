"""Datasets: an embedded table, and a generator."""

from naim3l.datasets.generate import make_unpaired
from naim3l.datasets.yeast import load_yeast

__all__ = ["load_yeast", "make_unpaired"]
