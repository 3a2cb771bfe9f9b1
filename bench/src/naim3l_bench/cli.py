"""The command line ``naim3l-bench``: the only module that prints.

Modules of experiments are imported where they are needed, so that help is shown at once.
"""

import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.text import Text

ALL, FAST = "all", "fast"
OUT = Path("naim3l-results")
# To this many characters the first columns of a table are wrapped to make room for numbers.
LEAST_WIDTH = 16

app = typer.Typer(
    help="Experiments of the NAIM3L paper, and beyond it. Exit codes: 0 success, 1 an error that "
    "is reported, 2 wrong usage, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

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
    typer.Option(
        min=0,
        help="Seed of the first split; those of the others follow it. Tables are of these splits "
        "only.",
    ),
]
Out = Annotated[
    Path, typer.Option("--out", "-o", help="Results folder; resumes an interrupted run there.")
]
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
        typer.Argument(
            help="table1 to table7, fig2 to fig8, ablation, beside, decisions, rules, fusion, "
            "accuracy, blend, frontier, compare; or all."
        ),
    ],
    data: Data = None,
    dataset: Datasets = None,
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            "--protocol",
            help="paper, clean or fused; repeat for several. Default: paper; all three for 'all'.",
        ),
    ] = None,
    repeats: Repeats = 10,
    first_seed: FirstSeed = 0,
    out: Out = OUT,
    jobs: Jobs = None,
    quick: Annotated[bool, typer.Option(help="Table 7: small sizes only.")] = False,
    report_only: ReportOnly = False,
    markdown: Markdown = None,
) -> None:
    """Reproduce a table or figure of the paper, with our numbers beside the published ones.

    Every fit is saved as soon as it is done: the same command resumes a run that was interrupted or
    killed. The results folder gets one page, index.html, with the tables and figures that were
    asked for, and the numbers as JSON; "all --report-only" makes the page of all results so far.

    Example: naim3l-bench reproduce table2 --dataset corel5k --data ~/lear --repeats 10
    """
    with report_errors():
        names = _items(items)
        seeds = {"repeats": repeats, "first_seed": first_seed}
        plan = make_plan(names, data, dataset, protocol, quick=quick, **seeds)
        shown = run_items(names, plan, out, jobs, report_only, markdown)
    shown.print()


@app.command()
def compare(
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            help="Method by name; repeat for several. Or fast: those that need half a minute on "
            "Corel5k. Default: all.",
        ),
    ] = None,
    data: Data = None,
    dataset: Datasets = None,
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            "--protocol",
            help="paper: features are fitted on all rows, as in the paper. clean: on training rows "
            "only. Default: paper.",
        ),
    ] = None,
    repeats: Repeats = 10,
    first_seed: FirstSeed = 0,
    out: Out = OUT,
    jobs: Jobs = None,
    report_only: ReportOnly = False,
    markdown: Markdown = None,
) -> None:
    """Compare NAIM3L with other methods, with our numbers beside those of the paper.

    All methods have the same splits, features, missing views and missing labels, and choose their
    parameters in the same way. Methods that need aligned rows are given them. Fits are saved as
    those of 'naim3l-bench reproduce', of which this is item "compare": the same command resumes a
    run, and one results folder can be used for both.

    Example: naim3l-bench compare --dataset yeast --methods NAIM3L --methods DM2L --repeats 2
    """
    with report_errors():
        seeds = {"repeats": repeats, "first_seed": first_seed}
        chosen = _methods(methods or [ALL])
        plan = make_plan(["compare"], data, dataset, protocol, methods=chosen, **seeds)
        shown = run_items(["compare"], plan, out, jobs, report_only, markdown)
    shown.print()


@app.command()
def datasets(
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder of datasets to check.")
    ] = None,
    convert: Annotated[
        str | None, typer.Option("--convert", help="Dataset to write as one .npz file.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File for --convert; default NAME.npz.")
    ] = None,
) -> None:
    """List the datasets of the experiments, check those in a folder, or convert one.

    With --data, every dataset in the folder, in any form (LEAR files, .mat, .npz), is opened and
    compared with the paper's Table 1. The exit code is 1 if a fact does not hold.

    Example: naim3l-bench datasets --data ~/lear --convert corel5k -o corel5k.npz
    """
    from naim3l_bench.datasets import CATALOG

    if out is not None and convert is None:
        raise typer.BadParameter("--out needs --convert.")
    if convert is not None:
        _convert(convert, data, out)
    elif data is not None:
        _check(data)
    else:
        header = ["name", "dataset", "rows", "labels", "labels per row", "lambda", "origin"]
        rows = []
        for name, facts in CATALOG.items():
            lam = "–" if facts.lam is None else f"{facts.lam:g}"
            sizes = [str(facts.n_samples), str(facts.n_labels), f"{facts.labels_per_row:.3f}"]
            rows.append([name, facts.title, *sizes, lam, facts.origin])
        print_table("Datasets of the experiments", header, rows, n_left=2)


def _check(folder: Path) -> None:
    from naim3l_bench.datasets import EMBEDDED, available, check_dataset, open_dataset

    all_hold = True
    with report_errors():
        found = {name: form for name, form in available(folder).items() if form != EMBEDDED}
        if not found:
            raise ValueError(
                f"{folder} has none of the datasets that 'naim3l-bench datasets' lists."
            )
        for name, form in found.items():
            source = open_dataset(name, folder)
            checks = check_dataset(name, source)
            views = ", ".join(f"{view} {shape[1]}" for view, shape in source.shapes.items())
            rows = [
                [check.fact, f"{check.expected:g}", f"{check.found:g}", "yes" if check.ok else "NO"]
                for check in checks
            ]
            print_table(f"{name} ({form}): {views}", ["fact", "expected", "found", "holds"], rows)
            all_hold &= all(check.ok for check in checks)
    if not all_hold:
        raise typer.Exit(1)


def _convert(name: str, folder: Path | None, out: Path | None) -> None:
    from naim3l_bench.datasets import open_dataset, save_npz
    from naim3l_bench.files import check_outputs, file_name

    with report_errors():
        target = Path(f"{file_name(name)}.npz") if out is None else out
        source = open_dataset(name, folder)
        check_outputs([target], source.files)
        save_npz(target, source.views, source.labels, source.label_names, source.observed)
        print(f"Wrote {target}.")


def _items(items: list[str]) -> list[str]:
    from naim3l_bench.items import ALIASES, ITEMS

    names = [ALIASES.get(item, item) for item in items]
    for item, name in zip(items, names, strict=True):
        if name != ALL and name not in ITEMS:
            known = ", ".join([*ITEMS, *ALIASES, ALL])
            raise ValueError(f"there is no item {item!r}; known are: {known}.")
    return list(ITEMS) if ALL in names else list(dict.fromkeys(names))


def _methods(names: list[str]) -> tuple[str, ...]:
    from naim3l_bench.rivals import RIVALS

    groups = {ALL: list(RIVALS), FAST: [name for name, rival in RIVALS.items() if not rival.slow]}
    for name in names:
        if name not in groups and name not in RIVALS:
            known = ", ".join([*RIVALS, *groups])
            raise ValueError(f"there is no method {name!r}; known are: {known}.")
    wanted = {method for name in names for method in groups.get(name, [name])}
    return tuple(name for name in RIVALS if name in wanted)


def make_plan(
    names: list[str],
    data: Path | None,
    dataset: list[str] | None,
    protocol: list[str] | None,
    **options: Any,
) -> Any:
    """What was asked for, as `Plan`, which has the options."""
    from naim3l_bench.datasets import GENUINE, STAND_IN, available, open_dataset
    from naim3l_bench.items import ITEMS
    from naim3l_bench.tasks import PROTOCOLS, Plan

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
                    print(*([table.note, ""] if table.note else [""]), sep="\n")
            for missing in result.missing:
                print(f"{missing}.", file=sys.stderr)
        print(f"Page: {self.page}", flush=True)
        if self.interrupted:
            print("Interrupted. The same command resumes from here.", file=sys.stderr)
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
    from naim3l_bench import results
    from naim3l_bench.files import check_outputs
    from naim3l_bench.records import Store

    outputs = results.written_files(out)
    if markdown is not None:
        results.split_document(markdown)  # refuse a wrong document before hours of work, not after
        if markdown.resolve() in [path.resolve() for path in outputs]:
            raise ValueError(f"{markdown} would be written twice; name different files.")
        outputs.append(markdown)
    check_outputs(outputs, [path for source in plan.sources.values() for path in source.files])
    results.check_folder(out)
    store = Store(out)
    interrupted = False
    if not report_only:
        interrupted = _compute(plan, names, store, jobs)
    found = results.collect_results(plan, names, store)
    page = results.write_results(out, plan, found, shlex.join(["naim3l-bench", *sys.argv[1:]]))
    if markdown is not None:
        results.update_document(markdown, results.markdown(found))
    return Shown(found, page, interrupted)


def _compute(plan: Any, names: list[str], store: Any, jobs: int | None) -> bool:
    """Run what the store lacks, item by item; True if Ctrl-C ended it."""
    from naim3l_bench.items import ITEMS
    from naim3l_bench.runner import default_jobs, missing_tasks, run_tasks

    tasks = [task for name in names for task in ITEMS[name].tasks(plan)]
    todo = missing_tasks(tasks, store)
    with _progress_bar(len(todo)) as advance:
        try:
            run_tasks(todo, plan.sources, store, n_jobs=jobs or default_jobs(), on_record=advance)
        except KeyboardInterrupt:
            store.reload()  # workers may have finished more than they could report
            return True
        except BrokenExecutor as error:
            raise OSError(
                "a worker process was killed, perhaps for lack of memory; finished fits are kept. "
                "Run the command again with fewer --jobs."
            ) from error
    return False


@contextmanager
def _progress_bar(total: int) -> Iterator[Any]:
    """Function to call with each new record; the bar is shown on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = ("fits", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns, "{task.fields[note]}", console=console, disable=not console.is_terminal
    ) as bars:
        bar = bars.add_task("fits", total=total, note="")

        def advance(record: dict[str, Any]) -> None:
            settings = record["settings"]
            shown = (settings.get(name) for name in ("dataset", "method", "seed"))
            note = " ".join(str(value) for value in shown if value is not None)
            bars.update(bar, advance=1, note=note)

        yield advance


@contextmanager
def report_errors() -> Iterator[None]:
    """Report errors that the user can fix by their message, without a traceback, and exit with 1.

    Warnings are reported in the same way, each once, without the line of code that raised them.
    """
    reported: set[str] = set()

    def report(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in reported:
            print(f"naim3l-bench: warning: {message}", file=sys.stderr)
        reported.add(str(message))

    try:
        with warnings.catch_warnings():
            warnings.showwarning = report
            yield
    except (OSError, ValueError, ImportError, MemoryError) as error:
        print(f"naim3l-bench: {error}", file=sys.stderr)
        raise typer.Exit(1) from error


def _shown(cell: Any) -> "Text":
    """Text of a cell, coloured by whether our number agrees with the published one."""
    from rich.text import Text

    styles = {"within": "green", "outside": "dark_orange", "published": "italic"}
    return Text(cell.text, style=styles.get(cell.mark, ""))


def print_table(
    title: str, header: Sequence[str], rows: "Sequence[Sequence[str | Text]]", *, n_left: int = 1
) -> None:
    """Print a table, its first columns aligned left, the others, which are numbers, right.

    Where the terminal is too narrow, the first columns are wrapped, and numbers that do not fit
    beside them are printed in tables below.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=200)  # a pipe has no width of its own
    console.print(Text(title), style="italic")
    cells = [
        [Text(text) if isinstance(text, str) else text for text in row] for row in (header, *rows)
    ]
    # A column also has two spaces and a line.
    widths = [max(cell.cell_len for cell in column) + 3 for column in zip(*cells, strict=True)]
    room = console.width - 1 - sum(min(width, LEAST_WIDTH) for width in widths[:n_left])
    for group in _groups(widths[n_left:], room):
        table = Table()
        shown = [*range(n_left), *(n_left + j for j in group)]
        for j in shown:
            is_number = j >= n_left
            table.add_column(
                cells[0][j],
                justify="right" if is_number else "left",
                no_wrap=is_number and widths[j] <= room,
                overflow="fold",
            )
        for row in cells[1:]:
            table.add_row(*(row[j] for j in shown))
        console.print(table)


def _groups(widths: Sequence[int], room: int) -> list[list[int]]:
    """Neighbouring columns that fit into a width together; at least one in each group."""
    groups: list[list[int]] = [[]]
    for j, width in enumerate(widths):
        if groups[-1] and sum(widths[k] for k in groups[-1]) + width > room:
            groups.append([])
        groups[-1].append(j)
    return groups
