"""``naim3l predict`` and ``naim3l impute``: labels of new rows, and unknown labels filled in."""

from pathlib import Path
from typing import Annotated

import typer

from naim3l.cli.app import app, report_errors, say
from naim3l.cli.common import (
    KnownIds,
    KnownLabels,
    LabelFiles,
    Model,
    RawCells,
    Settings,
    Views,
    files_of,
    load_model,
    make_settings,
)


@app.command()
def predict(
    model: Model,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Table to write: .csv, .tsv, .parquet or .arrow.")
    ],
    views: Views = None,
    config: Settings = None,
    kind: Annotated[
        str, typer.Option("--what", help="labels, scores or probabilities.")
    ] = "labels",
    fused: Annotated[
        bool,
        typer.Option("--fused", help="One row per id: the evidence of its views is added up."),
    ] = False,
    decide: Annotated[
        str | None,
        typer.Option(help="When to say yes: guarded, cardinality, f1, half or sign. Default: as in "
                          "the fit."),
    ] = None,
    ids: KnownIds = None,
    raw_cells: RawCells = False,
) -> None:  # fmt: skip
    """Predict the labels of new rows.

    Ids are kept; where a table has none, rows are numbered from 0. A row without any value has no
    answer. With several views, a column names the view of each row, unless --fused joins the
    rows of an id: what each view adds to the frequency of a label is then added up, so that views
    that agree are surer than each alone, and scores are log-odds.

    Example: naim3l predict model.skops lab=new.csv --what probabilities -o out.parquet

    Example: naim3l predict model.skops lab=new.csv clinic=later.csv --fused -o fused.csv

    Example: naim3l predict model.skops lab=new.csv --decide cardinality -o tags.csv
    """
    with report_errors():
        from naim3l.cli.work import KINDS, predict_tables, read_new
        from naim3l.files.readers import check_target, write_table
        from naim3l.files.whole import check_outputs

        if kind not in KINDS:
            raise ValueError(f"--what is {kind!r}, but must be one of: {', '.join(KINDS)}.")
        if decide is not None and kind != "labels":
            raise ValueError(f"--decide {decide} is for labels, but --what is {kind}.")
        check_target(out)
        settings = make_settings(views, config, ids=ids)
        check_outputs([out], files_of(settings, model, config))
        fitted = load_model(model)
        tables = settings.views.items()
        X = read_new(
            fitted,
            {name: view.source for name, view in tables},
            ids={name: view.id for name, view in tables},
        )
        table = predict_tables(fitted, X, kind, fused=fused, decide=decide)
        write_table(table, out, spreadsheet_safe=not raw_cells)
    say(f"Wrote {len(table)} rows to {out}.")


@app.command()
def impute(
    model: Model,
    views: Views = None,
    config: Settings = None,
    labels: KnownLabels = None,
    labels_file: LabelFiles = None,
    ids: KnownIds = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder to write to, a file per view.")
    ] = Path("imputed"),
    ending: Annotated[
        str, typer.Option(help="Extension of the files: csv, tsv, parquet or arrow.")
    ] = "csv",
    min_confidence: Annotated[
        float | None,
        typer.Option(
            min=0.5, max=1, help="Leave a label unknown if its most probable value is less likely."
        ),
    ] = None,
    raw_cells: RawCells = False,
) -> None:
    """Fill in the unknown labels of tables with their most probable values.

    Each label has two more columns: LABEL_confidence, the probability of the value that was filled
    in, which is at least 0.5, and LABEL_filled, which is 1 where a value was filled in and else 0.
    Known labels stay as they are, with confidence 1. Ids are kept. The folder is created if it does
    not exist. Files are named after the views, without characters that file names cannot have.

    Example: naim3l impute model.skops --config study.toml -o filled

    Example: naim3l impute model.skops --config study.toml --min-confidence 0.8 -o filled
    """
    with report_errors():
        from naim3l.cli.work import impute as fill
        from naim3l.cli.work import read_known
        from naim3l.files.readers import check_target, write_table
        from naim3l.files.whole import check_outputs, file_names, new_folder, written_together

        settings = make_settings(views, config, labels, labels_file, ids)
        names = file_names(settings.views)
        targets = {view: out / f"{name}.{ending}" for view, name in names.items()}
        for target in targets.values():
            check_target(target)
        check_outputs(targets.values(), files_of(settings, model, config), make_folders=True)
        fitted = load_model(model)
        tables = fill(fitted, read_known(fitted, settings), min_confidence)
        with new_folder(out), written_together():
            for view, table in tables.items():
                write_table(table, targets[view], spreadsheet_safe=not raw_cells)
    for view, table in tables.items():
        say(f"Wrote {len(table)} rows to {targets[view]}.")
