"""From tables to the problem that a solver works on: survey, plan, features, labels.

A table in memory is one batch, and its rows become a `Problem`. Tables that are read in chunks are
read in two or three passes:

1. A survey: numbers of rows, words of labels, and kinds of columns.
2. If features are learned: means and variances of columns, and a sample of rows.
3. Statistics of features and labels by fold, and a sample of both.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from naim3l._arrays import ArrayFields, Mask
from naim3l._threads import blas_threads, thread_map
from naim3l._warnings import warn_user
from naim3l.decisions.held_out import Folds
from naim3l.features.encoding import FeatureSpec, ViewFeatures, stated_text
from naim3l.features.plan import ViewPlan, columns_of_several_types
from naim3l.features.survey import TableSurvey
from naim3l.input.batches import Batch, present_rows
from naim3l.input.chunks import memory_limit, n_workers
from naim3l.input.labels import (
    LabelDecoder,
    LabelSurvey,
    check_seen,
    compare_indexes,
    match_labels,
)
from naim3l.input.sources import MemoryTable, Table, all_chunked, open_tables
from naim3l.input.views import (
    FUSED,
    MOST_SHOWN,
    TableNames,
    is_separate,
    rows_without_view,
)
from naim3l.problem.cost_model import refuse_statistics
from naim3l.problem.rows import Problem
from naim3l.problem.sampled import SampledProblem
from naim3l.problem.sampling import ALL_BITS, RowSample, entry_folds
from naim3l.problem.sufficient_statistics import LabelCounts, RowStatistics

# Rows of each table whose held-out entries decide on parameters, thresholds and probabilities, and
# to which transformers are fitted that need the rows themselves.
SAMPLE_ROWS = 50_000
LARGEST_SEED = 2**31
COUNTS = FUSED  # key of the counts of a wide table; no view can have it
PASS = "statistics"  # of each view, by its position, among the parts of a checkpoint

ByView = Mapping[str, Any]


def read_training(
    model: Any,
    X: Any,
    y: Any,
    *,
    n_folds: int = 0,
    free: bool = False,
    refine: Callable[[Mapping[str, Batch], Folds], None] | None = None,
    open_checkpoint: Callable[[list[Any]], Any] | None = None,
) -> Problem | SampledProblem:
    """The problem of all views; sets the names, features and rates of a model.

    Parameters
    ----------
    model : ViewModel
    X, y
        As ``fit`` takes them.
    n_folds, free, refine, open_checkpoint
        For tables that are read in chunks, see `ChunkedTraining`; None if the model takes tables in
        memory only.
    """
    tables = open_tables(X, y, text=stated_text(model.features))
    names = TableNames.of(
        {name: table.meta for name, table in tables.items()},
        model.views,
        wide=not is_separate(X),
        owner=type(model).__name__,
    )
    specs = {view: model._spec(view) for view in names.views}
    if isinstance(model.features, Mapping) and (extra := set(model.features) - set(names.views)):
        raise ValueError(
            f"features: no views {sorted(extra, key=str)}; the data have {names.views}."
        )
    training = Training(model, tables, names, specs)
    if any(table.chunked for table in tables.values()):
        if open_checkpoint is None:
            raise TypeError(
                f"{type(model).__name__} takes tables in memory; NAIM3L and NAIM3LCV also take "
                "tables that are read in chunks, such as dask data frames and Parquet files."
            )
        chunked = ChunkedTraining(training, n_folds, free, refine)
        return chunked.read(open_checkpoint)
    training.judge()
    return training.problem()


class Surveyed(NamedTuple):
    """Results of the first pass over a table.

    Attributes
    ----------
    lengths : dict of int to int
        Rows of each part.
    tables : dict of str to TableSurvey
        By view, for views whose columns are judged.
    present : dict of str to int
        Number of rows that have each view.
    labels : LabelSurvey
    cautions : list of str
        What to warn of, at most one.
    """

    lengths: dict[int, int]
    tables: dict[str, TableSurvey]
    present: dict[str, int]
    labels: LabelSurvey
    cautions: list[str]

    def combine(self, other: "Surveyed") -> "Surveyed":
        lengths = dict(self.lengths)
        for part, n in other.lengths.items():
            lengths[part] = lengths.get(part, 0) + n
        return Surveyed(
            lengths,
            combine_views(self.tables, other.tables, TableSurvey.combine),
            combine_views(self.present, other.present, int.__add__),
            self.labels.combine(other.labels),
            (self.cautions + other.cautions)[:1],
        )


def combine_views(a: ByView, b: ByView, combine: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """Results of two batches by view; a batch may lack a view."""
    return {**a, **{v: combine(a[v], result) if v in a else result for v, result in b.items()}}


@dataclass(frozen=True)
class SurveyTask:
    """First pass over a batch: its length, its labels, and its columns if they are judged."""

    name: str
    names: TableNames
    specs: Mapping[str, FeatureSpec]
    cells: Mapping[str, list[int]]
    chunked: bool

    def __call__(self, part: int, row: int, features: Batch, labels: Batch | None) -> Surveyed:
        assert labels is not None
        present: dict[str, int] = {}
        surveys: dict[str, TableSurvey] = {}
        for view, batch in self.names.split(self.name, features).items():
            recipe = self.specs[view].recipe
            if recipe is not None and recipe.plan:
                survey = TableSurvey.of(batch, recipe.text, self.cells.get(view, ()))
                surveys[view], present[view] = survey, survey.rows.n_present
            else:
                rows = present_rows(batch, batch.missing(), allow_missing=True)
                present[view] = int(rows.sum())
        caution = None
        if self.chunked and len(features):  # of tables in memory, it was given when they were read
            caution = compare_indexes(features, labels, part=True)
        cautions = [caution] if caution else []
        return Surveyed({part: len(features)}, surveys, present, LabelSurvey.of(labels), cautions)


@dataclass
class Training:
    """The tables of a fit, and what is known about them.

    Attributes
    ----------
    model : ViewModel
    tables : dict of str to Table
        By view, or the one wide table.
    names : TableNames
    specs : dict of str to FeatureSpec
        By view.
    plans : dict of str to ViewPlan or None
        By view, once columns are judged.
    decoders : dict of str to LabelDecoder
        By table.
    positions : dict of str to list of int or None
        By table, the position of each label among its columns.
    lengths : dict of str to list of int
        By table, the number of rows of each part.
    """

    model: Any
    tables: dict[str, Table]
    names: TableNames
    specs: dict[str, FeatureSpec]
    plans: dict[str, ViewPlan | None] = field(default_factory=dict)
    decoders: dict[str, LabelDecoder] = field(default_factory=dict)
    positions: dict[str, list[int | None]] = field(default_factory=dict)
    lengths: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        metas = {name: table.label_meta for name, table in self.tables.items()}
        self.names.labels, self.positions = match_labels(
            {name: batch.columns for name, batch in metas.items() if batch is not None},
            {name: batch.shape[1] for name, batch in metas.items() if batch is not None},
        )
        self.names.labels_named = any(batch.columns for batch in metas.values() if batch)
        self.names.one_column = all(table.one_column for table in self.tables.values())
        self.names.warn_of_labels_among_features()
        self.model.names_, self.model.roles_ = self.names, {}

    def judge(self) -> None:
        """Survey all tables: the plan of each view, and the meaning of label words."""
        found = {name: self._survey(name) for name in self.tables}
        for name, surveyed in found.items():
            for view in self.names.views_of(name):
                if not surveyed.present.get(view):
                    raise ValueError(f"view {view!r}: missing in every row; leave the view out.")
            if surveyed.cautions:
                warn_user(surveyed.cautions[0])
            self.decoders[name] = LabelDecoder.of(surveyed.labels, self.tables[name].words)
        for name, surveyed in found.items():
            for view in self.names.views_of(name):
                self.plans[view] = None
                if view in surveyed.tables:
                    recipe = self.specs[view].recipe
                    assert recipe is not None
                    self.plans[view], used = ViewPlan.of(surveyed.tables[view], recipe.keep)
                    self.names.drop(view, used)

    def _survey(self, name: str) -> Surveyed:
        """Survey of a table; a second one if types of columns differ between batches."""
        found = self._survey_once(name, {})
        again = {v: columns_of_several_types(survey) for v, survey in found.tables.items()}
        if any(again.values()):
            names = {view: self.names.column_names(view) for view in again}
            text = {of[j] for view, of in names.items() if of for j in again[view]}
            self.tables[name] = self.tables[name].with_text(text)
            found = self._survey_once(name, again)
        self.lengths[name] = [found.lengths[part] for part in sorted(found.lengths)]
        return found

    def _survey_once(self, name: str, cells: Mapping[str, list[int]]) -> Surveyed:
        task = SurveyTask(name, self.names, self.specs, cells, self.tables[name].chunked)
        title = self.title("survey", name)
        return self.tables[name].fold(task, Surveyed.combine, title=title, shown=self.shown)

    @property
    def shown(self) -> bool:
        return bool(self.model.verbose)

    def title(self, what: str, table: str) -> str:
        """Name of a pass on the progress bar."""
        return what if len(self.tables) == 1 else f"{what} of {table}"

    def _in_order(self, name: str, values: NDArray) -> NDArray:
        """Values by label, (..., n_labels), in the order of all labels; 0 for those it lacks."""
        padded = np.concatenate([values, np.zeros_like(values[..., :1])], axis=-1)
        return padded[..., [-1 if at is None else at for at in self.positions[name]]]

    def signed(self, name: str, labels: Batch) -> NDArray[np.int8]:
        """Labels of a batch of a table as 1, -1 and 0, (n_rows, n_labels)."""
        return self._in_order(name, self.decoders[name].decode(labels))

    def problem(self) -> Problem:
        """The problem of tables in memory."""
        batches, signed = dict[str, Batch](), dict[str, NDArray[np.int8]]()
        for name, table in self.tables.items():
            assert isinstance(table, MemoryTable) and table.labels is not None
            of_table = self.signed(name, table.labels)
            for view, batch in self.names.split(name, table.features).items():
                batches[view], signed[view] = batch, of_table
        fitted = self._fit_features(batches)
        model, names = self.model, self.names
        model.features_ = {view: fitted[view][0] for view in names.views}
        present = {view: fitted[view][2] for view in names.views}
        self._check_rows(present, signed)
        problem = Problem(
            [fitted[view][1] for view in names.views],
            [signed[view][present[view]] for view in names.views],
            names=names.views,
            samples=np.concatenate([np.flatnonzero(rows) for rows in present.values()])
            if names.wide
            else None,
            fit_intercept=model.fit_intercept,
            positive_weight=model.positive_weight,
        )
        self.keep_rates(problem)
        return problem

    def _check_rows(
        self, present: Mapping[str, Mask], signed: Mapping[str, NDArray[np.int8]]
    ) -> None:
        """Refuse views in which no label is known, and warn of rows without any view."""
        if self.names.wide:
            lacking = np.flatnonzero(~np.any(list(present.values()), axis=0))
            RowsWithout.of(lacking).warn()
        observed = {view: signed[view][rows] for view, rows in present.items()}
        seen = {
            view: (np.asarray((Y > 0).any(axis=0)), np.asarray((Y < 0).any(axis=0)))
            for view, Y in observed.items()
        }
        check_seen(seen, self.names.labels, wide=self.names.wide)

    def keep_rates(self, problem: Problem | SampledProblem) -> None:
        """Set the shares of positives of each label, in all views and by view."""
        self.model.base_rates_ = problem.base_rates
        self.model.view_rates_ = dict(zip(self.names.blocks, problem.table_rates, strict=True))

    def _fit_features(
        self, batches: Mapping[str, Batch]
    ) -> dict[str, tuple[ViewFeatures, Any, Mask]]:
        """Fitted features of all views, features of their rows, and which rows these are."""

        def fit(view: str) -> tuple[ViewFeatures, Any, Mask]:
            return self.specs[view].fit(batches[view], self.plans[view], self.model.device)

        n_threads = min(blas_threads(), len(batches))
        if any(spec.has_plan or spec.learns_from_rows for spec in self.specs.values()):
            n_threads = 1  # cells are read in Python, and code of users need not be safe in threads
        # The largest first, so that threads end together.
        views = sorted(batches, key=lambda view: -math.prod(batches[view].shape))
        found = thread_map(fit, views, n_threads) if n_threads > 1 else [fit(v) for v in views]
        return dict(zip(views, found, strict=True))


@dataclass(frozen=True)
class RowsWithout(ArrayFields):
    """Rows of a wide table that have no view at all: how many, and the numbers of the first."""

    n: int
    first: NDArray[np.int64]

    @classmethod
    def of(cls, rows: NDArray[np.integer]) -> "RowsWithout":
        """From the numbers of such rows."""
        return cls(len(rows), rows[:MOST_SHOWN].astype(np.int64))

    def combine(self, other: "RowsWithout") -> "RowsWithout":
        """These rows, followed by others."""
        first = np.concatenate([self.first, other.first])[:MOST_SHOWN]
        return RowsWithout(self.n + other.n, first)

    def warn(self) -> None:
        """Warn of the rows, if there are some."""
        if self.n:
            warn_user(f"{rows_without_view(self.n, self.first.tolist())} and are left out.")


class Numbering(NamedTuple):
    """Numbers of the rows of a table that is read in chunks.

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

    def rows(self, part: int, row: int, present: Mask) -> NDArray[np.int64]:
        """Numbers of the rows of a batch that are marked."""
        return np.asarray(self.starts[part] + row + np.flatnonzero(present))

    def sample(self, rows: NDArray[np.int64], arrays: tuple[Any, ...]) -> RowSample:
        """Sample of rows with these numbers, of which ``arrays`` has what is kept."""
        n_rows = int(self.starts[-1])
        return RowSample.of(SAMPLE_ROWS, self.seed, self.view, rows, arrays, n_rows=n_rows)

    def folds(self, n_folds: int, rows: NDArray[np.int64], Y: NDArray[np.int8]) -> NDArray[np.int8]:
        """Fold of each label entry of some rows."""
        return entry_folds(n_folds, self.seed, self.view, rows, Y)


@dataclass(frozen=True)
class ChunkReader:
    """What a task needs to know about a table to read its batches."""

    name: str
    names: TableNames
    decoder: LabelDecoder
    positions: list[int | None]

    def signed(self, labels: Batch) -> NDArray[np.int8]:
        signed = np.pad(self.decoder.decode(labels), [(0, 0), (0, 1)])
        return signed[:, [-1 if at is None else at for at in self.positions]]


@dataclass(frozen=True)
class MomentsTask:
    """Second pass over a batch: moments of columns, and a sample of rows as they are given."""

    reader: ChunkReader
    specs: Mapping[str, FeatureSpec]
    plans: Mapping[str, ViewPlan | None]
    numbering: Numbering
    sampled: bool

    def __call__(self, part: int, row: int, features: Batch, labels: Batch) -> dict[str, Any]:
        results = {}
        signed = self.reader.signed(labels) if self.sampled else None
        for view, batch in self.reader.names.split(self.reader.name, features).items():
            moments, present = self.specs[view].moments(batch, self.plans[view])
            if not present.any():
                continue
            sample = None
            if signed is not None:
                kept = batch.take_rows(present).data, signed[present]
                sample = self.numbering.sample(self.numbering.rows(part, row, present), kept)
            results[view] = moments, sample
        return results


@dataclass(frozen=True)
class StatisticsTask:
    """Last pass over a batch: statistics of its features and labels, and a sample of both."""

    reader: ChunkReader
    features: Mapping[str, ViewFeatures]
    numbering: Numbering
    n_folds: int
    options: dict[str, Any]

    def __call__(self, part: int, row: int, features: Batch, labels: Batch) -> dict[str, Any]:
        results: dict[str, tuple[Any, Any]] = {}
        names = self.reader.names
        signed, anywhere = self.reader.signed(labels), np.zeros(len(features), dtype=bool)
        for view, batch in names.split(self.reader.name, features).items():
            X, present = self.features[view].encode(batch, judge=False)
            if not present.any():
                continue
            anywhere |= present
            rows, Y = self.numbering.rows(part, row, present), signed[present]
            statistics = RowStatistics.of(
                X, Y, self._folds(rows, Y), n_folds=self.n_folds, **self.options
            )
            # Only held-out entries are judged on single rows.
            n = len(rows) if self.n_folds else 0
            results[view] = statistics, self.numbering.sample(rows[:n], (X[:n], Y[:n]))
        if names.wide and len(features):
            rows, Y = self.numbering.rows(part, row, anywhere), signed[anywhere]
            counts = LabelCounts.of(Y, self._folds(rows, Y), n_folds=self.n_folds)
            results[COUNTS] = counts, RowsWithout.of(self.numbering.rows(part, row, ~anywhere))
        return results

    def _folds(self, rows: NDArray[np.int64], Y: NDArray[np.int8]) -> NDArray[np.int8] | None:
        return self.numbering.folds(self.n_folds, rows, Y) if self.n_folds else None


def combine_pairs(a: ByView, b: ByView) -> dict[str, Any]:
    """Results of two batches, which are pairs by view."""
    return combine_views(a, b, _pairwise)


def _pairwise(a: Any, b: Any) -> Any:
    return tuple(
        y if x is None else x if y is None else x.combine(y) for x, y in zip(a, b, strict=True)
    )


@dataclass
class ChunkedTraining:
    """Passes over tables that are read in chunks.

    Attributes
    ----------
    training : Training
    n_folds : int
        Number of folds of held-out entries; 0 if none are needed.
    free : bool
        Whether to gather what `naim3l.problem.boundedness.bounding_ridge` needs.
    refine : callable or None
        Chooses parameters of features on a sample of the rows, before all rows are encoded.
    """

    training: Training
    n_folds: int
    free: bool
    refine: Callable[[Mapping[str, Batch], Folds], None] | None

    def __post_init__(self) -> None:
        random = check_random_state(self.training.model.random_state)
        self.seed = int(random.randint(LARGEST_SEED))

    def read(self, open_checkpoint: Callable[[list[Any]], Any]) -> SampledProblem:
        """The problem of all rows; what the last pass found is kept in a checkpoint."""
        training = self.training
        facts = [table.facts for table in all_chunked(training.tables).values()]
        self._refuse_large()
        checkpoint = open_checkpoint(facts)
        training.judge()
        self._learn_features()
        return self._problem(checkpoint)

    def _refuse_large(self) -> None:
        """Refuse statistics that do not fit in memory, before any row is read."""
        widths = {}
        for view, spec in self.training.specs.items():
            if spec.kernel is not None and spec.kernel.n_landmarks is None:
                raise ValueError(
                    "n_landmarks=None takes all rows as landmarks; give a number for tables that "
                    "are read in chunks."
                )
            widths[view] = spec.most_features(len(self.training.names.used[view])) + 1
        refuse_statistics(
            widths,
            len(self.training.names.labels),
            n_folds=self.n_folds,
            free=self.free,
            n_tasks=n_workers(),
            memory=memory_limit(),
        )

    def _numbering(self, name: str) -> Numbering:
        lengths = self.training.lengths[name]
        return Numbering(
            np.cumsum([0, *lengths]), self.seed, list(self.training.tables).index(name)
        )

    def _reader(self, name: str) -> ChunkReader:
        training = self.training
        return ChunkReader(name, training.names, training.decoders[name], training.positions[name])

    def _run(self, title: str, make: Callable[[str], Any]) -> dict[str, Any]:
        """Results of a pass over each table, by view."""
        found: dict[str, Any] = {}
        for name, table in self.training.tables.items():
            found |= table.fold(
                make(name),
                combine_pairs,
                title=self.training.title(title, name),
                shown=self.training.shown,
                n_rows=self.training.lengths[name],
            )
        return found

    def _learn_features(self) -> None:
        training = self.training
        specs, sampled = training.specs, any(s.learns_from_rows for s in training.specs.values())
        found: dict[str, tuple[Any, Any]] = {}
        if sampled or any(spec.learns_from_moments for spec in specs.values()):
            found = self._run(
                "features",
                lambda name: MomentsTask(
                    self._reader(name), specs, training.plans, self._numbering(name), sampled
                ),
            )
        samples = {view: sample for view, (_, sample) in found.items() if sample is not None}
        batches = {
            view: Batch(sample.arrays[0], f"view {view!r}") for view, sample in samples.items()
        }
        training.model.features_ = {
            view: spec.fit_chunks(
                f"view {view!r}", training.plans[view], found.get(view, (None, None))[0],
                batches.get(view),
            )
            for view, spec in specs.items()
        }  # fmt: skip
        self._warn_of_samples(samples)
        if batches and self.n_folds and self.refine is not None:
            self.refine(batches, self._folds_of_samples(batches, samples))

    def _warn_of_samples(self, samples: Mapping[str, RowSample]) -> None:
        for view, spec in self.training.specs.items():
            if spec.learns_from_rows and samples[view].highest < ALL_BITS:
                n_rows = sum(self.training.lengths[self.training.names.table_of(view)])
                what = "landmarks" if spec.transformer is None else type(spec.transformer).__name__
                warn_user(
                    f"view {view!r}: {what} learned from a sample of {len(samples[view].rows)} of "
                    f"{n_rows} rows."
                )

    def _folds_of_samples(
        self, batches: Mapping[str, Batch], samples: Mapping[str, RowSample]
    ) -> Folds:
        """Folds of the sampled rows of each view."""
        model, folds, labels, features = self.training.model, [], [], []
        for view, batch in batches.items():
            X, present = model.features_[view].encode(batch, judge=False)
            numbering = self._numbering(self.training.names.table_of(view))
            Y = samples[view].arrays[1][present]
            features.append(X)
            labels.append(Y)
            folds.append(numbering.folds(self.n_folds, samples[view].rows[present], Y))
        problem = Problem(
            features,
            labels,
            names=list(batches),
            fit_intercept=model.fit_intercept,
            positive_weight=model.positive_weight,
        )
        return Folds.of(problem, np.concatenate(folds).astype(np.intp))

    def _problem(self, checkpoint: Any) -> SampledProblem:
        training, model = self.training, self.training.model
        found = self._restored(checkpoint)
        if found is None:
            features, options = model.features_, {"fit_intercept": model.fit_intercept}
            found = self._run(
                "statistics",
                lambda name: StatisticsTask(
                    self._reader(name), features, self._numbering(name), self.n_folds,
                    options | {"free": self.free},
                ),
            )  # fmt: skip
            if checkpoint is not None:
                for key, (statistics, sample) in found.items():
                    arrays = statistics.to_arrays()
                    arrays |= {} if sample is None else sample.to_arrays()
                    checkpoint.put(f"{PASS} {key}", arrays)
        self._check_found(found)
        problem = SampledProblem(
            [found[view][0] for view in training.names.views],
            [found[view][1] for view in training.names.views],
            seed=self.seed,
            names=training.names.views,
            n_folds=self.n_folds,
            fit_intercept=model.fit_intercept,
            positive_weight=model.positive_weight,
            table_counts=found.get(COUNTS, (None, None))[0],
            checkpoint=checkpoint,
        )
        training.keep_rates(problem)
        return problem

    def _check_found(self, found: Mapping[str, Any]) -> None:
        """Refuse views in which no label is known, and warn of rows without any view."""
        names = self.training.names
        if names.wide:
            found[COUNTS][1].warn()
        seen = {}
        for view in names.views:
            counts = found[view][0].counts
            n_known, n_yes = counts.n_known.sum(axis=0), counts.n_positives.sum(axis=0)
            seen[view] = n_yes > 0, n_known > n_yes
        check_seen(seen, names.labels, wide=names.wide)

    def _restored(self, checkpoint: Any) -> dict[str, Any] | None:
        """What the last pass found, from a checkpoint; None if it has not all of it."""
        names = self.training.names
        keys = [*names.views, *([COUNTS] if names.wide else [])]
        stored = {} if checkpoint is None else {k: checkpoint.get(f"{PASS} {k}") for k in keys}
        if not stored or any(arrays is None for arrays in stored.values()):
            return None
        found: dict[str, Any] = {
            view: (RowStatistics.from_arrays(stored[view]), RowSample.from_arrays(stored[view]))
            for view in names.views
        }
        if names.wide:
            counts = LabelCounts.from_arrays(stored[COUNTS])
            found[COUNTS] = counts, RowsWithout.from_arrays(stored[COUNTS])
        return found
