"""Write into docs/start/files.md what its commands print now: ``python tools/renew_page.py``.

A line becomes the most similar of those printed after the line before it. Read the page afterwards,
as sentences repeat some of the figures. ``tests/docs/test_five_minutes.py`` checks the page.
"""

import runpy
import shutil
import subprocess
import tempfile
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "start" / "files.md"
BLOCKS = runpy.run_path(str(ROOT / "tests" / "fenced_blocks.py"))


def renew(shown: str, printed: str) -> str:
    """The shown lines as they are printed now; "..." stands for any lines."""
    lines, remaining = shown.splitlines(keepends=True), printed.splitlines(keepends=True)
    for i, line in enumerate(lines):
        if line.strip() != "...":
            likeness = [SequenceMatcher(None, line, other).ratio() for other in remaining]
            at = likeness.index(max(likeness))
            lines[i], remaining = remaining[at], remaining[at + 1 :]
    return "".join(lines)


with tempfile.TemporaryDirectory() as folder:
    shutil.copy(ROOT / "examples" / "messy_files.py", folder)
    run: dict[str, Any] = {"cwd": folder, "capture_output": True, "text": True, "check": True}
    for command, shown in BLOCKS["with_output"](PAGE, "sh"):
        printed = subprocess.run(["sh", "-e", "-c", command], **run).stdout
        if shown:
            page = PAGE.read_text(encoding="utf-8")
            PAGE.write_text(page.replace(shown, renew(shown, printed), 1), encoding="utf-8")
