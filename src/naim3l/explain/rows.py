"""Why a row has its probabilities: what its columns, known labels and other tables add to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from naim3l._arrays import Matrix
from naim3l._text import some, visible
from naim3l.decisions.fusion import USUAL_OVERLAP
from naim3l.decisions.learning import heard
from naim3l.estimators.aligned import AlignedModel
from naim3l.explain.contributions import Contributions, column_contributions, common_contributions
from naim3l.explain.model_views import check_in_memory, read_truth
from naim3l.files.errors import close_names
from naim3l.input.batches import Batch
from naim3l.input.sources import MemoryTable, open_tables
from naim3l.input.views import FUSED, WIDE_TABLE

COLUMN, OTHERS, AVERAGE, KNOWN = "column", "others", "average", "known"
# Before columns that raise and lower a probability, and before other parts.
WORDS = ("raised by ", "lowered by ", "")
LONGEST_VALUE = 30  # characters of a text that are shown
SMALL = 0.05  # log-odds of parts that are not named
Rows = dict[str, tuple[list[Batch], NDArray[np.intp]]]  # tables of one row each, and their numbers


class Part(NamedTuple):
    """What a column, a known label or the average row adds to log-odds.

    Attributes
    ----------
    kind : {"column", "known", "average"}
        "average" is what a row with average values in all columns has beyond the rate.
    view, name : str
        The table, "" for known labels, and the column or label.
    value : object
        The cell of the row, None if it is missing, a list if rows of one id differ; whether a known
        label is yes.
    log_odds : float
        What it adds.

    Examples
    --------
    >>> from naim3l.explain import Part
    >>> Part("column", "lab", "uric_acid", 9.1, 0.9).log_odds
    0.9
    """

    kind: str
    view: str
    name: str
    value: Any
    log_odds: float


@dataclass(frozen=True)
class Explanation:
    """Why a row has its probability of a label, as returned by `explain_row`.

    Attributes
    ----------
    row : object
        Id, or position, of the row.
    label : str
        Name of the label.
    base_log_odds, log_odds : float
        Of the rate of the label in the tables of the row, and of the probability of the row.
    parts : list of Part
        What is added to the rate, the largest first; the sum is ``log_odds - base_log_odds``.
    tables : dict of str to float
        What each table of the row adds: the sum of its columns and of its average row.
    exact : bool
        Whether the parts of columns follow from weights; otherwise they are estimates.
    through : dict of str to list of str
        For tables that never record the label, the labels through which it is predicted.
    shared : list of str
        Columns that several of the tables share. What they say counts once.
    averaged : dict of str to list of int
        Numbers of the rows, by table, where several have the id; scores are means over these.
    titles : dict of str to str
        Titles of labels and columns that have one, with the names that they stand for.

    Examples
    --------
    >>> from naim3l.explain import Explanation, Part
    >>> parts = [Part("column", "lab", "uric_acid", 9.1, 0.9)]
    >>> found = Explanation("P0113", "gout", -2.0, -1.1, parts, {"lab": 0.9}, True, {})
    >>> found.describe()
    'P0113, gout: 0.25 (of all: 0.12). Raised by uric_acid = 9.1 (+0.90).'
    """

    row: Any
    label: str
    base_log_odds: float
    log_odds: float
    parts: list[Part]
    tables: dict[str, float]
    exact: bool
    through: dict[str, list[str]]
    shared: list[str] = field(default_factory=list)
    averaged: dict[str, list[int]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)

    @property
    def probability(self) -> float:
        """The probability of yes."""
        return float(expit(self.log_odds))

    @property
    def base_rate(self) -> float:
        """The share of yes that the explanation starts from."""
        return float(expit(self.base_log_odds))

    def describe(self, most: int = 5) -> str:
        """The explanation in words.

        Parameters
        ----------
        most : int, default=5
            Number of columns that are named, if they add or take at least 0.05.

        Returns
        -------
        str
            Numbers with a sign are log-odds. What several tables have in common, such as the same
            age, is one column, and what their average rows add is one number.

        Examples
        --------
        >>> from naim3l.explain import Explanation, Part
        >>> parts = [Part("known", "", "flu", False, -0.3)]
        >>> found = Explanation("P7", "cough", 0.0, -0.3, parts, {"lab": 0.0}, True, {})
        >>> found.describe()
        'P7, cough: 0.43 (of all: 0.50). Known flu = no (-0.30).'
        """
        groups: dict[str, list[str]] = {word: [] for word in WORDS}
        for kind, title, added in bars_of(self, most):
            word = WORDS[int(added < 0)] if kind == COLUMN else ""
            if kind == KNOWN or abs(added) >= SMALL:
                groups[word].append(f"{title} ({signed(added)})")
        said = "; ".join(word + ", ".join(of) for word, of in groups.items() if of)
        said = f"{said[:1].upper()}{said[1:]}." if said else "Nothing about the row changes this."
        label = self.titles.get(self.label, self.label)
        text = f"{self.row}, {label}: {share(self.probability)} "
        text += f"(of all: {share(self.base_rate)}). {said}"
        if len(self.tables) > 1:
            of_tables = [f"{view} ({signed(of)})" for view, of in self.tables.items()]
            text += f" By table: {', '.join(of_tables)}."
        if self.shared:
            columns = some([self.titles.get(name, name) for name in self.shared], most, str)
            text += f" Columns that the tables share are counted once: {columns}."
        for view, numbers in self.averaged.items():
            rows = some(numbers, 6, str)
            text += f" Scores are means over the rows of {view} with this id: {rows} (from 0)."
        for view, labels in self.through.items():
            names = some([self.titles.get(name, name) for name in labels], 3, str)
            way = f"predicted there through {names}" if labels else "its rate there"
            text += f" {view} never records {label}: it is {way}."
        return visible(text if self.exact else f"{text} What columns add is estimated.")


def bars_of(each: Explanation, most: int) -> list[tuple[str, str, float]]:
    """Kind, title and log-odds of the average row, the largest columns, others, known labels.

    Columns with one name and value in several tables are one.
    """
    groups: dict[tuple[str, str], list[Part]] = {}
    for part in each.parts:
        groups.setdefault((part.kind, _title(part, each.titles)), []).append(part)
    found = []
    for (kind, title), of in groups.items():
        alone = kind == COLUMN and len(of) == 1 < len(each.tables)
        whole = f"{of[0].view}: {title}" if alone else title
        found.append((kind, whole, sum(part.log_odds for part in of)))
    found.sort(key=lambda bar: -abs(bar[2]))
    columns, average, known = (
        [bar for bar in found if bar[0] == kind] for kind in (COLUMN, AVERAGE, KNOWN)
    )
    named = [bar for bar in columns if abs(bar[2]) >= SMALL][:most]
    others = [added for *_, added in columns[len(named) :]]
    what = f"{len(others)} other column" + "s" * (len(others) > 1)
    rest = [(OTHERS, what, sum(others))] if others else []
    return [*average, *named, *rest, *known]


def points_of(each: Explanation, log_odds: float) -> float:
    """Percentage points of a part: in proportion, so that all add up to the change."""
    change, p = each.log_odds - each.base_log_odds, each.probability
    return 100 * log_odds * ((p - each.base_rate) / change if change else p * (1 - p))


def _title(part: Part, titles: Mapping[str, str]) -> str:
    if part.kind == AVERAGE:
        return "average row"
    known = "known " if part.kind == KNOWN else ""
    return f"{known}{titles.get(part.name, part.name)} = {_shown(part.value)}"


def _shown(value: Any) -> str:
    """A cell in words, numbers with four digits."""
    if value is None:
        return "missing"
    if isinstance(value, list):
        return some(value, 3, _shown)
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, Real):
        number = float(value)
        return f"{number:.{4 if abs(number) < 1e4 else 8}g}"
    text = str(value).removesuffix(" 00:00:00")  # of a day without a time
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1].rstrip()}…"


def signed(log_odds: float) -> str:
    """Log-odds with a sign and two digits, at most two decimals."""
    decimals = 1 if abs(log_odds) >= 0.995 else 2
    return f"{round(log_odds, decimals) + 0.0:+.{decimals}f}"  # adding 0 makes -0.0 a plain zero


def share(p: float) -> str:
    """A probability with at least two decimals, two digits, and at most four decimals."""
    least = max(min(p, 1 - p), 1e-4)
    return f"{p:.{int(np.clip(1 - np.floor(np.log10(least)), 2, 4))}f}"


def explain_row(
    model: Any,
    X: Any,
    row: Any = 0,
    *,
    labels: str | Sequence[str] | None = None,
    known: Any = None,
) -> list[Explanation]:
    """What moves the probabilities of a row away from the rates of the labels.

    The log-odds of a probability are a sum: those of the rate of the label; what each column adds;
    what a row with average values has beyond the rate, mostly by the shift of the calibration; and
    what the known labels of the row add.

    In linear models with a recipe, a column adds its weight times its distance from the mean,
    divided by the length of the row, which counts as a constant; values of text and words are
    added up. Where a function bends, all parts are scaled alike: in the calibration beyond four
    standard deviations, for labels that a table never records, and in what known labels add. With
    kernels and networks, columns are moved from their means to their values in 20 random orders,
    and add what that changes on average. Columns that tables share, see ``shared_``, have one part
    in each table, of both scores that know them; over several tables, what they explain counts
    once. Without a recipe, a column is compared with the mean of its plan, or of the landmarks, and
    without these with 0.

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, BlendNAIM3L, DeepNAIM3L or another model with probabilities
        Fitted model that scores every view by itself.
    X : mapping of str to table, or one wide table
        In the form of the fit, in memory. The row may be in several tables, whose evidence is
        added up, as by the method ``fuse``, which learns their overlap from all rows.
    row : object, default=0
        Id of the row in the index of pandas tables; its position in others. If several rows of a
        table have the id, their scores are averaged, as by ``fuse``.
    labels : str or sequence of str, optional
        Labels to explain. By default all that are not known, those first whose probability is the
        largest multiple of the rate.
    known : mapping of str to label table, or one label table, optional
        Known labels of the rows of ``X``, or of some of its tables, as for ``predict_proba``. What
        they add is added to the log-odds of all tables together.

    Returns
    -------
    list of Explanation
        One for each label.

    Examples
    --------
    >>> from naim3l import NAIM3L, datasets
    >>> from naim3l.explain import explain_row
    >>> data = datasets.make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> model = NAIM3L(decide="guarded", random_state=0).fit(data.views, data.labels)
    >>> found = explain_row(model, {"view1": data.views["view1"]}, 3)
    >>> print(found[0].describe(most=1))
    3, label1: 0.975 (of all: 0.65). Raised by column 2 = 0.8978 (+1.5); ...
    """
    from naim3l.report.titles import with_code  # which imports this package

    _check_model(model, X)
    names, tables = model.label_names_, _rows(model, X, row)
    labels = [labels] if isinstance(labels, str) else labels
    for label in labels or ():
        if label not in names:
            raise ValueError(f"no label {label!r}; {close_names(label, names)}")
    views, common = _scores_of_views(model, tables)
    if not views:
        raise ValueError(f"row {row!r}: all values are missing, so there is nothing to explain.")
    if len(views) > 1 and not model.names_.wide and model.decisions_.overlap is None:
        model.fuse(X, "scores")  # which learns how much views overlap
    base, added = _log_odds(model, views, common)
    log_odds = np.asarray(base + sum(of.scores for of in added.values()))
    truth, bridge = _known(model, X, known, tables, row), model.decisions_.bridge
    at, of_known = np.flatnonzero(np.isfinite(truth)), np.zeros((0, len(names)))
    if bridge is not None and len(at):
        of_known = bridge.shares(log_odds, truth)
        log_odds = log_odds + of_known.sum(axis=0)
    given = {names[j]: (bool(truth[j]), of) for j, of in zip(at.tolist(), of_known, strict=False)}
    absent = [of for of in model.absent_labels_ if of.view in views]
    averaged = {name: at.tolist() for name, (_, at) in tables.items() if len(at) > 1}
    about: Any = _shared_columns(model, common), averaged
    found = []
    for label in _labels_of(labels, names, truth, row):
        k = names.index(label)
        parts = [part for view, of in added.items() for part in _parts(view, of, k)]
        parts += [Part(KNOWN, "", of, yes, float(add[k])) for of, (yes, add) in given.items()]
        parts.sort(key=lambda part: -abs(part.log_odds))
        through = {of.view: [] if of.obstacle else of.through for of in absent if of.label == label}
        by_table = {view: float(of.scores[k]) for view, of in added.items()}
        exact = all(of.exact for of in added.values())
        ends = float(base[k]), float(log_odds[k])
        used = {label, *(part.name for part in parts)}.union(*through.values())
        titles = {name: with_code(model.titles_, name) for name in used & {*model.titles_}}
        rest = parts, by_table, exact, through, *about, titles
        found.append(Explanation(row, label, *ends, *rest))
    if labels is None:
        found.sort(key=lambda of: -of.probability / of.base_rate)
    return found


def _check_model(model: Any, X: Any) -> None:
    """Refuse models that have no probabilities, or do not score each view by itself."""
    check_is_fitted(model)
    if isinstance(model, AlignedModel):
        raise ValueError(
            f"{type(model).__name__} scores all views of a row at once; rows are only explained "
            "for models that score every view by itself, such as NAIM3L."
        )
    if not model.decisions_.calibrations:
        raise ValueError(
            "explanations need probabilities: fit the model with decide='guarded', or another "
            "learned rule."
        )
    check_in_memory(X)


def _rows(model: Any, X: Any, row: Any) -> Rows:
    """The rows with an id, by table."""
    model.names_.check_form(X)
    found, ids = {}, list[Any]()
    for name, table in open_tables(model._with_columns(X), None, labelled=False).items():
        assert isinstance(table, MemoryTable)
        batch, index = table.features, range(len(table.features))
        if hasattr(batch.data, "iloc"):
            index = batch.data.index
        at = np.array([i for i, each in enumerate(index) if each == row], dtype=np.intp)
        if len(at) > 1 and model.names_.wide:
            rows = some(at.tolist(), 6)
            raise ValueError(
                f"{batch.origin}: rows {rows} have the id {row!r}, and each has probabilities of "
                f"its own; give a table with one of them, such as X.iloc[[{at[0]}]]."
            )
        if len(at):
            found[name] = [batch.take_rows(np.arange(len(batch)) == i) for i in at], at
        ids += list(index)
    if not found:
        raise ValueError(f"no row {row!r}; {close_names(str(row), dict.fromkeys(ids))}")
    return found


def _known(model: Any, X: Any, known: Any, tables: Mapping[str, Any], row: Any) -> Matrix:
    """Known labels (n_labels,) of a row in any of its tables: 1, 0, NaN = unknown."""
    truth = np.full(len(model.label_names_), np.nan)
    if known is None:
        return truth
    some_of = X if model.names_.wide else {view: X[view] for view in known if view in X}
    for name, of_table in read_truth(model, some_of, known).items():
        for own in of_table[tables[name][1]] if name in tables else ():
            differ = np.flatnonzero(np.abs(truth - own) == 1)
            if len(differ):
                label = model.label_names_[differ[0]]
                raise ValueError(
                    f"row {row!r}: {label!r} is yes in one known table or row, no in another."
                )
            truth = np.where(np.isnan(truth), own, truth)
    return truth


def _labels_of(labels: Any, names: list[str], truth: Matrix, row: Any) -> list[str]:
    """Labels to explain; refuses known ones that are asked for."""
    known = {name: yes for name, yes in zip(names, truth, strict=True) if np.isfinite(yes)}
    for label in labels or ():
        if label in known:
            word = "yes" if known[label] else "no"
            raise ValueError(f"label {label!r} is known of row {row!r}: {word}; leave it out.")
    return [name for name in names if name not in known] if labels is None else list(labels)


def _scores_of_views(
    model: Any, tables: Rows
) -> tuple[dict[str, Contributions], dict[str, Contributions]]:
    """Scores of a row in each view that it has, and the parts that shared columns explain.

    Both are means over the rows of a table with its id, as in `fuse`.
    """
    wide, decisions = model.names_.wide, model.decisions_
    scores, common = dict[str, Contributions](), dict[str, Contributions]()
    for view in model.views_:
        name, found = WIDE_TABLE if wide else view, list[tuple[Contributions, ...]]()
        for one in tables[name][0] if name in tables else ():
            X: Any = one if wide else {view: one}
            if (own := column_contributions(model, view, X)) is None:
                continue
            also = () if model.shared_ is None else (common_contributions(model, view, X, own),)
            if view in decisions.borrowing:
                own = own.borrowed(decisions.borrowing[view], decisions.calibrations[view])
            found.append((own, *also))
        for of, rows in zip((scores, common), zip(*found, strict=True), strict=False):
            of[view] = Contributions.mean(rows)
    return scores, common


def _shared_columns(model: Any, common: Mapping[str, Any]) -> list[str]:
    """Columns that several of the views share."""
    parts = model.shared_.columns.parts if common else {}
    names = [of.name for view in common if view in parts for of in parts[view].plan.columns]
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]


def _log_odds(
    model: Any, views: Mapping[str, Contributions], common: Mapping[str, Contributions]
) -> tuple[Matrix, dict[str, Contributions]]:
    """Log-odds of the rates (n_labels,), and what each view adds to them, all views fused."""
    decisions, fused = model.decisions_, model.decisions_.calibrations.get(FUSED)
    curves, overlap = {view: decisions.calibrations.get(view) for view in views}, decisions.overlap
    if fused is not None and decisions.evidence is None:
        means = {view: of.moved(1 / len(views), 0) for view, of in views.items()}
        return _recalibrated(fused, 0.0, means)
    if fused is not None:
        pairs = zip(model.views_, decisions.evidence.calibrations, strict=True)
        curves, overlap = dict(pairs), decisions.evidence.overlap
    used = [curves[view] for view in views]
    present = np.ones((len(views), 1, len(model.label_names_)), dtype=bool)
    counted = (heard(used, present) if fused is None else present)[:, 0]
    n = counted.sum(axis=0)
    factor = counted / (1 + (USUAL_OVERLAP if overlap is None else overlap) * (n - 1))
    base = np.where(counted, [curve.base for curve in used], 0).sum(axis=0) / n
    parts = zip(views.items(), used, factor, strict=True)
    added = {view: of.evidence(curve).moved(each, 0) for (view, of), curve, each in parts}
    for (view, of), each, here in zip(common.items(), factor, counted, strict=False):
        # The mean over the views counts, instead of the sum.
        evidence = _common_evidence(model, view, of, views[view].scores)
        rest = evidence.moved(here / n - each, 0.0)
        added[view] = Contributions.total([added[view], rest], np.zeros(len(n)))
    return (base, added) if fused is None else _recalibrated(fused, base, added)


def _common_evidence(model: Any, view: str, of: Contributions, scores: Matrix) -> Contributions:
    """What the common part of scores adds to log-odds, as in `LearnedDecisions.fuse_separate`."""
    curve, borrowing = model.decisions_.calibrations[view], model.decisions_.borrowing.get(view)
    slope, shift = curve.slopes_at(scores), model.shared_.shares[view] * curve.shift
    if borrowing is not None:  # these labels have no scores of their own
        slope, shift = (np.where(borrowing.absent, 0.0, each) for each in (slope, shift))
    return of.moved(slope, -shift)


def _recalibrated(
    curve: Any, start: Any, views: Mapping[str, Contributions]
) -> tuple[Matrix, dict[str, Contributions]]:
    """`_log_odds` of a wide table, by the calibration of fused scores, ``start`` and the views."""
    scores = start + sum(of.scores for of in views.values())
    slope = curve.slopes_at(scores)
    # What belongs to no view is shared by all.
    shift = (slope * (start - curve.centre) - curve.shift) / len(views)
    return curve.base, {view: of.moved(slope, shift) for view, of in views.items()}


def _parts(view: str, of: Contributions, k: int) -> list[Part]:
    """Parts of the columns of a view, and of its average row, for a label."""
    columns = zip(of.columns, of.values, of.parts[:, k].tolist(), strict=True)
    found = [Part(COLUMN, view, *column) for column in columns]
    return [*found, Part(AVERAGE, view, "", None, float(of.start[k]))]
