"""Finds tests that change an object which other tests use as well."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator


@contextmanager
def unchanged_shared_objects(item: pytest.Item) -> Iterator[None]:
    """Fail the test if it changes a parameter, or the value of a fixture that outlives it.

    Such a test passes or fails others, depending on the order in which they run.
    """
    before = {name: _state(value) for name, value in _shared(item).items()}
    yield
    after = {name: _state(value) for name, value in _shared(item).items()}
    changed = [name for name in before if before[name] != after[name]]
    if changed:
        pytest.fail(f"changes what other tests use: {', '.join(changed)}; work on a copy.")


def _shared(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    shared = {} if callspec is None else dict(callspec.params)
    for name, definitions in item._fixtureinfo.name2fixturedefs.items():  # type: ignore[attr-defined]
        if definitions[-1].scope != "function" and name in item.funcargs:  # type: ignore[attr-defined]
            shared[name] = item.funcargs[name]  # type: ignore[attr-defined]
    return shared


def _state(value: Any) -> Any:
    """What a test could change: settings and fitted parts of models, cells of tables."""
    if isinstance(value, BaseEstimator):
        return _state(vars(value))
    if isinstance(value, dict):
        return {key: _state(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_state(part) for part in value]
    if isinstance(value, np.ndarray):
        return joblib.hash(value)
    return value.to_csv() if isinstance(value, pd.DataFrame) else None
