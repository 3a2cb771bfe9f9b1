"""``naim3l init``: first settings for some tables."""

from pathlib import Path
from typing import Annotated

import typer

from naim3l.cli import options
from naim3l.cli.app import print_table, report_errors, say


def init(
    sources: Annotated[list[str], typer.Argument(help="Tables: files, or databases as for fit.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Settings file to write.")] = Path(
        "naim3l.toml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    yes: options.Yes = None,
    no: options.No = None,
    unknown: options.Unknown = None,
) -> None:
    """Write settings for some tables, guessed from their first rows, for you to check.

    Every guess (ids, labels, columns to leave out) is marked in the file.

    Example: naim3l init clinic.csv lab.tsv survey.parquet -o study.toml

    Example: naim3l init survey.csv --yes used --no never --unknown "not asked"
    """
    with report_errors():
        from naim3l.cli.draft import draft_settings
        from naim3l.files.atomic_write import check_outputs, write_text
        from naim3l.files.secrets import show_source
        from naim3l.files.tables import source_files
        from naim3l.input.labels import LabelWords

        if out.exists() and not force:
            raise ValueError(f"{out} exists; --force replaces it.")
        check_outputs([out], [file for source in sources for file in source_files(source)])
        words = LabelWords(tuple(yes or ()), tuple(no or ()), tuple(unknown or ()))
        settings, text = draft_settings(sources, out.parent, words)
        write_text(out, text)
    rows = [
        [name, show_source(view.source), view.id or "–", ", ".join(view.labels) or "–"]
        for name, view in settings.views.items()
    ]
    print_table("Guessed", ["view", "source", "id", "labels"], rows, n_left=4)
    say(f"Wrote {out}. Check what is marked as guessed, then: naim3l fit --config {out}")
