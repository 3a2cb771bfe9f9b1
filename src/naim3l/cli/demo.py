"""``naim3l demo``: the model, its variants and a tuned ridge on the yeast data.

Estimators are imported where they are needed, because all commands import this module.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from naim3l.cli.app import Command, app, print_table, report_errors, say
from naim3l.cli.options import AsJson, print_json
from naim3l.cli.report import page_files, write_page

LAM = 0.4
# With two views, half of the rows cannot leave both: the first positive of each label stays in
# both, and everyone else in one. This is the most that leaves every split possible.
ALPHA = 0.497
BETA = 0.5
RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0)
LAMS_AND_RIDGES = [(lam, ridge) for lam in (0.1, 0.4, 1.6) for ridge in (0.0, 1.0, 10.0)]
METRICS = ("1-HL", "1-RL", "AP", "AUC")

Tables = Mapping[str, Any]
Fit = Callable[[Tables, Tables, int], Any]
Summary = dict[str, dict[str, tuple[float, float]]]


def _naim3l(**terms: Any) -> Fit:
    def fit(X: Tables, Y: Tables, seed: int) -> Any:
        from naim3l.estimators import NAIM3L

        return NAIM3L(LAM, ridge=0.0, random_state=seed, **terms).fit(X, Y)

    return fit


def _tuned_naim3l(X: Tables, Y: Tables, seed: int) -> Any:
    from naim3l.estimators import NAIM3L
    from naim3l.estimators.candidates import best_on_held_out

    candidates = [NAIM3L(lam, ridge=ridge, random_state=seed) for lam, ridge in LAMS_AND_RIDGES]
    return best_on_held_out(candidates, X, Y, random_state=seed)


def _tuned_ridge(X: Tables, Y: Tables, seed: int) -> Any:
    from naim3l.estimators import PerViewRidge
    from naim3l.estimators.candidates import best_on_held_out

    return best_on_held_out([PerViewRidge(r) for r in RIDGES], X, Y, random_state=seed)


# Functions of training tables, labels and a seed that return a fitted model.
METHODS: dict[str, Fit] = {
    "NAIM3L": _naim3l(),
    "NAIM3L-II (low rank only)": _naim3l(variant="low-rank"),
    "NAIM3L-I (loss only)": _naim3l(variant="loss"),
    "NAIM3L, lam and ridge tuned": _tuned_naim3l,
    "per-view ridge, tuned": _tuned_ridge,
}


@app.command(cls=Command)
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
    from naim3l.files.atomic_write import check_outputs

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


def run_demo(
    seeds: Iterable[int],
    *,
    methods: Mapping[str, Fit] = METHODS,
    on_record: Callable[[dict[str, Any]], Any] | None = None,
) -> list[dict[str, Any]]:
    """Metrics of every method on every seed, a record each, in percent.

    Each seed draws a split, hidden labels, removed views and row orders; all methods get the
    same. Metrics are taken per view on complete test views and averaged over views.

    Parameters
    ----------
    seeds : iterable of int
    methods : mapping of str to callable
        Fitted model of training tables, labels and a seed, by name.
    on_record : callable, optional
        Called with each record as soon as it is complete.
    """
    from naim3l.datasets import load_yeast
    from naim3l.metrics import evaluate

    data = load_yeast()
    records = []
    for seed in seeds:
        trial = _trial(data, seed)
        for method, fit in methods.items():
            model = fit(trial.X_train, trial.Y_train, seed)
            result = evaluate(trial.Y_test, model.decision_function(trial.X_test))
            record: dict[str, Any] = {"method": method, "seed": seed}
            record |= {name: 100 * result[name] for name in METRICS}
            records.append(record)
            if on_record is not None:
                on_record(record)
    return records


def _trial(data: Any, seed: int) -> Any:
    """Training and test tables of the yeast data under all three challenges."""
    from naim3l.datasets import make_challenge

    challenge = make_challenge(
        data.labels, len(data.views), alpha=ALPHA, beta=BETA, random_state=seed
    )
    return challenge.apply(data.views, data.labels)


def summarise(records: Iterable[dict[str, Any]]) -> Summary:
    """Mean and population standard deviation of each metric of each method over the seeds."""
    by_method: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        by_method.setdefault(record["method"], []).append(record)
    return {
        method: {name: _mean_and_deviation([record[name] for record in group]) for name in METRICS}
        for method, group in by_method.items()
    }


def _mean_and_deviation(values: list[float]) -> tuple[float, float]:
    import numpy as np

    return float(np.mean(values)), float(np.std(values))


def _write_page(report: Path) -> None:
    """Page about the model of the table, in its first trial; quality is that of the test rows."""
    from naim3l.datasets import load_yeast

    data = load_yeast()
    trial = _trial(data, 0)
    model = next(iter(METHODS.values()))(trial.X_train, trial.Y_train, 0)
    model.names_.labels = list(data.label_names)  # arrays have none of their own
    write_page(model, trial.X_train, trial.Y_train, report, test=(trial.X_test, trial.Y_test))


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
