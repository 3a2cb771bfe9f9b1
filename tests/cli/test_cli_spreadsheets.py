"""Ids that a spreadsheet would run, in the tables that commands write."""

import pandas as pd
import pytest

from study import run


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("out", ["predict told.csv", "impute told/clinic.csv"])
def test_formulas_are_not_run_unless_asked_for(folder, out):
    command, written = out.split()
    table = pd.read_csv("clinic_new.csv")
    ids = [f"=HYPERLINK({name!r})" if i % 2 else f"-{i}" for i, name in enumerate(table.index)]
    table.assign(patient_id=ids).to_csv("formulas.csv", index=False)
    target = written.partition("/")[0]
    for more, expected in (
        ([], [f"'{name}" if name.startswith("=") else name for name in ids]),
        (["--raw-cells"], ids),
    ):
        done = run(command, "model.naim3l", "clinic=formulas.csv", "-o", target, *more)
        assert done.exit_code == 0, done.output
        assert (f"{written}: ' is put before text" in done.stderr) == (not more)
        assert pd.read_csv(written, dtype=str)["patient_id"].tolist() == expected
