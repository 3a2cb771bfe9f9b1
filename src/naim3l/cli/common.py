"""Options that several commands share, and how they read settings and models and print JSON."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from naim3l._text import plain
from naim3l.cli.app import say

Views = Annotated[
    list[str] | None,
    typer.Argument(help="Views as name=path: CSV, TSV, Parquet, Arrow, .xlsx, .npz, .mat, "
                        "or name=sqlite:///file.db#select ...", show_default=False),
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
Id = Annotated[str | None, typer.Option("--id", help="Column with the ids of the rows.")]
KnownId = Annotated[
    str | None,
    typer.Option("--id", help="Column with the ids of the rows. Default: one that looks like ids."),
]
Model = Annotated[Path, typer.Argument(help="Model file that 'naim3l fit' wrote.")]
RawCells = Annotated[
    bool,
    typer.Option("--raw-cells", help="In CSV and TSV, write text that begins with = + - @ as it "
                                     "is. Default: put ' before it, so that no spreadsheet takes "
                                     "it for a formula."),
]  # fmt: skip
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def make_settings(
    views: list[str] | None,
    config: Path | None,
    labels: list[str] | None,
    label_files: list[str] | None,
    id_column: str | None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Settings of a TOML file, or of the command line; options of the model can be of both.

    Parameters
    ----------
    views, labels, label_files : list of str, optional
        As on the command line.
    config : path, optional
        File of settings; then of the others only ``options`` may be given.
    id_column : str, optional
    options : mapping, optional
        Options of the model, which replace those of the file.
    """
    from naim3l.cli.options import check_options
    from naim3l.cli.settings import Config, ViewConfig, read_config
    from naim3l.cli.work import parse_sources
    from naim3l.files.readers import ReadError

    if (config is None) == (not views):
        raise ReadError("give views as name=path, or a settings file with --config, not both.")
    if config is not None:
        if labels or label_files or id_column:
            raise ReadError("with --config, labels and ids are those of the settings file.")
        return read_config(config, options)
    sources, files = parse_sources(views or []), parse_sources(label_files or [])
    unknown = sorted(set(files) - set(sources))
    if unknown:
        raise ReadError(f"--labels-file names {unknown}, but the views are {list(sources)}.")
    check_options(options or {}, sources)
    return Config(
        {
            name: ViewConfig(
                source, id=id_column, labels=list(labels or []), labels_file=files.get(name)
            )
            for name, source in sources.items()
        },
        model=dict(options or {}),
    )


def files_of(settings: Any, *others: Path | None) -> list[Path]:
    """Files that views are read from, including lists of column names, and others if given."""
    sources, lists = list[str](), list[str]()
    for view in settings.views.values():
        sources += [view.source, view.labels_file or view.source]
        lists += [*view.labels, *(view.features or []), *view.ignore]
    named = [Path(name[1:]) for name in lists if name.startswith("@")]
    return [*files_of_sources(sources), *named, *(path for path in others if path is not None)]


def files_of_sources(sources: Iterable[str]) -> list[Path]:
    """Files among the sources of tables; databases on servers are not files."""
    from naim3l.files.readers import source_file

    return [path for path in map(source_file, sources) if path is not None]


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
