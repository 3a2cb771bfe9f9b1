"""Write a health survey as the files of four organisations, for docs/research/health-survey.md.

Adults of ../shared/data/nhanes_2017.tsv.gz. Every organisation asked other people, knows their age
and sex, and recorded the conditions; nothing is cleaned: the codes of the source, zeros that SAS
wrote as 5.4e-79, columns that are nearly empty, and columns that give a condition away. Other
people, who are in all four tables, are written to `new_*` without conditions, and their conditions
to `truth_*`.

    python benchmarks/health_survey.py --data DATA --to study
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the survey")
    parser.add_argument("--to", type=Path, default=Path("study"), help="folder to write")
    arguments = parser.parse_args()
    write_study(arguments.data, arguments.to)


if __name__ == "__main__":
    main()
