"""Answers of a fitted model about rows, as tables: predictions, and labels that are filled in."""

import hashlib
import json
import re
import shutil
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from naim3l import __version__
from naim3l._arrays import Matrix
from naim3l._progress import progress_bar
from naim3l._text import plain
from naim3l.cli.chunks import Opened, warn_of_empty_rows
from naim3l.cli.tables import stored_roles
from naim3l.decisions.fusion import AUTO
from naim3l.decisions.rules import Decisions
from naim3l.files.atomic_write import PART, new_folder, write_text, written_together
from naim3l.files.errors import load_extra
from naim3l.files.writers import appended
from naim3l.input.batches import Batch
from naim3l.input.chunks import run_pass

KINDS = ("labels", "scores", "probabilities")
CODES = SOURCE, NUMBERS = "source", "0/1"
_CODE = re.compile(r"-?\d{1,15}", re.ASCII)  # words that are written as numbers
# Share of the change of log-odds below which features, or known labels, are not said to matter.
LITTLE = 0.1
DECIMALS = 4  # of probabilities in files
ROUNDING = 1e-9  # of log-odds
RECORD = ".json"  # extension of what is known about a file while its folder is written
Answer = Callable[[Batch, Any], Any]  # a data frame of the features and the labels of some rows


def words_of_source(model: Any, views: Iterable[str], codes: str) -> tuple[str, ...]:
    """Words for yes and no that all of some views had in the fit; empty for 1 and 0."""
    if codes not in CODES:
        raise ValueError(f"--codes is {codes!r}, but must be one of: {', '.join(CODES)}.")
    found = {tuple(stored_roles(model, view)["written"]) for view in views}
    words = found.pop() if codes == SOURCE and len(found) == 1 else ()
    return words if len(words) == 2 else ()


def _in_words(labels: Any, words: tuple[str, ...]) -> Any:
    """A pandas column of 1, 0 and missing cells as whole numbers, or in words if there are some."""
    if not words:
        return labels.astype("Int64")  # whole numbers, even beside missing ones
    cells = labels.map({1: words[0], 0: words[1]}).astype("string")
    return cells.astype("Int64") if all(map(_CODE.fullmatch, words)) else cells


def round_probabilities(P: Any) -> Matrix:
    """Probabilities with the digits that mean something: four decimals.

    Those close to 0 or 1 have two digits after the zeros, or nines, so that none becomes 0 or 1.
    """
    P = np.asarray(P, dtype=float)
    rest = np.where((P > 0) & (P < 1), np.minimum(P, 1 - P), 1.0)
    scale = 10.0 ** np.clip(1 - np.floor(np.log10(rest)), DECIMALS, 300)
    return np.asarray(np.rint(P * scale) / scale)  # the float that is closest to those digits


def make_predictions(
    model: Any,
    ids: Mapping[str, str | None],
    kind: str,
    decide: str | None = None,
    codes: str = NUMBERS,
) -> dict[str, Answer]:
    """Functions of the features of each view, given the names of their ids."""
    check_answers(model, kind)
    model.decisions_.thresholds_of(decide)  # refuses an unknown rule
    labels = model.label_names_
    column = _free_name("view", {*labels, *ids.values()}) if len(ids) > 1 else None
    names = column, _name_of_rows(labels, ids.values())
    asked = kind, decide, words_of_source(model, ids, codes)
    return {view: partial(_predict, model, view, asked, names) for view in ids}


def _predict(
    model: Any, view: str, asked: Any, names: Any, features: Batch, labels: Any = None
) -> Any:
    """Predictions for rows of a view, given labels that are known; the index are ids or numbers."""
    (kind, decide, words), (column, index) = asked, names
    X, known = {view: features}, None if labels is None else {view: labels}
    if kind == "labels":  # as by `predict`, but unknown in rows that have no value
        table = model._contain(model._decisions(X, decide, known), X)[view]
        if words:
            table = table.apply(_in_words, words=words)
        else:
            table = table.astype("Int64" if table.isna().any(axis=None) else "int64")
    elif kind == "probabilities":
        table = model.predict_proba(X, known)[view]
        table[:] = round_probabilities(table)
    else:
        table = model.decision_function(X)[view]
    if column is not None:
        table.insert(0, column, view)
    return table.rename_axis(index)


def check_answers(model: Any, kind: str) -> None:
    """Refuse what a model cannot answer; results will be data frames."""
    if kind == "probabilities" and not model.has_probabilities:
        raise ValueError("no probabilities; fit it with decide='guarded', or another learned rule.")
    model.set_output(transform="pandas")


def _name_of_rows(columns: Collection[str], ids: Iterable[str | None]) -> str:
    """Name of the ids, or numbers, of rows of results with these columns, of views with these."""
    first, *others = set(ids)
    if not others and first is not None:
        return first
    return _free_name("row" if not others else "id", columns)


def _free_name(name: str, taken: Collection[Any]) -> str:
    """A name that no column has, with "_" behind it where that is needed."""
    while name in taken:
        name += "_"
    return name


def predict_fused(
    model: Any,
    X: Mapping[str, Batch],
    kind: str,
    decide: str | None = None,
    overlap: Any = AUTO,
    codes: str = NUMBERS,
) -> Any:
    """Predictions with one row per id, by the method ``fuse`` of models."""
    ids = {view: batch.data.index.name for view, batch in X.items()}
    check_answers(model, kind)
    words = words_of_source(model, X, codes)
    for view, column in ids.items():
        if column is None:  # rows would be joined by their places
            raise ValueError(
                f"view {view!r}: its rows have no ids to join them by; name the column with --id."
            )
    warn_of_empty_rows(model, X)
    fused = model.fuse(X, kind, decide=decide, overlap=overlap)
    if kind == "labels":
        fused = fused.apply(_in_words, words=words)
    elif kind == "probabilities":
        fused[:] = round_probabilities(fused)
    return fused.rename_axis(_name_of_rows(model.label_names_, ids.values()))


def describe_price(model: Any, decide: str | None, *, fused: bool = False) -> str | None:
    """What a learned rule, or that of the fit, reached on held-out rows; None for others.

    No training row is in several tables, so what a rule reaches on fused rows is not known.
    """
    rule = Decisions.of(model.decide).rule if decide is None else decide
    price = model.decisions_.prices.get(rule) if isinstance(rule, str) else None
    if price is None:
        return None
    where = "on rows held out of the fit" + ", each in one table" * fused
    return (
        f"Rule {rule}: {where}, {100 * price.accuracy:.1f} % of yes and no are right, and of each "
        f"label's more frequent value {100 * price.guessing:.1f} %; F1 is {100 * price.f1:.1f}."
    )


def fill_in(
    model: Any,
    view: str,
    min_confidence: float | None,
    features: Batch,
    known: Any,
    *,
    words: tuple[str, ...] = (),
) -> Any:
    """Labels of rows, unknown ones filled in, beside their confidence, and from what it comes."""
    X, Y = {view: features}, {view: known}
    filled = model.impute_labels(X, Y, min_confidence)[view]
    alone, given = model.predict_proba(X)[view], model.predict_proba(X, Y)[view]
    rates = dict(zip(model.label_names_, model.view_rates_[view], strict=True))
    columns: dict[str, Any] = {}
    for label in known.columns:
        value, yes = filled[label], np.asarray(given[label])
        confidence = np.where(value.isna(), np.nan, np.where(value == 1, yes, 1 - yes))
        origin = _origin_of(np.asarray(alone[label]), yes, rates[label])
        added = known[label].isna() & value.notna()
        columns[label] = _in_words(value, words)
        shown = round_probabilities(confidence)
        for word, cells in (("confidence", shown), ("filled", np.where(added, origin, ""))):
            taken = {*known.columns, *columns, known.index.name}
            columns[_free_name(f"{label}_{word}", taken)] = cells
    table = load_extra("pandas").DataFrame(columns, index=known.index)
    return table.rename_axis(_name_of_rows(table.columns, [known.index.name]))


def _origin_of(alone: Any, given: Any, rate: float) -> Any:
    """From what probabilities given known labels come, which are ``alone`` without these."""
    tiny = np.finfo(float).tiny  # of probabilities that are 0, which known labels have
    with np.errstate(divide="ignore", invalid="ignore"):
        of_features, of_labels = (
            np.abs(np.log((p + tiny) / (1 - p + tiny)) - np.log((q + tiny) / (1 - q + tiny)))
            for p, q in ((alone, rate), (given, alone))
        )
    share = of_labels / np.maximum(of_features + of_labels, tiny)
    words = ["frequency", "features", "known labels", "both"]
    nothing = of_features + of_labels < ROUNDING
    return np.select([nothing, share < LITTLE, share > 1 - LITTLE], words[:3], words[3])


def find_suspects(probabilities: Any, labels: Any, below: float) -> list[dict[str, Any]]:
    """Entries whose values have a smaller probability, the least probable first."""
    found = []
    for view, of_view in probabilities.items():
        P, Y = of_view.to_numpy(), labels[view].to_numpy(float)
        for i, k in np.argwhere(np.nan_to_num(P, nan=1.0) < below):
            place = {"view": view, "row": of_view.index[i], "label": of_view.columns[k]}
            found.append({**place, "value": int(Y[i, k]), "probability": float(P[i, k])})
    return sorted(found, key=lambda entry: entry["probability"])


class Written(NamedTuple):
    """Numbers of rows, and of parts of which an interrupted run had written the files."""

    rows: int
    kept: int = 0

    def combine(self, other: "Written") -> "Written":
        return Written(self.rows + other.rows, self.kept + other.kept)


def write_answers(
    targets: Mapping[Path, Mapping[str, Opened]],
    answers: Mapping[str, Answer],
    ending: str | None,
    *,
    safe: bool,
    question: Any = None,
) -> list[Written]:
    """Write the answers for the views of each file, or folder; the numbers of rows.

    With a ``question``, which tells answers of one model to one question from others, files of a
    folder stay if the run is interrupted, and are kept by the next one if they are unchanged.
    """
    counts = []
    with _whole(list(targets), folders=ending is not None, resumed=question is not None) as places:
        for place, views in zip(places, targets.values(), strict=True):
            read = partial(_answers, views, answers)
            parts = {name: enumerate(view.parts) for name, view in views.items()}
            steps = [(name, i, *part) for name, of in parts.items() for i, part in of]
            if ending is None:
                counts.append(_write(place, safe, None, None, _one_by_one(read, steps)))
                continue
            key = None
            if question is not None:
                facts = [
                    question,
                    __version__,
                    ending,
                    safe,
                    {n: v.facts for n, v in views.items()},
                ]
                key = hashlib.sha256(json.dumps(plain(facts, other=str)).encode()).hexdigest()
            task = partial(_write, place / f"part.{ending}", safe, key)
            counts.append(run_pass(read, steps, task, Written.combine, title="write", shown=True))
            own = {_numbered(place / f"part.{ending}", k) for k in range(len(steps))}
            for other in {*place.iterdir()} - own:  # records, and parts of longer tables
                other.unlink()
    return counts


def _answers(
    views: Mapping[str, Opened], answers: Mapping[str, Answer], number: int, name: str, *part: Any
) -> Iterator[Any]:
    """Tables of answers for a part of a view; rows without ids are numbered over all parts."""
    view, row = views[name], 0
    if view.id is None:
        row = sum((view.lengths or [])[: part[0]])
    for features, labels in view.read(*part):
        if view.id is None:
            index = range(row, row := row + len(features))
            features = Batch(features.data.set_axis(index, axis=0), features.origin)
            labels = None if labels is None else labels.set_axis(index, axis=0)
        yield answers[name](features, labels)


def _one_by_one(read: Any, steps: Sequence[Any]) -> Iterator[Any]:
    with progress_bar("write", len(steps), shown=len(steps) > 1) as advance:
        for number, step in enumerate(steps):
            yield from read(number, *step)
            advance()


def _write(
    path: Path, safe: bool, key: str | None, number: int | None, tables: Iterable[Any]
) -> Written:
    """Write tables to a file, of which the name has a number if it is given.

    With a key, a record beside the file tells what it should contain; a file that agrees stays.
    """
    named = path if number is None else _numbered(path, number)
    record = named.with_name(f".{named.name}{RECORD}")
    if key is not None:
        with suppress(OSError, ValueError, TypeError):  # damaged, or of a part that is not written
            found, n_rows, digest = json.loads(record.read_text())
            if [found, digest] == [[key, number], _digest(named)]:
                return Written(int(n_rows), 1)
    n_rows = 0
    with appended(named, spreadsheet_safe=safe) as append:
        for table in tables:
            append(table)
            n_rows += len(table)
    if key is not None:
        write_text(record, json.dumps([[key, number], n_rows, _digest(named)]))
    return Written(n_rows)


def _numbered(path: Path, number: int) -> Path:
    return path.with_stem(f"part-{number:05d}")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _whole(targets: Sequence[Path], *, folders: bool, resumed: bool) -> Iterator[list[Path]]:
    """Files or folders that become the targets together if the block ends without error."""
    places = []
    with ExitStack() as stack:
        for target in targets:
            stack.enter_context(new_folder(target.parent))
            unique = "" if resumed else f".{uuid.uuid4().hex[:12]}"
            part = target.with_name(f".{target.name}{unique}{PART}")
            if folders and target.is_dir() and any(target.iterdir()):
                raise ValueError(f"the folder {target} has other files; name another folder.")
            if folders:
                part.mkdir(exist_ok=resumed)
                if not resumed:
                    stack.callback(shutil.rmtree, part, ignore_errors=True)
            places.append(part if folders else target)
        with nullcontext() if folders or len(places) == 1 else written_together():
            yield places
        for part, target in zip(places, targets, strict=True) if folders else ():
            if target.exists():
                target.rmdir()
            part.rename(target)
