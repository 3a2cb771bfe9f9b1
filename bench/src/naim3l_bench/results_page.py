"""One HTML page of all results, our figures beside the published ones, in a file on its own.

The page loads nothing, runs no script and has no date in it: the same results give the same bytes.
jinja2 is an optional dependency and imported when the first page is made.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from naim3l.extend import inline_svg
from naim3l_bench.files import write_text
from naim3l_bench.present import WITHIN, ResultTable

TEMPLATE = "results.html.jinja"
# Not "1-HL", which begins with a digit, too.
NUMBER = re.compile(r"[+−-]?(\d[\d.,]*(e[+-]?\d+)?|nan|inf)(?=$|[\s(%–])")
DASH = "–"
# Longer texts do not stay in sight while a table scrolls: on a phone nothing else would be.
MOST_IN_SIGHT = 28


@dataclass(frozen=True)
class Section:
    """What an item adds to the page.

    Attributes
    ----------
    name : str
        Short name, such as "table2".
    title : str
    tables : list of ResultTable
    figures : dict of str to Path
        SVG files by stem, such as "fig5-corel5k-paper".
    """

    name: str
    title: str
    tables: list[ResultTable]
    figures: dict[str, Path]


def write_page(path: Path, setup: dict[str, Any], sections: list[Section]) -> None:
    """Write the page of `render_page` to a file, whole or not at all."""
    write_text(path, render_page(setup, sections))


def render_page(setup: dict[str, Any], sections: list[Section]) -> str:
    """The page as text.

    Parameters
    ----------
    setup : dict
        "version", "command", "repeats", "seeds" (list of int), "protocols" (descriptions by
        name), "datasets" (list of dicts with "name", "title", "n_samples", "n_labels", "views",
        "digest" and "lam", None where it was chosen on held-out entries) and "missing" (sentences
        about what is not there yet). The views of a dataset are ``{view: [n_rows, n_columns]}``.
    sections : list of Section
        In the order of the page.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("naim3l_bench"),
        autoescape=True,  # names of datasets and views are the user's
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(TEMPLATE).render(
        setup=setup,
        seeds=_seeds(setup["seeds"]),
        limit=f"{WITHIN:g}",
        marks=_count_marks(table for section in sections for table in section.tables),
        sections=[_lay_out(section, list(setup["protocols"])) for section in sections],
    )


def _lay_out(section: Section, protocols: Sequence[str]) -> dict[str, Any]:
    """A section as the template needs it."""
    anchor = "item-" + re.sub(r"[^\w-]", "-", section.name)
    return {
        "id": anchor,
        "title": section.title,
        "marks": _count_marks(section.tables),
        "tables": [
            _lay_out_table(table, f"{anchor}-table-{i}") for i, table in enumerate(section.tables)
        ],
        "figures": [
            _lay_out_figure(
                path, f"{anchor}-figure-{i}", section, _caption(section, stem, protocols)
            )
            for i, (stem, path) in enumerate(section.figures.items())
        ],
    }


def _count_marks(tables: Iterable[ResultTable]) -> Mapping[str, int]:
    return Counter(cell.mark for table in tables for row in table.rows for cell in row)


def _lay_out_table(table: ResultTable, anchor: str) -> dict[str, Any]:
    numeric = [_is_numeric(row[i].text for row in table.rows) for i in range(len(table.header))]
    # The columns of text at the left say what a row is about; there is always one.
    n_heads = max(1, numeric.index(True) if True in numeric else 1)
    kinds = ["head" if i < n_heads else "number" if n else "text" for i, n in enumerate(numeric)]
    groups = [(first, list(rows)) for first, rows in groupby(table.rows, lambda row: row[0])]
    grouped = n_heads > 1 and len(groups) < len(table.rows)
    start = 1 if grouped else 0
    longest = max((len(row[n_heads - 1].text) for row in table.rows), default=0)
    return {
        "id": anchor,
        "title": table.title,
        "note": table.note,
        "header": list(zip(table.header, kinds, strict=True))[start:],
        # Number of the column that stays in sight, from 1, or 0.
        "stays": n_heads - start if longest <= MOST_IN_SIGHT else 0,
        # Rows that have their first cell in common stand under it.
        "group_by": table.header[0] if grouped else None,
        "groups": [
            (first, [list(zip(row, kinds, strict=True))[start:] for row in rows])
            for first, rows in (groups if grouped else [(None, table.rows)])
        ],
    }


def _is_numeric(texts: Iterable[str]) -> bool:
    """Whether at least half of the texts that are no dash start as numbers do."""
    known = [text for text in texts if text != DASH]
    return 2 * sum(NUMBER.match(text) is not None for text in known) >= len(known)


def _lay_out_figure(path: Path, anchor: str, section: Section, caption: str) -> dict[str, Any]:
    from markupsafe import Markup

    label = section.title if caption == section.title else f"{section.title}: {caption}"
    svg = inline_svg(path.read_text(encoding="utf-8"), anchor, label)
    return {"id": anchor, "caption": caption, "label": label, "svg": Markup(svg)}


def _caption(section: Section, stem: str, protocols: Iterable[str]) -> str:
    """What a figure is about, from its stem ``<item>-<dataset>-<protocol>``."""
    if stem == section.name:
        return section.title
    about = stem.removeprefix(f"{section.name}-")
    for protocol in protocols:
        if about.endswith(f"-{protocol}"):
            return f"{about.removesuffix(f'-{protocol}')}, protocol {protocol}"
    return about


def _seeds(seeds: Sequence[int]) -> str:
    """``0 to 9`` for numbers that follow each other, else all of them."""
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(str(seed) for seed in seeds)
