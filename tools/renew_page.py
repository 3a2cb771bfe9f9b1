"""Write into docs/start/files.md what its commands print now: ``python tools/renew_page.py``.

Read the page afterwards, as sentences repeat some of the figures. It is checked by
``tests/docs/test_five_minutes.py``.
"""

import os
import runpy
import shutil
import subprocess
import tempfile
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "start" / "files.md"
BLOCKS = runpy.run_path(str(ROOT / "tests" / "fenced_blocks.py"))


def folded(printed: str) -> str:
    """Text with sentences that fit on the page."""
    wrap = textwrap.TextWrapper(76, break_long_words=False, break_on_hyphens=False)
    return "".join(f"{wrap.fill(line)}\n" for line in printed.splitlines())


with tempfile.TemporaryDirectory() as folder:
    shutil.copy(ROOT / "examples" / "messy_files.py", folder)
    run: dict[str, Any] = {"cwd": folder, "capture_output": True, "text": True, "check": True}
    run["env"] = {**os.environ, "COLUMNS": "80"}
    for command, shown in BLOCKS["with_output"](PAGE, "sh"):
        printed = subprocess.run(["sh", "-e", "-c", command], **run).stdout
        if shown:
            page = PAGE.read_text(encoding="utf-8")
            PAGE.write_text(page.replace(shown, folded(printed), 1), encoding="utf-8")
