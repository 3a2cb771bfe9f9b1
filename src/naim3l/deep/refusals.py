"""What networks cannot take or must not give, told with its view, row and column."""

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
        Of one view.
    features : ndarray or CSR array of shape (n_present, n_features)
        Its numbers, or what a transformer made of them.
    present : ndarray of bool, of shape (n_rows,)
        Rows of the table that the features belong to.
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
        What they are scores of.
    where : str
        How errors call the view.
    rows : sequence of n_present int, optional
        Places of these rows in the table; unknown in training.
    """
    cell = first_cell(~np.isfinite(scores))
    if cell is not None:
        i = cell[0]
        raise ValueError(
            f"{where}, {_row(i) if rows is None else f'row {rows[i]}'}: its network gives "
            f"{scores[cell]} as a score, from values up to {abs(features[[i]]).max():g}. Remove or "
            "rescale those far beyond the ones of the fit; an encoder of your own must return "
            "finite numbers; if all rows are like this, lower learning_rate."
        )


def check_encoded(output: Any, view: str, sample: Tensor) -> None:
    """Refuse what an encoder makes of some rows if a head cannot follow it.

    Parameters
    ----------
    output : object
        What the encoder returned.
    view : str
    sample : tensor of shape (n_rows, n_features)
        What it was given.
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
            "return finite numbers. Mend it, or rescale the features, whose largest is "
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
    """What to say of scores in training that are NaN, or of ``largest`` size or more.

    Parameters
    ----------
    epoch : int
    view : str
    rows : ndarray of shape (n_rows,)
        Places of the rows of the batch among those that have the view.
    scores : tensor of shape (n_rows, n_labels)
    encoded : tensor of shape (n_rows, n_outputs), or None
        What an encoder of the user makes of these rows.
    largest : float
    """
    advice = "lower learning_rate, or scale the features"
    cell = None if encoded is None else first_cell(~encoded.isfinite().cpu().numpy())
    if encoded is not None and cell is not None:
        return (
            f"view {view!r}, {_row(rows[cell[0]])}: its encoder returns {float(encoded[cell])} in "
            f"epoch {epoch}; it must return finite numbers. If it did before training, {advice}."
        )
    i, k = first_cell(~(scores.abs() < largest).cpu().numpy()) or (0, 0)
    return (
        f"training diverged in epoch {epoch}: view {view!r}, {_row(rows[i])}, has a score of "
        f"{float(scores[i, k]):g}, where {largest:g} is the most; {advice}."
    )


def _row(i: int) -> str:
    """Row as errors call it where its place in the table is not known."""
    return f"row {i} of those that have the view"


@contextmanager
def named_failures(view: str, doing: str) -> Iterator[None]:
    """Whatever an encoder raises inside, as an error that names its view and says when."""
    try:
        yield
    except torch.cuda.OutOfMemoryError:  # no fault of the encoder
        raise
    except Exception as error:
        raise ValueError(f"view {view!r}: its encoder fails {doing}: {error}") from error
