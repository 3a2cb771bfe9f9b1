"""``naim3l report``: one page about a model and its data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from naim3l.cli.app import Command, app, need_libraries, report_errors, say
from naim3l.cli.options import (
    Config,
    Ids,
    LabelFiles,
    Labels,
    Model,
    Views,
    load_model,
)


@app.command(cls=Command)
def report(
    model: Model,
    views: Views = None,
    config: Config = None,
    labels: Labels = None,
    labels_file: LabelFiles = None,
    ids: Ids = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            "--test",
            help="name=path of rows that the fit has not seen, with labels in the same columns; "
            "repeat for several views.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Page to write; its numbers go beside it, as JSON.")
    ] = Path("report.html"),
) -> None:
    """Write a page about a model: its data, choices, quality, labels, and what to be careful about.

    Views are those of the fit. Without --test, quality is measured on labels that were held out
    of the fit in turn.

    Example: naim3l report model.naim3l --config study.toml --test clinic=clinic_new.csv
    """
    with report_errors():
        from naim3l.cli.settings import make_settings
        from naim3l.cli.tables import read_known, split
        from naim3l.explain import check_explained
        from naim3l.files.atomic_write import check_outputs

        outputs = page_files(out)
        settings = make_settings(views, config, labels, labels_file, ids)
        unseen = settings.with_sources(test) if test else None
        inputs = settings.files(model, config)
        check_outputs(outputs, [*inputs, *unseen.files()] if unseen else inputs)
        fitted = load_model(model)
        check_explained(fitted)
        later = split(read_known(fitted, unseen)) if unseen else None
        write_page(fitted, *split(read_known(fitted, settings)), out, test=later)
    say(f"Wrote {' and '.join(map(str, outputs))}.")


def page_files(out: Path | None) -> list[Path]:
    """Files of a page: the page itself, then its numbers; none without a page."""
    if out is None:
        return []
    need_libraries("a report", "report", "jinja2", "matplotlib")
    if out.suffix == ".json":
        raise ValueError(f"{out}: the numbers are written to that file; name the page .html.")
    return [out, out.parent / f"{out.stem}.json"]


def write_page(
    model: Any,
    X: Mapping[str, Any],
    Y: Mapping[str, Any],
    out: Path,
    *,
    test: tuple[Any, Any] | None = None,
    fitted: bool = True,
) -> None:
    """Write the page of a model and its numbers, as `naim3l.report.summarise` computes them."""
    from naim3l.files.atomic_write import written_together
    from naim3l.report import summarise, write_report
    from naim3l.report.page import write_json

    model.set_output(transform="default")
    summary = summarise(model, X, Y, test=test, fitted=fitted)
    page, numbers = page_files(out)
    with written_together():
        write_json(numbers, summary)
        write_report(page, summary)
