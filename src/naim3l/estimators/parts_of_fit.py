"""The problem of tables that are read in parts, gathered in two or three passes.

1. A survey: numbers of rows, labels, and, for ``transformer="auto"``, kinds of columns.
2. If features are learned: means and variances of columns, and a sample of rows.
3. Statistics of features and labels by fold, and a sample of both.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from naim3l.decisions.held_out import Folds
from naim3l.decisions.thresholds import check_threshold
from naim3l.estimators.part_tasks import (
    COUNTS,
    MomentsTask,
    Numbering,
    StatisticsTask,
    Surveyed,
    SurveyTask,
    combine_pairs,
)
from naim3l.estimators.schema import check_views
from naim3l.features.encoding import is_automatic
from naim3l.features.part_fits import PartFit
from naim3l.features.unused_columns import set_aside
from naim3l.files.checkpoint import Checkpoint, whole_seed
from naim3l.input.labels import check_seen
from naim3l.input.passes import memory_limit, n_workers, run_pass
from naim3l.input.reader import TableReader
from naim3l.input.streams import PartReader, Stream, open_streams
from naim3l.input.tables import Table, warn_user
from naim3l.problem.choice import refuse_statistics
from naim3l.problem.rows import Problem
from naim3l.problem.sampling import RowSample
from naim3l.problem.stored_statistics import pack, pack_counts, unpack, unpack_counts
from naim3l.problem.streamed import StreamedProblem

LARGEST_SEED = 2**31
PASS = "statistics"  # of each view, by its position, among the parts of a checkpoint


class PartsOfFit:
    """Passes over the parts of the training tables of a model, whose attributes they set.

    Parameters
    ----------
    model : ComparedModel
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.seed = int(check_random_state(model.random_state).randint(LARGEST_SEED))
        self.streams: list[Stream] = []
        self.lengths: dict[str, list[int]] = {}

    def read(self, X: Any, y: Any, *, n_folds: int, free: bool) -> StreamedProblem:
        """The problem of all rows.

        Parameters
        ----------
        X, y
            As `naim3l.input.streams.open_streams` takes them.
        n_folds : int
            Number of folds of held-out entries; 0 if none are needed.
        free : bool
            Whether to gather what `naim3l.problem.boundedness.bounding_ridge` needs.
        """
        model = self.model
        model.aside_, model.roles_ = {}, {}
        model.reader_ = TableReader(model.views, model.label_coding, type(model).__name__)
        self.streams = open_streams(model.reader_, X, y)
        check_views(model._values(), model._schema, model.views_)
        check_threshold(model.threshold, model.label_names_)
        self.unfitted = {view: model._make_features(view) for view in model.views_}
        self._refuse_large(n_folds, free)
        checkpoint = self._open_checkpoint()
        self._learn_features(self._survey(), n_folds)
        return self._statistics(n_folds, free, checkpoint)

    def _open_checkpoint(self) -> Checkpoint | None:
        """The checkpoint of the fit, which depends on all parameters and on where the data are."""
        model = self.model
        if model.checkpoint is None:
            return None
        whole_seed(model.random_state)
        settings = {name: repr(value) for name, value in model._values().items()
                    if name not in ("checkpoint", "verbose", "n_jobs")}  # fmt: skip
        tokens = [[stream.table.token, stream.labels.token] for stream in self.streams]
        opened: Checkpoint | None = model._open_checkpoint([], tokens=tokens, settings=settings)
        return opened

    def _refuse_large(self, n_folds: int, free: bool) -> None:
        """Refuse statistics that do not fit in memory, before any row is read."""
        model = self.model
        widths = {}
        for view, features in self.unfitted.items():
            if features.kernel_map is not None and features.kernel_map.n_landmarks is None:
                raise ValueError(
                    "n_landmarks=None takes all rows as landmarks; give a number for tables that "
                    "are read in parts."
                )
            widths[view] = features.most_columns(model.reader_.n_columns(view)) + 1
        refuse_statistics(
            widths,
            len(model.label_names_),
            n_folds=n_folds,
            free=free,
            n_tasks=n_workers(),
            memory=memory_limit(),
        )

    def _survey(self) -> dict[str, Any]:
        """Survey of each view whose columns are judged; sets aside columns that are no features."""
        model, reader = self.model, self.model.reader_
        encoders = {
            view: (encoder, is_automatic(model.transformer, view))
            for view, features in self.unfitted.items()
            if (encoder := features.cell_encoder) is not None
        }
        results = self._run(
            "survey",
            lambda stream, at: SurveyTask(at, encoders, stream.table.places, stream.labels.places),
            Surveyed.combine,
        )
        self.lengths = {
            stream.name: of_stream.lengths
            for stream, of_stream in zip(self.streams, results, strict=True)
        }
        seen = {view: of for result in results for view, of in result.seen.items()}
        surveys = {view: of for result in results for view, of in result.tables.items()}
        for view in model.views_:
            if view not in seen:
                raise ValueError(f"view {view!r}: missing in every row; leave the view out.")
        for caution in (text for result in results for text in result.cautions):
            warn_user(caution)
        check_seen(seen, model.label_names_, wide=reader.wide)
        if reader.wide and (n_without := results[0].n_without):
            warn_user(f"X: {n_without} rows have no view at all and are left out.")
        for view in model.views_:
            unused = {}
            if view in surveys and is_automatic(model.transformer, view):
                unused = set_aside(surveys[view])
                if (kept := reader.leave_out(view, unused)) is not None:
                    surveys[view] = surveys[view].select_columns(kept)
            model.aside_[view] = list(unused.values())
        return surveys

    def _learn_features(self, surveys: Mapping[str, Any], n_folds: int) -> None:
        model = self.model
        fits = {
            view: PartFit.plan(view, features, surveys.get(view), model.reader_.n_columns(view))
            for view, features in self.unfitted.items()
        }
        found: dict[str, tuple[Any, Any]] = {}
        by_sample = any(fit.by_sample for fit in fits.values())
        if any(fit.needs_pass for fit in fits.values()):
            results = self._run(
                "features",
                lambda stream, at: MomentsTask(
                    at, {view: fits[view] for view in stream.views}, self._numbering(stream),
                    by_sample,
                ),
                combine_pairs,
            )  # fmt: skip
            found = {view: of for result in results for view, of in result.items()}
        tables = {
            view: Table(sample.arrays[0], f"view {view!r}")
            for view, (_, sample) in found.items()
            if sample is not None
        }
        model.features_ = {
            view: fit.finish(found.get(view, (None, None))[0], tables.get(view))
            for view, fit in fits.items()
        }
        for view, fit in fits.items():
            n_rows = sum(self.lengths[self._stream_of(view).name])
            if fit.by_sample and n_rows > len(found[view][1].rows):
                what = [type(step).__name__ for step in fit.by_sample]
                warn_user(
                    f"view {view!r}: {', '.join(what)} learned from a sample of "
                    f"{len(found[view][1].rows)} of {n_rows} rows."
                )
        if tables and n_folds:
            self._refine(tables, {view: found[view][1] for view in tables}, n_folds)

    def _refine(
        self, tables: Mapping[str, Table], samples: Mapping[str, RowSample], n_folds: int
    ) -> None:
        """Let the model choose parameters of features, on the sample of each view."""
        model, folds, labels, features = self.model, [], [], []
        for view, table in tables.items():
            X, present = model.features_[view].encode(table)
            sample, numbering = samples[view], self._numbering(self._stream_of(view))
            Y = sample.arrays[1][present]
            features.append(X)
            labels.append(Y)
            folds.append(numbering.folds(n_folds, sample.rows[present], Y))
        options = {
            "fit_intercept": model.fit_intercept, "positive_weight": model.positive_weight,
        }  # fmt: skip
        problem = Problem(features, labels, names=list(tables), **options)
        model._refine(tables, Folds.of(problem, np.concatenate(folds).astype(np.intp)))

    def _statistics(
        self, n_folds: int, free: bool, checkpoint: Checkpoint | None
    ) -> StreamedProblem:
        """The problem of all rows; what the last pass found is kept in the checkpoint."""
        model = self.model
        last = COUNTS if model.reader_.wide else len(model.views_) - 1  # the last to be written
        stored = None if checkpoint is None else checkpoint.get(f"{PASS}{last}")
        if checkpoint is not None and stored is not None:
            found = _unpacked(checkpoint, model)
        else:
            found = self._last_pass(n_folds, free)
        if checkpoint is not None and stored is None:
            for v, view in enumerate(model.views_):
                checkpoint.put(f"{PASS}{v}", pack(*found[view]))
            if COUNTS in found:
                checkpoint.put(f"{PASS}{COUNTS}", pack_counts(found[COUNTS][0]))
        problem = StreamedProblem(
            [found[view][0] for view in model.views_],
            [found[view][1] for view in model.views_],
            seed=self.seed,
            names=model.views_,
            n_folds=n_folds,
            fit_intercept=model.fit_intercept,
            positive_weight=model.positive_weight,
            table_counts=found.get(COUNTS, (None, None))[0],
            checkpoint=checkpoint,
        )
        model.base_rates_ = problem.base_rates
        model.view_rates_ = problem.view_rates(model._blocks)
        return problem

    def _last_pass(self, n_folds: int, free: bool) -> dict[str, Any]:
        """Statistics and sample of each view, and the counts of a wide table."""
        model = self.model
        options = {"fit_intercept": model.fit_intercept, "free": free}
        results = self._run(
            "statistics",
            lambda stream, at: StatisticsTask(
                at,
                {view: model.features_[view] for view in stream.views},
                self._numbering(stream),
                n_folds,
                options,
            ),
            combine_pairs,
        )
        return {view: of for result in results for view, of in result.items()}

    def _run(
        self, title: str, make_task: Callable[[Stream, PartReader], Any], combine: Any
    ) -> list[Any]:
        """Combined results of a pass over each stream."""
        results = []
        for stream in self.streams:
            about = title if len(self.streams) == 1 else f"{title} of {stream.name}"
            results.append(
                run_pass(
                    make_task(stream, PartReader(self.model.reader_, stream.name)),
                    list(zip(stream.table.parts, stream.labels.parts, strict=True)),
                    combine,
                    title=about,
                    shown=self.model.verbose > 0,
                    n_rows=self.lengths.get(stream.name) or stream.table.lengths,
                    places=list(zip(stream.table.places, stream.labels.places, strict=True)),
                )
            )
        return results

    def _stream_of(self, view: str) -> Stream:
        return next(stream for stream in self.streams if view in stream.views)

    def _numbering(self, stream: Stream) -> Numbering:
        starts = np.cumsum([0, *self.lengths[stream.name]])
        return Numbering(starts, self.seed, self.streams.index(stream))


def _unpacked(checkpoint: Checkpoint, model: Any) -> dict[str, Any]:
    """What the last pass found, from a checkpoint."""
    found: dict[str, Any] = {}
    for v, view in enumerate(model.views_):
        found[view] = unpack(checkpoint.get(f"{PASS}{v}") or {})
    if model.reader_.wide:
        found[COUNTS] = unpack_counts(checkpoint.get(f"{PASS}{COUNTS}") or {}), None
    return found
