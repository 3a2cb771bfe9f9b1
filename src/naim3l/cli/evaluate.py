"""``naim3l evaluate``: how good a model is, and metrics on the terminal, for ``fit`` as well."""

from collections.abc import Mapping
from typing import Any

from naim3l.cli import options
from naim3l.cli.app import print_table, report_errors, say
from naim3l.cli.options import load_model, print_json
from naim3l.cli.report import page_files, write_page

DASH = "–"


def evaluate(
    model: options.Model,
    views: options.Views = None,
    config: options.Config = None,
    labels: options.Labels = None,
    labels_file: options.LabelFiles = None,
    ids: options.Ids = None,
    report: options.Page = None,
    memory: options.Memory = None,
    dask: options.Dask = None,
    as_json: options.AsJson = False,
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
        from naim3l.cli.chunks import sample_rows, workers
        from naim3l.cli.settings import make_settings
        from naim3l.cli.tables import is_chunked, open_known, read_known
        from naim3l.decisions.borrowing import describe_absent
        from naim3l.explain.model_views import check_explained
        from naim3l.files.atomic_write import check_outputs

        settings = make_settings(views, config, labels, labels_file, ids)
        check_outputs(page_files(report), settings.files(model, config))
        fitted, sampled = load_model(model), dict[str, dict[str, int]]()
        if report is not None:
            check_explained(fitted)
        if is_chunked(settings, memory, dask):
            with workers(memory, dask) as batch_bytes:
                tables = {name: of.settled() for name, of in open_known(fitted, settings).items()}
                X, Y, sampled = sample_rows(fitted, tables, batch_bytes, shown=not as_json)
        else:
            X, Y = read_known(fitted, settings)
        measured = evaluate_rows(fitted, X, Y)
        if report is not None:
            write_page(fitted, X, Y, report, fitted=False)
    if as_json:
        print_json(by_name(measured) | {"sampled": sampled, "report": report})
        return
    _print_all(measured)
    say(*describe_absent(fitted.absent_labels_, fitted.decisions_.simulation))
    for view, of_view in sampled.items():
        n_rows, n_sample = of_view["rows"], of_view["sample"]
        say(f"View {view}: measured on a random sample of {n_sample} of {n_rows} rows.")
    if report is not None:
        say(f"Wrote {report}.")


def evaluate_rows(model: Any, X: Mapping[str, Any], Y: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics of predictions of known labels, as by `evaluate_blocks`, None for NaN."""
    from naim3l._text import plain
    from naim3l._warnings import warn_user
    from naim3l.cli.chunks import warn_of_empty_rows
    from naim3l.decisions.bootstrap_metrics import evaluate_blocks
    from naim3l.report.evaluated_blocks import read_blocks

    unknown = [name for name, labels in Y.items() if labels.isna().all(axis=None)]
    if len(unknown) == len(Y):
        raise ValueError("no label is known in these tables, so there is nothing to compare with.")
    for name in unknown:
        warn_user(f"view {name!r}: no label is known in it, so its predictions are not judged.")
    warn_of_empty_rows(model, X)
    return dict(plain(evaluate_blocks(read_blocks(model, X, Y), model.label_names_)))


def by_name(measured: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics, numbers of rows and calibration by view, and metrics by label, for JSON."""
    blocks, labels = measured["blocks"], dict[str, dict[str, Any]]()
    for entry in measured["labels"]:
        labels.setdefault(entry["label"], {})[entry["view"]] = entry
    numbers = {b["name"]: {key: b[key] for key in ("n_rows", "n_entries")} for b in blocks}
    curves = {curve["name"]: curve for curve in measured["calibration"]}
    views = {block["name"]: block["metrics"] for block in blocks}
    about = {key: measured[key] for key in ("by", "boosting", "shared") if key in measured}
    return {"views": views, "labels": labels, "rows": numbers, "calibration": curves, **about}


def print_measured(measured: Mapping[str, Any], title: str) -> None:
    """Print the first block beside simpler methods, and what coupling added."""
    from naim3l.estimators.comparison import NOT_ASKED
    from naim3l.report.findings import (
        describe_answers,
        describe_coupling,
        describe_shared,
        describe_verdicts,
    )

    block = measured["blocks"][0]
    keys = {"value": "model", "guessing": "guessing", "uncoupled": "ridge"}
    for rival in ("subspace", "boosting"):
        if any(metric[rival] is not None for metric in block["metrics"].values()):
            keys[rival] = rival
    keys["gain"] = "coupling added"
    columns = [{name: of[key] for name, of in block["metrics"].items()} for key in keys]
    _print_metrics(title, list(keys.values()), columns)
    shared = "; subspace is the same, shrunk in a space of labels that the tables share"
    say(
        "In percent, coverage in labels. macro-AUC is how well rows with a label are ranked "
        "above rows without it. Ridge is that of each table alone, without coupling"
        f"{shared if 'subspace' in keys else ''}."
    )
    skipped = measured.get("boosting")
    if skipped and skipped != NOT_ASKED:
        say(f"Boosting of each table was {skipped}.")
    n_views = sum(each["kind"] == "view" for each in measured["blocks"])
    what = "tables" if n_views > 1 else "labels"
    sentence = describe_coupling(block, f"Coupling the {what}")
    labels = _first_labels(measured)
    if sentence and n_views * len(labels) > 1:  # otherwise nothing is coupled
        say(sentence)
    if together := describe_shared(block, measured.get("shared", [])):
        say(together)
    say(describe_verdicts(labels))
    if answers := describe_answers(block):
        say(answers)


def _print_metrics(title: str, header: list[str], columns: list[dict[str, Any]]) -> None:
    """Print columns of metrics, which are numbers or gains, a line for each measure."""
    from naim3l.metrics.measures import MEASURES

    measures = {name: MEASURES[name] for name in columns[0]}
    rows = [[of.label, *(_show(c[name], of) for c in columns)] for name, of in measures.items()]
    print_table(title, ["measure", *header], rows)


def _print_all(measured: Mapping[str, Any]) -> None:
    """Print the metrics of all blocks, and a line for each label with a verdict on it."""
    blocks = measured["blocks"]
    print_measured(measured, f"How good the predictions are ({blocks[0]['name']})")
    if len(blocks) > 1:
        columns = [{name: of["value"] for name, of in b["metrics"].items()} for b in blocks]
        _print_metrics("By table", [block["name"] for block in blocks], columns)
    shown, rows = ("auc", "f1", "accuracy", "accuracy_guessing"), list[list[str]]()
    for of in _first_labels(measured):
        counts = [of["label"], str(of["yes"]), str(of["no"])]
        rows.append([*counts, *(_show(of[key]) for key in shown), of["verdict"]])
    header = ["label", "yes", "no", "AUC", "F1", "accuracy", "guessing", "verdict"]
    print_table("Labels: how rows are ranked (AUC, verdict), and accuracy", header, rows)


def _first_labels(measured: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Labels as measured in the first block, one entry each."""
    first = measured["blocks"][0]["name"]
    return [entry for entry in measured["labels"] if entry["view"] == first]


def _show(value: Any, measure: Any = None) -> str:
    """A metric in percent, or a gain such as "+1.2 (0.8 to 1.6)"; a dash where it is undefined."""
    scale, digits = (1, 2) if measure and not measure.percent else (100, 1)
    if not isinstance(value, Mapping):
        return DASH if value is None else f"{scale * value:.{digits}f}"
    if value["value"] is None:
        return DASH
    # Adding 0 makes a rounded -0.0 a plain zero.
    gain, low, high = (
        round(scale * (value[key] or 0.0), digits) + 0.0 for key in ("value", "low", "high")
    )
    return f"{gain:+.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
