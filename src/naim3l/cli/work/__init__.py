"""From files to models and back: what the commands do, without printing."""

from naim3l.cli.work.answers import KINDS, evaluate_views, impute, predict_tables
from naim3l.cli.work.building import fit_model, make_model
from naim3l.cli.work.new_tables import read_known, read_new
from naim3l.cli.work.study import ViewData, parse_sources, read_training, split, with_sources

__all__ = [
    "KINDS",
    "ViewData",
    "evaluate_views",
    "fit_model",
    "impute",
    "make_model",
    "parse_sources",
    "predict_tables",
    "read_known",
    "read_new",
    "read_training",
    "split",
    "with_sources",
]
