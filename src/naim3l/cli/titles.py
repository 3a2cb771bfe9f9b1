"""Titles of labels and columns, from the settings or a file of them, for reports and terminals."""

from typing import Any

from naim3l._text import quote
from naim3l._warnings import warn_user
from naim3l.cli.settings import Settings
from naim3l.files.errors import ReadError
from naim3l.files.tables import open_table
from naim3l.report.titles import titles_of_model

COLUMNS = "name", "title"


def set_titles(model: Any, settings: Settings) -> None:
    """Have a fitted model remember the titles of its labels and columns, if some are given."""
    given = settings.titles
    titles = _read_titles(given) if isinstance(given, str) else given
    if not titles:
        return
    model.titles_ = titles_of_model(model, titles)
    if not model.titles_:
        where = given if isinstance(given, str) else "[titles] in the settings"
        some = next(iter(titles))
        warn_user(f"{where}: no label or column has a name that is there, such as {quote(some)}.")


def _read_titles(source: str) -> dict[str, str]:
    """Titles by name, of a table with the columns "name" and "title", or of any two."""
    table = open_table(source)
    columns = [*COLUMNS] if {*COLUMNS} <= {*table.columns} else table.columns
    if len(columns) != 2:
        listed = ", ".join(table.columns[:6])
        raise ReadError(f"{source}: titles are two columns, name and title, not {listed}.")
    frame, _ = table.read(columns=columns, text_columns=set(columns))
    found: dict[str, str] = {}
    for name, title in frame[columns].dropna().itertuples(index=False):
        if found.setdefault(name, title) != title:
            both = f"{quote(found[name])} and {quote(title)}"
            raise ReadError(f"{source}: {quote(name)} has two titles, {both}; leave one.")
    return found
