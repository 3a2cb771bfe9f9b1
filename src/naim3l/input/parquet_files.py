"""Parquet files of a path, a folder, a pattern or a dataset of pyarrow, and their columns."""

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from naim3l.input.passes import load_dask

EXTENSIONS = (".parquet", ".parq", ".pq")


def is_dataset(X: Any) -> bool:
    """Whether it is a dataset of pyarrow."""
    return type(X).__module__.startswith("pyarrow.") and hasattr(X, "get_fragments")


def find_parquet(X: Any, where: str) -> tuple[list[Any], list[str], Any]:
    """Files as fragments of pyarrow, their names in errors, and their common schema."""
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
    _check_parquet(fragments, names, where)
    return fragments, names, _common_schema(dataset, fragments, names, where)


def _dataset(X: str | os.PathLike[str], where: str) -> Any:
    """Dataset of pyarrow of the files that a path, a folder or a pattern names."""
    source = os.path.expanduser(os.fspath(X))
    # Folders such as "year=2024" have a column in their names.
    options = {"partitioning": "hive"} if "://" in source else {}
    files: Any = source
    if os.path.isdir(source):
        files, cure = _files_of(source), f"files with the extension {', '.join(EXTENSIONS)}"
        options = {"partitioning": "hive", "partition_base_dir": source}
    elif not options:
        is_file = os.path.isfile(source)
        files = [source] if is_file else glob.glob(source, recursive=True)
        cure = "a file, a folder, or a pattern of files"
    if not files:
        raise ValueError(f"{where}: no Parquet files at {source!r}; give {cure}.")
    if isinstance(files, list):
        files.sort(key=load_dask("dask.utils").natural_sort_key)
    try:
        return load_dask("pyarrow.dataset").dataset(files, format="parquet", **options)
    except (ValueError, OSError) as error:
        raise ValueError(f"{where}: {source!r} is not readable as Parquet ({error}).") from None


def _files_of(folder: str) -> list[str]:
    """Parquet files in a folder and those below it, without hidden ones."""
    found = (path for path in Path(folder).rglob("*") if path.suffix.lower() in EXTENSIONS)
    return [str(path) for path in found
            if not any(part[0] in "._" for part in path.relative_to(folder).parts)]  # fmt: skip


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
    """Columns that all files have, with types that hold the values of all of them."""
    pyarrow = load_dask("pyarrow")
    first, schema = fragments[0].physical_schema, fragments[0].physical_schema
    for fragment, name in zip(fragments, names, strict=True):
        given = fragment.physical_schema
        differing = sorted(set(given.names) ^ set(first.names))
        if differing:
            has, lacks = (name, names[0]) if differing[0] in given.names else (names[0], name)
            raise ValueError(
                f"{where}: {has} has the column {differing[0]!r}, which {lacks} lacks; all files "
                "of a table must have the same columns."
            )
        try:
            schema = pyarrow.unify_schemas([schema, given], promote_options="permissive")
        except (pyarrow.ArrowTypeError, pyarrow.ArrowInvalid) as error:
            raise ValueError(
                f"{where}: {name} has columns of other types than {names[0]} ({error}); write "
                "all files with the same types."
            ) from None
    added = [field for field in dataset.schema if field.name not in schema.names]
    return pyarrow.schema([*schema, *added])
