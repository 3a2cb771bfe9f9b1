"""The results folder: numbers as JSON, tables as Markdown, figures, and one HTML page with all.

The page loads nothing, runs no script and has no date in it: the same results give the same bytes.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from naim3l import __version__
from naim3l.extend import inline_svg
from naim3l_bench.datasets import CATALOG, STAND_IN
from naim3l_bench.files import file_name, write_text
from naim3l_bench.items import ITEMS
from naim3l_bench.plots import save
from naim3l_bench.present import WITHIN, ResultTable, to_markdown
from naim3l_bench.records import Record, Store, is_store
from naim3l_bench.runner import missing_tasks
from naim3l_bench.tasks import Plan, Task, distinct, paper_lam, paper_name

PROTOCOL_TEXTS = {
    "paper": "Features are fitted on all rows, test rows included, as in the paper's experiments; "
    "test views are complete; metrics per view, then averaged over views.",
    "clean": "As paper, but every preprocessing step is fitted on training rows only.",
    "fused": "Trained as clean; half of the test views are hidden, the scores of the others "
    "averaged per sample; a sample without a positive counts with AP 0.",
}
BEGIN = "<!-- tables: made by the command above, do not edit -->"
END = "<!-- end of tables -->"


@dataclass(frozen=True)
class ItemResult:
    """Numbers and tables of an item, and sentences on what they lack."""

    name: str
    title: str
    numbers: dict[str, Any]
    tables: list[ResultTable]
    missing: list[str]


def collect_results(plan: Plan, names: Sequence[str], store: Store) -> list[ItemResult]:
    """Numbers and tables of items, from the existing records."""
    results = []
    for name in names:
        item = ITEMS[name]
        numbers = item.numbers(plan, store)
        tables = [_with_stand_ins(table, plan) for table in item.tables(numbers)]
        missing = _missing(name, distinct(item.tasks(plan)), store)
        results.append(ItemResult(name, item.TITLE, numbers, tables, missing))
    return results


def _missing(name: str, tasks: Sequence[Task], store: Store) -> list[str]:
    """What an item's tables lack: computations not done, and those that failed, with reasons."""
    sentences = []
    lacking = len(missing_tasks(tasks, store))
    if lacking:
        sentences.append(f"{name}: {lacking} of {len(tasks)} computations are missing")
    failed = Counter(
        (record["settings"].get("dataset", ""), _why(record))
        for record in map(store.get, tasks)
        if record is not None and _why(record)
    )
    for (dataset, reason), count in failed.items():
        where = f" on {dataset}" if dataset else ""
        sentences.append(
            f"{name}: {count} of {len(tasks)} not possible{where}: {reason.rstrip('.')}"
        )
    return sentences


def _why(record: Record) -> str:
    """Why a record has no metrics, or no fused ones; empty if it has all."""
    if "impossible" in record:
        return str(record["impossible"])
    nothing_fused = "metrics" in record and record["metrics"]["fused"] is None
    return "half of the test views cannot be hidden: nothing is fused" if nothing_fused else ""


def _with_stand_ins(table: ResultTable, plan: Plan) -> ResultTable:
    """The table with a sentence on views of its datasets that stand in for the paper's."""
    words = {*re.split(r"[:,] ", table.title), *(row[0].text for row in table.rows)}
    note = table.note
    for name, source in plan.sources.items():
        stand_ins = [view for view in source.views if view.endswith(STAND_IN)]
        if name in words and stand_ins:
            note += (
                f" {name}: {len(source.views) - len(stand_ins)} genuine views and "
                f"{len(stand_ins)} recomputed ones ({', '.join(stand_ins)})."
            )
    return replace(table, note=note.strip())


def write_results(
    out: str | os.PathLike[str], plan: Plan, results: Sequence[ItemResult], command: str
) -> Path:
    """Write ``results.json``, ``tables.md``, ``figures/`` and ``index.html``; path of the page.

    Parameters
    ----------
    out : path of a folder that exists
    plan : Plan
    results : sequence of ItemResult
    command : str
        What the user typed, for the record.
    """
    folder = Path(out)
    numbers_file, tables_file, page = written_files(folder)
    (folder / "figures").mkdir(exist_ok=True)
    setup = describe(plan, results, command)
    numbers = {result.name: result.numbers for result in results}
    write_text(
        numbers_file,
        json.dumps({"setup": setup, "numbers": numbers}, indent=1, allow_nan=False) + "\n",
    )
    write_text(tables_file, markdown(results))
    sections = []
    for result in results:
        draw = getattr(ITEMS[result.name], "figures", None)
        figures = {} if draw is None else draw(result.numbers)
        paths = {
            name: save(figure, folder / "figures" / file_name(name))[0]
            for name, figure in figures.items()
        }
        sections.append(Section(result.name, result.title, result.tables, paths))
    write_page(page, setup, sections)
    return page


def written_files(folder: Path) -> list[Path]:
    """What `write_results` writes to a folder, besides figures: numbers, tables and the page."""
    return [folder / name for name in ("results.json", "tables.md", "index.html")]


def check_folder(folder: Path) -> None:
    """Refuse a folder in which files that are not ours would be overwritten."""
    if not is_store(folder) and (others := [p for p in written_files(folder) if p.exists()]):
        raise ValueError(
            f"{others[0]} exists, and {folder} contains no results of an earlier run; name another "
            "folder for the results."
        )


def describe(plan: Plan, results: Sequence[ItemResult], command: str) -> dict[str, Any]:
    """All that a reader needs to know about the run, as plain values."""
    return {
        "version": __version__,
        "command": command,
        "repeats": plan.repeats,
        "seeds": list(plan.seeds),
        "protocols": {name: PROTOCOL_TEXTS[name] for name in plan.protocols},
        "datasets": [
            {
                "name": name,
                "title": CATALOG[paper_name(name)].title if paper_name(name) in CATALOG else name,
                "n_samples": source.n_samples,
                "n_labels": source.n_labels,
                "views": {view: list(shape) for view, shape in source.shapes.items()},
                "digest": source.digest,
                "lam": paper_lam(name),
            }
            for name, source in plan.sources.items()
        ],
        "missing": [sentence for result in results for sentence in result.missing],
    }


def markdown(results: Sequence[ItemResult]) -> str:
    """All tables in Markdown, under a heading per item."""
    parts = []
    for result in results:
        if any(table.rows for table in result.tables):
            parts += [f"## {result.title}", ""]
            parts += [to_markdown(table) for table in result.tables if table.rows]
    return "\n".join(parts)


def split_document(path: str | os.PathLike[str]) -> tuple[str, str]:
    """The text before and after the tables of a Markdown document, its marks included."""
    text = Path(path).read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(
            f"{os.fspath(path)}: needs one line '{BEGIN}' and, after it, one line '{END}'; the "
            "tables go between them."
        )
    head, rest = text.split(BEGIN)
    return head + BEGIN, END + rest.split(END)[1]


def update_document(path: str | os.PathLike[str], tables: str) -> None:
    """Replace the text between the two marks of a Markdown document by new tables."""
    head, tail = split_document(path)
    write_text(path, f"{head}\n\n{tables}\n{tail}")


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
