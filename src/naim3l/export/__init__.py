"""A fitted model as SQL or ONNX, to score rows where they are, without Python."""

from naim3l.export.onnx_graph import to_onnx
from naim3l.export.sql import to_sql

__all__ = ["to_onnx", "to_sql"]
