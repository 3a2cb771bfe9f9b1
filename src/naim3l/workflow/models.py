"""A model for views as they were read: recipes, words as columns, tuning unless told otherwise."""

from collections.abc import Mapping
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from naim3l.base import LinearViewModel
from naim3l.estimator import NAIM3L
from naim3l.readers import ReadError
from naim3l.selection import NAIM3LCV
from naim3l.transform import RECIPES
from naim3l.workflow.views import ViewData, split

NUMBERS, WORDS = "numbers", "words"
# A word in fewer rows than this is one of the rare ones of its column.
RARE_WORD = 3


def make_model(
    options: Mapping[str, Any], data: Mapping[str, ViewData], *, verbose: int = 0,
    checkpoint: str | None = None,
) -> NAIM3L | NAIM3LCV:  # fmt: skip
    """Unfitted model for views; `lam` and `ridge` are tuned unless one of them is given.

    Views with text or with missing cells get a transformer that fills in means and turns words
    into columns before the recipe; others the recipe alone.
    """
    chosen = {"threshold": "f1", "random_state": 0, **options}
    recipe = chosen.pop("transformer", "scale")
    if recipe not in RECIPES:
        raise ReadError(f"transformer is {recipe!r}; known are: {', '.join(RECIPES)}.")
    tune = chosen.pop("tune", not {"lam", "ridge", "solver"} & set(chosen))
    shared: dict[str, Any] = {
        "transformer": {name: _transformer(view, recipe) for name, view in data.items()},
        "calibrate": True,
        "verbose": verbose,
        "checkpoint": checkpoint,
    }
    if not tune:
        return NAIM3L(**chosen, **shared)
    for name, several in (("lam", "lams"), ("ridge", "ridges")):
        if name in chosen:
            chosen[several] = [chosen.pop(name)]
    return NAIM3LCV(**chosen, **shared)


def _transformer(view: ViewData, recipe: str) -> Any:
    cells = view.features.isna().to_numpy()
    has_holes = (cells.any(axis=1) & ~cells.all(axis=1)).any()  # an empty row lacks the view
    if not view.words and not has_holes:
        return recipe
    numbers = [column for column in view.features.columns if column not in view.words]
    encoder = OneHotEncoder(
        handle_unknown="infrequent_if_exist", min_frequency=RARE_WORD, sparse_output=False
    )
    parts = [(NUMBERS, SimpleImputer(), numbers), (WORDS, encoder, view.words)]
    used = [part for part in parts if part[2]]
    return make_pipeline(ColumnTransformer(used, sparse_threshold=0), RECIPES[recipe]())


def word_columns(model: LinearViewModel, view: str) -> list[str]:
    """Columns of a view that were text in training."""
    steps = getattr(model.transformers_[view], "steps", [])
    first = steps[0][1] if steps else None
    if not isinstance(first, ColumnTransformer):
        return []
    return [
        column for name, _, columns in first.transformers for column in columns if name == WORDS
    ]


def fit_model(model: NAIM3L | NAIM3LCV, data: Mapping[str, ViewData]) -> NAIM3L | NAIM3LCV:
    """The model fitted to views with labels."""
    return model.fit(*split(data)).set_output(transform="pandas")
