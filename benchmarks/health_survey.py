"""Write a health survey as the files of four organisations, for docs/research/health-survey.md.

Adults of ../shared/data/nhanes_2017.tsv.gz. Every organisation asked other people, knows their age
and sex, and recorded the conditions; nothing is cleaned: the codes of the source, zeros that SAS
wrote as 5.4e-79, columns that are nearly empty, and columns that give a condition away. Other
people, who are in all four tables, are written to `new_*` without conditions, and their conditions
to `truth_*`.

    python benchmarks/health_survey.py --data DATA --to study

With `--write`, the commands of the page are run on these files, and what they print goes into it.
"""

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from pages import RESEARCH, write_part

from naim3l_bench.studies import MORE_LABELS, NHANES_LABELS, SHARED, read_adults
from workbooks import make_workbook

N_ROWS = 1100  # of each organisation
ID = "SEQN"
CONDITIONS = [*NHANES_LABELS, *MORE_LABELS]
# Sources of columns of each organisation, by the list of columns of the survey. Those of MCQ and
# DIQ that are no conditions follow from them: age at a diagnosis, insulin.
ORGANISATIONS = {
    "body.csv": ("BMX", "BPX", "DXX", "WHQ", "MCQ"),
    "blood.tsv": ("HDL", "TCHOL", "PBCD", "GHB", "DIQ"),
    "diet.parquet": ("DR1TOT", "DR2TOT", "DBQ"),
    "habits.xlsx": ("SMQ", "SMQRTU", "PAQ", "SLQ", "DEMO"),
}


TABLES = [name.partition(".")[0] for name in ORGANISATIONS]
NEW = " ".join(f"{view}=new_{name}" for view, name in zip(TABLES, ORGANISATIONS, strict=True))
TESTS = " ".join(
    f"--test {view}=truth_{name}" for view, name in zip(TABLES, ORGANISATIONS, strict=True)
)
COMMANDS = {
    "init": f"naim3l init {' '.join(ORGANISATIONS)} -o study.toml",
    "settings": "cat study.toml",
    "fit": "naim3l fit --config study.toml -o model.naim3l",
    "predict": f"naim3l predict model.naim3l {NEW} --fused --what probabilities -o new.csv",
    "answers": "head -n 3 new.csv",
    "report": f"naim3l report model.naim3l --config study.toml {TESTS} -o report.html",
}
PAGE = RESEARCH / "health-survey.md"


def write_study(data: Path, folder: Path, seed: int = 0) -> None:
    """Write the files of the organisations, of new people, and of their conditions."""
    adults, sources = read_adults(data)
    adults = adults.sample(frac=1, random_state=np.random.default_rng(seed))
    folder.mkdir(parents=True, exist_ok=True)
    new = adults[N_ROWS * len(ORGANISATIONS) :]
    for i, (name, of_table) in enumerate(ORGANISATIONS.items()):
        own = [c for c in adults if sources.get(c) in of_table and c not in (*CONDITIONS, *SHARED)]
        columns = [ID, *SHARED, *own]
        rows = adults[i * N_ROWS : (i + 1) * N_ROWS]
        write(rows[columns + CONDITIONS], folder / name)
        write(new[columns], folder / f"new_{name}")
        write(new[columns + CONDITIONS], folder / f"truth_{name}")


def write(table, path: Path) -> None:
    """Write a table in the format of its extension."""
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    elif path.suffix == ".xlsx":
        cells = table.astype(object).where(table.notna(), None).to_numpy().tolist()
        path.write_bytes(make_workbook({"answers": [list(table.columns), *cells]}))
    else:
        table.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")


def write_page(folder: Path) -> None:
    """Run the commands in the folder of the files, and put what they print into the page."""
    for name, command in COMMANDS.items():
        words = shlex.split(command)
        program = [sys.executable, "-m", *words] if words[0] == "naim3l" else words
        done = subprocess.run(
            program, cwd=folder, env=os.environ | {"COLUMNS": "100"}, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        # Plain blocks, which the tests of pages do not run, as DATA may be missing.
        write_part(PAGE, name, f"```text\n$ {command}\n{done.stdout.rstrip()}\n```\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the survey")
    parser.add_argument("--to", type=Path, default=Path("study"), help="folder to write")
    parser.add_argument("--write", action="store_true", help=f"renew the outputs of {PAGE.name}")
    arguments = parser.parse_args()
    write_study(arguments.data, arguments.to)
    if arguments.write:
        write_page(arguments.to)


if __name__ == "__main__":
    main()
