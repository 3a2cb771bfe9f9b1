"""``naim3l fit``: a model from files."""

from pathlib import Path
from typing import Annotated, Any

import typer

from naim3l.cli.app import Command, app, print_table, report_errors, say, system_reason
from naim3l.cli.evaluate import DASH, by_name, print_measured, verdicts_in_words
from naim3l.cli.options import (
    AsJson,
    Config,
    Dask,
    Ids,
    LabelFiles,
    Labels,
    Memory,
    No,
    Unknown,
    Views,
    Yes,
    print_json,
)
from naim3l.cli.report import page_files, write_page


@app.command(cls=Command)
def fit(
    views: Views = None,
    config: Config = None,
    labels: Labels = None,
    labels_file: LabelFiles = None,
    ids: Ids = None,
    yes: Yes = None,
    no: No = None,
    unknown: Unknown = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Model file to write, such as model.naim3l.")
    ] = None,
    lam: Annotated[
        float | None,
        typer.Option(help="Weight of the coupling. Default: chosen on held-out labels."),
    ] = None,
    ridge: Annotated[
        float | None, typer.Option(help="Ridge penalty. Default: chosen likewise.")
    ] = None,
    decide: Annotated[
        str | None,
        typer.Option(
            help="When to predict yes: <rules>, or a number. Default: guarded. All but a number "
            "can be changed by predict --decide."
        ),
    ] = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            help="How rows of a view are compared: <kernels>; those for counts are "
            "<count kernels>. Default: linear. view=kernel for one view; repeatable."
        ),
    ] = None,
    landmarks: Annotated[
        int | None,
        typer.Option(
            help="Number of landmarks that kernels compare rows with; 300 by default. As many as "
            "there are rows is exact, and slow."
        ),
    ] = None,
    components: Annotated[
        int | None,
        typer.Option(help="Most principal components to keep of a view; 50 by default."),
    ] = None,
    positive_weight: Annotated[
        float | None,
        typer.Option(help="Weight of a yes in the loss; a no has 1. More favours rare labels."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed; 0 by default.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted fit.")] = False,
    report: Annotated[
        Path | None, typer.Option("--report", help="Report page to write about the fit.")
    ] = None,
    memory: Memory = None,
    dask: Dask = None,
    as_json: AsJson = False,
) -> None:
    """Fit a model to tables that cannot be joined, and save it.

    Labels are yes/no, true/false, 1/0 and the like; empty, ? or unknown where they are not known.
    They are columns of each table, or files of their own; a label that a table lacks is unknown
    there. The model remembers ids, labels and their words for later tables. lam and ridge are
    chosen on held-out labels unless given. A fit that is interrupted or killed, or whose model
    cannot be saved, leaves a checkpoint beside the model file; --resume resumes it and ends at the
    same result.

    Scores are linear in the columns. Where that is too simple, try --kernel rbf, which also learns
    from columns in combination; its width is chosen, too.

    Tables that do not fit in memory are read in chunks, several times: folders and patterns of CSV
    or Parquet files, and with --memory or --dask also single ones.

    Example: naim3l fit clinic=clinic.csv lab=lab.parquet --id id --labels 'dx_*' -o model.naim3l

    Example: naim3l fit words=counts.csv lab=lab.csv --kernel words=hellinger --kernel lab=rbf
    --labels 'dx_*' -o curved.naim3l

    Example: naim3l fit 'visits=visits/*.parquet' lab=lab/ --labels 'dx_*' --memory 4GB
    -o model.naim3l
    """
    with report_errors():
        from naim3l.cli.settings import make_settings
        from naim3l.files.atomic_write import check_outputs

        options = {
            "lam": lam,
            "ridge": ridge,
            "decide": None if decide is None else _rule(decide),
            "kernel": _kernels(kernel or []),
            "n_landmarks": landmarks,
            "n_components": components,
            "positive_weight": positive_weight,
            "random_state": seed,
        }
        given = {name: value for name, value in options.items() if value is not None}
        words = {"yes": yes, "no": no, "unknown": unknown}
        settings = make_settings(views, config, labels, labels_file, ids, given, words)
        target = _target(out, settings)
        checkpoint = target.with_name(f"{target.name}.checkpoint")
        check_outputs([target, checkpoint, *page_files(report)], settings.files(config))
        _check_checkpoint(checkpoint, resume)
        run = _Fit(settings, target, checkpoint, report, verbose=not as_json)
        summary = run.fit(memory, dask)
    if as_json:
        print_json(summary)
        return
    _print_summary(summary, run.model)
    say(f"Wrote {target}{'' if report is None else f' and {report}'}.")


def _rule(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _kernels(given: list[str]) -> Any:
    """One kernel for all views, or those of some by name; None where none is given."""
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    kernels: dict[str, str] = {}
    for argument in given:
        view, equals, name = argument.partition("=")
        if not equals or view in kernels:
            raise ValueError(
                f"--kernel {argument}: give one kernel for all views, or view=kernel once for each."
            )
        kernels[view] = name
    return kernels or None


def _target(out: Path | None, settings: Any) -> Path:
    target = out if out is not None else settings.output and Path(settings.output)
    if not target:
        raise ValueError("name the model file with --out, or with the key output of the settings.")
    if not target.name:
        raise IsADirectoryError(f"{target} is a folder; name a file in it, such as model.naim3l.")
    return target


def _check_checkpoint(path: Path, resume: bool) -> None:
    if resume and not path.exists():
        say(f"There is no checkpoint {path}; the fit starts from the beginning.", err=True)
    if path.exists() and not resume:
        raise ValueError(
            f"{path} exists, from a fit that was interrupted or not saved: --resume resumes it; "
            "delete it to start over."
        )


class _Fit:
    """A fit to the tables of settings, which are read at once or in chunks."""

    def __init__(
        self, settings: Any, target: Path, checkpoint: Path, report: Path | None, *, verbose: bool
    ) -> None:
        self.settings, self.target, self.report = settings, target, report
        self.checkpoint, self.verbose = checkpoint, verbose
        self.views: dict[str, Any] = {}
        self.model: Any = None

    def fit(self, memory: str | None, address: str | None) -> dict[str, Any]:
        """Fit the model, save it, and write its report; the summary."""
        from naim3l.cli.tables import is_chunked, open_training

        self.views = open_training(self.settings)
        if not is_chunked(self.settings, memory, address):
            return self._fit_rows()
        from naim3l.cli.chunks import workers

        with workers(memory, address) as batch_bytes:
            return self._fit_chunks(batch_bytes)

    def _fit_rows(self) -> dict[str, Any]:
        from naim3l.cli.tables import in_order, split

        rows = {name: view.read(training=True) for name, view in self.views.items()}
        X, Y = split(rows)
        check_enough(list(Y.values()))
        self._compare_and_save(X, Y, {name: batch.data for name, batch in X.items()})
        if self.report is not None:
            write_page(self.model, *split(in_order(self.model, rows)), self.report)
        facts = {}
        for name, labels in Y.items():
            known = round(100 * float(labels.notna().to_numpy().mean()), 1)
            facts[name] = {"rows": len(labels), "known": known}
        return self._summary(facts)

    def _fit_chunks(self, batch_bytes: int | None) -> dict[str, Any]:
        from naim3l.cli.chunks import batch_rows, sample_rows
        from naim3l.cli.tables import split

        chunks = {
            n: view.in_chunks(batch_rows(view, batch_bytes)) for n, view in self.views.items()
        }
        heads = {name: view.head(training=True) for name, view in self.views.items()}
        self._compare_and_save(
            {name: X for name, (X, _) in chunks.items()},
            {name: y for name, (_, y) in chunks.items()},
            heads,
        )
        if self.report is not None:
            rows, _ = sample_rows(self.model, self.views, batch_bytes, shown=self.verbose)
            write_page(self.model, *split(rows), self.report)
        return self._summary({name: self._n_rows(name) for name in self.views})

    def _n_rows(self, name: str) -> dict[str, int]:
        """Number of rows of a table that was read in chunks, as far as it is known."""
        lengths = self.views[name].table.lengths
        recipe = self.model.features_[name].recipe
        if lengths is not None:
            return {"rows": sum(lengths)}
        return {} if recipe is None else {"rows": recipe.n_rows}

    def _compare_and_save(self, X: Any, y: Any, frames: Any) -> None:
        """Fit a model and write it; the checkpoint stays until the file is there.

        Parameters
        ----------
        X, y
            As ``fit`` takes them.
        frames : mapping of view to DataFrame
            Rows of each view, or the first ones, by which ids are guessed.
        """
        from naim3l.cli.settings import make_model
        from naim3l.cli.tables import id_of_fit

        recipes = {name: view.recipe for name, view in self.views.items()}
        options = self.settings.model
        self.model = model = make_model(options, recipes, verbose=int(self.verbose))
        kept = None if options.get("solver") == "paper" else self.checkpoint  # has no state
        try:
            model.compare(X, y, checkpoint=kept)
            for name, view in self.views.items():
                model.roles_[name] = view.roles(id_of_fit(model, view, frames[name]))
            model.set_params(verbose=0).set_output(transform="pandas").save(self.target)
        except KeyboardInterrupt:
            again = "with --resume resumes the fit" if self.checkpoint.exists() else "starts over"
            say(f"Interrupted; the same command {again}.", err=True)
            raise typer.Exit(130) from None
        except FloatingPointError as error:
            raise ValueError(str(error)) from error
        except OSError as error:
            if not self.checkpoint.exists():
                raise
            raise OSError(
                f"{system_reason(error)} The fit is kept in {self.checkpoint}: solve the problem, "
                "and run the same command with --resume."
            ) from error

    def _summary(self, facts: dict[str, dict[str, Any]]) -> dict[str, Any]:
        from naim3l.explain import view_kernels

        model, kernels = self.model, view_kernels(self.model)
        views = {
            name: of_view
            | {"columns": len(model.names_.used[name]), "id": model.roles_[name]["id"]}
            for name, of_view in facts.items()
        }
        report = {} if self.report is None else {"report": str(self.report)}
        return {
            "model": str(self.target),
            "labels": model.label_names_,
            "views": views,
            "lam": getattr(model, "lam_", getattr(model, "lam", None)),
            "ridge": model.ridge_,
            "kernel": {name: kernel.name for name, kernel in kernels.items()},
            "gamma": {name: kernel.gamma for name, kernel in kernels.items()},
            "metric": getattr(model, "metric_", None),
            "held_out": by_name(model.held_out_),
            "iterations": model.n_iter_,
            "converged": model.converged_,
            **report,
        }


def check_enough(labels: list[Any]) -> None:
    """Refuse label tables in which no label has a yes and a no for each fold that is held out."""
    from naim3l.decisions.learning import N_FOLDS
    from naim3l.files.errors import load_extra

    stacked = load_extra("pandas").concat(labels)
    yes, no = (stacked == 1).sum(), (stacked == 0).sum()
    fewer = yes.combine(no, min)
    if fewer.max() < N_FOLDS:
        best, n_rows = fewer.idxmax(), sum(map(len, labels))
        raise ValueError(
            f"too few known labels: {N_FOLDS} rows with yes and {N_FOLDS} with no are needed of at "
            f"least one label, because labels are held out in {N_FOLDS} folds. The best known, "
            f"{best!r}, has {yes[best]} with yes and {no[best]} with no, of {n_rows} rows in all "
            "views; add rows, or labels."
        )


def _print_summary(summary: dict[str, Any], model: Any) -> None:
    header = {
        "rows": "rows",
        "columns": "columns",
        "known": "labels known (%)",
        "id": "ids",
    }
    rows = [
        [name, *(str(DASH if view.get(key) is None else view[key]) for key in header)]
        for name, view in summary["views"].items()
    ]
    n_labels = len(summary["labels"])
    title = f"{n_labels} label{'' if n_labels == 1 else 's'}"
    print_table(title, ["view", *header.values()], rows)
    say(
        f"lam {summary['lam']:g}, ridge {summary['ridge']:g}, {summary['iterations']} iterations"
        f"{'' if summary['converged'] else ' (NOT converged)'}"
    )
    print_measured(model.held_out_, "On labels that were held out of the fit")
    say(verdicts_in_words(model.held_out_))
    if set(summary["kernel"].values()) != {"linear"}:
        say(f"kernels: {_kernels_in_words(summary)}")


def _kernels_in_words(summary: dict[str, Any]) -> str:
    """Such as "clinic rbf (gamma 0.5), lab linear"."""
    parts = []
    for view, kernel in summary["kernel"].items():
        gamma = summary["gamma"][view]
        width = "" if gamma is None else f" (gamma {gamma:.3g})"
        parts.append(f"{view} {kernel}{width}")
    return ", ".join(parts)
