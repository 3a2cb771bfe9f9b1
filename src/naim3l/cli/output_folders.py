"""Answers for tables that are read in chunks: a folder with a file for each part of the tables.

A file that is there is not written again: a command that was interrupted is resumed.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from naim3l._warnings import warn_user
from naim3l.cli.chunks import open_chunks, row_starts
from naim3l.cli.predictions import empty_rows
from naim3l.cli.tables import ViewTable
from naim3l.files.atomic_write import new_folder, write_text
from naim3l.files.errors import load_extra
from naim3l.files.writers import appended
from naim3l.input.batches import Batch
from naim3l.input.chunks import run_pass

# Identity of the run that writes to a folder. Readers of folders skip names that begin with "_".
RUN = "_naim3l.json"
Answer = Callable[[Batch, Any], Any]  # a data frame of the features and the labels of a batch


def identify(model: Path, views: Mapping[str, ViewTable], *options: Any) -> str:
    """SHA-256 of a model file, the files of tables, and options."""
    digest = hashlib.sha256(model.read_bytes())
    tables = {name: [view.table.facts, view.id, view.labels] for name, view in views.items()}
    digest.update(json.dumps([tables, options], sort_keys=True).encode())
    return digest.hexdigest()


class Written(NamedTuple):
    """Numbers of rows that were written, of those without a value, and of files that were there."""

    n_rows: int
    n_empty: int
    n_there: int = 0

    def combine(self, other: "Written") -> "Written":
        return Written(*(a + b for a, b in zip(self, other, strict=True)))

    def __str__(self) -> str:
        there = f" (and {self.n_there} files were there already)" if self.n_there else ""
        return f"{self.n_rows} rows{there}"


@dataclass(frozen=True)
class Target:
    """A folder of files, one for each part of the tables.

    Attributes
    ----------
    folder : Path
    extension : str
        Of the files, with a dot.
    run : str
        Result of `identify`, which the file `RUN` has.
    safe : bool
        As ``spreadsheet_safe`` of `naim3l.files.writers.write_table`.
    """

    folder: Path
    extension: str
    run: str
    safe: bool

    @classmethod
    def of_folder(cls, out: Path, extension: str, run: str, safe: bool) -> "Target":
        """A folder that the user names; refused if it has something else in it than this run."""
        target = cls(out, f".{extension.removeprefix('.')}", run, safe)
        if fault := target._fault():
            raise ValueError(fault)
        return target

    @classmethod
    def of_file(cls, out: Path, run: str, safe: bool) -> "Target":
        """The hidden folder beside a file in which its rows are gathered."""
        target = cls(out.with_name(f".{out.name}.parts"), ".parquet", run, safe)
        if target._fault():  # what another run has left there
            shutil.rmtree(target.folder)
        return target

    def path(self, number: int) -> Path:
        return self.folder / f"part-{number:05d}{self.extension}"

    def _fault(self) -> str:
        if self.folder.exists() and not self.folder.is_dir():
            return f"{self.folder} is a file, where a folder is needed."
        if not self.folder.exists() or not any(self.folder.iterdir()):
            return ""
        try:
            found = json.loads((self.folder / RUN).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = None
        if isinstance(found, dict) and found.get("run") == self.run:
            return ""
        what = "other files"
        if found is not None:
            what = "the files of another run, with another model or with other tables or options"
        return f"the folder {self.folder} has {what}; name another folder, or delete it."

    def write(
        self,
        model: Any,
        views: Mapping[str, ViewTable],
        answers: Mapping[str, Answer],
        batch_bytes: int | None,
    ) -> Written:
        """Write the files that are not there yet; parts of all views are numbered in order."""
        with new_folder(self.folder):
            if not (self.folder / RUN).exists():
                write_text(self.folder / RUN, json.dumps({"run": self.run}) + "\n")
        first, done = 0, Written(0, 0)
        for name, view in views.items():
            table = open_chunks(view, batch_bytes)
            left = [i for i in range(len(table.parts)) if not self.path(first + i).exists()]
            if left:
                starts = row_starts(view, batch_bytes) if view.id is None else None
                now = run_pass(
                    table.read,
                    [table.parts[i] for i in left],
                    _WritePart(model, name, answers[name], self, first, starts),
                    Written.combine,
                    title=f"write {name}",
                    shown=True,
                    n_rows=None if table.lengths is None else [table.lengths[i] for i in left],
                    numbers=left,
                )
                done = done.combine(now)
            done = done.combine(Written(0, 0, len(table.parts) - len(left)))
            first += len(table.parts)
        if done.n_empty:
            some = f"{done.n_empty} of {done.n_rows} rows"
            warn_user(f"rows without any value have no answer: {some}.")
        return done

    def join(self, out: Path) -> Written:
        """Write the rows of all files to one, and delete the folder."""
        arrow, parquet = load_extra("pyarrow"), load_extra("pyarrow.parquet")
        # Whole numbers, even where some are missing.
        types = {arrow.int64(): load_extra("pandas").Int64Dtype()}
        n_rows = 0
        with appended(out, spreadsheet_safe=self.safe) as append:
            for path in sorted(self.folder.glob(f"part-*{self.extension}")):
                with parquet.ParquetFile(path) as file:
                    table = file.read().to_pandas(types_mapper=types.get)
                append(table)
                n_rows += len(table)
        shutil.rmtree(self.folder)
        return Written(n_rows, 0)


@dataclass(frozen=True)
class _WritePart:
    """Task that writes the answers for a part of a table, batch by batch.

    Attributes
    ----------
    first : int
        Number of the file of the first part.
    starts : ndarray or None
        Number of the first row of each part, if rows are to be numbered over the table.
    """

    model: Any
    view: str
    answer: Answer
    target: Target
    first: int
    starts: Any

    def __call__(self, part: int, batches: Iterable[tuple[Batch, Batch | None]]) -> Written:
        n_rows, n_empty = 0, 0
        path = self.target.path(self.first + part)
        with appended(path, spreadsheet_safe=self.target.safe) as append:
            for features, labels in batches:
                if self.starts is not None:
                    start = int(self.starts[part]) + n_rows
                    features = _numbered(features, start)
                    labels = None if labels is None else _numbered(labels, start)
                append(self.answer(features, labels))
                n_rows += len(features)
                n_empty += int(empty_rows(self.model, self.view, features).sum())
        return Written(n_rows, n_empty)


def _numbered(batch: Batch, start: int) -> Batch:
    frame = batch.data.set_axis(range(start, start + len(batch)), axis=0)
    return Batch(frame, batch.origin, batch.column_word)
