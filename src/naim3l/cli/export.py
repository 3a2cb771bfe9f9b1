"""``naim3l export``: a fitted model as SQL or ONNX, to score rows where they are."""

from pathlib import Path
from typing import Any

from naim3l.cli import options
from naim3l.cli.app import report_errors, say
from naim3l.cli.options import load_model, option

Target: Any = option("File to write, or, of several views, a folder.", Path, "--out", "-o")
Sql: Any = option("Write one SELECT for each view.", bool, "--sql")
Onnx: Any = option("Write a graph of ONNX for each view (extra export).", bool, "--onnx")
Dialect: Any = option("Language of --sql: duckdb, postgresql or sqlite.", str)
View: Any = option("View to write; repeat for several. Default: all.", list[str] | None, "--view")
Tables: Any = option(
    "Table of a view in the database, as view=table or view=schema.table; repeat for several. "
    "Default: the name of the view.",
    list[str] | None,
    "--table",
)
Keep: Any = option(
    "Column that comes first in the result of --sql; repeat for several. Default: the ids.",
    list[str] | None,
    "--keep",
)
What: Any = option(
    "Of --sql: probabilities or scores. Default: probabilities, if it has them.",
    str | None,
    "--what",
)


def export(
    model: options.Model,
    out: Target,
    sql: Sql = False,
    onnx: Onnx = False,
    view: View = None,
    dialect: Dialect = "duckdb",
    table: Tables = None,
    keep: Keep = None,
    kind: What = None,
) -> None:
    """Write a model as SQL or ONNX, which scores rows without Python.

    A query computes the probabilities and decisions of 'naim3l predict' from the columns of a
    table, except for rounding: in DuckDB, PostgreSQL or SQLite. Linear models with the usual
    features can be written. What cannot, such as kernels, networks and free text, is refused by
    name.

    Example: naim3l export model.naim3l --sql --view lab --table lab=visits -o score.sql

    Example: naim3l export model.naim3l --onnx -o graphs/
    """
    with report_errors():
        from naim3l.export import to_onnx, to_sql
        from naim3l.files.atomic_write import (
            check_outputs,
            file_names,
            new_folder,
            written_together,
        )

        if sql == onnx:
            raise ValueError("name what to write: --sql or --onnx.")
        if onnx and (table or keep or kind):
            raise ValueError("--table, --keep and --what are for --sql.")
        fitted = load_model(model)
        names = list(dict.fromkeys(view or getattr(fitted, "names_", fitted).blocks))
        tables = _by_view(table or [], names)
        files, suffix = file_names(names), ".sql" if sql else ".onnx"
        several = len(names) > 1
        paths = {name: out / f"{files[name]}{suffix}" if several else out for name in names}
        check_outputs(paths.values(), [model], make_folders=True)
        contents = dict[Path, bytes]()
        for name, path in paths.items():
            if sql:
                chosen: Any = {"dialect": dialect, "table": tables.get(name), "keep": keep}
                contents[path] = f"{to_sql(fitted, name, kind=kind, **chosen)};\n".encode()
            else:
                contents[path] = to_onnx(fitted, name).SerializeToString()
        folder = out if several else out.parent
        with new_folder(folder), written_together():
            for path, content in contents.items():
                _write(path, content)
    for name, path in paths.items():
        say(f"Wrote the {'query' if sql else 'graph'} of view {name} to {path}.")


def _by_view(given: list[str], views: list[str]) -> dict[str, list[str]]:
    """Parts of the names of tables, by view."""
    found = {}
    for entry in given:
        name, sign, table = entry.partition("=")
        if name not in views or not sign or not table:
            raise ValueError(f"--table {entry}: give view=table, for one of the views {views}.")
        found[name] = table.split(".")
    return found


def _write(path: Path, content: bytes) -> None:
    from naim3l.files.atomic_write import written_whole

    with written_whole(path) as part:
        part.write_bytes(content)
