"""Datasets of the experiments: their properties, and readers of the formats that they come in."""

from naim3l_bench.datasets.catalog import (
    CATALOG,
    EMBEDDED,
    GENUINE,
    Check,
    Facts,
    available,
    check_dataset,
    open_dataset,
)
from naim3l_bench.datasets.lear import open_lear, read_vectors
from naim3l_bench.datasets.mat import open_six_view, open_view_files
from naim3l_bench.datasets.npz import STAND_IN, open_npz, save_npz
from naim3l_bench.datasets.source import MultiView, StoredView

__all__ = [
    "CATALOG",
    "EMBEDDED",
    "GENUINE",
    "STAND_IN",
    "Check",
    "Facts",
    "MultiView",
    "StoredView",
    "available",
    "check_dataset",
    "open_dataset",
    "open_lear",
    "open_npz",
    "open_six_view",
    "open_view_files",
    "read_vectors",
    "save_npz",
]
