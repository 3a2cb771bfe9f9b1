"""Labels learned from tables that cannot be joined."""

from naim3l.estimator import NAIM3L
from naim3l.fusion import fuse
from naim3l.metrics import evaluate
from naim3l.persistence import ModelFileError, load
from naim3l.selection import NAIM3LCV
from naim3l.tables import DataWarning
from naim3l.views import join_views

__version__ = "0.1.0"

__all__ = [
    "NAIM3L",
    "NAIM3LCV",
    "DataWarning",
    "ModelFileError",
    "__version__",
    "evaluate",
    "fuse",
    "join_views",
    "load",
]
