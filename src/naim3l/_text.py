"""Text of values in messages, on pages and in JSON."""

import math
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

# Control characters of terminals (C0, DEL, C1), line separators, characters that change the
# direction of text, and surrogates of undecodable bytes in file names, which cannot be encoded.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

# A value in an error can be a whole document; its beginning and end are enough.
_quote = reprlib.Repr()
_quote.maxstring = _quote.maxother = 60


def visible(text: str) -> str:
    """Text with its control characters escaped, as in Python's string literals."""
    return CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def quote(value: Any) -> str:
    """Shortened repr of a value, for errors."""
    return _quote.repr(value)


def some(names: Sequence[Any], most: int = 8, show: Callable[[Any], str] = quote) -> str:
    """List of the first names, and the number of further ones: "'a', 'b' and 2 more"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(show, names[:most])) + more


def documented(**lists: Any) -> Callable[[T], T]:
    """Decorator that puts names of registries, or text, into a docstring, such as ``<kernels>``.

    Examples
    --------
    >>> @documented(kernels=["rbf", "chi2"])
    ... def compare():
    ...     "One of <kernels>."
    >>> compare.__doc__
    'One of {"rbf", "chi2"}.'
    """

    def fill(described: T) -> T:
        text = described.__doc__ or ""
        for name, entries in lists.items():
            names = ", ".join(f'"{entry}"' for entry in entries)
            shown = entries if isinstance(entries, str) else f"{{{names}}}"
            text = text.replace(f"<{name}>", shown)
        described.__doc__ = text
        return described

    return fill


def plain(value: Any, *, other: Callable[[Any], Any] | None = None, finite: bool = True) -> Any:
    """A value, and all that it contains, in types of JSON; keys become text.

    ``other`` converts objects that JSON cannot represent, which are unchanged without it. NaN and
    infinities, which it cannot represent either, become None if ``finite``.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(item, other=other, finite=finite) for key, item in value.items()}
    if isinstance(value, list | tuple | range | set | frozenset):
        return [plain(item, other=other, finite=finite) for item in value]
    if isinstance(value, float) and finite and not math.isfinite(value):
        return None
    if other is None or value is None or isinstance(value, bool | int | float | str):
        return value
    return other(value)
