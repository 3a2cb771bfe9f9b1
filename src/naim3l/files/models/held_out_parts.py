"""Checks of the metrics that a model file contains."""

import math
from functools import cache
from typing import Any

import numpy as np

from naim3l._text import plain
from naim3l.decisions.contenders import Answers, Judged, guess
from naim3l.decisions.quality import MEAN, VERDICTS, measure
from naim3l.input.views import FUSED


def is_measured(value: Any, model: Any) -> bool:
    """Whether a value is the result of `naim3l.decisions.quality.measure`, as plain data."""
    if not _has_form(value, _example_of_measured()):
        return False
    blocks = {MEAN, FUSED, *model.views_}
    return all(
        entry["label"] in model.label_names_
        and entry["view"] in blocks
        and entry["verdict"] in VERDICTS
        for entry in value["labels"]
    )


@cache
def _example_of_measured() -> Any:
    """The result for data on which everything is defined, so that no part of it is None."""
    truth = np.eye(2)
    answers = Answers(truth, truth, truth)
    block = Judged("a", "view", truth, answers, guess(np.array([0.5, 0.5]), 2), answers)
    return plain(measure([block], ["x", "y"]))


def _has_form(value: Any, example: Any) -> bool:
    """Whether plain data have the keys and types of an example; any part may be None."""
    if value is None:
        return True
    if isinstance(example, dict):
        fits = type(value) is dict and set(value) == set(example)
        return fits and all(_has_form(value[key], example[key]) for key in example)
    if isinstance(example, list):
        return type(value) is list and all(_has_form(item, example[0]) for item in value)
    if isinstance(example, str):
        return isinstance(value, str)
    return isinstance(value, int | float) and type(value) is not bool and math.isfinite(value)
