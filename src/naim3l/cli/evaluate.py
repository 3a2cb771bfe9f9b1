"""``naim3l evaluate`` and ``naim3l inspect``: how good a model is, and what its file contains."""

from pathlib import Path
from typing import Annotated, Any

import typer

from naim3l._text import some
from naim3l.cli.app import app, print_table, report_errors, say
from naim3l.cli.common import (
    AsJson,
    Dask,
    KnownIds,
    KnownLabels,
    LabelFiles,
    Memory,
    Model,
    Settings,
    Views,
    files_of,
    load_model,
    make_settings,
    print_json,
)
from naim3l.cli.measured import by_name, print_labels, print_measured, print_views
from naim3l.cli.report import page_files, write


@app.command()
def evaluate(
    model: Model,
    views: Views = None,
    config: Settings = None,
    labels: KnownLabels = None,
    labels_file: LabelFiles = None,
    ids: KnownIds = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Report page to write about these rows.")
    ] = None,
    memory: Memory = None,
    dask: Dask = None,
    as_json: AsJson = False,
) -> None:
    """Compare predictions with known labels: per view, per label, and fused.

    Every metric stands beside what guessing by the frequencies of the labels reaches, and beside
    what ridge regression of each table alone reaches. Rows of several views with the same id are
    also fused, as by predict --fused. --json also has intervals, and the numbers of each label in
    each view. The page of --report adds figures, and what to be careful about. Of tables that are
    read in parts, a random sample of at most 100,000 rows each is measured.

    Example: naim3l evaluate model.skops lab=test.csv clinic=later.csv --report test.html
    """
    with report_errors():
        from naim3l.cli.work import evaluate_views, split
        from naim3l.explain import check_explained
        from naim3l.files.atomic_write import check_outputs

        outputs = page_files(report)
        settings = make_settings(views, config, labels, labels_file, ids)
        check_outputs(outputs, files_of(settings, model, config))
        fitted = load_model(model)
        if report is not None:
            check_explained(fitted)
        data, sampled = _read(fitted, settings, memory, dask, shown=not as_json)
        measured = evaluate_views(fitted, data)
        if report is not None:
            write(fitted, *split(data), report, fitted=False)
    if as_json:
        extra = {"sampled": sampled or None, "report": None if report is None else str(report)}
        print_json(by_name(measured) | {key: of for key, of in extra.items() if of is not None})
        return
    name = measured["blocks"][0]["name"]
    print_measured(measured, f"How good the predictions are ({name})")
    print_views(measured)
    print_labels(measured)
    for view, rows in sampled.items():
        say(f"View {view}: measured on a random sample of {rows['sample']} of {rows['rows']} rows.")
    if report is not None:
        say(f"Wrote {report}.")


def _read(
    model: Any, settings: Any, memory: str | None, address: str | None, *, shown: bool
) -> tuple[Any, dict[str, dict[str, int]]]:
    """Views to measure, and numbers of rows of those of which they are a sample."""
    from naim3l.cli.work import read_known
    from naim3l.cli.work.streamed_work import is_streamed

    if not is_streamed(settings, memory, address):
        return read_known(model, settings), {}
    from naim3l.cli.work.streamed_rows import sample_rows, sampled_views
    from naim3l.cli.work.streamed_tables import open_known
    from naim3l.cli.work.streamed_work import workers

    with workers(memory, address) as part_bytes:
        data = open_known(model, settings, part_bytes)
        sample = sample_rows(data, shown=shown)
    return sample, sampled_views(data, sample)


@app.command()
def inspect(model: Model, as_json: AsJson = False) -> None:
    """Show what a model file contains, without loading the model.

    Example: naim3l inspect model.skops
    """
    with report_errors():
        from naim3l.files.models import inspect_file
        from naim3l.files.readers import check_file

        check_file(model)
        facts = inspect_file(model)
    if as_json:
        print_json(facts)
        return
    views = facts.pop("views")
    rows = [[name, _text(value)] for name, value in facts.items()]
    print_table(str(model), ["fact", "value"], rows, n_left=2)
    header = list(dict.fromkeys(key for view in views.values() for key in view))
    rows = [[name, *(_fact(view.get(key)) for key in header)] for name, view in views.items()]
    print_table("Views", ["view", *header], rows)


def _fact(value: Any) -> str:
    """A fact about a view; a dash where it has none."""
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _text(value: Any) -> str:
    return some(value, 12, str) if isinstance(value, list | tuple) else str(value)
