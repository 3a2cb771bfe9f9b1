"""The column plan: what each column of a table is, how it becomes numbers, and why it is dropped.

One set of rules for data frames, files, and tables that are read in chunks, of which the guide has
a page. Only known cells count, which are neither missing nor a word for a missing cell. A column
has one decimal separator: the one with which more of its cells are numbers.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l._arrays import Mask
from naim3l._text import quote, some
from naim3l._warnings import warn_user
from naim3l.features.cells import (
    COMMA,
    DAY_FIRST,
    MONTH_FIRST,
    NUMBERS,
    ORDERS,
    POINT,
    as_number,
    as_text,
    days,
    is_date_like,
    spelled_measure,
    spelled_number,
    spelled_truth,
    why_no_date,
)
from naim3l.features.survey import (
    AS_NUMBERS,
    CELLS,
    DATE,
    ENOUGH_CODES,
    MOST_VALUES,
    NUMBER,
    TEXT,
    TRUTH,
    Amounts,
    CellSurvey,
    TableSurvey,
    column_types,
    days_of_column,
    find_ids,
    find_shift,
    mean_logarithm,
    missing_cells,
    take_logarithm,
)
from naim3l.features.terms import MOST_TERMS, N_TERMS, TermCounts, tf_idf
from naim3l.files.stored import Flag, ListOf, MapOf, Maybe, Nested, Number, Text, Whole
from naim3l.input.batches import (
    LARGEST,
    Batch,
    CellTypeError,
    check_finite,
    check_not_tiny,
    is_unknown,
    present_rows,
    refusal_of_number,
)

MOST_ODD = 0.1  # largest share of a column of numbers that may be something else
MOST_CATEGORIES = 30  # values of text that become columns
RARE_WORD = 3  # rows of a value of text below which it is one of the rare ones of its column
# A column is almost empty if fewer cells than these are known, and fewer than half of all: filled
# in with the mean it would be constant except in a few rows, which scaling would move far away.
FEWEST_KNOWN, FEWEST_SHARE = 5, 0.01
BLOCK_NUMBERS = 200_000  # of the rows that are encoded at a time, unless they are few and wide
MOST_WARNINGS = 8  # if more columns are dropped, one warning lists them
KINDS = (NUMBER, TRUTH, DATE, TEXT)
ID_REASON = "an id: "  # begins the reason for which an id is dropped
_READ_AS = {DATE: "days", TRUTH: "0 and 1"}
_TAKEN_AS_MISSING = ". Such cells are taken as missing, now and later; correct or empty them."
_TEXT = "text={0} of Recipe in Python, or text = {0} in the settings"
_KEEP = "keep it by name, with keep={0} of Recipe in Python, or features = {0} in the settings."


@dataclass(frozen=True)
class ColumnPlan:
    """What a column is, and how it is used; stored with models, and shown by ``naim3l init``."""

    name: Annotated[str, Text()]  # or "column 3" if it has none
    kind: Annotated[str, Text(KINDS)]
    missing: Annotated[float, Number(0, 1)]  # share of the training rows that have the view
    # Which missing cells are filled with; of days, or of logarithms.
    mean: Annotated[float, Number(-LARGEST, LARGEST)] = 0.0
    decimal: Annotated[str, Text((POINT, COMMA))] = POINT
    # Values of text that have a column each, None for missing cells; the number of others, which
    # share one more column with values that are new.
    categories: Annotated[list[str | None], ListOf(Maybe(Text()))] = field(default_factory=list)
    n_rare: Annotated[int, Whole()] = 0
    constant: Annotated[bool, Flag()] = False  # in all training rows
    dropped: Annotated[str, Text()] = ""  # why it is not used; empty if it is
    # Of day and month in text with the year last; empty if none has it last.
    date_order: Annotated[str, Text(("", *ORDERS))] = ""
    # Of free text, the hashed terms that have a column each, and the weights of these columns.
    terms: Annotated[list[int], ListOf(Whole(0, N_TERMS - 1), "terms")] = field(
        default_factory=list
    )
    idf: Annotated[list[float], ListOf(Number(above=0), "terms")] = field(default_factory=list)
    # What is added to numbers before their logarithm; 0 if they are used as they are.
    log_shift: Annotated[float, Number(0, LARGEST)] = 0.0
    # Of numbers with units, the mean of the column of each.
    units: Annotated[dict[str, float] | None, Maybe(MapOf(Number(0, LARGEST)))] = None

    def _check_stored(self) -> None:
        """Refuse terms of a column that has no text, logarithms of others, and text in two ways."""
        if self.log_shift and self.kind != NUMBER:
            raise ValueError("only numbers have logarithms.")
        if self.terms and (self.kind != TEXT or self.categories or self.n_rare):
            raise ValueError("only free text has terms, and its values are no columns.")
        if self.units and (self.kind != TEXT or self.n_encoded > len(self.units)):
            raise ValueError("only text has units, and then it is not used in other ways.")

    @property
    def use(self) -> str:
        """How it is used, such as "missing cells filled with the mean"; "dropped" if it is not."""
        if self.dropped:
            return "dropped"
        if self.constant:
            return "not used: constant"
        if self.is_free_text:
            return f"read as free text: {len(self.terms)} words and parts of words"
        if self.units:
            return f"a number for each unit: {', '.join(self.units)}"
        if self.kind == TEXT:
            together = f", {self.n_rare} rare ones one together" if self.n_rare else ""
            return f"{len(self.categories)} values became columns{together}"
        filled = "missing cells filled with the mean" if self.missing > 0 else None
        parts = _READ_AS.get(self.kind), "logarithm" * bool(self.log_shift), self.date_order, filled
        return ", ".join(part for part in parts if part) or "used"

    @property
    def is_id(self) -> bool:
        """Whether it is dropped because it seems to be an id."""
        return self.dropped.startswith(ID_REASON)

    @property
    def is_free_text(self) -> bool:
        """Whether it is text of which the words are read, instead of whole values."""
        return bool(self.terms)

    @property
    def n_encoded(self) -> int:
        """Number of columns that it becomes."""
        n_values = len(self.categories) + (self.n_rare > 0) + len(self.units or ())
        return n_values + len(self.terms) if self.kind == TEXT else 1


@dataclass(frozen=True)
class ViewPlan:
    """The columns of a view, and numbers from its cells without any missing one.

    Missing numbers are replaced by the mean of their column. Skewed numbers become logarithms, see
    `find_shift`. Truth values become 0 and 1, and dates become days since 1970-01-01. Each of the
    `MOST_CATEGORIES` most frequent values of text becomes a column of 0 and 1, as does a missing
    cell; values in fewer than `RARE_WORD` rows, all others, and later those that were not in the
    training rows share one. Of numbers with units, such as "90 min" and "2 Seasons", each unit
    becomes a column, 0 in rows with another. Free text becomes the weighted counts of its words and
    parts of words, in sparse columns; missing text has none. Columns of text come after the others,
    and free text last.
    """

    # That are used, in the order of the table.
    columns: Annotated[list[ColumnPlan], ListOf(Nested(ColumnPlan), "columns")]
    dropped: Annotated[list[ColumnPlan], ListOf(Nested(ColumnPlan))]

    @classmethod
    def of(
        cls,
        survey: TableSurvey,
        keep: Collection[str] = (),
        text: Collection[str] = (),
        *,
        log: bool = True,
        day_first: bool | None = None,
    ) -> tuple["ViewPlan", list[int]]:
        """Plan of a table, and positions of the columns that are used; ``keep`` names some.

        Those in ``text`` are read as free text if more than half of their values differ. Without
        ``log``, no column becomes logarithms; ``day_first`` decides about ambiguous dates.
        """
        dropped, kinds, terms = _judge_columns(survey, keep, text, day_first)
        used = [j for j in range(len(survey.labels)) if j not in dropped]
        if not used:
            reasons = "; ".join(f"{survey.labels[j]}: {why}" for j, (_, why) in dropped.items())
            raise ValueError(f"{survey.origin.table}: no column is left for features ({reasons}).")
        amounts = _check_sizes(survey, {j: kinds[j] for j in used})
        n_rows, n_present = survey.rows.n_with(used), max(survey.rows.n_present, 1)
        of_each = max((MOST_TERMS - len(used)) // max(len(terms), 1), 1)
        planned = [
            _plan_text(survey, j, terms[j], of_each, n_rows)
            if j in terms
            else _plan_column(survey, j, kinds[j], amounts.get(j), n_rows, log=log)
            for j in used
        ]
        others = []
        for j, (_, reason) in sorted(dropped.items()):
            missing = float(1 - survey.n_known[j] / n_present)
            others.append(ColumnPlan(_name(survey, j), _kind(survey, j), missing, dropped=reason))
        plan = cls(planned, others)
        plan._told.update(_name(survey, j) for j in used if _ends_and_odd(survey, j, kinds[j])[1])
        return plan, used

    @cached_property
    def _told(self) -> set[str]:
        """Columns of whose odd cells this process has warned; not stored."""
        return set()

    @property
    def n_encoded(self) -> int:
        """Number of columns of the encoded rows."""
        return sum(column.n_encoded for column in self.columns)

    @property
    def _order(self) -> list[int]:
        """Positions among ``columns`` in the order of the encoded columns."""
        of = self.columns
        places = [(c.kind == TEXT) + c.is_free_text for c in of]
        return sorted(range(len(of)), key=places.__getitem__)

    def encoded_names(self) -> list[str]:
        """Names of the encoded columns; those of a value of text are "column_value"."""
        names: dict[str, None] = {}
        for column in (self.columns[j] for j in self._order):
            values = ["missing" if value is None else value for value in column.categories]
            values += ["other values"] * (column.n_rare > 0)
            values += [*(column.units or ()), *(f"term {term}" for term in column.terms)]
            is_text = column.kind == TEXT
            for name in [f"{column.name}_{v}" for v in values] if is_text else [column.name]:
                while name in names:
                    name += "_"
                names[name] = None
        return list(names)

    def source_of_encoded(self) -> NDArray[np.intp]:
        """Position among ``columns`` of the column that each encoded column comes from."""
        order = np.array(self._order, dtype=np.intp)
        return np.repeat(order, [self.columns[j].n_encoded for j in order])

    def free_text_of_encoded(self) -> NDArray[np.intp] | None:
        """As `source_of_encoded`, -1 for columns that are no free text; None if none is."""
        is_free = np.array([column.is_free_text for column in self.columns])
        source = self.source_of_encoded()
        return np.where(is_free[source], source, -1) if is_free.any() else None

    def encode(self, batch: Batch, *, judge: bool = True) -> tuple[Any, Mask]:
        """Numbers of the rows that have the view, and which; warns of odd cells if it may judge."""
        rows, present = self.read(batch, judge=judge)
        return rows.encode() if isinstance(rows, ReadRows) else rows, present

    def read(self, batch: Batch, *, judge: bool = True) -> tuple["ReadRows | Any", Mask]:
        """As `encode`, but dense rows are not encoded yet."""
        types = column_types(batch, self._words)
        present = np.zeros(batch.shape[0], dtype=bool)
        if batch.is_frame:  # numbers mostly tell that all rows have the view
            for column in batch.number_columns(batch.numeric):
                present |= ~np.isnan(column)
                if present.all():
                    break
        if not present.all():
            present = present_rows(batch, missing_cells(batch, types), allow_missing=True)
        rows = batch if present.all() else batch.take_rows(present)
        return self._read(rows, types, judge), present

    def encode_rows(self, rows: Batch) -> Any:
        """Numbers of all rows of a batch, also of those in which all cells are missing."""
        found = self._read(rows, column_types(rows, self._words), False)
        return found.encode() if isinstance(found, ReadRows) else found

    @property
    def _words(self) -> list[str]:
        return [column.name for column in self.columns if column.kind == TEXT]

    def _read(self, rows: Batch, types: Sequence[str], judge: bool) -> "ReadRows | Any":
        if not rows.shape[0]:
            return np.empty((0, self.n_encoded))
        if not rows.is_frame and sparse.issparse(rows.data):
            return self._sparse_numbers(rows)
        told = self._told if judge else None
        parts, terms = self._read_numbers(rows, types, told), []
        first = sum(len(of) for of, _ in parts)
        for j in self._order[first:]:
            column = self.columns[j]
            if column.is_free_text:
                terms.append(_terms(column, *rows.distinct(j)))
                continue
            at = range(first, first := first + column.n_encoded)
            if column.units:
                parts.append((at, _read_cells(rows, j, TEXT, column, told)))
            else:
                parts.append((at, _places(column, at.start, *rows.distinct(j))))
        read = ReadRows(self, rows, first, parts)
        if terms:
            return sparse.csr_array(sparse.hstack([read.encode(), *terms], format="csr"))
        return read

    def _read_numbers(self, rows: Batch, types: Sequence[str], told: set[str] | None) -> list[Any]:
        """Columns other than text as they are: their positions among these, and numbers."""
        numeric, parts = (NUMBER, TRUTH), list[Any]()
        at = [j for j, column in enumerate(self.columns) if column.kind != TEXT]
        typed = [j for j in at if types[j] in numeric and self.columns[j].kind in numeric]
        if typed:
            numbers = rows.number_columns(typed, allowed=AS_NUMBERS)
            numbers = numbers.T if isinstance(numbers, np.ndarray) else numbers
            check_finite(rows, numbers, typed)
            parts.append((np.flatnonzero(np.isin(at, typed)), numbers))
        for k, j in enumerate(at):
            if j not in typed:
                numbers = _read_cells(rows, j, types[j], self.columns[j], told)[:, None]
                check_finite(rows, numbers, [j])
                parts.append(([k], numbers))
        return parts

    @property
    def means(self) -> NDArray[np.float64]:
        """Of columns other than text, which come first among the encoded ones, (n_numbers,)."""
        return np.array([column.mean for column in self.columns if column.kind != TEXT])

    def _sparse_numbers(self, rows: Batch) -> Any:
        """Columns of a sparse table, filled in; dense if some become logarithms."""
        numbers = rows.numbers()
        check_finite(rows, numbers, range(rows.shape[1]))
        if any(column.log_shift for column in self.columns):
            numbers = numbers.toarray()
            self.finish(numbers)
        elif (missing := np.isnan(numbers.data)).any():
            numbers = numbers.copy()
            numbers.data[missing] = self.means[numbers.indices[missing]]
        return numbers

    def finish(self, numbers: NDArray[np.float64], gaps: Collection[int] | None = None) -> None:
        """Take logarithms of columns other than text, and fill in missing cells, in place.

        If ``gaps`` are given, only these columns have missing cells.
        """
        used = [column for column in self.columns if column.kind != TEXT]
        for k, (column, planned) in enumerate(zip(numbers.T, used, strict=True)):
            missing = np.isnan(column) if gaps is None or k in gaps else None
            if planned.log_shift:
                column[:] = take_logarithm(column, planned.log_shift)
            if missing is not None:
                np.copyto(column, planned.mean, where=missing)


@dataclass(frozen=True)
class ReadRows:
    """Rows of a batch of which all cells are read, and encoded a few rows at a time.

    The rows of a block stay in the cache of the processor until the next one; those of a batch
    would not, and to move them takes longer than to compute with them.
    """

    plan: ViewPlan
    rows: Batch
    n_encoded: int
    # Positions of encoded columns, and their numbers (n_rows, n_positions), or a list of columns,
    # or, of values of text, the position of the column that is 1, (n_rows,), -1 if none is.
    parts: list[tuple[Sequence[int], NDArray[Any] | list[NDArray[Any]]]]

    def encode(self) -> NDArray[np.float64]:
        """All rows, (n_rows, n_encoded)."""
        columns = np.empty((self.n_encoded + 1, self.rows.shape[0]))
        return self._fill(columns, slice(None), self.gaps)

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """A few rows at a time, which may be overwritten, and which they are.

        There are at least as many as columns, so that products of columns are worth their size.
        """
        n, n_rows = max(self.n_encoded, BLOCK_NUMBERS // self.n_encoded), self.rows.shape[0]
        height, gaps = self.n_encoded + 1, self.gaps
        numbers = np.empty(height * min(n, n_rows))  # used again for the next rows
        for start in range(0, n_rows, n):
            at = slice(start, min(start + n, n_rows))
            columns = numbers[: height * (at.stop - start)].reshape(height, -1)
            yield at, self._fill(columns, at, gaps)

    @property
    def gaps(self) -> set[int]:
        """Positions of the columns of numbers that may have missing cells."""
        found = set[int]()
        for positions, part in self.parts:
            columns = part if isinstance(part, list) else [None] * len(positions)
            pairs = zip(positions, columns, strict=True)
            found |= {int(k) for k, column in pairs if column is None or np.isnan(column).any()}
        return found

    def _fill(
        self, columns: NDArray[np.float64], at: slice, gaps: Collection[int]
    ) -> NDArray[np.float64]:
        """Some of the rows; ``columns`` has one more, for values of text without a column."""
        n_rows = columns.shape[1]
        cells, every = columns.reshape(-1), np.arange(n_rows)
        for positions, part in self.parts:
            if isinstance(part, list):
                for k, column in zip(positions, part, strict=True):
                    columns[k] = column[at]
            elif part.ndim == 2:
                columns[positions] = part[at].T
            else:
                columns[positions[0] : positions[-1] + 1] = 0
                cells[part[at] * n_rows + every] = 1  # the last column if it is -1
        self.plan.finish(columns[: len(self.plan.means)].T, gaps)
        return columns[:-1].T


def _places(
    column: ColumnPlan, first: int, codes: NDArray[np.integer], cells: Sequence[Any]
) -> NDArray[np.intp]:
    """Which encoded column is 1, (n_rows,), of values of text, the first of them given; or -1."""
    other = first + column.n_encoded - 1 if column.n_rare else -1
    of_value = {value: k for k, value in enumerate(column.categories, first)}
    at = [of_value.get(None if is_unknown(cell) else as_text(cell), other) for cell in cells]
    return np.array([*at, of_value.get(None, other)], dtype=np.intp)[codes]  # the last is for -1


def _terms(column: ColumnPlan, codes: NDArray[np.intp], cells: Sequence[Any]) -> sparse.csr_array:
    """Weighted counts of the terms of free text, (n_rows, n_encoded); none of missing cells."""
    texts = ["" if is_unknown(cell) else as_text(cell) for cell in cells]
    return tf_idf([*texts, ""], column.terms, column.idf)[codes]  # the last is for code -1


def _read_cells(
    rows: Batch, j: int, kind: str, column: ColumnPlan, told: set[str] | None
) -> NDArray[np.float64]:
    """Numbers or days, (n_rows,), NaN where missing or odd; of units, filled, (n_rows, n_units)."""
    if column.kind == DATE and kind == DATE:
        return days_of_column(rows, j)
    codes, cells = rows.distinct(j)
    read = [_read_cell(cell, column) for cell in cells]
    _judge_new(rows, j, column, read, told)
    rest = [*column.units.values()] if column.units else None
    return np.array([rest if of is None else of for of in (*read, None)], dtype=float)[codes]


def _read_cell(cell: Any, column: ColumnPlan) -> float | list[float] | None:
    """Number of a cell in a column of this kind, days of a date; None if it is something else."""
    if units := column.units:
        number, unit = (isinstance(cell, str) and spelled_measure(cell)) or (0.0, "")
        return [number * (unit == each) for each in units] if unit in units else None
    if column.kind == DATE:
        return days(cell, column.date_order)
    if not isinstance(cell, str):
        return as_number(cell) if isinstance(cell, NUMBERS) else None
    truth = spelled_truth(cell) if column.kind == TRUTH else None
    return spelled_number(cell, column.decimal) if truth is None else truth


def _judge_new(
    rows: Batch, j: int, column: ColumnPlan, read: Sequence[Any], told: set[str] | None
) -> None:
    """Refuse odd cells of new rows, read as None, unless few or ``told`` is None; warn, once."""
    codes, cells = rows.distinct(j)
    of_cells = [value is None and not is_unknown(c) for value, c in zip(read, cells, strict=True)]
    if told is None or not any(of_cells):
        return
    odd = np.array([*of_cells, False])[codes]
    first, n_odd, n_known = int(np.argmax(odd)), int(odd.sum()), int((codes >= 0).sum())
    what = "date" if column.kind == DATE else "number"
    cell, unit = cells[codes[first]], f" of {' or '.join(column.units)}" if column.units else ""
    report = _report(rows.place(first, j), cell, what + unit, n_odd, n_known)
    other = POINT if column.decimal == COMMA else COMMA
    if column.kind == NUMBER and spelled_number(str(cell), other) is not None:
        report += f" with the decimal {column.decimal!r} of the training rows"
    if column.kind == DATE and isinstance(cell, str) and is_date_like(cell):
        report += f" with the {column.date_order or 'year first'}, as in the training rows"
    if n_odd > max(1, MOST_ODD * n_known):
        raise ValueError(
            f"{report}. In training the column had {what}s{unit}: correct such cells, or leave "
            "unknown ones empty."
        )
    if column.name not in told:
        warn_user(report + _TAKEN_AS_MISSING)
        told.add(column.name)


def _report(place: str, cell: Any, what: str, n_odd: int, n_known: int) -> str:
    others = f" ({n_odd} of {n_known} cells of the column are not)" if n_odd > 1 else ""
    return f"{place}: {quote(cell)} is not a {what}{others}"


# Judging columns by their survey.


class Kind(NamedTuple):
    name: str
    decimal: str = POINT  # separator of numbers
    order: str = ""  # of day and month, if some dates are text with the year last


def columns_of_several_types(survey: TableSurvey) -> list[int]:
    """Positions of columns of which types tell the kind in some batches, and cells in others.

    The table has to be surveyed again, with the cells of these looked at in all batches, unless all
    cells agree with the types: only then are they judged like those of one batch.
    """
    tags, found = {NUMBER: "number.", TRUTH: "truth", DATE: "date"}, []
    for j, types in enumerate(survey.types):
        typed = [kind for kind in tags if types[kind]]
        if len(typed) > 1:
            found.append(j)
        elif typed and types[CELLS] + types[TEXT]:
            cells = survey.cells.get(j)
            if cells is None or cells.fault or cells.n[tags[typed[0]]] < cells.n["known"]:
                found.append(j)
    return found


def _judge_columns(
    survey: TableSurvey, keep: Collection[str], text: Collection[str], day_first: bool | None
) -> tuple[dict[int, tuple[str, str]], dict[int, Kind], dict[int, TermCounts]]:
    """What to do about columns that are dropped, and why; the kinds of others; and free text."""
    n_rows, n_known = survey.rows.n_present, survey.n_known
    cure = f"If it is a feature, {_KEEP}"
    dropped = {j: (cure, f"{ID_REASON}{reason}") for j, reason in find_ids(survey).items()}
    least = min(max(FEWEST_KNOWN, FEWEST_SHARE * n_rows), n_rows / 2)
    for j in np.flatnonzero(n_known < least).tolist():
        cure = f"To use it, {_KEEP}" if n_known[j] else ""
        dropped[j] = (cure, f"{n_known[j]} known values in {n_rows} rows")
    for j, name in enumerate(survey.columns or ()):
        if name in keep:
            dropped.pop(j, None)
    used = [j for j in range(len(survey.labels)) if j not in dropped]
    kinds = {j: judge_column(survey, j, day_first) for j in used}
    terms = {}
    for j, kind in kinds.items():
        if kind.name != TEXT or survey.cells[j].units(RARE_WORD):
            continue
        texts, stated = survey.cells[j].texts, _name(survey, j) in text
        if texts.n_values <= MOST_CATEGORIES and not _is_mostly_distinct(survey, j):
            continue
        counts = texts.terms
        if _is_free_text(survey, j, counts, stated=stated):
            terms[j] = counts
        elif reason := _too_many_values(survey, j):
            cure = "use it, group its values" if stated else f"read its words, use {_TEXT}"
            dropped[j] = f"To {cure}.", reason
    ends = {j: n for j, kind in kinds.items() if (n := _ends_and_odd(survey, j, kind)[0])}
    if ends:
        j = next(iter(ends))
        cell = survey.cells[j].first[f"end{kinds[j].decimal}"][1]
        warn_user(
            f"{survey.origin.table}: {sum(ends.values())} cells such as {quote(cell)} are read as "
            f"the number in them, in column{'s' * (len(ends) > 1)} "
            f"{some([_name(survey, j) for j in ends])}."
        )
    _warn_of_dropped(survey, dropped)
    return dropped, kinds, terms


def judge_column(survey: TableSurvey, j: int, day_first: bool | None = None) -> Kind:
    """Kind of a column; warns of odd cells, and refuses too many, or ambiguous ones."""
    types, n_known = survey.types[j], int(survey.n_known[j])
    cells = survey.cells.get(j)
    if cells is not None and cells.fault is not None:
        raise cells.fault
    if types[TEXT]:
        return Kind(TEXT)
    n = Counter[str]() if cells is None else cells.n
    if cells is not None and n["strange"]:
        place, cell = cells.first["strange"]
        raise CellTypeError(
            f"{place}: {quote(cell)} is not a number, text or date; correct it, or leave the "
            "column out."
        )
    n_odd = _ends_and_odd(survey, j, Kind(DATE))[1]
    if n_odd < n_known and n_odd <= MOST_ODD * n_known:
        if cells is not None and n_odd:
            report = _report(*cells.first["no date"], "date", n_odd, n_known)
            warn_user(report + _TAKEN_AS_MISSING)
        return Kind(DATE, order="" if cells is None else _date_order(survey, j, cells, day_first))
    if types[TRUTH] + n["truth"] == n_known > 0:
        return Kind(TRUTH)
    return Kind(NUMBER) if cells is None else _judge_numbers(survey, j, cells)


def _date_order(survey: TableSurvey, j: int, cells: CellSurvey, day_first: bool | None) -> str:
    """Order of day and month in a column of dates; refuses dates that cannot be read in one."""
    first, found = cells.first, [order for order in ORDERS if order in cells.first]
    if "undated" in first:
        place, cell = first["undated"]
        why = why_no_date(str(cell))
    elif len(found) > 1:
        place, cell = first[MONTH_FIRST]
        why = f"its month is first, but the day is in {quote(first[DAY_FIRST][1])}"
    elif "either" in first and not found:
        if day_first is not None:
            return DAY_FIRST if day_first else MONTH_FIRST
        place, cell = first["either"]
        why = (
            "the order of day and month is ambiguous, because no day in the column is above 12; "
            "say which is first, with day_first=True or False of Recipe in Python, or day_first = "
            "true or false under [model] in the settings"
        )
    else:
        return found[0] if found else DAY_FIRST if "year-last" in first else ""
    raise ValueError(
        f"{place}: {quote(cell)} cannot be read as a date: {why}. Write dates like 2024-01-31, in "
        "pandas with to_datetime; if the values are codes and not dates, read the column as text, "
        f"with {_as_text(survey, j)}; or leave it out."
    )


def why_refused(survey: TableSurvey, j: int) -> str:
    """Why a column could not be used, even if it is not dropped; empty if it could."""
    try:
        _check_sizes(survey, {j: judge_column(survey, j)})
    except (ValueError, TypeError) as error:
        return str(error)
    return ""


def _judge_numbers(survey: TableSurvey, j: int, cells: CellSurvey) -> Kind:
    """Kind of a column of text, of which some cells may be numbers."""
    n, n_known, typed = cells.n, int(survey.n_known[j]), survey.n_typed(j)
    decimal = COMMA if n["number,"] > n["number."] else POINT
    n_odd = _ends_and_odd(survey, j, Kind(NUMBER, decimal))[1]
    if decimal == COMMA and n["short"] and n["group,"] + n["short"] == n["number,"]:
        _refuse_thousands(*cells.first["group,"])
    if not n_odd:
        return Kind(NUMBER, decimal)
    if survey.cells[j].units(RARE_WORD) or 2 * (typed + n["like"]) <= n_known:
        return Kind(TEXT)
    first = cells.first.get(f"odd{decimal}") or cells.first[f"end{decimal}"]
    report, as_words = _report(*first, "number", n_odd, n_known), _as_text(survey, j)
    if len(cells.codes) >= ENOUGH_CODES and 2 * n["code"] >= n_odd:
        warn_user(
            f"{report}. There are several such codes, so the column is read as text; {as_words} "
            "confirms this."
        )
        return Kind(TEXT)
    if f"thousands{decimal}" in cells.first:
        _refuse_thousands(*cells.first[f"thousands{decimal}"])
    if n_odd > MOST_ODD * n_known:
        raise ValueError(
            f"{report}. Correct such cells, or leave unknown ones empty; if the values are codes "
            f"or words, read the column as text, with {as_words}; or leave the column out."
        )
    warn_user(report + _TAKEN_AS_MISSING)
    return Kind(NUMBER, decimal)


def _ends_and_odd(survey: TableSurvey, j: int, kind: Kind) -> tuple[int, int]:
    """Cells of a column that are ends of a scale, if they are not most of its numbers; odd ones."""
    if kind.name == NUMBER and j not in survey.cells:
        return 0, 0
    n = survey.cells[j].n if j in survey.cells else Counter[str]()
    n_known, n_ends = int(survey.n_known[j]), n[f"end{kind.decimal}"]
    if kind.name != NUMBER:
        return 0, (n_known - survey.types[j][DATE] - n["date-like"]) * (kind.name == DATE)
    n_numbers = survey.n_typed(j) + n[f"number{kind.decimal}"]
    n_ends = n_ends if n_ends <= n_numbers else 0
    return n_ends, n_known - n_numbers - n_ends


def _as_text(survey: TableSurvey, j: int) -> str:
    """How to say that a column is text."""
    return _TEXT.format([_name(survey, j)])


def _kind(survey: TableSurvey, j: int) -> str:
    """Kind of a column that is not used, whose cells are not judged."""
    types, n_known = survey.types[j], int(survey.n_known[j])
    n = survey.cells[j].n if j in survey.cells else Counter[str]()
    if types[TEXT]:
        return TEXT
    for kind in (DATE, TRUTH):
        if types[kind] + n[kind] == n_known > 0:
            return kind
    numbers = max(n["number."], n["number,"]) + types[NUMBER] + types[TRUTH]
    return NUMBER if numbers == n_known else TEXT


def _refuse_thousands(place: str, cell: Any) -> None:
    raise ValueError(
        f"{place}: {quote(cell)} seems to have thousands separators, with which 1.234 "
        "is ambiguous, so that numbers must be written without them; correct such cells, or leave "
        "the column out."
    )


def _is_mostly_distinct(survey: TableSurvey, j: int) -> bool:
    """Whether more than half of the known cells of text differ, or more than can be counted."""
    texts = survey.cells[j].texts
    return texts.is_sample or 2 * texts.n_values > survey.n_known[j]


def _is_free_text(survey: TableSurvey, j: int, counts: TermCounts, *, stated: bool) -> bool:
    """Whether the words of a column with many values are read, if it is no id.

    Values that mostly differ, and are one word each, may be ids all the same, such as addresses.
    """
    n_known, distinct = int(survey.n_known[j]), _is_mostly_distinct(survey, j)
    if stated and distinct:
        return bool(counts.most_frequent(1))
    several = not distinct or counts.n_words >= 2 * n_known
    return several and counts.tell_rows_apart(n_known)


def _too_many_values(survey: TableSurvey, j: int) -> str:
    """Why whole values of text cannot be used; warns where some of them are taken as one."""
    texts, n_known = survey.cells[j].texts, int(survey.n_known[j])
    n_values = MOST_VALUES if texts.is_sample else texts.n_values
    more = "more than " if texts.is_sample else ""
    what = f"{more}{n_values} different values of text in {n_known} rows"
    if _is_mostly_distinct(survey, j):
        return f"{what}, an id or text whose words do not tell rows apart"
    warn_user(
        f"{survey.place(j)}: {what}. The {MOST_CATEGORIES} most frequent are kept, all others "
        "are taken as one; group the values to keep more."
    )
    return ""


def _warn_of_dropped(survey: TableSurvey, dropped: Mapping[int, tuple[str, str]]) -> None:
    if len(dropped) > MOST_WARNINGS:
        reasons = [f"{survey.labels[j]} ({reason})" for j, (_, reason) in sorted(dropped.items())]
        listed = some(reasons, 8, str)
        warn_user(f"{survey.origin.table}: {len(dropped)} columns are dropped: {listed}.")
        return
    for j, (cure, reason) in sorted(dropped.items()):
        # A column without a name cannot be kept by name.
        cure = "" if survey.columns is None else cure.format([survey.columns[j]])
        warn_user(f"{survey.place(j)}: {reason}. It is dropped. {cure}".rstrip())


def _check_sizes(survey: TableSurvey, kinds: Mapping[int, Kind]) -> dict[int, Amounts]:
    """Refuse numbers that are too large, or too small to be squared; sums of columns of numbers."""
    numeric = [j for j, kind in kinds.items() if kind.name != TEXT]
    large = [(survey.too_large[j][0], j) for j in numeric if j in survey.too_large]
    if large:
        raise survey.too_large[min(large)[1]][1]
    readings = {j: _reading(kinds[j]) for j in numeric}
    for j, reading in readings.items():
        of_cells = survey.cells.get(j)
        if of_cells is not None and (cell := of_cells.first.get(f"large{reading}")) is not None:
            raise ValueError(refusal_of_number(*cell))
    sizes, amounts = np.zeros(len(survey.labels)), survey.amounts(readings)
    for j, of in amounts.items():
        sizes[j] = max(-of.lowest, of.highest, 0.0)
    check_not_tiny(survey, sizes)
    return amounts


def _reading(kind: Kind) -> str:
    """How cells of a column are read, see `CellSurvey`."""
    if kind.name == DATE:
        return kind.order or DAY_FIRST  # the same without a date that has the year last
    return "truth" if kind.name == TRUTH else kind.decimal


def _plan_column(
    survey: TableSurvey, j: int, kind: Kind, amounts: Amounts | None, n_rows: int, *, log: bool
) -> ColumnPlan:
    n_known = int(survey.n_known[j])
    missing = (n_rows - n_known) / max(n_rows, 1)
    if amounts is None and (units := survey.cells[j].units(RARE_WORD)):
        means = {unit: of.total / n_known for unit, of in units.items()}  # 0 in other rows
        constant = len(units) == 1 and all(of.lowest >= of.highest for of in units.values())
        return ColumnPlan(_name(survey, j), TEXT, missing, constant=constant, units=means)
    if amounts is None:  # it has text
        counts = survey.cells[j].texts.counts or {}
        categories, n_rare = categories_of(counts, n_rows - n_known)
        constant = len(categories) + n_rare == 1
        return ColumnPlan(_name(survey, j), TEXT, missing, 0.0, POINT, categories, n_rare, constant)
    n_odd = _ends_and_odd(survey, j, kind)[1]
    missing, mean = missing + n_odd / max(n_rows, 1), amounts.total / max(n_known - n_odd, 1)
    constant, shift = amounts.lowest >= amounts.highest, 0.0
    if log and kind.name == NUMBER and amounts.sizes:
        shift = find_shift(amounts.sizes)
        mean = mean_logarithm(amounts.sizes, shift) if shift else mean
    about = _name(survey, j), kind.name, missing, mean, kind.decimal
    return ColumnPlan(*about, constant=constant, date_order=kind.order, log_shift=shift)


def _plan_text(
    survey: TableSurvey, j: int, counts: TermCounts, most: int, n_rows: int
) -> ColumnPlan:
    """Plan of free text, of which so many terms are kept."""
    missing = (n_rows - int(survey.n_known[j])) / max(n_rows, 1)
    terms = counts.most_frequent(most)
    idf = counts.idf(terms, n_rows)
    return ColumnPlan(_name(survey, j), TEXT, missing, terms=terms, idf=idf)


def categories_of(rows_with: Mapping[Any, int], n_missing: int) -> tuple[list[str | None], int]:
    """Values that have a column each, and how many others share one, as in OneHotEncoder.

    Rare are those in fewer than `RARE_WORD` rows, and those with the fewest rows beyond
    `MOST_CATEGORIES`; of equally frequent ones, the first in the alphabet. Missing cells come last.
    """
    counts: list[tuple[str | None, int]] = [*sorted(rows_with.items())]
    if n_missing:
        counts.append((None, n_missing))
    rows = np.array([n for _, n in counts])
    rare = rows < RARE_WORD
    if len(rows) - rare.sum() > MOST_CATEGORIES:
        rare[np.argsort(rows, kind="stable")[:-MOST_CATEGORIES]] = True
    kept = [value for (value, _), is_rare in zip(counts, rare, strict=True) if not is_rare]
    return kept, int(rare.sum())


def _name(survey: TableSurvey, j: int) -> str:
    return survey.columns[j] if survey.columns else survey.labels[j]
