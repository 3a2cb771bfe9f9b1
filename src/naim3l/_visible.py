"""Text that is seen as it is: control characters in it are shown, never obeyed."""

import re

# Controls of terminals (C0, DEL, C1), ends of lines and signs that turn the direction of text
# around; and what stands for bytes of a file name that are not text, which no file can hold.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Text with its control characters spelled out, as Python does in quotes.

    Examples
    --------
    >>> print(visible("red\x1b[31m, two\nlines"))
    red\x1b[31m, two\nlines
    """
    return CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)
