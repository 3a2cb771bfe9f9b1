"""A model for views as they were read: recipes, text as columns, tuning by default."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from naim3l.cli.options import is_tuned
from naim3l.cli.settings import Config
from naim3l.cli.work.study import ViewData, split
from naim3l.decisions.rules import N_FOLDS
from naim3l.estimators.naim3l import NAIM3L
from naim3l.estimators.naim3l_cv import NAIM3LCV
from naim3l.estimators.schema import AUTO
from naim3l.features.encoding import encode_cells
from naim3l.features.kernels import HISTOGRAM_KERNELS
from naim3l.features.recipes import MAX_COMPONENTS
from naim3l.files.readers import ReadError
from naim3l.input.partitions import is_partitioned

LINEAR = "linear"
# The same whether lam and ridge are chosen or given; see docs/guide/decisions.md.
DEFAULT_RULE = NAIM3LCV().threshold


def judged_by_fit(config: Config) -> list[str]:
    """Views of tables in parts whose columns the fit judges by all rows, as "auto" does.

    Not those whose features are listed, or for which a recipe is named.
    """
    kernels = _kernels(config.model.get("kernel"), config.views)
    return [
        name
        for name, view in config.views.items()
        if view.features is None
        and "transformer" not in config.model
        and kernels[name] not in HISTOGRAM_KERNELS
    ]


def make_model(
    options: Mapping[str, Any], data: Mapping[str, ViewData], *, verbose: int = 0,
    checkpoint: str | None = None, judged: Collection[str] = (),
) -> NAIM3L | NAIM3LCV:  # fmt: skip
    """Unfitted model for views; `lam` and `ridge` are tuned unless one of them is given.

    As with ``transformer="auto"`` in Python, missing cells, text and dates become numbers before
    the recipe. Before a kernel of histograms there is no recipe: it takes numbers as they are.

    Parameters
    ----------
    options : mapping
        As `naim3l.cli.settings.Config` has them, checked. Views that ``kernel`` leaves out are
        linear; those that ``gamma`` leaves out have the one that suits their rows.
    data : mapping of view to ViewData
    verbose : int
    checkpoint : str, optional
    judged : collection of str
        Views of tables in parts as `judged_by_fit` gives them.
    """
    chosen = {"threshold": DEFAULT_RULE, "random_state": 0, **options}
    chosen.pop("tune", None)
    recipe, kernels = chosen.pop("transformer", "scale"), _kernels(chosen.pop("kernel", None), data)
    if not any(kernels.values()):  # all are named linear
        chosen = {key: chosen[key] for key in chosen if key not in ("n_landmarks", "gamma")}
    elif isinstance(gamma := chosen.get("gamma"), Mapping):
        chosen["gamma"] = {name: gamma.get(name, "auto") for name in data}
    n_components = chosen.get("n_components", MAX_COMPONENTS)
    if not judged:
        chosen.pop("n_components", None)
    transformers = {
        name: AUTO if name in judged else encode_cells(
            None if kernels[name] in HISTOGRAM_KERNELS else recipe, n_components, view.words
        )
        for name, view in data.items()
    }  # fmt: skip
    shared: dict[str, Any] = {
        "transformer": transformers,
        "kernel": kernels if len(set(kernels.values())) > 1 else next(iter(kernels.values())),
        "calibrate": True,
        "compare": True,
        "verbose": verbose,
        "checkpoint": None if options.get("solver") == "paper" else checkpoint,  # keeps no state
    }
    if not is_tuned(options):
        return NAIM3L(**chosen, **shared)
    for name, several in (("lam", "lams"), ("ridge", "ridges")):
        if name in chosen:
            chosen[several] = [chosen.pop(name)]
    return NAIM3LCV(**chosen, **shared)


def _kernels(given: Any, views: Iterable[str]) -> dict[str, str | None]:
    """Kernel of each view; None where the model is linear in the features.

    A linear kernel is the same model, from whose weights no column could be read.
    """
    named = given if isinstance(given, Mapping) else dict.fromkeys(views, given)
    kernels = {view: named.get(view) for view in views}
    return {view: None if kernel == LINEAR else kernel for view, kernel in kernels.items()}


def fit_model(model: NAIM3L | NAIM3LCV, data: Mapping[str, ViewData]) -> NAIM3L | NAIM3LCV:
    """The model fitted to views with labels; it remembers what the columns of the files are."""
    _check_enough({name: view for name, view in data.items() if not is_partitioned(view.labels)})
    model.fit(*split(data)).set_output(transform="pandas")
    for name, view in data.items():
        unused = [use.name for use in model.aside_[name]]
        model.roles_[name] = replace(view.roles, ignored=[*view.roles.ignored, *unused])
        model.aside_[name] = [*view.aside, *model.aside_[name]]
    return model


def _check_enough(data: Mapping[str, ViewData]) -> None:
    """Refuse data in which no label has a yes and a no for each fold that is held out."""
    if not data:
        return
    labels = [view.labels for view in data.values()]
    yes, no = (sum((table == value).sum() for table in labels) for value in (1, 0))
    fewer = np.minimum(yes, no)
    if fewer.max() < N_FOLDS:
        best, n_rows = fewer.idxmax(), sum(map(len, labels))
        raise ReadError(
            f"too few known labels: {N_FOLDS} rows with yes and {N_FOLDS} with no are needed of at "
            f"least one label, because labels are held out in {N_FOLDS} folds. The best known, "
            f"{best!r}, has {yes[best]} with yes and {no[best]} with no, of {n_rows} rows in all "
            "views; add rows, or labels."
        )
