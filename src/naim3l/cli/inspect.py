"""``naim3l inspect``: what a model file contains."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from naim3l._text import some
from naim3l.cli import options
from naim3l.cli.app import print_table, report_errors
from naim3l.cli.options import print_json

DASH = "–"


File: Any = Annotated[Path, typer.Argument(help="Model file, share of a site, plan or statistics.")]


def inspect(model: File, every: options.All = False, as_json: options.AsJson = False) -> None:
    """Show what a model file contains, without loading the model.

    --json prints the whole description: everything that was learned, except for arrays. Of a
    share, which 'naim3l federate' writes, every number is shown; pairs of labels with --all. Of
    plans and statistics, which 'naim3l plan' and 'naim3l collect' write, it shows what they have.

    Example: naim3l inspect model.naim3l
    """
    with report_errors():
        from naim3l.cli.collect import print_statistics
        from naim3l.cli.federate import print_share
        from naim3l.estimators.collected import STATISTICS_FORMAT
        from naim3l.estimators.plans import PLAN_FORMAT
        from naim3l.estimators.saved import inspect_file
        from naim3l.federated.shares import FORMAT
        from naim3l.files.archive import format_of
        from naim3l.files.tables import check_file

        check_file(model)
        if format_of(model) in (PLAN_FORMAT[0], STATISTICS_FORMAT[0]):
            print_statistics(model, as_json=as_json)
            return
        if format_of(model) == FORMAT:
            print_share(model, every=every, as_json=as_json)
            return
        about = inspect_file(model)
        try:  # of which nothing is checked
            facts, views, columns = _describe(about)
        except (TypeError, AttributeError, LookupError, ValueError) as error:
            raise ValueError(f"{model}: not the description of a model ({error}).") from error
    if as_json:
        print_json(about)
        return
    print_table(str(model), ["fact", "value"], facts, n_left=2)
    print_table("Views", ["view", "ids", "columns", "kernel", "gamma"], views, n_left=2)
    if columns:
        header = ["view", "column", "kind", "missing (%)", "use"]
        print_table("How each column is used", header, columns, n_left=5)


def _describe(about: Mapping[str, Any]) -> tuple[list[list[str]], ...]:
    """Rows of the tables that are printed: facts, views, and columns with their plan."""
    from naim3l.features.plan import ColumnPlan
    from naim3l.report.titles import with_code

    learned = about["model"]
    titles = dict(learned.get("titles_") or {})
    names, roles = learned["names_"], learned.get("roles_") or {}
    facts = {
        "class": about["class"],
        "written by": about["written_by"],
        "size": f"{about['size']} bytes",
        "fitted": " with naim3l ".join(map(str, (learned.get("made_") or {}).values())) or None,
        "labels": [with_code(titles, label) for label in names["labels"]],
        "types to trust": about["guests"],
        # Stored beside what they are, such as {"value": 0.4}.
        **{name: next(iter(of.values())) for name, of in learned["parameters"].items()},
    }
    views, columns = list[list[str]](), list[list[str]]()
    for view, used in names["used"].items():
        features = (learned.get("features_") or {}).get(view) or {}
        kernel, plan = features.get("kernel") or {}, features.get("plan") or {}
        shown = (roles.get(view) or {}).get("id"), len(used), kernel.get("name", "linear")
        views.append([view, *map(_text, (*shown, kernel.get("gamma")))])
        for stored in (*plan.get("columns", []), *plan.get("dropped", [])):
            plan = ColumnPlan(**stored)
            use = f"dropped: {plan.dropped}" if plan.dropped else plan.use
            columns.append(
                [view, with_code(titles, plan.name), plan.kind, f"{100 * plan.missing:.1f}", use]
            )
    return [[name, _text(value)] for name, value in facts.items()], views, columns


def _text(value: Any) -> str:
    if value is None or value == []:
        return DASH
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(of)}" for key, of in value.items())
    if isinstance(value, list):
        return some(value, 12, str)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
