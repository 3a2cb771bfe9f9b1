"""Label tables: words for yes, no and unknown, labels matched by name, entries filled in.

What a cell means can depend on other cells of its column, so that the words of all rows are
collected first, in data frames, files and tables that are read in chunks alike.
"""

import json
import re
import shlex
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l._arrays import Mask
from naim3l._origin import Origin
from naim3l._text import documented, quote, some
from naim3l._warnings import warn_user
from naim3l.input.batches import UNKNOWN, Batch, as_matrix, is_missing

# Words for yes and no, in any letter case. Where a column only has one of a pair, the other is
# written beside it; of several pairs, that of the first.
PAIRS = (
    *(("1", "0"), ("yes", "no"), ("y", "n"), ("true", "false"), ("t", "f"), ("+", "-")),
    *(("positive", "negative"), ("pos", "neg"), ("present", "absent"), ("ja", "nein")),
    *(("oui", "non"), ("sí", "no"), ("si", "no"), ("да", "нет"), ("はい", "いいえ"), ("1", "-1")),
)
YES = tuple(dict.fromkeys(yes for yes, _ in PAIRS))
NO = tuple(dict.fromkeys(no for _, no in PAIRS if no not in UNKNOWN))  # "-" is no beside "+" only
CODINGS = ("words", "signed")
MOST_WORDS = 1000  # different words of a column that are remembered
_MOST_SHOWN = 60  # letters of a cell, in an error
_WHOLE = re.compile(r"([+-]?\d{1,15})(\.0*|,0)?", re.ASCII)


class LabelWordError(ValueError):
    """Error of label cells whose meaning has to be stated, in Python or in a command."""

    def __init__(self, fault: str, in_python: str, in_commands: str) -> None:
        super().__init__(fault, in_python, in_commands)  # all of which a pickled error needs

    def __str__(self) -> str:
        return f"{self.args[0]} {self.args[1]}"

    @property
    def for_commands(self) -> str:
        """The message for those who cannot write Python."""
        return f"{self.args[0]} {self.args[2]}"


def word(cell: Any) -> str:
    """Normalised cell, without case and outer spaces; "1" for 1.0, 1,0 and True, "" for missing.

    The same letters may be written by different characters, such as those of full width.
    """
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if not isinstance(cell, str) and is_missing(cell):
        return ""
    text = unicodedata.normalize("NFKC", str(cell)).strip().casefold()
    return str(int(whole[1])) if (whole := _WHOLE.fullmatch(text)) else text


@dataclass(frozen=True)
class LabelWords:
    """Words of label cells, in addition to the usual ones, over which they take precedence."""

    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def meanings(self) -> tuple[dict[str, int], set[str]]:
        """Meaning of each word (1 = yes, -1 = no, 0 = unknown), and those words that were given."""
        usual = ((1, YES), (-1, NO), (0, UNKNOWN))
        meanings = {entry: sign for sign, words in usual for entry in words}
        given: dict[str, str] = {}
        for role, sign in (("yes", 1), ("no", -1), ("unknown", 0)):
            words: Any = getattr(self, role)
            for entry in [words] if isinstance(words, str) else words:
                key = word(entry)
                if given.setdefault(key, role) != role:
                    raise ValueError(
                        f"labels: {quote(entry)} cannot mean both {given[key]} and {role}."
                    )
                meanings[key] = sign
        for yes, no in PAIRS:
            # Where 1 means no, 0 is not no as well: a file of 1 and 0 would be read in reverse.
            for entry, partner, reverse in ((yes, no, "no"), (no, yes, "yes")):
                if given.get(entry) == reverse and partner not in given:
                    meanings.pop(partner, None)
        return meanings, set(given)


USUAL_WORDS = LabelWords()
# Words that are refused only if the opposite of their partner was given. Their places are not kept.
_USUAL = set(USUAL_WORDS.meanings()[0]) - {"-1"}


@documented(yes=", ".join(YES), no=", ".join(NO), unknown=", ".join(UNKNOWN[1:-1]))
def decode_labels(
    labels: Any,
    *,
    yes: Iterable[Any] = (),
    no: Iterable[Any] = (),
    unknown: Iterable[Any] = (),
    coding: str = "words",
) -> Any:
    """Labels as 1 (yes), 0 (no) and NaN (unknown), from words or another coding.

    Models read the usual words by themselves. This function is for others, and for the coding of
    the paper.

    Parameters
    ----------
    labels : array, sparse matrix, series or data frame of shape (n_rows, n_labels) or (n_rows,)
        Words are compared without regard to case and surrounding spaces. They are, for yes:
        <yes>; for no: <no>; and for unknown: a missing cell, <unknown>, and -, which means no in a
        column that has +.
    yes, no, unknown : iterables
        Additional words or numbers, which take precedence.
    coding : {"words", "signed"}, default="words"
        "signed" is the coding of the paper: 1 is yes, -1 is no, 0 is unknown.

    Returns
    -------
    array or data frame of float
        Of the same shape; a data frame of the same library, with its names and index.

    Raises
    ------
    ValueError
        If a cell is not a known word, or a column has both 0 and -1 and nothing says which is no.

    Examples
    --------
    >>> from naim3l import decode_labels
    >>> decode_labels(["affected", "no", "?"], yes=["affected"])
    array([ 1.,  0., nan])
    >>> decode_labels([[1, -1, 0]], coding="signed")
    array([[ 1.,  0., nan]])
    """
    if coding not in CODINGS:
        raise ValueError(f"coding must be one of {list(CODINGS)}, got {coding!r}.")
    words = LabelWords(tuple(map(str, yes)), tuple(map(str, no)), tuple(map(str, unknown)))
    batch, one_column = label_batch(labels, "labels")
    if coding == "signed":
        words = LabelWords(words.yes, (*words.no, "-1"), (*words.unknown, "0"))
        kinds = [] if batch.frame is None else batch.frame.schema.dtypes()
        boolean = [j for j, kind in enumerate(kinds) if kind == nw.Boolean]
        if boolean or (batch.frame is None and batch.data.dtype == bool):
            raise ValueError(
                f"labels, {batch.column_label((boolean or [0])[0])}: its values are True and "
                "False, but with coding='signed' labels are 1 = yes, -1 = no, 0 = unknown."
            )
    values = LabelledRows.of(batch, words, one_column=one_column).truth
    if batch.frame is None:
        return values.ravel() if one_column else values
    names, backend = list(batch.frame.columns), batch.frame.implementation
    native = nw.from_numpy(values, names, backend=backend).to_native()
    if hasattr(batch.data, "iloc"):
        native.index, native.columns = batch.data.index, batch.data.columns
    return nw.from_native(native)[:, 0].to_native() if one_column else native


def label_batch(labels: Any, origin: Origin | str) -> tuple[Batch, bool]:
    """Batch of labels, which may be one-dimensional, and whether they were."""
    if labels is None:
        raise ValueError(
            f"{origin}: This estimator requires y to be passed, but the target y is None."
        )
    series = nw.from_native(labels, series_only=True, pass_through=True)
    one_column = isinstance(series, nw.Series)
    if isinstance(series, nw.Series):
        labels = series.to_frame().to_native()
    elif sparse.issparse(labels):
        labels = labels.toarray()
    elif not (hasattr(labels, "columns") or hasattr(labels, "column_names")):  # no data frame
        labels = as_matrix(labels, origin, allow_1d=True)
        if one_column := labels.ndim == 1:
            labels = labels.reshape(-1, 1)
    batch = Batch(labels, origin, column_word="label")
    given = [] if batch.frame is None else list(batch.frame.columns)
    nameless = given in ([], [""], list(range(len(given))))
    batch.columns = None if nameless else [str(name) for name in given]
    if batch.shape[1] == 0:
        raise ValueError(f"{origin}: the label table has no columns.")
    return batch, one_column


@dataclass(frozen=True)
class LabelSurvey:
    """Words of a label table, or of a batch of it; surveys of batches are combined."""

    # Of each label, at most MOST_WORDS words, with the place of the first cell if a message may
    # need it, and the cell.
    words: list[dict[str, tuple[str, Any]]]

    @classmethod
    def of(cls, batch: Batch) -> "LabelSurvey":
        """Survey of a batch."""
        return cls.with_signs(batch, USUAL_WORDS)[0]

    @classmethod
    def with_signs(cls, batch: Batch, given: LabelWords) -> tuple["LabelSurvey", NDArray[np.int8]]:
        """Survey of a batch, and its labels by the words that have one meaning in any column.

        These are 1 = yes, -1 = no, and 0 for all others, (n_rows, n_labels).
        """
        words, meanings = [], given.meanings()[0]
        signed = np.zeros(batch.shape, dtype=np.int8)
        for j, (codes, cells) in enumerate(_distinct_cells(batch)):
            first: dict[str, tuple[str, Any]] = {}
            words.append(first)
            signs = [*(meanings.get(word(cell), 0) for cell in cells), 0]
            signed[:, j] = np.array(signs, dtype=np.int8)[codes]
            for k, cell in enumerate(cells):
                if len(first) < MOST_WORDS and (entry := word(cell)) not in first:
                    is_usual = entry in _USUAL
                    place = "" if is_usual else batch.place(int(np.argmax(codes == k)), j)
                    first[entry] = (place, cell)
        return cls(words), signed

    def combine(self, other: "LabelSurvey") -> "LabelSurvey":
        """Survey of these rows, followed by others."""
        words = []
        for mine, others in zip(self.words, other.words, strict=True):
            new = [(entry, cell) for entry, cell in others.items() if entry not in mine]
            words.append(mine | dict(new[: MOST_WORDS - len(mine)]))
        return LabelSurvey(words)


def _distinct_cells(batch: Batch) -> Iterator[tuple[NDArray[np.integer], list[Any]]]:
    """`Batch.distinct` of each column; faster if all columns have numbers or truth values."""
    numbers = batch.typed_numbers()
    if numbers is None:
        yield from map(batch.distinct, range(batch.shape[1]))
        return
    for column in map(np.ascontiguousarray, numbers):
        missing, codes = np.isnan(column), np.full(len(column), -1, dtype=np.int8)
        # Sorting all cells is slow, and these are nearly always all there are.
        cells = {value: column == value for value in (-1.0, 0.0, 1.0)}
        n_cells = {value: np.count_nonzero(at) for value, at in cells.items()}
        usual = [value for value, n in n_cells.items() if n]
        if sum(n_cells.values()) + np.count_nonzero(missing) == len(column):
            for code, value in enumerate(usual, start=1):
                codes += cells[value] * np.int8(code)
            yield codes, usual
        else:
            values = np.unique(column[~missing])
            yield np.where(missing, -1, np.searchsorted(values, column)), values.tolist()


@dataclass(frozen=True)
class LabelDecoder:
    """What the words of each label mean: 1 = yes, -1 = no, 0 = unknown."""

    meanings: list[dict[str, int]]

    @classmethod
    def of(cls, survey: LabelSurvey, words: LabelWords) -> "LabelDecoder":
        """Meanings of the words of all rows; refuses words that are not known."""
        usual, given = words.meanings()
        meanings = []
        for found in survey.words:
            known = dict(usual)
            if "+" in found and "-" not in given:
                known["-"] = -1
            if {"0", "-1"} <= set(found) and not {"0", "-1"} & given:
                raise LabelWordError(
                    f"{found['-1'][0]}: both 0 and -1 occur; state which means no and which "
                    "unknown:",
                    "decode_labels(labels, coding='signed') for 1, -1 and 0 = unknown.",
                    'naim3l fit --no=-1 --unknown 0, or no = ["-1"] and unknown = ["0"] under '
                    "[labels] in the settings, for 1, -1 and 0 = unknown.",
                )
            # Usual words are refused where they are decoded, which tells the place.
            answers = [entry for entry in found if known.get(entry) != 0]
            placed = {entry: of for entry, of in found.items() if of[0]}
            _check_known(placed, known, perhaps_classes=len(answers) > 2)
            meanings.append(known)
        return cls(meanings)

    def decode(self, batch: Batch) -> NDArray[np.int8]:
        """Labels as 1 = yes, -1 = no, 0 = unknown, (n_rows, n_labels)."""
        signed = np.zeros(batch.shape, dtype=np.int8)
        for j, (codes, cells) in enumerate(_distinct_cells(batch)):
            meanings, spelled = self.meanings[j], [word(cell) for cell in cells]
            strange = [k for k, entry in enumerate(spelled) if entry not in meanings]
            places = {k: batch.place(int(np.argmax(codes == k)), j) for k in strange[:MOST_WORDS]}
            _check_known({spelled[k]: (place, cells[k]) for k, place in places.items()}, meanings)
            signed[:, j] = np.array([*(meanings[w] for w in spelled), 0], dtype=np.int8)[codes]
        return signed


def written_words(survey: LabelSurvey, decoder: LabelDecoder) -> tuple[str, str] | None:
    """The one word for yes and the one for no of all labels; None if there is not one of each.

    Written in different letter cases, a word is normalised.
    """
    spelled: dict[int, dict[str, set[str]]] = {1: {}, -1: {}, 0: {}}
    for found, meanings in zip(survey.words, decoder.meanings, strict=True):
        for entry, (_, cell) in found.items():
            text = cell.strip() if isinstance(cell, str) and not _WHOLE.fullmatch(cell) else entry
            spelled[meanings[entry]].setdefault(entry, set()).add(text)
    if len(spelled[1]) != 1 or len(spelled[-1]) != 1:
        return None
    [(yes, of_yes)], [(no, of_no)] = spelled[1].items(), spelled[-1].items()
    one_case = len(of_yes) == len(of_no) == 1
    return (of_yes.pop(), of_no.pop()) if one_case else (yes, no)


@dataclass(frozen=True)
class LabelledRows:
    """Labels of some rows, as they were given and as signs; see `LabelDecoder.decode`."""

    labels: Batch
    signed: NDArray[np.int8]
    one_column: bool

    @classmethod
    def of(cls, labels: Batch, words: LabelWords, *, one_column: bool) -> "LabelledRows":
        """Labels with all rows in one batch."""
        decoder = LabelDecoder.of(LabelSurvey.of(labels), words)
        return cls(labels, decoder.decode(labels), one_column)

    @property
    def truth(self) -> NDArray[np.float64]:
        """Labels as 1, 0, NaN = unknown, (n_rows, n_labels)."""
        return np.where(self.signed == 0, np.nan, self.signed > 0)


def _check_known(
    found: Mapping[str, tuple[str, Any]],
    meanings: Mapping[str, Any],
    *,
    perhaps_classes: bool = False,
) -> None:
    """Refuse words of a label that have no meaning."""
    strange = [(place, cell) for w, (place, cell) in found.items() if w not in meanings]
    if not strange:
        return
    cells = [int(c) if isinstance(c, float) and c.is_integer() else c for _, c in strange]
    nor = f" (nor are {some(cells[1:], 4)})" if cells[1:] else ""
    yes, no = (", ".join(w for w, m in meanings.items() if w and m == sign) for sign in (1, -1))
    shown, first = quote(cells[0]), str(cells[0])[:_MOST_SHOWN]
    in_toml = json.dumps(first, ensure_ascii=False)
    raise LabelWordError(
        f"{strange[0][0]}: Unknown label type: {shown} is not a known label{nor}. Allowed are yes "
        f"({yes}), no ({no}), unknown ({', '.join(UNKNOWN[1:])}, or a missing cell).",
        f"naim3l.decode_labels(labels, no=[{shown}]) reads it as no; yes= and unknown= are for "
        "words that mean these."
        + " Classes need a column each, as by pandas.get_dummies."
        * perhaps_classes,
        f"naim3l fit --no {shlex.quote(first)}, or no = [{in_toml}] under [labels] in the "
        "settings, reads it as no; --yes and --unknown are for words that mean these."
        + " Classes need a column of yes and no each."
        * perhaps_classes,
    )


def match_labels(
    names: Mapping[str, list[str] | None], n_labels: Mapping[str, int]
) -> tuple[list[str], dict[str, list[int | None]]]:
    """Names of all labels, and their positions in each table, None where it lacks them."""
    # Tables without names are matched by position.
    every = list(dict.fromkeys(name for of in names.values() for name in of or ()))
    every = every or [f"label{k}" for k in range(next(iter(n_labels.values())))]
    positions: dict[str, list[int | None]] = {}
    for table, of in names.items():
        if of is None and n_labels[table] != len(every):
            raise ValueError(
                f"view {table!r}: {n_labels[table]} label columns, but {len(every)} in other views."
            )
        at = {name: k for k, name in enumerate(every if of is None else of)}
        positions[table] = [at.get(name) for name in every]
        lacking = [name for name in every if name not in at]
        if lacking:
            warn_user(
                f"view {table!r}: labels {some(lacking)} are in other views only, and unknown here."
            )
    return every, positions


def check_seen(
    seen: Mapping[str, tuple[Mask, Mask]],
    names: Sequence[str],
    *,
    wide: bool = False,
    several: bool = False,
) -> None:
    """Refuse views without information; warn of labels that cannot be learned.

    ``seen`` tells of each view whether each label is yes in some row, and no in some. Views of a
    wide table share samples, so a label may be yes in one and no in another. Where ``several``
    sites take part, labels may be learned from others.
    """
    for view, (yes, no) in seen.items():
        if not yes.any():
            raise ValueError(
                f"view {view!r}: no label is observed {'positive ' if no.any() else ''}in it, so "
                "nothing ties it to the other views; leave the view out, or give it some positives."
            )
    if several:
        return
    positive, negative = (np.any(of_views, axis=0) for of_views in zip(*seen.values(), strict=True))
    both = np.any([yes & no for yes, no in seen.values()], axis=0)
    little = "carry little or no information"
    apart = "tell the views apart, and little about the rows of a view"
    split = "observed positive in some views and negative only in others"
    for marked, what, scores in (
        (~positive & ~negative, "never observed", little),
        (~positive & negative, "never observed positive", little),
        (positive & ~negative, "never observed negative", little),
        (positive & negative & ~both & (not wide), split, apart),
    ):
        if marked.any():
            which = [names[k] for k in np.flatnonzero(marked).tolist()]
            warn_user(f"labels {what}: {which}; their scores {scores}.")


def fill_unknown(rows: LabelledRows, values: NDArray[np.float64]) -> Any:
    """The given label table with its unknown entries replaced by ``values``, (n_rows, n_labels).

    These are 1 = yes, 0 = no; NaN leaves an entry unknown. The result is of the given type, in the
    words and types of the known cells of each column, unless the type cannot represent the values:
    categories become text or numbers.
    """
    batch, signed = rows.labels, rows.signed
    fill = (signed == 0) & ~np.isnan(values)
    if batch.frame is None:
        is_text = batch.data.dtype.kind in "US"  # which would cut off longer words
        filled = batch.data.astype(object) if is_text else batch.data.copy()
        for j, here in enumerate(fill.T):
            filled[here, j] = np.where(values[here, j] > 0, *_cells_of(batch, signed, j))
        return filled.ravel() if rows.one_column else filled
    result = batch.frame
    for j in np.flatnonzero(fill.any(axis=0)).tolist():
        yes, no = _cells_of(batch, signed, j)
        here = np.flatnonzero(fill[:, j])
        result = result.with_columns(_fill(batch.frame[:, j], here, values[here, j] > 0, yes, no))
    return result[:, 0].to_native() if rows.one_column else result.to_native()


def _fill(series: nw.Series, rows: NDArray[np.intp], is_yes: Mask, yes: Any, no: Any) -> nw.Series:
    """The series with cells for yes or no in some rows."""
    if series.dtype in (nw.Categorical, nw.Enum, nw.Unknown):  # Unknown: all null, or sparse
        series = series.cast(nw.String if isinstance(yes, str) else nw.Float64)
    if series.dtype == nw.Boolean or series.dtype.is_integer():
        as_cell = bool if series.dtype == nw.Boolean else int
        yes, no = as_cell(yes), as_cell(no)
    return series.scatter(rows.tolist(), [yes if each else no for each in is_yes])


def _cells_of(batch: Batch, signed: NDArray[np.int8], j: int) -> tuple[Any, Any]:
    """Cells that mean yes and no in a column, as its known cells are written."""
    codes, cells = batch.distinct(j)
    found: dict[int, Any] = {}
    for k, cell in enumerate(cells):
        found.setdefault(int(signed[int(np.argmax(codes == k)), j]), cell)
    if 1 not in found and -1 not in found:
        return ("yes", "no") if any(isinstance(cell, str) for cell in cells) else (1.0, 0.0)
    yes = found[1] if 1 in found else _partner(found[-1], 1)
    return yes, found[-1] if -1 in found else _partner(yes, -1)


def _partner(cell: Any, sign: int) -> Any:
    """The other of two cells, such as "no" for "yes" and False for True."""
    if not isinstance(cell, str):
        return type(cell)(sign > 0)
    pairs = [pair if sign < 0 else pair[::-1] for pair in PAIRS]
    partners = dict(reversed(pairs))  # so that the first of several counts
    partner = partners.get(word(cell), "yes" if sign > 0 else "no")
    if cell.isupper():
        return partner.upper()
    return partner.capitalize() if cell[:1].isupper() else partner
