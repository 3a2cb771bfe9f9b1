"""``naim3l demo``: the model, its variants and a tuned ridge on the yeast data."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import typer

from naim3l.cli import options
from naim3l.cli.app import print_table, report_errors, say
from naim3l.cli.options import option, print_json
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
Seeds: Any = option("Number of random splits.", int, min=1)
Markdown: Any = option("Print a table in Markdown.", bool, "--markdown")


def _naim3l(X: Tables, Y: Tables, seed: int, variant: str = "full") -> Any:
    from naim3l.estimators import NAIM3L

    return NAIM3L(LAM, ridge=0.0, variant=variant, random_state=seed).fit(X, Y)


def _tuned(X: Tables, Y: Tables, seed: int, *, coupled: bool) -> Any:
    from naim3l.estimators import NAIM3L, PerViewRidge
    from naim3l.estimators.candidates import best_on_held_out

    ridges = [PerViewRidge(ridge) for ridge in RIDGES]
    models = [NAIM3L(lam, ridge=r, random_state=seed) for lam, r in LAMS_AND_RIDGES]
    return best_on_held_out(models if coupled else ridges, X, Y, random_state=seed)


# Functions of training tables, labels and a seed that return a fitted model.
METHODS: dict[str, Callable[[Tables, Tables, int], Any]] = {
    "NAIM3L": _naim3l,
    "NAIM3L-II (low rank only)": partial(_naim3l, variant="low-rank"),
    "NAIM3L-I (loss only)": partial(_naim3l, variant="loss"),
    "NAIM3L, lam and ridge tuned": partial(_tuned, coupled=True),
    "per-view ridge, tuned": partial(_tuned, coupled=False),
}


def demo(
    seeds: Seeds = 5,
    markdown: Markdown = False,
    report: options.Page = None,
    as_json: options.AsJson = False,
) -> None:
    """Train on the yeast data under all three challenges and compare.

    Half of the labels are hidden, half of the rows of each view removed, and the rows of each view
    shuffled. The page of --report is about NAIM3L with the first seed. Ctrl-C prints the results
    so far.

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
        try:
            for record in run_demo(range(seeds)):
                records.append(record)
                advance(record["method"])
        except KeyboardInterrupt:
            if not records:
                raise
    n_whole = len(records) // len(METHODS)
    if n_whole:  # a seed that some methods lack would bias the comparison
        records = records[: n_whole * len(METHODS)]
    if as_json:
        about = {"dataset": "yeast", "alpha": ALPHA, "beta": BETA, "lam": LAM, "seeds": n_whole}
        print_json(about | {"records": records})
    else:
        _print_summary(records, n_whole, markdown=markdown)
    if n_whole < seeds:
        say(f"Interrupted: {n_whole} of {seeds} seeds are complete.", err=True)
        raise typer.Exit(130)
    if report is not None:
        with report_errors():
            _write_page(report)
        say(f"Wrote {report}.", err=True)  # standard output may be read by a program


def run_demo(seeds: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Metrics in percent of every method on the same trial of every seed."""
    from naim3l.metrics import evaluate

    for seed in seeds:
        trial = _trial(seed)
        for method, fit in METHODS.items():
            model = fit(trial.X_train, trial.Y_train, seed)
            result = evaluate(trial.Y_test, model.decision_function(trial.X_test))
            yield {"method": method, "seed": seed} | {m: 100 * result[m] for m in METRICS}


def _trial(seed: int) -> Any:
    """Training and test tables of the yeast data under all three challenges."""
    from naim3l.datasets import load_yeast, make_challenge

    data = load_yeast()
    challenge = make_challenge(
        data.labels, len(data.views), alpha=ALPHA, beta=BETA, random_state=seed
    )
    return challenge.apply(data.views, data.labels)


def _write_page(report: Path) -> None:
    """Page about the model of the table, in its first trial; quality is that of the test rows."""
    from naim3l.datasets import load_yeast

    trial = _trial(0)
    model = next(iter(METHODS.values()))(trial.X_train, trial.Y_train, 0)
    model.names_.labels = list(load_yeast().label_names)  # arrays have none of their own
    write_page(model, trial.X_train, trial.Y_train, report, test=(trial.X_test, trial.Y_test))


def _print_summary(records: list[dict[str, Any]], n_seeds: int, *, markdown: bool) -> None:
    """Print the mean and the standard deviation, if any, of each metric over the seeds."""
    many = f"{n_seeds} seeds: mean (standard deviation) in percent"
    what = many if n_seeds > 1 else "1 seed: percent"
    shown = "{:.2f} ({:.2f})" if n_seeds > 1 else "{:.2f}"
    say(
        f"yeast, {100 * ALPHA:.1f} % of each view's training rows removed, {100 * BETA:.0f} % of "
        "labels hidden, rows shuffled;"
    )
    title = f"lam {LAM}, {what}, per view, averaged over views"
    rows = []
    for method in dict.fromkeys(record["method"] for record in records):
        values = [[r[name] for r in records if r["method"] == method] for name in METRICS]
        rows.append([method, *(shown.format(fmean(of), pstdev(of)) for of in values)])
    if not markdown:
        print_table(title, ["method", *METRICS], rows)
        return
    lines = [["method", *METRICS], ["---"] * (len(METRICS) + 1), *rows]
    say(title, "", *(f"| {' | '.join(row)} |" for row in lines))
