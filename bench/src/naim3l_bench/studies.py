"""Studies of tables about different samples, with samples for a test that are in all tables.

The labels of whole samples are set aside before anything is fitted. The training samples are dealt
to the tables so that no two tables share one, where there are enough of them; otherwise each table
draws its own. Then a share of each table's labels becomes unknown.
"""

import csv
import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from naim3l import NAIM3LCV, PerViewLogistic, evaluate
from naim3l_bench.candidates import compare_on_held_out
from naim3l_bench.datasets import open_npz

Matrix = NDArray[np.float64]

TEST_SHARE = 0.3  # of the samples, at most MOST_TEST
MOST_TEST = 1500
ADULT = 20  # age from which all questions are asked

# Yes-or-no questions about conditions that do not follow from the columns below.
NHANES_LABELS = (
    "DoctorEverSaidYouHadArthritis",
    "EverBeenToldYouHaveAsthma",
    "EverToldYouHadHeartAttack",
    "EverToldYouHadAStroke",
    "EverToldYouHadCancerOrMalignancy",
    "DoctorToldYouHaveDiabetes",
    "HaveSeriousDifficultyHearing",
    "HaveSeriousDifficultySeeing",
    "HaveSeriousDifficultyConcentrating",
    "HaveSeriousDifficultyWalking",
    "HaveDifficultyDressingOrBathing",
    "EverToldDoctorHadTroubleSleeping",
)
# Questionnaires and examinations of each table, by the column "Source" of the list of columns.
NHANES_TABLES = {
    "body": ("BMX", "BPX", "DXX", "WHQ"),
    "blood": ("HDL", "TCHOL", "PBCD", "GHB"),
    "diet": ("DR1TOT", "DR2TOT"),
    "habits": ("SMQ", "SMQRTU", "PAQ", "SLQ"),
}
# Columns that are a label, or follow from one.
NHANES_LEAKS = ("DiabeticDiet", "LowSaltlowSodiumDiet", "OnSpecialDiet", *NHANES_LABELS)
LEAST_KNOWN = 0.3  # share of adults who have a column; rarer ones are left out

# The survey with two columns that every organisation knows, and two more conditions.
SHARED = ("AgeInYearsAtScreening", "Gender")
MORE_LABELS = ("HaveDifficultyDoingErrandsAlone", "ExperienceConfusionmemoryProblems")


@dataclass(frozen=True)
class Population:
    """Samples that all views and labels are known of, except for cells that are really missing."""

    views: dict[str, Any]  # tables (n_samples, n_columns): arrays, or data frames
    labels: Matrix  # (n_samples, n_labels): 1, 0, NaN

    @property
    def n_samples(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Study:
    """Tables of different samples with their labels, and samples that are in all tables."""

    X: dict[str, Any]
    Y: dict[str, Matrix]
    X_test: dict[str, Any]  # row i of each table is the same sample
    Y_test: Matrix


@dataclass(frozen=True)
class Tables:
    """Tables with labels, 1, 0, NaN = unknown, and rows for a test; all by view."""

    X: dict[str, Any]
    Y: dict[str, Matrix]
    X_test: dict[str, Any]
    Y_test: dict[str, Matrix]

    def only(self, view: str) -> "Tables":
        """One of the tables."""
        fields = (self.X, self.Y, self.X_test, self.Y_test)
        return Tables(*({view: of[view]} for of in fields))


def open_population(name: str, folder: str | Path) -> Population:
    """A population of `POPULATIONS`, from files in a folder."""
    return POPULATIONS[name](Path(folder))


def make_study(population: Population, n_rows: int, known: float, seed: int) -> Study:
    """Tables of ``n_rows`` samples each, or of all there are, with a share of known labels.

    Entries become unknown at random, but not all yes of a table.
    """
    rng = np.random.default_rng((seed, n_rows, round(100 * known)))
    order = rng.permutation(population.n_samples)
    n_test = min(MOST_TEST, int(TEST_SHARE * len(order)))
    test, rest = order[:n_test], order[n_test:]
    names = list(population.views)
    n = min(n_rows, len(rest))
    if n * len(names) <= len(rest):
        dealt = rest[: n * len(names)].reshape(len(names), n)
    else:
        dealt = np.stack([rng.permutation(rest)[:n] for _ in names])
    X, Y = {}, {}
    for view, rows in zip(names, dealt, strict=True):
        X[view] = _take(population.views[view], rows)
        Y[view] = _hide(population.labels[rows], known, rng)
    tests = {view: _take(table, test) for view, table in population.views.items()}
    return Study(X, Y, tests, population.labels[test])


def _hide(labels: Matrix, known: float, rng: np.random.Generator) -> Matrix:
    if known >= 1:
        return labels.copy()
    found = np.full(labels.shape, np.nan)
    while not (found == 1).any():
        found = np.where(rng.random(labels.shape) < known, labels, np.nan)
    return found


def _take(table: Any, rows: NDArray[np.intp]) -> Any:
    return table.iloc[rows].reset_index(drop=True) if hasattr(table, "iloc") else table[rows]


def _read_npz(name: str) -> Callable[[Path], Population]:
    def read(folder: Path) -> Population:
        data = open_npz(folder / f"{name}.npz")
        views = {view: np.asarray(data.views[view], dtype=float) for view in data.views}
        if data.observed is not None:
            for j, table in enumerate(views.values()):
                table[~np.asarray(data.observed[:, j], dtype=bool)] = np.nan
        return Population(views, np.asarray(data.labels, dtype=float))

    return read


def read_adults(folder: Path) -> tuple[Any, dict[str, str]]:
    """The adults of the survey, with the codes of the file, and the source of each column."""
    import pandas as pd

    with gzip.open(folder / "nhanes_2017.tsv.gz", "rt") as file:
        table = pd.read_csv(file, sep="\t", low_memory=False)
    with open(folder / "nhanes_2017_columns.tsv", newline="") as file:
        sources = {
            row["VariableNameLong"]: row["Source"] for row in csv.DictReader(file, delimiter="\t")
        }
    return table[table["AgeInYearsAtScreening"] >= ADULT].reset_index(drop=True), sources


def _columns(table: Any, sources: dict[str, str], of_view: Sequence[str]) -> list[str]:
    """Columns of a table of the survey that do not follow from a label, and are not rare."""
    names = [c for c in table.columns if sources.get(c) in of_view and c not in NHANES_LEAKS]
    return [c for c in names if table[c].notna().mean() > LEAST_KNOWN]


def _answers(table: Any, labels: Sequence[str]) -> Matrix:
    answers: dict[Any, float] = dict.fromkeys(("Yes", "1", 1, True), 1.0)
    answers |= dict.fromkeys(("No", "0", 0, False), 0.0)
    return np.column_stack([table[c].map(answers).to_numpy(float) for c in labels])


def _read_nhanes(folder: Path) -> Population:
    table, sources = read_adults(folder)
    views = {}
    for view, of_view in NHANES_TABLES.items():
        frame = table[_columns(table, sources, of_view)]
        numeric = frame.select_dtypes("number").columns
        frame = frame.assign(**{c: frame[c].where(frame[c].abs() > 1e-70, 0.0) for c in numeric})
        views[view] = frame
    # A cell of a row without any value would be a row that lacks the table.
    return Population(views, _answers(table, NHANES_LABELS))


def open_shared_survey(folder: str | Path) -> Population:
    """The survey with `SHARED` in each table, two more conditions, and the codes of the file."""
    table, sources = read_adults(Path(folder))
    views = {
        view: table[[*SHARED, *_columns(table, sources, of_view)]]
        for view, of_view in NHANES_TABLES.items()
    }
    return Population(views, _answers(table, (*NHANES_LABELS, *MORE_LABELS)))


POPULATIONS: dict[str, Callable[[Path], Population]] = {
    "nhanes_2017": _read_nhanes,
    **{name: _read_npz(name) for name in ("yeast", "emotions", "birds", "arxiv2007")},
}


# What must hold in every cell: a measure, and how far it may exceed or fall below another.
CLAIMS = (
    ("Brier", "Brier, base rates", 0.1, "at most"),
    ("log-loss", "log-loss, base rates", 0.1, "at most"),
    ("accuracy", "accuracy, more frequent", 1.0, "at least"),
    ("AUC", "AUC, best table", 1.0, "at least"),
    ("AUC", "AUC, mean of tables", 1.0, "at least"),
    ("table Brier", "table Brier, base rates", 0.1, "at most"),
    ("table AUC", "table AUC, logistic", 0.5, "at least"),
)


OF_TABLE = "AUC, table "  # before the name of a table


def with_best_table(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Results with the AUC of the table that is the best on average over all of them.

    The best of each run, picked by its test samples, would be best by chance where little is known.
    """
    tables = [key for key in runs[0] if key.startswith(OF_TABLE)]
    if not tables:
        return [dict(run) for run in runs]
    best = max(tables, key=lambda key: np.mean([run[key] for run in runs]))
    return [{**run, "AUC, best table": run[best]} for run in runs]


def failing(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences on the claims that results of `measure_study` with several seeds contradict.

    A mean difference must be beyond its margin by more than two standard errors.
    """
    found, runs = [], with_best_table(runs)
    for first, second, margin, way in CLAIMS:
        values = np.array([run[first] - run[second] for run in runs])
        mean, error = values.mean(), values.std(ddof=1) / len(values) ** 0.5
        excess = mean - margin if way == "at most" else -mean - margin
        if excess > 2 * error:
            allowed = f"{way} {margin if way == 'at most' else -margin:g} is allowed"
            found.append(
                f"{first} - {second} = {mean:+.2f} (standard error {error:.2f}), {allowed}"
            )
    return found


def measure_study(study: Study, seed: int) -> dict[str, float]:
    """Measures in percent of `naim3l.NAIM3LCV` with its defaults, and of rivals, on test samples.

    Rivals are base rates, each label's more frequent value, logistic regression per table with a
    strength chosen on held-out entries, and averages of tables' probabilities.
    """
    model = NAIM3LCV(random_state=seed).fit(study.X, study.Y)
    truth, rates = study.Y_test, model.base_rates_
    tables = list(model.predict_proba(study.X_test).values())
    logistic = _logistic(study, seed)
    fused = np.asarray(model.fuse(study.X_test))
    labels = np.asarray(model.fuse(study.X_test, "labels"))
    base = np.broadcast_to(rates, truth.shape)
    mean, mean_logistic = (np.nanmean(np.stack(of), axis=0) for of in (tables, logistic))
    of_tables = [macro_auc(truth, P) for P in tables]
    found = {
        "Brier": brier(truth, fused),
        "Brier, base rates": brier(truth, base),
        "Brier, mean of tables": brier(truth, mean),
        "Brier, mean of logistic": brier(truth, mean_logistic),
        "log-loss": log_loss(truth, fused),
        "log-loss, base rates": log_loss(truth, base),
        "accuracy": accuracy(truth, labels > 0),
        "accuracy, p > 1/2": accuracy(truth, fused > 0.5),
        "accuracy, more frequent": accuracy(truth, base > 0.5),
        "micro-F1": micro_f1(truth, labels > 0),
        "micro-F1, p > 1/2": micro_f1(truth, fused > 0.5),
        "AUC": macro_auc(truth, fused),
        "AUC, mean of tables": macro_auc(truth, mean),
        "AUC, mean of logistic": macro_auc(truth, mean_logistic),
        "table Brier": float(np.mean([brier(truth, P) for P in tables])),
        "table Brier, logistic": float(np.mean([brier(truth, P) for P in logistic])),
        "table AUC": float(np.mean(of_tables)),
        "table AUC, logistic": float(np.mean([macro_auc(truth, P) for P in logistic])),
        "overlap": float(model.fusion_overlap_ or 0.0),
    }
    found |= {f"{OF_TABLE}{view}": of for view, of in zip(study.X_test, of_tables, strict=True)}
    of_rows = [(truth[~np.isnan(P[:, 0])], base[~np.isnan(P[:, 0])]) for P in tables]
    found["table Brier, base rates"] = float(np.mean([brier(*of) for of in of_rows]))
    return found


def measure_gain(study: Study, seed: int) -> dict[str, dict[str, float]]:
    """What coupling adds in points: as claimed on held-out rows or entries, and on test samples."""
    found: dict[str, dict[str, float]] = {}
    for by in ("rows", "entries"):
        model = NAIM3LCV(random_state=seed)
        block = model.compare(study.X, study.Y, by=by)["blocks"][0]
        claimed = block["metrics"]
        coupled, alone = (_on_test(study, of) for of in (model, model.uncoupled_))
        for metric in GAINS:
            gain = claimed[metric]["gain"]
            of_metric = {key: 100 * gain[key] for key in ("value", "low", "high")}
            found[f"{metric}, {by}"] = of_metric | {"real": 100 * (coupled[metric] - alone[metric])}
        found[f"headline, {by}"] = found[f"{block['headline']}, {by}"]  # what the program says
    return found


def _on_test(study: Study, model: Any) -> dict[str, float]:
    """Metrics of a model's scores of test samples, means over tables."""
    scores = model.decision_function(study.X_test)
    present = {view: np.isfinite(S).all(axis=1) for view, S in scores.items()}
    truth = {view: study.Y_test[rows] for view, rows in present.items()}
    return dict(evaluate(truth, {view: S[present[view]] for view, S in scores.items()}))


GAINS = ("macro-AUC", "AP", "1-RL")  # measures whose gains are compared
STRENGTHS = (0.01, 0.1, 1.0, 10.0)


def _logistic(study: Study, seed: int) -> list[Matrix]:
    """Probabilities of logistic regression per table, tuned as `naim3l.NAIM3LCV` is."""
    candidates = [PerViewLogistic(C, decide="sign") for C in STRENGTHS]
    options: dict[str, Any] = {"cv": 3, "metric": "log-loss", "random_state": seed}
    best, _ = compare_on_held_out(candidates, study.X, study.Y, **options)
    fitted = candidates[best].fit(study.X, study.Y)
    return [expit(S) for S in fitted.decision_function(study.X_test).values()]


def _known(truth: Matrix, *given: Any) -> list[Any]:
    """Entries that are known and predicted."""
    used = np.isfinite(truth) & np.all([np.isfinite(of) for of in given], axis=0)
    return [of[used] for of in (truth, *given)]


def brier(truth: Matrix, P: Matrix) -> float:
    """Mean squared error of probabilities, in percent."""
    y, p = _known(truth, P)
    return float(100 * np.mean((p - y) ** 2))


def log_loss(truth: Matrix, P: Matrix) -> float:
    """Mean log-loss of probabilities, times 100."""
    y, p = _known(truth, np.clip(P, 1e-9, 1 - 1e-9))
    return float(-100 * np.mean(np.log(np.where(y > 0, p, 1 - p))))


def accuracy(truth: Matrix, yes: Any) -> float:
    """Share of right decisions, in percent."""
    y, decided = _known(truth, yes)
    return float(100 * np.mean(decided == (y > 0)))


def micro_f1(truth: Matrix, yes: Any) -> float:
    """F1 of all entries, in percent."""
    y, decided = _known(truth, yes)
    return float(200 * np.sum(decided & (y > 0)) / max(1, np.sum(decided) + np.sum(y > 0)))


def macro_auc(truth: Matrix, P: Matrix) -> float:
    """AUC averaged over the labels that have both values, in percent."""
    used = np.isfinite(P).all(axis=1)
    return 100 * evaluate(truth[used], P[used], threshold=0.5)["macro-AUC"]
