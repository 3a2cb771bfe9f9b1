"""Options that several commands share, and how they read settings and models and print JSON."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from naim3l._text import plain
from naim3l.cli.app import say

Views = Annotated[
    list[str] | None,
    typer.Argument(help="Views as name=path: CSV, TSV, Parquet, Arrow, .xlsx, .npz, a "
                        "folder or quoted pattern of CSV or Parquet files, or "
                        "name=sqlite:///file.db#select ...", show_default=False),
]  # fmt: skip
Settings = Annotated[
    Path | None, typer.Option("--config", help="Settings in TOML, as 'naim3l init' writes them.")
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--labels", help="Label columns by name or pattern such as 'dx_*'; repeat for "
                                  "several."),
]  # fmt: skip
KnownLabels = Annotated[
    list[str] | None,
    typer.Option("--labels", help="Label columns by name or pattern; repeat for several. Default: "
                                  "those of the model."),
]  # fmt: skip
LabelFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--labels-file", help="view=path of a file with labels of a view; repeat for several."
    ),
]
Ids = Annotated[
    list[str] | None,
    typer.Option("--id", help="Column with the ids of the rows; view=column for one view; repeat "
                              "for several. Default: one that looks like ids."),
]  # fmt: skip
KnownIds = Annotated[
    list[str] | None,
    typer.Option("--id", help="Column with the ids of the rows; view=column for one view; repeat "
                              "for several. Default: that of the fit."),
]  # fmt: skip
Yes = Annotated[
    list[str] | None,
    typer.Option("--yes", help="Further word for yes in label columns; repeat for several."),
]
No = Annotated[list[str] | None, typer.Option("--no", help="Further word for no.")]
Unknown = Annotated[list[str] | None, typer.Option("--unknown", help="Further word for unknown.")]
Model = Annotated[Path, typer.Argument(help="Model file that 'naim3l fit' wrote.")]
RawCells = Annotated[
    bool,
    typer.Option("--raw-cells", help="In CSV and TSV, write text that begins with = + - @ as it "
                                     "is. Default: put ' before it, so that no spreadsheet takes "
                                     "it for a formula."),
]  # fmt: skip
Memory = Annotated[
    str | None,
    typer.Option("--memory", help="Read tables in parts that fit in this memory, such as 4GB, "
                                  "beside what Python itself takes. Folders and patterns are "
                                  "read in parts in any case."),
]  # fmt: skip
Dask = Annotated[
    str | None,
    typer.Option("--dask", help="Address of a running cluster of dask, which reads the tables in "
                                "parts."),
]  # fmt: skip
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def make_settings(
    views: list[str] | None,
    config: Path | None,
    labels: list[str] | None = None,
    label_files: list[str] | None = None,
    ids: list[str] | None = None,
    options: Mapping[str, Any] | None = None,
    words: Mapping[str, list[str] | None] | None = None,
) -> Any:
    """Settings of a TOML file, or of the command line, which replaces those of the file.

    Parameters
    ----------
    views, labels, label_files, ids : list of str, optional
        As on the command line.
    config : path, optional
        File of settings; then no views may be given.
    options : mapping, optional
        Options of the model.
    words : mapping, optional
        Words for "yes", "no" and "unknown", in addition to those of the file.
    """
    from naim3l.cli.options import check_options
    from naim3l.cli.settings import Config, ViewConfig, read_config
    from naim3l.cli.work import parse_sources
    from naim3l.files.readers import ReadError

    if (config is None) == (not views):
        raise ReadError("give views as name=path, or a settings file with --config, not both.")
    if config is not None:
        settings = read_config(config, options)
    else:
        sources = parse_sources(views or [])
        check_options(options or {}, sources)
        tables = {name: ViewConfig(source) for name, source in sources.items()}
        settings = Config(tables, model=dict(options or {}))
    files, columns = parse_sources(label_files or []), _ids_of(ids or [], settings.views)
    unknown = sorted(set(files) - set(settings.views))
    if unknown:
        raise ReadError(f"--labels-file names {unknown}, but the views are {list(settings.views)}.")
    changed = {}
    for name, view in settings.views.items():
        changed[name] = replace(
            view,
            id=columns.get(name, view.id),
            labels=[] if labels else view.labels,  # so that those of all views count
            labels_file=files.get(name, view.labels_file),
        )
    more = {key: [*getattr(settings.labels, key), *(given or [])] for key, given in
            (words or {}).items()}  # fmt: skip
    named = replace(settings.labels, columns=labels or settings.labels.columns, **more)
    return replace(settings, views=changed, labels=named)


def _ids_of(given: list[str], views: Collection[str]) -> dict[str, str]:
    """Id column of each view, from ``column`` for all of them and ``view=column``."""
    from naim3l.files.readers import ReadError
    from naim3l.files.readers.errors import close_names, quote

    shared: dict[str, str] = {}
    own: dict[str, str] = {}
    for entry in given:
        view, equals, column = entry.partition("=")
        if equals and view not in views:
            raise ReadError(f"--id {entry}: no view {quote(view)}; {close_names(view, views)}")
        if (view in own) if equals else shared:
            raise ReadError(f"--id {entry}: give one column for all views, or one for each.")
        if equals:
            own[view] = column
        else:
            shared = dict.fromkeys(views, entry)
    return shared | own


def files_of(settings: Any, *others: Path | None) -> list[Path]:
    """Files that views are read from, including lists of column names, and others if given."""
    sources, lists = list[str](), list[str]()
    for view in settings.views.values():
        sources += [view.source, view.labels_file or view.source]
        lists += [*view.labels, *(view.features or []), *view.ignore]
    lists += settings.labels.columns
    named = [Path(name[1:]) for name in lists if name.startswith("@")]
    return [*files_of_sources(sources), *named, *(path for path in others if path is not None)]


def files_of_sources(sources: Iterable[str]) -> list[Path]:
    """Files among the sources of tables; databases on servers are not files."""
    from naim3l.files.readers import source_file
    from naim3l.files.readers.folders import find_files, is_folder

    files: list[Path] = []
    for source in sources:
        one = None if is_folder(source) else source_file(source)
        files += find_files(source) if is_folder(source) else [] if one is None else [one]
    return files


def load_model(path: Path) -> Any:
    """Model of a file; if there is no such file, the error suggests similar names."""
    from naim3l import load
    from naim3l.files.readers import check_file

    check_file(path)
    return load(path)


def print_json(value: Any) -> None:
    """Print a value as JSON; NaN and infinities, which JSON does not have, as null."""
    text = json.dumps(plain(value, other=str), indent=1)
    say(*text.replace("\x7f", "\\u007f").splitlines())  # the one control that JSON leaves as it is
