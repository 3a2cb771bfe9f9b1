"""``naim3l compare``: NAIM3L and the methods that it is compared with, on the same splits."""

from typing import Annotated

import typer

from naim3l.cli.app import app, need_libraries, report_errors
from naim3l.cli.reproduce import (
    ALL,
    LIBRARIES,
    OUT,
    Data,
    Datasets,
    FirstSeed,
    Jobs,
    Markdown,
    Out,
    Repeats,
    ReportOnly,
    make_plan,
    run_items,
)

FAST = "fast"
ITEM = "compare"


@app.command()
def compare(
    methods: Annotated[
        list[str] | None,
        typer.Option("--methods", help="Method by name; repeat for several. Or fast: those "
                                       "that need half a minute on Corel5k. Default: all."),
    ] = None,
    data: Data = None,
    dataset: Datasets = None,
    protocol: Annotated[
        list[str] | None,
        typer.Option("--protocol", help="paper: features are fitted on all rows, as in the paper. "
                                        "clean: on training rows only. Default: paper."),
    ] = None,
    repeats: Repeats = 10,
    first_seed: FirstSeed = 0,
    out: Out = OUT,
    jobs: Jobs = None,
    report_only: ReportOnly = False,
    markdown: Markdown = None,
) -> None:  # fmt: skip
    """Compare NAIM3L with other methods, with our numbers beside those of the paper.

    All methods have the same splits, features, missing views and missing labels, and choose their
    parameters in the same way. Methods that need aligned rows are given them. Fits are saved as
    those of 'naim3l reproduce', of which this is item "compare": the same command resumes a run,
    and one results folder can be used for both.

    Example: naim3l compare --dataset yeast --methods NAIM3L --methods DM2L --repeats 2
    """
    with report_errors():
        need_libraries("'naim3l compare'", "reproduce", *LIBRARIES)
        seeds = {"repeats": repeats, "first_seed": first_seed}
        chosen = _methods(methods or [ALL])
        plan = make_plan([ITEM], data, dataset, protocol, methods=chosen, **seeds)
        shown = run_items([ITEM], plan, out, jobs, report_only, markdown)
    shown.print()


def _methods(names: list[str]) -> tuple[str, ...]:
    from naim3l.experiments.rivals import RIVALS

    groups = {ALL: list(RIVALS), FAST: [name for name, rival in RIVALS.items() if not rival.slow]}
    for name in names:
        if name not in groups and name not in RIVALS:
            known = ", ".join([*RIVALS, *groups])
            raise ValueError(f"there is no method {name!r}; known are: {known}.")
    wanted = {method for name in names for method in groups.get(name, [name])}
    return tuple(name for name in RIVALS if name in wanted)
