"""Names of the user in figures and sentences, shortened."""

import unicodedata

from naim3l._text import visible


def text_width(text: str) -> int:
    """Width in columns of a terminal: East Asian characters take two, combining ones none."""
    return sum(
        2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1
        for c in text
    )


def shorten(name: str, most: int) -> str:
    """A name at most this wide, with control characters escaped and the end cut where needed.

    Examples
    --------
    >>> shorten("systolic blood pressure", 12)
    'systolic bl…'
    """
    name = visible(name)
    if text_width(name) <= most:
        return name
    while text_width(name) > most - 1:
        name = name[:-1]
    return f"{name.rstrip()}…"
