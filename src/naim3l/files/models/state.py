"""Checks that the parts of a loaded model exist, are consistent, and are finite."""

import warnings
from dataclasses import fields, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from naim3l.decisions.blending import Blend
from naim3l.decisions.calibration import Calibration
from naim3l.decisions.fusion import Evidence
from naim3l.decisions.held_out import METRICS
from naim3l.decisions.rules import Decisions
from naim3l.decisions.thresholds import LEARNED
from naim3l.features.encoding import ViewFeatures
from naim3l.files.models.archive import ModelFileError, require
from naim3l.files.models.facts import n_inputs, type_name
from naim3l.files.models.held_out_parts import is_measured
from naim3l.files.models.learned import check_learned
from naim3l.files.models.parts import (
    ALIGNED_MODELS,
    BLEND,
    MODELS,
    are_uses,
    steps_of,
    takes_zeros,
)
from naim3l.files.models.reader_parts import check_reader
from naim3l.files.models.requirements import (
    Part,
    are_numbers,
    check_attribute,
    is_flag,
    is_number,
    is_whole,
)
from naim3l.input.reader import TableReader
from naim3l.input.roles import ViewRoles
from naim3l.input.tables import OUTPUTS, Table
from naim3l.input.views import FUSED


def _of_labels(value: Any, model: Any) -> bool:
    return are_numbers(value, (len(model.label_names_),))


def _weights(value: Any, model: Any) -> bool:
    rows = value.shape[:1] if isinstance(value, np.ndarray) and value.size else ()
    return are_numbers(value, (*rows, len(model.label_names_)))


def _rates(value: Any, model: Any) -> bool:
    return _of_labels(value, model) and bool(((value > 0) & (value < 1)).all())


def _calibration(value: Any, model: Any) -> bool:
    if not isinstance(value, Calibration):
        return False
    own: Any = getattr(value, "own", None)
    known = isinstance(own, np.ndarray) and own.dtype == bool
    curves = [getattr(value, name, None) for name in ("slope", "offset", "base")]
    fits = known and own.shape == (len(model.label_names_),)
    return fits and all(_of_labels(curve, model) for curve in curves)


def _evidence(value: Any, model: Any) -> bool:
    if not isinstance(value, Evidence) or not {"weights", "overlap"} <= set(vars(value)):
        return False
    curves = getattr(value, "calibrations", None)
    n_views, n_labels = len(model.views_), len(model.label_names_)
    return (
        isinstance(curves, list)
        and len(curves) == n_views
        and all(_calibration(curve, model) for curve in curves)
        and are_numbers(value.weights, (n_views, n_labels))
        and _of_labels(value.overlap, model)
        and bool(((value.overlap >= 0) & (value.overlap <= 1)).all())
    )


def _rules(value: Any, model: Any) -> bool:
    """Whether a value has thresholds of every learned rule, for every block of scores."""
    blocks = {FUSED} if model.reader_.wide else set(model.views_)
    return (
        isinstance(value, dict)
        and set(value) == set(LEARNED)
        and all(isinstance(of, dict) and set(of) == blocks for of in value.values())
        and all(_of_labels(of_block, model) for of in value.values() for of_block in of.values())
    )


def _features(value: Any, model: Any) -> bool:
    """Whether a value is a `ViewFeatures` with a transformer or None."""
    whole = isinstance(value, ViewFeatures) and {"transformer", "as_numbers"} <= set(vars(value))
    if not whole or type(value.as_numbers) is not bool:
        return False
    given = value.transformer
    steps = [step for step in (given, *steps_of(given)) if step is not None]
    return all(callable(getattr(step, "transform", None)) for step in steps) and not any(
        isinstance(step, type) for step in steps
    )


def _roles(value: Any, model: Any) -> bool:
    """Whether roles are column names that are consistent with the features and labels."""
    names = {field.name for field in fields(ViewRoles)} - {"id"}
    whole = isinstance(value, ViewRoles) and set(vars(value)) == {"id", *names}
    if not whole or not isinstance(value.id, str | None):
        return False
    lists = [getattr(value, name) for name in names]
    if not all(type(of) is list and all(isinstance(text, str) for text in of) for of in lists):
        return False
    view = next(name for name, roles in model.roles_.items() if roles is value)
    features = set(model.reader_.column_names(view) or ())
    return set(value.labels) <= set(model.label_names_) and not features & {
        value.id,
        *value.ignored,
    }


def _records(value: Any, model: Any) -> bool:
    """Whether a history is a list of records of numbers."""
    rows = isinstance(value, list) and all(isinstance(record, dict) for record in value)
    return rows and all(
        is_flag(number) or isinstance(number, int | float | np.number)
        for record in value
        for number in record.values()
    )


def _columns_of_numbers(value: Any, model: Any) -> bool:
    arrays = isinstance(value, dict) and all(isinstance(v, np.ndarray) for v in value.values())
    return (
        arrays
        and len({a.shape for a in value.values()}) == 1
        and all(a.ndim == 1 and a.dtype.kind in "if" for a in value.values())
    )


def _network(value: Any, model: Any) -> bool:
    """Whether arrays have the names and shapes of a default network."""
    view = next(name for name, arrays in model.weights_.items() if arrays is value)
    centre = value.get("encoder.centre") if isinstance(value, dict) else None
    if not isinstance(centre, np.ndarray) or centre.ndim != 1:
        return False
    shapes = model._weight_shapes(view)
    fits = set(value) == set(shapes) and all(
        are_numbers(value[name], shape) and value[name].dtype == np.float32
        for name, shape in shapes.items()
    )
    return fits and bool(value["encoder.scale"] > 0)  # features are divided by it


def _uncoupled(value: Any, model: Any) -> bool:
    """Whether a value is what the model without coupling has learned, for the same features."""
    whole = type_name(value) == "naim3l.estimators.compared.Uncoupled" and set(vars(value)) == {
        "ridge", "coef", "intercept", "decisions",
    }  # fmt: skip
    if not whole or not isinstance(value.decisions, Decisions):
        return False
    if set(vars(value.decisions)) != {field.name for field in fields(Decisions)}:
        return False
    other = model.uncoupled_
    for name in ("thresholds_", "rules_", "calibration_", "evidence_"):
        check_attribute(other, name, COMMON[name])
    for name, part in LINEAR.items():
        check_attribute(other, name, part)
    same = all(value.coef[view].shape == model.coef_[view].shape for view in model.views_)
    return same and is_number(value.ridge, above=0)


def _members(value: Any, model: Any) -> bool:
    """Whether a value has fitted models by name, of the tables of the blend."""
    kinds = set(MODELS) - {BLEND, *ALIGNED_MODELS}
    named = isinstance(value, dict) and value and all(isinstance(name, str) for name in value)
    if not named or not all(type_name(member) in kinds for member in value.values()):
        return False
    alike = ("form_", "views_", "label_names_", "label_coding")
    return all(
        isinstance(getattr(member, "reader_", None), TableReader)
        and all(getattr(member.reader_, a, None) == getattr(model.reader_, a) for a in alike)
        for member in value.values()
    )


def _unfitted(value: Any, model: Any) -> bool:
    """Whether a value is None, or pairs of names and models."""
    pairs = isinstance(value, list) and all(type(p) is tuple and len(p) == 2 for p in value)
    return value is None or (pairs and all(type_name(member) in MODELS for _, member in value))


def _member_weights(value: Any, model: Any) -> bool:
    named = isinstance(value, dict) and list(value) == list(model.members_)
    return named and all(_of_labels(weights, model) for weights in value.values())


def _blend(value: Any, model: Any) -> bool:
    curves, weights = getattr(value, "calibrations", None), getattr(value, "weights", None)
    shape = len(model.members_), len(model.label_names_)
    return (
        isinstance(value, Blend)
        and isinstance(curves, list)
        and len(curves) == shape[0]
        and all(_calibration(curve, model) for curve in curves)
        and are_numbers(weights, shape)
    )


_LABELLED = "one finite number per label"
COMMON = {
    "features_": Part("features with a transformer or None", _features, by="views"),
    "thresholds_": Part(_LABELLED, _of_labels, by="blocks"),
    "rules_": Part("thresholds by rule", _rules, empty=dict),
    "calibration_": Part("a curve per label", _calibration, by="blocks", empty=dict),
    "evidence_": Part("weights of all views", _evidence, empty=type(None)),
    "base_rates_": Part("a share per label", _rates),
    "aside_": Part("uses of columns", lambda value, _: are_uses(value), by="views"),
    "view_rates_": Part("a share per label", _rates, by="blocks"),
    "roles_": Part("names of columns", _roles, by="views", empty=dict),
    "_sklearn_output_config": Part(
        f"one of {OUTPUTS}", lambda value, _: value in [{"transform": o} for o in OUTPUTS],
        optional=True,
    ),
}  # fmt: skip
LINEAR = {
    "coef_": Part("finite weights of features and labels", _weights, by="views"),
    "intercept_": Part(_LABELLED, _of_labels, by="views"),
}
ITERATED = {
    "n_iter_": Part("a whole number", lambda value, _: is_whole(value)),
    "converged_": Part("True or False", lambda value, _: is_flag(value)),
    "stationarity_": Part("a number", lambda value, _: is_number(value, or_nan=True)),
    "objective_": Part("a number", lambda value, _: is_number(value, or_nan=True)),
    "history_": Part("records of numbers", _records),
}
RIDGE = Part("a number, 0 or above", lambda value, _: is_number(value, above=0))
COMPARED = {
    "uncoupled_parts_": Part("a model of the same features", _uncoupled, optional=True),
    "held_out_": Part("metrics of blocks and labels", is_measured, optional=True),
}
CHOSEN = {
    "lam_": Part("a number above 0", lambda value, _: is_number(value, above=0)),
    "ridge_": RIDGE,
    "best_score_": Part("a number", lambda value, _: is_number(value, or_nan=True)),
    "metric_": Part("the name of a metric", lambda value, _: value in METRICS),
    "cv_results_": Part("columns of numbers", _columns_of_numbers),
}  # fmt: skip
NETWORKS = {
    "encoders": Part("None, the default ones", lambda value, _: value is None),
    "_default_encoders": Part("True", lambda value, _: value is True),
    "weights_": Part("the finite weights of its layers", _network, by="views"),
    "n_iter_": ITERATED["n_iter_"],
    "best_epoch_": ITERATED["n_iter_"],
    "history_": ITERATED["history_"],
}
ALIGNED = {
    "n_encoded_": Part(
        "a whole number above 0", lambda value, _: is_whole(value) and value, "views"
    ),
    **{
        name: replace(ITERATED[name], optional=True)
        for name in ("n_iter_", "converged_", "objective_", "history_")
    },
}
BLENDED = {name: part for name, part in COMMON.items() if name not in ("features_", "aside_")} | {
    "members": Part("None, or pairs of names and models", _unfitted),
    "members_": Part("fitted models of the same tables, by name", _members),
    "weights_": Part("weights of the members", _member_weights),
    "blends_": Part("calibrations and weights of the members", _blend, by="views"),
}
PARTS = {
    BLEND: BLENDED,
    "naim3l.estimators.naim3l.NAIM3L": COMMON | LINEAR | ITERATED | COMPARED | {"ridge_": RIDGE},
    "naim3l.estimators.naim3l_cv.NAIM3LCV": COMMON | LINEAR | ITERATED | COMPARED | CHOSEN,
    "naim3l.estimators.ridge.PerViewRidge": COMMON | LINEAR,
    "naim3l.estimators.logistic.PerViewLogistic": COMMON | LINEAR,
    "naim3l.deep.deep_naim3l.DeepNAIM3L": COMMON | NETWORKS,
    **dict.fromkeys(ALIGNED_MODELS, COMMON | ALIGNED),
}


def check_state(model: Any, room: int) -> None:
    """Refuse a model with missing or inconsistent parts.

    Parameters
    ----------
    model : one of `naim3l.files.models.MODELS`
    room : int
        Largest number of columns that a table may have.
    """
    require("_networks" not in vars(model), "its networks are not made of its weights.")
    reader: Any = getattr(model, "reader_", None)
    require(isinstance(reader, TableReader), "it lacks reader_.")
    check_reader(reader, room)
    for name, part in PARTS[type_name(model)].items():
        check_attribute(model, name, part)
    if type_name(model) in ALIGNED_MODELS:
        check_learned(model)
    if type_name(model) == BLEND:
        for member in model.members_.values():
            check_state(member, room)
        return
    for view in model.views_:
        _check_features(model, view)


def _check_features(model: Any, view: str) -> None:
    """Refuse a transformer whose output does not match the weights, using a row of zeros.

    Transformers of numbers must accept it. Others may refuse zeros, for example because they
    expect text, but not because a part of them is missing.
    """
    n_columns, own = model.reader_.n_columns(view), model.features_[view]
    taken = getattr(own.transformer, "n_features_in_", n_columns)
    require(taken == n_columns, f"view {view!r}: its transformer is for {taken!r} columns.")
    row, known = _row_of_zeros(model, view)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            features, _ = own.encode(Table(row, f"view {view!r}"))
    except Exception as error:  # a transformer may raise any type
        strict = known and all(map(takes_zeros, steps_of(own.transformer)))
        if strict or _lacks_part(error):
            raise ModelFileError(f"view {view!r}: its transformer fails: {error}") from error
        return
    width = n_inputs(model, view)
    fits = features.shape[1] == width
    require(fits, f"view {view!r}: weights for {width} of {features.shape[1]} features.")


def _row_of_zeros(model: Any, view: str) -> tuple[Any, bool]:
    """A row of zeros for a view, and whether it is a table of the type used in training."""
    row, names = np.zeros((1, model.reader_.n_columns(view))), model.reader_.column_names(view)
    if (encoder := model.features_[view].cell_encoder) is not None:
        return encoder.row_of_zeros(), True
    if names is None or model.features_[view].as_numbers:
        return row, True
    try:
        import pandas as pd
    except ImportError:
        return row, False
    return pd.DataFrame(row, columns=names), True


def _lacks_part(error: BaseException | None) -> bool:
    """Whether an error, or its cause, is a missing attribute of an estimator."""
    while error is not None:
        owner = getattr(error, "obj", None)
        if isinstance(error, AttributeError) and isinstance(owner, BaseEstimator | None):
            return True
        error = error.__cause__ or error.__context__
    return False
