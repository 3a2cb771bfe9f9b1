"""Options and arguments that several commands share, and how they load models and print JSON."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from naim3l._text import plain
from naim3l.cli.app import say


def option(kind: Any, *names: str, help: str, **limits: Any) -> Any:
    """Annotation of the parameter of a command that is an option."""
    return Annotated[kind, typer.Option(*names, help=help, **limits)]


def _several(name: str, help: str) -> Any:
    return option(list[str] | None, name, help=f"{help}; repeat for several.")


Views = Annotated[
    list[str] | None,
    typer.Argument(
        help="Views as name=path: a file (<readable>), a folder or quoted pattern of CSV or "
        "Parquet files, or name=sqlite:///file.db#select ...",
        show_default=False,
    ),
]
Model = Annotated[Path, typer.Argument(help="Model file that 'naim3l fit' wrote.")]
Config = option(Path | None, "--config", help="Settings in TOML, as 'naim3l init' writes them.")
Labels = _several(
    "--labels", "Label columns by name or pattern such as 'dx_*'; by default those of the model"
)
LabelFiles = _several("--labels-file", "view=path of a file with labels of a view")
Ids = _several(
    "--id",
    "Column with the ids of the rows, or view=column for one view; by default that of the model, "
    "or one that looks like ids",
)
Yes = _several("--yes", "Further word for yes in label columns")
No = _several("--no", "Further word for no")
Unknown = _several("--unknown", "Further word for unknown")
RawCells = option(
    bool,
    "--raw-cells",
    help="In CSV and TSV, write text that begins with = + - @ as it is. Default: put ' before it, "
    "so that no spreadsheet takes it for a formula.",
)
Memory = option(
    str | None,
    "--memory",
    help="Read tables in chunks that fit in this memory, such as 4GB, beside what Python itself "
    "takes. Folders and patterns are read in chunks in any case.",
)
Dask = option(
    str | None,
    "--dask",
    help="Address of a running cluster of dask, which reads the tables in chunks.",
)
Page = option(Path | None, "--report", help="Report page to write; its numbers go beside it.")
AsJson = option(bool, "--json", help="Print JSON, for programs.")


def fill_lists(text: str) -> str:
    """Help with the names that are known in place of ``<rules>``, ``<kernels>`` and the like."""
    if "<" not in text:
        return text
    from naim3l.decisions.rules import RULES
    from naim3l.features.kernels import KERNELS
    from naim3l.files.tables import EXTENSIONS
    from naim3l.files.writers import WRITTEN_EXTENSIONS

    lists: dict[str, Iterable[str]] = {
        "rules": RULES,
        "kernels": KERNELS,
        "count kernels": [name for name, kernel in KERNELS.items() if kernel.histograms],
        "readable": EXTENSIONS,
        "written": WRITTEN_EXTENSIONS,
    }
    for name, entries in lists.items():
        text = text.replace(f"<{name}>", ", ".join(entries))
    return text


def load_model(path: Path) -> Any:
    """Model of a file; if there is no such file, the error suggests similar names."""
    from naim3l import load
    from naim3l.files.tables import check_file

    check_file(path)
    return load(path)


def print_json(value: Any) -> None:
    """Print a value as JSON; NaN and infinities, which JSON does not have, as null."""
    text = json.dumps(plain(value, other=str), indent=1)
    say(*text.replace("\x7f", "\\u007f").splitlines())  # the one control that JSON leaves as it is
