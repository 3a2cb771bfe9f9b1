"""``naim3l demo``: the model, its variants and tuned models on the yeast data."""

from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import typer

from naim3l.cli import options
from naim3l.cli.app import print_table, report_errors, say
from naim3l.cli.options import option, print_json
from naim3l.cli.report import page_files, write_page

LAM, TEST_SIZE, MISSING = 0.4, 0.3, 0.5
METRICS = ("1-HL", "1-RL", "AP", "AUC")
# Classes of `naim3l.estimators` and their parameters.
METHODS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "NAIM3L": ("NAIM3L", {"lam": LAM, "ridge": 0.0}),
    "NAIM3L-II (low rank only)": ("NAIM3L", {"lam": LAM, "ridge": 0.0, "variant": "low-rank"}),
    "NAIM3L-I (loss only)": ("NAIM3L", {"lam": LAM, "ridge": 0.0, "variant": "loss"}),
    "NAIM3L, lam and ridge tuned": ("NAIM3LCV", {"decide": "sign"}),
    "per-view ridge, tuned": ("LabelSubspaceRidge", {"shrinkage": 0.0, "decide": "sign"}),
}
Seeds: Any = option("Number of random splits.", int, min=1)


def demo(seeds: Seeds = 5, report: options.Page = None, as_json: options.AsJson = False) -> None:
    """Train on the yeast data under all three challenges and compare.

    Half of the labels are hidden, half of the rows of each view removed, and the rows of each view
    shuffled. The page of --report is about NAIM3L with the first seed. Ctrl-C prints the results
    so far.

    Example: naim3l demo --seeds 3 --report demo.html
    """
    from naim3l._progress import progress_bar
    from naim3l.files.atomic_write import check_outputs

    with report_errors():
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
        print_json({"dataset": "yeast", "lam": LAM, "seeds": n_whole, "records": records})
    else:
        _print_summary(records, n_whole)
    if n_whole < seeds:
        say(f"Interrupted: {n_whole} of {seeds} seeds are complete.", err=True)
        raise typer.Exit(130)
    if report is not None:
        with report_errors():
            _write_page(report)
        say(f"Wrote {report}.", err=True)  # standard output may be read by a program


def run_demo(seeds: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Metrics in percent of every method on the same rows of every seed."""
    from naim3l.metrics import evaluate

    for seed in seeds:
        training, (X, Y) = draw_tables(seed)
        for method in METHODS:
            result = evaluate(Y, _fit(method, training, seed).decision_function(X))
            yield {"method": method, "seed": seed} | {m: 100 * result[m] for m in METRICS}


def draw_tables(seed: int) -> Any:
    """Training tables, of other rows of each view with half of their labels, and test tables."""
    import numpy as np
    from sklearn.utils import _safe_indexing

    from naim3l.datasets import load_yeast

    # Names of labels and columns are for the page, which needs more than the table on the terminal.
    data = load_yeast(as_frame=find_spec("pandas") is not None)
    rng = np.random.default_rng(seed)
    test, train = np.split(rng.permutation(len(data.labels)), [int(TEST_SIZE * len(data.labels))])
    labels = _safe_indexing(data.labels, train).astype(float)
    labels[rng.random(labels.shape) < MISSING] = np.nan
    X: dict[str, Any] = {}
    Y: dict[str, Any] = {}
    for view, table in data.views.items():
        rows = rng.permutation(len(train))[int(MISSING * len(train)) :]
        X[view], Y[view] = _safe_indexing(table, train[rows]), _safe_indexing(labels, rows)
    of_test = {view: _safe_indexing(table, test) for view, table in data.views.items()}
    return (X, Y), (of_test, dict.fromkeys(X, _safe_indexing(data.labels, test)))


def _fit(method: str, training: tuple[Any, Any], seed: int) -> Any:
    from naim3l import estimators

    name, parameters = METHODS[method]
    return getattr(estimators, name)(**parameters, random_state=seed).fit(*training)


def _write_page(report: Path) -> None:
    """Page about the model of the table, in its first trial; quality is that of the test rows."""
    (X, Y), test = draw_tables(0)
    write_page(_fit(next(iter(METHODS)), (X, Y), 0), X, Y, report, test=test)


def _print_summary(records: list[dict[str, Any]], n_seeds: int) -> None:
    """Print the mean and the standard deviation, if any, of each metric over the seeds."""
    many = f"{n_seeds} seeds: mean (standard deviation) in percent"
    what = many if n_seeds > 1 else "1 seed: percent"
    shown = "{:.2f} ({:.2f})" if n_seeds > 1 else "{:.2f}"
    missing = f"{100 * MISSING:.0f} %"
    say(
        f"yeast, {missing} of each view's training rows removed, {missing} of labels hidden, rows "
        "shuffled;"
    )
    rows = []
    for method in dict.fromkeys(record["method"] for record in records):
        values = [[r[name] for r in records if r["method"] == method] for name in METRICS]
        rows.append([method, *(shown.format(fmean(of), pstdev(of)) for of in values)])
    title = f"lam {LAM}, {what}, per view, averaged over views"
    print_table(title, ["method", *METRICS], rows)
