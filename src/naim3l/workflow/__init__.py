"""From files to models and back: what the commands do, without printing."""

from naim3l.workflow.known import read_known, read_new
from naim3l.workflow.models import fit_model, make_model
from naim3l.workflow.results import KINDS, evaluate_views, impute, predict_tables
from naim3l.workflow.views import ViewData, parse_sources, read_training, split, with_sources

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
