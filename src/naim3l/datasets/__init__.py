"""Data to try things on: an embedded table, a reader of .npz files, a generator with an answer."""

from naim3l.datasets.generate import make_unpaired
from naim3l.datasets.npz import load_npz
from naim3l.datasets.yeast import load_yeast

__all__ = ["load_npz", "load_yeast", "make_unpaired"]
