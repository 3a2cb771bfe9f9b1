"""``naim3l explain``: why a row has its probabilities, in words and as a figure."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from naim3l.cli import options
from naim3l.cli.app import print_table, report_errors, say
from naim3l.cli.options import load_model, option, print_json

MOST_LABELS, MOST_COLUMNS, FIGURES = 5, 20, (".svg", ".png", ".pdf")

Id: Any = option("Id of the row.", str | None, "--id")
Number: Any = option("Number of the row, from 0, of a single table.", int | None, min=0)
IdColumn: Any = options.ids_option("--id-column")
Chosen: Any = option("Label to explain; repeat for several.", list[str] | None, "--label")
Known: Any = options.known_option("They are parts of the explanation.")
Figure: Any = option("Figure to write: .svg, .png or .pdf.", Path | None)
Every: Any = option(f"All labels, instead of the first {MOST_LABELS}.", bool, "--all")


def explain(
    model: options.Model,
    views: options.Views = None,
    config: options.Config = None,
    id: Id = None,
    row: Number = None,
    label: Chosen = None,
    known: Known = None,
    figure: Figure = None,
    every: Every = False,
    id_column: IdColumn = None,
    as_json: options.AsJson = False,
) -> None:
    """Say what moved the probabilities of one row.

    A probability starts from the frequency of the label. Columns of the row, its known labels, and
    other tables that have its id raise or lower it; the parts sum to it in log-odds, where +0.7
    doubles the odds of yes. Labels come in the order of the probability as a multiple of the
    frequency. For a single label, a table has all larger parts, and what they are in percentage
    points. For linear models the parts are exact; for kernels and networks they are estimates.

    What moved a probability describes the model: it need not be a cause.

    Example: naim3l explain model.naim3l lab=new.csv clinic=later.csv --id P0113

    Example: naim3l explain model.naim3l lab=new.csv --id P0113 --label gout --figure gout.svg
    """
    with report_errors():
        from naim3l.cli.settings import make_settings, with_known, with_views
        from naim3l.cli.titles import set_titles
        from naim3l.explain import draw_explanations, explain_row
        from naim3l.files.atomic_write import check_outputs

        if (not id) == (row is None):
            raise ValueError("name a row, with --id or with --row.")
        if figure is not None and figure.suffix.lower() not in FIGURES:
            raise ValueError(f"--figure {figure}: the name must end in {', '.join(FIGURES)}.")
        settings = with_known(
            make_settings(with_views(views, model), config, ids=id_column), known or []
        )
        check_outputs([] if figure is None else [figure], settings.files(model, config))
        fitted = load_model(model)
        set_titles(fitted, settings)
        X, labels = _read(fitted, settings, known=bool(known))
        name: Any = id
        if row is None:
            _check_ids(X)
        else:
            X, labels, name = _only(X, labels, row)
        found = explain_row(fitted, X, name, labels=label, known=labels)
        shown = found if every or label else found[:MOST_LABELS]
        if figure is not None:
            _write(draw_explanations(shown), figure)
    if as_json:
        print_json({"labels": [_plain(each) for each in shown], "figure": figure})
        return
    say(*(each.describe() for each in shown))
    if len(shown) == 1:
        _print_parts(shown[0])
    if shown and shown[0].averaged:
        say("--row, in place of --id, explains one of the rows of a single table.")
    say("Signed numbers are log-odds: +0.7 doubles the odds of yes, and -0.7 halves them.")
    if more := len(found) - len(shown):
        say(f"{more} further label{'s are' if more > 1 else ' is'} shown with --all.")
    if figure is not None:
        say(f"Wrote {figure}.")


def _read(model: Any, settings: Any, *, known: bool) -> tuple[dict[str, Any], Any]:
    """Tables of the views, and known labels if there are some."""
    from naim3l.cli.tables import is_chunked, open_new, read_known

    if is_chunked(settings, None, None):
        raise ValueError("explain needs tables in memory; give a file that has the row.")
    if known:
        return read_known(model, settings)
    return {name: view.read()[0] for name, view in open_new(model, settings).items()}, None


def _check_ids(X: Mapping[str, Any]) -> None:
    """Refuse tables without ids."""
    for view, batch in X.items():
        if batch.data.index.name is None:
            how = "name the column with --id-column, or the row with --row"
            raise ValueError(f"view {view!r}: its rows have no ids; {how}.")


def _only(X: Mapping[str, Any], labels: Any, row: int) -> tuple[Any, Any, Any]:
    """A row, given by its number, of the only table; its known labels, and its id."""
    import numpy as np

    ((view, batch), *others) = X.items()
    if others:
        raise ValueError("--row is for a single table; with several, name the row with --id.")
    if row >= len(batch):
        raise ValueError(f"{batch.origin.table}: no row {row}; it has {len(batch)} rows, from 0.")
    one = batch.take_rows(np.arange(len(batch)) == row)
    known = None if labels is None else {view: labels[view].iloc[[row]]}
    return {view: one}, known, one.data.index[0]


def _plain(each: Any) -> Mapping[str, Any]:
    """An explanation as plain data."""
    numbers = {key: getattr(each, key) for key in ("probability", "base_rate")}
    return vars(each) | numbers | {"parts": [part._asdict() for part in each.parts]}


def _print_parts(each: Any) -> None:
    from naim3l.explain.rows import bars_of, points_of, signed

    all_parts = "", "in all", each.log_odds - each.base_log_odds
    bars = [*bars_of(each, MOST_COLUMNS), all_parts]
    rows = [[title, signed(added), f"{points_of(each, added):+.1f}"] for _, title, added in bars]
    header = ["part", "log-odds", "percentage points"]
    label = each.titles.get(each.label, each.label)
    print_table(f"What moves the probability of {label}", header, rows)


def _write(figure: Any, path: Path) -> None:
    from naim3l.files.atomic_write import write_text, written_whole
    from naim3l.report.plots import to_svg

    if path.suffix.lower() == ".svg":
        write_text(path, to_svg(figure))
        return
    with written_whole(path) as part:
        figure.savefig(part, format=path.suffix[1:].lower(), dpi=200)
