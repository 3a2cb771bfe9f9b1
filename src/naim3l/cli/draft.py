"""A first settings file, guessed from the tables by the judge of the fit; guesses are marked."""

import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from naim3l._text import CONTROLS, some, visible
from naim3l.cli.options import fill_lists
from naim3l.cli.tables import (
    CODED,
    HEAD,
    NO_ANSWER,
    PERHAPS,
    SURE,
    UNRECORDED,
    YES_OR_NO,
    choose_columns,
    codes_of_answers,
    guess_id,
    label_likeness,
    rare_words,
)
from naim3l.features.plan import ID_REASON, ViewPlan, why_refused
from naim3l.features.survey import TableSurvey, find_ids
from naim3l.files.databases import place_database
from naim3l.files.secrets import STORE, URL, drop_secrets, split_source
from naim3l.files.tables import open_table
from naim3l.input.batches import Batch
from naim3l.input.labels import USUAL_WORDS, LabelSurvey, LabelWords

_HEADER = """\
# Guessed from the first rows of each table. Check every entry that is marked as guessed.
output = "model.naim3l"
# Titles of labels and columns, for reports, in a table with the columns name and title:
# titles = "columns.csv"
"""
_OPTIONS = """
[labels]
# Words for yes, no and unknown in addition to the usual ones, such as yes = ["affected"].
# columns names the labels of all views that have no entry labels, also by patterns like "dx_*".
{}

[model]
# How strongly the views are coupled, and a ridge, are chosen on held-out rows unless given:
# lam = 0.4
# ridge = 1.0
# metric = "AP"  # what they are chosen by, if not by rankings; "log-loss" for probabilities
# Scores are linear in the columns unless rows are compared by a kernel, one of <kernels>;
# those for counts are <count kernels>. For some views only: kernel = {{NAME = "rbf"}}
# kernel = "rbf"
# Logarithms are taken of skewed numbers unless log = false; day_first = true or false decides
# about dates such as 3/4/2024, if no day above 12 tells.
# When to predict yes: <rules>, or a number.
decide = "guarded"
random_state = 0
"""
_WHY = {
    SURE: "words for yes and no",
    PERHAPS: "0 and 1 alone",
    CODED: "1 and 2 alone, beside codes of no answer",
}
_WHY_WORDS = {
    "no": "of columns in which 1 seems to be yes",
    "unknown": "no answer there, such as a code of refused, or a rare word beside yes and no",
}
_NO_PASSWORD = "# The password is left out: add it, or let the driver find it (PGPASSWORD)."


def draft_settings(
    sources: Sequence[str],
    folder: Path = Path(),
    words: LabelWords = USUAL_WORDS,
    named: Sequence[str] = (),
) -> tuple[dict[str, list[Any]], str]:
    """Source, id, labels, unless ``named``, and leaks of views, by first rows; settings in TOML."""
    heads: list[Head] = []
    for source in sources:
        heads.append(Head.of(_view_name(source, [head.name for head in heads]), source, words))
    coded = _find_coded(heads, words)
    # Whoever has said what 2 means says that such columns are labels.
    look = CODED if words.meanings()[1].isdisjoint(YES_OR_NO) else SURE
    heads = [head.with_coded(coded, look) for head in heads]
    labels_head = _only_labels(heads)
    views = [head for head in heads if head is not labels_head]
    shared = _shared_labels(views, _ranks(coded))
    labels = [_labels(head, labels_head, shared, _ranks(coded)) for head in views]
    if named:
        of_labels = [labels_head] if labels_head else views
        every = dict.fromkeys(name for h in of_labels for name in h.columns if name != h.id)
        chosen = choose_columns(every, named, where="--labels")
        labels = [{c: "" for c in chosen if c in (labels_head or head).columns} for head in views]
    elif labels_head is None:
        labels = _add_unrecorded(views, labels)
    pairs = list(zip(views, labels, strict=True))
    several = Counter(c for head, of_view in pairs for c in _features(head, of_view))
    common = {column for column, n in several.items() if n > 1}
    added = _added_words(heads, coded, {name for of in labels for name in of}, words)
    once = _common_labels(pairs, labels_head)
    more = {key: (*getattr(words, key), *of) for key, of in added.items()}
    leaks = [head.leaks(of_view, replace(words, **more)) for head, of_view in pairs]
    each = zip(pairs, leaks, strict=True)
    lines = [
        line
        for pair, of in each
        for line in _view_lines(*pair, of, common, labels_head, folder, once)
    ]
    columns = _listing("columns", once) if once else ["# columns = []"]
    options = fill_lists(_OPTIONS).format("\n".join(_word_lines(words, added) + columns))
    shown = {
        head.name: [head.source, head.id, [*of_view], leaking]
        for (head, of_view), leaking in zip(pairs, leaks, strict=True)
    }
    return shown, _HEADER + "\n".join(lines) + "\n" + options


@dataclass(frozen=True)
class Head:
    """The first rows of a table, and what its columns seem to be."""

    name: str
    source: str
    columns: list[str]
    id: str | None
    id_reason: str
    likeness: dict[str, str]  # how much columns look like labels, of those that do
    unrecorded: dict[str, str]  # columns that are all unknown: labels if other views have them
    refused: dict[str, str]  # columns that the fit would refuse, and why
    dropped: dict[str, str]  # columns that it would drop, and why
    batch: Batch
    codes: dict[str, set[str]]  # columns with codes of answers alone, and which
    rare: dict[str, set[str]]  # rare words of columns, which are neither yes nor no
    free_text: list[str]  # columns of which it would read the words

    @classmethod
    def of(cls, name: str, source: str, words: LabelWords) -> "Head":
        table = open_table(source)
        frame, origin = table.read(n_rows=HEAD)
        batch, columns = Batch(frame, origin.of_table(f"view {name!r}")), table.columns
        survey = TableSurvey.of(batch)
        ids = {columns[j]: reason for j, reason in find_ids(survey).items()}
        own = guess_id(frame, ids, columns[0])
        meanings = words.meanings()
        rare = {c: rare_words(frame[c], meanings[0]) for c in columns if c != own}
        looks = {c: label_likeness(frame[c], meanings, of) for c, of in rare.items()}
        likeness = {c: look for c, look in looks.items() if look in (SURE, PERHAPS)}
        unrecorded = {c: look for c, look in looks.items() if look == UNRECORDED}
        # What surely is a label is not judged as a feature.
        sure = {own, *(c for c, look in looks.items() if look == SURE)}
        refused, dropped, free_text = _judge(batch, survey, sure)
        reason = ids.get(own or "", "")
        coded = {c: codes_of_answers(frame[c], of) for c, of in rare.items()}
        codes = {c: of for c, of in coded.items() if of is not None}
        found = likeness, unrecorded, refused, dropped, batch, codes, rare, free_text
        return cls(name, source, columns, own, reason, *found)

    def leaks(self, labels: Collection[str], words: LabelWords) -> dict[str, tuple[float, str]]:
        """Columns that seem to tell a label, how surely, and why, by the first rows."""
        own = [name for name in self.columns if name in labels]
        if not own:  # there are none, or they are in another file
            return {}
        signs = self.batch.select_columns([self.columns.index(name) for name in own])
        others = {self.id, *own, *self.refused, *self.dropped}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit will warn, by all rows
            signed = LabelSurvey.with_signs(signs, words)[1]
            found = TableSurvey.of(self.batch, signed=signed).find_leaks(own)
        leaks = {self.columns[j]: of for j, of in found.items() if self.columns[j] not in others}
        return dict(sorted(leaks.items(), key=lambda leak: -leak[1][0]))

    def with_coded(self, coded: Collection[str], look: str) -> "Head":
        """The head, in which columns that are coded in all tables look like labels."""
        here = {name: look for name in coded if self.codes.get(name)}
        return replace(self, likeness=self.likeness | here)


def _find_coded(heads: Sequence[Head], words: LabelWords) -> dict[str, set[str]]:
    """Columns of codes for yes, no and no answer in all tables that have them; the codes.

    None if words are given by which these codes mean something else.
    """
    meanings, _ = words.meanings()
    expected = dict(zip(YES_OR_NO, (1, -1), strict=True)) | dict.fromkeys(NO_ANSWER, 0)
    if any(meanings.get(code, sign) != sign for code, sign in expected.items()):
        return {}
    found = {}
    for name in dict.fromkeys(column for head in heads for column in head.codes):
        tables = [head.codes.get(name) for head in heads if name in head.columns]
        codes = set[str]().union(*(of or () for of in tables))
        if None not in tables and codes.issuperset(YES_OR_NO):
            found[name] = codes
    return found


def _ranks(coded: dict[str, set[str]]) -> list[set[str]]:
    """Ways to look like a label, the surest first.

    Columns of 1 and 2 alone are as likely a sex or a group, unless others have codes of no answer.
    """
    if any(codes.difference(YES_OR_NO) for codes in coded.values()):
        return [{SURE}, {PERHAPS, CODED}]
    return [{SURE}, {PERHAPS}, {CODED}]


def _added_words(
    heads: Sequence[Head], coded: dict[str, set[str]], labels: Collection[str], words: LabelWords
) -> dict[str, list[str]]:
    """Words for the codes and the rare words of labels, beside those that were given."""
    codes = set[str]().union(*(of for name, of in coded.items() if name in labels))
    rare = {entry for h in heads for name, of in h.rare.items() if name in labels for entry in of}
    added = {"no": YES_OR_NO[1:], "unknown": (*NO_ANSWER, *sorted(rare))}
    known, found = words.meanings()[1], {*codes, *rare}
    return {key: [c for c in of if c in found and c not in known] for key, of in added.items()}


def _common_labels(
    pairs: Sequence[tuple[Head, dict[str, str]]], labels_head: Head | None
) -> dict[str, str]:
    """Labels of all views, and why, if they are labels wherever they are columns; or none."""
    every = {name: why for _, of_view in pairs for name, why in of_view.items()}
    there = [every.keys() & {*(labels_head or head).columns} for head, _ in pairs]
    same = all(of and of.keys() == names for (_, of), names in zip(pairs, there, strict=True))
    return every if same else {}


def _word_lines(words: LabelWords, added: dict[str, list[str]]) -> list[str]:
    """Words for yes, no and unknown in the settings, with a comment on those that are added."""
    lines = []
    for key in ("yes", "no", "unknown"):
        more = added.get(key, [])
        why = f" # guessed: {_WHY_WORDS[key]}" if more else ""
        lines.append(f"{key} = {_toml([*getattr(words, key), *more])}{why}")
    return lines


def _judge(batch: Batch, survey: TableSurvey, others: Collection[Any]) -> list[Any]:
    """Columns that the fit would refuse, and drop, with the reasons; and those of free text."""
    names = [(j, name) for j, name in enumerate(survey.columns or []) if name not in others]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit will warn, by all rows
        refused = {name: fault for j, name in names if (fault := why_refused(survey, j))}
        usable = [j for j, name in names if name not in refused]
        try:
            plan, _ = ViewPlan.of(TableSurvey.of(batch.select_columns(usable)))
        except ValueError:  # there are none, or it would drop all of them
            return [refused, {}, []]
    dropped = {column.name: column.dropped for column in plan.dropped}
    return [refused, dropped, [column.name for column in plan.columns if column.is_free_text]]


def _view_name(source: str, taken: Sequence[str]) -> str:
    """A name for a view, from that of its file, array or table in the database."""
    if URL.match(source) and not STORE.match(source):
        table = re.search(r"\bfrom\s+([\w.]+)", split_source(source)[1], re.IGNORECASE)
        stem = table[1] if table else "query"
    else:
        stem = source.rpartition("#")[2] if "#" in source else Path(source).name.partition(".")[0]
    stem = re.sub(r"\W+", "_", stem).strip("_") or "view"
    names = [stem, *(f"{stem}_{k}" for k in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)


def _only_labels(heads: Sequence[Head]) -> Head | None:
    """The one table of an id and labels alone, if the others have an id too."""
    alone = [h for h in heads if h.likeness and {*h.columns} == {h.id, *h.likeness}]
    others = [head for head in heads if head not in alone]
    return alone[0] if len(alone) == 1 and others and all(head.id for head in others) else None


def _shared_labels(views: Sequence[Head], ranks: Sequence[set[str]]) -> dict[str, str]:
    """Columns that look like labels in all views that record them, and why they are labels.

    None unless all views record one, because the fit needs a known label in each view. Columns of
    0 and 1 alone count unless one that all views record surely is a label, and so by rank.
    """
    if len(views) < 2:
        return {}
    there = [head.likeness | head.unrecorded for head in views]
    common = [name for name in views[0].columns if all(name in looks for looks in there)]
    found = {name: [looks[name] for looks in there] for name in common}
    recorded = [looks for looks in found.values() if UNRECORDED not in looks]
    there_are = set[str]().union(*recorded)
    best = next((i for i, rank in enumerate(ranks) if rank & there_are), 0)
    kinds = set[str]().union(*ranks[: best + 1])
    return {
        name: "looks like a label in all views" + " that record it" * (UNRECORDED in looks)
        for name, looks in found.items()
        if recorded and not kinds.isdisjoint(looks)
    }


def _add_unrecorded(
    views: Sequence[Head], labels: Sequence[dict[str, str]]
) -> list[dict[str, str]]:
    """Labels of the views, with columns that are all unknown in a view and labels of another."""
    named = {name for of_view in labels for name in of_view}
    why = "a label of other views, all unknown in this one"
    return [
        {name: why for name in head.unrecorded if name in named} | of_view
        for head, of_view in zip(views, labels, strict=True)
    ]


def _features(head: Head, labels: dict[str, str]) -> list[str]:
    """Columns that the fit would use."""
    others = {head.id, *labels, *head.refused, *head.dropped}
    return [name for name in head.columns if name not in others]


def _view_lines(
    head: Head,
    labels: dict[str, str],
    leaks: dict[str, tuple[float, str]],
    common: set[str],
    labels_head: Head | None,
    folder: Path,
    once: Collection[str],
) -> list[str]:
    """The table [views.NAME], without labels named ``once``; several views have the ``common``."""
    name = head.name if head.name.isascii() else _toml(head.name)
    lines = ["", f"[views.{name}]", f"source = {_toml(_placed(head.source, folder))}"]
    if any(drop_secrets(used.source) != used.source for used in (head, labels_head) if used):
        lines.append(_NO_PASSWORD)
    repeated = [name for name, reason in head.dropped.items() if reason.startswith(ID_REASON)]
    if head.id is None and repeated:
        why = "if rows with the same value are of one sample, to be held out together"
        lines.append(f"# id = {_toml(repeated[0])} # {why}")
    elif head.id is None:
        lines.append("# no id column was found; name it with id = ..., if there is one")
    else:
        lines.append(f"id = {_toml(head.id)} # guessed: {visible(head.id_reason)}")
    if labels_head is not None:
        file = _toml(_placed(labels_head.source, folder))
        lines.append(f"labels_file = {file} # guessed: nothing but an id and labels in it")
    if labels and not once:
        lines += _listing("labels", labels)
    elif not labels:
        lines.append("labels = [] # guessed: no column looks like a label; name them here")
    refused = {name: reason for name, reason in head.refused.items() if name not in labels}
    if refused:
        lines += _listing("ignore", refused)
    rest = _features(head, labels)
    lines.append(f"# features: the other columns, {some(rest, 12, _toml) or 'none'}")
    told = "# guessed: {} seems to tell a label: {}; ignore it?"
    lines += [told.format(_toml(name), visible(why)) for name, (_, why) in leaks.items()]
    for name, reason in head.dropped.items():
        if name not in labels:
            lines.append(f"# guessed: {_toml(name)} is dropped by the fit ({visible(reason)})")
    return [*lines, *_hints(head, rest, common)]


def _hints(head: Head, rest: list[str], common: set[str]) -> list[str]:
    """Comments on features that are used in a way of their own."""
    lines = []
    if texts := [name for name in head.free_text if name in rest]:
        lines.append(f"# guessed: free text, of which words are read: {some(texts, 12, _toml)}")
    if shared := [name for name in rest if name in common and name not in head.free_text]:
        listed = some(shared, 12, _toml)
        lines.append(f"# shared = true # learn from {listed} of all views together; or false")
    if doubtful := [name for name in head.likeness if name in rest]:
        listed = some(doubtful, 12, _toml)
        lines.append(f"# guessed: features, though perhaps labels by their cells: {listed}")
    return lines


def _labels(
    head: Head, labels_head: Head | None, shared: dict[str, str], ranks: Sequence[set[str]]
) -> dict[str, str]:
    """Columns that are taken for the labels of a view, and why."""
    alike = (labels_head or head).likeness
    if labels_head is not None:
        return {name: _WHY[look] for name, look in alike.items()}
    if shared:
        return shared
    best = next((rank for rank in ranks if rank.intersection(alike.values())), set[str]())
    doubt = "" if SURE in best else ", perhaps a feature"
    return {name: f"{_WHY[look]}{doubt}" for name, look in alike.items() if look in best}


def _listing(key: str, entries: dict[str, str]) -> list[str]:
    """A list with a comment on each entry."""
    why = {name: f" # guessed: {visible(of)}" if of else "" for name, of in entries.items()}
    return [f"{key} = [", *(f"    {_toml(name)},{of}" for name, of in why.items()), "]"]


def _toml(value: str | Sequence[str]) -> str:
    """Text or a list of text as in TOML, which is that of JSON, with more characters escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _placed(source: str, folder: Path) -> str:
    """A source as seen from the folder of the settings; without the password of a URL."""

    def move(path: str) -> str:
        return os.path.relpath(path, folder).replace(os.sep, "/")

    return drop_secrets(place_database(source, move)) if URL.match(source) else move(source)
