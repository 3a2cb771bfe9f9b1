"""Invented patients of a clinic, a laboratory and a survey, who are ill as doctors would expect."""

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch, check_random_state
from sklearn.utils._param_validation import Interval, validate_parameter_constraints

from naim3l.files.errors import load_extra

DIAGNOSES = ("flu", "asthma", "gout", "diabetes", "hypertension", "anaemia", "depression")
# Share of the patients who are in each table, and of its diagnoses that are known.
PRESENT = {"clinic": 1.0, "lab": 2 / 3, "survey": 14 / 15}
KNOWN = {"clinic": 0.6, "lab": 0.5, "survey": 0.4}
LATER = 0.25  # of all patients, who are in no training table
_ALLOWED: Any = {"n_patients": [Interval(Integral, 40, None, closed="left")]}


class _Patients(NamedTuple):
    """What nobody measures: age and sex, and how far each trouble has got, standard normal."""

    age: Any
    male: Any
    weight: Any
    airways: Any
    infection: Any
    urate: Any
    sugar: Any
    vessels: Any
    blood: Any
    mind: Any


def make_patients(n_patients: int = 600, *, random_state: Any = None) -> Bunch:
    """Invent patients whose tables at a clinic, a laboratory and a survey cannot be joined.

    The tables have plausible numbers in usual units. Diagnoses depend on each other as they do in
    life: obesity goes with gout, diabetes and hypertension, an infection worsens asthma, and
    anaemia makes depressed.

    Parameters
    ----------
    n_patients : int, default=600
        The last quarter comes later, and is in no training table.
    random_state : int, RandomState instance or None, default=None
        Determines all random numbers. Pass an int for reproducible tables.

    Returns
    -------
    Bunch
        ``views`` and ``labels`` have a data frame for "clinic", "lab" and "survey" each, with other
        rows in another order, and diagnoses that are 1, 0, or NaN for unknown; ``new_views`` and
        ``new_labels`` are those of the later patients, all known. The index is the patient.

    Examples
    --------
    >>> from naim3l.datasets import make_patients
    >>> data = make_patients(random_state=0)
    >>> {view: table.shape for view, table in data.views.items()}
    {'clinic': (450, 8), 'lab': (300, 6), 'survey': (420, 5)}
    """
    validate_parameter_constraints(_ALLOWED, {"n_patients": n_patients}, "make_patients")
    pd, rng = load_extra("pandas"), check_random_state(random_state)
    age = np.clip(rng.normal(50, 17, n_patients), 18, 95)
    who = _Patients(age, rng.random(n_patients) < 0.5, *rng.normal(size=(8, n_patients)))
    ids = pd.Index([f"P{i:04d}" for i in range(n_patients)], name="patient_id")
    ill = pd.DataFrame(_diagnoses(who, rng), ids, list(DIAGNOSES), dtype=float)
    tables = {view: pd.DataFrame(of(who, rng), ids) for view, of in _MEASURED.items()}
    n_first = n_patients - int(LATER * n_patients)
    views, labels = {}, {}
    for view, table in tables.items():
        rows = rng.permutation(n_first)[: round(PRESENT[view] * n_first)]
        views[view] = table.iloc[rows]
        labels[view] = ill.iloc[rows].mask(rng.random((len(rows), ill.shape[1])) > KNOWN[view])
    later = {view: table[n_first:] for view, table in tables.items()}
    new_labels = {view: ill[n_first:] for view in tables}
    return Bunch(views=views, labels=labels, new_views=later, new_labels=new_labels)


def _diagnoses(who: _Patients, rng: Any) -> Any:
    """Who has which diagnosis, (n_patients, n_diagnoses)."""
    decades = (who.age - 50) / 10
    strength = [
        -1.2 + 2.4 * who.infection,
        -1.5 + 2.4 * who.airways + 0.8 * who.infection - 0.2 * decades,
        -3.0 + 1.3 * who.urate + 1.5 * who.weight + 1.4 * who.male + 0.6 * decades,
        -1.9 + 1.6 * who.sugar + 1.4 * who.weight + 0.4 * decades,
        -1.0 + 1.4 * who.vessels + 1.2 * who.weight + 0.5 * decades,
        -1.8 + 2.2 * who.blood - 0.6 * who.male,
        -1.6 + 2.2 * who.mind + 0.8 * who.blood,
    ]
    return np.transpose(strength) + rng.logistic(0, 0.4, (len(who.age), len(strength))) > 0


def _clinic(who: _Patients, rng: Any) -> dict[str, Any]:
    noise, n = _noise(rng, len(who.age)), len(who.age)
    fever = np.logaddexp(0, 2 * who.infection - 1)
    bmi = np.clip(26.5 + 4.2 * who.weight + noise(1), 16, 55).round(1)
    bmi[rng.random(n) < 0.1] = np.nan
    urgent = rng.random(n) < 0.15 + 0.15 * (fever > 1)
    return {
        "age": who.age.round().astype(int),  # years
        "sex": np.where(who.male, "m", "f"),
        "pressure": (
            118 + 0.3 * (who.age - 50) + 9 * who.vessels + 6 * who.weight + noise(6)
        ).round(),  # systolic, mmHg
        "bmi": bmi,  # kg/m2
        "pulse": (70 + 6 * fever - 2 * who.blood + 2 * who.weight + noise(6)).round(),  # a minute
        "temperature": (36.6 + 0.55 * fever + noise(0.2)).round(1),  # degrees Celsius
        "peak_flow": (  # litres a minute
            480 + 70 * who.male - 2 * (who.age - 50) - 75 * who.airways + noise(30)
        ).round(-1),
        "ward": np.where(urgent, "emergency", rng.choice(["north", "south"], n)),
    }


def _lab(who: _Patients, rng: Any) -> dict[str, Any]:
    noise = _noise(rng, len(who.age))
    return {
        "hb": (13.4 + 1.2 * who.male - 1.2 * who.blood + noise(0.5)).round(1),  # g/dL
        "crp": np.exp(1.0 + 1.1 * who.infection + 0.2 * who.weight + noise(0.4)).round(1),  # mg/L
        "urate": (  # mg/dL
            4.9 + 0.9 * who.male + 0.9 * who.urate + 0.4 * who.weight + noise(0.4)
        ).round(1),
        "eosinophils": np.exp(0.9 + 0.5 * who.airways + noise(0.3)).round(1),  # percent
        "glucose": (  # mg/dL
            84 + 20 * np.logaddexp(0, 1.2 * who.sugar + 0.5 * who.weight) + noise(6)
        ).round(),
        "alt": np.exp(3.1 + 0.25 * who.weight + noise(0.35)).round(),  # U/L
    }


def _survey(who: _Patients, rng: Any) -> dict[str, Any]:
    noise = _noise(rng, len(who.age))

    def scale(values: Any, most: int) -> Any:
        return np.clip(values, 0, most).round()

    return {
        "sleep": np.clip(7.2 - 0.7 * who.mind - 0.3 * who.airways + noise(0.6), 3, 11).round(1),
        "pain": scale(3 + 1.4 * who.urate + 0.7 * who.weight + noise(1.2), 10),
        "cough": scale(2 + 1.3 * who.airways + 1.5 * who.infection + noise(1), 7),  # days a week
        "mood": scale(6.2 - 1.7 * who.mind - 0.4 * who.blood + noise(1), 10),
        "sport": np.exp(0.8 - 0.5 * who.weight - 0.3 * who.blood + noise(0.5)).round(1),  # h a week
    }


def _noise(rng: Any, n: int) -> Any:
    """Function that draws errors of measurement with a standard deviation."""
    return lambda sd: rng.normal(0, sd, n)


_MEASURED = {"clinic": _clinic, "lab": _lab, "survey": _survey}
