"""Errors for values that networks cannot use or return, with their view, row and column."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from naim3l.input.tables import Table, first_cell, mark_cells

# Tables may have numbers up to 1e100, networks compute in float32.
LARGEST_FEATURE = float(np.finfo(np.float32).max)


def check_features(
    table: Table, features: Any, present: NDArray[np.bool_], *, as_given: bool
) -> None:
    """Refuse features that float32 cannot hold.

    Parameters
    ----------
    table : Table
        Table of one view.
    features : ndarray or CSR array of shape (n_present, n_features)
        Its numbers, or the output of its transformer.
    present : ndarray of bool, of shape (n_rows,)
        Mask of the table rows that the features belong to.
    as_given : bool
        Whether there was no transformer, so that columns are those of the table.
    """
    cell = first_cell(mark_cells(features, lambda values: np.abs(values) > LARGEST_FEATURE))
    if cell is not None:
        i, j = cell
        where = table.where if as_given else f"{table.where} after its transformer"
        column = table.column_label(j) if as_given else f"column {j}"
        raise ValueError(
            f"{where}, row {np.flatnonzero(present)[i]}, {column}: {features[i, j]} is too large "
            "for float32, in which networks compute; remove or rescale it."
        )


def check_scores(scores: NDArray[np.floating], features: Any, where: str, rows: Any = None) -> None:
    """Refuse scores that are not finite: NaN means that a row lacks the view.

    Parameters
    ----------
    scores : ndarray of shape (n_present, n_labels)
    features : ndarray or CSR array of shape (n_present, n_features)
        Features of the same rows.
    where : str
        Name of the view in errors.
    rows : sequence of n_present int, optional
        Positions of these rows in the table; unknown in training.
    """
    cell = first_cell(~np.isfinite(scores))
    if cell is not None:
        i = cell[0]
        raise ValueError(
            f"{where}, {_row(i) if rows is None else f'row {rows[i]}'}: its network gives "
            f"{scores[cell]} as a score, from values up to {abs(features[[i]]).max():g}. Remove or "
            "rescale values far beyond those of the fit; your own encoder must return finite "
            "numbers; if all rows are affected, lower learning_rate."
        )


def check_encoded(output: Any, view: str, sample: Tensor) -> None:
    """Refuse the output of an encoder that the head cannot use.

    Parameters
    ----------
    output : object
        Output of the encoder.
    view : str
    sample : tensor of shape (n_rows, n_features)
        Its input.
    """
    if not (isinstance(output, Tensor) and output.shape[:-1] == sample.shape[:1]):
        got = (
            f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        )
        raise ValueError(
            f"view {view!r}: its encoder must return (n_rows, n_outputs), got {got} from "
            f"{len(sample)} rows."
        )
    if output.dtype != torch.float32:
        raise ValueError(
            f"view {view!r}: its encoder returns {output.dtype}, but gets and must return "
            "torch.float32; end it with .float()."
        )
    cell = first_cell(~output.isfinite().numpy())
    if cell is not None:
        raise ValueError(
            f"view {view!r}, {_row(cell[0])}: its encoder returns {float(output[cell])}; it must "
            "return finite numbers. Fix it, or rescale the features, whose largest value is "
            f"{float(sample[cell[0]].abs().max()):g} there."
        )


def describe_divergence(
    epoch: int,
    view: str,
    rows: NDArray[np.intp],
    scores: Tensor,
    encoded: Tensor | None,
    largest: float,
) -> str:
    """Error message for scores in training that are NaN, or not below ``largest``.

    Parameters
    ----------
    epoch : int
    view : str
    rows : ndarray of shape (n_rows,)
        Positions of the rows of the batch among those that have the view.
    scores : tensor of shape (n_rows, n_labels)
    encoded : tensor of shape (n_rows, n_outputs), or None
        Output of the user's encoder for these rows.
    largest : float
    """
    advice = "lower learning_rate, or scale the features"
    cell = None if encoded is None else first_cell(~encoded.isfinite().cpu().numpy())
    if encoded is not None and cell is not None:
        return (
            f"view {view!r}, {_row(rows[cell[0]])}: its encoder returns {float(encoded[cell])} in "
            f"epoch {epoch}; it must return finite numbers. If it did so before training, {advice}."
        )
    i, k = first_cell(~(scores.abs() < largest).cpu().numpy()) or (0, 0)
    return (
        f"training diverged in epoch {epoch}: view {view!r}, {_row(rows[i])}, has a score of "
        f"{float(scores[i, k]):g}, where {largest:g} is the most; {advice}."
    )


def _row(i: int) -> str:
    """Name of a row in errors if its position in the table is not known."""
    return f"row {i} of those that have the view"


@contextmanager
def named_failures(view: str, doing: str) -> Iterator[None]:
    """Turn any exception of an encoder into an error that names its view and the operation."""
    try:
        yield
    except torch.cuda.OutOfMemoryError:  # not the fault of the encoder
        raise
    except Exception as error:
        raise ValueError(f"view {view!r}: its encoder fails {doing}: {error}") from error
