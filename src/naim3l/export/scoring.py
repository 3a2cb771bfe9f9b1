"""How rows are scored, written once for every language that has the operations of `Language`."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from naim3l._arrays import Matrix
from naim3l._text import quote, some
from naim3l.decisions.borrowing import Borrowing
from naim3l.decisions.bridge import LARGEST_LOG_ODDS, LEAST_VARIANCE, MOST_CHANGE
from naim3l.decisions.calibration import USUAL, Calibration
from naim3l.estimators.linear import LinearViewModel
from naim3l.estimators.shared import SharedModel
from naim3l.features.plan import ColumnPlan, ViewPlan
from naim3l.features.shared import BENDS, LARGEST_NUMBER
from naim3l.features.survey import DATE
from naim3l.input.views import FUSED

PROBABILITIES, SCORES = "probabilities", "scores"


class Language(ABC):
    """What an export needs: a vector holds one or several numbers of each row."""

    title: str
    reads_dates = True  # also those of text with the year last

    @abstractmethod
    def encode(self, view: str, plan: ViewPlan) -> Any:
        """Encoded columns of a plan, filled in, as `ViewPlan.encode_rows`."""

    @abstractmethod
    def present(self, columns: Sequence[ColumnPlan]) -> Any:
        """1 in rows that have a cell in one of the columns, 0 in others."""

    @abstractmethod
    def affine(self, x: Any, A: Matrix, b: Matrix) -> Any:
        """``x @ A + b``."""

    @abstractmethod
    def add(self, x: Any, b: Matrix) -> Any:
        """``x + b``, rounded before anything follows."""

    @abstractmethod
    def unit(self, x: Any) -> Any:
        """Rows divided by their length, as scikit-learn's ``normalize``."""

    @abstractmethod
    def clip(self, x: Any, low: Matrix | None, high: Matrix | None) -> Any:
        """``x`` within bounds, of which one may be left out."""

    @abstractmethod
    def log(self, x: Any) -> Any:
        """Natural logarithm."""

    @abstractmethod
    def expit(self, x: Any) -> Any:
        """``1 / (1 + exp(-x))``."""

    @abstractmethod
    def multiply(self, x: Any, y: Any) -> Any:
        """Products of the numbers of two vectors, of which the second may have one."""

    @abstractmethod
    def divide(self, x: Any, y: Any) -> Any:
        """Quotients, by a vector of one number."""

    @abstractmethod
    def join(self, *parts: Any) -> Any:
        """All numbers of several vectors."""

    @abstractmethod
    def size(self, x: Any) -> int:
        """How many numbers of each row a vector holds."""

    @abstractmethod
    def take(self, x: Any, at: Sequence[int]) -> Any:
        """Some of the numbers."""


class Answers(NamedTuple):
    """Vectors of a number for each label, and of one that is 1 where a row has any value."""

    scores: Any
    probabilities: Any  # None if the model has none
    present: Any
    thresholds: Matrix
    labels: list[str]


def check_exported(model: Any, view: str | None, language: Language) -> str:
    """Name of the table of a model; refuses what the language cannot express."""
    check_is_fitted(model)
    if not isinstance(model, LinearViewModel):
        raise ValueError(
            f"{type(model).__name__} cannot be written as {language.title}: only linear models of "
            "each view can, such as NAIM3L, NAIM3LCV, PerViewRidge and PerViewLogistic."
        )
    blocks = model.names_.blocks
    name = blocks[0] if view is None and len(blocks) == 1 else view
    if name not in blocks:
        raise ValueError(
            "the model was fitted on one wide table, so that no view is named."
            if model.names_.wide
            else f"view must be one of {blocks}, got {view!r}."
        )
    for each in model.views_ if model.names_.wide else [name]:
        _check_view(model, each, language)
    return str(name)


def _check_view(model: LinearViewModel, view: str, language: Language) -> None:
    features, why, faults = model.features_[view], "", list[str]()
    if features.transformer is not None:
        why = f"its features are those of a {type(features.transformer).__name__}"
    elif features.kernel is not None:
        why = f"it has kernel {str(features.kernel.name)!r}"
    elif features.recipe is not None and features.recipe.histogram:
        why = "its rows are histograms"
    elif features.plan is None or model.names_.column_names(view) is None:
        why = 'its columns have no names or no plan; fit data frames with features="auto"'
    for column in features.plan.columns if features.plan and not why else ():
        if column.is_free_text:
            faults.append(f"column {quote(column.name)} is free text")
        elif column.units:
            faults.append(f"column {quote(column.name)} has numbers with units")
        elif column.kind == DATE and column.date_order and not language.reads_dates:
            faults.append(f"column {quote(column.name)} has dates with the year last")
    if why or faults:
        cure = "" if why else " Leave such columns out of the fit, or make numbers or dates of them"
        raise ValueError(
            f"view {view!r} cannot be written as {language.title}: {why or some(faults, 4, str)}."
            f"{cure}{', or score in Python.' if cure else ''}"
        )


def answers(model: LinearViewModel, block: str, language: Language) -> Answers:
    """The answers of a model for the rows of a table: a view, or all views of a wide table."""
    decisions, views = model.decisions_, model.views_ if model.names_.wide else [block]
    found = [_view_scores(model, view, language) for view in views]
    scores, present = found[0]
    if block == FUSED and len(found) > 1:
        scores, present = _fused(found, decisions.evidence, language)
    curve, P = decisions.calibrations.get(block), None
    if block in decisions.borrowing and curve is not None:
        scores = _borrowed(scores, decisions.borrowing[block], curve, language)
    if curve is not None:
        P = language.expit(_log_odds(scores, curve, language))
    return Answers(scores, P, present, decisions.thresholds[block], list(model.label_names_))


def _view_scores(model: LinearViewModel, view: str, language: Language) -> tuple[Any, Any]:
    """Scores of a view, whether rows have it or not, and whether they have it."""
    features = model.features_[view]
    plan, recipe = features.plan, features.recipe
    assert plan is not None
    x = language.encode(view, plan)
    if recipe is not None:
        shift, axes = recipe._of_columns
        rest = np.asarray(recipe.mean @ recipe.axes.T)
        x = language.unit(language.affine(language.add(x, -shift), axes, -rest))
    own = language.affine(x, np.asarray(model.coef_[view]), np.asarray(model.intercept_[view]))
    if model.shared_ is not None and view in model.shared_.stackings:
        own = _stacked(own, model.shared_, view, language)
    return own, language.present(plan.columns)


def _stacked(own: Any, shared: SharedModel, view: str, language: Language) -> Any:
    """Scores of a view with those of shared columns, as `SharedModel.combine`."""
    stacking, columns = shared.stackings[view], shared.columns
    n, part = len(columns.numbers), columns.parts.get(view)
    level, coef = shared.level - shared.mean @ shared.coef, shared.coef
    if part is None:  # all numbers are 0, as in a row with the means
        none = np.zeros((len(level), len(level)))
        scores = language.affine(own, none, level + columns._features(np.zeros(n)) @ coef)
    else:
        numbers = language.add(language.encode(view, part.plan), -part.mean)
        place = np.zeros((len(part.into), n))
        place[np.arange(len(part.into)), part.into] = 1 / part.scale
        ends = np.full(n, LARGEST_NUMBER)
        Z = language.clip(language.affine(numbers, place, np.zeros(n)), -ends, ends)
        bent, few = language.take(Z, columns.bent.tolist()), len(columns.bent)
        parts = [Z]
        for bend in BENDS if few else ():
            parts.append(
                language.clip(language.add(bent, np.full(few, -bend)), np.zeros(few), None)
            )
        if columns.products:
            one, other = ([*of] for of in zip(*columns.products, strict=True))
            parts.append(language.multiply(language.take(Z, one), language.take(Z, other)))
        scores = language.affine(language.join(*parts), coef, level)
    both, factors = language.join(own, scores), stacking.factors
    rest = stacking.level - (factors * stacking.centre).sum(axis=0)
    return language.affine(both, np.vstack([np.diag(of) for of in factors]), rest)


def _log_odds(scores: Any, curve: Calibration, language: Language) -> Any:
    """Calibrated log-odds of scores, as `Calibration.log_odds`."""
    n = len(curve.base)
    z = language.affine(language.add(scores, -curve.centre), np.diag(1 / curve.spread), np.zeros(n))
    ends, eye = np.full(n, USUAL), np.eye(n)
    beyond = [
        language.log(language.clip(language.affine(z, sign * eye, 1 - ends), np.ones(n), None))
        for sign in (1.0, -1.0)
    ]
    parts = language.join(language.clip(z, -ends, ends), *beyond)
    slopes = [sign * np.diag(curve.slope) for sign in (1.0, 1.0, -1.0)]
    return language.affine(parts, np.vstack(slopes), curve.base - curve.shift)


def _borrowed(scores: Any, borrowing: Borrowing, curve: Calibration, language: Language) -> Any:
    """Scores in which those of labels that the view never records are replaced, as `apply`."""
    rate, absent = expit(curve.base), np.flatnonzero(borrowing.absent)
    spread = np.sqrt(rate * (1 - rate))
    P = language.add(language.expit(_log_odds(scores, curve, language)), -rate)
    weights = np.where(borrowing.absent, 0.0, 1 / spread)[:, None] * borrowing.weights[:, absent]
    eta = np.clip(curve.base[absent], -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)
    p, q = expit(eta), expit(-eta)
    change = weights * np.sqrt(np.maximum(p * q, LEAST_VARIANCE))
    yes = language.clip(language.affine(P, change, p), p / MOST_CHANGE, 1 - q / MOST_CHANGE)
    no = language.clip(language.affine(P, -change, q), q / MOST_CHANGE, 1 - p / MOST_CHANGE)
    both, n, k = language.join(language.log(yes), language.log(no), scores), len(rate), len(absent)
    A, b = np.zeros((2 * k + n, n)), np.zeros(n)
    A[2 * k + np.arange(n), np.arange(n)] = ~borrowing.absent
    A[np.arange(k), absent], A[k + np.arange(k), absent] = (
        sign * curve.spread[absent] for sign in (1, -1)
    )
    b[absent] = curve.centre[absent] - curve.spread[absent] * eta
    return language.affine(both, A, b)


def _fused(found: Sequence[Any], evidence: Any, language: Language) -> tuple[Any, Any]:
    """Scores of the rows of a wide table, as `fuse_views`, and whether they have any view."""
    (scores, masks), n = zip(*found, strict=True), len(found)

    def total(parts: Sequence[Any], n_labels: int) -> Any:
        of_all = np.vstack([np.eye(n_labels)] * len(parts))
        return language.affine(language.join(*parts), of_all, np.zeros(n_labels))

    def masked(parts: Sequence[Any]) -> list[Any]:
        return [language.multiply(of, here) for of, here in zip(parts, masks, strict=True)]

    here, n_labels = language.join(*masks), language.size(scores[0])
    any_view = language.clip(language.affine(here, np.ones((n, 1)), np.zeros(1)), None, np.ones(1))
    count = language.clip(language.affine(here, np.ones((n, 1)), np.zeros(1)), np.ones(1), None)
    if evidence is None:
        return language.divide(total(masked(scores), n_labels), count), any_view
    curves = evidence.calibrations
    pairs = zip(scores, curves, strict=True)
    added = [language.add(_log_odds(S, of, language), -of.base) for S, of in pairs]
    bases = np.stack([of.base for of in curves])
    start = language.divide(language.affine(here, bases, np.zeros(n_labels)), count)
    overlap = np.full((1, 1), evidence.overlap)
    repeats = language.affine(count, overlap, 1 - overlap[0])
    beyond = language.divide(total(masked(added), n_labels), repeats)
    return total([start, beyond], n_labels), any_view
