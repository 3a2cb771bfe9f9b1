"""Multi-label learning from tables that cannot be joined."""

from importlib import import_module

TYPE_CHECKING = False  # as in typing, which takes a while to import
if TYPE_CHECKING:
    from naim3l._warnings import DataWarning
    from naim3l.decisions.fusion import fuse
    from naim3l.decisions.rules import Decisions
    from naim3l.estimators import (
        NAIM3L,
        NAIM3LCV,
        LabelSubspaceRidge,
        PerViewLogistic,
        PerViewRidge,
    )
    from naim3l.estimators.saved import inspect_file, load
    from naim3l.features.kernels import Kernel
    from naim3l.features.recipes import Recipe
    from naim3l.files.archive import ModelFileError
    from naim3l.input.joining import join_views
    from naim3l.input.labels import decode_labels
    from naim3l.metrics import evaluate

__version__ = "0.1.0"

__all__ = ["NAIM3L", "NAIM3LCV", "DataWarning", "Decisions", "Kernel", "LabelSubspaceRidge"]
__all__ += [
    "ModelFileError",
    "PerViewLogistic",
    "PerViewRidge",
    "Recipe",
    "__version__",
    "decode_labels",
]
__all__ += ["evaluate", "fuse", "inspect_file", "join_views", "load"]

# Also public; other modules may change without notice.
_PUBLIC_MODULES = (
    *("datasets", "deep", "estimators", "explain", "export", "extend", "federated", "metrics"),
    *("report", "statistics"),
)
# Imported on first access: scikit-learn takes seconds, and before that the command line must be
# able to print help and to be stopped.
_HOMES = {
    "DataWarning": "_warnings",
    "Decisions": "decisions.rules",
    "Kernel": "features.kernels",
    "ModelFileError": "files.archive",
    "Recipe": "features.recipes",
    "decode_labels": "input.labels",
    "evaluate": "metrics",
    "fuse": "decisions.fusion",
    "join_views": "input.joining",
    **dict.fromkeys(("inspect_file", "load"), "estimators.saved"),
    **dict.fromkeys(("NAIM3L", "NAIM3LCV", "LabelSubspaceRidge"), "estimators"),
    **dict.fromkeys(("PerViewLogistic", "PerViewRidge"), "estimators"),
}


if not TYPE_CHECKING:  # otherwise a type checker would accept any name

    def __getattr__(name):
        if name not in _HOMES and name not in _PUBLIC_MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f"{__name__}.{_HOMES.get(name, name)}")
        value = globals()[name] = getattr(module, name) if name in _HOMES else module
        return value

    def __dir__():
        return sorted([*__all__, *_PUBLIC_MODULES])
