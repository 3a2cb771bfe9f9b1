"""A model for views as they were read: recipes, text as columns, tuning by default."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from naim3l.cli.options import is_tuned
from naim3l.cli.work.study import ViewData, split
from naim3l.decisions.rules import N_FOLDS
from naim3l.estimators.naim3l import NAIM3L
from naim3l.estimators.naim3l_cv import NAIM3LCV
from naim3l.features.kernels import HISTOGRAM_KERNELS
from naim3l.features.recipes import MAX_COMPONENTS, RECIPES
from naim3l.files.readers import ReadError
from naim3l.files.readers.columns import MOST_CATEGORIES

NUMBERS, WORDS, LINEAR = "numbers", "words", "linear"
# The same whether lam and ridge are chosen or given; see docs/decisions.md.
DEFAULT_RULE = NAIM3LCV().threshold
# A word in fewer rows than this is one of the rare ones of its column.
RARE_WORD = 3


def make_model(
    options: Mapping[str, Any], data: Mapping[str, ViewData], *, verbose: int = 0,
    checkpoint: str | None = None,
) -> NAIM3L | NAIM3LCV:  # fmt: skip
    """Unfitted model for views; `lam` and `ridge` are tuned unless one of them is given.

    Views with text or with missing cells get a transformer that fills in means and turns words
    into columns before the recipe; others the recipe alone. Before a kernel of histograms there
    is no recipe: it takes numbers as they are.

    Parameters
    ----------
    options : mapping
        As `naim3l.cli.settings.Config` has them, checked. Views that ``kernel`` leaves out are
        linear; those that ``gamma`` leaves out have the one that suits their rows.
    data : mapping of view to ViewData
    verbose : int
    checkpoint : str, optional
    """
    chosen = {"threshold": DEFAULT_RULE, "random_state": 0, **options}
    chosen.pop("tune", None)
    recipe, kernels = chosen.pop("transformer", "scale"), _kernels(chosen.pop("kernel", None), data)
    if not any(kernels.values()):  # all are named linear
        chosen = {key: chosen[key] for key in chosen if key not in ("n_landmarks", "gamma")}
    elif isinstance(gamma := chosen.get("gamma"), Mapping):
        chosen["gamma"] = {name: gamma.get(name, "auto") for name in data}
    n_components = chosen.pop("n_components", MAX_COMPONENTS)
    recipes = {name: None if kernels[name] in HISTOGRAM_KERNELS else recipe for name in data}
    transformers = {
        name: _transformer(view, recipes[name], n_components) for name, view in data.items()
    }
    if any(isinstance(made, str) for made in transformers.values()):  # else all have the number
        chosen["n_components"] = n_components
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


def _transformer(view: ViewData, recipe: str | None, n_components: int) -> Any:
    cells = view.features.isna().to_numpy()
    has_holes = (cells.any(axis=1) & ~cells.all(axis=1)).any()  # an empty row lacks the view
    if not view.words and not has_holes:
        return recipe
    words = set(view.words)
    numbers = [column for column in view.features.columns if column not in words]
    encoder = OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        min_frequency=RARE_WORD,
        max_categories=MOST_CATEGORIES + 1,  # the last is for all others
        sparse_output=False,
    )
    parts = [(NUMBERS, SimpleImputer(), numbers), (WORDS, encoder, view.words)]
    columns = ColumnTransformer([part for part in parts if part[2]], sparse_threshold=0)
    return columns if recipe is None else make_pipeline(columns, RECIPES[recipe](n_components))


def fit_model(model: NAIM3L | NAIM3LCV, data: Mapping[str, ViewData]) -> NAIM3L | NAIM3LCV:
    """The model fitted to views with labels; it remembers the roles of their columns."""
    _check_enough(data)
    model.fit(*split(data)).set_output(transform="pandas")
    model.roles_ = {name: replace(view.roles, text=view.words) for name, view in data.items()}
    return model


def _check_enough(data: Mapping[str, ViewData]) -> None:
    """Refuse data in which no label has a yes and a no for each fold that is held out."""
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
