"""Parquet files of a path, a folder, a pattern or a dataset of pyarrow, and their columns."""

import glob
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, takewhile
from pathlib import Path
from typing import Any

from naim3l._text import some
from naim3l.input.passes import load_dask

EXTENSIONS = (".parquet", ".parq", ".pq")
_TYPED_BY = b"naim3l.file"


def is_dataset(X: Any) -> bool:
    """Whether it is a dataset of pyarrow."""
    return type(X).__module__.startswith("pyarrow.") and hasattr(X, "get_fragments")


def is_parquet(X: Any) -> bool:
    """Whether it is a path, a list of paths, or a dataset of pyarrow."""
    if isinstance(X, list | tuple):
        return bool(X) and all(isinstance(path, str | os.PathLike) for path in X)
    return isinstance(X, str | os.PathLike) or is_dataset(X)


def find_parquet(X: Any, where: str) -> tuple[list[Any], list[str], list[Any], Any]:
    """Files as fragments of pyarrow, their names in errors, `file_facts`, and common schema."""
    dataset = X if is_dataset(X) else _dataset(X, where)
    if getattr(dataset, "_scan_options", None):
        raise ValueError(
            f"{where}: a dataset of pyarrow with a filter; filter the rows with "
            "dask.dataframe.read_parquet(path, filters=...) instead."
        )
    fragments = list(dataset.get_fragments())
    if not fragments:
        raise ValueError(f"{where}: a dataset of pyarrow without files.")
    names = _short_names([getattr(fragment, "path", "") for fragment in fragments])
    # Before the metadata are read, so that no later change goes unnoticed.
    facts = [file_facts(fragment) for fragment in fragments]
    _check_parquet(fragments, names, where)
    return fragments, names, facts, _common_schema(dataset, fragments, names, where)


def file_facts(fragment: Any) -> tuple[int, int] | None:
    """Size and time of change of a file; None if it does not exist or is no file."""
    path, filesystem = getattr(fragment, "path", None), getattr(fragment, "filesystem", None)
    if not path or filesystem is None:
        return None
    info = filesystem.get_file_info(path)
    return None if info.size is None else (info.size, info.mtime_ns)


def _dataset(X: Any, where: str) -> Any:
    """Dataset of pyarrow of the files that a path, a folder, a pattern or a list names."""
    given = X if isinstance(X, list | tuple) else [X]
    sources = [os.path.expanduser(os.fspath(path)) for path in given]
    base, files = None, []
    if addresses := [source for source in sources if "://" in source]:
        if len(sources) > 1:
            raise ValueError(
                f"{where}: {addresses[0]!r} in a list of paths; files that are not local must "
                "have one address, or be a dataset of pyarrow."
            )
        found: Any = addresses[0]
    else:
        bases, groups = zip(*(_expand(source, where) for source in sources), strict=True)
        base, files = os.path.commonpath(bases), list(chain(*groups))
        found = files
    # Folders such as "year=2024" have a column in their names. A single file has its own only.
    options = {} if os.path.isfile(sources[0]) and len(sources) == 1 else {"partitioning": "hive"}
    if options and base is not None:
        options["partition_base_dir"] = base
    pyarrow, shown = load_dask("pyarrow"), ", ".join(map(repr, sources[:3]))
    try:
        return load_dask("pyarrow.dataset").dataset(found, format="parquet", **options)
    except (ValueError, OSError, pyarrow.ArrowException) as error:
        if base is not None and options:
            _refuse_stored_keys(files, base, where, error)
        raise ValueError(f"{where}: {shown} is not readable as Parquet ({error}).") from None


def _expand(source: str, where: str) -> tuple[str, list[str]]:
    """Folder whose subfolders may be columns, and the files of a path, a folder or a pattern."""
    source, cure = os.path.abspath(source), "a file, a folder, or a pattern of files"
    fixed = list(takewhile(lambda part: not glob.has_magic(part), Path(source).parts))
    if os.path.isfile(source):
        base, files = os.path.dirname(source), [source]
    elif os.path.isdir(source):
        cure = f"files with the extension {', '.join(EXTENSIONS)}"
        base, files = source, _files_of(source, source)
    else:
        base, files = os.path.join(*fixed), []
        for path in glob.glob(source, recursive=True):
            files += _files_of(path, base) if os.path.isdir(path) else [path]
    if not files:
        raise ValueError(f"{where}: no Parquet files at {source!r}; give {cure}.")
    while "=" in os.path.basename(base):
        base = os.path.dirname(base)
    return base, sorted(set(files), key=load_dask("dask.utils").natural_sort_key)


def _files_of(folder: str, base: str) -> list[str]:
    """Parquet files in a folder and those below it, without those hidden below ``base``."""
    found = (path for path in Path(folder).rglob("*") if path.suffix.lower() in EXTENSIONS)
    return [str(path) for path in found
            if not any(part[0] in "._" for part in path.relative_to(base).parts)]  # fmt: skip


def _refuse_stored_keys(files: Sequence[str], base: str, where: str, error: Exception) -> None:
    """Refuse columns of files that the names of their folders have, with another type."""
    parquet = load_dask("pyarrow.parquet")
    for path in files:
        folders = Path(path).parent.relative_to(base).parts
        keys = [folder.split("=")[0] for folder in folders if "=" in folder]
        with suppress(ValueError, OSError):
            stored = parquet.read_schema(path).names
            if both := [key for key in keys if key in stored]:
                raise TypeError(
                    f"{where}, {os.path.relpath(path, base)}: the column {both[0]!r} is in the "
                    f"file and in the name of its folder, with different types ({error}); leave "
                    "it out of one of them."
                ) from None


def _short_names(paths: Sequence[str]) -> list[str]:
    """Names of files in errors: without the folders that all have in common."""
    folder = os.path.commonpath([os.path.dirname(path) for path in paths]) if paths else ""
    return [path[len(folder) :].lstrip("/\\") for path in paths]


def _check_parquet(fragments: Sequence[Any], names: Sequence[str], where: str) -> None:
    for fragment, name in zip(fragments, names, strict=True):
        if not hasattr(type(fragment), "row_groups"):
            raise TypeError(
                f"{where}: a dataset of pyarrow that does not consist of Parquet files; write it "
                "as Parquet, or read it with dask.dataframe."
            )
        try:
            fragment.ensure_complete_metadata()
        except (ValueError, OSError) as error:
            raise ValueError(f"{where}, {name}: not a readable Parquet file ({error}).") from None


def _common_schema(dataset: Any, fragments: Sequence[Any], names: Sequence[str], where: str) -> Any:
    """Columns that all files have, with types that hold the values of all of them.

    The metadata of each field name the file that has its type.
    """
    pyarrow = load_dask("pyarrow")
    first = fragments[0].physical_schema
    fields = {field.name: field.with_metadata({_TYPED_BY: names[0]}) for field in first}
    for fragment, name in zip(fragments, names, strict=True):
        given = fragment.physical_schema
        differing = sorted(set(given.names) ^ set(first.names))
        if differing:
            has, lacks = (name, names[0]) if differing[0] in given.names else (names[0], name)
            raise ValueError(
                f"{where}: {has} has the column {differing[0]!r}, which {lacks} lacks; all files "
                "of a table must have the same columns."
            )
        if len(given) > len(fields):
            twice = [column for column, n in Counter(given.names).items() if n > 1]
            raise ValueError(f"{where}, {name}: duplicate column names [{some(twice)}].")
        for field in given:
            if field.type != fields[field.name].type:
                fields[field.name] = _common_field(fields[field.name], field, name, where)
    added = [field for field in dataset.schema if field.name not in fields]
    _check_keys([field.name for field in added], fragments, names, where)
    return pyarrow.schema([*fields.values(), *added], metadata=first.metadata)


def _common_field(known: Any, given: Any, name: str, where: str) -> Any:
    """Column of files of different types."""
    pyarrow = load_dask("pyarrow")
    schemas = [pyarrow.schema([known]), pyarrow.schema([given])]
    try:
        field = pyarrow.unify_schemas(schemas, promote_options="permissive").field(0)
    except pyarrow.ArrowException:
        raise ValueError(
            f"{where}: the column {given.name!r} is {given.type} in {name}, but {known.type} in "
            f"{typed_by(known)}; write all files with the same types."
        ) from None
    return field.with_metadata({_TYPED_BY: typed_by(known) if field.type == known.type else name})


def typed_by(field: Any) -> str:
    """Name of the file that has the type of a column; empty if it is not in files."""
    return (field.metadata or {}).get(_TYPED_BY, b"").decode()


def _check_keys(
    keys: Sequence[str], fragments: Sequence[Any], names: Sequence[str], where: str
) -> None:
    """Refuse files outside of the folders whose names are columns of the others."""
    keys_of = load_dask("pyarrow.dataset").get_partition_keys
    for fragment, name in zip(fragments, names, strict=True):
        lacking = set(keys) - set(keys_of(fragment.partition_expression))
        if lacking:
            key = min(lacking)
            raise ValueError(
                f"{where}, {name}: it is not in a folder such as '{key}=...', whose name is a "
                "column of the other files."
            )
