"""From files to models and back: what the commands do, without printing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from naim3l.base import LinearViewModel
from naim3l.decisions import FUSED
from naim3l.estimator import NAIM3L
from naim3l.fusion import fuse
from naim3l.metrics import evaluate
from naim3l.readers import (
    Config,
    LabelWords,
    ReadError,
    ViewConfig,
    choose_columns,
    guess_roles,
    parse_features,
    parse_labels,
    read_table,
)
from naim3l.selection import NAIM3LCV
from naim3l.transform import RECIPES

KINDS = ("labels", "scores", "probabilities")
# Metrics of decisions; all others are of ranks, which thresholds have no part in.
OF_DECISIONS = ("1-HL", "macro-F1", "micro-F1", "example-F1")
NUMBERS, WORDS = "numbers", "words"
# A word in fewer rows than this is one of the rare ones of its column.
RARE_WORD = 3


@dataclass(frozen=True)
class ViewData:
    """Features of a view as they were read, and its labels if it has any.

    Attributes
    ----------
    features : DataFrame of shape (n_rows, n_columns)
        Numbers, NaN where missing, and text, None where missing; ids are the index.
    words : list of str
        Columns of text.
    labels : DataFrame of shape (n_rows, n_labels), or None
        1, 0, NaN = unknown.
    """

    features: Any
    words: list[str]
    labels: Any = None


def read_training(config: Config) -> dict[str, ViewData]:
    """Views of the settings, with their labels."""
    return {name: _read_view(name, view, config.labels) for name, view in config.views.items()}


def read_test(config: Config, sources: Sequence[str]) -> dict[str, ViewData]:
    """Other tables of some of the views, given as ``name=source``, with columns as in training."""
    views = {}
    for name, source in parse_sources(sources).items():
        if name not in config.views:
            raise ReadError(
                f"there is no view {name!r} to test; the views are {list(config.views)}."
            )
        views[name] = replace(config.views[name], source=source)
    return read_training(replace(config, views=views))


def _read_view(name: str, view: ViewConfig, words: LabelWords) -> ViewData:
    table = read_table(view.source, id_column=view.id)
    labels = _read_labels(name, view, table, words)
    own_labels = [] if view.labels_file else list(labels.columns)
    ignored = choose_columns(table.columns, view.ignore, where=f"view {name!r}")
    if view.features is None:
        chosen = [column for column in table.columns if column not in {*own_labels, *ignored}]
    else:
        chosen = choose_columns(table.columns, view.features, where=f"view {name!r}")
        chosen = [column for column in chosen if column not in ignored]
    if not chosen:
        raise ReadError(f"view {name!r}: no column is left for features.")
    features, text = parse_features(table[chosen])
    return ViewData(features, text, labels)


def _read_labels(name: str, view: ViewConfig, table: Any, words: LabelWords) -> Any:
    if not view.labels:
        raise ReadError(
            f"view {name!r}: no label columns are named; give names or patterns with --labels, or "
            f"the key labels of [views.{name}]."
        )
    source = table
    if view.labels_file is not None:
        if view.id is None:
            raise ReadError(
                f"view {name!r}: labels in a file of their own are matched by id; name the id "
                "column."
            )
        source = read_table(view.labels_file, id_column=view.id)
        if not source.index.isin(table.index).any():
            raise ReadError(f"view {name!r}: no id of {view.labels_file} occurs in {view.source}.")
    columns = choose_columns(source.columns, view.labels, where=f"labels of view {name!r}")
    labels = parse_labels(source[columns], yes=words.yes, no=words.no, unknown=words.unknown)
    return labels if view.labels_file is None else labels.reindex(table.index)


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


def fit_model(model: NAIM3L | NAIM3LCV, data: Mapping[str, ViewData]) -> NAIM3L | NAIM3LCV:
    """The model fitted to views with labels."""
    X = {name: view.features for name, view in data.items()}
    Y = {name: view.labels for name, view in data.items()}
    return model.fit(X, Y).set_output(transform="pandas")


def read_new(
    model: LinearViewModel, sources: Mapping[str, str], *, id_column: str | None = None
) -> dict[str, Any]:
    """Tables to predict from, with the columns of the fit in their types and ids as index.

    Parameters
    ----------
    model : fitted model
    sources : mapping of view to source as `read_table` takes it
    id_column : str, optional
        By default a column that looks like an id and is no feature.
    """
    return {
        view: _read_new_view(model, view, source, id_column) for view, source in sources.items()
    }


def _read_new_view(model: LinearViewModel, view: str, source: str, id_column: str | None) -> Any:
    if view not in model.views_:
        raise ReadError(f"the model has no view {view!r}; it was fitted on {model.views_}.")
    known = [str(name) for name in model.feature_names_in_[view]]
    table = read_table(source, id_column=id_column)
    if id_column is None:
        guessed = guess_roles(table).id
        if guessed is not None and guessed not in known:
            table = read_table(source, id_column=guessed)
    columns = choose_columns(table.columns, known, where=f"view {view!r}, {source}")
    words = _words_of(model, view)
    numbers = [column for column in columns if column not in words]
    features, text = parse_features(table[numbers])
    if text:
        column = text[0]
        cell = next(cell for cell in features[column] if cell is not None)
        raise ReadError(
            f"view {view!r}, {source}, column {column!r}: {cell!r} is text; in training it was a "
            "number."
        )
    for column in words:
        texts = [None if cell is None or cell != cell else str(cell) for cell in table[column]]
        features[column] = texts
        features[column] = features[column].astype(object)  # as in training
    return features[columns]


def _words_of(model: LinearViewModel, view: str) -> list[str]:
    """Columns of a view that were text in training."""
    steps = getattr(model.transformers_[view], "steps", [])
    first = steps[0][1] if steps else None
    if not isinstance(first, ColumnTransformer):
        return []
    return [
        column for name, _, columns in first.transformers for column in columns if name == WORDS
    ]


def predict_tables(
    model: LinearViewModel, X: Mapping[str, Any], kind: str = "labels", *, fused: bool = False
) -> Any:
    """Predictions in one data frame, a row per row; ids are the index.

    Parameters
    ----------
    model : fitted model
    X : mapping of view to table, as `read_new` gives
    kind : {"labels", "scores", "probabilities"}
    fused : bool
        Average over the views of an id. Otherwise, of several views, a first column tells the view.
    """
    model.set_output(transform="pandas")
    if fused:
        if kind == "probabilities":
            return fuse(model.predict_proba(X))
        scores = model.decision_function(X)
        if kind == "scores":
            return fuse(scores)
        margins = {view: table - model.thresholds_[view] for view, table in scores.items()}
        return (fuse(margins) > 0).astype(int)
    make = {
        "labels": model.predict,
        "scores": model.decision_function,
        "probabilities": model.predict_proba,
    }[kind]
    return _stacked(make(X))


def _stacked(tables: Mapping[str, Any]) -> Any:
    import pandas as pd

    if len(tables) == 1:
        return next(iter(tables.values()))
    parts = []
    for view, table in tables.items():
        part = table.copy()
        part.insert(0, "view", view)
        parts.append(part)
    return pd.concat(parts)


def impute(model: LinearViewModel, data: Mapping[str, ViewData]) -> dict[str, Any]:
    """Labels of each view with the unknown ones filled in, and a confidence beside each.

    The confidence is the probability of the value that stands there; 1 where it was known.
    """
    import pandas as pd

    X = {name: view.features for name, view in data.items()}
    Y = {name: view.labels for name, view in data.items()}
    filled, chances = model.impute_labels(X, Y), model.predict_proba(X)
    tables = {}
    for name, labels in Y.items():
        columns: dict[str, Any] = {}
        for label in labels.columns:
            value, chance = filled[name][label], np.asarray(chances[name][label])
            columns[label] = value.astype("Int64")  # whole numbers, even beside missing ones
            sure = np.where(np.asarray(value) > 0, chance, 1 - chance)
            columns[f"{label}_confidence"] = np.where(labels[label].notna(), 1.0, sure)
        tables[name] = pd.DataFrame(columns, index=labels.index)
    return tables


def evaluate_views(model: LinearViewModel, data: Mapping[str, ViewData]) -> dict[str, Any]:
    """Metrics of predictions on known labels.

    Returns
    -------
    dict
        "views": all metrics of `naim3l.evaluate` by view, decisions at the model's thresholds, and
        under "fused" where two views share ids. "labels": known yes and no, AUC and F1 of each
        label over the rows of all views.
    """
    import pandas as pd

    model.set_output(transform="pandas")
    known, scores, margins = {}, {}, {}
    for name, table in model.decision_function(
        {name: view.features for name, view in data.items()}
    ).items():
        present = table.notna().all(axis=1)  # rows that lack the view have no score
        known[name] = data[name].labels[model.label_names_][present]
        scores[name] = table[present]
        margins[name] = scores[name] - model.thresholds_[name]
    rows = {name: (known[name], scores[name], margins[name]) for name in known}
    together = [pd.concat(list(tables.values())) for tables in (known, scores, margins)]
    named = [name for name in scores if scores[name].index.name is not None]
    if len(named) > 1:
        fused = fuse({name: scores[name] for name in named})
        if len(fused) < sum(len(scores[name]) for name in named):
            truth = pd.concat([known[name] for name in named]).groupby(level=0).max()
            decided = fuse({name: margins[name] for name in named})
            rows[FUSED] = truth.loc[fused.index], fused, decided.loc[fused.index]
    return {
        "views": {name: _measure(*of_view) for name, of_view in rows.items()},
        "labels": {name: _of_label(*together, name) for name in model.label_names_},
    }


def _measure(labels: Any, scores: Any, margins: Any) -> dict[str, float]:
    """All metrics; labels are ranked by scores, and decided on by margins above the thresholds."""
    Y = labels.to_numpy()
    decided = evaluate(Y, margins.to_numpy())
    return evaluate(Y, scores.to_numpy()) | {name: decided[name] for name in OF_DECISIONS}


def _of_label(labels: Any, scores: Any, margins: Any, name: str) -> dict[str, Any]:
    values = _measure(labels[[name]], scores[[name]], margins[[name]])
    counts = {"yes": int((labels[name] == 1).sum()), "no": int((labels[name] == 0).sum())}
    return counts | {"AUC": values["macro-AUC"], "F1": values["macro-F1"]}


def parse_sources(arguments: Sequence[str]) -> dict[str, str]:
    """Views given as ``name=source``."""
    sources: dict[str, str] = {}
    for argument in arguments:
        name, equals, source = argument.partition("=")
        if not equals or not name.replace("_", "").replace("-", "").isalnum():
            raise ReadError(f"{argument!r} is not of the form name=path.")
        if name in sources:
            raise ReadError(f"view {name!r} is given twice.")
        if not source:
            raise ReadError(f"view {name!r} has no path.")
        sources[name] = source
    return sources
