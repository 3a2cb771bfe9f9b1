"""Statistics of rows that add up, by a plan: sums, and what is kept of single rows."""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import ArrayFields
from naim3l._text import some
from naim3l._warnings import warn_user
from naim3l.estimators.plans import ColumnPlan, Path_, save_file
from naim3l.features.survey import combine_items
from naim3l.files import stored
from naim3l.files.stored import Array, ArraysOf, Flag, ListOf, MapOf, Nested, OneOf, Whole
from naim3l.input.views import FUSED, MOST_SHOWN, rows_without_view
from naim3l.problem.sampling import RowSample
from naim3l.problem.shareable import GramStatistics
from naim3l.problem.sufficient_statistics import LabelCounts, RowStatistics

COUNTS = FUSED  # key of the counts of a wide table; no view can have it
COMMON = "shared columns of "  # before the name of a view, of the sums over these columns
STATISTICS_FORMAT = ("naim3l statistics", 1, 1)


@dataclass(frozen=True)
class RowsWithout(ArrayFields):
    """Rows of a wide table that have no view at all: how many, and the numbers of the first."""

    n: int
    first: NDArray[np.int64]

    @classmethod
    def of(cls, rows: NDArray[np.integer]) -> "RowsWithout":
        return cls(len(rows), rows[:MOST_SHOWN].astype(np.int64))

    def combine(self, other: "RowsWithout") -> "RowsWithout":
        first = np.concatenate([self.first, other.first])[:MOST_SHOWN]
        return RowsWithout(self.n + other.n, first)

    def warn(self) -> None:
        if self.n:
            warn_user(f"{rows_without_view(self.n, self.first.tolist())} and are left out.")


_COUNTS = {name: Array("i", "cells", "labels", low=0) for name in ("n_known", "n_positives")}
_SUMS = {
    "n_rows": Array("i", low=0),
    "gram": Array("f", "columns", "columns"),
    "known_grams": Array("f", "cells", "labels", "columns", "columns"),
    "targets": Array("f", "cells", "columns", "labels"),
    "positive_sums": Array("f", "cells", "columns", "labels"),
    "factors": Array("f", "factor rows", "columns"),
    "heights": Array("i", "cells", "labels", low=0),
    **_COUNTS,
    "free_grams": Array("f", "sets", "labels", "columns", "columns"),
    "n_free": Array("i", "sets", "labels", low=0),
}
_GRAMS = {
    "n_rows": Array("i", low=0),
    "gram": Array("f", "columns", "columns"),
    **dict.fromkeys(("known_grams", "positive_grams"), Array("f", "labels", "columns", "columns")),
    **dict.fromkeys(("targets", "positive_sums"), Array("f", "columns", "labels")),
    **dict.fromkeys(("n_known", "n_positives"), Array("i", "labels", low=0)),
}
_ROWS = {
    "limit": Array("i", low=0),
    "rows": Array("i", "rows", low=0),
    "hashes": Array("u", "rows"),
    "highest": Array("iu", low=0),
    "arrays0": Array("f", "rows", "features"),
}
_LABELLED = {"arrays1": Array("i", "rows", "labels", low=-1, high=1), "arrays2": Array("u", "rows")}
_WITHOUT = {"n": Array("i", low=0), "first": Array("i", "first", low=0)}
# Results of the last pass, by what they are.
_KINDS: dict[str, Any] = {
    "sums": ArraysOf(RowStatistics, _SUMS),
    "products": ArraysOf(GramStatistics, _GRAMS),
    "sample": ArraysOf(RowSample, _ROWS | _LABELLED),
    "shared columns": ArraysOf(RowSample, _ROWS),
    "counts": ArraysOf(LabelCounts, _COUNTS),
    "without": ArraysOf(RowsWithout, _WITHOUT),
}
Found = dict[str, tuple[Any, ...]]  # results of the last pass over some rows, by view


def combine_pairs(a: Found, b: Found) -> Found:
    """Results of two batches, which are pairs by view."""

    def combine(a: Any, b: Any) -> Any:
        pairs = zip(a, b, strict=True)
        return tuple(y if x is None else x if y is None else x.combine(y) for x, y in pairs)

    return combine_items(a, b, combine)


@dataclass(frozen=True, eq=False, repr=False)
class Statistics:
    """Sums over rows, with what is needed to fit a model to them and to others.

    Attributes
    ----------
    plan : ColumnPlan
        By which the rows were encoded.
    sources : dict of str to dict of str to int
        Names of the sources, and how many rows each has of each view.
    found : dict of str to tuple
        Sums, and a sample of rows, by view.
    shareable : bool
        Whether there are sums only, none of few rows, see `naim3l.statistics.collect`.

    Examples
    --------
    See `naim3l.statistics.collect`.
    """

    plan: Annotated[ColumnPlan, Nested(ColumnPlan)]
    sources: Annotated[dict[str, dict[str, int]], MapOf(MapOf(Whole(0)))]
    found: Annotated[Found, MapOf(ListOf(OneOf(_KINDS), as_tuple=True))]
    shareable: Annotated[bool, Flag()] = False

    def __repr__(self) -> str:
        kind = "shareable statistics" if self.shareable else "statistics"
        return f"<{kind} of {some(list(self.sources))}, plan {self.plan.fingerprint}>"

    def __add__(self, other: "Statistics") -> "Statistics":
        if not isinstance(other, Statistics):
            return NotImplemented
        mine, its = (some(list(of.sources), 4) for of in (self, other))
        self.plan._check_same(other.plan, mine, its)
        if self.shareable != other.shareable:
            which, rest = (mine, its) if self.shareable else (its, mine)
            raise ValueError(
                f"{which} has shareable statistics, and {rest} has not: collect all sources alike."
            )
        if twice := self.sources.keys() & other.sources.keys():
            raise ValueError(f"source {min(twice)!r} is in both; add each source once.")
        found = combine_pairs(self.found, other.found)
        return replace(self, sources=self.sources | other.sources, found=found)

    def __sub__(self, other: "Statistics") -> "Statistics":
        if not isinstance(other, Statistics):
            return NotImplemented
        mine, its = (some(list(of.sources), 4) for of in (self, other))
        if not (self.shareable and other.shareable):
            raise ValueError(
                f"{its} cannot be taken away from {mine}: these statistics have triangular factors "
                "and samples of rows, which are no sums. Keep one file for each source, and add up "
                "those that are wanted; or collect shareable statistics, which are sums."
            )
        self.plan._check_same(other.plan, mine, its)
        unknown = [of for of, n in other.sources.items() if self.sources.get(of) != n]
        sources = {of: n for of, n in self.sources.items() if of not in other.sources}
        if unknown or not sources:
            fault = f"{some(unknown)} is not among" if unknown else "nothing would be left of"
            raise ValueError(f"{fault} the sources {mine}.")
        found = dict(self.found)
        try:
            for key, (sums, *_) in other.found.items():
                mine_of = found[key]
                found[key] = (mine_of[0].minus(sums), *mine_of[1:])
        except (KeyError, ValueError) as error:
            fault = f"{its} are not the statistics that were added to {mine}"
            raise ValueError(f"{fault}: {error}") from error
        return replace(self, sources=sources, found=found)

    def _check_stored(self) -> None:
        """Refuse results that are not those of the plan."""
        plan, views = self.plan, self.plan.names.views
        cells = 1 if self.shareable else max(plan.n_folds, 1)
        keys = {*views, *(COMMON + view for view in views if plan.shared), COUNTS}
        if not (set(self.found) <= keys and self.sources):
            raise ValueError("its sums are not those of the views of the plan.")
        for key, given in self.found.items():
            kinds: Any = (GramStatistics,) if self.shareable else (RowStatistics, RowSample)
            if key == COUNTS:
                kinds = (LabelCounts, RowsWithout)
            if tuple(map(type, given)) != kinds:
                raise ValueError(f"what it has of {key!r} is of another kind.")
            counts = given[0] if key == COUNTS else given[0].counts
            if counts.n_known.shape != (cells, len(plan.names.labels)):
                raise ValueError(f"the sums of {key!r} are of other labels or folds.")
            if key != COUNTS:
                self._check_view(key, *given)

    def _check_view(self, key: str, sums: Any, sample: RowSample | None = None) -> None:
        """Refuse sums, and a sample, of a view or its shared columns that are not of the plan."""
        plan, view, d = self.plan, key.removeprefix(COMMON), len(sums.gram)
        n_columns, ones, n_sets = plan._n_columns(view), plan.parameters["fit_intercept"], 0
        if key == view:
            n_sets = (1 + plan.n_folds) * plan.free
        elif plan.shared is not None:
            n_columns, ones = plan.shared.n_features + 1, 1
        n_rows = sum(of.get(view, 0) for of in self.sources.values())
        fits = n_columns in (None, d) and sums.n_rows == n_rows
        if sample is not None:
            fits = fits and sums.heights.sum() == len(sums.factors)
            fits = fits and len(sums.free_grams) == n_sets
            fits = fits and sample.arrays[0].shape[1] == d - ones
            fits = fits and len(sample.arrays) == (3 if key == view else 1)
        if not fits:
            raise ValueError(f"rows or columns of {key!r} are not those of the plan.")

    def save(self, path: Path_) -> None:
        """Write the statistics, and their plan, to a file, completely or not at all.

        Parameters
        ----------
        path : str or path-like
            Such as "november.stats".

        Examples
        --------
        See `naim3l.statistics.collect`.
        """
        save_file(self, path, STATISTICS_FORMAT)

    @classmethod
    def load(cls, path: Path_, *, trusted: Iterable[str | type] = ()) -> "Statistics":
        """Statistics from a file that `save` wrote, checked; nothing in it is run.

        Parameters
        ----------
        path : str or path-like
            Path of the file. One that is damaged, or of another kind or version, is a
            ModelFileError.
        trusted : iterable of types or functions, or of their full names, default=()
            Types of transformers in the plan, as for `naim3l.load`.

        Returns
        -------
        Statistics
            As they were saved.

        Examples
        --------
        See `naim3l.statistics.collect`.
        """
        given: dict[str, Any] = {"trusted": trusted, "format": STATISTICS_FORMAT}
        return stored.read_model(path, {"Statistics": cls}, **given)

    def to_bytes(self) -> bytes:
        """The bytes of the file that `save` writes, to be sent elsewhere.

        Returns
        -------
        bytes
            For `from_bytes`.

        Examples
        --------
        See `naim3l.statistics.collect`.
        """
        with tempfile.TemporaryDirectory() as folder:
            self.save(path := Path(folder, "statistics"))
            return path.read_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, *, trusted: Iterable[str | type] = ()) -> "Statistics":
        """Statistics from bytes of `to_bytes`, checked as those of a file.

        Parameters
        ----------
        data : bytes
            Of a file.
        trusted : iterable of types or functions, or of their full names, default=()
            As for `load`.

        Returns
        -------
        Statistics
            As they were.

        Examples
        --------
        See `naim3l.statistics.collect`.
        """
        with tempfile.TemporaryDirectory() as folder:
            (path := Path(folder, "statistics")).write_bytes(data)
            return cls.load(path, trusted=trusted)

    @property
    def readable_rows(self) -> dict[str, int]:
        """Number of encoded rows of each view that can be read from these statistics."""
        found = dict.fromkeys(self.plan.names.views, 0)
        for view in [] if self.shareable else found:
            if view in self.found:
                sums, sample = self.found[view]
                few = sums.heights[sums.heights == sums.n_positives]  # rows, and no factors of them
                found[view] = max(len(sample.rows), int(few.max(initial=0)))
        return found


def combine(statistics: Sequence[Statistics]) -> Statistics:
    """The sum of several statistics, the same to the last bit as those of all rows at once.

    Parameters
    ----------
    statistics : sequence of Statistics
        By the same plan, of other sources each; others are a ValueError.

    Returns
    -------
    Statistics
        Neighbours are added, then neighbours of these, as the parts of one table are.

    Examples
    --------
    See `naim3l.statistics.collect`.
    """
    level = list(statistics)
    if not level:
        raise ValueError("there are no statistics to combine.")
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [pair[0] + pair[1] if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]


class LearnsFromStatistics:
    """Base of the methods that can be fitted to statistics of rows."""

    def _passes(self, learn: bool) -> dict[str, Any]:
        """What the last pass gathers, see `ChunkedTraining`, if decisions are to be learned."""
        raise NotImplementedError

    def _plan_columns(self: Any, X: Any, y: Any) -> ColumnPlan:
        decisions = self._check_parameters()
        given = self._passes(decisions._learn)
        return self._read_training(X, y, decisions, open_checkpoint=None, plan_only=True, **given)

    def fit_statistics(self, statistics: Statistics) -> Self:
        """Fit the model to statistics of rows, instead of the rows.

        Parameters
        ----------
        statistics : Statistics
            Of all rows, by a plan that was made with this estimator, see
            `naim3l.statistics.collect`. Parameters that contradict the plan are a ValueError.

        Returns
        -------
        self
            The fitted model. Weights are those of a fit to the same rows in the same parts.

        Examples
        --------
        >>> from naim3l import NAIM3L, datasets
        >>> from naim3l.statistics import ColumnPlan, collect
        >>> data = datasets.make_unpaired(200, n_labels=3, random_state=0)
        >>> model = NAIM3L(ridge=1.0)
        >>> plan = ColumnPlan.of(data.views, data.labels, estimator=model)
        >>> model.fit_statistics(collect(plan, data.views, data.labels)).converged_
        True
        """
        if not isinstance(statistics, Statistics):
            raise TypeError(f"expected Statistics, got {type(statistics).__name__}.")
        model: Any = self
        model._fit(statistics, None)
        return self
