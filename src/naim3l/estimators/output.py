"""Scores, probabilities and decisions in the container that users ask for."""

from collections.abc import Mapping
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from naim3l.input.reader import TableReader
from naim3l.input.views import FUSED

OUTPUTS = ("default", "pandas", "polars")


def contain(values: Mapping[str, NDArray], X: Any, reader: TableReader, container: str) -> Any:
    """Arrays by view, or the one of a wide table on its own, in a container.

    Parameters
    ----------
    values : mapping of str to ndarray of shape (n_rows, n_labels)
        By view; of a wide table under `FUSED` alone.
    X : mapping of str to table, or one wide table
        What they were made from, whose pandas index data frames take over.
    reader : TableReader
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


def refuse_lacking(scores: Mapping[str, NDArray]) -> None:
    """Refuse rows that have no score, since decisions cannot be missing.

    Parameters
    ----------
    scores : mapping of str to ndarray of shape (n_rows, n_labels)
        By view; of a wide table under `FUSED` alone.
    """
    for view, S in scores.items():
        lacking = np.flatnonzero(np.isnan(S).any(axis=1))
        if len(lacking):
            where = "X" if view == FUSED else f"view {view!r}"
            raise ValueError(
                f"{where}, row {lacking[0]}: all values are missing, so there is nothing to "
                f"predict from ({len(lacking)} such rows); drop these rows first."
            )
