"""Predictions for tables that are read in chunks, computed when dask is asked for them."""

import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from naim3l._arrays import Matrix
from naim3l.files.errors import load_extra
from naim3l.input.batches import Batch
from naim3l.input.labels import LabelledRows, LabelWords
from naim3l.input.sources import ChunkedTable, FileView, all_chunked, any_chunked, open_tables
from naim3l.input.views import FUSED


def lazily(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a method of a model, which is lazy for tables that are read in chunks.

    Its result is then a data frame of dask for data frames and files, with the same index and
    divisions, and an array for arrays, computed from each partition as from a table in memory.
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
        assert table.labels is not None
        block = FUSED if model.names_.wide else table.name
        task = partial(_score_batch, _plain(model), block, table.words)
        scores, signed = table.fold(task, _stacked, title="score")
        yield block, scores, LabelledRows(table.labels, signed, table.one_column)


def _score_batch(
    model: Any, block: str, words: LabelWords, part: int, row: int, features: Batch, labels: Batch
) -> tuple[Any, ...]:
    scores = model._scores(features if block == FUSED else {block: features})[block]
    return scores, LabelledRows.of(labels, words, one_column=False).signed


def _stacked(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(np.concatenate(pair) for pair in zip(a, b, strict=True))


def _tables(model: Any, X: Any, y: Any, *, labelled: bool) -> dict[str, ChunkedTable]:
    """Tables, checked before they are read."""
    check_is_fitted(model)
    model.names_.check_form(X)
    tables = all_chunked(open_tables(model._with_columns(X), y, labelled=labelled))
    for name, table in tables.items():
        model.names_.split(name, table.features)
    return tables


def _plain(model: Any) -> Any:
    """A copy of the model whose results are arrays, whatever its `set_output`."""
    plain = copy.copy(model)
    vars(plain).pop("_sklearn_output_config", None)
    return plain


def _predict_lazily(model: Any, method: str, X: Any, y: Any, options: dict[str, Any]) -> Any:
    results = {}
    for name, table in _tables(model, X, y, labelled=method == "impute_labels").items():
        empty, key = _empty(model, table, method), None if model.names_.wide else name
        predict = _Prediction(
            _plain(model), method, options, table.read, empty, table.one_column, key
        )
        if model.names_.wide and method == "view_scores":
            return {v: _collection(replace(predict, key=v), table) for v in model.views_}
        results[name] = _collection(predict, table)
    return next(iter(results.values())) if model.names_.wide else results


@dataclass(frozen=True)
class _Prediction:
    """Function of a partition, or of a part of files, that calls a method of a model."""

    model: Any
    method: str
    options: dict[str, Any]
    read: Callable[..., Any]  # gives the batches of a part
    empty: Any  # the result for no rows, a data frame or array
    one_column: bool  # whether labels are one-dimensional
    key: str | None  # of the view; None for a wide table, unless scores of a view are asked for

    def __call__(self, number: int, *part: Any) -> Any:
        """Result for a part: a partition, and its labels if they are needed, or rows of files."""
        batches = self.read(number, *part)
        results = [self._of_batch(*rows) for rows in batches if len(rows[0])]
        if len(results) > 1:
            return load_extra("pandas").concat(results)
        return results[0] if results else self.empty

    def _of_batch(self, features: Batch, labels: Batch | None = None) -> Any:
        wide = self.model.names_.wide
        X: Any = features if wide else {self.key: features}
        if self.method == "decision_function":  # without its warning, which counts the rows of X
            found = self.model._contain(self.model._scores(X), X)
        elif self.method == "impute_labels":
            assert labels is not None
            y = _first_column(labels.data) if self.one_column else labels.data
            found = self.model.impute_labels(X, y if wide else {self.key: y}, **self.options)
        else:
            found = getattr(self.model, self.method)(X, **self.options)
        found = found if self.key is None else found[self.key]
        if not hasattr(self.empty, "iloc") or not isinstance(found, np.ndarray):
            return found
        values, index = found.reshape(len(found), -1), features.index
        return load_extra("pandas").DataFrame(values, index, list(self.empty.columns))


def _first_column(table: Any) -> Any:
    return table.iloc[:, 0] if hasattr(table, "iloc") else table[:, 0]


def _empty(model: Any, table: ChunkedTable, method: str) -> Any:
    """The result of a method for no rows, as a data frame, series or array."""
    if method == "impute_labels":
        assert table.labels is not None
        given = table.labels.data
        return _first_column(given) if table.one_column else given
    names = model.names_
    flat = names.wide and names.one_column and method != "view_scores"
    columns = ["0", "1"] if flat and method == "predict_proba" else list(names.labels)
    values = np.empty((0, len(columns)), dtype=np.int64 if method == "predict" else np.float64)
    if isinstance(table.native, FileView) or hasattr(table.native, "divisions"):
        return load_extra("pandas").DataFrame(values, columns=columns)
    return values[:, 0] if flat and len(columns) == 1 else values


def _collection(predict: _Prediction, table: ChunkedTable) -> Any:
    """Data frame, series or array of dask with the results of all parts."""
    # The model is in the graph once, and not sent to a cluster with every task.
    delayed = partial(load_extra("dask").delayed, pure=False, traverse=False)
    shared, call = delayed(predict), delayed(_Prediction.__call__)
    parts = [call(shared, i, *part) for i, part in enumerate(table.parts)]
    meta = predict.empty
    if hasattr(meta, "iloc"):
        like = table.native_labels if predict.method == "impute_labels" else table.native
        divisions = getattr(like, "divisions", None)
        options: dict[str, Any] = {"meta": meta, "verify_meta": False}
        return load_extra("dask.dataframe").from_delayed(parts, divisions=divisions, **options)
    array, unknown = load_extra("dask.array"), [float("nan")] * len(parts)
    blocks = [
        array.from_delayed(part, (n, *meta.shape[1:]), dtype=meta.dtype)
        for part, n in zip(parts, table.lengths or unknown, strict=True)
    ]
    return array.concatenate(blocks, allow_unknown_chunksizes=True)
