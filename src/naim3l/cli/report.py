"""``naim3l report``: one page about a model and its data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from naim3l.cli.app import app, need_libraries, say, told_plainly
from naim3l.cli.common import (
    KnownId,
    KnownLabels,
    LabelFiles,
    Model,
    Settings,
    Views,
    load_model,
    make_settings,
)


@app.command()
def report(
    model: Model,
    views: Views = None,
    config: Settings = None,
    labels: KnownLabels = None,
    labels_file: LabelFiles = None,
    id_column: KnownId = None,
    test: Annotated[
        list[str] | None,
        typer.Option("--test", help="name=path of rows that the fit has not seen, with labels in "
                                    "the same columns; again for several views."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Page to write; the numbers go beside it as JSON.")
    ] = Path("report.html"),
) -> None:  # fmt: skip
    """Write a page about a model: its data, choices, quality, labels, and what to be careful about.

    Views are those of the fit. Without --test, quality is measured on labels that the
    model has seen, and the page says so.

    Example: naim3l report model.skops --config study.toml --test clinic=clinic_new.csv
    """
    with told_plainly():
        from naim3l.explain import check_explained
        from naim3l.workflow import read_known, split, with_sources

        check_page(out)
        settings = make_settings(views, config, labels, labels_file, id_column)
        fitted = load_model(model)
        check_explained(fitted)
        unseen = split(read_known(fitted, with_sources(settings, test))) if test else None
        write(fitted, *split(read_known(fitted, settings)), out, test=unseen)
    say(f"Wrote {out} and {out.with_suffix('.json')}.")


def check_page(out: Path | None) -> None:
    """Error, before any work is done, if a page could not be written after it."""
    if out is None:
        return
    need_libraries("a report", "report", "jinja2", "matplotlib")
    if out.suffix == ".json":
        raise ValueError(f"{out}: the numbers go to that file; name the page .html.")
    if not out.absolute().parent.is_dir():
        raise FileNotFoundError(f"there is no folder {out.parent} to write {out.name} to.")


def write(
    model: Any,
    X: Mapping[str, Any],
    Y: Mapping[str, Any],
    out: Path,
    *,
    test: tuple[Any, Any] | None = None,
    fitted: bool = True,
) -> None:
    """Write the page of a model and the numbers of it; `naim3l.report.summarise` has the rest."""
    from naim3l.report import summarise, write_json, write_report

    model.set_output(transform="default")
    summary = summarise(model, X, Y, test=test, fitted=fitted)
    write_json(out.with_suffix(".json"), summary)
    write_report(out, summary)
