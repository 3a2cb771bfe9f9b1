"""Check what a wheel contains: ``python tools/check_wheel.py dist/*.whl``.

A wheel has the modules of ``src``, the files that they read, the type marker and the licences. It
has no tests and no data but the yeast table. ``make dist`` runs this check.
"""

import sys
import zipfile
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
# Besides modules; anything else was packaged by mistake, or is new and belongs in this list.
FILES = {
    "naim3l/datasets/data/LICENSE.yeast",
    "naim3l/datasets/data/README.md",
    "naim3l/datasets/data/yeast.csv.gz",
    "naim3l/experiments/templates/results.html.jinja",
    "naim3l/py.typed",
    "naim3l/report/templates/report.css",
    "naim3l/report/templates/report.html.jinja",
    "naim3l/report/templates/report.js",
}
METADATA = {
    "METADATA",
    "RECORD",
    "WHEEL",
    "entry_points.txt",
    "licenses/LICENSE",
    "licenses/src/naim3l/datasets/data/LICENSE.yeast",
}


def main() -> None:
    if not sys.argv[1:]:
        raise SystemExit("Name at least one wheel.")
    found = [problem for wheel in sys.argv[1:] for problem in problems(Path(wheel))]
    if found:
        raise SystemExit("\n".join(found))


def problems(wheel: Path) -> list[str]:
    """What is missing from a wheel, and what does not belong in it."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    info = "-".join(wheel.name.split("-")[:2]) + ".dist-info"  # of the name and the version
    modules = {path.relative_to(SOURCE).as_posix() for path in SOURCE.glob("naim3l/**/*.py")}
    expected = modules | FILES | {f"{info}/{name}" for name in METADATA}
    return [
        *(f"{wheel}: {name} is missing." for name in sorted(expected - names)),
        *(f"{wheel}: {name} does not belong in it." for name in sorted(names - expected)),
    ]


if __name__ == "__main__":
    main()
