"""Progress bars, shown only on a terminal (standard error)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from naim3l._text import visible


@contextmanager
def progress_bar(description: str, total: int, *, shown: bool) -> Iterator[Callable[..., None]]:
    """Function to call after a step, or ``by`` steps of ``total``, with a text for the bar."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),  # names may have brackets
    )
    with Progress(*columns, console=console, disable=not (shown and console.is_terminal)) as bars:
        task = bars.add_task(description, total=total, note="")

        def advance(note: str = "", by: int = 1) -> None:
            bars.update(task, advance=by, note=visible(note))

        yield advance
