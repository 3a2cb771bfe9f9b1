"""Labels learned from tables that cannot be joined."""

from importlib import import_module

TYPE_CHECKING = False  # as in typing, whose import alone takes a while
if TYPE_CHECKING:
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

# Imported when first asked for: scikit-learn takes seconds, and the command line must be able to
# answer, and to be stopped, before.
_HOMES = {
    "NAIM3L": "estimator",
    "NAIM3LCV": "selection",
    "DataWarning": "tables",
    "ModelFileError": "persistence",
    "evaluate": "metrics",
    "fuse": "fusion",
    "join_views": "views",
    "load": "persistence",
}


if not TYPE_CHECKING:  # to a checker it would mean that every name is there

    def __getattr__(name):
        home = f"{__name__}.{_HOMES.get(name, name)}"
        try:
            module = None if name.startswith("_") else import_module(home)
        except ModuleNotFoundError as error:
            if error.name != home:
                raise
            module = None
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(module, name) if name in _HOMES else module
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
