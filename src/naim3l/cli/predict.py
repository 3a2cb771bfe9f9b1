"""``naim3l predict`` and ``naim3l impute``: labels out."""

from pathlib import Path
from typing import Annotated

import typer

from naim3l.cli.app import app, told_plainly
from naim3l.cli.common import Id, LabelFiles, Labels, Settings, Views, make_settings

Model = Annotated[Path, typer.Argument(help="Model file that 'naim3l fit' wrote.")]


@app.command()
def predict(
    model: Model,
    views: Annotated[list[str], typer.Argument(help="New rows of some views, as name=path.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Table to write; .csv, .tsv, .parquet, .arrow.")
    ],
    kind: Annotated[
        str, typer.Option("--what", help="labels, scores or probabilities.")
    ] = "labels",
    fused: Annotated[
        bool, typer.Option("--fused", help="One row per id, averaged over its views.")
    ] = False,
    id_column: Id = None,
) -> None:
    """Predict the labels of new rows.

    Ids are kept and written back; of several views, a column tells which one a row is of, unless
    --fused joins the rows of an id.

    Example: naim3l predict model.skops lab=new.csv --what probabilities -o out.parquet
    """
    with told_plainly():
        from naim3l import load
        from naim3l.readers import write_table
        from naim3l.workflow import KINDS, parse_sources, predict_tables, read_new

        if kind not in KINDS:
            raise ValueError(f"--what is {kind!r}; known are: {', '.join(KINDS)}.")
        fitted = load(model)
        X = read_new(fitted, parse_sources(views), id_column=id_column)
        table = predict_tables(fitted, X, kind, fused=fused)
        write_table(table, out)
    typer.echo(f"Wrote {len(table)} rows to {out}.")


@app.command()
def impute(
    model: Model,
    views: Views = None,
    config: Settings = None,
    labels: Labels = None,
    labels_file: LabelFiles = None,
    id_column: Id = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder to write to, a file per view.")
    ] = Path("imputed"),
    ending: Annotated[str, typer.Option(help="csv, tsv, parquet or arrow.")] = "csv",
) -> None:
    """Fill in the unknown labels of tables, with a confidence beside each.

    Known labels stay as they are, with confidence 1.

    Example: naim3l impute model.skops --config study.toml -o filled
    """
    with told_plainly():
        from naim3l import load
        from naim3l.readers import write_table
        from naim3l.workflow import impute as fill
        from naim3l.workflow import read_training

        fitted = load(model)
        settings = make_settings(views, config, labels, labels_file, id_column)
        tables = fill(fitted, read_training(settings))
        out.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            path = out / f"{name}.{ending}"
            write_table(table, path)
            typer.echo(f"Wrote {len(table)} rows to {path}.")
