"""Model files, which are loaded without running any code that they name."""

from naim3l.files.models.archive import ModelFileError
from naim3l.files.models.parts import ALLOWED, MODELS
from naim3l.files.models.saved import inspect_file, load, save

__all__ = ["ALLOWED", "MODELS", "ModelFileError", "inspect_file", "load", "save"]
