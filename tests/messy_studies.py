"""Two studies as files, with the faults of real ones.

Each has rare labels, ids under names of their own, empty cells and text, in formats that differ
from table to table. Later rows of the same study, with all labels, serve to test a model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from workbooks import make_workbook


@dataclass(frozen=True)
class Study:
    """Tables of a study as files, and what is needed to name them.

    Attributes
    ----------
    write : function of a folder
        Writes the training files, with unknown labels, and the same number of later rows, with
        known ones, and returns sources of both by view.
    labels : list of str
    words : list of str
        Options of ``naim3l init`` that name words for yes, no and unknown.
    """

    write: Callable[[Path], tuple[dict[str, str], dict[str, str]]]
    labels: list[str]
    words: list[str]


def _latent(rng: np.random.Generator, n_rows: int, rates: list[float]) -> tuple[Any, Any]:
    """Hidden causes (n_rows, 5), and labels (n_rows, n_labels) with about these rates."""
    Z = rng.normal(size=(n_rows, 5))
    weights = np.random.default_rng(7).normal(size=(5, len(rates)))
    noise = 0.3 * rng.normal(size=(n_rows, len(rates)))
    scores = Z @ (weights / np.linalg.norm(weights, axis=0)) + noise
    return Z, (scores > np.sqrt(1.09) * ndtri(1 - np.array(rates))).astype(float)


def _measured(rng: np.random.Generator, Z: Any, names: list[str], seed: int) -> pd.DataFrame:
    """Noisy numbers that depend on the hidden causes, on scales that differ."""
    mixing = np.random.default_rng(seed).normal(size=(5, len(names)))
    X = Z @ mixing + rng.normal(size=(len(Z), len(names)))
    return pd.DataFrame(X * np.geomspace(0.1, 100, len(names)) + 50, columns=names).round(3)


def _with_holes(rng: np.random.Generator, table: pd.DataFrame, share: float) -> pd.DataFrame:
    return table.mask(rng.random(table.shape) < share)


def _in_words(labels: Any, names: list[str], words: tuple[str, str, str], unknown: Any) -> Any:
    yes, no, not_known = words
    cells = np.where(unknown, not_known, np.where(labels == 1, yes, no))
    return pd.DataFrame(cells, columns=names)


OUTCOMES = [
    "fibrillation", "tachycardia", "block", "oedema", "rupture", "dressler", "failure", "relapse",
    "death",
]  # fmt: skip
RATES = [0.10, 0.03, 0.04, 0.09, 0.03, 0.05, 0.23, 0.09, 0.16]


def _write_hospital(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Departments that number patients differently; some patients are in two of them."""
    rng = np.random.default_rng(1)
    sources: list[dict[str, str]] = []
    for part, unknown_share in (("", 0.3), ("_later", 0.0)):
        Z, labels = _latent(rng, 420, RATES)
        ward, lab = np.arange(320), np.arange(180, 420)
        numbers = [f"{2019 + bool(part)}/{i:04d}" for i in range(420)]

        def answers(rows: Any, share: float = unknown_share) -> pd.DataFrame:
            words = ("yes", "no", "")
            unknown = rng.random((len(rows), len(OUTCOMES))) < share
            return _in_words(labels[rows], OUTCOMES, words, unknown)  # noqa: B023

        ecg = _with_holes(rng, _measured(rng, Z[ward], [f"ecg_{j}" for j in range(8)], 2), 0.15)
        ecg.insert(0, "patient_no", [numbers[i] for i in ward])
        ecg["smoker"] = rng.choice(["never", "former", "current"], len(ward))
        days = pd.to_timedelta(rng.integers(0, 900, len(ward)), "D")
        ecg["admitted"] = pd.Timestamp("2019-01-01") + days
        ecg["rarely_taken"] = np.where(np.arange(len(ward)) < 2, 1.5, np.nan)
        ecg = pd.concat([ecg, answers(ward)], axis=1)
        ecg.to_csv(folder / f"ward{part}.csv", sep=";", decimal=",", index=False)
        tests = ["crp", "troponin", "sodium", "potassium", "glucose"]
        blood = _measured(rng, Z[lab], tests, 3).astype(object)
        blood = blood.mask(rng.random(blood.shape) < 0.2, "?")
        blood.insert(0, "MRN", [numbers[i] for i in lab])
        blood["comment"] = [f"sample {i} taken by {rng.integers(1e6)}" for i in lab]
        blood = pd.concat([blood, answers(lab)], axis=1)
        blood.to_csv(folder / f"lab{part}.tsv", sep="\t", index=False)
        sources.append({"ward": f"ward{part}.csv", "lab": f"lab{part}.tsv"})
    return sources[0], sources[1]


DRUGS = ["caffeine", "nicotine", "cannabis", "ecstasy", "ketamine", "heroin"]


def _write_survey(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Anonymous questionnaires: answers in words, categories, and no question asked of all."""
    rng = np.random.default_rng(5)
    sources: list[dict[str, str]] = []
    for part, share in (("", 0.3), ("_later", 0.0)):
        paths = {}
        for v, (name, n_rows) in enumerate((("online", 300), ("paper", 240))):
            Z, labels = _latent(rng, n_rows, [0.85, 0.5, 0.4, 0.15, 0.08, 0.04])
            table = _with_holes(
                rng, _measured(rng, Z, [f"trait{v}_{j}" for j in range(6)], 20 + v), 0.1
            )
            groups = ["18-24", "25-34", "35-44", "45+"]
            age = pd.Series(pd.cut(Z[:, 0], [-9, -1, 0, 1, 9], labels=groups)).astype(object)
            table["age"] = age.mask(rng.random(n_rows) < 0.05)
            table["country"] = rng.choice(["UK", "USA", "Ireland", "Canada"], n_rows)
            unknown = rng.random(labels.shape) < share
            answers = _in_words(labels, DRUGS, ("used", "never", "not asked"), unknown)
            table = pd.concat([table, answers], axis=1)
            paths[name] = f"{name}{part}.{'parquet' if name == 'online' else 'xlsx'}"
            if name == "online":
                table.to_parquet(folder / paths[name])
            else:
                cells = table.astype(object).where(table.notna(), None).to_numpy().tolist()
                workbook = make_workbook({"answers": [list(table.columns), *cells]})
                (folder / paths[name]).write_bytes(workbook)
        sources.append(paths)
    return sources[0], sources[1]


STUDIES = {
    "hospital": Study(_write_hospital, OUTCOMES, []),
    "survey": Study(
        _write_survey, DRUGS, ["--yes", "used", "--no", "never", "--unknown", "not asked"]
    ),
}
