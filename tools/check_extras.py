"""Install each extra of a wheel alone, and use it: ``python tools/check_extras.py dist/*.whl``.

Names of extras after the wheel limit the check to them.
Every extra gets an empty environment in ``build``, so that nothing which another extra brings can
help it. ``make dist-extras`` runs this check.
"""

import sqlite3
import subprocess
import sys
import tempfile
import venv
import zipfile
from email.parser import HeaderParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
PINS = ROOT / "constraints.txt"
# torch brings gigabytes, and flwr needs other versions; both have tests of their own. The others
# are for work on this package.
LEFT_OUT = {"torch", "flwr", "places", "test", "dev", "docs"}
# What an extra is for: a command in a folder with the files of `write_tables`.
USES = {
    "report": ["-m", "naim3l", "demo", "--seeds", "1", "--report", "page.html"],
    "files": ["-m", "naim3l", "init", "table.csv"],
    "sql": ["-m", "naim3l", "init", "sqlite:///table.db#select * from lab"],
    "excel": ["-m", "naim3l", "init", "table.xlsx"],
    "dask": ["-c", "import dask.dataframe, distributed"],
    "export": ["-c", "import onnx; from naim3l.export import to_onnx"],
    "federated": ["-c", "from naim3l.federated.secure import Masks; Masks('north')"],
}


def main() -> None:
    wheel = Path(sys.argv[1]).resolve()
    given = extras_of(wheel)
    if given - LEFT_OUT != set(USES):
        raise SystemExit(f"{Path(__file__).name}: USES has {sorted(USES)}, the wheel {given}.")
    for extra in sys.argv[2:] or USES:
        print(f"{extra}: python", *USES[extra], flush=True)
        python = install(wheel, extra)
        with tempfile.TemporaryDirectory() as folder:
            write_tables(Path(folder))
            subprocess.run(
                [python, *USES[extra]], cwd=folder, check=True, stdout=subprocess.DEVNULL
            )


def extras_of(wheel: Path) -> set[str]:
    """Names of the extras in the metadata of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    return set(metadata.get_all("Provides-Extra", []))


def install(wheel: Path, extra: str) -> Path:
    """The Python of a new environment that has the wheel with one extra."""
    folder = ROOT / "build" / f"extra-{extra}"
    venv.create(folder, clear=True)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, "--constraint", PINS, f"{wheel}[{extra}]"], check=True)
    return python


def write_tables(folder: Path) -> None:
    """The same small table as text, as a database and as a workbook."""
    sys.path.insert(0, str(ROOT / "tests"))
    from workbooks import make_workbook

    header, rows = ["id", "hb", "dx_flu"], [[f"a{i}", i / 2, i % 2] for i in range(20)]
    lines = [",".join(map(str, row)) for row in (header, *rows)]
    (folder / "table.csv").write_text("\n".join(lines))
    (folder / "table.xlsx").write_bytes(make_workbook({"lab": [header, *rows]}))
    connection = sqlite3.connect(folder / "table.db")
    connection.execute("create table lab (id text, hb real, dx_flu integer)")
    connection.executemany("insert into lab values (?, ?, ?)", rows)
    connection.commit()
    connection.close()


if __name__ == "__main__":
    main()
