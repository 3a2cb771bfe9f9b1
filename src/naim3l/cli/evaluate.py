"""``naim3l evaluate``: how good a model is, and metrics on the terminal, for ``fit`` as well."""

from collections.abc import Container, Mapping
from typing import Any

from naim3l.cli import options
from naim3l.cli.app import print_table, report_errors, say
from naim3l.cli.options import load_model, print_json
from naim3l.cli.report import page_files, write_page

DASH = "–"
FEW = ("macro-AUC", "AP", "1-HL", "macro-F1")  # measures that are printed without --all


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
    every: options.All = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare predictions with known labels: per view, per label, and fused.

    Every metric stands beside what guessing by the frequencies of the labels reaches, and beside
    what ridge regression of each table alone reaches. Rows of several views with the same id are
    also fused, as by predict --fused; with at least 20 of them, the results begin with these. --all
    prints all measures; --json also has intervals, and the numbers of each label in each view. The
    page of --report adds figures, and what to be careful about. Of tables that are read in chunks,
    a random sample of at most 100,000 rows each is measured.

    Example: naim3l evaluate model.naim3l lab=test.csv clinic=later.csv --report test.html
    """
    with report_errors():
        from naim3l.cli.chunks import sample_rows, workers
        from naim3l.cli.settings import make_settings, with_views
        from naim3l.cli.tables import is_chunked, open_known, read_known
        from naim3l.cli.titles import set_titles
        from naim3l.explain.model_views import check_explained
        from naim3l.files.atomic_write import check_outputs

        settings = make_settings(with_views(views, model), config, labels, labels_file, ids)
        check_outputs(page_files(report), settings.files(model, config))
        fitted, sampled = load_model(model), dict[str, dict[str, int]]()
        set_titles(fitted, settings)
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
    _print_all(measured, fitted, every=every)
    print_absent(fitted)
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


def print_absent(model: Any, views: Container[str] | None = None) -> None:
    """Print which labels tables, or some of them, never record, and how they are predicted."""
    from naim3l.decisions.borrowing import describe_absent
    from naim3l.report.titles import with_titles

    absent = [of for of in model.absent_labels_ if views is None or of.view in views]
    say(*describe_absent(with_titles(absent, model.titles_), model.decisions_.simulation))


def by_name(measured: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics, numbers of rows and calibration by view, and metrics by label, for JSON."""
    from naim3l.decisions.rates import list_cuts, measure_rates

    blocks, labels = measured["blocks"], dict[str, dict[str, Any]]()
    for entry in measured["labels"]:
        rates = {"rates": measure_rates(entry), "cuts": list_cuts(entry)}
        labels.setdefault(entry["label"], {})[entry["view"]] = {**entry, **rates}
    numbers = {b["name"]: {key: b[key] for key in ("n_rows", "n_entries")} for b in blocks}
    curves = {curve["name"]: curve for curve in measured["calibration"]}
    views = {block["name"]: block["metrics"] for block in blocks}
    about = {key: measured[key] for key in ("by", "boosting", "shared") if key in measured}
    return {"views": views, "labels": labels, "rows": numbers, "calibration": curves, **about}


def print_measured(measured: Mapping[str, Any], where: str, model: Any, *, every: bool) -> None:
    """Print a verdict, a few measures of the first block beside simpler methods, and sentences."""
    from naim3l.report.findings import (
        describe_answers,
        describe_coupling,
        describe_found,
        describe_shared,
        describe_verdicts,
    )

    block, labels = measured["blocks"][0], _first_labels(measured)
    say(describe_verdicts(labels))
    if answers := describe_answers(block):
        say(answers)
    _print_beside(block, where, every=every)
    _explain_measures(measured, every=every)
    n_views = len(model.views_)
    what = "tables" if n_views > 1 else "labels"
    sentence = describe_coupling(block, f"Coupling the {what}")
    if sentence and n_views * len(labels) > 1:  # otherwise nothing is coupled
        say(sentence)
    if together := describe_shared(block, measured.get("shared", [])):
        say(together)
    if found := describe_found(labels, model.titles_):
        say(found)


def _print_beside(block: Mapping[str, Any], where: str, *, every: bool) -> None:
    """Print measures of a block beside those of simpler methods, and all with gains."""
    keys = {"value": "model", "guessing": "guessing", "uncoupled": "ridge"}
    for rival in ("subspace", "boosting"):
        if any(metric[rival] is not None for metric in block["metrics"].values()):
            keys[rival] = rival
    if every:
        keys["gain"] = "coupling added"
    rows = [
        [of.label, *(_show(block["metrics"][of.name][key], of) for key in keys)]
        for of in _measures(block, every=every)
    ]
    print_table(where, ["measure", *keys.values()], rows)


def _measures(block: Mapping[str, Any], *, every: bool) -> list[Any]:
    """The measures of a block that are printed: the headline and three more, or all."""
    from naim3l.metrics.measures import MEASURES

    metrics, few = block["metrics"], dict.fromkeys((block["headline"], *FEW))
    names = metrics if every else [name for name in few if metrics[name]["value"] is not None]
    return [MEASURES[name] for name in names]


def _explain_measures(measured: Mapping[str, Any], *, every: bool) -> None:
    from naim3l.estimators.comparison import NOT_ASKED

    said = "In percent. macro-AUC: how well rows with a label are ranked above rows without it. "
    said += "Guessing knows the frequencies of labels, ridge each table alone"
    if any(of["subspace"] is not None for of in measured["blocks"][0]["metrics"].values()):
        said += ", subspace the same, shrunk in a space of labels that the tables share"
    say(f"{said}." if every else f"{said}. --all prints all measures.")
    skipped = measured.get("boosting")
    if skipped and skipped != NOT_ASKED:
        say(f"Boosting of each table was {skipped}.")


def _print_all(measured: Mapping[str, Any], model: Any, *, every: bool) -> None:
    """Print the metrics of all blocks, and a line for each label with a verdict on it."""
    blocks = measured["blocks"]
    where = f"How good the predictions are ({blocks[0]['name']}, {blocks[0]['n_rows']} rows)"
    print_measured(measured, where, model, every=every)
    if len(blocks) > 1:
        measures = _measures(blocks[0], every=every)
        rows = [
            [
                b["name"],
                str(b["n_rows"]),
                *(_show(b["metrics"][m.name]["value"], m) for m in measures),
            ]
            for b in blocks
        ]
        print_table("By table", ["table", "rows", *(of.name for of in measures)], rows)
    _print_labels(_first_labels(measured), model.titles_)


def _print_labels(labels: list[dict[str, Any]], titles: Any) -> None:
    """Print how well each label is ranked, and how often its yes are found and right."""
    from naim3l.decisions.rates import measure_rates
    from naim3l.report.titles import with_code

    rows = []
    for of in labels:
        rates = measure_rates(of)
        found, right = (rates[name]["value"] for name in ("sensitivity", "predictive_yes"))
        row = [with_code(titles, of["label"]), str(of["yes"]), str(of["no"])]
        verdict = of["verdict"].replace("no better than", "as by").removeprefix("ranked ")
        rows.append([*row, *map(_show, (of["auc"], found, right)), verdict])
    header = ["label", "yes", "no", "AUC", "found", "right", "ranked"]
    print_table("Labels: how rows are ranked, and yes and no", header, rows)
    said = "found: of 100 yes, how many are predicted (sensitivity); right: of 100 that are "
    say(f"{said}predicted, how many are yes (predictive value).")


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
