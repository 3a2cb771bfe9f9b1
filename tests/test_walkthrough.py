"""The walk-through: exactly its commands, in an empty folder."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
from sklearn.metrics import roc_auc_score

ROOT = Path(__file__).resolve().parents[1]


def commands():
    text = (ROOT / "docs" / "walkthrough.md").read_text(encoding="utf-8")
    return [block.strip() for block in re.findall(r"```sh\n(.*?)```", text, re.S)]


def test_every_command_of_the_walkthrough_works(tmp_path):
    shutil.copy(ROOT / "examples" / "messy_files.py", tmp_path)
    scripts = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    for command in commands():
        done = subprocess.run(
            ["sh", "-e", "-c", command], cwd=tmp_path, env=environment, capture_output=True,
            text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    assert {"model.skops", "new.csv", "new.parquet", "fused.csv", "filled"} <= {
        path.name for path in tmp_path.iterdir()
    }
    # It is worth something: the later patients' known diagnoses are ranked well.
    truth = pd.read_csv(tmp_path / "clinic_new.csv", index_col="patient_id")
    chances = pd.read_parquet(tmp_path / "new.parquet")
    for label in ("flu", "asthma", "gout"):
        known = (truth[label] != "unknown").to_numpy()
        yes = (truth[label] == "yes").to_numpy()[known]
        assert roc_auc_score(yes, chances[label].to_numpy()[known]) > 0.7
