"""What became of each column of a table: how it is used, or why it is set aside."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from naim3l.features.cell_encoder import CellEncoder
from naim3l.features.column_kinds import BOOLEAN, DATE, KINDS, NUMBER, TEXT
from naim3l.features.recipes import DropConstantColumns

SET_ASIDE, CONSTANT = "set aside", "constant"
ANY = "any"
_READ_AS = {DATE: "days", BOOLEAN: "0 and 1"}


@dataclass(frozen=True)
class ColumnUse:
    """What a fitted model does with a column.

    Attributes
    ----------
    name : str
        Name of the column, or "column 3" if it has none.
    kind : {"number", "text", "date", "boolean", "any"}
        "any" if the view has a transformer of its own, which receives the cells unchanged.
    missing : float
        Share of missing cells among the training rows that have the view; NaN for "any".
    use : str
        How it is used, such as "missing cells filled with the mean, scaled"; "set aside" if it
        is not.
    reason : str
        Why it is set aside; otherwise empty.

    Examples
    --------
    >>> from naim3l.features.column_uses import ColumnUse
    >>> ColumnUse("pulse", "number", 0.98, "set aside", "2 known values in 100 rows").use
    'set aside'
    """

    name: str
    kind: str
    missing: float
    use: str
    reason: str = ""


def column_uses(transformer: Any, as_numbers: bool, names: Sequence[str]) -> list[ColumnUse]:
    """Uses of the columns of a view, in their order.

    Parameters
    ----------
    transformer : fitted transformer or None
    as_numbers : bool
        Whether rows were read as numbers, so that no cell was missing.
    names : sequence of str
        Names of the columns that the transformer receives.
    """
    first, *others = _steps(transformer)
    if not as_numbers and not isinstance(first, CellEncoder):
        use = f"given to {type(first).__name__}"
        return [ColumnUse(name, ANY, float("nan"), use) for name in names]
    kinds, missing = np.full(len(names), NUMBER), np.zeros(len(names))
    values: dict[int, tuple[int, int]] = {}
    if isinstance(first, CellEncoder):
        kinds, missing, values = first.kinds_, first.missing_, first.n_values()
    else:
        others = [first, *others]
    kept = _kept(others[0] if others else None, kinds, values)
    scaled = any(isinstance(step, StandardScaler) for step in others)
    uses = []
    for j, name in enumerate(names):
        use = _use(kinds[j], missing[j] > 0, scaled, values.get(j)) if kept[j] else SET_ASIDE
        reason = "" if kept[j] else CONSTANT
        uses.append(ColumnUse(name, KINDS[kinds[j]], float(missing[j]), use, reason))
    return uses


def _steps(transformer: Any) -> Iterator[Any]:
    """Steps of a transformer, also of nested pipelines."""
    if isinstance(transformer, Pipeline):
        for _, step in transformer.steps:
            yield from _steps(step)
    else:
        yield transformer


def _kept(step: Any, kinds: NDArray, values: dict[int, tuple[int, int]]) -> NDArray[np.bool_]:
    """Mask of the columns of which a step that drops constant columns keeps something."""
    if not isinstance(step, DropConstantColumns):
        return np.ones(len(kinds), dtype=bool)
    n_columns = [frequent + (rare > 0) for frequent, rare in values.values()]
    of_column = np.concatenate([np.flatnonzero(kinds != TEXT), np.repeat([*values], n_columns)])
    return np.bincount(of_column.astype(int), weights=step.kept_, minlength=len(kinds)) > 0


def _use(kind: int, missing: bool, scaled: bool, values: tuple[int, int] | None) -> str:
    if values is not None:
        frequent, rare = values
        together = f", {rare} rare ones one together" if rare else ""
        return f"{frequent} values became columns{together}"
    parts = [_READ_AS.get(kind), "missing cells filled with the mean" if missing else None,
             "scaled" if scaled else None]  # fmt: skip
    return ", ".join(part for part in parts if part) or "used as it is"
