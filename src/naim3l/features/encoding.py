"""Features of a view: its transformer, and how the table is passed to it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.utils import get_tags

from naim3l._arrays import Mask
from naim3l.features.cell_encoder import MOST_CATEGORIES, CellEncoder
from naim3l.features.column_uses import ColumnUse, column_uses
from naim3l.features.kernels import KernelMap
from naim3l.features.recipes import MAX_COMPONENTS, RECIPES, LeadingComponents, RootHistogram
from naim3l.input.numeric import (
    check_finite,
    check_not_negative,
    check_not_tiny,
    present_rows,
    read_features,
    read_numbers,
    warn_of_scales,
)
from naim3l.input.tables import Table

_NO_NUMBER = re.compile(r"could not convert string to float: (.+)")


@dataclass(frozen=True)
class ViewFeatures:
    """Transformer of one view, and how the view's table is passed to it.

    Attributes
    ----------
    transformer : transformer or None
        None if the columns are the features.
    as_numbers : bool
        Whether rows are read as numbers and checked, as for the recipes by name and without a
        transformer. Other transformers receive the rows unchanged, including text.
    """

    transformer: Any
    as_numbers: bool

    @classmethod
    def make(
        cls,
        transformer: Any,
        view: str,
        kernel_map: KernelMap | None = None,
        n_components: int = MAX_COMPONENTS,
    ) -> "ViewFeatures":
        """Unfitted features from the parameters of a model; see `make_transformer`."""
        made = make_transformer(transformer, view, kernel_map, n_components)
        given = _of_view(transformer, view)
        by_name = given is None or isinstance(given, str)
        return cls(made, as_numbers=by_name and not isinstance(_first_step(made), CellEncoder))

    def fit_encode(self, table: Table) -> tuple[Any, Mask]:
        """`encode` of training rows, on which the transformer is fitted."""
        rows, present = self.rows(table)
        if not present.any():
            raise ValueError(f"{table.where}: missing in every row; leave the view out.")
        if self.as_numbers:
            check_not_tiny(table, rows)
        if self.transformer is None:
            warn_of_scales(table, rows)
            return rows, present
        return self._transform(table, rows, present, fit=True), present

    def encode(self, table: Table) -> tuple[Any, Mask]:
        """Features of the rows that have the view, and which rows these are.

        Returns
        -------
        features : ndarray or CSR array of shape (n_present, n_features)
        present : ndarray of bool, of shape (n_rows,)
        """
        rows, present = self.rows(table)
        if not present.any():
            return np.empty((0, 0)), present
        if self.transformer is None:
            return rows, present
        return self._transform(table, rows, present, fit=False), present

    def rows(self, table: Table) -> tuple[Any, Mask]:
        """Rows that have the view, as the transformer receives them, and which rows these are."""
        if not self.as_numbers:
            present = present_rows(table, allow_missing=self.accepts_missing)
            # Errors of a CellEncoder name the rows of the whole table.
            whole = self.cell_encoder is not None
            return table.part(present) if whole else table.take_rows(present), present
        rows, present = read_numbers(table)
        if _of_histograms(_first_step(self.transformer)):
            check_not_negative(table, rows, present)
        return rows, present

    @property
    def is_recipe(self) -> bool:
        """Whether numbers go through a recipe by name, and no kernel: then threads may fit it."""
        return self.as_numbers and self.transformer is not None and self.kernel_map is None

    @property
    def accepts_missing(self) -> bool:
        """Whether single cells of a row may be missing."""
        return not self.as_numbers and accepts_missing(self.transformer)

    @property
    def cell_encoder(self) -> CellEncoder | None:
        """The encoder of cells at the start of the transformer, if there is one."""
        first = _first_step(self.transformer)
        return first if isinstance(first, CellEncoder) else None

    def uses(self, names: Sequence[str]) -> list[ColumnUse]:
        """What became of the columns of these names, after the fit."""
        return column_uses(self.transformer, self.as_numbers, names)

    @property
    def kernel_map(self) -> KernelMap | None:
        """The kernel at the end of the transformer, if there is one."""
        last = self.transformer
        last = last[-1] if isinstance(last, Pipeline) else last
        return last if isinstance(last, KernelMap) else None

    def most_columns(self, n_columns: int) -> int:
        """Largest number of features of a table with so many columns, before the fit.

        Text can have more values than columns; a transformer of the user is taken to give as many
        features as there are columns.
        """
        if self.kernel_map is not None and self.kernel_map.n_landmarks is not None:
            return int(self.kernel_map.n_landmarks)
        steps = self.transformer.steps if isinstance(self.transformer, Pipeline) else []
        limits = [s.max_components for _, s in steps if isinstance(s, LeadingComponents)]
        return min([*limits, n_columns * (MOST_CATEGORIES if self.cell_encoder else 1)])

    def with_gamma(self, gamma: float) -> "ViewFeatures":
        """The same fitted features with another gamma in the kernel."""
        assert self.kernel_map is not None
        changed = self.kernel_map.with_gamma(gamma)
        if isinstance(self.transformer, Pipeline):
            *first, (name, _) = self.transformer.steps
            changed = Pipeline([*first, (name, changed)])
        return replace(self, transformer=changed)

    def _transform(self, table: Table, rows: Any, present: Mask, *, fit: bool) -> Any:
        method = self.transformer.fit_transform if fit else self.transformer.transform
        try:
            features = method(rows)
        except (ValueError, TypeError) as error:
            if str(error).startswith(table.where):  # of a CellEncoder, which names the cell
                raise
            _name_cell(table, str(error))
            if "'y'" in str(error):
                raise ValueError(
                    f"{table.where}: {type(self.transformer).__name__} needs labels, but "
                    "transformers are fitted on features alone."
                ) from error
            raise ValueError(f"{table.where}: {error}") from error
        return read_features(features, f"{table.where} after its transformer", present, fit=fit)


def is_automatic(transformer: Any, view: str) -> bool:
    """Whether the parameter ``transformer`` lets the model choose the features of a view."""
    given = _of_view(transformer, view)
    return isinstance(given, str) and given == "auto"


def _of_view(transformer: Any, view: str) -> Any:
    return transformer.get(view) if isinstance(transformer, Mapping) else transformer


def make_transformer(
    transformer: Any,
    view: str,
    kernel_map: KernelMap | None = None,
    n_components: int = MAX_COMPONENTS,
) -> Any:
    """Unfitted transformer of one view, or None if the columns are the features.

    Parameters
    ----------
    transformer : str, transformer, None, or mapping of str to one of these
        "auto" is "scale" after a `CellEncoder`, or None for a kernel of histograms.
    view : str
    kernel_map : KernelMap, optional
        Last step of the transformer.
    n_components : int
        Maximum number of components in the PCA of a recipe.
    """
    recipe = _make_recipe(transformer, view, kernel_map, n_components)
    if kernel_map is None or recipe is None:
        return recipe if kernel_map is None else kernel_map
    return make_pipeline(recipe, kernel_map)


def encode_cells(
    recipe: str | None, n_components: int = MAX_COMPONENTS, text: Sequence[str] = ()
) -> Pipeline:
    """Unfitted transformer of tables with missing cells, text and dates: a recipe after encoding.

    Parameters
    ----------
    recipe : {"scale", "paper", "histogram"} or None
    n_components : int
        Maximum number of components in the PCA of the recipe.
    text : sequence of str
        Columns that are text, even if their cells are numbers.
    """
    steps = [] if recipe is None else [step for _, step in RECIPES[recipe](n_components).steps]
    return make_pipeline(CellEncoder(text), *steps)


def _make_recipe(
    transformer: Any, view: str, kernel_map: KernelMap | None, n_components: int
) -> Any:
    if isinstance(transformer, Mapping):
        if view not in transformer:
            raise ValueError(
                f"transformer: no entry for view {view!r}; it has {list(transformer)}. "
                "Give one per view, None for columns as they are."
            )
        transformer = transformer[view]
    if isinstance(transformer, str) and transformer == "auto":
        return None if _of_histograms(kernel_map) else encode_cells("scale", n_components)
    if transformer is None:
        return None
    if isinstance(transformer, str) and transformer in RECIPES:
        return RECIPES[transformer](n_components)
    usable = hasattr(transformer, "fit") and hasattr(transformer, "transform")
    if not usable or isinstance(transformer, type):
        raise ValueError(
            f"transformer must be one of {['auto', *sorted(RECIPES)]}, None, a scikit-learn "
            "transformer (an object, not its class), or a mapping of them per view, got "
            f"{transformer!r} for view {view!r}."
        )
    return clone(transformer)


def _name_cell(table: Table, refusal: str) -> None:
    """Raise an error that names the cell which a transformer refused without naming it."""
    numeric, all_rows = table.numeric_columns(), np.ones(table.shape[0], dtype=bool)
    if "infinity" in refusal and numeric.shape[1]:
        numbers = numeric.numbers()
        check_finite(numeric, np.where(np.isnan(numbers), 0, numbers), all_rows)
    if "NaN" in refusal:
        present_rows(table)
    if "Negative values" in refusal and numeric.shape[1]:
        check_not_negative(numeric, numeric.numbers(), all_rows)
    if written := _NO_NUMBER.search(refusal):
        cells = table.find_cells(written[1])
        # A value that occurs in several columns may be allowed in the first.
        if len({j for _, j in cells}) == 1:
            place = f"{table.where}, row {cells[0][0]}, {table.column_label(cells[0][1])}"
            raise ValueError(f"{place}: {written[1]} is not a number, as it was at the fit.")


def _first_step(transformer: Any) -> Any:
    """The first step of a transformer, also of nested pipelines."""
    return _first_step(transformer[0]) if isinstance(transformer, Pipeline) else transformer


def _of_histograms(step: Any) -> bool:
    """Whether a step refuses negative values."""
    return isinstance(step, RootHistogram) or (isinstance(step, KernelMap) and step.of_histograms)


def accepts_missing(transformer: Any) -> bool:
    """Whether a transformer accepts NaN: "auto", or by its tags or those of its parts."""
    if isinstance(transformer, str):
        return transformer == "auto"
    if isinstance(transformer, Pipeline):
        steps = [step for _, step in transformer.steps if step not in (None, "passthrough")]
        return not steps or accepts_missing(steps[0])
    if isinstance(transformer, ColumnTransformer):
        return True  # NaN may be in columns of a part that accepts them; other parts refuse them
    if isinstance(transformer, FeatureUnion):
        return all(
            part in ("drop", "passthrough") or accepts_missing(part)
            for _, part in transformer.transformer_list
        )
    if isinstance(transformer, type) or not hasattr(transformer, "__sklearn_tags__"):
        return False
    tags = get_tags(transformer)
    return bool(tags.input_tags.allow_nan or tags.no_validation)
