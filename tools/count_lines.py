"""Print the lines of each package of naim3l, before it was rebuilt and now.

``python tools/count_lines.py --write`` puts the table into ``docs/develop/house.md``.
"""

import argparse
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "develop" / "house.md"
PACKAGE, BENCH = ROOT / "src" / "naim3l", ROOT / "bench" / "src" / "naim3l_bench"
OTHERS = "files beside the packages"
# Lines at commit c21b834, when one distribution had all of it.
BEFORE = {
    "cli": 4181, "datasets": 2311, "decisions": 1729, "deep": 1905, "estimators": 5906,
    "experiments": 5431, "explain": 1061, "features": 2860, "files": 5539, "input": 3228,
    "metrics": 920, "missing": 581, "problem": 3105, "report": 1861, "solvers": 2755, OTHERS: 325,
}  # fmt: skip
TABLE = re.compile(r"(<!-- lines -->\n).*?(<!-- end of lines -->)", re.S)


def count_lines(folder: Path) -> Counter[str]:
    """Lines of all modules below a folder, by package."""
    lines: Counter[str] = Counter()
    for path in folder.rglob("*.py"):
        package, *inside = path.relative_to(folder).parts
        lines[package if inside else OTHERS] += path.read_text("utf-8").count("\n")
    return lines


def make_table() -> str:
    """Table in Markdown, with the sum last."""
    now = count_lines(PACKAGE)
    rows = ["| package | before | now |", "|---|--:|--:|"]
    rows += [
        f"| {name} | {BEFORE.get(name) or '–'} | {now[name] or '–'} |"
        for name in sorted({*BEFORE, *now}, key=lambda name: (name == OTHERS, name))
    ]
    rows.append(f"| **all of naim3l** | **{sum(BEFORE.values())}** | **{now.total()}** |")
    rows.append(f"| naim3l-bench, a distribution of its own | – | {count_lines(BENCH).total()} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"Write it to {PAGE.name}.")
    table = make_table()
    if parser.parse_args().write:
        text = PAGE.read_text("utf-8")
        PAGE.write_text(TABLE.sub(lambda found: f"{found[1]}\n{table}\n{found[2]}", text), "utf-8")
    print(table, end="")


if __name__ == "__main__":
    main()
