"""Columns that several views know, such as age and sex, as features of the rows of all views.

Columns are the same if they have the same name and kind. A number is measured in standard
deviations from its mean over all views, or over its own view where the views seem to have other
units or codes; a text becomes a column for each value that all views together have often. A view
that lacks a column has its mean. Few columns also get bends and products, so that risks may rise
faster with age, or differently for women and men.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import Matrix, as_dense
from naim3l._text import some
from naim3l._warnings import warn_user
from naim3l.features.plan import ColumnPlan, ViewPlan, categories_of
from naim3l.features.recipes import Moments
from naim3l.features.survey import DATE, TEXT, TableSurvey
from naim3l.files.stored import Array, ListOf, MapOf, Nested, Text
from naim3l.input.batches import Batch

# With more numbers than these, there are no bends and products. Bends are at so many standard
# deviations from the mean, beyond the last of which all numbers are equal.
MOST_BENT = 12
BENDS, LARGEST_NUMBER = (-1.0, -0.5, 0.0, 0.5, 1.0), 4.0
# Views seem to have different units if the mean of each is outside the range of the other, or if
# means and ranges both differ by this factor; with fewer rows than these nobody can tell.
OTHER_UNIT, ENOUGH_ROWS = 5.0, 10
# The values of text in a view seem to be other codes if fewer of its cells are known elsewhere.
LEAST_COMMON = 0.1
MOST_NAMED = 6  # in a warning
_CURE = (
    "keep such columns apart, with shared=False of Recipe in Python, or shared = false in the "
    "settings."
)


@dataclass(frozen=True)
class SharedPart:
    """The shared columns of one view, and how their numbers are scaled."""

    plan: Annotated[ViewPlan, Nested(ViewPlan)]  # as in the view, with the categories of all views
    # Positions among the columns that the view uses, (n_columns,).
    at: Annotated[NDArray[np.intp], Array("iu", "own columns")]
    # Of its numbers among those of all views, (n_own,).
    into: Annotated[NDArray[np.intp], Array("iu", "own")]
    mean: Annotated[NDArray[np.float64], Array("f", "own")]  # (n_own,)
    scale: Annotated[NDArray[np.float64], Array("f", "own", above=0)]

    def _check_stored(self) -> None:
        """Refuse positions of other columns than those of the plan."""
        if len(self.at) != len(self.plan.columns) or len(self.into) != self.plan.n_encoded:
            raise ValueError("positions of shared columns do not match their plan.")

    def numbers(self, batch: Batch) -> Matrix:
        """Numbers of the columns, (n_rows, n_own), of all rows of a batch of the view."""
        return as_dense(self.plan.encode_rows(batch.select_columns(self.at.tolist())))


@dataclass(frozen=True)
class SharedColumns:
    """Columns that at least two views have, and the features that they become in all views."""

    columns: Annotated[list[str], ListOf(Text(), "shared columns")]  # names
    # Names of the numbers that they become, such as "age" and "sex_female".
    numbers: Annotated[list[str], ListOf(Text(), "numbers")]
    # Position among the columns of the one that each number comes from.
    source: Annotated[NDArray[np.intp], Array("iu", "numbers")]
    # Whether a number is 1 for a value of text, and 0 for others.
    is_value: Annotated[NDArray[np.bool_], Array("b", "numbers")]
    # By view that has some of the columns.
    parts: Annotated[dict[str, SharedPart], MapOf(Nested(SharedPart))]

    def _check_stored(self) -> None:
        """Refuse positions beyond the columns and the numbers."""
        ends = [(self.source, len(self.columns))]
        ends += [(part.into, len(self.numbers)) for part in self.parts.values()]
        if any(len(at) and not (at.min() >= 0 and at.max() < most) for at, most in ends):
            raise ValueError("a position of a shared column is beyond the last.")

    @cached_property
    def products(self) -> list[tuple[int, int]]:
        """Pairs of numbers from different columns that are multiplied."""
        if len(self.numbers) > MOST_BENT:
            return []
        pairs = combinations(range(len(self.numbers)), 2)
        return [(i, j) for i, j in pairs if self.source[i] != self.source[j]]

    @cached_property
    def bent(self) -> NDArray[np.intp]:
        """Numbers that have bends."""
        few = len(self.numbers) <= MOST_BENT
        return np.flatnonzero(~self.is_value if few else np.zeros_like(self.is_value))

    @cached_property
    def n_features(self) -> int:
        """Number of features: numbers, bends and products."""
        return len(self.numbers) + len(self.bent) * len(BENDS) + len(self.products)

    def encode(self, view: str, batch: Batch) -> Matrix:
        """Features (n_rows, n_features) of all rows of a batch of a view."""
        return self._features(self._numbers(view, batch))

    def _numbers(self, view: str, batch: Batch) -> Matrix:
        Z = np.zeros((len(batch), len(self.numbers)))
        if len(batch) and (part := self.parts.get(view)) is not None:
            Z[:, part.into] = (part.numbers(batch) - part.mean) / part.scale
        return np.clip(Z, -LARGEST_NUMBER, LARGEST_NUMBER)

    def _features(self, Z: Matrix) -> Matrix:
        bends = [np.maximum(Z[..., self.bent] - bend, 0.0) for bend in BENDS]
        products = [Z[..., [i]] * Z[..., [j]] for i, j in self.products]
        return np.concatenate([Z, *bends, *products], axis=-1)

    def add_up(self, view: str, batch: Batch, weights: Matrix) -> Matrix:
        """What each column adds to weighted features of a view, (n_rows, n_columns, n_labels).

        They are differences from a row with the means of the view's numbers, and, of text, of all
        views, so that a missing number, and a column that the view lacks, add nothing.
        """
        own = self.source == np.arange(len(self.columns))[:, None]
        Z, usual = self._numbers(view, batch)[:, None], self._usual(view)
        # The Shapley value of products of two: the mean of what a column adds first, and last.
        alone, others = np.where(own, Z, usual), np.where(own, usual, Z)
        whole = self._features(Z) - self._features(usual)
        return np.asarray((self._features(alone) - self._features(others) + whole) / 2 @ weights)

    def _usual(self, view: str) -> Matrix:
        """Numbers (n_numbers,) of a row with the means of a view."""
        usual = np.zeros(len(self.numbers))
        if (part := self.parts.get(view)) is not None:
            means, at = part.plan.means, slice(len(part.plan.means))
            usual[part.into[at]] = (means - part.mean[at]) / part.scale[at]
        return np.clip(usual, -LARGEST_NUMBER, LARGEST_NUMBER)

    def moments(self, view: str, batch: Batch) -> Moments | None:
        """Moments of the numbers of a view's rows, before they are scaled."""
        part = self.parts.get(view)
        return None if part is None else Moments.of(part.numbers(batch), batch.origin.table)

    def scaled(self, moments: Mapping[str, Moments]) -> "SharedColumns":
        """The columns with means and scales from the moments of each part; warns of units."""
        n = len(self.numbers)
        counts, means, variances, low, high = (np.zeros((len(moments), n)) for _ in range(5))
        for v, (view, of) in enumerate(moments.items()):
            at = self.parts[view].into
            counts[v, at], means[v, at] = of.n_rows, of.mean
            variances[v, at] = np.diag(of.scatter) / max(of.n_rows, 1)
            low[v, at], high[v, at] = of.lowest, of.highest
        dated = np.array([self._kind(j) == DATE for j in range(len(self.columns))])[self.source]
        apart = ~self.is_value & ~dated & _other_units(counts, means, low, high)
        self._warn_of_units(apart, list(moments), counts, means)
        share = counts / np.maximum(counts.sum(axis=0), 1)
        pooled = (share * means).sum(axis=0)
        variance = (share * (variances + (means - pooled) ** 2)).sum(axis=0)
        parts = {}
        for v, view in enumerate(moments):
            at = self.parts[view].into
            mean = np.where(apart, means[v], pooled)[at]
            scale = np.sqrt(np.where(apart, variances[v], variance))[at]
            parts[view] = replace(
                self.parts[view], mean=mean, scale=np.where(scale > 0, scale, 1.0)
            )
        return replace(self, parts=parts)

    def _kind(self, j: int) -> str:
        """Kind of a column."""
        name = self.columns[j]
        every = (column for part in self.parts.values() for column in part.plan.columns)
        return next(column.kind for column in every if column.name == name)

    def _warn_of_units(self, apart: Any, views: list[str], counts: Matrix, means: Matrix) -> None:
        found = []
        for j in np.flatnonzero(apart):
            here = np.flatnonzero(counts[:, j])
            of_views = ", ".join(f"{means[v, j]:.4g} in view {views[v]!r}" for v in here)
            found.append(f"column {self.numbers[j]!r} has means of {of_views}")
        if found:
            warn_user(
                f"shared columns: {some(found, MOST_NAMED, str)}. The views seem to have other "
                "units or codes, and are scaled one by one. Convert them to the same unit, or "
                f"{_CURE}"
            )


def _other_units(counts: Matrix, means: Matrix, low: Matrix, high: Matrix) -> NDArray[np.bool_]:
    """Whether two views seem to have other units of a number, (n_numbers,), from (n_views, ...)."""
    found, width = np.zeros(means.shape[1], dtype=bool), high - low
    for u, v in combinations(range(len(means)), 2):
        outside = ((means[u] < low[v]) | (means[u] > high[v])) & (
            (means[v] < low[u]) | (means[v] > high[u])
        )
        several = [np.sort(np.abs([of[u], of[v]]), axis=0) for of in (means, width)]
        factor = np.all([large > OTHER_UNIT * small for small, large in several], axis=0)
        enough = np.minimum(counts[u], counts[v]) >= ENOUGH_ROWS
        found |= enough & (outside | factor)
    return found


Found = dict[str, tuple[int, ColumnPlan]]  # by view, position and plan of a column


def find_shared(
    plans: Mapping[str, ViewPlan | None],
    surveys: Mapping[str, TableSurvey],
    allowed: Mapping[str, bool | Collection[str]],
) -> SharedColumns | None:
    """The columns of at least two views, not scaled yet; None if there are none.

    ``allowed`` says of each view which of its columns may be shared: all, none, or those named.
    """
    planned = dict[str, Found]()
    for name, of_views in _columns_by_name(plans, surveys, allowed).items():
        of_views = _of_one_kind(of_views)
        if len(of_views) > 1 and _has_values(_first(of_views)):
            of_views = _with_categories(name, of_views, surveys)
        if len(of_views) > 1:
            planned[name] = of_views
    if not planned:
        return None
    whole = ViewPlan([_first(of_views) for of_views in planned.values()], [])
    source, parts = whole.source_of_encoded(), dict[str, SharedPart]()
    for view in plans:
        own = {k: of[view] for k, of in enumerate(planned.values()) if view in of}
        if own:
            positions = np.array([j for j, _ in own.values()], dtype=np.intp)
            into = np.flatnonzero(np.isin(source, list(own)))
            plan = ViewPlan([column for _, column in own.values()], [])
            parts[view] = SharedPart(plan, positions, into, np.zeros(len(into)), np.ones(len(into)))
    is_value = np.array([*map(_has_values, whole.columns)])[source]
    return SharedColumns(list(planned), whole.encoded_names(), source, is_value, parts)


def _first(of_views: Found) -> ColumnPlan:
    return next(iter(of_views.values()))[1]


def _has_values(column: ColumnPlan) -> bool:
    return column.kind == TEXT and not column.units


def _columns_by_name(
    plans: Mapping[str, ViewPlan | None],
    surveys: Mapping[str, TableSurvey],
    allowed: Mapping[str, bool | Collection[str]],
) -> dict[str, Found]:
    """Named columns that are neither constant nor free text, and may be shared."""
    found = dict[str, Found]()
    for view, plan in plans.items():
        if plan is None or surveys[view].columns is None:
            continue
        may = allowed[view]
        for j, column in enumerate(plan.columns):
            usable = not (column.constant or column.is_free_text)
            if usable and (may if isinstance(may, bool) else column.name in may):
                found.setdefault(column.name, {})[view] = j, column
    return found


def _of_one_kind(of_views: Found) -> Found:
    """Those of the kind, and units, that most views have; truth values are numbers."""
    kinds = {
        v: (of.kind if of.kind in (TEXT, DATE) else "", *(of.units or ()))
        for v, (_, of) in of_views.items()
    }
    usual = max(kinds.values(), key=list(kinds.values()).count)
    return {view: of for view, of in of_views.items() if kinds[view] == usual}


def _with_categories(name: str, of_views: Found, surveys: Mapping[str, TableSurvey]) -> Found:
    """Columns of text with the categories of all views, without views that have other values."""
    counts, n_missing = dict[str, Counter[Any]](), dict[str, int]()
    for view in of_views:
        survey = surveys[view]
        assert survey.columns is not None
        j = survey.columns.index(name)
        counts[view] = Counter(survey.cells[j].texts.counts or {})
        n_missing[view] = max(survey.rows.n_present - int(survey.n_known[j]), 0)
    others = {
        view: set().union(*(of for other, of in counts.items() if other != view)) for view in counts
    }
    known = {v: sum(n for value, n in of.items() if value in others[v]) for v, of in counts.items()}
    strange = [v for v, of in counts.items() if known[v] < LEAST_COMMON * sum(of.values())]
    if strange:
        examples = ", ".join(
            f"{some(sorted(counts[view], key=str), 3)} in view {view!r}" for view in of_views
        )
        warn_user(
            f"shared columns: column {name!r} has the values {examples}, of which "
            f"{some(strange, 4)} shares almost none with others, so that it is kept apart there. "
            f"If they mean the same, give them the same values; otherwise {_CURE}"
        )
    kept = [view for view in of_views if view not in strange]
    total = sum((counts[view] for view in kept), Counter[Any]())
    values, n_rare = categories_of(total, sum(n_missing[view] for view in kept))
    return {
        view: (j, replace(column, categories=values, n_rare=n_rare))
        for view, (j, column) in of_views.items()
        if view in kept
    }
