"""``naim3l init``: first settings for some tables."""

from pathlib import Path
from typing import Annotated, Any

import typer

from naim3l.cli import options
from naim3l.cli.app import print_table, report_errors, say

MOST_LEAKS = 5  # columns that are named
Sources = Annotated[list[str], typer.Argument(help="Tables: files, or databases as for fit.")]
Target: Any = options.option("Settings file to write.", Path, "--out", "-o")
Force: Any = options.option("Replace the file if it exists.", bool, "--force")


def init(
    sources: Sources,
    out: Target = Path("naim3l.toml"),
    labels: options.Labels = None,
    force: Force = False,
    yes: options.Yes = None,
    no: options.No = None,
    unknown: options.Unknown = None,
) -> None:
    """Write settings for some tables, guessed from their first rows, for you to check.

    Every guess (ids, labels, columns to leave out) is marked in the file.

    Example: naim3l init clinic.csv lab.tsv survey.parquet -o study.toml

    Example: naim3l init survey.csv --labels 'dx_*' --yes used --no never --unknown "not asked"
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
        views, text = draft_settings(sources, out.parent, words, labels or ())
        write_text(out, text)
    rows = [
        [name, show_source(source), id or "–", str(len(of_view))]
        for name, (source, id, of_view, _) in views.items()
    ]
    every = dict.fromkeys(label for _, _, of_view, _ in views.values() for label in of_view)
    leaks = [
        (-score, f"{name}, {column}: {why}")
        for name, (*_, of_view) in views.items()
        for column, (score, why) in of_view.items()
    ]
    print_table("Guessed", ["view", "source", "id", "labels"], rows, n_left=3)
    say(f"Labels: {', '.join(every) or 'none'}")
    if leaks:
        say("Columns that seem to tell a label; ignore those that are not known before it:")
        say(*(f"  {what}" for _, what in sorted(leaks)[:MOST_LEAKS]))
    say(f"Wrote {out}. Check what is marked as guessed, then: naim3l fit --config {out}")
