"""Four studies as files, with the faults of real ones: three generated, one of real data.

Each has rare labels, ids under names of their own, empty cells and text, in formats that differ
from table to table. Later rows of the same study, with all labels, serve to test a model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sqlalchemy
from scipy.special import ndtri

from naim3l.datasets import load_yeast
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
    guessed : bool
        Whether ``naim3l init`` can guess the labels; 0 and 1 may be anything.
    """

    write: Callable[[Path], tuple[dict[str, str], dict[str, str]]]
    labels: list[str]
    words: list[str]
    guessed: bool = True


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


TOPICS = ["topic_business", "topic_politics", "topic_sport", "topic_science", "topic_crash"]


def _write_news(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Counts of many words, of stories by three outlets; most counts are 0."""
    rng = np.random.default_rng(4)
    sources: list[dict[str, str]] = [{}, {}]
    for v, outlet in enumerate(("herald", "mirror", "times")):
        weights = np.random.default_rng(10 + v).normal(size=(5, 120))
        for part, unknown_share in (("", 0.3), ("_later", 0.0)):
            Z, labels = _latent(rng, 200, [0.3, 0.25, 0.2, 0.12, 0.04])
            counts = rng.poisson(np.exp(0.6 * Z @ weights - 1.5))
            table = pd.DataFrame(counts, columns=[f"w{j:03d}" for j in range(120)])
            table.insert(0, "story", [f"{outlet[0]}{part[:2]}-{i:05d}" for i in range(200)])
            for k, topic in enumerate(TOPICS):
                table[topic] = np.where(rng.random(200) < unknown_share, np.nan, labels[:, k])
            name = f"{outlet}{part}"
            if outlet == "times":
                engine = sqlalchemy.create_engine(f"sqlite:///{folder / 'times.db'}")
                table.to_sql(name, engine, index=False)
                engine.dispose()
                sources[bool(part)][outlet] = f"sqlite:///times.db#select * from {name}"
            else:
                table.to_csv(folder / f"{name}.csv.gz", index=False)
                sources[bool(part)][outlet] = f"{name}.csv.gz"
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


def _write_genes(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Real data: functions of genes of yeast, in tables that share no row; two are rare."""
    data = load_yeast()
    rng = np.random.default_rng(6)
    chosen = [0, 2, 5, 8, 9, 13]
    order = rng.permutation(len(next(iter(data.views.values()))))
    sources: list[dict[str, str]] = [{}, {}]
    for v, (name, X) in enumerate(data.views.items()):
        for part, share in (("", 0.4), ("_later", 0.0)):
            rows = order[400 * (2 * v + bool(part)) :][:400]
            table = pd.DataFrame(X[rows], columns=[f"{name}_{j}" for j in range(X.shape[1])])
            table = _with_holes(rng, table, 0.05)
            table.insert(0, "gene", [f"Y{i:04d}W" for i in rows])
            for k in chosen:
                hidden = rng.random(len(rows)) < share
                labels = np.asarray(data.labels)[rows, k]
                table[f"class{k}"] = np.where(hidden, np.nan, labels)
            table.to_csv(folder / f"{name}{part}.csv", index=False)
            sources[bool(part)][name] = f"{name}{part}.csv"
    return sources[0], sources[1]


STUDIES = {
    "hospital": Study(_write_hospital, OUTCOMES, []),
    "news": Study(_write_news, TOPICS, [], guessed=False),
    "survey": Study(
        _write_survey, DRUGS, ["--yes", "used", "--no", "never", "--unknown", "not asked"]
    ),
    "genes": Study(_write_genes, [f"class{k}" for k in (0, 2, 5, 8, 9, 13)], [], guessed=False),
}
