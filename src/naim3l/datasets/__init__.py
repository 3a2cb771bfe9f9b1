"""Datasets: an embedded table, and generators."""

from naim3l.datasets.generate import make_unpaired
from naim3l.datasets.patients import make_patients
from naim3l.datasets.yeast import load_yeast

__all__ = ["load_yeast", "make_patients", "make_unpaired"]
