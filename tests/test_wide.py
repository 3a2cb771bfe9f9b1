"""Views with far more columns than rows: no matrix of pairs of columns, or a plain refusal."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from naim3l import NAIM3L, NAIM3LCV
from naim3l.estimators import PerViewLogistic, PerViewRidge
from naim3l.problem import feature_blocks
from study import run

AS_GIVEN = {"features": None, "random_state": 0}
MODELS = [
    NAIM3L(**AS_GIVEN),
    NAIM3LCV([0.1], [1.0], cv=2, max_iter=5, tol=0, **AS_GIVEN),
    PerViewRidge(**AS_GIVEN),
    PerViewLogistic(**AS_GIVEN),
]


def wide(n_rows=20, n_columns=8000, n_labels=3):
    rng = np.random.default_rng(0)
    X = sparse.random_array((n_rows, n_columns), density=0.01, rng=rng).tocsr()
    Y = (X @ rng.normal(size=(n_columns, n_labels)) > 0).astype(float)
    return {"text": X}, {"text": Y}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_memory_is_that_of_some_copies_of_the_weights(model):
    X, Y = wide()
    tracemalloc.start()
    model = clone(model).fit(X, Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * model.coef_["text"].nbytes  # one matrix of columns would be 2,700 times it
    assert np.mean(model.predict(X, decide="sign")["text"] == Y["text"]) > 0.9


@pytest.mark.parametrize("model", [*MODELS[:3], NAIM3L(solver="paper", **AS_GIVEN)], ids=str)
def test_what_memory_cannot_hold_is_refused_by_view_with_the_cure(model, monkeypatch):
    monkeypatch.setattr(feature_blocks, "physical_memory", lambda: 2**19)
    error = r"view 'text' \(200 rows, 3000 columns\): .*GiB.*Recipe\('scale', n_components"
    with pytest.raises(MemoryError, match=error):
        clone(model).fit(*wide(200, 3000))


def test_the_command_line_refuses_it_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(feature_blocks, "physical_memory", lambda: 1000)
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 3)), columns=list("abc"))
    table.assign(sick=np.arange(30) % 2).to_csv("lab.csv", index=False)
    done = run("fit", "lab=lab.csv", "--labels", "sick", "-o", "m.naim3l")
    assert done.exit_code == 1 and done.stderr.startswith("naim3l: view 'lab' (30 rows, 3 col")


def test_a_system_that_does_not_tell_its_memory_refuses_nothing(monkeypatch):
    monkeypatch.delattr(feature_blocks.os, "sysconf", raising=False)
    assert feature_blocks.physical_memory() is None
    feature_blocks.refuse_beyond("a view", 1e30, "")
