"""The code of the README, and of the page that continues it, runs as it stands."""

import re
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from naim3l.datasets import make_unpaired

ROOT = Path(__file__).resolve().parent.parent
TEXTS = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/python.md")]
BLOCKS = [block for text in TEXTS for block in re.findall(r"```python\n(.*?)```", text, re.S)]


@pytest.fixture
def namespace(tmp_path, monkeypatch):
    """Two CSV files with an id and text labels, new rows, and a wide table, as the README has."""
    data = make_unpaired(80, n_features=(2, 3), n_labels=3, n_latent=2, missing_labels=0.3,
                         random_state=0)  # fmt: skip
    columns = {"clinic": ["age", "bp"], "lab": ["hb", "crp", "na"]}
    labels = ["flu", "asthma", "gout"]
    for (name, names), X, Y in zip(
        columns.items(), data.views.values(), data.labels.values(), strict=True
    ):
        table = pd.DataFrame(X, columns=names)
        table[labels] = np.where(np.isnan(Y), "?", np.where(Y == 1, "yes", "no"))
        table.insert(0, "id", [f"{name}{i}" for i in range(len(table))])
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(80, 5))
    wide = pd.DataFrame(rows, columns=[*columns["clinic"], *columns["lab"]])
    wide.loc[:20, ["age", "bp"]] = np.nan
    return {
        "X_new": pd.DataFrame(data.views["view1"], columns=columns["lab"]),
        "X_clinic": pd.DataFrame(data.views["view0"][:5], columns=columns["clinic"]),
        "X_lab": pd.DataFrame(data.views["view1"][:5], columns=columns["lab"]),
        "table": wide,
        "labels_of_table": pd.DataFrame((rows[:, :3] > 0.5).astype(int), columns=labels),
    }


def test_every_block_runs(namespace):
    assert len(BLOCKS) == 13
    assert len(TEXTS[0].splitlines()) <= 150
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tiny tables; what they warn of is tested elsewhere
        for block in BLOCKS:
            if "fit(table, labels)" in block:
                namespace["labels"] = namespace["labels_of_table"]
            if "naim3l.deep" not in block or find_spec("torch"):
                exec(block, namespace)
    assert set(namespace["tables"]) == {"clinic", "lab"}
    assert namespace["Y"]["lab"].isna().to_numpy().any()
    assert Path("model.skops").exists() and Path("challenge.npz").exists()
