"""Predictions for tables in parts, which are computed part by part when dask is asked for them."""

import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any
from uuid import uuid4

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from naim3l.decisions.rules import thresholds_of
from naim3l.estimators.calibrated import check_confidence
from naim3l.input.labels import LabelTable, read_labels
from naim3l.input.parquet_parts import ParquetSource
from naim3l.input.partitions import (
    PartitionedTable,
    any_partitioned,
    check_part_rows,
    partition,
    with_labels,
)
from naim3l.input.passes import load_dask, map_parts
from naim3l.input.places import Place
from naim3l.input.reader import TableReader
from naim3l.input.views import FUSED, is_apart


def lazily(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a method of a model, which is lazy for tables in parts.

    Its result is then a data frame of dask for data frames of dask and for Parquet files, with
    the same index and divisions, and an array of dask for arrays of dask; `set_output` does not
    change that. The method computes it from each part as from a table in memory.
    """

    @wraps(method)
    def call(model: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not any_partitioned(X):
            return method(model, X, *args, **options)
        given = inspect.signature(method).bind(model, X, *args, **options).arguments
        y = given.pop("y", None)
        chosen = {name: given[name] for name in list(given)[2:]}
        return _predict_lazily(model, method.__name__, X, y, chosen)

    return call


def scores_of_parts(
    model: Any, X: Any, y: Any
) -> Iterator[tuple[str, NDArray[np.float64], LabelTable]]:
    """Name, scores and labels of each view, or of a wide table, of which only these are kept."""
    for block, table, labels in _tables(model, X, y):
        assert labels is not None
        task = _Scores(_plain(model), None if model.reader_.wide else block)
        parts = map_parts(task, _inputs(table, labels), title="score", places=_places(table))
        found = load_dask().compute(*parts)
        empty = read_labels(labels.meta, model.reader_.label_coding, labels.where)
        signed = np.concatenate([signed for _, signed in found])
        yield block, np.concatenate([S for S, _ in found]), replace(empty, signed=signed)


def _predict_lazily(model: Any, name: str, X: Any, y: Any, options: dict[str, Any]) -> Any:
    check_is_fitted(model)
    if "decide" in options:
        thresholds_of(options["decide"], model.thresholds_, model.rules_)
    check_confidence(options.get("min_confidence"), model.calibrate)
    labelled, wide = name == "impute_labels", model.reader_.wide
    results = {}
    for block, table, labels in _tables(model, X, y, labelled=labelled):
        like = table if labels is None else labels
        view = None if wide else block
        task = _Prediction(_plain(model), view, name, options, like.is_frame)
        parts = map_parts(task, _inputs(table, labels), title=name, places=_places(table))
        if wide and name == "view_scores":
            return {v: _collection(map_parts(_Item(v), [(part,) for part in parts]), table,
                                   task.empty, table.divisions) for v in model.views_}  # fmt: skip
        empty = task.empty if labels is None else _as_block(labels.meta)
        results[block] = _collection(parts, like, empty, table.divisions)
    return results[FUSED] if wide else results


def _tables(
    model: Any, X: Any, y: Any = None, *, labelled: bool = True
) -> Iterator[tuple[str, PartitionedTable, PartitionedTable | None]]:
    """Name, features and labels of each view, or of a wide table, checked before they are read."""
    reader = model.reader_
    if is_apart(X) == reader.wide:
        reader.tables(X)  # an error, as the form is not that of the fit
    given = {FUSED: X} if reader.wide else X
    if labelled:
        reader.check_label_form(y, given)
    tables, labels = {}, {}
    for block, one in given.items():
        where = "X" if reader.wide else f"view {block!r}"
        table = partition(one, where)
        if labelled:
            of_block = y if reader.wide or y is None else y[block]
            if of_block is None:
                read_labels(None, reader.label_coding, where)  # an error that says it is missing
            table, labels[block] = with_labels(table, of_block, "y" if reader.wide else where)
        tables[block] = _without_labels(table, reader, block)
    rows = {block: _one_row(table) for block, table in tables.items()}
    reader.tables(rows[FUSED] if reader.wide else rows)
    return ((block, table, labels.get(block)) for block, table in tables.items())


def _without_labels(table: PartitionedTable, reader: TableReader, block: str) -> PartitionedTable:
    """Parquet files without the labels that they may have beside the features."""
    names: Any = getattr(reader, "feature_names_in_", None)
    features = names if reader.wide or names is None else names.get(block)
    if not isinstance(table.source, ParquetSource) or features is None:
        return table
    labels = set(reader.label_names_) - set(features)
    kept = [j for j, name in enumerate(table.columns or []) if name not in labels]
    return table if len(kept) == table.n_columns else table.select_columns(kept, table.where)


def _one_row(table: PartitionedTable) -> Any:
    """A table of one row with the columns of all parts, by which these are checked."""
    row = np.zeros((1, table.n_columns))
    if not table.is_frame:
        return row
    return load_dask("pandas").DataFrame(row, columns=nw.from_native(table.meta).columns)


def _inputs(table: PartitionedTable, labels: PartitionedTable | None) -> list[tuple[Any, ...]]:
    if labels is None:
        return [(part,) for part in table.parts]
    return list(zip(table.parts, labels.parts, table.places, strict=True))


def _places(table: PartitionedTable) -> list[list[Place]]:
    return [[place] for place in table.places]


def _plain(model: Any) -> Any:
    """A copy of the model whose results are arrays, whatever its `set_output`."""
    plain = copy.copy(model)
    vars(plain).pop("_sklearn_output_config", None)
    return plain


@dataclass(frozen=True)
class _Prediction:
    """Task that calls a method of a model with one part of a table."""

    model: Any
    view: str | None  # None for a wide table
    method: str
    options: dict[str, Any]
    as_frame: bool

    @property
    def empty(self) -> Any:
        """The result for no rows."""
        reader = self.model.reader_
        n_labels, dtype = len(reader.label_names_), int if self.method == "predict" else float
        flat = self.view is None and reader.one_column_ and self.method != "view_scores"
        shape = (0,) if flat and not self.as_frame else (0, n_labels)
        return self._contained(np.empty(shape, dtype=dtype), None)

    def __call__(self, i: int, part: Any, labels: Any = None, place: Place | None = None) -> Any:
        if place is not None:
            check_part_rows(place, part.shape[0], labels.shape[0])
        if part.shape[0] == 0:
            return self._nothing(part, labels)
        X = part if self.view is None else {self.view: part}
        if self.method == "impute_labels":
            y = labels if self.view is None else {self.view: labels}
            filled = self.model.impute_labels(X, y, **self.options)
            return _as_block(filled if self.view is None else filled[self.view])
        if self.method == "decision_function":  # without its warning, which counts the rows of X
            found = self.model._contain(self.model._scores(X), X)
        else:
            found = getattr(self.model, self.method)(X, **self.options)
        if self.view is not None:
            return self._contained(found[self.view], part)
        if isinstance(found, dict):
            return {view: self._contained(scores, part) for view, scores in found.items()}
        return self._contained(found, part)

    def _nothing(self, part: Any, labels: Any) -> Any:
        if self.method == "impute_labels":
            return _as_block(labels)
        if self.method == "view_scores" and self.view is None:
            return dict.fromkeys(self.model.views_, self.empty)
        return self.empty

    def _contained(self, values: NDArray, part: Any) -> Any:
        if not self.as_frame:
            return values
        names = list(self.model.reader_.label_names_)
        values = values.reshape(len(values), -1) if len(values) else values
        return load_dask("pandas").DataFrame(values, getattr(part, "index", None), names)


@dataclass(frozen=True)
class _Item:
    """Task that takes the result of one view."""

    view: str

    def __call__(self, i: int, results: dict[str, Any]) -> Any:
        return results[self.view]


@dataclass(frozen=True)
class _Scores:
    """Task that gives the scores and the signed labels of one part."""

    model: Any
    view: str | None

    def __call__(self, i: int, part: Any, labels: Any, place: Place) -> tuple[NDArray, NDArray]:
        check_part_rows(place, part.shape[0], labels.shape[0])
        reader = self.model.reader_
        if part.shape[0] == 0:
            n_labels = len(reader.label_names_)
            return np.empty((0, n_labels)), np.empty((0, n_labels), dtype=np.int8)
        X, y = (part, labels) if self.view is None else ({self.view: part}, {self.view: labels})
        scores = self.model._scores(X)[self.view or FUSED]
        return scores, next(iter(reader.labels(X, y).values())).signed


def _as_block(table: Any) -> Any:
    """A table in memory as one that collections of dask can have."""
    frame = nw.from_native(table, eager_only=True, pass_through=True, allow_series=True)
    return table if frame is table or hasattr(table, "iloc") else frame.to_pandas()


def _collection(parts: list[Any], like: PartitionedTable, empty: Any, divisions: Any) -> Any:
    """Collection of dask of the computed parts, in the container of ``empty``."""
    if hasattr(empty, "iloc"):
        return load_dask("dask.dataframe").from_delayed(
            parts, meta=empty, divisions=divisions, verify_meta=False, prefix="naim3l"
        )
    arrays, spec = load_dask("dask.array"), load_dask("dask.task_spec")
    name, rest = f"naim3l-{uuid4().hex}", (0,) * (empty.ndim - 1)
    keys = [(name, i, *rest) for i in range(len(parts))]
    layer = {key: spec.Alias(key, part.key) for key, part in zip(keys, parts, strict=True)}
    graph = load_dask("dask.highlevelgraph").HighLevelGraph.from_collections(
        name, layer, dependencies=parts
    )
    rows: Any = like.lengths or [np.nan] * len(parts)
    return arrays.Array(graph, name, (tuple(rows), *((n,) for n in empty.shape[1:])), meta=empty)
