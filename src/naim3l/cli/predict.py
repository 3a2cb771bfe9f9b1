"""``naim3l predict`` and ``naim3l impute``: labels of new rows, and unknown labels filled in."""

import hashlib
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from naim3l.cli import options
from naim3l.cli.app import report_errors, say
from naim3l.cli.options import load_model, option

Table: Any = option("Table to write (<written>), or, of chunks, a folder.", Path, "--out", "-o")
Kind: Any = option("labels, scores or probabilities.", str, "--what")
Fused: Any = option("One row per id: the evidence of its views is added up.", bool, "--fused")
Decide: Any = option(
    "When to say yes: <rules>. Default: as in the fit. What the rule reaches is printed."
)
Overlap: Any = option(
    "How much views repeat each other, from 0 to 1, with --fused. Default: learned from the rows.",
    float | None,
    min=0,
    max=1,
)
Known: Any = options.known_option("Other labels are then predicted given these.")
Resume: Any = option(
    "Of a folder of chunks: keep what an interrupted run with --resume has written, if it is of "
    "this model, these files and options, and unchanged.",
    bool,
    "--resume",
)
Folder: Any = option("Folder to write to, a file per view.", Path, "--out", "-o")
Format: Any = option("Format of the files in a folder: <written>.", str, "--format")
Least: Any = option(
    "Leave a label unknown if its most probable value is less likely.", float | None, min=0.5, max=1
)


def predict(
    model: options.Model,
    out: Table,
    views: options.Views = None,
    config: options.Config = None,
    kind: Kind = "labels",
    fused: Fused = False,
    decide: Decide = None,
    overlap: Overlap = None,
    known: Known = None,
    ids: options.Ids = None,
    codes: options.Codes = "source",
    extension: Format = "parquet",
    memory: options.Memory = None,
    dask: options.Dask = None,
    resume: Resume = False,
    raw_cells: options.RawCells = False,
) -> None:
    """Predict the labels of new rows.

    Ids are kept; where a table has none, rows are numbered from 0. A row without any value has no
    answer. With several views, a column names the view of each row, unless --fused joins the
    rows of an id: what each view adds to the frequency of a label is then added up, so that views
    that agree are surer than each alone, scores are log-odds, and yes and no are decided on the
    fused probability. How much views repeat each other is learned from these rows if an id is in
    two views in at least 20 of them.

    With --known, labels that are known of the rows stay as they are, and tell about the others.

    Labels are written as the tables of the fit have them, such as yes and no, or 1 and 2. If these
    have several words, or the views different ones, and with --codes 0/1, they are 1 and 0.

    For tables that are read in chunks (folders, patterns, --memory, --dask), a folder has a file
    for each part of them.

    Example: naim3l predict model.naim3l lab=new.csv --what probabilities -o out.parquet

    Example: naim3l predict model.naim3l lab=new.csv clinic=later.csv --fused -o fused.csv

    Example: naim3l predict model.naim3l 'lab=new/*.parquet' --memory 4GB -o answers/
    """
    with report_errors():
        from naim3l.cli.chunks import open_rows
        from naim3l.cli.evaluate import print_absent
        from naim3l.cli.predictions import (
            describe_price,
            make_predictions,
            predict_fused,
            write_answers,
        )
        from naim3l.cli.settings import make_settings, with_known, with_views
        from naim3l.cli.tables import is_chunked, open_known, open_new
        from naim3l.files.writers import write_table

        _check_question(kind, decide, overlap, known, fused=fused)
        settings, safe = make_settings(with_views(views, model), config, ids=ids), not raw_cells
        settings = with_known(settings, known or [])
        chunked = is_chunked(settings, memory, dask)
        if fused and chunked:
            raise ValueError(
                "--fused joins rows of all views by id, for which tables must fit in memory; leave "
                "it out for tables that are read in chunks."
            )
        to_folder = chunked and (not out.suffix or out.is_dir())
        ending = extension.removeprefix(".") if to_folder else None
        _check_folder(resume, ending)
        _check_targets([out], ending, settings.files(model, config), make_folders=bool(ending))
        fitted = load_model(model)
        tables = (open_known if known else open_new)(fitted, settings)
        _say_known(fitted, tables if known else {})
        if fused:
            X = {name: view.read()[0] for name, view in tables.items()}
            shared = "auto" if overlap is None else overlap
            table = predict_fused(fitted, X, kind, decide, shared, codes)
            write_table(table, out, spreadsheet_safe=safe)
            n_rows, n_kept = len(table), 0
        else:
            with open_rows(fitted, tables, (memory, dask) if chunked else None) as rows:
                named = {name: view.id for name, view in rows.items()}
                answers = make_predictions(fitted, named, kind, decide, codes)
                digest = hashlib.sha256(model.read_bytes()).hexdigest()
                asked = (digest, kind, decide, codes, named, known) if resume else None
                given = {out: rows}, answers, ending
                ((n_rows, n_kept),) = write_answers(*given, safe=safe, question=asked)
    if kind == "labels" and (price := describe_price(fitted, decide, fused=fused)):
        say(price)
    print_absent(fitted, tables)
    kept = f" {n_kept} parts of them had been written before, and are unchanged." if n_kept else ""
    say(f"Wrote {n_rows} rows to {out}.{kept}")


def _check_question(
    kind: str, decide: str | None, overlap: float | None, known: Any, *, fused: bool
) -> None:
    """Refuse options that do not go together."""
    from naim3l.cli.predictions import KINDS

    if kind not in KINDS:
        raise ValueError(f"--what is {kind!r}, but must be one of: {', '.join(KINDS)}.")
    if decide is not None and kind != "labels":
        raise ValueError(f"--decide {decide} is for labels, but --what is {kind}.")
    if overlap is not None and not fused:
        raise ValueError("--overlap is for fused rows; add --fused.")
    if known and (fused or kind == "scores"):
        what = "--fused" if fused else "--what scores"
        raise ValueError(f"--known is for the labels or probabilities of views, not {what}.")


def _check_folder(resume: bool, ending: str | None) -> None:
    if resume and ending is None:
        raise ValueError("--resume is for tables that are read in chunks, and a folder as -o.")


def _say_known(model: Any, tables: Any) -> None:
    """Which labels of each view are known."""
    from naim3l._text import some

    for name, view in tables.items():
        n_known, names = len(view.labels), some(view.labels, 6, str) or "none"
        say(f"View {name}: {n_known} of {len(model.label_names_)} labels are known: {names}.")


def _check_targets(
    targets: Iterable[Path], ending: str | None, inputs: list[Path], *, make_folders: bool
) -> None:
    """Refuse files, or folders of files with an ending, that could not be written."""
    from naim3l.files.atomic_write import check_outputs
    from naim3l.files.writers import check_target

    files = [path / f"part.{ending}" if ending else path for path in targets]
    for path in files:
        check_target(path)
    check_outputs(files, inputs, make_folders=make_folders)


def impute(
    model: options.Model,
    views: options.Views = None,
    config: options.Config = None,
    labels: options.Labels = None,
    labels_file: options.LabelFiles = None,
    ids: options.Ids = None,
    out: Folder = Path("imputed"),
    extension: Format = "csv",
    min_confidence: Least = None,
    codes: options.Codes = "source",
    memory: options.Memory = None,
    dask: options.Dask = None,
    raw_cells: options.RawCells = False,
) -> None:
    """Fill in the unknown labels of tables with their most probable values.

    The features of a row and its known labels tell about the others. Each label has two more
    columns: LABEL_confidence, the probability of the value that was filled in, which is at least
    0.5; and LABEL_filled, from what a value was filled in: features, known labels, both, or the
    frequency of the label. Labels are written as the table of the fit has them, such as yes and no;
    --codes 0/1 writes 1 and 0, as is also done if it has several words.
    Known labels stay as they are, with confidence 1. Ids are kept. The folder is created if it does
    not exist. Files are named after the views, without characters that file names cannot have. For
    tables that are read in chunks (folders, patterns, --memory, --dask), they are folders of files.

    Example: naim3l impute model.naim3l --config study.toml --min-confidence 0.8 -o filled
    """
    with report_errors():
        from naim3l.cli.chunks import open_rows
        from naim3l.cli.predictions import check_answers, fill_in, words_of_source, write_answers
        from naim3l.cli.settings import make_settings, with_views
        from naim3l.cli.tables import is_chunked, open_known
        from naim3l.files.atomic_write import file_names

        settings = make_settings(with_views(views, model), config, labels, labels_file, ids)
        chunked = is_chunked(settings, memory, dask)
        suffix = extension.removeprefix(".")
        end, ending = ("", suffix) if chunked else (f".{suffix}", None)
        paths = {view: out / f"{name}{end}" for view, name in file_names(settings.views).items()}
        _check_targets(paths.values(), ending, settings.files(model, config), make_folders=True)
        fitted = load_model(model)
        tables = open_known(fitted, settings)
        with open_rows(fitted, tables, (memory, dask) if chunked else None) as rows:
            check_answers(fitted, "probabilities")
            words = {name: words_of_source(fitted, [name], codes) for name in rows}
            answers = {
                name: partial(fill_in, fitted, name, min_confidence, words=words[name])
                for name in rows
            }
            targets = {paths[name]: {name: of} for name, of in rows.items()}
            written = write_answers(targets, answers, ending, safe=not raw_cells)
    for path, of in zip(targets, written, strict=True):
        say(f"Wrote {of.rows} rows to {path}.")
