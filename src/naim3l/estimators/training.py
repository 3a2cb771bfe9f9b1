"""From tables to the problem that a solver works on: survey, plan, features, labels.

A table in memory is one batch, and its rows become a `Problem`. Tables that are read in chunks are
read in two or three passes: a survey of rows, labels and columns; moments of columns and a sample
of rows, if features are learned; statistics of features and labels by fold, and a sample of both.
"""

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from naim3l import __version__
from naim3l._arrays import Mask
from naim3l._hashing import Hashes
from naim3l._text import some
from naim3l._threads import blas_threads, thread_map
from naim3l._warnings import warn_user
from naim3l.decisions.held_out import Folds, as_they_are
from naim3l.decisions.rules import Decisions
from naim3l.estimators.collected import (
    COMMON,
    COUNTS,
    Found,
    RowsWithout,
    Statistics,
    combine_pairs,
)
from naim3l.estimators.plans import ColumnPlan
from naim3l.features.encoding import FeatureSpec, ViewFeatures, stated_text
from naim3l.features.plan import ViewPlan, columns_of_several_types
from naim3l.features.recipes import SCALE
from naim3l.features.shared import SharedColumns, find_shared
from naim3l.features.survey import TableSurvey, combine_items
from naim3l.files.checkpoint import KeptFold
from naim3l.input.batches import Batch, compare_indexes, id_groups, id_hashes, present_rows
from naim3l.input.chunks import memory_limit, n_workers, on_cluster
from naim3l.input.labels import LabelDecoder, LabelSurvey, LabelWords, check_seen, match_labels
from naim3l.input.sources import MemoryTable, Table, all_chunked, open_tables
from naim3l.input.views import TableNames, is_separate
from naim3l.problem.cost_model import (
    choose_form,
    fitting_sample,
    refuse_blocks,
    refuse_statistics,
)
from naim3l.problem.rows import Problem, SharedRows
from naim3l.problem.sampled import SampledProblem
from naim3l.problem.sampling import ALL_BITS, OF_IDS, RowSample, deal_keys, fold_keys, repeated
from naim3l.problem.shareable import GramStatistics
from naim3l.problem.sufficient_statistics import LabelCounts, RowStatistics

# Rows of each table whose held-out entries decide on parameters, thresholds and probabilities, and
# to which transformers are fitted that need the rows themselves.
SAMPLE_ROWS = 50_000
MOST_LEAKS = 5  # columns that a warning names
PASS = "statistics"  # of each view, by its position, among the parts of a checkpoint

ByView = Mapping[str, Any]
ByPosition = Mapping[str, list[int | None]]


class Alone:
    """What a fit knows of other sites: nothing, if all tables are in one place.

    `naim3l.federated` has the sites that take part in a study.
    """

    several = False  # whether there may be others, and labels that are known there only
    products: Mapping[float, Any] = MappingProxyType({})  # sums of `label_products` by ridge

    def place_labels(self, labels: list[str], positions: ByPosition) -> tuple[list[str], Any]:
        """Labels of the study, and their positions in each own table, None if not used there."""
        return labels, positions

    def settle(self, problem: Any) -> None:
        """Tell a problem how often labels are known elsewhere."""

    def complete(self, W: Any, ridge: float) -> Any:
        """Weights of a fit with those of labels that have no part in it."""
        return W

    in_form: ClassVar[Any] = staticmethod(choose_form)  # the problem on which solver "fast" works
    add_up: ClassVar[Any] = staticmethod(as_they_are)  # sums of what held-out rows tell


def today() -> str:
    """The date, as in 2026-11-19; that of SOURCE_DATE_EPOCH, in seconds, if it is set."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")  # for files that can be made again
    now = datetime.fromtimestamp(int(given), UTC) if given.isdecimal() else datetime.now(UTC)
    return now.date().isoformat()


def read_training(
    model: Any,
    X: Any,
    y: Any,
    *,
    open_checkpoint: Any = None,
    plan_only: bool = False,
    **chunks: Any,
) -> Any:
    """The problem of all views; sets the names, features and rates of a model.

    The options are for tables that are read in chunks, see `ChunkedTraining`, and for `Statistics`;
    a model that gives none takes tables in memory only. With ``plan_only``, only the plan is made.
    """
    if isinstance(X, Statistics):
        if open_checkpoint is None:
            raise TypeError(f"{type(model).__name__} cannot be fitted to statistics.")
        return problem_of_statistics(model, X, open_checkpoint, **chunks)
    tables = open_tables(X, y, text=stated_text(model.features))
    metas, owner = {name: table.features for name, table in tables.items()}, type(model).__name__
    names = TableNames.of(metas, model.views, wide=not is_separate(X), owner=owner)
    specs = {view: model._spec_type.of(model.features, view) for view in names.views}
    if isinstance(model.features, Mapping) and (extra := set(model.features) - set(names.views)):
        raise ValueError(
            f"features: no views {sorted(extra, key=str)}; the data have {names.views}."
        )
    if plan_only:
        return ChunkedTraining(model, tables, names, specs, **chunks).plan()
    if not any(table.chunked for table in tables.values()):
        return Training(model, tables, names, specs).problem()
    if open_checkpoint is None:
        raise TypeError(
            f"{owner} takes tables in memory; NAIM3L, NAIM3LCV and LabelSubspaceRidge also take "
            "tables that are read in chunks, such as dask data frames and Parquet files."
        )
    return ChunkedTraining(model, tables, names, specs, **chunks).sampled_problem(open_checkpoint)


class Surveyed(NamedTuple):
    """Results of the first pass over a table."""

    lengths: dict[int, int]  # rows of each part
    tables: dict[str, TableSurvey]  # of views whose columns are judged
    present: dict[str, int]  # number of rows that have each view
    labels: LabelSurvey
    cautions: list[str]  # what to warn of, at most one

    def combine(self, other: "Surveyed") -> "Surveyed":
        return Surveyed(
            combine_items(self.lengths, other.lengths, int.__add__),
            combine_items(self.tables, other.tables, TableSurvey.combine),
            combine_items(self.present, other.present, int.__add__),
            self.labels.combine(other.labels),
            (self.cautions + other.cautions)[:1],
        )


@dataclass(frozen=True)
class SurveyTask:
    """First pass over a batch: its length, its labels, and its columns if they are judged."""

    name: str
    names: TableNames
    specs: Mapping[str, FeatureSpec]
    cells: Mapping[str, list[int]]
    words: LabelWords
    chunked: bool

    def __call__(self, part: int, row: int, features: Batch, labels: Batch | None) -> Surveyed:
        assert labels is not None
        present, surveys = dict[str, int](), dict[str, TableSurvey]()
        words, signed = LabelSurvey.with_signs(labels, self.words)
        for view, batch in self.names.split(self.name, features).items():
            recipe = self.specs[view].recipe
            if recipe is not None and recipe.plan:
                survey = TableSurvey.of(batch, recipe.text, self.cells.get(view, ()), signed)
                surveys[view], present[view] = survey, survey.rows.n_present
            else:
                rows = present_rows(batch, batch.missing, allow_missing=True)
                present[view] = int(rows.sum())
        caution = None
        n_rows = features.shape[0]
        if self.chunked and n_rows:  # of tables in memory, it was given when they were read
            caution = compare_indexes(features, labels, part=True)
        cautions = [caution] if caution else []
        return Surveyed({part: n_rows}, surveys, present, words, cautions)


@dataclass(frozen=True)
class Reader:
    """What a task needs to know about a table: its names and labels, and the numbers of rows."""

    name: str
    names: TableNames
    decoder: LabelDecoder
    positions: list[int]  # of each label among the columns of the table; -1 if it lacks it
    starts: NDArray[np.int64]  # number of the first row of each part
    n_rows: int | None  # of the whole table, if it is known
    seed: int  # of the hashes of rows
    number: int  # of the table, for these hashes
    most: int  # rows of a sample

    def signed(self, labels: Batch) -> NDArray[np.int8]:
        """Labels of a batch as 1, -1 and 0, (n_rows, n_labels)."""
        return np.pad(self.decoder.decode(labels), [(0, 0), (0, 1)])[:, self.positions]

    def rows(self, part: int, row: int, present: Mask) -> NDArray[np.int64]:
        """Numbers of the rows of a batch that are marked."""
        return np.asarray(self.starts[part] + row + np.flatnonzero(present))

    def sample(self, rows: NDArray[np.int64], arrays: tuple[Any, ...]) -> RowSample:
        """Sample of rows with these numbers, of which ``arrays`` has what is kept."""
        given = self.seed, self.number, rows, arrays
        return RowSample.of(self.most, *given, n_rows=self.n_rows)

    def keys(self, rows: NDArray[np.int64], present: Mask, batch: Batch) -> Hashes:
        """Hashes by which the marked rows of a batch, with these numbers, are dealt to folds."""
        of_rows, found = fold_keys(self.seed, self.number, rows), id_hashes(batch)
        if found is None:
            return of_rows
        ids, known = found[0][present], found[1][present]
        return np.where(known, fold_keys(self.seed, OF_IDS, ids), of_rows)


def moments_of_batch(
    specs: Any,
    plans: Any,
    shared: SharedColumns | None,
    sampled: bool,
    reader: Reader,
    part: int,
    row: int,
    X: Batch,
    y: Batch,
) -> dict[str, Any]:
    """Second pass over a batch: moments of columns, of shared ones, and a sample of rows."""
    results: dict[str, Any] = {}
    signed = reader.signed(y) if sampled else None
    for view, batch in reader.names.split(reader.name, X).items():
        moments, present = specs[view].moments(batch, plans[view])
        if present.any():
            rows, sample = batch.take_rows(present), None
            common = None if shared is None else shared.moments(view, rows)
            if signed is not None:
                kept = rows.data, signed[present]
                sample = reader.sample(reader.rows(part, row, present), kept)
            results[view] = moments, common, sample
    return results


def statistics_of_batch(
    plan: ColumnPlan, reader: Reader, part: int, row: int, X: Batch, y: Batch
) -> Found:
    """Last pass over a batch: statistics of its features and labels, and a sample of both.

    Those of shared columns are under the key of the view after `COMMON`.
    """
    results, shared, n_folds = Found(), plan.shared, plan.n_folds
    options = {"fit_intercept": plan.parameters["fit_intercept"], "free": plan.free}
    signed, anywhere = reader.signed(y), np.zeros(len(X), dtype=bool)
    for view, batch in reader.names.split(reader.name, X).items():
        features, present = plan.features[view].encode(batch, judge=False)
        if not present.any():
            continue
        anywhere |= present
        rows, Y = reader.rows(part, row, present), signed[present]
        keys = reader.keys(rows, present, batch)
        folds = deal_keys(n_folds, keys, Y)
        statistics = RowStatistics.of(features, Y, folds, n_folds=n_folds, **options)
        n = len(rows) if n_folds else 0  # only held-out entries are judged on single rows
        results[view] = statistics, reader.sample(rows[:n], (features[:n], Y[:n], keys[:n]))
        if shared is not None:
            common = shared.encode(view, batch.take_rows(present))
            sums = RowStatistics.of(common, Y, folds, n_folds=n_folds, fit_intercept=True)
            results[COMMON + view] = sums, reader.sample(rows[:n], (common[:n],))
    if reader.names.wide and len(X):
        rows, Y = reader.rows(part, row, anywhere), signed[anywhere]
        folds = deal_keys(n_folds, reader.keys(rows, anywhere, X), Y)
        counts = LabelCounts.of(Y, folds, n_folds=n_folds)
        outside = reader.rows(part, row, ~anywhere) - reader.starts[0]
        results[COUNTS] = counts, RowsWithout.of(outside)
    return results


def read_statistics(
    task: Callable[..., Found], readers: Mapping[str, Reader], tables: Any, **options: Any
) -> Found:
    """Results of the last pass over tables, by view; ``task`` is that of a batch of a reader."""
    found: Found = {}
    for name, table in tables.items():
        reader, title = readers[name], PASS if len(tables) == 1 else f"{PASS} of {name}"
        n_rows = None if reader.n_rows is None else np.diff(reader.starts).tolist()
        of_table = partial(task, reader)
        found |= table.fold(of_table, combine_pairs, title=title, n_rows=n_rows, **options) or {}
    return found


def problem_of(model: Any, plan: ColumnPlan, found: Found, checkpoint: Any = None) -> Any:
    """The problem of results of the last pass, for a model with the names of the plan."""
    names, n_folds = model.names_, plan.n_folds
    counts = {view: found[view][0].counts for view in names.views}
    n_yes = {view: of.n_positives.sum(axis=0) for view, of in counts.items()}
    n_known = {view: of.n_known.sum(axis=0) for view, of in counts.items()}
    seen = {view: (n_yes[view] > 0, n_known[view] > n_yes[view]) for view in names.views}
    several = model._site.several
    check_seen(seen, names.labels, wide=names.wide, several=several)
    problem = SampledProblem(
        [found[view][0] for view in names.views],
        [found[view][1] for view in names.views],
        names=names.views,
        n_folds=n_folds,
        table_counts=found.get(COUNTS, (None, None))[0],
        checkpoint=checkpoint,
        fit_intercept=model.fit_intercept,
        positive_weight=model.positive_weight,
    )
    if plan.shared is not None:
        common = [found[COMMON + view] for view in names.views]
        rows = np.concatenate([sample.arrays[0] for _, sample in common])
        sums = reduce(RowStatistics.combine, [of_view for of_view, _ in common])
        problem.sample.shared = SharedRows(plan.shared, rows, sums)
    keep_rates(model, problem)
    return problem


def problem_of_statistics(
    model: Any, given: Statistics, open_checkpoint: Callable[[list[Any]], Any], **needed: Any
) -> Any:
    """The problem of statistics; sets the names and features of their plan."""
    plan, views = given.plan, given.plan.names.views
    if given.shareable:
        plan = replace(plan, n_folds=0, free=False, shared=None)
        if needed["n_folds"] or needed.get("free"):
            raise ValueError(
                "shareable statistics have no rows that could be held out, nor what ridge='auto' "
                "needs: fit NAIM3L with numbers as lam and ridge, or LabelSubspaceRidge with "
                "numbers as ridge and shrinkage, and decide='sign'."
            )
    plan._check(model, **needed)
    if missing := [view for view in views if view not in given.found]:
        raise ValueError(f"no source has rows of views {some(missing)}; add one that has.")
    plan._apply(model)
    model.made_ = {"date": today(), "version": __version__}
    found = {key: _with_rows(*of) for key, of in given.found.items()}
    facts = [plan.fingerprint, given.sources]
    return problem_of(model, plan, found, open_checkpoint(facts))


def _with_rows(sums: Any, sample: Any = None) -> tuple[Any, Any]:
    """Sums on which a fit works, and a sample, which has no rows for shareable statistics."""
    if not isinstance(sums, GramStatistics):
        return sums, sample
    rows = sums.rows()
    X, Y = np.empty((0, len(rows.gram))), np.empty((0, rows.n_known.shape[1]), dtype=np.int8)
    none = np.empty(0, dtype=np.int64)
    return rows, RowSample.of(SAMPLE_ROWS, 0, 0, none, (X, Y, none.astype(np.uint64)))


def keep_rates(model: Any, problem: Any) -> None:
    """Set the shares of positives of each label, in all views and by view."""
    model._site.settle(problem)
    model.base_rates_ = problem.base_rates
    names = model.names_.blocks
    model.view_rates_ = dict(zip(names, problem.table_rates, strict=True))


@dataclass
class Training:
    """The tables of a fit, by view or the one wide table, and what is known about them."""

    model: Any
    tables: dict[str, Table]
    names: TableNames
    specs: dict[str, FeatureSpec]

    seed = 0

    def __post_init__(self) -> None:
        self.sample_rows = SAMPLE_ROWS
        self.plans: dict[str, ViewPlan | None] = {}
        self.shared: SharedColumns | None = None
        self.decoders: dict[str, LabelDecoder] = {}  # by table, as the rest
        self.lengths: dict[str, list[int]] = {}  # rows of each part
        metas = {name: table.labels for name, table in self.tables.items()}
        labels, positions = match_labels(
            {name: batch.columns for name, batch in metas.items() if batch is not None},
            {name: batch.shape[1] for name, batch in metas.items() if batch is not None},
        )
        self.names.labels, self.positions = self.model._site.place_labels(labels, positions)
        self.names.labels_named = any(b.columns for b in metas.values() if b is not None)
        self.names.one_column = all(table.one_column for table in self.tables.values())
        self.names.warn_of_labels_among_features()
        self.model.names_, self.model.roles_ = self.names, {}
        self.model.made_ = {"date": today(), "version": __version__}
        self.model.shared_ = None  # until held-out scores say how to use them

    def judge(self) -> None:
        """Survey all tables: the plan of each view, and the meaning of label words."""
        found = {name: self._survey(name) for name in self.tables}
        for name, surveyed in found.items():
            for view, n_present in surveyed.present.items():
                if not n_present:
                    raise ValueError(f"view {view!r}: missing in every row; leave the view out.")
            for caution in surveyed.cautions:
                warn_user(caution)
            self.decoders[name] = LabelDecoder.of(surveyed.labels, self.tables[name].words)
        self._warn_of_leaks(found)
        self.plans, used, surveys = dict.fromkeys(self.names.views), {}, dict[str, TableSurvey]()
        for surveyed in found.values():
            surveys |= surveyed.tables
            for view, survey in surveyed.tables.items():
                recipe = self.specs[view].recipe
                assert recipe is not None
                self.plans[view], used[view] = ViewPlan.of(
                    survey,
                    recipe.keep,
                    recipe.text,
                    log=recipe.log and recipe.steps == SCALE,
                    day_first=recipe.day_first,
                )
        self.names.keep(used)
        self._find_shared(surveys)

    def _find_shared(self, surveys: Mapping[str, TableSurvey]) -> None:
        """Find the columns that separate tables share, if held-out scores can weigh them."""
        plans = [plan for plan in self.plans.values() if plan is not None]
        names = Counter(column.name for plan in plans for column in plan.columns)
        repeated_names = max(names.values(), default=0) > 1
        if repeated_names and not self.names.wide and Decisions.of(self.model.decide)._learn:
            recipes = {view: spec.recipe for view, spec in self.specs.items()}
            allowed = {view: of.shared for view, of in recipes.items() if of is not None}
            self.shared = find_shared(self.plans, surveys, allowed)

    def _warn_of_leaks(self, found: Mapping[str, Surveyed]) -> None:
        """Warn of the columns that most surely tell a label, unless they are listed to be kept."""
        leaks = []
        for name, surveyed in found.items():
            places = zip(self.positions[name], self.names.labels, strict=True)
            labels = [label for _, label in sorted((at, of) for at, of in places if at is not None)]
            for view, survey in surveyed.tables.items():
                recipe, names = self.specs[view].recipe, dict(enumerate(survey.columns or ()))
                assert recipe is not None
                for j, (score, why) in survey.find_leaks(labels).items():
                    if names.get(j) not in recipe.keep:
                        leaks.append((-score, f"{survey.place(j)} ({why})"))
        if leaks:
            warn_user(
                "columns that seem to tell a label: "
                f"{some([what for _, what in sorted(leaks)], MOST_LEAKS, str)}. Leave them out if "
                "they are not known before the label (in the settings, list them under ignore); "
                "keep of Recipe, or features in the settings, confirms them."
            )

    def _survey(self, name: str) -> Surveyed:
        """Survey of a table; a second one if types of columns differ between batches."""
        found = self._survey_once(name, {})
        again: dict[str, list[int]] = {}
        if self.tables[name].chunked:  # one batch has one type
            again = {v: columns_of_several_types(survey) for v, survey in found.tables.items()}
        if any(again.values()):
            names = {view: self.names.column_names(view) for view in again}
            text = {of[j] for view, of in names.items() if of for j in again[view]}
            self.tables[name] = self.tables[name].with_text(text)
            found = self._survey_once(name, again)
        self.lengths[name] = [found.lengths[part] for part in sorted(found.lengths)]
        return found

    def _survey_once(self, name: str, cells: Mapping[str, list[int]]) -> Surveyed:
        table = self.tables[name]
        task = SurveyTask(name, self.names, self.specs, cells, table.words, table.chunked)
        return table.fold(task, Surveyed.combine, **self._bar("survey", name))

    def _bar(self, what: str, table: str) -> dict[str, Any]:
        """Options of the progress bar of a pass."""
        title = what if len(self.tables) == 1 else f"{what} of {table}"
        return {"title": title, "shown": bool(self.model.verbose)}

    def _reader(self, name: str) -> Reader:
        positions = [-1 if at is None else at for at in self.positions[name]]
        starts, number = np.cumsum([0, *self.lengths[name]]), list(self.tables).index(name)
        given = name, self.names, self.decoders[name], positions
        return Reader(*given, starts, int(starts[-1]), self.seed, number, self.sample_rows)

    @property
    def _options(self) -> dict[str, Any]:
        return {name: getattr(self.model, name) for name in ("fit_intercept", "positive_weight")}

    def problem(self) -> Problem:
        """The problem of tables in memory."""
        self.judge()
        batches, signed = dict[str, Batch](), dict[str, NDArray[np.int8]]()
        for name, table in self.tables.items():
            assert isinstance(table, MemoryTable) and table.labels is not None
            of_table = self._reader(name).signed(table.labels)
            for view, batch in self.names.split(name, table.features).items():
                batches[view], signed[view] = batch, of_table
        fitted = self._fit_features(batches)
        self.model.features_ = {view: of for view, (of, _, _) in fitted.items()}
        present = {view: rows for view, (_, _, rows) in fitted.items()}
        known = {view: signed[view][rows] for view, rows in present.items()}
        samples, groups = None, self._groups(present)
        if self.names.wide:
            samples = np.concatenate([np.flatnonzero(rows) for rows in present.values()])
            RowsWithout.of(np.flatnonzero(~np.any(list(present.values()), axis=0))).warn()
        seen: Any = {view: ((Y > 0).any(axis=0), (Y < 0).any(axis=0)) for view, Y in known.items()}
        several = self.model._site.several
        check_seen(seen, self.names.labels, wide=self.names.wide, several=several)
        features = [X for _, X, _ in fitted.values()]
        options = {"names": self.names.views, "samples": samples, **self._options}
        problem = Problem(features, list(known.values()), groups=groups, **options)
        if self.shared is not None:
            rows = {view: of.take_rows(present[view]) for view, of in batches.items()}
            problem.shared = self._shared_rows(self.shared, rows)
        keep_rates(self.model, problem)
        return problem

    def _groups(self, present: Mapping[str, Mask]) -> NDArray[np.intp] | None:
        """Group of each stacked row by its id; None if all ids differ."""
        groups = id_groups([table.features.data for table in self.tables.values()])
        if groups is None:
            return None
        of_table = dict(zip(self.tables, groups, strict=True))
        stacked = [of_table[self.names.table_of(view)][rows] for view, rows in present.items()]
        anywhere = np.any(list(present.values()), axis=0) if self.names.wide else None
        n_samples = sum(map(len, stacked)) if anywhere is None else int(anywhere.sum())
        return repeated(np.concatenate(stacked), n_samples)

    def _shared_rows(self, columns: SharedColumns, rows: Mapping[str, Batch]) -> SharedRows:
        """Features of shared columns, of rows of all views."""
        moments = {view: columns.moments(view, of) for view, of in rows.items()}
        columns = columns.scaled({view: of for view, of in moments.items() if of is not None})
        encoded = [columns.encode(view, of) for view, of in rows.items()]
        return SharedRows(columns, np.concatenate(encoded))

    def _fit_features(self, batches: Mapping[str, Batch]) -> dict[str, Any]:
        """Fitted features of all views, features of their rows, and which rows these are."""

        def fit(view: str) -> tuple[ViewFeatures, Any, Mask]:
            return self.specs[view].fit(batches[view], self.plans[view], self.model.device)

        # Cells are read in Python, and code of users need not be safe in threads.
        one = any(spec.has_plan or spec.learns_from_rows for spec in self.specs.values())
        n_threads = 1 if one else min(blas_threads(), len(batches))
        # The largest first, so that threads end together.
        views = sorted(batches, key=lambda view: -math.prod(batches[view].shape))
        found = thread_map(fit, views, n_threads) if n_threads > 1 else [fit(v) for v in views]
        fitted = dict(zip(views, found, strict=True))
        return {view: fitted[view] for view in self.names.views}


@dataclass
class ChunkedTraining(Training):
    """Passes over tables that are read in chunks."""

    n_folds: int = 0  # of held-out entries; 0 if none are needed
    free: bool = False  # whether to gather what `naim3l.problem.boundedness` needs
    # Chooses parameters of features on a sample of the rows, before all rows are encoded.
    refine: Callable[[Mapping[str, Batch], Folds], None] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.seed = int(check_random_state(self.model.random_state).randint(2**31))

    def plan(self) -> ColumnPlan:
        """What the first passes learn: how rows are read in the last one."""
        self._refuse_large()
        self.judge()
        self._refuse_large()  # free text has more features
        self._learn_features()
        given = {name: getattr(self, name) for name in ("shared", "seed", "n_folds", "free")}
        return ColumnPlan._made(self.model, self.decoders, self.positions, **given)

    def sampled_problem(self, open_checkpoint: Callable[[list[Any]], Any]) -> SampledProblem:
        """The problem of all rows; what the last pass found is kept in a checkpoint."""
        facts = [table.facts for table in all_chunked(self.tables).values()]
        checkpoint = open_checkpoint(facts)
        plan = self.plan()
        found = self._restored(checkpoint) or self._statistics(plan, checkpoint)
        limit = None if on_cluster() else memory_limit()  # it is solved in this process
        refuse_blocks([found[view][0] for view in self.names.views], limit)
        if self.names.wide:
            found[COUNTS][1].warn()
        return problem_of(self.model, plan, found, checkpoint)

    def _refuse_large(self) -> None:
        """Refuse statistics that do not fit in memory, as far as the columns are known."""
        widths = {}
        for view, spec in self.specs.items():
            if spec.kernel is not None and spec.kernel.n_landmarks is None:
                raise ValueError(
                    "n_landmarks=None takes all rows as landmarks; give a number for tables that "
                    "are read in chunks."
                )
            n_columns, plan = len(self.names.used[view]), self.plans.get(view)
            widths[view] = spec.most_features(n_columns, plan) + 1
        if self.shared is not None:
            widths |= {COMMON + view: self.shared.n_features + 1 for view in self.specs}
        sizes: dict[str, Any] = {"n_folds": self.n_folds, "free": self.free}
        if any(table.chunked for table in self.tables.values()):
            sizes |= {"n_tasks": n_workers(), "memory": (limit := memory_limit())}
            if limit is not None:
                given = widths, len(self.names.labels), SAMPLE_ROWS, limit
                self.sample_rows = fitting_sample(*given)
        refuse_statistics(widths, len(self.names.labels), **sizes)

    def _run(self, title: str, task: Callable[..., Any], *given: Any) -> dict[str, Any]:
        """Results of a pass over each table, by view."""
        found: dict[str, Any] = {}
        for name, table in self.tables.items():
            of_table, bar = partial(task, *given, self._reader(name)), self._bar(title, name)
            found |= table.fold(of_table, combine_pairs, **bar, n_rows=self.lengths[name])
        return found

    def _learn_features(self) -> None:
        specs, sampled = self.specs, any(s.learns_from_rows for s in self.specs.values())
        found: dict[str, tuple[Any, Any, Any]] = {}
        learned = any(spec.learns_from_moments for spec in specs.values())
        if sampled or learned or self.shared is not None:
            given = specs, self.plans, self.shared, sampled
            found = self._run("features", moments_of_batch, *given)
        if self.shared is not None:
            common = {view: of for view, (_, of, _) in found.items() if of is not None}
            self.shared = self.shared.scaled({view: common[view] for view in self.shared.parts})
        samples = {view: sample for view, (*_, sample) in found.items() if sample is not None}
        batches = {v: Batch(sample.arrays[0], f"view {v!r}") for v, sample in samples.items()}
        self.model.features_ = fitted = {}
        for view, spec in specs.items():
            moments, sample = found.get(view, (None,))[0], batches.get(view)
            fitted[view] = spec.fit_chunks(f"view {view!r}", self.plans[view], moments, sample)
            if spec.learns_from_rows and samples[view].highest < ALL_BITS:
                what = "landmarks" if spec.transformer is None else type(spec.transformer).__name__
                warn_user(
                    f"view {view!r}: {what} learned from a sample of {len(samples[view].rows)} of "
                    f"{sum(self.lengths[self.names.table_of(view)])} rows."
                )
        if batches and self.n_folds and self.refine is not None:
            self.refine(batches, self._folds_of_samples(batches, samples))

    def _folds_of_samples(self, batches: ByView, samples: Mapping[str, RowSample]) -> Folds:
        """Folds of the sampled rows of each view."""
        folds, labels, features = list[Any](), [], []
        for view, batch in batches.items():
            X, present = self.model.features_[view].encode(batch, judge=False)
            reader, Y = self._reader(self.names.table_of(view)), samples[view].arrays[1][present]
            features.append(X)
            labels.append(Y)
            keys = reader.keys(samples[view].rows[present], present, batch)
            folds.append(deal_keys(self.n_folds, keys, Y))
        problem = Problem(features, labels, names=list(batches), **self._options)
        return Folds.of(problem, np.concatenate(folds).astype(np.intp))

    def _statistics(self, plan: ColumnPlan, checkpoint: Any) -> Found:
        """Results of the last pass, which a checkpoint keeps: of each part until all are done."""
        readers = {name: self._reader(name) for name in self.tables}
        options: dict[str, Any] = {"shown": bool(self.model.verbose)}
        if checkpoint is not None:
            checkpoint.put(PASS, {})
            options["keep"] = partial(KeptFold, checkpoint.results, checkpoint.key, self._kinds)
        task = partial(statistics_of_batch, plan)
        try:
            found = read_statistics(task, readers, self.tables, **options)
        except (ValueError, TypeError):  # of the data, which will be others when it is solved
            if checkpoint is not None:
                checkpoint.remove()
            raise
        if checkpoint is not None:
            for key, (statistics, sample) in found.items():
                checkpoint.put(f"{PASS} {key}", statistics.to_arrays() | sample.to_arrays())
            checkpoint.remove_results()
        return found

    @property
    def _kinds(self) -> dict[str, Any]:
        """Classes of the results of the last pass, by view."""
        kinds: dict[str, Any] = dict.fromkeys(self.names.views, (RowStatistics, RowSample))
        if self.names.wide:
            kinds[COUNTS] = LabelCounts, RowsWithout
        if self.shared is not None:
            kinds |= {COMMON + view: (RowStatistics, RowSample) for view in self.names.views}
        return kinds

    def _restored(self, checkpoint: Any) -> dict[str, Any] | None:
        """What the last pass found, from a checkpoint; None if it has not all of it."""
        found = {}
        for key, kinds_of in self._kinds.items():
            stored = None if checkpoint is None else checkpoint.get(f"{PASS} {key}")
            if stored is None:
                return None
            found[key] = tuple(kind.from_arrays(stored) for kind in kinds_of)
        return found
