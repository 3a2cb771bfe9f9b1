"""``naim3l plan`` and ``naim3l collect``: statistics of months and sites, which add up."""

import glob
from dataclasses import replace
from pathlib import Path
from typing import Any

from naim3l._text import some
from naim3l._warnings import warn_user
from naim3l.cli import fit, options
from naim3l.cli.app import print_table, report_errors, say
from naim3l.cli.options import option, print_json

Target: Any = option("Plan to write, such as study.plan.", Path, "--out", "-o")
Made: Any = option("Plan that 'naim3l plan' wrote.", Path, "--plan")
Sums: Any = option("Statistics to write, such as november.stats.", Path, "--out", "-o")
Source: Any = option("Name of the source. Default: that of the output, as november.")
Shareable: Any = option(
    "Leave out all that tells of single rows: samples, folds, factors, and what fewer than 10 rows "
    "have. A fit then needs --lam and --ridge.",
    bool,
    "--shareable",
)


def plan(
    out: Target,
    views: options.Views = None,
    config: options.Config = None,
    labels: options.Labels = None,
    labels_file: options.LabelFiles = None,
    ids: options.Ids = None,
    yes: options.Yes = None,
    no: options.No = None,
    unknown: options.Unknown = None,
    titles: fit.Titles = None,
    lam: fit.Lam = None,
    ridge: fit.Ridge = None,
    decide: fit.Decide = None,
    kernel: fit.Kernels = None,
    landmarks: fit.Landmarks = None,
    components: fit.Components = None,
    seed: fit.Seed = None,
    memory: options.Memory = None,
    dask: options.Dask = None,
) -> None:
    """Learn how the columns of tables are read, for statistics that add up.

    Options and settings are those of 'naim3l fit'. The plan has names, means, frequent values and
    components of columns, and no rows. It is the same for all months and sites.

    Example: naim3l plan lab=2026-10/*.parquet --id id --labels 'dx_*' -o study.plan
    """
    with report_errors():
        from naim3l.cli.settings import make_settings
        from naim3l.cli.titles import set_titles
        from naim3l.estimators.naim3l import NAIM3L
        from naim3l.files.atomic_write import check_outputs
        from naim3l.statistics import ColumnPlan

        features = {"kernel": kernel, "landmarks": landmarks, "components": components}
        given = fit.chosen_parameters(lam=lam, ridge=ridge, decide=decide, seed=seed, **features)
        roles = views, config, labels, labels_file, ids
        words = {"yes": yes, "no": no, "unknown": unknown}
        settings = make_settings(*roles, given, words, titles)
        check_outputs([out], settings.files(config))
        with fit.open_study(settings, (memory, dask), verbose=1) as study:
            made = ColumnPlan.of(study.X, study.Y, estimator=study.model)
            made._apply(shell := NAIM3L())
            set_titles(shell, settings)
            for note in study.notes:
                warn_user(note)
            replace(made, roles=study.roles(shell), titles=dict(shell.titles_)).save(out)
    say(f"Views {', '.join(made.names.views)}; plan {made.fingerprint}")
    say(f"Wrote {out}.")


def collect(
    views: options.Views,
    plan: Made,
    out: Sums,
    source: Source = None,
    shareable: Shareable = False,
    labels_file: options.LabelFiles = None,
    ids: options.Ids = None,
    memory: options.Memory = None,
    dask: options.Dask = None,
) -> None:
    """Collect statistics of the rows of a month or a site, which are read once.

    They are added up, and a model is fitted to them, by 'naim3l fit --statistics', without the
    rows. 'naim3l inspect' shows what such a file has. Without --shareable, encoded rows can be read
    from it.

    Example: naim3l collect lab=2026-11/*.parquet --plan study.plan -o november.stats
    """
    with report_errors():
        from naim3l.cli.settings import make_settings
        from naim3l.estimators.naim3l import NAIM3L
        from naim3l.files.atomic_write import check_outputs
        from naim3l.files.tables import check_file
        from naim3l.statistics import ColumnPlan

        check_file(plan)
        of_study = ColumnPlan.load(plan)
        of_study._apply(shell := NAIM3L())
        settings = make_settings(views, None, None, labels_file, ids)
        check_outputs([out], settings.files(plan))
        found = _collect(
            of_study, shell, settings, (memory, dask), source or out.stem, shareable=shareable
        )
        found.save(out)
    rows = ", ".join(f"{n} of {view}" for of in found.sources.values() for view, n in of.items())
    say(f"Source {source or out.stem}: rows {rows}; plan {of_study.fingerprint}")
    say(f"Wrote {out}.", *_reveals(found))


def _collect(
    plan: Any, shell: Any, settings: Any, limits: Any, source: str, *, shareable: bool
) -> Any:
    """Statistics of the tables of settings, in memory or in chunks."""
    from naim3l.cli.chunks import batch_rows, workers
    from naim3l.cli.tables import is_chunked, open_known
    from naim3l.statistics import collect

    given: dict[str, Any] = {"source": source, "shareable": shareable, "verbose": 1}
    opened = open_known(shell, settings)
    if not is_chunked(settings, *limits):
        tables = {name: view.read() for name, view in opened.items()}
        X = {name: features for name, (features, _) in tables.items()}
        # Words, as 1 and 0 may have other meanings in the tables.
        y = {name: of.replace({1.0: "yes", 0.0: "no"}) for name, (_, of) in tables.items()}
        return collect(plan, X, y, **given)
    with workers(*limits) as batch_bytes:
        settled = {name: view.settled() for name, view in opened.items()}
        pairs = {n: v.in_chunks(batch_rows(v, batch_bytes)) for n, v in settled.items()}
        files, columns = ({name: pair[i] for name, pair in pairs.items()} for i in (0, 1))
        return collect(plan, files, columns, **given)


def fit_statistics(
    patterns: list[str], out: Path | None, given: dict[str, Any], others: Any, *, verbose: int
) -> Any:
    """The model of statistics in files, saved; the plan decides on all other options."""
    from naim3l.cli.settings import make_model
    from naim3l.files.atomic_write import check_outputs
    from naim3l.statistics import Statistics, combine

    if any(others):
        raise ValueError(
            "with --statistics, only --lam, --ridge, --decide, --positive-weight and --seed can be "
            "given: everything else is as in the plan."
        )
    if out is None:
        raise ValueError("name the model file with --out.")
    paths = list(dict.fromkeys(p for each in patterns for p in sorted(glob.glob(each)) or [each]))
    check_outputs([out], [*map(Path, paths)])
    found = combine([Statistics.load(path) for path in paths])
    own = {name: value for name, value in found.plan.parameters.items() if value is not None}
    if found.shareable:
        given = {"decide": "sign"} | given
    model = make_model(given, {}, verbose=verbose).set_params(**own | given)
    if found.shareable:
        model.set_params(decide=given["decide"]).fit_statistics(found)
    else:
        model.compare(found, None)
    model.set_params(verbose=0).set_output(transform="pandas").save(out)
    n_rows = {v: sum(of.get(v, 0) for of in found.sources.values()) for v in model.views_}
    return model, {view: {"rows": n} for view, n in n_rows.items()}


def print_statistics(path: Path, *, as_json: bool) -> None:
    """Show a plan, or statistics: sources, rows and labels, and what can be read from them."""
    from naim3l.estimators.plans import PLAN_FORMAT
    from naim3l.files.archive import format_of
    from naim3l.statistics import ColumnPlan, Statistics

    is_plan = format_of(path) == PLAN_FORMAT[0]
    found = None if is_plan else Statistics.load(path)
    plan = ColumnPlan.load(path) if found is None else found.plan
    names = plan.names
    facts: dict[str, Any] = {"plan": plan.fingerprint, "labels": names.labels}
    facts |= {"columns": {view: len(used) for view, used in names.used.items()}}
    facts |= {"encoded": {view: plan._n_columns(view) for view in names.views}}
    facts |= {"folds": plan.n_folds, **{n: repr(of) for n, of in plan.parameters.items()}}
    if found is not None:
        facts |= {"sources": found.sources, "shareable": found.shareable}
        facts |= {"readable rows": found.readable_rows}
    if as_json:
        print_json({"path": str(path), **facts})
        return
    shown = {name: of for name, of in facts.items() if name != "sources"}
    print_table(str(path), ["fact", "value"], [[n, _text(of)] for n, of in shown.items()], n_left=2)
    if found is None:
        return
    sources = [
        [name, *(str(of.get(v, 0)) for v in names.views)] for name, of in found.sources.items()
    ]
    print_table("Rows of each source", ["source", *names.views], sources)
    counts = []
    for view in names.views:
        if view in found.found:
            of_view = found.found[view][0].counts
            numbers = (of_view.n_known.sum(axis=0), of_view.n_positives.sum(axis=0))
            for label, known, n_yes in zip(names.labels, *numbers, strict=True):
                counts.append([view, label, str(n_yes), str(known - n_yes)])
    print_table(
        "How often each label is yes and no", ["view", "label", "yes", "no"], counts, n_left=2
    )
    say(*_reveals(found))


def _reveals(found: Any) -> list[str]:
    """What can be read from statistics, in sentences."""
    if found.shareable:
        return [
            "It has sums of at least 10 rows each, and no rows. That is aggregation, not "
            "anonymity: two files that differ by one row tell that row."
        ]
    rows = [f"{n} of {view}" for view, n in found.readable_rows.items() if n]
    if not rows:
        return ["Sums of few rows may tell of these: treat it as you treat the tables."]
    return [f"Encoded rows, with their labels, can be read from it: {', '.join(rows)}."]


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {of}" for key, of in value.items())
    return some(value, 12, str) if isinstance(value, list) else str(value)
