"""Blocks of code on Markdown pages, and whether what they print is what the page shows."""

import math
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NUMBER = re.compile(r"(?<![\w.])[-+−]?\d+(?:\.\d+)?(?:e[-+]\d+)?")
# Numbers vary a little with the versions of libraries and with the processor.
TOLERANCE = 0.02


def fenced_blocks(path):
    """Language and text of each fenced block of a page, in order."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.S | re.M)


def with_output(path, language):
    """Blocks in a language, each with the block of text that follows it, or None."""
    blocks = fenced_blocks(path)
    following = [*blocks[1:], ("", "")]
    return [
        (text, after if kind == "text" else None)
        for (found, text), (kind, after) in zip(blocks, following, strict=True)
        if found == language
    ]


def alike(shown, printed):
    """Whether two lines have the same words, and numbers that nearly agree."""
    words = [" ".join(NUMBER.sub("#", line).split()) for line in (shown, printed)]
    numbers = [
        [float(n.replace("−", "-")) for n in NUMBER.findall(line)] for line in (shown, printed)
    ]
    return words[0] == words[1] and all(
        math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        for a, b in zip(*numbers, strict=True)
    )


def check_output(shown, printed):
    """Every line that a page shows is printed, in this order; "..." stands for any lines."""
    remaining = iter(printed.splitlines())
    for line in shown.splitlines():
        if line.strip() != "..." and not any(alike(line, other) for other in remaining):
            raise AssertionError(f"the page shows, but nothing prints:\n{line}\n\nin\n{printed}")
