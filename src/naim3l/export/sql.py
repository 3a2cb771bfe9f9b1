"""Scores of a model as one SELECT, in the SQL of DuckDB, PostgreSQL or SQLite.

Expressions are columns of subqueries that follow each other, so that each is computed once. Names
and values of tables are quoted, and columns have the name of their table before them, because
SQLite takes a quoted name that it does not know for text.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from naim3l._arrays import Matrix
from naim3l._text import documented, quote
from naim3l.export.scoring import PROBABILITIES, SCORES, Language, answers, check_exported
from naim3l.features.cells import COMMA
from naim3l.features.plan import ColumnPlan, ViewPlan
from naim3l.features.survey import DATE, TEXT, TRUTH
from naim3l.input.batches import UNKNOWN
from naim3l.input.views import WIDE_TABLE

DUCKDB, POSTGRESQL, SQLITE = DIALECTS = ("duckdb", "postgresql", "sqlite")
KINDS = (PROBABILITIES, SCORES)
# SQLite has at most 2,000 columns of a result, and PostgreSQL 1,664.
MOST_COLUMNS = 1500
_TOGETHER = 40  # terms of a sum without brackets: databases limit the depth of expressions
_LARGEST = 700.0  # of which exp is neither infinite nor 0, which PostgreSQL refuses
_TINY = 10 * np.finfo(np.float64).eps  # length of a row that is not divided by it
_SPACES = (9, 10, 11, 12, 13, 32, 160)
# What keeps a subquery apart: databases would else compute it again for each use of a column.
_APART = {DUCKDB: ("AS", ""), POSTGRESQL: ("AS", " OFFSET 0"), SQLITE: ("AS MATERIALIZED", "")}
Term = tuple[str, frozenset[str]]  # an expression, and the columns that it uses


@documented(dialects=DIALECTS, kinds=KINDS)
def to_sql(
    model: Any,
    view: str | None = None,
    *,
    dialect: str = DUCKDB,
    table: str | Sequence[str] | None = None,
    keep: Sequence[str] | None = None,
    kind: str | None = None,
) -> str:
    """One SELECT that computes what a linear model predicts from the columns of a table.

    It gives the numbers of ``predict_proba`` or ``decision_function``, and the decisions of
    ``predict``, except for rounding; all are NULL in a row without any value. What SQL cannot
    express is refused by name: kernels, histograms, free text, numbers with units, dates with the
    year last, and transformers.

    Columns of numbers and dates must have such a type in the database; other cells are errors of
    the query, and missing ones are NULL. SQLite has dates as text such as 2024-01-31. Times are
    taken as UTC. Words for missing cells are known in columns of text.

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, PerViewRidge or PerViewLogistic
        Fitted model, with features="auto", the default.
    view : str, optional
        View whose table is scored; needed if there are several separate tables.
    dialect : <dialects>, default="duckdb"
        Language of the database. SQLite needs its mathematical functions, which Python's has.
    table : str or sequence of str, optional
        Name of the table, or of its schema and the table; by default that of the view.
    keep : sequence of str, optional
        Columns of the table that come first in the result, such as ids; by default the ids of the
        fit, if it was made from the command line.
    kind : <kinds>, optional
        What the result has for each label, under its name; by default probabilities if the model
        has them. The decision, 1 or 0, is in a column with "_decision" behind the name.

    Returns
    -------
    str
        The query, without a semicolon.

    Examples
    --------
    >>> import sqlite3
    >>> import pandas as pd
    >>> from naim3l import NAIM3L
    >>> from naim3l.export import to_sql
    >>> X = pd.DataFrame({"age": [61, 35, 58, 29], "fever": [37.2, 39.1, 36.9, 38.8]})
    >>> y = pd.DataFrame({"flu": [0, 1, 0, 1]})
    >>> model = NAIM3L().fit({"clinic": X}, {"clinic": y})
    >>> database = sqlite3.connect(":memory:")
    >>> _ = X.to_sql("visits", database, index=False)
    >>> query = to_sql(model, dialect="sqlite", table="visits", keep=["age"])
    >>> pd.read_sql(query, database).round(2)
       age   flu  flu_decision
    0   61 -1.23             0
    1   35  0.88             1
    2   58 -1.23             0
    3   29  0.88             1
    """
    if dialect not in DIALECTS:
        raise ValueError(f"dialect must be one of {DIALECTS}, got {dialect!r}.")
    sql = _Sql(dialect)
    block = check_exported(model, view, sql)
    found = answers(model, block, sql)
    kind = kind or (SCORES if found.probabilities is None else PROBABILITIES)
    if kind not in KINDS or (kind == PROBABILITIES and found.probabilities is None):
        has = KINDS if found.probabilities else (SCORES,)
        raise ValueError(f"kind must be one of {has} of this model, got {kind!r}.")
    if keep is None:
        roles = model.roles_.get(block) if isinstance(model.roles_, dict) else None
        of_fit = roles.get("id") if isinstance(roles, dict) else None
        keep = [of_fit] if isinstance(of_fit, str) else []
    names, used = list(keep), {name.casefold() for name in keep}
    for name in [*found.labels, *(f"{label}_decision" for label in found.labels)]:
        while name.casefold() in used:
            name += "_"
        used.add(name.casefold())
        names.append(name)
    kept = [sql.define((f"t.{sql.name(name)}", frozenset())) for name in keep]
    (here,) = found.present
    values = found.scores if kind == SCORES else found.probabilities
    results = [(f"CASE WHEN {here} > 0 THEN {value} END", {here, value}) for value in values]
    for score, at in zip(found.scores, found.thresholds, strict=True):
        decided = (
            f"CASE WHEN {here} > 0 THEN CASE WHEN {score} > {sql.number(at)} THEN 1 ELSE 0 END END"
        )
        results.append((decided, {here, score}))
    terms = [(column, {column}) for column in kept] + results
    table = table or (WIDE_TABLE if model.names_.wide else block)
    parts = [table] if isinstance(table, str) else table
    return sql.select(terms, names, ".".join(map(sql.name, parts)))


class _Sql(Language):
    """Vectors are lists of the names of columns, each of which is defined once."""

    reads_dates = False

    def __init__(self, dialect: str) -> None:
        self.dialect, self.title = dialect, "SQL"
        self.columns = dict[str, tuple[int, Term]]()  # by name, its subquery and expression
        self.known = dict[str, str]()  # names of expressions

    # Names, text and numbers.

    def name(self, text: str) -> str:
        """A quoted name."""
        return '"' + self._checked(text).replace('"', '""') + '"'

    def text(self, text: str) -> str:
        """A quoted text; of PostgreSQL, whatever its setting of backslashes is."""
        quoted = "'" + self._checked(text).replace("'", "''") + "'"
        if self.dialect == POSTGRESQL and "\\" in quoted:
            return "E" + quoted.replace("\\", "\\\\")
        return quoted

    def _checked(self, text: str) -> str:
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise ValueError(f"{quote(text)} has characters that databases do not have; rename it.")
        return text

    def number(self, value: float) -> str:
        """A literal of double precision: without an exponent it would be decimal."""
        text = repr(float(value))
        text = text if "e" in text else f"{text}e0"
        text = f"CAST({text} AS double precision)" if self.dialect == POSTGRESQL else text
        return f"({text})" if value < 0 else text

    # Columns of subqueries.

    def define(self, term: Term) -> str:
        """Name of the column with an expression."""
        sql, uses = term
        if sql not in self.known:
            level = 1 + max((self.columns[name][0] for name in uses), default=0)
            name = self.known[sql] = f"n{len(self.columns)}"
            self.columns[name] = level, (sql, frozenset(uses))
        return self.known[sql]

    def _each(self, form: str, *vectors: Sequence[str]) -> list[str]:
        """Vector of expressions like ``{0} * {1}`` of the numbers of vectors."""
        rows = zip(*vectors, strict=True)
        return [
            self.define((form.format(*of), frozenset(set(of) & self.columns.keys()))) for of in rows
        ]

    def select(self, terms: Sequence[Any], names: Sequence[str], table: str) -> str:
        """The query that gives some expressions under names."""
        last = 1 + max(level for level, _ in self.columns.values())
        needed, uses = set[str]().union(*(of for _, of in terms)), []
        for level in range(last - 1, 0, -1):
            own = [
                name for name in self.columns if name in needed and self.columns[name][0] == level
            ]
            uses.append((own, sorted(name for name in needed if self.columns[name][0] < level)))
            needed |= set[str]().union(*(self.columns[name][1][1] for name in own))
        begin, end = _APART[self.dialect]
        steps, source = [], f"{table} AS t"
        for k, (own, carried) in enumerate(reversed(uses), 1):
            listed = [*carried, *(f"{self.columns[name][1][0]} AS {name}" for name in own)]
            body = ",\n  ".join(listed)
            steps.append(f"s{k} {begin} (\n SELECT\n  {body}\n FROM {source}{end}\n)")
            source = f"s{k}"
        body = ",\n  ".join(
            f"{sql} AS {self.name(n)}" for (sql, _), n in zip(terms, names, strict=True)
        )
        return "WITH " + ",\n".join(steps) + f"\nSELECT\n  {body}\nFROM {source}"

    # Cells of the table.

    def cell(self, column: ColumnPlan) -> str:
        """Column with the number or text of a cell, NULL where it is missing."""
        raw = f"t.{self.name(column.name)}"
        if column.kind == TEXT:
            sql = self._text_cell(raw)
        elif column.kind == DATE:
            sql = self._days(raw, column)
        elif column.kind == TRUTH:
            text = f"lower({self._as_text(raw)})"
            rest = self._number_cell(raw, column) if self.dialect == SQLITE else None
            rest = rest or f"CAST({self._as_text(raw)} AS double precision)"
            one, zero = self.number(1), self.number(0)
            sql = f"CASE {text} WHEN 'true' THEN {one} WHEN 'false' THEN {zero} ELSE {rest} END"
        else:
            sql = self._number_cell(raw, column)
        return self.define((sql, frozenset()))

    def _as_text(self, raw: str) -> str:
        return f"CAST({raw} AS {'text' if self.dialect != DUCKDB else 'varchar'})"

    def _refusal(self, raw: str, column: ColumnPlan, what: str) -> str:
        """Expression of SQLite that is an error, which other databases raise by themselves."""
        fault = self.text(f"column {quote(column.name)}: not a {what}: ")
        return f"json_extract('{{}}', {fault} || {raw})"

    def _number_cell(self, raw: str, column: ColumnPlan) -> str:
        if column.decimal == COMMA:
            return self._plain_number(f"replace({self._as_text(raw)}, ',', '.')", raw, column)
        return self._plain_number(raw, raw, column)

    def _plain_number(self, cell: str, raw: str, column: ColumnPlan) -> str:
        if self.dialect != SQLITE:
            return f"NULLIF(CAST({cell} AS double precision), CAST('NaN' AS double precision))"
        usable = f"typeof({raw}) IN ('integer', 'real', 'null')"
        if column.decimal == COMMA:
            usable += f" OR {cell} GLOB '*[0-9]*' AND NOT {cell} GLOB '*[^-+.0-9eE]*'"
        rest = self._refusal(raw, column, "number")
        return f"CASE WHEN {usable} THEN CAST({cell} AS REAL) ELSE {rest} END"

    def _days(self, raw: str, column: ColumnPlan) -> str:
        day = self.number(86400)
        if self.dialect == DUCKDB:
            return f"epoch_us(CAST({raw} AS timestamp)) / {self.number(86400e6)}"
        if self.dialect == POSTGRESQL:
            seconds = f"EXTRACT(EPOCH FROM CAST({raw} AS timestamp))"
            return f"CAST({seconds} AS double precision) / {day}"
        like = "-".join(["[0-9]" * 4, "[0-9]" * 2, "[0-9]" * 2])
        usable = f"{raw} GLOB '{like}*' AND strftime('%s', {raw}) IS NOT NULL"
        fraction = f"strftime('%f', {raw}) - strftime('%S', {raw})"
        days = f"(strftime('%s', {raw}) + ({fraction})) / {day}"
        refusal = self._refusal(raw, column, "date")
        return f"CASE WHEN {raw} IS NULL THEN NULL WHEN {usable} THEN {days} ELSE {refusal} END"

    def _text_cell(self, raw: str) -> str:
        """Text that is compared character by character, NULL for words of missing cells."""
        collation = {DUCKDB: "", POSTGRESQL: ' COLLATE "C"', SQLITE: " || ''"}[self.dialect]
        text = f"({self._as_text(raw)}{collation})"
        character = "char" if self.dialect == SQLITE else "chr"
        spaces = " || ".join(f"{character}({code})" for code in _SPACES)
        trim = "btrim" if self.dialect == POSTGRESQL else "trim"
        words = ", ".join(map(self.text, UNKNOWN))
        return f"CASE WHEN lower({trim}({text}, {spaces})) IN ({words}) THEN NULL ELSE {text} END"

    def encode(self, view: str, plan: ViewPlan) -> list[str]:
        if plan.n_encoded > MOST_COLUMNS:
            raise ValueError(
                f"view {view!r} has {plan.n_encoded} encoded columns, and SQL databases take "
                f"{MOST_COLUMNS}; fit fewer columns, or write ONNX."
            )
        found = list[str]()
        for column in (plan.columns[j] for j in plan._order):
            cell = self.cell(column)
            if column.kind == TEXT:
                found += self._values(cell, column)
                continue
            sql = cell
            if column.log_shift:
                zero = self.number(0)
                least = f"CASE WHEN {cell} < {zero} THEN {zero} ELSE {cell} END"
                sql = f"ln({least} + {self.number(column.log_shift)})"
            filled = f"COALESCE({sql}, {self.number(column.mean)})"
            found.append(self.define((filled, frozenset([cell]))))
        return found

    def _values(self, cell: str, column: ColumnPlan) -> list[str]:
        """1 and 0 for each value of a column of text, and for all others."""
        spellings = dict[str, list[str]]()
        for value in column.categories:
            if value is not None:
                # Databases have a decimal point in whole numbers of floats.
                whole = (
                    value.removeprefix("-").isdecimal() and f"{value}.0" not in column.categories
                )
                spellings[value] = [value, f"{value}.0"] if whole else [value]
        one, zero, tests = self.number(1), self.number(0), list[str]()
        for value in column.categories:
            of = [] if value is None else map(self.text, spellings[value])
            tests.append(f"{cell} IS NULL" if value is None else f"{cell} IN ({', '.join(of)})")
        if column.n_rare:
            every = [self.text(each) for of in spellings.values() for each in of]
            other = f"{cell} NOT IN ({', '.join(every)})" if every else f"{cell} IS NOT NULL"
            tests.append(other if None in column.categories else f"{cell} IS NULL OR {other}")
        forms = [f"CASE WHEN {test} THEN {one} ELSE {zero} END" for test in tests]
        return [self.define((sql, frozenset([cell]))) for sql in forms]

    def present(self, columns: Sequence[ColumnPlan]) -> list[str]:
        cells = [self.cell(column) for column in columns]
        known = _balanced([f"{cell} IS NOT NULL" for cell in cells], " OR ")
        sql = f"CASE WHEN {known} THEN {self.number(1)} ELSE {self.number(0)} END"
        return [self.define((sql, frozenset(cells)))]

    # Numbers.

    def affine(self, x: Sequence[str], A: Matrix, b: Matrix) -> list[str]:
        found = []
        for weights, rest in zip(A.T, b, strict=True):
            used = np.flatnonzero(weights).tolist()
            terms = [f"{x[j]} * {self.number(weights[j])}" for j in used]
            terms += [self.number(rest)] if rest or not terms else []
            found.append(self.define((_balanced(terms, " + "), frozenset(x[j] for j in used))))
        return found

    def add(self, x: Sequence[str], b: Matrix) -> list[str]:
        return self._each("{0} + {1}", x, [*map(self.number, b)])

    def unit(self, x: Sequence[str]) -> list[str]:
        squares = _balanced([f"{name} * {name}" for name in x], " + ")
        (length,) = [self.define((f"sqrt({squares})", frozenset(x)))]
        one, tiny = self.number(1), self.number(_TINY)
        (by,) = self._each(f"CASE WHEN {{0}} < {tiny} THEN {one} ELSE {{0}} END", [length])
        return self.divide(x, [by])

    def clip(self, x: Sequence[str], low: Matrix | None, high: Matrix | None) -> list[str]:
        cases = ["CASE"]
        bounds = [(low, "<"), (high, ">")]
        given = [[*map(self.number, of)] for of, _ in bounds if of is not None]
        for k, sign in enumerate([sign for of, sign in bounds if of is not None], 1):
            cases.append(f"WHEN {{0}} {sign} {{{k}}} THEN {{{k}}}")
        return self._each(" ".join([*cases, "ELSE {0} END"]), x, *given)

    def log(self, x: Sequence[str]) -> list[str]:
        return self._each("ln({0})", x)

    def expit(self, x: Sequence[str]) -> list[str]:
        ends, one = np.full(len(x), _LARGEST), self.number(1)
        return self._each(f"{one} / ({one} + exp(-{{0}}))", self.clip(x, -ends, ends))

    def multiply(self, x: Sequence[str], y: Sequence[str]) -> list[str]:
        return self._each("{0} * {1}", x, y if len(y) == len(x) else [*y] * len(x))

    def divide(self, x: Sequence[str], y: Sequence[str]) -> list[str]:
        return self._each("{0} / {1}", x, [*y] * len(x))

    def join(self, *parts: Sequence[str]) -> list[str]:
        return [name for part in parts for name in part]

    def size(self, x: Sequence[str]) -> int:
        return len(x)

    def take(self, x: Sequence[str], at: Sequence[int]) -> list[str]:
        return [x[j] for j in at]


def _balanced(terms: Sequence[str], sign: str) -> str:
    """Terms joined by a sign, in brackets that keep the expression flat."""
    level = list(terms)
    while len(level) > _TOGETHER:
        groups = [level[i : i + _TOGETHER] for i in range(0, len(level), _TOGETHER)]
        level = [f"({sign.join(group)})" for group in groups]
    return sign.join(level)
