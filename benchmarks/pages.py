"""Parts of the documentation that are written by programs."""

from pathlib import Path

RESEARCH = Path(__file__).resolve().parent.parent / "docs" / "research"


def write_part(page, name, text):
    """Replace what a page has between ``<!-- name -->`` and ``<!-- end of name -->``."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, rest = page.read_text().split(begin)
    page.write_text(before + begin + text + end + rest.split(end)[1])
