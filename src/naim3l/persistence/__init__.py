"""Model files: written whole, and loaded without running anything that a file names."""

from naim3l.persistence.archive import ModelFileError
from naim3l.persistence.parts import ALLOWED, MODELS
from naim3l.persistence.store import inspect_file, load, save

__all__ = ["ALLOWED", "MODELS", "ModelFileError", "inspect_file", "load", "save"]
