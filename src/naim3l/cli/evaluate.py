"""``naim3l evaluate``: how good a model is, and metrics on the terminal, for ``fit`` as well."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from naim3l.cli.app import Command, app, print_table, report_errors, say
from naim3l.cli.options import (
    AsJson,
    Config,
    Dask,
    Ids,
    LabelFiles,
    Labels,
    Memory,
    Model,
    Views,
    load_model,
    print_json,
)
from naim3l.cli.report import page_files, write_page

DASH = "–"


@app.command(cls=Command)
def evaluate(
    model: Model,
    views: Views = None,
    config: Config = None,
    labels: Labels = None,
    labels_file: LabelFiles = None,
    ids: Ids = None,
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
    read in chunks, a random sample of at most 100,000 rows each is measured.

    Example: naim3l evaluate model.naim3l lab=test.csv clinic=later.csv --report test.html
    """
    with report_errors():
        from naim3l.cli.settings import make_settings
        from naim3l.cli.tables import split
        from naim3l.explain import check_explained
        from naim3l.files.atomic_write import check_outputs

        outputs = page_files(report)
        settings = make_settings(views, config, labels, labels_file, ids)
        check_outputs(outputs, settings.files(model, config))
        fitted = load_model(model)
        if report is not None:
            check_explained(fitted)
        rows, sampled = _read(fitted, settings, memory, dask, shown=not as_json)
        measured = evaluate_rows(fitted, rows)
        if report is not None:
            write_page(fitted, *split(rows), report, fitted=False)
    if as_json:
        extra = {"sampled": sampled or None, "report": None if report is None else str(report)}
        print_json(by_name(measured) | {key: of for key, of in extra.items() if of is not None})
        return
    name = measured["blocks"][0]["name"]
    print_measured(measured, f"How good the predictions are ({name})")
    _print_views(measured)
    _print_labels(measured)
    for view, of_view in sampled.items():
        n_rows, n_sample = of_view["rows"], of_view["sample"]
        say(f"View {view}: measured on a random sample of {n_sample} of {n_rows} rows.")
    if report is not None:
        say(f"Wrote {report}.")


def _read(
    model: Any, settings: Any, memory: str | None, address: str | None, *, shown: bool
) -> tuple[dict[str, Any], dict[str, dict[str, int]]]:
    """Rows to measure, and numbers of rows of the views of which they are a sample."""
    from naim3l.cli.tables import is_chunked, open_known, read_known

    if not is_chunked(settings, memory, address):
        return read_known(model, settings), {}
    from naim3l.cli.chunks import sample_rows, workers

    with workers(memory, address) as batch_bytes:
        views = {name: view.settled() for name, view in open_known(model, settings).items()}
        return sample_rows(model, views, batch_bytes, shown=shown)


def evaluate_rows(model: Any, rows: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics of the model's predictions of known labels, beside simpler methods.

    Parameters
    ----------
    model : fitted model
    rows : mapping of view to ViewRows

    Returns
    -------
    dict
        Result of `naim3l.decisions.bootstrap_metrics.evaluate_blocks`, with None for NaN: blocks
        are the views, and "fused" where two views share ids.
    """
    from naim3l._text import plain
    from naim3l._warnings import warn_user
    from naim3l.cli.predictions import warn_of_empty_rows, warn_of_unmatched
    from naim3l.cli.tables import split, stored_roles
    from naim3l.decisions.bootstrap_metrics import evaluate_blocks
    from naim3l.report.evaluated_blocks import read_blocks

    X, Y = split(rows)
    unknown = [name for name, labels in Y.items() if labels.isna().all(axis=None)]
    if len(unknown) == len(Y):
        raise ValueError("no label is known in these tables, so there is nothing to compare with.")
    for name in unknown:
        warn_user(f"view {name!r}: no label is known in it, so its predictions are not judged.")
    warn_of_empty_rows(model, X)
    blocks = read_blocks(model, X, Y)
    fused = any(block.kind == "fused" for block in blocks)
    if len(X) > 1:
        named = {name: batch for name, batch in X.items() if batch.data.index.name is not None}
        had_ids = {name for name in X if stored_roles(model, name)["id"] is not None}
        left_out = [name for name in X if name not in named and (fused or name in had_ids)]
        # Without a fused block no id is in two views, as is usual of tables of different rows.
        warn_of_unmatched(named if fused else {}, left_out)
    measured: dict[str, Any] = plain(evaluate_blocks(blocks, model.label_names_))
    return measured


# Metrics in JSON and on the terminal, from the result of `evaluate_blocks`.


def by_name(measured: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics, numbers of rows and calibration by view, and metrics by label, for JSON."""
    labels: dict[str, dict[str, Any]] = {}
    for entry in measured["labels"]:
        rest = {key: value for key, value in entry.items() if key not in ("label", "view")}
        labels.setdefault(entry["label"], {})[entry["view"]] = rest
    return {
        "views": {block["name"]: block["metrics"] for block in measured["blocks"]},
        "labels": labels,
        "rows": {
            block["name"]: {key: block[key] for key in ("n_rows", "n_entries")}
            for block in measured["blocks"]
        },
        "calibration": {
            curve["name"]: {key: value for key, value in curve.items() if key != "name"}
            for curve in measured["calibration"]
        },
    }


def print_measured(measured: Mapping[str, Any], title: str) -> None:
    """Print the first block beside simpler methods, and what coupling added."""
    from naim3l.metrics.measures import MEASURES
    from naim3l.report.findings import HEADLINE, describe_coupling

    block = measured["blocks"][0]
    rows = [
        [
            MEASURES[name].label,
            *(_show(metric[key], MEASURES[name]) for key in ("value", "guessing", "uncoupled")),
            _gain(metric["gain"], MEASURES[name]),
        ]
        for name, metric in block["metrics"].items()
    ]
    print_table(title, ["measure", "model", "guessing", "uncoupled", "coupling added"], rows)
    say(
        f"In percent, coverage in labels. {HEADLINE} is how well rows with a label are ranked "
        "above rows without it. Uncoupled is ridge regression of each table alone."
    )
    n_views = sum(each["kind"] == "view" for each in measured["blocks"])
    what = "tables" if n_views > 1 else "labels"
    sentence = describe_coupling(block, f"Coupling the {what}")
    if sentence and n_views * len(_first_labels(measured)) > 1:  # otherwise nothing is coupled
        say(sentence)


def _print_views(measured: Mapping[str, Any]) -> None:
    """Print the metrics of all blocks, if there are several."""
    from naim3l.metrics.measures import MEASURES

    blocks = measured["blocks"]
    if len(blocks) < 2:
        return
    rows = [
        [
            MEASURES[name].label,
            *(_show(block["metrics"][name]["value"], MEASURES[name]) for block in blocks),
        ]
        for name in blocks[0]["metrics"]
    ]
    print_table("By table", ["measure", *(block["name"] for block in blocks)], rows)


def _print_labels(measured: Mapping[str, Any]) -> None:
    """Print a line for each label, with a verdict on it, and count the verdicts."""
    rows = [
        [
            entry["label"],
            *(str(entry[key]) for key in ("yes", "no")),
            *(_show(entry[key]) for key in ("auc", "f1", "accuracy", "accuracy_guessing")),
            entry["verdict"],
        ]
        for entry in _first_labels(measured)
    ]
    header = ["label", "yes", "no", "AUC", "F1", "accuracy", "guessing", "verdict"]
    print_table("Labels: how rows are ranked (AUC, verdict), and accuracy", header, rows)
    say(verdicts_in_words(measured))


def verdicts_in_words(measured: Mapping[str, Any]) -> str:
    """How many labels have which verdict in the first block."""
    from naim3l.report.findings import describe_verdicts

    return describe_verdicts(_first_labels(measured))


def _first_labels(measured: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Labels as measured in the first block, one entry each."""
    first = measured["blocks"][0]["name"]
    return [entry for entry in measured["labels"] if entry["view"] == first]


def _show(value: float | None, measure: Any = None) -> str:
    """A metric in percent, or a dash where it is undefined."""
    if value is None:
        return DASH
    return f"{value:.2f}" if measure and not measure.percent else f"{100 * value:.1f}"


def _gain(gain: Mapping[str, float | None] | None, measure: Any) -> str:
    """Such as "+1.2 (0.8 to 1.6)"."""
    if gain is None or gain["value"] is None:
        return DASH
    scale, digits = (100, 1) if measure.percent else (1, 2)
    # Adding 0 makes a rounded -0.0 a plain zero.
    value, low, high = (
        round(scale * (gain[key] or 0.0), digits) + 0.0 for key in ("value", "low", "high")
    )
    return f"{value:+.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
