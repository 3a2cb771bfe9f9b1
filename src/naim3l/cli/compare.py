"""``naim3l compare``: all methods of the package on one's own tables."""

from pathlib import Path
from typing import Any

from naim3l.cli import options
from naim3l.cli.app import print_table, report_errors, say
from naim3l.cli.fit import open_study
from naim3l.cli.options import option, print_json

Folds: Any = option("Number of parts that are held out in turn.", int, "--folds", min=2)
Seed: Any = option("Deals rows to the parts.", int)
Figure: Any = option("Figure of the gains over ridge regression to write, as SVG.", Path | None)


def compare(
    views: options.Views = None,
    config: options.Config = None,
    labels: options.Labels = None,
    labels_file: options.LabelFiles = None,
    ids: options.Ids = None,
    yes: options.Yes = None,
    no: options.No = None,
    unknown: options.Unknown = None,
    folds: Folds = 5,
    seed: Seed = 0,
    figure: Figure = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare methods on your tables, each on whole rows that it has not seen.

    Guessing by frequencies; ridge regression, logistic regression and boosting of each table alone;
    and methods that couple the tables: subspace, NAIM3L, and the mean of both. Parameters are
    chosen inside of each fit. After Ctrl-C, the methods that are finished are shown.

    Example: naim3l compare --config study.toml --figure compare.svg
    """
    with report_errors():
        from naim3l.cli.settings import make_settings
        from naim3l.cli.tables import is_chunked
        from naim3l.estimators.methods import all_methods, compare_methods
        from naim3l.files.atomic_write import check_outputs, write_text
        from naim3l.files.errors import ReadError

        words = {"yes": yes, "no": no, "unknown": unknown}
        settings = make_settings(views, config, labels, labels_file, ids, None, words)
        check_outputs([] if figure is None else [figure], settings.files(config))
        if is_chunked(settings, None, None):
            raise ReadError("compare reads tables into memory; name single files.")
        with open_study(settings, (None, None), verbose=0) as study:
            tables, found = {name: of.data for name, of in study.X.items()}, list[Any]()
            methods = all_methods(seed, study.model.features)
            given = {"n_folds": folds, "random_state": seed, "verbose": int(not as_json)}
            try:
                for of in compare_methods(tables, study.Y, methods, **given):
                    found.append(of)
            except KeyboardInterrupt:
                say("Interrupted; these methods are finished.", err=True)
        if figure is not None and len(found) > 2:
            from naim3l.report.figures import draw_gains
            from naim3l.report.plots import to_svg

            write_text(figure, to_svg(draw_gains(found)))
    if as_json:
        print_json(found)
        return
    _print(found, folds)
    if figure is not None and len(found) > 2:
        say(f"Wrote {figure}.")


def _print(found: list[dict[str, Any]], folds: int) -> None:
    rows = []
    for of in found:
        means = {name: 100 * value for name, value in of["means"].items()}
        gain, cell = of["gains"].get("macro-AUC"), ""
        if gain is not None:
            value, low, high = (100 * gain[key] for key in ("value", "low", "high"))
            cell = f"{value:+.1f} ({low:+.1f} to {high:+.1f})"
        numbers = [f"{means[name]:.1f}" for name in means]
        rows.append([of["method"], *numbers, cell, f"{of['seconds']:.0f}"])
    header = ["method", "macro-AUC", "AP", "accuracy", "log-loss", "gain", "s"]
    print_table(f"On rows that were held out, {folds} parts in turn", header, rows)
    say(
        "In percent, means over tables and parts; log-loss times 100, lower is better. Gain: of "
        "macro-AUC over ridge regression of each table alone, with a 95 % interval; s: seconds of "
        "processor time."
    )
