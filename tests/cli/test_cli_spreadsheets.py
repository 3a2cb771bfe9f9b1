"""Ids that a spreadsheet would run, in the tables that commands write."""

from pathlib import Path

import pandas as pd
import pytest

from study import run


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("command", "written"),
    [
        (["predict", "-o", "told.csv"], "told.csv"),
        (["impute", "-o", "told"], "told/clinic.csv"),
        (["impute", "-o", "told", "--format", "tsv"], "told/clinic.tsv"),
    ],
)
def test_formulas_are_not_run_unless_asked_for(folder, command, written):
    table = pd.read_csv("clinic_new.csv", dtype={"patient_id": str})
    ids = [
        f"=HYPERLINK({name!r})" if i % 2 else f"-{i}" for i, name in enumerate(table["patient_id"])
    ]
    table.assign(patient_id=ids).to_csv("formulas.csv", index=False)
    arguments = [command[0], "model.naim3l", "clinic=formulas.csv", *command[1:]]

    def written_ids():
        separator = "\t" if written.endswith("tsv") else ","
        return pd.read_csv(Path(written), sep=separator, dtype=str)["patient_id"].tolist()

    safe = run(*arguments)
    assert safe.exit_code == 0, safe.output
    assert f"{written}: ' is put before text" in safe.stderr and "--raw-cells" in safe.stderr
    assert written_ids() == [f"'{name}" if name.startswith("=") else name for name in ids]
    raw = run(*arguments, "--raw-cells")
    assert (raw.exit_code, raw.stderr) == (0, "")
    assert written_ids() == ids
