"""``naim3l reproduce``: a table or figure of the paper, or all of them."""

import shlex
import sys
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from naim3l.cli.app import app, need_libraries, print_table, report_errors, say

if TYPE_CHECKING:
    from rich.text import Text

ALL = "all"
LIBRARIES = ("jinja2", "matplotlib", "scikit_posthocs")


Data = Annotated[
    Path | None, typer.Option("--data", help="Folder of the datasets; yeast needs none.")
]
Datasets = Annotated[
    list[str] | None,
    typer.Option("--dataset", help="Dataset by name; repeat for several. Default: all found."),
]
Repeats = Annotated[int, typer.Option(min=1, help="Number of random splits.")]
FirstSeed = Annotated[
    int,
    typer.Option(min=0, help="Seed of the first split; those of the others follow it. Tables are "
                             "of these splits only."),
]  # fmt: skip
Out = Annotated[
    Path, typer.Option("--out", "-o", help="Results folder; resumes an interrupted run there.")
]
OUT = Path("naim3l-results")
Jobs = Annotated[
    int | None, typer.Option(min=1, help="Number of fits at a time. Default: one per core.")
]
ReportOnly = Annotated[
    bool, typer.Option("--report-only", help="Compute nothing; show the results so far.")
]
Markdown = Annotated[Path | None, typer.Option(help="Markdown document whose tables to update.")]


@app.command()
def reproduce(
    items: Annotated[
        list[str],
        typer.Argument(help="table1 to table7, fig2 to fig8, ablation, beside, decisions, rules, "
                            "fusion, accuracy, blend, frontier, compare; or all."),
    ],
    data: Data = None,
    dataset: Datasets = None,
    protocol: Annotated[
        list[str] | None,
        typer.Option("--protocol", help="paper, clean or fused; repeat for several. Default: "
                                        "paper; all three for 'all'."),
    ] = None,
    repeats: Repeats = 10,
    first_seed: FirstSeed = 0,
    out: Out = OUT,
    jobs: Jobs = None,
    quick: Annotated[bool, typer.Option(help="Table 7: small sizes only.")] = False,
    report_only: ReportOnly = False,
    markdown: Markdown = None,
) -> None:  # fmt: skip
    """Reproduce a table or figure of the paper, with our numbers beside the published ones.

    Every fit is saved as soon as it is done: the same command resumes a run that was interrupted or
    killed. The results folder gets one page, index.html, with the tables and figures that were
    asked for, and the numbers as JSON; "all --report-only" makes the page of all results so far.

    Example: naim3l reproduce table2 --dataset corel5k --data ~/lear --repeats 10
    """
    with report_errors():
        need_libraries("'naim3l reproduce'", "reproduce", *LIBRARIES)
        names = _items(items)
        seeds = {"repeats": repeats, "first_seed": first_seed}
        plan = make_plan(names, data, dataset, protocol, quick=quick, **seeds)
        shown = run_items(names, plan, out, jobs, report_only, markdown)
    shown.print()


@dataclass(frozen=True)
class Shown:
    """Results of a command, to be printed."""

    results: list[Any]
    page: Path
    interrupted: bool

    def print(self) -> None:
        """Print all tables and what they lack; exit with 130 if Ctrl-C ended the computations."""
        for result in self.results:
            for table in result.tables:
                rows = [[_shown(cell) for cell in row] for row in table.rows]
                if rows:
                    print_table(table.title, table.header, rows, n_left=2)
                    say(*([table.note, ""] if table.note else [""]))
            for missing in result.missing:
                say(f"{missing}.", err=True)
        say(f"Page: {self.page}")
        if self.interrupted:
            say("Interrupted. The same command resumes from here.", err=True)
            raise typer.Exit(130)


def run_items(
    names: list[str],
    plan: Any,
    out: Path,
    jobs: int | None,
    report_only: bool,
    markdown: Path | None,
) -> Shown:
    """Compute what the results folder lacks of the items, and write its page."""
    from naim3l.experiments.records import Store
    from naim3l.experiments.results import (
        collect_results,
        split_document,
        update_document,
        write_results,
        written_files,
    )
    from naim3l.experiments.results import (
        markdown as to_markdown,
    )
    from naim3l.files.whole import check_outputs

    outputs = written_files(out)
    if markdown is not None:
        split_document(markdown)  # refuse a wrong document before hours of work, not after
        outputs.append(markdown)
    inputs = [path for source in plan.sources.values() for path in source.files]
    check_outputs(outputs, inputs, make_folders=True)
    _check_folder(out, written_files(out))
    store = Store(out)
    interrupted = False
    if not report_only:
        interrupted = _compute(plan, names, store, jobs)
    results = collect_results(plan, names, store)
    page = write_results(out, plan, results, shlex.join(["naim3l", *sys.argv[1:]]))
    if markdown is not None:
        update_document(markdown, to_markdown(results))
    return Shown(results, page, interrupted)


def _check_folder(folder: Path, files: list[Path]) -> None:
    """Refuse a folder in which files that are not ours would be overwritten."""
    from naim3l.experiments.records import is_store

    if not is_store(folder) and (others := [path for path in files if path.exists()]):
        raise ValueError(
            f"{others[0]} exists, and {folder} contains no results of an earlier run; name another "
            "folder for the results."
        )


def _items(items: list[str]) -> list[str]:
    from naim3l.experiments.items import ALIASES, ITEMS

    names = [ALIASES.get(item, item) for item in items]
    for item, name in zip(items, names, strict=True):
        if name != ALL and name not in ITEMS:
            known = ", ".join([*ITEMS, *ALIASES, ALL])
            raise ValueError(f"there is no item {item!r}; known are: {known}.")
    return list(ITEMS) if ALL in names else list(dict.fromkeys(names))


def make_plan(
    names: list[str],
    data: Path | None,
    dataset: list[str] | None,
    protocol: list[str] | None,
    **options: Any,
) -> Any:
    """What was asked for, as `Plan`, which has the options."""
    from naim3l.datasets import available, open_dataset
    from naim3l.datasets.catalog import GENUINE, STAND_IN
    from naim3l.experiments.items import ITEMS
    from naim3l.experiments.tasks import PROTOCOLS, Plan

    chosen = tuple(dict.fromkeys(protocol or (PROTOCOLS if names == list(ITEMS) else ["paper"])))
    unknown = [name for name in chosen if name not in PROTOCOLS]
    if unknown:
        raise ValueError(f"there is no protocol {unknown[0]!r}; known are: {', '.join(PROTOCOLS)}.")
    sources = {name: open_dataset(name, data) for name in dataset or available(data)}
    if not dataset:  # datasets with views that stand in for others are also tried without those
        for name, source in list(sources.items()):
            if any(view.endswith(STAND_IN) for view in source.views):
                sources[name + GENUINE] = open_dataset(name + GENUINE, data)
    return Plan(sources, protocols=chosen, **options)


def _compute(plan: Any, names: list[str], store: Any, jobs: int | None) -> bool:
    """Run what the store lacks, item by item; True if Ctrl-C ended it."""
    from naim3l._progress import progress_bar
    from naim3l.experiments.items import ITEMS
    from naim3l.experiments.runner import default_jobs, missing_tasks, run_tasks

    tasks = [task for name in names for task in ITEMS[name].tasks(plan)]
    todo = missing_tasks(tasks, store)
    with progress_bar("fits", len(todo), shown=True) as advance:
        try:
            run_tasks(
                todo,
                plan.sources,
                store,
                n_jobs=jobs or default_jobs(),
                on_record=lambda record: advance(_note(record)),
            )
        except KeyboardInterrupt:
            store.reload()  # workers may have finished more than they could report
            return True
        except BrokenExecutor as error:
            raise OSError(
                "a worker process was killed, perhaps for lack of memory; finished fits are kept. "
                "Run the command again with fewer --jobs."
            ) from error
    return False


def _note(record: dict[str, Any]) -> str:
    settings = record["settings"]
    shown = (settings.get(name) for name in ("dataset", "method", "seed"))
    return " ".join(str(value) for value in shown if value is not None)


def _shown(cell: Any) -> "Text":
    """Text of a cell, coloured by whether our number agrees with the published one."""
    from rich.text import Text

    styles = {"within": "green", "outside": "dark_orange", "published": "italic"}
    return Text(cell.text, style=styles.get(cell.mark, ""))
