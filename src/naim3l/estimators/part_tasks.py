"""Tasks of the passes over tables in parts, which workers run.

A task holds no more of a model than it needs. Its result for a part has results by view; those of
two parts can be combined.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import Mask
from naim3l.features.cell_encoder import CellEncoder
from naim3l.features.encoding import ViewFeatures
from naim3l.features.part_fits import PartFit
from naim3l.features.survey import TableSurvey
from naim3l.input.labels import seen_values
from naim3l.input.numeric import present_rows
from naim3l.input.places import Place, naming
from naim3l.input.streams import PartReader
from naim3l.input.tables import Table
from naim3l.input.views import FUSED
from naim3l.problem.row_sums import LabelCounts, PartStatistics
from naim3l.problem.sampling import RowSample, entry_folds

# Rows of each table whose held-out entries decide on parameters, thresholds and probabilities, and
# to which transformers are fitted that need the rows themselves.
SAMPLE_ROWS = 50_000

# Key of the counts of a wide table; no view can have it.
COUNTS = FUSED

ByView = Mapping[str, Any]


class Numbering(NamedTuple):
    """Numbers of the rows of a table in parts.

    Attributes
    ----------
    starts : ndarray of int, of shape (n_parts + 1,)
        Number of the first row of each part, and the number of all rows.
    seed, view : int
        Of the hashes of rows.
    """

    starts: NDArray[np.int64]
    seed: int
    view: int

    def rows(self, i: int, present: Mask) -> NDArray[np.int64]:
        """Numbers of the rows of a part that are marked."""
        return np.asarray(self.starts[i] + np.flatnonzero(present))

    def sample(self, i: int, present: Mask, arrays: tuple[Any, ...]) -> RowSample:
        """Sample of the marked rows of a part, of which ``arrays`` has what is kept."""
        n_rows = int(self.starts[-1])
        rows = self.rows(i, present)
        return RowSample.of(SAMPLE_ROWS, self.seed, self.view, rows, arrays, n_rows=n_rows)

    def folds(self, n_folds: int, rows: NDArray[np.int64], Y: NDArray[np.int8]) -> NDArray[np.int8]:
        """Fold of each label entry of some rows."""
        return entry_folds(n_folds, self.seed, self.view, rows, Y)


class Surveyed(NamedTuple):
    """Results of the first pass.

    Attributes
    ----------
    lengths : list of int
        Rows of each part.
    tables : dict of str to TableSurvey
        By view, for views whose columns are judged.
    seen : dict of str to (ndarray, ndarray)
        By view, whether each label is observed positive and negative, (n_labels,) each.
    n_without : int
        Number of rows without any view.
    cautions : list of str
        What to warn of, at most one.
    """

    lengths: list[int]
    tables: dict[str, TableSurvey]
    seen: dict[str, tuple[Mask, Mask]]
    n_without: int = 0
    cautions: list[str] = []  # noqa: RUF012

    def combine(self, other: "Surveyed") -> "Surveyed":
        return Surveyed(
            self.lengths + other.lengths,
            combine_views(self.tables, other.tables),
            combine_views(self.seen, other.seen, _either),
            self.n_without + other.n_without,
            (self.cautions + other.cautions)[:1],
        )


def _either(a: Any, b: Any) -> Any:
    return tuple(x | y for x, y in zip(a, b, strict=True))


def combine_views(a: ByView, b: ByView, combine: Callable[..., Any] | None = None) -> dict:
    """Results of two parts by view; a part may lack a view."""
    merged = dict(a)
    for view, result in b.items():
        if view not in merged:
            merged[view] = result
        else:
            merged[view] = (
                merged[view].combine(result) if combine is None else combine(merged[view], result)
            )
    return merged


@dataclass(frozen=True)
class SurveyTask:
    """First pass over a part: its length, its labels, and its columns if they are judged."""

    reader: PartReader
    encoders: Mapping[str, tuple[CellEncoder, bool]]  # by view, and whether columns are set aside
    places: list[Place]
    label_places: list[Place]

    def __call__(self, i: int, part: Any, labels: Any) -> Surveyed:
        n_rows = _n_rows(part)
        with naming([self.label_places[i]]):
            signed = self.reader.signed(labels, n_rows)
        if not n_rows:
            return Surveyed([0], {}, {})
        caution = self.reader.compare_indexes(part, labels)
        surveys, seen, anywhere = {}, {}, np.zeros(n_rows, dtype=bool)
        for view, table in self.reader.tables(part).items():
            present = present_rows(table, allow_missing=True)
            anywhere |= present
            if present.any():
                seen[view] = seen_values(signed[present])
            if view in self.encoders:
                encoder, aside = self.encoders[view]
                table.origin = self.places[i]
                surveys[view] = TableSurvey.of(table, text=encoder.text, aside=aside)
        n_without = int((~anywhere).sum())
        return Surveyed([n_rows], surveys, seen, n_without, [caution] if caution else [])


@dataclass(frozen=True)
class MomentsTask:
    """Second pass over a part: moments of columns, and a sample of rows as they are given."""

    reader: PartReader
    fits: dict[str, PartFit]
    numbering: Numbering
    sampled: bool

    def __call__(self, i: int, part: Any, labels: Any) -> dict[str, tuple[Any, Any]]:
        results, tables = {}, _tables(self.reader, part)
        if self.sampled:
            signed = self.reader.signed(labels, _n_rows(part))
        for view, table in tables.items():
            moments, present = self.fits[view].moments(table)
            if present.any():
                sample = None
                if self.sampled:
                    kept = table.take_rows(present), signed[present]
                    sample = self.numbering.sample(i, present, kept)
                results[view] = moments, sample
        return results


def combine_pairs(a: ByView, b: ByView) -> dict[str, Any]:
    """Results of two parts, which are pairs by view."""
    return combine_views(a, b, _pairwise)


def _pairwise(a: Any, b: Any) -> Any:
    return tuple(None if x is None else x.combine(y) for x, y in zip(a, b, strict=True))


@dataclass(frozen=True)
class StatisticsTask:
    """Last pass over a part: statistics of its features and labels, and a sample of both."""

    reader: PartReader
    features: dict[str, ViewFeatures]
    numbering: Numbering
    n_folds: int
    options: dict[str, Any]

    def __call__(self, i: int, part: Any, labels: Any) -> dict[str, tuple[Any, Any]]:
        results: dict[str, tuple[Any, Any]] = {}
        tables = _tables(self.reader, part)
        if not tables:
            return results
        n_rows = _n_rows(part)
        signed, anywhere = self.reader.signed(labels, n_rows), np.zeros(n_rows, dtype=bool)
        for view, table in tables.items():
            X, present = self.features[view].encode(table)
            if not present.any():
                continue
            anywhere |= present
            Y = signed[present]
            folds = self._folds(i, present, Y)
            statistics = PartStatistics.of(X, Y, folds, n_folds=self.n_folds, **self.options)
            # Only held-out entries are judged on single rows.
            kept = (X, Y) if self.n_folds else (X[:0], Y[:0])
            marked = present if self.n_folds else np.zeros_like(present)
            results[view] = statistics, self.numbering.sample(i, marked, kept)
        if self.reader.reader.wide and anywhere.any():
            Y = signed[anywhere]
            folds = self._folds(i, anywhere, Y)
            results[COUNTS] = LabelCounts.of(Y, folds, n_folds=self.n_folds), None
        return results

    def _folds(self, i: int, marked: Mask, Y: NDArray[np.int8]) -> NDArray[np.int8] | None:
        if not self.n_folds:
            return None
        return self.numbering.folds(self.n_folds, self.numbering.rows(i, marked), Y)


def _tables(reader: PartReader, part: Any) -> dict[str, Table]:
    """Table of each view in a part; none if it has no rows."""
    return reader.tables(part) if _n_rows(part) else {}


def _n_rows(part: Any) -> int:
    return int(part.shape[0])
