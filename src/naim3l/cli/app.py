"""The program itself: its options, and how all commands print, warn and report errors.

Names in tables, settings and model files are not to be trusted: print with `say` and `print_table`,
which show control characters instead of sending them to the terminal.
"""

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from naim3l import __version__
from naim3l._text import visible
from naim3l.files.secrets import hide_secrets

if TYPE_CHECKING:
    from rich.text import Text  # otherwise imported where tables are printed

# The order in which users need them.
ORDER = ("init", "fit", "predict", "impute", "evaluate", "report", "inspect", "demo")
# To this many characters the first columns of a table are wrapped to make room for numbers.
LEAST_WIDTH = 16

_UsageError: Any = typer.BadParameter.__bases__[0]  # of click, or of typer where it brings click


class _InOrder(TyperGroup):
    """Lists commands in the order of use, not of imports, and fits their help to any width.

    Usage errors quote arguments without passwords and with control characters made visible.
    """

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _quoted_safely():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _quoted_safely():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            command.help = _reflowed(command.help or "")
        return command


class Command(TyperCommand):
    """Command whose help names the entries of registries, such as ``<rules>``, when it is shown.

    They are imported then, because all other commands would wait for them.
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


def say(*lines: str, err: bool = False) -> None:
    """Print lines, with control characters in them, such as line breaks, made visible."""
    for line in lines:
        # Not by typer.echo, which writes UTF-8 to terminals that only know ASCII.
        print(visible(line), file=sys.stderr if err else sys.stdout, flush=True)


def _reflowed(text: str) -> str:
    """Paragraphs without the line breaks of the source code."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


app = typer.Typer(
    cls=_InOrder,
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


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


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
    except OSError as error:
        say(f"naim3l: {_safe(system_reason(error))}", err=True)
        raise typer.Exit(1) from error
    except (ValueError, ImportError, MemoryError) as error:
        say(f"naim3l: {_safe(error)}", err=True)
        raise typer.Exit(1) from error


def system_reason(error: OSError) -> str:
    """Message of an error of the operating system: without its number, with its file if any."""
    if not error.strerror:
        return str(error)  # raised by this package
    where = "" if error.filename is None else f"{error.filename}: "
    return f"{where}{error.strerror}."


def need_libraries(what: str, extra: str, *modules: str) -> None:
    """Raise an error that says what to install, unless all modules of an extra can be imported."""
    for module in modules:
        try:
            import_module(module)
        except ImportError as error:
            raise ImportError(f"{what} needs {module}: pip install 'naim3l[{extra}]'.") from error


def print_table(
    title: "str | Text",
    header: Sequence[str],
    rows: "Sequence[Sequence[str | Text]]",
    *,
    n_left: int = 1,
) -> None:
    """Print a table, its first columns aligned left, the others, which are numbers, right.

    Text is printed literally, brackets included; a ``rich`` Text keeps its style and, as a title,
    its line breaks. Where the terminal is too narrow, the first columns are wrapped, and numbers
    that do not fit beside them are printed in tables below.
    """
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console = Console(width=200)  # a pipe has no width of its own
    console.print(_cell(title) if isinstance(title, str) else title, style="italic")
    cells = [[_cell(text) for text in row] for row in (header, *rows)]
    # A column also has two spaces and a line.
    widths = [max(cell.cell_len for cell in column) + 3 for column in zip(*cells, strict=True)]
    room = console.width - 1 - sum(min(width, LEAST_WIDTH) for width in widths[:n_left])
    for group in _groups(widths[n_left:], room):
        table = Table()
        shown = [*range(n_left), *(n_left + j for j in group)]
        for j in shown:
            is_number = j >= n_left
            table.add_column(
                cells[0][j],
                justify="right" if is_number else "left",
                no_wrap=is_number and widths[j] <= room,
                overflow="fold",
            )
        for row in cells[1:]:
            table.add_row(*(row[j] for j in shown))
        console.print(table)


def _groups(widths: Sequence[int], room: int) -> list[list[int]]:
    """Neighbouring columns that fit into a width together; at least one in each group."""
    groups: list[list[int]] = [[]]
    for j, width in enumerate(widths):
        if groups[-1] and sum(widths[k] for k in groups[-1]) + width > room:
            groups.append([])
        groups[-1].append(j)
    return groups


def _cell(text: "str | Text") -> "Text":
    from rich.text import Text

    style = "" if isinstance(text, str) else text.style
    return Text(visible(str(text)), style=style)
