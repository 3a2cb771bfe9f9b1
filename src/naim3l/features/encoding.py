"""Features of a view: what the parameter ``features`` says, and what was fitted for it.

Columns go through a plan, which makes numbers of all cells, a recipe, and a kernel, each of which
may be left out; or through a transformer of the user, which receives the cells unchanged.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints

from naim3l._arrays import Mask
from naim3l._device import CPU
from naim3l._origin import Origin
from naim3l.features.kernels import AUTO, HISTOGRAM_KERNELS, KERNELS, LANDMARKS, Kernel, KernelMap
from naim3l.features.plan import MOST_CATEGORIES, ReadRows, ViewPlan
from naim3l.features.recipes import RECIPES, FittedRecipe, Moments, Recipe
from naim3l.files.stored import Guest, Maybe, Nested
from naim3l.input.batches import (
    Batch,
    check_finite,
    check_not_negative,
    check_not_tiny,
    column_sizes,
    present_rows,
    read_numbers,
    warn_of_scales,
)
from naim3l.input.views import check_not_empty

# Names that the parameter ``features`` may be.
NAMES = (AUTO, *RECIPES, *KERNELS)
_DEFAULT = Recipe()
_COUNT = Interval(Integral, 1, None, closed="left")
_OF_RECIPE = {
    "steps": [StrOptions({*RECIPES}), None],
    "n_components": [_COUNT, None],
    **{key: ["boolean"] for key in ("plan", "log")},
    "day_first": ["boolean", None],
    **{key: [list, tuple, set] for key in ("text", "keep")},
    "shared": ["boolean", list, tuple, set],
}
_OF_KERNEL = {
    "name": [StrOptions({*KERNELS}), callable],
    "n_landmarks": [_COUNT, None],
    "gamma": [StrOptions({AUTO}), Interval(Real, 1e-100, 1e100, closed="both")],
    "landmarks": [StrOptions({*LANDMARKS})],
    "recipe": "no_validation",
}
_NO_NUMBER = re.compile(r"could not convert string to float: (.+)")


@dataclass(frozen=True, eq=False)
class ViewFeatures:
    """Fitted features of a view.

    The plan is None if all columns are numbers. A transformer of the user, instead of plan and
    recipe, receives the table as it is; a kernel may follow.
    """

    plan: Annotated[ViewPlan | None, Maybe(Nested(ViewPlan))] = None
    recipe: Annotated[FittedRecipe | None, Maybe(Nested(FittedRecipe))] = None
    kernel: Annotated[KernelMap | None, Maybe(Nested(KernelMap))] = None
    transformer: Annotated[Any, Maybe(Guest())] = None

    def encode(self, batch: Batch, *, judge: bool = True) -> tuple[Any, Mask]:
        """Features (n_present, n_features) of rows that have the view, and which these are."""
        in_blocks = self.recipe is not None and not self.recipe.histogram
        rows, present = self.rows(batch, judge=judge, in_blocks=in_blocks)
        if not present.any():
            return np.empty((0, 0)), present
        features: Any = rows
        if isinstance(rows, ReadRows):
            assert self.recipe is not None
            features = np.empty((rows.rows.shape[0], self.recipe.n_features))
            for at, block in rows.blocks():
                self.recipe.apply(block, out=features[at])
        elif self.recipe is not None:
            features = self.recipe.apply(rows)
        return features if self.kernel is None else self.kernel.apply(features), present

    def rows(
        self, batch: Batch, *, judge: bool = True, in_blocks: bool = False
    ) -> tuple[Any, Mask]:
        """Numbers of the rows that have the view, before the recipe, and which rows these are.

        If they are used ``in_blocks``, dense rows of a plan are `ReadRows`.
        """
        if self.transformer is not None:
            given, present = _guest_rows(self.transformer, batch)
            if not present.any():
                return np.empty((0, 0)), present
            rows = _apply_guest(self.transformer, given, fit=False)
        elif self.plan is not None:
            read = self.plan.read if in_blocks else self.plan.encode
            rows, present = read(batch, judge=judge)
        else:
            rows, present = read_numbers(batch)
        if self.recipe.histogram if self.recipe is not None else _compares_counts(self.kernel):
            _check_histograms(batch, rows, present)
        return rows, present

    def with_gamma(self, gamma: float) -> "ViewFeatures":
        """The same fitted features with another gamma in the kernel."""
        assert self.kernel is not None
        return replace(self, kernel=self.kernel.with_gamma(gamma))

    def n_features(self, n_columns: int) -> int | None:
        """Number of features, None if a transformer decides; refuses steps that differ."""
        n = None if self.transformer is not None else n_columns
        n = n if self.plan is None else self.plan.n_encoded
        for step in (self.recipe, self.kernel):
            if step is not None:
                taken = step.landmarks.shape[1] if isinstance(step, KernelMap) else len(step.kept)
                if n not in (None, taken):
                    raise ValueError(f"a step for {taken} columns follows one that gives {n}.")
                n = step.n_features
        return n


@dataclass(frozen=True)
class FeatureSpec:
    """What the parameter ``features`` says about one view; a transformer is not beside a recipe."""

    recipe: Recipe | None = None
    kernel: Kernel | None = None
    transformer: Any = None

    @classmethod
    def of(cls, features: Any, view: str) -> "FeatureSpec":
        """The specification of a view, from a value for all views or a mapping of views."""
        given = features
        if isinstance(features, Mapping):
            if view not in features:
                raise ValueError(
                    f"features: no entry for view {view!r}; it has {list(features)}. Give one per "
                    "view, None for columns as they are."
                )
            given = features[view]
        if isinstance(given, str) and given in KERNELS:
            given = Kernel(given)
        if not isinstance(given, Kernel):
            return cls._of_recipe(given, view)
        validate_parameter_constraints(_OF_KERNEL, vars(given), "Kernel")
        before = given.recipe
        if isinstance(before, str) and before == AUTO and _compares_counts(given):
            before = Recipe(None)
        return replace(cls._of_recipe(before, view), kernel=given)

    @classmethod
    def _of_recipe(cls, given: Any, view: str) -> "FeatureSpec":
        if isinstance(given, Recipe):
            validate_parameter_constraints(_OF_RECIPE, vars(given), "Recipe")
            named = () if isinstance(given.shared, bool) else given.shared
            if not all(isinstance(name, str) for name in (*given.text, *given.keep, *named)):
                raise ValueError("Recipe: text, keep and shared must list names of columns.")
            return cls(given)
        if given is None:
            return cls()
        if isinstance(given, str) and given in (AUTO, *RECIPES):
            return cls(_DEFAULT if given == AUTO else Recipe(given, plan=False))
        usable = hasattr(given, "fit") and hasattr(given, "transform")
        if not usable or isinstance(given, type):
            raise ValueError(
                f"features must be one of {list(NAMES)}, a Recipe, a Kernel, None, a scikit-learn "
                "transformer (an object, not its class), or a mapping of them per view, got "
                f"{given!r} for view {view!r}."
            )
        return cls(transformer=clone(given))

    @property
    def has_plan(self) -> bool:
        """Whether cells of all kinds become numbers."""
        return self.recipe is not None and self.recipe.plan

    @property
    def learns_from_moments(self) -> bool:
        """Whether a recipe is to be fitted."""
        return self.recipe is not None and self.recipe.steps is not None

    @property
    def learns_from_rows(self) -> bool:
        """Whether landmarks, or a transformer of the user, are to be fitted to rows."""
        return self.kernel is not None or self.transformer is not None

    def most_features(self, n_columns: int, plan: ViewPlan | None = None) -> int:
        """Largest number of features before the fit; of columns for a transformer.

        Without a plan, it is not known whether there is free text, which counts as none.
        """
        if self.kernel is not None and self.kernel.n_landmarks is not None:
            return int(self.kernel.n_landmarks)
        most = n_columns * (MOST_CATEGORIES if self.has_plan else 1)
        if self.recipe is None or self.recipe.steps is None or self.recipe.n_components is None:
            return most
        most = most if plan is None else plan.n_encoded
        return min(most, self.recipe._most_components(free_text(plan) is not None))

    def fit(
        self, batch: Batch, plan: ViewPlan | None, device: str = CPU
    ) -> tuple[ViewFeatures, Any, Mask]:
        """Features fitted to all rows of a view, those of the rows, and which have it."""
        rows, present = self._first_rows(batch, plan)
        recipe, kernel = None, None
        with _errors_name(batch.origin):
            if self.learns_from_moments:
                assert self.recipe is not None
                recipe, rows = self.recipe.fit(rows, free_text(plan))
            if self.kernel is not None:
                kernel = self.kernel.fit(rows, device=device)
                rows = kernel.apply(rows)
        if self.learns_from_rows:
            after = Batch(rows, f"{batch.origin.table} after its features")
            check_not_tiny(after, column_sizes(rows))
        elif self.recipe is None:
            warn_of_scales(batch.take_rows(present), rows)
        return ViewFeatures(plan, recipe, kernel, self.transformer), rows, present

    def _first_rows(self, batch: Batch, plan: ViewPlan | None) -> tuple[Any, Mask]:
        """Numbers of training rows that have the view, before the recipe, and which these are."""
        if self.transformer is not None:
            given, present = _guest_rows(self.transformer, batch)
        else:
            rows, present = ViewFeatures(plan).rows(batch, judge=False)
        if not present.any():
            raise ValueError(f"{batch.origin}: missing in every row; leave the view out.")
        if self.transformer is not None:
            rows = _apply_guest(self.transformer, given, fit=True)
        elif plan is None:
            check_not_tiny(batch, column_sizes(rows))
        if self._has_counts:
            _check_histograms(batch, rows, present)
        return rows, present

    @property
    def _has_counts(self) -> bool:
        """Whether rows are histograms."""
        steps = None if self.recipe is None else self.recipe.steps
        return _compares_counts(self.kernel) if steps is None else RECIPES[steps].histogram

    def moments(self, batch: Batch, plan: ViewPlan | None) -> tuple[Moments | None, Mask]:
        """Moments of the rows of a chunk that have the view, and which rows these are."""
        if self.transformer is not None:
            return None, _guest_rows(self.transformer, batch)[1]
        options = {"judge": False, "in_blocks": not self._has_counts}
        rows, present = ViewFeatures(plan).rows(batch, **options)
        if not self.learns_from_moments or not present.any():
            return None, present
        recipe, table = self.recipe, batch.origin.table
        assert recipe is not None
        if self._has_counts:
            _check_histograms(batch, rows, present)
        if not isinstance(rows, ReadRows):
            return Moments.of(recipe._before_moments(rows), table), present
        # Histograms, which differ before their moments, are not in blocks.
        return Moments.of_blocks((block for _, block in rows.blocks()), table), present

    def fit_chunks(
        self,
        table: str,
        plan: ViewPlan | None,
        moments: Moments | None,
        sample: Batch | None,
    ) -> ViewFeatures:
        """Features fitted to the moments of all rows, and to a sample of rows as given."""
        recipe = None
        if self.learns_from_moments:
            assert self.recipe is not None and moments is not None
            if plan is None:
                ends = np.maximum(-moments.lowest, moments.highest)
                check_not_tiny(Batch(np.stack([moments.lowest, moments.highest]), table), ends)
            with _errors_name(Origin(table)):
                recipe = self.recipe._fit_moments(moments, free_text(plan))
        if not self.learns_from_rows:
            return ViewFeatures(plan, recipe)
        assert sample is not None
        if self.transformer is not None:
            rows, _ = self._first_rows(sample, None)
        else:
            rows, _ = ViewFeatures(plan, recipe).encode(sample, judge=False)
        with _errors_name(sample.origin):
            kernel = None if self.kernel is None else self.kernel.fit(rows)
        return ViewFeatures(plan, recipe, kernel, self.transformer)


def free_text(plan: ViewPlan | None) -> NDArray[np.intp] | None:
    """Number of the column of free text that each column of rows comes from, if there are some."""
    return None if plan is None else plan.free_text_of_encoded()


def _compares_counts(kernel: Kernel | KernelMap | None) -> bool:
    """Whether it is a kernel of histograms."""
    return kernel is not None and kernel.name in HISTOGRAM_KERNELS


def stated_text(features: Any) -> set[str]:
    """Columns that the parameter ``features`` states to be text, of any view."""
    given = features.values() if isinstance(features, Mapping) else [features]
    recipes = [each.recipe if isinstance(each, Kernel) else each for each in given]
    return {name for each in recipes if isinstance(each, Recipe) for name in each.text}


@contextmanager
def _errors_name(origin: Origin) -> Iterator[None]:
    """Context in which errors of a recipe or kernel begin with the name of the table."""
    where = origin.table or str(origin)
    try:
        yield
    except (ValueError, TypeError) as error:
        if str(error).startswith(where):
            raise
        raise type(error)(f"{where}: {error}") from error


def _check_histograms(batch: Batch, rows: Any, present: Mask) -> None:
    """Refuse negative numbers; the message names the cell if rows are those of the table."""
    own = rows.shape[1] == batch.shape[1]
    check_not_negative(batch.take_rows(present) if own else Batch(rows, batch.origin), rows)


# Transformers of the user.


def accepts_missing(transformer: Any) -> bool:
    """Whether a transformer accepts NaN, by its tags or those of its parts."""
    if isinstance(transformer, Pipeline):
        steps = [step for _, step in transformer.steps if step not in (None, "passthrough")]
        return not steps or accepts_missing(steps[0])
    if isinstance(transformer, ColumnTransformer):
        return True  # NaN may be in columns of a part that accepts them; other parts refuse them
    if isinstance(transformer, FeatureUnion):
        parts = [part for _, part in transformer.transformer_list]
        return all(part in ("drop", "passthrough") or accepts_missing(part) for part in parts)
    if isinstance(transformer, type) or not hasattr(transformer, "__sklearn_tags__"):
        return False
    tags = get_tags(transformer)
    return bool(tags.input_tags.allow_nan or tags.no_validation)


def _guest_rows(transformer: Any, batch: Batch) -> tuple[Batch, Mask]:
    """Rows that have the view, as a transformer of the user receives them, and which these are."""
    present = present_rows(batch, batch.missing, allow_missing=accepts_missing(transformer))
    return batch.take_rows(present), present


def _apply_guest(transformer: Any, rows: Batch, *, fit: bool) -> Any:
    """Numbers that a transformer of the user makes of rows, checked."""
    where = rows.origin.table
    try:
        features = (transformer.fit_transform if fit else transformer.transform)(rows.data)
    except (ValueError, TypeError) as error:
        _name_cell(rows, str(error))
        if "'y'" in str(error) or "requires y" in str(error):
            raise ValueError(
                f"{where}: {type(transformer).__name__} needs labels, but transformers are fitted "
                "on features alone."
            ) from error
        raise ValueError(f"{where}: {error}") from error
    made = Batch(features, rows.origin.of_table(f"{where} after its transformer"))
    if len(made) != len(rows):
        raise ValueError(f"{made.origin}: {len(made)} rows of {len(rows)} are left.")
    check_not_empty(made)
    numbers = made.numbers()
    check_finite(made, numbers)
    return numbers


def _name_cell(batch: Batch, refusal: str) -> None:
    """Raise an error that names the cell which a transformer refused without naming it."""
    numeric = batch if batch.frame is None else batch.select_columns(batch.numeric)
    if "infinity" in refusal and numeric.shape[1]:
        numbers = numeric.numbers()
        check_finite(numeric, np.where(np.isnan(numbers), 0, numbers))
    if "NaN" in refusal:
        present_rows(batch, batch.missing, allow_missing=False)
    if "Negative values" in refusal and numeric.shape[1]:
        check_not_negative(numeric, numeric.numbers())
    written = _NO_NUMBER.search(refusal)
    if written and batch.frame is not None:
        cells = {j: batch.cells(j) for j in range(batch.shape[1]) if j not in batch.numeric}
        found = [(i, j) for j in cells for i, c in enumerate(cells[j]) if repr(c) == written[1]]
        # A value that occurs in several columns may be allowed in the first.
        if len({j for _, j in found}) == 1:
            raise ValueError(
                f"{batch.place(*found[0])}: {written[1]} is not a number, as it was at the fit."
            )
