"""The program itself: its options, and how all commands print, warn and report errors.

Names in tables, settings and model files are not to be trusted: print with `say` and `print_table`,
which show control characters instead of sending them to the terminal.
"""

import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from naim3l import __version__
from naim3l._text import visible
from naim3l.files.secrets import hide_secrets

# To this many characters the first columns of a table are wrapped to make room for numbers.
LEAST_WIDTH = 16

_UsageError: Any = typer.BadParameter.__bases__[0]  # of click, or of typer where it brings click


class _Group(TyperGroup):
    """Usage errors quote arguments without passwords and with control characters made visible."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _quoted_safely():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _quoted_safely():
            return super().invoke(ctx)


class _Command(TyperCommand):
    """Command whose help names the entries of registries, such as ``<rules>``.

    They are imported when it is shown, because all other commands would wait for them.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from naim3l.cli.options import fill_lists

        documented: list[Any] = [self, *self.params]
        for each in documented:
            each.help = fill_lists(each.help or "")
        super().format_help(ctx, formatter)


@contextmanager
def _quoted_safely() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        error.message = _safe(error.message)
        raise


def _safe(text: object) -> str:
    return visible(hide_secrets(str(text)))


def say(*lines: str, err: bool = False, wrap: bool = True) -> None:
    """Print lines, with control characters in them, such as line breaks, made visible.

    On a terminal they are broken between words, and not within them as terminals do.
    """
    file = sys.stderr if err else sys.stdout
    for line in map(visible, lines):
        if wrap and file.isatty():
            width = shutil.get_terminal_size().columns
            line = textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
        # Not by typer.echo, which writes UTF-8 to terminals that only know ASCII.
        print(line, file=file, flush=True)


def _reflowed(text: str) -> str:
    """Paragraphs without the line breaks of the source code."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


app = typer.Typer(
    cls=_Group,
    help=_reflowed(
        """Learn labels from tables that cannot be joined.

        Begin with 'naim3l init' and your tables, or with 'naim3l demo' and ours. Every command has
        an example in its --help. Exit codes: 0 success, 1 an error that is reported, 2 wrong
        usage, 130 interrupted.
        """
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"naim3l {__version__}")
        raise typer.Exit


_Version = typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")


@app.callback()
def _options(version: Annotated[bool, _Version] = False) -> None:
    pass


def add_commands(*commands: Callable[..., None], to: typer.Typer = app) -> None:
    """Add commands to the program, in the order in which users need them."""
    for command in commands:
        to.command(cls=_Command, help=_reflowed(command.__doc__ or ""))(command)


def add_group(help: str, *commands: Callable[..., None], name: str) -> None:
    """Add commands of one subject to the program, under its name."""
    group = typer.Typer(cls=_Group, help=_reflowed(help), no_args_is_help=True)
    add_commands(*commands, to=group)
    app.add_typer(group, name=name)


@contextmanager
def report_errors() -> Iterator[None]:
    """Report errors that the user can fix by their message, without a traceback, and exit with 1.

    Warnings are reported in the same way, each once, without the line of code that raised them.
    """
    reported: set[str] = set()

    def report(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in reported:
            say(f"naim3l: warning: {_safe(message)}", err=True)
        reported.add(str(message))

    try:
        with warnings.catch_warnings():
            warnings.showwarning = report
            yield
    except (OSError, ValueError, ImportError, MemoryError, FloatingPointError) as error:
        say(f"naim3l: {_safe(reason(error))}", err=True)
        raise typer.Exit(1) from error


def reason(error: Exception) -> str:
    """Message of an error; of the operating system, without its number, with its file if any."""
    if not isinstance(error, OSError) or not error.strerror:
        return getattr(error, "for_commands", None) or str(error)  # of a `LabelWordError`
    return f"{'' if error.filename is None else f'{error.filename}: '}{error.strerror}."


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, n_left: int = 1
) -> None:
    """Print a table of text, then numbers, which go below where there is no room."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=200)  # a pipe has no width of its own
    console.print(Text(visible(title)), style="italic")
    cells = [[Text(visible(text)) for text in row] for row in (header, *rows)]
    # A column also has two spaces and a line.
    widths = [max(cell.cell_len for cell in column) + 3 for column in zip(*cells, strict=True)]
    room = console.width - 1 - sum(min(width, LEAST_WIDTH) for width in widths[:n_left])
    groups: list[list[int]] = [[]]  # neighbouring columns that fit, at least one in each group
    for j in range(n_left, len(widths)):
        if groups[-1] and sum(widths[k] for k in (*groups[-1], j)) > room:
            groups.append([])
        groups[-1].append(j)
    for group in groups:
        table = Table()
        for j in (*range(n_left), *group):
            fits = j >= n_left and widths[j] <= room
            side: Any = "right" if j >= n_left else "left"
            table.add_column(cells[0][j], justify=side, no_wrap=fits, overflow="fold")
        for row in cells[1:]:
            table.add_row(*(row[j] for j in (*range(n_left), *group)))
        console.print(table)
