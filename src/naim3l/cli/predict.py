"""``naim3l predict`` and ``naim3l impute``: labels of new rows, and unknown labels filled in."""

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from naim3l.cli.app import Command, app, report_errors, say
from naim3l.cli.options import (
    Config,
    Dask,
    Ids,
    LabelFiles,
    Labels,
    Memory,
    Model,
    RawCells,
    Views,
    load_model,
)

Limits = tuple[str | None, str | None]  # memory, and the address of a cluster


@app.command(cls=Command)
def predict(
    model: Model,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="Table to write (<written>); or, for tables that are read in chunks, a folder.",
        ),
    ],
    views: Views = None,
    config: Config = None,
    kind: Annotated[
        str, typer.Option("--what", help="labels, scores or probabilities.")
    ] = "labels",
    fused: Annotated[
        bool,
        typer.Option("--fused", help="One row per id: the evidence of its views is added up."),
    ] = False,
    decide: Annotated[
        str | None, typer.Option(help="When to say yes: <rules>. Default: as in the fit.")
    ] = None,
    ids: Ids = None,
    extension: Annotated[
        str, typer.Option("--format", help="Format of the files in a folder: <written>.")
    ] = "parquet",
    memory: Memory = None,
    dask: Dask = None,
    raw_cells: RawCells = False,
) -> None:
    """Predict the labels of new rows.

    Ids are kept; where a table has none, rows are numbered from 0. A row without any value has no
    answer. With several views, a column names the view of each row, unless --fused joins the
    rows of an id: what each view adds to the frequency of a label is then added up, so that views
    that agree are surer than each alone, and scores are log-odds.

    For tables that are read in chunks (folders, patterns, --memory, --dask), the same command
    resumes one that was interrupted.

    Example: naim3l predict model.naim3l lab=new.csv --what probabilities -o out.parquet

    Example: naim3l predict model.naim3l lab=new.csv clinic=later.csv --fused -o fused.csv

    Example: naim3l predict model.naim3l lab=new.csv --decide cardinality -o tags.csv

    Example: naim3l predict model.naim3l 'lab=new/*.parquet' --memory 4GB -o answers/
    """
    with report_errors():
        from naim3l.cli.predictions import KINDS
        from naim3l.cli.settings import make_settings
        from naim3l.cli.tables import is_chunked

        if kind not in KINDS:
            raise ValueError(f"--what is {kind!r}, but must be one of: {', '.join(KINDS)}.")
        if decide is not None and kind != "labels":
            raise ValueError(f"--decide {decide} is for labels, but --what is {kind}.")
        settings = make_settings(views, config, ids=ids)
        asked = _Asked(model, settings, settings.files(model, config), not raw_cells)
        if not is_chunked(settings, memory, dask):
            written = _predict_rows(asked, out, kind, decide, fused=fused)
        elif fused:
            raise ValueError(
                "--fused joins rows of all views by id, for which tables must fit in memory; leave "
                "it out for tables that are read in chunks, and fuse the rows that you need from "
                "single files."
            )
        else:
            written = _predict_chunks(asked, out, kind, decide, extension, (memory, dask))
    say(f"Wrote {written} to {out}.")


class _Asked(NamedTuple):
    """What a command is asked for: tables, files that are read, and whether cells are safe."""

    model: Path
    settings: Any
    inputs: list[Path]
    safe: bool


def _predict_rows(asked: _Asked, out: Path, kind: str, decide: str | None, *, fused: bool) -> str:
    """Write the predictions for tables in memory; what was written."""
    from naim3l.cli.predictions import predict_fused, predict_rows
    from naim3l.cli.tables import open_new
    from naim3l.files.atomic_write import check_outputs
    from naim3l.files.writers import check_target, write_table

    check_target(out)
    check_outputs([out], asked.inputs)
    model = load_model(asked.model)
    X = {name: view.read().features for name, view in open_new(model, asked.settings).items()}
    table = (predict_fused if fused else predict_rows)(model, X, kind, decide)
    write_table(table, out, spreadsheet_safe=asked.safe)
    return f"{len(table)} rows"


def _predict_chunks(
    asked: _Asked, out: Path, kind: str, decide: str | None, extension: str, limits: Limits
) -> str:
    """Write the predictions for tables in chunks, to a folder or a file; what was written."""
    from naim3l.cli.chunks import workers
    from naim3l.cli.output_folders import Target, identify
    from naim3l.cli.predictions import make_predictions
    from naim3l.cli.tables import open_new
    from naim3l.files.atomic_write import check_outputs
    from naim3l.files.writers import check_target

    to_folder = not out.suffix or out.is_dir()
    first = out / f"part.{extension}" if to_folder else out
    check_target(first)
    check_outputs([first], asked.inputs, make_folders=to_folder)
    model = load_model(asked.model)
    with workers(*limits) as batch_bytes:
        opened = open_new(model, asked.settings)
        views = {name: view.settled() for name, view in opened.items()}
        run = identify(asked.model, views, kind, decide, asked.safe)
        if to_folder:
            target = Target.of_folder(out, extension, run, asked.safe)
        else:
            target = Target.of_file(out, run, asked.safe)
        ids = {name: view.id for name, view in views.items()}
        answers = make_predictions(model, ids, kind, decide)
        written = target.write(model, views, answers, batch_bytes)
    return str(written if to_folder else target.join(out))


@app.command(cls=Command)
def impute(
    model: Model,
    views: Views = None,
    config: Config = None,
    labels: Labels = None,
    labels_file: LabelFiles = None,
    ids: Ids = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder to write to, a file per view.")
    ] = Path("imputed"),
    extension: Annotated[
        str, typer.Option("--format", help="Format of the files: <written>.")
    ] = "csv",
    min_confidence: Annotated[
        float | None,
        typer.Option(
            min=0.5, max=1, help="Leave a label unknown if its most probable value is less likely."
        ),
    ] = None,
    memory: Memory = None,
    dask: Dask = None,
    raw_cells: RawCells = False,
) -> None:
    """Fill in the unknown labels of tables with their most probable values.

    Each label has two more columns: LABEL_confidence, the probability of the value that was filled
    in, which is at least 0.5, and LABEL_filled, which is 1 where a value was filled in and else 0.
    Known labels stay as they are, with confidence 1. Ids are kept. The folder is created if it does
    not exist. Files are named after the views, without characters that file names cannot have. For
    tables that are read in chunks (folders, patterns, --memory, --dask), they are folders of files,
    and the same command resumes one that was interrupted.

    Example: naim3l impute model.naim3l --config study.toml -o filled

    Example: naim3l impute model.naim3l --config study.toml --min-confidence 0.8 -o filled
    """
    with report_errors():
        from naim3l.cli.settings import make_settings
        from naim3l.cli.tables import is_chunked
        from naim3l.files.atomic_write import check_outputs, file_names
        from naim3l.files.writers import check_target

        settings = make_settings(views, config, labels, labels_file, ids)
        names, chunked = file_names(settings.views), is_chunked(settings, memory, dask)
        end = "" if chunked else f".{extension}"
        targets = {view: out / f"{name}{end}" for view, name in names.items()}
        first = [path / f"part.{extension}" if chunked else path for path in targets.values()]
        for path in first:
            check_target(path)
        inputs = settings.files(model, config)
        check_outputs(first, inputs, make_folders=True)
        asked = _Asked(model, settings, inputs, not raw_cells)
        if chunked:
            written = _impute_chunks(asked, targets, min_confidence, extension, (memory, dask))
        else:
            written = _impute_rows(asked, out, targets, min_confidence)
    for view, how_many in written.items():
        say(f"Wrote {how_many} to {targets[view]}.")


def _impute_rows(
    asked: _Asked, out: Path, targets: dict[str, Path], min_confidence: float | None
) -> dict[str, str]:
    """Write the labels of tables in memory; what was written, by view."""
    from naim3l.cli.predictions import FillIn, check_answers, id_names
    from naim3l.cli.tables import read_known, split
    from naim3l.files.atomic_write import new_folder, written_together
    from naim3l.files.writers import write_table

    model = load_model(asked.model)
    X, Y = split(read_known(model, asked.settings))
    check_answers(model, id_names(X), "probabilities")
    tables = {name: FillIn(model, name, min_confidence)(X[name], Y[name]) for name in X}
    with new_folder(out), written_together():
        for view, table in tables.items():
            write_table(table, targets[view], spreadsheet_safe=asked.safe)
    return {view: f"{len(table)} rows" for view, table in tables.items()}


def _impute_chunks(
    asked: _Asked,
    targets: dict[str, Path],
    min_confidence: float | None,
    extension: str,
    limits: Limits,
) -> dict[str, str]:
    """Write the labels of tables in chunks; what was written, by view."""
    from naim3l.cli.chunks import LabelReader, scan, workers
    from naim3l.cli.output_folders import Target, identify
    from naim3l.cli.predictions import FillIn, check_answers
    from naim3l.cli.tables import open_known

    model, written = load_model(asked.model), {}
    with workers(*limits) as batch_bytes:
        opened = open_known(model, asked.settings)
        views = {name: view.settled() for name, view in opened.items()}
        check_answers(model, {name: view.id for name, view in views.items()}, "probabilities")
        run = identify(asked.model, views, min_confidence, asked.safe)
        folders = {
            name: Target.of_folder(folder, extension, run, asked.safe)
            for name, folder in targets.items()
        }
        for name, view in views.items():
            decode = LabelReader.of(view, scan(view, batch_bytes, shown=True), model)
            answer = FillIn(model, name, min_confidence, decode)
            done = folders[name].write(model, {name: view}, {name: answer}, batch_bytes)
            written[name] = str(done)
    return written
