"""``naim3l demo``: the model, its variants and a tuned ridge on the yeast data."""

from typing import Annotated, Any

import typer

from naim3l.cli.app import app, print_table


@app.command()
def demo(
    seeds: Annotated[int, typer.Option(min=1, help="Number of random splits.")] = 5,
    markdown: Annotated[bool, typer.Option(help="Print the table in Markdown.")] = False,
) -> None:
    """Train on the yeast data under all three challenges and compare.

    Half of the labels are hidden, half of the rows of each view removed, and the rows of each view
    shuffled. Ctrl-C prints what is finished.

    Example: naim3l demo --seeds 3
    """
    from naim3l.experiments.demo import ALPHA, BETA, LAM, METHODS, run_demo, summarise
    from naim3l.progress import progress_bar

    records: list[dict[str, Any]] = []
    with progress_bar("yeast", seeds * len(METHODS), shown=True) as advance:

        def keep(record: dict[str, Any]) -> None:
            records.append(record)
            advance(record["method"])

        try:
            run_demo(range(seeds), on_record=keep)
        except KeyboardInterrupt:
            if not records:
                raise
    n_whole = len(records) // len(METHODS)
    if n_whole:  # a seed that not every method has seen would bias the comparison
        records = records[: n_whole * len(METHODS)]
    title = (
        f"yeast, {100 * ALPHA:.1f} % of each view's training rows removed, {100 * BETA:.0f} % of "
        f"labels hidden, rows shuffled;\nlam {LAM}, {max(n_whole, 1)} seeds: mean (standard "
        "deviation) in percent, per view, averaged over views"
    )
    _print_summary(summarise(records), title, markdown=markdown)
    if n_whole < seeds:
        typer.echo(f"Interrupted: {n_whole} of {seeds} seeds are whole.", err=True)
        raise typer.Exit(130)


def _print_summary(
    summary: dict[str, dict[str, tuple[float, float]]], title: str, *, markdown: bool
) -> None:
    metrics = list(next(iter(summary.values())))
    rows = [
        [method, *(f"{mean:.2f} ({std:.2f})" for mean, std in values.values())]
        for method, values in summary.items()
    ]
    if markdown:
        typer.echo(f"{title}\n")
        for row in [["method", *metrics], ["---"] * (len(metrics) + 1), *rows]:
            typer.echo(f"| {' | '.join(row)} |")
        return
    print_table(title, ["method", *metrics], rows)
