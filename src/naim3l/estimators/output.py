"""Containers of scores, probabilities and predictions: arrays or data frames."""

from collections.abc import Mapping
from typing import Any

import narwhals.stable.v2 as nw
from numpy.typing import NDArray

from naim3l.input.reader import TableReader
from naim3l.input.views import FUSED


def contain(values: Mapping[str, NDArray], X: Any, reader: TableReader, container: str) -> Any:
    """Arrays or data frames by view, or a single one for a wide table.

    Parameters
    ----------
    values : mapping of str to ndarray of shape (n_rows, n_labels)
        Values by view; for a wide table under the only key `FUSED`.
    X : mapping of str to table, or one wide table
        Tables of the rows, whose index pandas data frames get.
    reader : TableReader
        Reader of the fit, for the form and the label names.
    container : one of `OUTPUTS`
        "default" is NumPy.
    """
    if container == "default":
        if reader.wide:
            return values[FUSED].ravel() if reader.one_column_ else values[FUSED]
        return values
    frames = {}
    for view, array in values.items():
        backend: Any = container
        frame = nw.from_numpy(array, list(reader.label_names_), backend=backend).to_native()
        like = X if reader.wide else X[view]
        if container == "pandas" and hasattr(like, "iloc"):
            frame.index = like.index
        frames[view] = frame
    return frames[FUSED] if reader.wide else frames
