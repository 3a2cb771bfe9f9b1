"""Datasets: readers of public file formats, an embedded table, and a generator."""

from naim3l.datasets.catalog import (
    CATALOG,
    Check,
    Facts,
    available,
    check_dataset,
    convert,
    open_dataset,
)
from naim3l.datasets.generate import make_unpaired
from naim3l.datasets.lear import open_lear, read_vectors
from naim3l.datasets.mat import Fold, load_folds, open_six_view, open_view_files
from naim3l.datasets.npz import load_npz, open_npz, save_npz
from naim3l.datasets.source import MultiView, StoredView
from naim3l.datasets.yeast import load_yeast

__all__ = [
    "CATALOG",
    "Check",
    "Facts",
    "Fold",
    "MultiView",
    "StoredView",
    "available",
    "check_dataset",
    "convert",
    "load_folds",
    "load_npz",
    "load_yeast",
    "make_unpaired",
    "open_dataset",
    "open_lear",
    "open_npz",
    "open_six_view",
    "open_view_files",
    "read_vectors",
    "save_npz",
]
