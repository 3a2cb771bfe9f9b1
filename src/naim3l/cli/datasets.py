"""``naim3l datasets``: list the known datasets, check those in a folder, convert one."""

from pathlib import Path
from typing import Annotated

import typer

from naim3l.cli.app import app, print_table, report_errors, say


@app.command()
def datasets(
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder of datasets to check.")
    ] = None,
    convert: Annotated[
        str | None, typer.Option("--convert", help="Dataset to write as one .npz file.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File for --convert; default NAME.npz.")
    ] = None,
) -> None:
    """List the datasets of the experiments, check those in a folder, or convert one.

    With --data, every dataset in the folder, in any form (LEAR files, .mat, .npz), is opened and
    compared with the paper's Table 1. The exit code is 1 if a fact does not hold.

    Example: naim3l datasets --data ~/lear --convert corel5k -o corel5k.npz
    """
    from naim3l.datasets import CATALOG

    if out is not None and convert is None:
        raise typer.BadParameter("--out needs --convert.")
    if convert is not None:
        _convert(convert, data, out)
    elif data is not None:
        _check(data)
    else:
        rows = [
            [name, facts.title, str(facts.n_samples), str(facts.n_labels),
             f"{facts.labels_per_row:.3f}", "–" if facts.lam is None else f"{facts.lam:g}",
             facts.origin]
            for name, facts in CATALOG.items()
        ]  # fmt: skip
        header = ["name", "dataset", "rows", "labels", "labels per row", "lambda", "origin"]
        print_table("Datasets of the experiments", header, rows, n_left=2)


def _check(folder: Path) -> None:
    from naim3l.datasets import available, check_dataset, open_dataset
    from naim3l.datasets.catalog import EMBEDDED

    all_hold = True
    with report_errors():
        found = {name: form for name, form in available(folder).items() if form != EMBEDDED}
        if not found:
            raise ValueError(f"{folder} has none of the datasets that 'naim3l datasets' lists.")
        for name, form in found.items():
            source = open_dataset(name, folder)
            checks = check_dataset(name, source)
            views = ", ".join(f"{view} {shape[1]}" for view, shape in source.shapes.items())
            rows = [
                [check.fact, f"{check.expected:g}", f"{check.found:g}", "yes" if check.ok else "NO"]
                for check in checks
            ]
            print_table(f"{name} ({form}): {views}", ["fact", "expected", "found", "holds"], rows)
            all_hold &= all(check.ok for check in checks)
    if not all_hold:
        raise typer.Exit(1)


def _convert(name: str, folder: Path | None, out: Path | None) -> None:
    from naim3l.datasets import convert as write
    from naim3l.datasets import open_dataset
    from naim3l.files.whole import check_outputs, file_names

    with report_errors():
        target = Path(f"{file_names([name])[name]}.npz") if out is None else out
        source = open_dataset(name, folder)
        check_outputs([target], source.files)
        write(source, target)
        say(f"Wrote {target}.")
