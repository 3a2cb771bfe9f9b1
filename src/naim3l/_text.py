"""Values as messages, pages and JSON show them."""

import math
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Controls of terminals (C0, DEL, C1), ends of lines and signs that turn the direction of text
# around; and what stands for bytes of a file name that are not text, which no file can hold.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

# What errors quote can be a whole document; its beginning and end are enough.
_quote = reprlib.Repr()
_quote.maxstring = _quote.maxother = 60


def visible(text: str) -> str:
    r"""Text with its control characters spelled out, as Python does in quotes.

    Examples
    --------
    >>> print(visible("red\x1b[31m, two\nlines"))
    red\x1b[31m, two\nlines
    """
    return CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def quote(value: Any) -> str:
    """A value as errors show it, shortened."""
    return _quote.repr(value)


def some(names: Sequence[Any], most: int = 8, show: Callable[[Any], str] = quote) -> str:
    """The first of some names, and how many more there are.

    Examples
    --------
    >>> some(["a", "b", "c", "d"], most=2)
    "'a', 'b' and 2 more"
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(show, names[:most])) + more


def plain(value: Any, *, other: Callable[[Any], Any] | None = None, finite: bool = True) -> Any:
    """A value as JSON has it, with NumPy's numbers and arrays as Python's own.

    Parameters
    ----------
    value : object
        Mappings, lists, tuples and sets are gone through; keys become text.
    other : callable, optional
        What to write for an object that JSON has no form for; by default it is left as it is.
    finite : bool
        Whether NaN and infinities, which JSON does not have, become None.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(item, other=other, finite=finite) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, other=other, finite=finite) for item in value]
    if isinstance(value, float) and finite and not math.isfinite(value):
        return None
    if other is None or value is None or isinstance(value, bool | int | float | str):
        return value
    return other(value)
