"""Titles of labels and columns: readable names beside the codes of the tables."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from naim3l.decisions.borrowing import AbsentLabel


def choose_titles(titles: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Titles of the names that have one; with the code behind it where it would be ambiguous."""
    every = list(dict.fromkeys(names))
    found = {name: " ".join(titles[name].split()) for name in every if name in titles}
    counts = Counter(found.get(name) or name for name in every)
    return {
        name: title if counts[title] == 1 else f"{title} ({name})"
        for name, title in found.items()
        if title not in ("", name)
    }


def titles_of_model(model: Any, titles: Mapping[str, str]) -> dict[str, str]:
    """Titles of the labels and columns of a fitted model, the dropped ones too."""
    used = [name for view in model.views_ for name in model.names_.column_labels(view)]
    plans = [column.name for columns in model.columns_.values() for column in columns]
    return choose_titles(titles, map(str, (*model.label_names_, *used, *plans)))


def title_of(titles: Mapping[str, str], name: str) -> str:
    """The title of a name, or of the column that an encoded one, "column_value", comes from."""
    if name in titles:
        return titles[name]
    for place in (i for i in range(len(name) - 1, 0, -1) if name[i] == "_"):
        if name[:place] in titles:
            return f"{titles[name[:place]]}: {name[place + 1 :]}"
    return name


def with_code(titles: Mapping[str, str], name: str) -> str:
    """The title of a name and the name itself, once: "Ever had a stroke (MCQ160F)"."""
    title = titles.get(name, name)
    return title if has_code(title, name) else f"{title} ({name})"


def has_code(title: str, name: str) -> bool:
    """Whether a title already ends with the name it stands for, or is that name."""
    return title == name or title.endswith(f"({name})")


def with_titles(absent: Iterable[AbsentLabel], titles: Mapping[str, str]) -> list[AbsentLabel]:
    """Labels that tables never record, under their titles."""

    def shown(name: str) -> str:
        return titles.get(name, name)

    return [
        replace(each, label=shown(each.label), through=[*map(shown, each.through)])
        for each in absent
    ]
