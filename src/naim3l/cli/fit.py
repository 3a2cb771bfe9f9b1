"""``naim3l fit``: a model from files."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import typer

from naim3l.cli import options
from naim3l.cli.app import print_table, reason, report_errors, say
from naim3l.cli.evaluate import DASH, by_name, print_absent, print_measured
from naim3l.cli.options import option, print_json
from naim3l.cli.report import page_files, write_page

Target: Any = option("Model file to write, such as model.naim3l.", Path | None, "--out", "-o")
Lam: Any = option("Weight of the coupling. Default: chosen on held-out rows.", float | None)
Ridge: Any = option("Ridge penalty. Default: chosen likewise.", float | None)
Decide: Any = option(
    "When to predict yes: <rules>, or a number. Default: guarded. All but a number can be changed "
    "by predict --decide, which prints what each reaches."
)
Kernels: Any = option(
    "How rows of a view are compared: <kernels>; those for counts are <count kernels>. Default: "
    "linear. view=kernel for one view; repeatable.",
    list[str] | None,
)
Landmarks: Any = option("Landmarks that kernels compare rows with; 300 by default.", int | None)
Components: Any = option("Most principal components to keep of a view, or 50.", int | None)
Weight: Any = option("Weight of a yes in the loss: above 1 for rare labels.", float | None)
Titles: Any = option("Table with two columns, name and title, of labels and columns.", str | None)
Seed: Any = option("Random seed; 0 by default.", int | None)
Boosting: Any = option(
    "Also measure boosting of each label and table. Default: if it takes at most 20 seconds.",
    bool | None,
    "--boosting/--no-boosting",
)
Sums: Any = option(
    "Fit to files that 'naim3l collect' wrote, or a quoted pattern of them, instead of tables; "
    "repeat for several.",
    list[str] | None,
    "--statistics",
)
FEWEST = 3  # yes, and no, that one label needs at least
Resume: Any = option("Resume an interrupted fit.", bool, "--resume")


def fit(
    views: options.Views = None,
    config: options.Config = None,
    labels: options.Labels = None,
    labels_file: options.LabelFiles = None,
    ids: options.Ids = None,
    yes: options.Yes = None,
    no: options.No = None,
    unknown: options.Unknown = None,
    titles: Titles = None,
    out: Target = None,
    lam: Lam = None,
    ridge: Ridge = None,
    decide: Decide = None,
    kernel: Kernels = None,
    landmarks: Landmarks = None,
    components: Components = None,
    positive_weight: Weight = None,
    seed: Seed = None,
    resume: Resume = False,
    report: options.Page = None,
    boosting: Boosting = None,
    statistics: Sums = None,
    memory: options.Memory = None,
    dask: options.Dask = None,
    every: options.All = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit a model to tables that cannot be joined, and save it.

    Labels are yes/no, true/false, 1/0 and the like; empty, ? or unknown where they are not known.
    They are columns of each table, or files of their own; a label that a table lacks is unknown
    there. The model remembers ids, labels and their words for later tables. lam and ridge are
    chosen on held-out rows unless given. A fit that is interrupted or killed, or whose model
    cannot be saved, leaves a checkpoint beside the model file; --resume resumes it and ends at the
    same result.

    Scores are linear in the columns. Where that is too simple, try --kernel rbf, which also learns
    from columns in combination; its width is chosen, too.

    Tables that do not fit in memory are read in chunks, several times: folders and patterns of CSV
    or Parquet files, and with --memory or --dask also single ones.

    Example: naim3l fit clinic=clinic.csv lab=lab.parquet --id id --labels 'dx_*' -o model.naim3l

    Example: naim3l fit 'visits=visits/*.parquet' lab=lab/ --labels 'dx_*' --memory 4GB
    -o model.naim3l

    Example: naim3l fit --statistics '*.stats' -o model.naim3l
    """
    with report_errors():
        from naim3l.cli.settings import make_settings
        from naim3l.files.atomic_write import check_outputs

        roles = views, config, labels, labels_file, ids
        features = {"kernel": kernel, "landmarks": landmarks, "components": components}
        given = chosen_parameters(
            lam=lam,
            ridge=ridge,
            decide=decide,
            positive_weight=positive_weight,
            seed=seed,
            **features,
        )
        if statistics is not None:
            from naim3l.cli.collect import fit_statistics

            others = [*roles, yes, no, unknown, titles, report, memory, dask, resume, boosting]
            others += features.values()
            model, facts = fit_statistics(statistics, out, given, others, verbose=int(not as_json))
            _report(model, {"model": out}, facts, every=every, as_json=as_json)
            return
        words = {"yes": yes, "no": no, "unknown": unknown}
        settings = make_settings(*roles, given, words, titles)
        if (target := out or settings.output) is None:
            raise ValueError("name the model file with --out, or with output in the settings.")
        checkpoint = Path(f"{target}.checkpoint")
        pages = page_files(report) if report else []
        check_outputs([target, checkpoint, *pages], settings.files(config))
        if resume and not checkpoint.exists():
            say(f"There is no checkpoint {checkpoint}; the fit starts over.", err=True)
        elif checkpoint.exists() and not resume:
            what = f"{checkpoint} exists, from a fit that was interrupted or not saved"
            raise ValueError(f"{what}: --resume resumes it; delete it to start over.")
        files, limits = (Path(target), checkpoint, report), (memory, dask)
        asked = "auto" if boosting is None else boosting
        model, facts = _fit(settings, files, limits, boosting=asked, verbose=int(not as_json))
    written = {"model": target, "report": report}
    _report(model, written, facts, every=every, as_json=as_json)


def chosen_parameters(*, kernel: Any, decide: Any, **others: Any) -> dict[str, Any]:
    """Parameters of models that are given as options, by their names in the settings."""
    from naim3l.cli.settings import by_view

    names = {"landmarks": "n_landmarks", "components": "n_components", "seed": "random_state"}
    chosen = {names.get(name, name): value for name, value in others.items()}
    chosen |= {"kernel": by_view("--kernel", kernel or []) or None, "decide": decide}
    with suppress(ValueError, TypeError):  # a rule, or none
        chosen["decide"] = float(decide)
    return {name: value for name, value in chosen.items() if value is not None}


def _report(model: Any, written: dict[str, Any], facts: Any, *, every: bool, as_json: bool) -> None:
    """Print what a fit has found, and the files that it has written."""
    summary = _summarise(model, facts) | written
    if as_json:
        print_json(summary)
        return
    _print_summary(summary, model, every=every)
    say(f"Wrote {' and '.join(str(path) for path in written.values() if path is not None)}.")


class Study(NamedTuple):
    """The unfitted model of settings, and its tables."""

    model: Any
    views: dict[str, Any]
    heads: dict[str, Any]  # features and labels of all rows, or of the first if in chunks
    X: dict[str, Any]
    Y: dict[str, Any]
    notes: list[str]  # on the choice of labels
    chunked: bool
    batch_bytes: int | None

    def roles(self, fitted: Any) -> dict[str, Any]:
        """Roles of columns by view, of which a model has judged those that are no labels."""
        from naim3l.cli.tables import id_of_fit

        return {
            name: view.roles(id_of_fit(fitted, view, self.heads[name][0].data))
            for name, view in self.views.items()
        }


@contextmanager
def open_study(settings: Any, limits: Any, *, verbose: int) -> Iterator[Study]:
    """The tables of settings, in memory or in chunks, and their model."""
    from naim3l.cli.chunks import batch_rows, workers
    from naim3l.cli.settings import make_model
    from naim3l.cli.tables import HEAD, is_chunked, open_training

    views, chunked = open_training(settings), is_chunked(settings, *limits)
    model = make_model(settings.model, {n: v.recipe for n, v in views.items()}, verbose=verbose)
    with workers(*limits) if chunked else nullcontext() as batch_bytes:
        n_rows = HEAD if chunked else None
        notes: list[str] = []
        heads = {name: view.read(n_rows, notes=notes) for name, view in views.items()}
        given: dict[str, tuple[Any, Any]] = dict(heads)
        if chunked:
            given = {n: v.in_chunks(batch_rows(v, batch_bytes)) for n, v in views.items()}
        X, Y = ({name: pair[i] for name, pair in given.items()} for i in (0, 1))
        if not chunked:
            _check_enough(list(Y.values()))
        yield Study(model, views, heads, X, Y, notes, chunked, batch_bytes)


def _fit(
    settings: Any, files: Any, limits: Any, *, boosting: bool | str, verbose: int
) -> tuple[Any, dict[str, dict[str, Any]]]:
    """The model of the tables of settings, saved, with its page, and facts about views."""
    from naim3l._warnings import warn_user
    from naim3l.cli.chunks import sample_rows
    from naim3l.cli.titles import set_titles
    from naim3l.decisions.rules import Decisions

    target, checkpoint, page = files
    kept = None if settings.model.get("solver") == "paper" else checkpoint  # has no state
    with open_study(settings, limits, verbose=verbose) as study:
        model, views, X, Y = study.model, study.views, study.X, study.Y
        if not study.chunked and _never_repeat(of.data for of in X.values()):
            model.set_params(decide=replace(Decisions.of(model.decide), disjoint=True))
        with _kept(checkpoint):
            model.compare(X, Y, boosting=boosting, checkpoint=kept)
            set_titles(model, settings)
            for note in study.notes:  # after the warnings of the fit, which matter more
                warn_user(note)
            model.roles_ = study.roles(model)
            model.set_params(verbose=0).set_output(transform="pandas").save(target)
        if page is not None and study.chunked:
            sample = sample_rows(model, views, study.batch_bytes, shown=bool(verbose))
            write_page(model, *sample[:2], page)
        elif page is not None:
            Y = {name: of.reindex(columns=model.label_names_) for name, of in Y.items()}
            write_page(model, X, Y, page)
    if study.chunked:  # the number of rows is known if the columns were scaled
        recipes = {name: model.features_[name].recipe for name in views}
        return model, {n: {"rows": getattr(of, "n_rows", None)} for n, of in recipes.items()}
    known = {name: 100 * float(of.notna().to_numpy().mean()) for name, of in Y.items()}
    return model, {n: {"rows": len(of), "known": round(known[n], 1)} for n, of in X.items()}


@contextmanager
def _kept(checkpoint: Path) -> Iterator[None]:
    """Context of a fit whose checkpoint stays until the model is saved."""
    try:
        yield
    except KeyboardInterrupt:
        again = "with --resume resumes the fit" if checkpoint.exists() else "starts over"
        say(f"Interrupted; the same command {again}.", err=True)
        raise typer.Exit(130) from None
    except OSError as error:
        if not checkpoint.exists():
            raise
        raise OSError(
            f"{reason(error)} The fit is kept in {checkpoint}: solve the problem, and run "
            "the same command with --resume."
        ) from error


def _check_enough(labels: list[Any]) -> None:
    """Refuse label tables in which no label has enough yes and no to hold some out."""
    import pandas as pd

    stacked = pd.concat(labels)
    yes, no = (stacked == 1).sum(), (stacked == 0).sum()
    best = yes.combine(no, min).idxmax()
    if min(yes[best], no[best]) < FEWEST:
        raise ValueError(
            f"too few known labels: {FEWEST} rows with yes and {FEWEST} with no are needed of at "
            "least one label, because some are held out of the fit. The best known, "
            f"{best!r}, has {yes[best]} with yes and {no[best]} with no; add rows, or labels."
        )


def _summarise(model: Any, facts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What is printed about a fit, given facts about its views."""
    from naim3l.cli.tables import stored_roles

    maps, used = model.kernel_maps_, model.names_.used
    for name, of_view in facts.items():
        of_view |= {"columns": len(used[name]), "id": stored_roles(model, name)["id"]}
    return {
        "labels": model.label_names_,
        "views": facts,
        "lam": getattr(model, "lam_", getattr(model, "lam", None)),
        "ridge": model.ridge_,
        "kernel": {name: maps[name].name if name in maps else "linear" for name in facts},
        "gamma": model.gamma_,
        "metric": getattr(model, "metric_", None),
        "held_out": by_name(model.held_out_) if hasattr(model, "held_out_") else None,
        "iterations": model.n_iter_,
        "converged": model.converged_,
        "absent": [vars(each) for each in model.absent_labels_],
        "simulated": model.decisions_.simulation and vars(model.decisions_.simulation),
    }


def _never_repeat(tables: Iterable[Any]) -> bool:
    """Whether pandas tables have ids in a column of one name, and no id is in two of them."""
    first, *others = (table.index.unique() for table in tables)
    if first.name is None or any(index.name != first.name for index in others):
        return False
    return bool(first.append(others).is_unique)


def _print_summary(summary: dict[str, Any], model: Any, *, every: bool) -> None:
    if summary["held_out"] is not None:
        where = "On rows that were held out of the fit"
        print_measured(model.held_out_, where, model, every=every)
    print_absent(model)
    header = {"rows": "rows", "columns": "columns", "known": "labels known (%)", "id": "ids"}
    rows = [
        [name, *(str(DASH if view.get(key) is None else view[key]) for key in header)]
        for name, view in summary["views"].items()
    ]
    n_labels, converged = len(summary["labels"]), summary["converged"]
    print_table(f"{n_labels} label{'s' * (n_labels > 1)}", ["view", *header.values()], rows)
    chosen = f"lam {summary['lam']:g}, ridge {summary['ridge']:g}"
    say(f"{chosen}, {summary['iterations']} iterations{'' if converged else ' (NOT converged)'}")
    if set(summary["kernel"].values()) != {"linear"}:
        gammas = {v: "" if g is None else f" (gamma {g:.3g})" for v, g in summary["gamma"].items()}
        listed = (f"{view} {name}{gammas[view]}" for view, name in summary["kernel"].items())
        say(f"kernels: {', '.join(listed)}")
