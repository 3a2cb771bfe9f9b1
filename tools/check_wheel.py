"""Check what wheels contain: ``python tools/check_wheel.py dist/*.whl bench/dist/*.whl``.

A wheel has the modules of its package, the files that they read, the type marker and the licences.
It has no tests and no data but the yeast table. ``make dist`` runs this check.
"""

import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = {"naim3l": ROOT / "src", "naim3l_bench": ROOT / "bench" / "src"}
# Besides modules; anything else was packaged by mistake, or is new and belongs in this list.
FILES = {
    "naim3l/datasets/data/LICENSE.yeast",
    "naim3l/datasets/data/README.md",
    "naim3l/datasets/data/yeast.csv.gz",
    "naim3l/py.typed",
    "naim3l/report/templates/report.css",
    "naim3l/report/templates/report.html.jinja",
    "naim3l/report/templates/report.js",
}
BENCH_FILES = {"naim3l_bench/py.typed", "naim3l_bench/templates/results.html.jinja"}
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
    package, version = wheel.name.split("-")[:2]
    source, files = SOURCES[package], FILES if package == "naim3l" else BENCH_FILES
    modules = {path.relative_to(source).as_posix() for path in source.glob(f"{package}/**/*.py")}
    metadata = METADATA if package == "naim3l" else {n for n in METADATA if "yeast" not in n}
    expected = modules | files | {f"{package}-{version}.dist-info/{name}" for name in metadata}
    return [
        *(f"{wheel}: {name} is missing." for name in sorted(expected - names)),
        *(f"{wheel}: {name} does not belong in it." for name in sorted(names - expected)),
    ]


if __name__ == "__main__":
    main()
