"""Predictions for tables that are read in chunks, computed when dask is asked for them."""

import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from naim3l._arrays import Matrix
from naim3l.input.batches import Batch
from naim3l.input.chunks import load_dask
from naim3l.input.labels import LabelledRows, LabelWords
from naim3l.input.sources import (
    ChunkedTable,
    FileView,
    any_chunked,
    open_tables,
    with_columns,
)
from naim3l.input.views import FUSED


def lazily(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a method of a model, which is lazy for tables that are read in chunks.

    Its result is then a data frame of dask for data frames of dask and for files, with the same
    index and divisions, and an array of dask for arrays of dask; `set_output` does not change
    that. The method computes it from each partition as from a table in memory.
    """

    @wraps(method)
    def call(model: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not any_chunked(X):
            return method(model, X, *args, **options)
        given = inspect.signature(method).bind(model, X, *args, **options).arguments
        y = given.pop("y", None)
        chosen = {name: given[name] for name in list(given)[2:]}
        return _predict_lazily(model, method.__name__, X, y, chosen)

    return call


def scores_of_chunks(model: Any, X: Any, y: Any) -> Iterator[tuple[str, Matrix, LabelledRows]]:
    """Name, scores and labels of each view, or of a wide table, of which only these are kept."""
    for table in _tables(model, X, y, labelled=True).values():
        assert table.label_meta is not None
        task = _Scores(_plain(model), table.name, table.words)
        scores, signed = table.fold(task, _stacked, title="score")
        rows = LabelledRows(table.label_meta, signed, table.one_column)
        yield FUSED if model.names_.wide else table.name, scores, rows


def _stacked(a: tuple[NDArray, NDArray], b: tuple[NDArray, NDArray]) -> tuple[NDArray, ...]:
    return tuple(np.concatenate(pair) for pair in zip(a, b, strict=True))


def _tables(model: Any, X: Any, y: Any, *, labelled: bool) -> dict[str, ChunkedTable]:
    """Tables, checked before they are read."""
    check_is_fitted(model)
    model.names_.check_form(X)
    tables = open_tables(with_columns(X, model.names_.needed_columns()), y, labelled=labelled)
    for name, table in tables.items():
        if not isinstance(table, ChunkedTable):
            raise TypeError(f"{name!r} is in memory, and other tables are read in chunks.")
        model.names_.split(name, table.meta)
    return tables  # type: ignore[return-value]


def _plain(model: Any) -> Any:
    """A copy of the model whose results are arrays, whatever its `set_output`."""
    plain = copy.copy(model)
    vars(plain).pop("_sklearn_output_config", None)
    return plain


def _predict_lazily(model: Any, method: str, X: Any, y: Any, options: dict[str, Any]) -> Any:
    tables = _tables(model, X, y, labelled=method == "impute_labels")
    wide, results = model.names_.wide, {}
    for name, table in tables.items():
        if wide and method == "view_scores":
            return {
                view: _collection(_Prediction.of(model, table, method, options, view), table)
                for view in model.views_
            }
        results[name] = _collection(_Prediction.of(model, table, method, options), table)
    return next(iter(results.values())) if wide else results


@dataclass(frozen=True)
class _Prediction:
    """Function of a partition, or of a part of files, that calls a method of a model.

    Attributes
    ----------
    model : ViewModel
    table : str
        Name of the table.
    method : str
    options : dict
    read : callable
        Gives the batches of a part.
    empty : data frame or ndarray
        The result for no rows.
    view : str or None
        View of a wide table whose scores are asked for.
    """

    model: Any
    table: str
    method: str
    options: dict[str, Any]
    read: Callable[..., Any]
    empty: Any
    view: str | None = None

    @classmethod
    def of(
        cls,
        model: Any,
        table: ChunkedTable,
        method: str,
        options: dict[str, Any],
        view: str | None = None,
    ) -> "_Prediction":
        empty = _empty(model, table, method)
        return cls(_plain(model), table.name, method, options, table.read, empty, view)

    def __call__(self, part: Any, labels: Any = None) -> Any:
        batches = self.read(0, part) if labels is None else self.read(0, part, labels)
        results = [self._of_batch(*rows) for rows in batches if len(rows[0])]
        if len(results) > 1:
            return load_dask("pandas").concat(results)
        return results[0] if results else self.empty

    def _of_batch(self, features: Batch, labels: Batch | None = None) -> Any:
        wide = self.model.names_.wide
        X: Any = features if wide else {self.table: features}
        if self.method == "decision_function":  # without its warning, which counts the rows of X
            found = self.model._contain(self.model._scores(X), X)
        elif self.method == "impute_labels":
            assert labels is not None
            y = labels.data if wide else {self.table: labels.data}
            found = self.model.impute_labels(X, y, **self.options)
        else:
            found = getattr(self.model, self.method)(X, **self.options)
        if self.view is not None or not wide:
            found = found[self.view or self.table]
        if not hasattr(self.empty, "iloc") or not isinstance(found, np.ndarray):
            return found
        values, index = found.reshape(len(found), -1), getattr(features.data, "index", None)
        return load_dask("pandas").DataFrame(values, index, list(self.empty.columns))


def _empty(model: Any, table: ChunkedTable, method: str) -> Any:
    """The result of a method for no rows, as a data frame or array."""
    if method == "impute_labels":
        assert table.label_meta is not None
        return table.label_meta.data
    names = model.names_
    flat = names.wide and names.one_column and method != "view_scores"
    columns = ["0", "1"] if flat and method == "predict_proba" else list(names.labels)
    values = np.empty((0, len(columns)), dtype=np.int64 if method == "predict" else np.float64)
    if isinstance(table.native, FileView) or hasattr(table.native, "divisions"):
        return load_dask("pandas").DataFrame(values, columns=columns)
    return values[:, 0] if flat and len(columns) == 1 else values


def _collection(predict: _Prediction, table: ChunkedTable) -> Any:
    """Data frame or array of dask with the results of all partitions."""
    native, meta = table.native, predict.empty
    given = (table.native_labels,) if predict.method == "impute_labels" else ()
    if isinstance(native, FileView):
        parts = [part for (part,) in table.parts]
        return load_dask("dask.dataframe").from_map(predict, parts, meta=meta)
    if hasattr(native, "divisions"):
        options: dict[str, Any] = {"align_dataframes": False, "enforce_metadata": False}
        return native.map_partitions(predict, *given, meta=meta, **options)
    rows = native.rechunk({1: -1})
    chunks = (rows.chunks[0], *((n,) for n in meta.shape[1:]))
    options = {"meta": meta, "chunks": chunks, "drop_axis": [1] if meta.ndim == 1 else []}
    return load_dask("dask.array").map_blocks(predict, rows, *given, **options)


@dataclass(frozen=True)
class _Scores:
    """Task that gives the scores and the signed labels of a batch."""

    model: Any
    table: str
    words: LabelWords

    def __call__(self, part: int, row: int, features: Batch, labels: Batch) -> tuple[Any, Any]:
        wide = self.model.names_.wide
        X: Any = features if wide else {self.table: features}
        scores = self.model._scores(X)[FUSED if wide else self.table]
        return scores, LabelledRows.of(labels, self.words, one_column=False).signed
