"""``naim3l demo``: the model, its variants and a tuned ridge on the yeast data."""

from pathlib import Path
from typing import Annotated, Any

import typer

from naim3l.cli.app import app, print_table, report_errors, say
from naim3l.cli.common import AsJson, print_json
from naim3l.cli.report import page_files, write

Summary = dict[str, dict[str, tuple[float, float]]]


@app.command()
def demo(
    seeds: Annotated[int, typer.Option(min=1, help="Number of random splits.")] = 5,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a table in Markdown.")
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option("--report", help="Report page to write about NAIM3L with the first seed."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train on the yeast data under all three challenges and compare.

    Half of the labels are hidden, half of the rows of each view removed, and the rows of each view
    shuffled. Ctrl-C prints the results so far.

    Example: naim3l demo --seeds 3 --report demo.html
    """
    from naim3l._progress import progress_bar
    from naim3l.experiments.yeast_demo import ALPHA, BETA, LAM, METHODS, run_demo, summarise
    from naim3l.files.whole import check_outputs

    with report_errors():
        if markdown and as_json:
            raise ValueError("give either --markdown or --json, not both.")
        check_outputs(page_files(report))
    records: list[dict[str, Any]] = []
    with progress_bar("yeast", seeds * len(METHODS), shown=not as_json) as advance:

        def keep(record: dict[str, Any]) -> None:
            records.append(record)
            advance(record["method"])

        try:
            run_demo(range(seeds), on_record=keep)
        except KeyboardInterrupt:
            if not records:
                raise
    n_whole = len(records) // len(METHODS)
    if n_whole:  # a seed that some methods lack would bias the comparison
        records = records[: n_whole * len(METHODS)]
    several = n_whole > 1
    shown = (
        f"{n_whole} seeds: mean (standard deviation) in percent" if several else "1 seed: percent"
    )
    title = (
        f"yeast, {100 * ALPHA:.1f} % of each view's training rows removed, {100 * BETA:.0f} % of "
        f"labels hidden, rows shuffled;\nlam {LAM}, {shown}, per view, averaged over views"
    )
    if as_json:
        about = {"dataset": "yeast", "alpha": ALPHA, "beta": BETA, "lam": LAM, "seeds": n_whole}
        print_json(about | {"records": records})
    else:
        _print_summary(summarise(records), title, markdown=markdown, spread=several)
    if n_whole < seeds:
        say(f"Interrupted: {n_whole} of {seeds} seeds are complete.", err=True)
        raise typer.Exit(130)
    if report is not None:
        with report_errors():
            _write_page(report)
        say(f"Wrote {report}.", err=True)  # standard output may be read by a program


def _write_page(report: Path) -> None:
    """Page about the model of the table, in its first trial; quality is that of the test rows."""
    from naim3l.datasets import load_yeast
    from naim3l.experiments.yeast_demo import ALPHA, BETA, METHODS
    from naim3l.missing import make_challenge

    data = load_yeast()
    challenge = make_challenge(data.labels, len(data.views), alpha=ALPHA, beta=BETA, random_state=0)
    trial = challenge.apply(data.views, data.labels)
    model = next(iter(METHODS.values()))(trial.X_train, trial.Y_train, 0)
    model.reader_.label_names_ = list(data.label_names)  # arrays have none of their own
    write(model, trial.X_train, trial.Y_train, report, test=(trial.X_test, trial.Y_test))


def _print_summary(summary: Summary, title: str, *, markdown: bool, spread: bool) -> None:
    metrics = list(next(iter(summary.values())))
    shown = "{:.2f} ({:.2f})" if spread else "{:.2f}"  # one seed has no standard deviation
    rows = [
        [method, *(shown.format(*numbers) for numbers in values.values())]
        for method, values in summary.items()
    ]
    if markdown:
        say(*title.split("\n"), "")
        for row in [["method", *metrics], ["---"] * (len(metrics) + 1), *rows]:
            say(f"| {' | '.join(row)} |")
        return
    from rich.text import Text

    print_table(Text(title), ["method", *metrics], rows)
