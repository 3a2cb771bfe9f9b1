"""``naim3l report``: one page about a model and its data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from naim3l.cli.app import app, told_plainly
from naim3l.cli.common import Id, LabelFiles, Labels, Settings, Views, make_settings


@app.command()
def report(
    model: Annotated[Path, typer.Argument(help="Model file that 'naim3l fit' wrote.")],
    views: Views = None,
    config: Settings = None,
    labels: Labels = None,
    labels_file: LabelFiles = None,
    id_column: Id = None,
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

    Views and labels are those of the fit. Without --test, quality is measured on labels that the
    model has seen, and the page says so.

    Example: naim3l report model.skops --config study.toml --test clinic=clinic_new.csv
    """
    with told_plainly():
        from naim3l import load

        fitted = load(model)
        write(fitted, make_settings(views, config, labels, labels_file, id_column), test, out)
    typer.echo(f"Wrote {out} and {out.with_suffix('.json')}.")


def write(model: Any, settings: Any, test: list[str] | None, out: Path) -> None:
    """Write the page of a model and the numbers of it."""
    _need_libraries()
    from naim3l.report import summarise, write_json, write_report
    from naim3l.workflow import read_test, read_training

    model.set_output(transform="default")
    unseen = None if not test else _tables(read_test(settings, test))
    summary = summarise(model, *_tables(read_training(settings)), test=unseen)
    write_json(out.with_suffix(".json"), summary)
    write_report(out, summary)


def _tables(data: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    return (
        {name: view.features for name, view in data.items()},
        {name: view.labels for name, view in data.items()},
    )


def _need_libraries() -> None:
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(f"a report needs {error.name}: pip install 'naim3l[report]'.") from error
