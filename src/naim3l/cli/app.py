"""The program itself: its options, and what all commands use to speak to the user."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from naim3l import __version__

app = typer.Typer(
    help="Labels learned from tables that cannot be joined.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"naim3l {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


@contextmanager
def told_plainly() -> Iterator[None]:
    """Errors that the user can mend end the program with their message, not with a traceback."""
    try:
        yield
    except (ValueError, OSError, ImportError) as error:
        typer.echo(f"naim3l: {error}", err=True)
        raise typer.Exit(1) from error


def need_libraries(what: str, extra: str, *modules: str) -> None:
    """Error that says what to install, unless all modules of an extra can be imported."""
    for module in modules:
        try:
            import_module(module)
        except ImportError as error:
            raise ImportError(f"{what} needs {module}: pip install 'naim3l[{extra}]'.") from error


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str | Text]], *, n_left: int = 1
) -> None:
    """Show a table; its first columns to the left, the others, numbers, to the right.

    Texts are shown as they are, brackets and all; a ``rich`` Text brings its own style.
    """
    table = Table(title=Text(title), title_justify="left")
    for i, name in enumerate(header):
        table.add_column(Text(name), justify="left" if i < n_left else "right")
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    # A pipe has no width of its own: never fold the table there.
    console = Console()
    (console if console.is_terminal else Console(width=200)).print(table)
