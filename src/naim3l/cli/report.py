"""``naim3l report``: one page about a model and its data."""

from importlib import import_module
from pathlib import Path
from typing import Any

from naim3l.cli import options
from naim3l.cli.app import report_errors, say
from naim3l.cli.options import load_model, option

Test: Any = option("name=path of labelled rows that the fit has not seen.", list[str] | None)
Target: Any = option("Page to write; its numbers go beside it, as JSON.", Path, "--out", "-o")


def report(
    model: options.Model,
    views: options.Views = None,
    config: options.Config = None,
    labels: options.Labels = None,
    labels_file: options.LabelFiles = None,
    ids: options.Ids = None,
    test: Test = None,
    out: Target = Path("report.html"),
) -> None:
    """Write a page about a model: its data, choices, quality, labels, and what to be careful about.

    Views are those of the fit. Without --test, quality is measured on rows that were held out
    of the fit in turn.

    Example: naim3l report model.naim3l --config study.toml --test clinic=clinic_new.csv
    """
    with report_errors():
        from naim3l.cli.settings import make_settings, with_views
        from naim3l.cli.tables import read_known
        from naim3l.cli.titles import set_titles
        from naim3l.explain.model_views import check_explained
        from naim3l.files.atomic_write import check_outputs

        outputs = page_files(out)
        settings = make_settings(with_views(views, model), config, labels, labels_file, ids)
        unseen = settings.with_sources(test or [])
        check_outputs(outputs, [*settings.files(model, config), *unseen.files()])
        fitted = load_model(model)
        check_explained(fitted)
        set_titles(fitted, settings)
        later = read_known(fitted, unseen) if test else None
        write_page(fitted, *read_known(fitted, settings), out, test=later)
    say(f"Wrote {' and '.join(map(str, outputs))}.")


def page_files(out: Path | None) -> list[Path]:
    """Files of a page: the page itself, then its numbers; none without a page."""
    if out is None:
        return []
    try:
        for module in ("jinja2", "matplotlib"):
            import_module(module)
    except ImportError as error:
        raise ImportError(f"a report needs {error.name}: pip install 'naim3l[report]'.") from error
    if out.suffix == ".json":
        raise ValueError(f"{out}: the numbers are written to that file; name the page .html.")
    return [out, out.parent / f"{out.stem}.json"]


def write_page(model: Any, X: Any, Y: Any, out: Path, **options: Any) -> None:
    """Write the page of a model and its numbers, as `naim3l.report.summarise` computes them."""
    from naim3l.files.atomic_write import written_together
    from naim3l.report import summarise, write_report
    from naim3l.report.page import write_json

    summary = summarise(model.set_output(transform="default"), X, Y, **options)
    page, numbers = page_files(out)
    with written_together():
        write_json(numbers, summary)
        write_report(page, summary)
