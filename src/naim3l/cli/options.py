"""Options and arguments that several commands share, and how they load models and print JSON."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from naim3l._text import plain
from naim3l.cli.app import say


def option(help: str, kind: Any = str | None, *names: str, **limits: Any) -> Any:
    """Annotation of the parameter of a command that is an option, by default named after it."""
    return Annotated[kind, typer.Option(*names, help=help, **limits)]


def _several(help: str, *names: str) -> Any:
    return option(f"{help}; repeat for several.", list[str] | None, *names)


def ids_option(name: str) -> Any:
    """Annotation of the option that names the columns with ids."""
    return _several(
        "Column with the ids of the rows, or view=column for one view; by default that of the "
        "model, or one that looks like ids",
        name,
    )


def known_option(use: str) -> Any:
    """Annotation of the option for known labels, of which the help says how they are used."""
    of = "File with labels of these rows that are known, matched by id, or view=path for one view"
    return option(f"{of}; repeat for several. {use}", list[str] | None, "--known")


_VIEWS = (
    "Views as name=path: a file (<readable>), a folder or quoted pattern of CSV or Parquet files, "
    "or name=sqlite:///file.db#select ..."
)
Views = Annotated[list[str] | None, typer.Argument(help=_VIEWS, show_default=False)]
Model = Annotated[Path, typer.Argument(help="Model file that 'naim3l fit' wrote.")]
Config = option("Settings in TOML, as 'naim3l init' writes them.", Path | None)
Labels = _several("Label columns, names or patterns like 'dx_*'; by default guessed or the model's")
LabelFiles = _several("view=path of a file with labels of a view")
Ids = ids_option("--id")
Yes = _several("Further word for yes in label columns")
No = _several("Further word for no")
Unknown = _several("Further word for unknown")
Codes = option(
    "How labels are written: source, in the words or codes of the tables of the fit, if these have "
    "one word for yes and one for no, and otherwise 0/1; or 0/1.",
    str,
    "--codes",
)
RawCells = option(
    "In CSV and TSV, write text that begins with = + - @ as it is. Default: put ' before it, so "
    "that no spreadsheet takes it for a formula.",
    bool,
    "--raw-cells",
)
Memory = option(
    "Read tables in chunks that fit in this memory, such as 4GB, beside what Python itself takes. "
    "Folders and patterns are read in chunks in any case."
)
Dask = option("Address of a running cluster of dask, which reads the tables in chunks.")
Page = option("Report page to write; its numbers go beside it.", Path | None)
All = option("Print all measures.", bool, "--all")
AsJson = option("Print JSON, for programs.", bool, "--json")


def fill_lists(text: str) -> str:
    """Help with the names that are known in place of ``<rules>``, ``<kernels>`` and the like."""
    if "<" not in text:
        return text
    from naim3l.decisions.rules import RULES
    from naim3l.features.kernels import HISTOGRAM_KERNELS, KERNELS
    from naim3l.files.tables import EXTENSIONS
    from naim3l.files.writers import WRITTEN_EXTENSIONS

    lists: dict[str, Iterable[str]] = {
        "rules": RULES,
        "kernels": KERNELS,
        "count kernels": HISTOGRAM_KERNELS,
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
    # The one control character that JSON leaves as it is.
    say(*text.replace("\x7f", "\\u007f").splitlines(), wrap=False)
