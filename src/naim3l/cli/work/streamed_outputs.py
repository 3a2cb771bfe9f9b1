"""Answers for tables that are read in parts, written part by part and resumed after a kill.

A folder of parts has a file `RUN`, which identifies the model, the tables and the options; parts
that are there are not computed again.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from naim3l._warnings import warn_user
from naim3l.cli.work.answers import (
    check_calibrated,
    impute,
    name_of_views,
    name_view,
    predict_views,
    prepare_answers,
)
from naim3l.cli.work.row_ids import check_id_names, name_rows, warn_of_rows_without_ids
from naim3l.cli.work.study import ViewData
from naim3l.estimators.linear import LinearViewModel
from naim3l.files.atomic_write import new_folder, write_text
from naim3l.files.readers import ReadError, check_target, write_table
from naim3l.files.readers.writers import appended
from naim3l.input.passes import run_pass

# Readers of folders skip files whose name begins with "_".
RUN = "_naim3l.json"


class Written(NamedTuple):
    """Number of rows written, and of those without any value."""

    n_rows: int
    n_empty: int

    def combine(self, other: "Written") -> "Written":
        return Written(self.n_rows + other.n_rows, self.n_empty + other.n_empty)


@dataclass(frozen=True)
class Target:
    """A folder of parts.

    Attributes
    ----------
    folder : Path
    extension : str
        Of the parts, with a dot.
    run : str
        Identity of the model, the tables and the options.
    spreadsheet_safe : bool
        As in `write_table`.
    """

    folder: Path
    extension: str
    run: str
    spreadsheet_safe: bool = True

    def path(self, number: int) -> Path:
        return self.folder / f"part-{number:05d}{self.extension}"

    def check(self) -> None:
        """Refuse a folder that has something else in it than parts of this run."""
        if self.folder.exists() and not self.folder.is_dir():
            raise ReadError(f"{self.folder} is a file, where a folder is needed.")
        if not self.folder.exists() or not any(self.folder.iterdir()):
            return
        try:
            found = json.loads((self.folder / RUN).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = None
        if not isinstance(found, dict) or found.get("run") != self.run:
            what = "other files" if found is None else (
                "the parts of another run, with another model or with other tables or options"
            )  # fmt: skip
            raise ReadError(
                f"the folder {self.folder} has {what}; name another folder, or delete it."
            )

    def open(self) -> None:
        with new_folder(self.folder):
            if not (self.folder / RUN).exists():
                write_text(self.folder / RUN, json.dumps({"run": self.run}) + "\n")


def identify(model: Path, data: Mapping[str, ViewData], options: Mapping[str, Any]) -> str:
    """SHA-256 of a model file, the files of tables, and options."""
    digest = hashlib.sha256(model.read_bytes())
    tokens = {name: view.features.token for name, view in data.items()}
    digest.update(json.dumps([tokens, options], sort_keys=True).encode())
    return digest.hexdigest()


def write_predictions(
    model: LinearViewModel,
    data: Mapping[str, ViewData],
    target: Target,
    kind: str = "labels",
    decide: str | None = None,
    *,
    shown: bool = False,
) -> int:
    """Write predictions as `predict_tables` has them; the number of rows.

    Parameters
    ----------
    model : fitted model
    data : mapping of view to ViewData
        With features in parts. Parts of all views are numbered in this order.
    target : Target
    kind, decide
        As in `predict_tables`.
    shown : bool
        Whether bars show the progress.
    """
    import pandas as pd

    empty = {name: view.features.meta for name, view in data.items()}
    prepare_answers(model, empty, kind)
    warn_of_rows_without_ids(empty)
    names = [table.index.name for table in empty.values()]
    columns = pd.DataFrame(columns=model.label_names_)
    column = name_of_views(columns, names) if len(data) > 1 else None
    index = name_rows(columns, names).index.name

    def make(view: str) -> "_Predict":
        return _Predict(model, view, kind, decide, column, index)

    return _write(target, data, make, shown)


def write_imputed(
    model: LinearViewModel,
    name: str,
    view: ViewData,
    target: Target,
    min_confidence: float | None = None,
    *,
    shown: bool = False,
) -> int:
    """Write the labels of a view with unknown ones filled in, as `impute` does; number of rows."""
    check_id_names({name: view.features.meta}, model.label_names_)
    check_calibrated(model)
    model.set_output(transform="pandas")
    return _write(target, {name: view}, lambda _: _Impute(model, name, min_confidence), shown)


def join_parts(target: Target, out: Path, n_parts: int) -> None:
    """Write the parts of a folder to one file, in their order, and delete the folder."""
    with appended(out, spreadsheet_safe=target.spreadsheet_safe) as append:
        for number in range(n_parts):
            append(_read_part(target.path(number)))
    shutil.rmtree(target.folder)


def _read_part(path: Path) -> Any:
    """Table of a part, with whole numbers even where some are missing."""
    import pandas as pd
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        return file.read().to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)


def _write(
    target: Target, data: Mapping[str, ViewData], make: Callable[[str], Any], shown: bool
) -> int:
    """Write the parts that are not there yet; the number of rows of all."""
    target.open()
    first, done = 0, Written(0, 0)
    for name, view in data.items():
        tables = [view.features] if view.labels is None else [view.features, view.labels]
        lengths = view.features.lengths
        left = [i for i in range(len(lengths)) if not target.path(first + i).exists()]
        if left:
            at = list(zip(*(table.places for table in tables), strict=True))
            parts = list(zip(*(table.parts for table in tables), strict=True))
            done = done.combine(
                run_pass(
                    _WritePart(make(name), target),
                    [(first + i, *parts[i]) for i in left],
                    Written.combine,
                    title="write" if len(data) == 1 else f"write {name}",
                    shown=shown,
                    n_rows=[lengths[i] for i in left],
                    places=[at[i] for i in left],
                )
            )
        first += len(lengths)
    if done.n_empty:
        warn_user(f"rows without any value have no answer: {done.n_empty} of {done.n_rows} rows.")
    return sum(sum(view.features.lengths) for view in data.values())


@dataclass(frozen=True)
class _WritePart:
    """Task that writes the answers for a part."""

    answer: Callable[..., Any]
    target: Target

    def __call__(self, i: int, number: int, features: Any, labels: Any = None) -> Written:
        table = self.answer(features, labels)
        path = self.target.path(number)
        write_table(table, path, spreadsheet_safe=self.target.spreadsheet_safe)
        return Written(len(features), int(features.isna().all(axis=1).sum()))


@dataclass(frozen=True)
class _Predict:
    model: LinearViewModel
    view: str
    kind: str
    decide: str | None
    column: str | None
    index: str

    def __call__(self, features: Any, labels: Any) -> Any:
        answers = predict_views(self.model, {self.view: features}, self.kind, self.decide)
        table = answers[self.view]
        if self.column is not None:
            table = name_view(table, self.column, self.view)
        return table.rename_axis(self.index)


@dataclass(frozen=True)
class _Impute:
    model: LinearViewModel
    view: str
    min_confidence: float | None

    def __call__(self, features: Any, labels: Any) -> Any:
        view = ViewData(features, [], labels)
        return impute(self.model, {self.view: view}, self.min_confidence)[self.view]


def folder_target(out: Path, extension: str, run: str, *, spreadsheet_safe: bool) -> Target:
    """The folder of a run; refuses an unknown extension, and a folder of another run."""
    dotted = f".{extension.removeprefix('.')}"
    target = Target(out, dotted, run, spreadsheet_safe)
    check_target(target.path(0))
    target.check()
    return target


def file_target(out: Path, run: str, *, spreadsheet_safe: bool) -> Target:
    """The hidden folder beside a file in which its parts are gathered.

    What another run has left in it is deleted.
    """
    target = Target(out.with_name(f".{out.name}.parts"), ".parquet", run, spreadsheet_safe)
    try:
        target.check()
    except ReadError:
        shutil.rmtree(target.folder)
    return target
