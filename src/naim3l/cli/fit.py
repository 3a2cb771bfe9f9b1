"""``naim3l fit`` and ``naim3l init``: a model from files, and settings guessed from files."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from naim3l.cli.app import app, need_libraries, print_table, report_errors, say, system_reason
from naim3l.cli.common import (
    AsJson,
    Dask,
    Ids,
    LabelFiles,
    Labels,
    Memory,
    No,
    Settings,
    Unknown,
    Views,
    Yes,
    files_of,
    files_of_sources,
    make_settings,
    print_json,
)
from naim3l.cli.measured import DASH, by_name, print_measured, verdicts_in_words
from naim3l.cli.report import page_files, write


@app.command()
def fit(
    views: Views = None,
    config: Settings = None,
    labels: Labels = None,
    labels_file: LabelFiles = None,
    ids: Ids = None,
    yes: Yes = None,
    no: No = None,
    unknown: Unknown = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Model file to write.")] = None,
    lam: Annotated[
        float | None,
        typer.Option(help="Weight of the coupling. Default: chosen on held-out labels."),
    ] = None,
    ridge: Annotated[
        float | None, typer.Option(help="Ridge penalty. Default: chosen likewise.")
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(help="When to predict yes: guarded (default), cardinality, f1, half, sign, or "
                          "a number. All but a number can be changed by predict --decide."),
    ] = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option(help="How rows of a view are compared: rbf; hellinger, chi2 or laplacian, for "
                          "counts; linear (default). view=kernel for one view; repeatable."),
    ] = None,
    landmarks: Annotated[
        int | None,
        typer.Option(help="Number of landmarks that kernels compare rows with; 300 by default. "
                          "As many as there are rows is exact, and slow."),
    ] = None,
    components: Annotated[
        int | None,
        typer.Option(help="Most principal components to keep of a view; 50 by default."),
    ] = None,
    positive_weight: Annotated[
        float | None,
        typer.Option(help="Weight of a yes in the loss; a no has 1. More favours rare labels."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Random seed; 0 by default.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume an interrupted fit.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option("--report", help="Report page to write about the fit.")
    ] = None,
    memory: Memory = None,
    dask: Dask = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Fit a model to tables that cannot be joined, and save it.

    Labels are yes/no, true/false, 1/0 and the like; empty, ? or unknown where they are not known.
    They are columns of each table, or files of their own; a label that a table lacks is unknown
    there. The model remembers ids, labels and their words for later tables. lam and ridge are
    chosen on held-out labels unless given. A fit that is interrupted or killed, or whose model
    cannot be saved, leaves a checkpoint beside the model file; --resume resumes it and ends at the
    same result.

    Scores are linear in the columns. Where that is too simple, try --kernel rbf, which also learns
    from columns in combination; its width is chosen, too.

    Tables that do not fit in memory are read in parts, several times: folders and patterns of CSV
    or Parquet files, and with --memory or --dask also single ones. What their columns are is then
    decided by the first 10,000 rows.

    Example: naim3l fit clinic=clinic.csv lab=lab.parquet --id id --labels 'dx_*' -o model.skops

    Example: naim3l fit words=counts.csv lab=lab.csv --kernel words=hellinger --kernel lab=rbf
    --labels 'dx_*' -o curved.skops

    Example: naim3l fit 'visits=visits/*.parquet' lab=lab/ --labels 'dx_*' --memory 4GB
    -o model.skops
    """
    with report_errors():
        from naim3l.cli.options import check_combination
        from naim3l.files.atomic_write import check_outputs

        options = _given(
            lam=lam,
            ridge=ridge,
            threshold=None if threshold is None else _threshold(threshold),
            kernel=_kernel(kernel),
            n_landmarks=landmarks,
            n_components=components,
            positive_weight=positive_weight,
            random_state=seed,
        )
        words = {"yes": yes, "no": no, "unknown": unknown}
        settings = make_settings(views, config, labels, labels_file, ids, options, words)
        check_combination(settings.model)
        target = _target(out, settings)
        checkpoint = target.with_name(f"{target.name}.checkpoint")
        outputs = [target, checkpoint, *page_files(report)]
        check_outputs(outputs, files_of(settings, config))
        _check_checkpoint(checkpoint, resume)
        fit_files = _choose_fit(settings, memory, dask)
        model, data = fit_files(settings, target, checkpoint, report, verbose=not as_json)
    summary = _summary(model, data, target)
    if report is not None:
        summary["report"] = str(report)
    if as_json:
        print_json(summary)
        return
    header = {"rows": "rows", "columns": "columns", "known": "labels known (%)"}
    rows = [[name, *(str(view.get(key, DASH)) for key in header)] for name, view in
            summary["views"].items()]  # fmt: skip
    n_labels = len(model.label_names_)
    print_table(f"{n_labels} label{'' if n_labels == 1 else 's'}", ["view", *header.values()], rows)
    say(
        f"lam {summary['lam']:g}, ridge {summary['ridge']:g}, {summary['iterations']} iterations"
        f"{'' if summary['converged'] else ' (NOT converged)'}"
    )
    print_measured(model.held_out_, "On labels that were held out of the fit")
    say(verdicts_in_words(model.held_out_))
    if set(summary["kernel"].values()) != {"linear"}:
        say(f"kernels: {_kernels_in_words(summary)}")
    say(f"Wrote {target}{'' if report is None else f' and {report}'}.")


@app.command()
def init(
    sources: Annotated[list[str], typer.Argument(help="Tables: files, or databases as for fit.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Settings file to write.")] = Path(
        "naim3l.toml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    yes: Yes = None,
    no: No = None,
    unknown: Unknown = None,
) -> None:
    """Write settings for some tables, guessed from their first rows, for you to check.

    Every guess (ids, labels, columns to leave out) is marked in the file.

    Example: naim3l init clinic.csv lab.tsv survey.parquet -o study.toml

    Example: naim3l init survey.csv --yes used --no never --unknown "not asked"
    """
    with report_errors():
        need_libraries("'naim3l init'", "files", "tomlkit")
        from naim3l.cli.draft import make_config
        from naim3l.files.atomic_write import check_outputs, write_text
        from naim3l.files.sources import show_source

        if out.exists() and not force:
            raise ValueError(f"{out} exists; --force replaces it.")
        check_outputs([out], files_of_sources(sources))
        words = {"yes": yes or [], "no": no or [], "unknown": unknown or []}
        config, text = make_config(sources, out.parent, words)
        write_text(out, text)
    rows = [
        [name, show_source(view.source), view.id or "–", ", ".join(view.labels) or "–"]
        for name, view in config.views.items()
    ]
    print_table("Guessed", ["view", "source", "id", "labels"], rows, n_left=4)
    say(f"Wrote {out}. Check what is marked as guessed, then: naim3l fit --config {out}")


def _choose_fit(settings: Any, memory: str | None, address: str | None) -> Callable[..., Any]:
    """Function that fits and saves a model: to tables in memory, or to tables in parts."""
    from naim3l.cli.work.streamed_work import is_streamed

    if not is_streamed(settings, memory, address):
        return _fit_tables
    return partial(_fit_parts, memory=memory, address=address)


def _fit_tables(
    settings: Any, target: Path, checkpoint: Path, report: Path | None, *, verbose: bool
) -> tuple[Any, Any]:
    from naim3l.cli.work import make_model, read_training, split

    data = read_training(settings)
    model = make_model(settings.model, data, verbose=int(verbose), checkpoint=str(checkpoint))
    _fit_and_save(model, data, target, checkpoint)
    if report is not None:
        write(model, *split(data), report)
    return model, data


def _fit_parts(
    settings: Any,
    target: Path,
    checkpoint: Path,
    report: Path | None,
    *,
    verbose: bool,
    memory: str | None,
    address: str | None,
) -> tuple[Any, Any]:
    from naim3l.cli.work import make_model, split
    from naim3l.cli.work.building import judged_by_fit
    from naim3l.cli.work.streamed_rows import sample_rows
    from naim3l.cli.work.streamed_tables import open_training
    from naim3l.cli.work.streamed_work import workers

    judged = judged_by_fit(settings)
    with workers(memory, address) as part_bytes:
        data = open_training(settings, part_bytes, judged)
        model = make_model(
            settings.model, data, verbose=int(verbose), checkpoint=str(checkpoint), judged=judged
        )
        _fit_and_save(model, data, target, checkpoint)
        if report is not None:
            write(model, *split(sample_rows(data, shown=verbose)), report)
    return model, data


def _target(out: Path | None, settings: Any) -> Path:
    target = out if out is not None else settings.output and Path(settings.output)
    if not target:
        raise ValueError("name the model file with --out, or with the key output of the settings.")
    if not target.name:
        raise IsADirectoryError(f"{target} is a folder; name a file in it, such as model.skops.")
    return target


def _check_checkpoint(path: Path, resume: bool) -> None:
    if resume and not path.exists():
        say(f"There is no checkpoint {path}; the fit starts from the beginning.", err=True)
    if path.exists() and not resume:
        raise ValueError(
            f"{path} exists, from a fit that was interrupted or not saved: --resume resumes it; "
            "delete it to start over."
        )


def _fit_and_save(model: Any, data: Any, target: Path, checkpoint: Path) -> None:
    """Fit a model and write it; the checkpoint stays until the file is there."""
    from naim3l.cli.work import fit_model

    try:
        fit_model(model, data)
        # These belong to this run, not to the model.
        model.set_params(checkpoint=None, verbose=0).save(target)
    except KeyboardInterrupt:
        again = "with --resume resumes the fit" if checkpoint.exists() else "starts over"
        say(f"Interrupted; the same command {again}.", err=True)
        raise typer.Exit(130) from None
    except FloatingPointError as error:
        raise ValueError(str(error)) from error
    except OSError as error:
        if not checkpoint.exists():
            raise
        raise OSError(
            f"{system_reason(error)} The fit is kept in {checkpoint}: solve the problem, and run "
            "the same command with --resume."
        ) from error


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _threshold(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _kernel(given: list[str] | None) -> Any:
    """One kernel for all views, or those of some by name; None where none is given."""
    if not given:
        return None
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
    return kernels


def _kernels_in_words(summary: dict[str, Any]) -> str:
    """Such as "clinic rbf (gamma 0.5), lab linear"."""
    parts = []
    for view, kernel in summary["kernel"].items():
        gamma = summary["gamma"][view]
        width = "" if gamma is None else f" (gamma {gamma:.3g})"
        parts.append(f"{view} {kernel}{width}")
    return ", ".join(parts)


def _facts(view: Any, n_columns: int) -> dict[str, Any]:
    """Numbers of rows and columns of a view; the share of known labels if they are in memory."""
    if hasattr(view.features, "lengths"):
        return {"rows": sum(view.features.lengths), "columns": n_columns}
    known = round(100 * float(view.labels.notna().to_numpy().mean()), 1)
    return {"rows": len(view.features), "columns": n_columns, "known": known}


def _summary(model: Any, data: Any, target: Path) -> dict[str, Any]:
    from naim3l.explain import view_kernels

    kernels = view_kernels(model)
    return {
        "model": str(target),
        "labels": model.label_names_,
        "views": {name: _facts(view, model.reader_.n_columns(name)) for name, view in data.items()},
        "lam": getattr(model, "lam_", getattr(model, "lam", None)),
        "ridge": getattr(model, "ridge_", getattr(model, "ridge", None)),
        "kernel": {name: kernel.name for name, kernel in kernels.items()},
        "gamma": {name: kernel.gamma for name, kernel in kernels.items()},
        "metric": getattr(model, "metric_", None),
        "held_out": by_name(model.held_out_),
        "iterations": model.n_iter_,
        "converged": model.converged_,
    }
