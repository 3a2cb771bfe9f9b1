"""``naim3l predict`` and ``naim3l impute``: labels of new rows, and unknown labels filled in."""

from pathlib import Path
from typing import Annotated, Any

import typer

from naim3l.cli.app import app, report_errors, say
from naim3l.cli.common import (
    Dask,
    KnownIds,
    KnownLabels,
    LabelFiles,
    Memory,
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
        Path,
        typer.Option("--out", "-o", help="Table to write: .csv, .tsv, .parquet or .arrow; or, for "
                                         "tables that are read in parts, a folder of parts."),
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
    ending: Annotated[
        str, typer.Option(help="Extension of the parts in a folder: csv, tsv, parquet or arrow.")
    ] = "parquet",
    memory: Memory = None,
    dask: Dask = None,
    raw_cells: RawCells = False,
) -> None:  # fmt: skip
    """Predict the labels of new rows.

    Ids are kept; where a table has none, rows are numbered from 0. A row without any value has no
    answer. With several views, a column names the view of each row, unless --fused joins the
    rows of an id: what each view adds to the frequency of a label is then added up, so that views
    that agree are surer than each alone, and scores are log-odds.

    For tables that are read in parts (folders, patterns, --memory, --dask), the same command
    resumes one that was interrupted.

    Example: naim3l predict model.skops lab=new.csv --what probabilities -o out.parquet

    Example: naim3l predict model.skops lab=new.csv clinic=later.csv --fused -o fused.csv

    Example: naim3l predict model.skops lab=new.csv --decide cardinality -o tags.csv

    Example: naim3l predict model.skops 'lab=new/*.parquet' --memory 4GB -o answers/
    """
    with report_errors():
        from naim3l.cli.work import KINDS
        from naim3l.cli.work.streamed_work import is_streamed

        if kind not in KINDS:
            raise ValueError(f"--what is {kind!r}, but must be one of: {', '.join(KINDS)}.")
        if decide is not None and kind != "labels":
            raise ValueError(f"--decide {decide} is for labels, but --what is {kind}.")
        settings = make_settings(views, config, ids=ids)
        inputs, safe = files_of(settings, model, config), not raw_cells
        if is_streamed(settings, memory, dask):
            if fused:
                raise ValueError(
                    "--fused joins rows of all views by id, for which tables must fit in memory; "
                    "leave it out for tables that are read in parts, and fuse the rows that you "
                    "need from single files."
                )
            n_rows = _predict_parts(
                model, settings, inputs, out, kind, decide, safe,
                ending=ending, memory=memory, address=dask,
            )  # fmt: skip
        else:
            n_rows = _predict_tables(model, settings, inputs, out, kind, fused, decide, safe)
    say(f"Wrote {n_rows} rows to {out}.")


def _predict_tables(
    path: Path, settings: Any, inputs: list[Path], out: Path, kind: str, fused: bool,
    decide: str | None, safe: bool,
) -> int:  # fmt: skip
    """Write the predictions for tables in memory; the number of rows."""
    from naim3l.cli.work import predict_tables, read_new
    from naim3l.files.atomic_write import check_outputs
    from naim3l.files.readers import check_target, write_table

    check_target(out)
    check_outputs([out], inputs)
    model, tables = load_model(path), settings.views.items()
    X = read_new(
        model,
        {name: view.source for name, view in tables},
        ids={name: view.id for name, view in tables},
    )
    table = predict_tables(model, X, kind, fused=fused, decide=decide)
    write_table(table, out, spreadsheet_safe=safe)
    return len(table)


def _predict_parts(
    path: Path, settings: Any, inputs: list[Path], out: Path, kind: str, decide: str | None,
    safe: bool, *, ending: str, memory: str | None, address: str | None,
) -> int:  # fmt: skip
    """Write the predictions for tables in parts, to a folder or a file; the number of rows."""
    from naim3l.cli.work.streamed_outputs import (
        file_target,
        folder_target,
        identify,
        join_parts,
        write_predictions,
    )
    from naim3l.cli.work.streamed_tables import open_new
    from naim3l.cli.work.streamed_work import workers
    from naim3l.files.atomic_write import check_outputs
    from naim3l.files.readers import check_target

    to_folder = not out.suffix or out.is_dir()
    first = out / f"part.{ending}" if to_folder else out
    check_target(first)
    check_outputs([first], inputs, make_folders=to_folder)
    model = load_model(path)
    with workers(memory, address) as part_bytes:
        data = open_new(model, settings, part_bytes)
        run = identify(path, data, {"what": kind, "decide": decide, "safe": safe})
        if to_folder:
            target = folder_target(out, ending, run, spreadsheet_safe=safe)
        else:
            target = file_target(out, run, spreadsheet_safe=safe)
        n_rows = write_predictions(model, data, target, kind, decide, shown=True)
    if not to_folder:
        join_parts(target, out, sum(len(view.features.lengths) for view in data.values()))
    return n_rows


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
    memory: Memory = None,
    dask: Dask = None,
    raw_cells: RawCells = False,
) -> None:
    """Fill in the unknown labels of tables with their most probable values.

    Each label has two more columns: LABEL_confidence, the probability of the value that was filled
    in, which is at least 0.5, and LABEL_filled, which is 1 where a value was filled in and else 0.
    Known labels stay as they are, with confidence 1. Ids are kept. The folder is created if it does
    not exist. Files are named after the views, without characters that file names cannot have. For
    tables that are read in parts (folders, patterns, --memory, --dask), they are folders of parts,
    and the same command resumes one that was interrupted.

    Example: naim3l impute model.skops --config study.toml -o filled

    Example: naim3l impute model.skops --config study.toml --min-confidence 0.8 -o filled
    """
    with report_errors():
        from naim3l.cli.work.streamed_work import is_streamed
        from naim3l.files.atomic_write import file_names

        settings = make_settings(views, config, labels, labels_file, ids)
        names = file_names(settings.views)
        inputs, safe = files_of(settings, model, config), not raw_cells
        if is_streamed(settings, memory, dask):
            targets = {view: out / name for view, name in names.items()}
            written = _impute_parts(
                model, settings, inputs, targets, min_confidence, safe,
                ending=ending, memory=memory, address=dask,
            )  # fmt: skip
        else:
            targets = {view: out / f"{name}.{ending}" for view, name in names.items()}
            written = _impute_tables(model, settings, inputs, out, targets, min_confidence, safe)
    for view, n_rows in written.items():
        say(f"Wrote {n_rows} rows to {targets[view]}.")


def _impute_tables(
    path: Path, settings: Any, inputs: list[Path], out: Path, targets: dict[str, Path],
    min_confidence: float | None, safe: bool,
) -> dict[str, int]:  # fmt: skip
    """Write the labels of tables in memory; the number of rows of each view."""
    from naim3l.cli.work import impute as fill
    from naim3l.cli.work import read_known
    from naim3l.files.atomic_write import check_outputs, new_folder, written_together
    from naim3l.files.readers import check_target, write_table

    for target in targets.values():
        check_target(target)
    check_outputs(targets.values(), inputs, make_folders=True)
    model = load_model(path)
    tables = fill(model, read_known(model, settings), min_confidence)
    with new_folder(out), written_together():
        for view, table in tables.items():
            write_table(table, targets[view], spreadsheet_safe=safe)
    return {view: len(table) for view, table in tables.items()}


def _impute_parts(
    path: Path, settings: Any, inputs: list[Path], targets: dict[str, Path],
    min_confidence: float | None, safe: bool, *, ending: str, memory: str | None,
    address: str | None,
) -> dict[str, int]:  # fmt: skip
    """Write the labels of tables in parts; the number of rows of each view."""
    from naim3l.cli.work.streamed_outputs import folder_target, identify, write_imputed
    from naim3l.cli.work.streamed_tables import open_known
    from naim3l.cli.work.streamed_work import workers
    from naim3l.files.atomic_write import check_outputs
    from naim3l.files.readers import check_target

    first = [folder / f"part.{ending}" for folder in targets.values()]
    for part in first:
        check_target(part)
    check_outputs(first, inputs, make_folders=True)
    model, written = load_model(path), {}
    with workers(memory, address) as part_bytes:
        data = open_known(model, settings, part_bytes)
        run = identify(path, data, {"min_confidence": min_confidence, "safe": safe})
        folders = {
            view: folder_target(folder, ending, run, spreadsheet_safe=safe)
            for view, folder in targets.items()
        }
        for view, of_view in data.items():
            written[view] = write_imputed(
                model, view, of_view, folders[view], min_confidence, shown=True
            )
    return written
