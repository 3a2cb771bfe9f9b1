"""Tables that are read in parts: roles and kinds of columns are decided by their first rows.

Each part is read once in a pass, for features and labels together. Ids are not compared across
parts, which would need all of them in memory.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from naim3l.cli.settings import Config
from naim3l.cli.work.new_tables import columns_of_kind, read_known, read_new
from naim3l.cli.work.study import ViewData, read_training
from naim3l.estimators.linear import LinearViewModel
from naim3l.features.column_kinds import DATE, TEXT
from naim3l.files.readers import ReadError, parse_labels
from naim3l.files.readers.cells import distinct, word
from naim3l.files.readers.errors import mark_origin, origin, quote, source_of
from naim3l.files.readers.features import parse_known
from naim3l.files.readers.file_parts import HEAD_ROWS, open_parts
from naim3l.files.readers.ids import set_ids
from naim3l.input.partitions import PartitionedTable
from naim3l.input.passes import load_dask, map_parts
from naim3l.input.places import Place
from naim3l.input.roles import ViewRoles

# Words of labels whose meaning depends on other cells of the column.
_SIGNS = {"+", "-1"}


def open_training(
    config: Config, part_bytes: int | None = None, judged_later: Collection[str] = ()
) -> dict[str, ViewData]:
    """Views of the settings as `read_training` has them, with tables in parts.

    Parameters
    ----------
    config : Config
    part_bytes : int, optional
        Size of a part in memory, about.
    judged_later : collection of str
        As in `read_training`.
    """
    opened = _open(config, part_bytes)
    heads = read_training(config, _head_reader(config, opened), judged_later)
    data = {}
    for name, head in heads.items():
        words = set(head.words)
        dates = [column for column, dtype in head.features.dtypes.items()
                 if dtype.kind == "O" and column not in words]  # fmt: skip
        kinds = _Kinds(list(head.features.columns), head.words, dates, True, _cure_of_fit)
        data[name] = _in_parts(name, opened[name], head, kinds, _signs(opened[name], head.roles))
    return data


def open_known(
    model: LinearViewModel, config: Config, part_bytes: int | None = None
) -> dict[str, ViewData]:
    """Views of a fitted model as `read_known` has them, with tables in parts."""
    opened = _open(config, part_bytes)
    heads = read_known(model, config, _head_reader(config, opened))
    return {
        name: _in_parts(name, opened[name], head, _kinds_of_fit(model, name, head.features),
                        _signs(opened[name], head.roles))
        for name, head in heads.items()
    }  # fmt: skip


def open_new(
    model: LinearViewModel, config: Config, part_bytes: int | None = None
) -> dict[str, ViewData]:
    """Views without labels as `read_new` has them, with tables in parts."""
    opened = _open(config, part_bytes)
    tables = config.views.items()
    heads = read_new(
        model,
        {name: view.source for name, view in tables},
        ids={name: view.id for name, view in tables},
        read=_head_reader(config, opened),
    )
    return {
        name: _in_parts(name, opened[name], ViewData(table, []), _kinds_of_fit(model, name, table))
        for name, table in heads.items()
    }


def _open(config: Config, part_bytes: int | None) -> dict[str, Any]:
    for name, view in config.views.items():
        if view.labels_file is not None:
            raise ReadError(
                f"view {name!r}: labels in a file of their own are matched by id, for which tables "
                "must fit in memory; tables that are read in parts need the labels as columns."
            )
    return {name: open_parts(view.source, f"view {name!r}", part_bytes)
            for name, view in config.views.items()}  # fmt: skip


def _head_reader(config: Config, opened: Mapping[str, Any]) -> Callable[..., Any]:
    """Function that reads the first rows of a source."""
    by_source = {view.source: opened[name] for name, view in config.views.items()}

    def read(source: str, **options: Any) -> Any:
        return by_source[source].head(**options)

    return read


@dataclass(frozen=True)
class _Kinds:
    """Feature columns, and how their cells are read."""

    names: list[str]
    words: list[str]
    dates: list[str]
    takes_missing: bool
    cure: Callable[[str], str]


def _kinds_of_fit(model: LinearViewModel, view: str, table: Any) -> _Kinds:
    words, dates = (columns_of_kind(model, view, kind) for kind in (TEXT, DATE))
    takes_missing = model.features_[view].accepts_missing
    return _Kinds(list(table.columns), words, dates, takes_missing, _cure_of_model)


def _cure_of_fit(name: str) -> str:
    return (
        f"Cells of the column in the first {HEAD_ROWS} rows are of another kind: correct such "
        "cells, or leave unknown ones empty; or state in the settings of the view that the column "
        f"is text, with text = [{quote(name)}]."
    )


def _cure_of_model(name: str) -> str:
    return (
        "In training the column had no such cell: correct such cells, or leave unknown ones empty."
    )


def _signs(opened: Any, roles: ViewRoles) -> dict[str, list[str]]:
    """Words in the first rows of labels that have a sign, by which all parts are read alike."""
    table, found = opened.head(), {}
    for name in roles.labels:
        words = {word(cell) for cell in distinct(table[name])[1]}
        if words & _SIGNS:
            found[name] = sorted(words)
    return found


def _in_parts(
    name: str,
    opened: Any,
    head: ViewData,
    kinds: _Kinds,
    signs: Mapping[str, list[str]] | None = None,
) -> ViewData:
    """The view of a head, with the features and labels of all rows in parts."""
    where, id_column = f"view {name!r}", head.features.index.name
    own = [] if head.labels is None else head.roles.labels
    columns = [*([] if id_column is None else [id_column]), *kinds.names, *own]
    kept_text = {*kinds.words, *kinds.dates, *([] if id_column is None else [id_column])}
    frames = opened.frames(where, list(dict.fromkeys(columns)), kept_text)
    lengths, places = opened.lengths, opened.places(where)
    labels = None if head.labels is None else list(head.labels.columns)
    task = PartParser(id_column, kinds, head.roles, labels, dict(signs or {}))
    parsed = map_parts(
        task,
        list(zip(frames, _starts(lengths), strict=True)),
        title="parse",
        places=None if opened.located else [[place] for place in places],
    )
    facts = opened.facts()
    tables = {
        which: _FileColumns(parsed, which, meta, lengths, tuple(places), facts).table(where)
        for which, meta in task.metas(head).items()
    }
    return replace(head, features=tables["features"], labels=tables.get("labels"))


def _starts(lengths: Sequence[int]) -> list[int]:
    starts = [0]
    for n_rows in lengths[:-1]:
        starts.append(starts[-1] + n_rows)
    return starts


@dataclass(frozen=True)
class PartParser:
    """Task that makes features and labels of a part.

    Attributes
    ----------
    id : str or None
        Column with the ids; without it, rows are numbered over all parts.
    kinds : _Kinds
    roles : ViewRoles
        With the label columns of the view, and words for their cells.
    labels : list of str or None
        Labels of all views; None if none are read.
    signs : dict of str to list of str
        Words of label columns in the first rows, where their meaning depends on each other.
    """

    id: str | None
    kinds: _Kinds
    roles: ViewRoles
    labels: list[str] | None
    signs: dict[str, list[str]]

    def __call__(self, i: int, frame: Any, start: int) -> dict[str, Any]:
        import pandas as pd

        if self.id is None:
            table = frame.set_axis(pd.RangeIndex(start, start + len(frame)), axis=0)
        else:
            table = set_ids(frame, self.id, unique=False)
        kinds = self.kinds
        parsed = {
            "features": parse_known(
                table[kinds.names],
                kinds.words,
                kinds.dates,
                takes_missing=kinds.takes_missing,
                cure=kinds.cure,
            )
        }
        parsed["features"] = self._typed(parsed["features"])
        if self.labels is not None:
            parsed["labels"] = self._labels(table).reindex(columns=self.labels)
        for part in parsed.values():
            part.attrs = {}  # it would be compared wherever parts are joined
        return parsed

    def metas(self, head: ViewData) -> dict[str, Any]:
        """Features and labels without rows."""
        metas = {"features": self._typed(head.features.iloc[:0].copy())}
        if self.labels is not None:
            metas["labels"] = head.labels.iloc[:0]
        for meta in metas.values():
            meta.attrs = {}
        return metas

    def _typed(self, features: Any) -> Any:
        """The features, changed: their text cannot be taken for numbers or dates."""
        for name in self.kinds.words:  # one by one, so that numbers stay one block
            features[name] = features[name].astype("category")
        return features

    def _labels(self, table: Any) -> Any:
        import pandas as pd

        roles, source = self.roles, table[self.roles.labels]
        words = {"yes": roles.yes, "no": roles.no, "unknown": roles.unknown}
        if not self.signs:
            return parse_labels(source, **words)
        known = pd.DataFrame({name: pd.Series(cells, dtype=object)
                              for name, cells in self.signs.items()})  # fmt: skip
        longer = pd.concat([source.astype(object), known.reindex(columns=source.columns)])
        mark_origin(
            longer,
            source_of(source),
            origin(source, "lines"),
            first_row=origin(source, "first_row", 0),
        )
        return parse_labels(longer, **words).iloc[: len(source)].set_axis(source.index)


@dataclass(frozen=True)
class _FileColumns:
    """Source of a `PartitionedTable`: the features or the labels of parsed parts."""

    parsed: list[Any]
    which: str
    meta: Any
    lengths: list[int]
    at: tuple[Place, ...]
    facts: list[Any] = field(repr=False)
    divisions = None

    def table(self, where: str) -> PartitionedTable:
        return PartitionedTable(
            where, self.meta, self.parts(where, None), self.places(where), self.lengths, None, self
        )

    def parts(self, where: str, positions: Sequence[int] | None) -> list[Any]:
        return map_parts(_Pick(self.which, positions), [(part,) for part in self.parsed],
                         title=self.which)  # fmt: skip

    def places(self, where: str) -> list[Place]:
        return [replace(place, where=where) for place in self.at]

    def token(self) -> str:
        return self._token

    @cached_property
    def _token(self) -> str:
        return load_dask("dask.base").tokenize(self.facts, self.which, list(self.meta.columns))


@dataclass(frozen=True)
class _Pick:
    """Task that takes the features or the labels of a parsed part."""

    which: str
    positions: Sequence[int] | None

    def __call__(self, i: int, parsed: Mapping[str, Any]) -> Any:
        table = parsed[self.which]
        return table if self.positions is None else table.iloc[:, list(self.positions)]
