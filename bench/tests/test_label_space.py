"""Methods that are compared on tables that share labels."""

from dataclasses import replace

import numpy as np
import pytest

from naim3l.datasets import make_unpaired
from naim3l_bench.label_space import APART, guess, predict
from naim3l_bench.studies import Tables


@pytest.fixture
def tables():
    data = make_unpaired(
        90, n_features=(5, 4), n_labels=4, n_latent=3, missing_labels=0.2, random_state=0
    )
    new = {view: X[:20] for view, X in data.views.items()}
    return Tables(data.views, data.labels, new, {v: Y[:20] for v, Y in data.labels.items()})


def test_only_methods_that_couple_tables_depend_on_the_others(tables):
    first, second = tables.X
    changed = replace(tables, X=tables.X | {second: -tables.X[second][::-1]})
    for name, couples in (("label subspace", True), (f"label subspace{APART}", False)):
        one, other = (predict(name, of, 0)[0][first] for of in (tables, changed))
        assert np.array_equal(one, other) != couples


def test_apart_every_table_has_the_answers_of_a_fit_to_itself(tables):
    found, seconds = predict(f"ridge per table{APART}", tables, 0)
    assert list(found) == list(tables.X) and seconds >= 0
    for view, P in found.items():
        alone, _ = predict("ridge per table", tables.only(view), 0)
        np.testing.assert_array_equal(P, alone[view])


def test_guessing_is_the_frequency_of_the_known_labels(tables):
    for view, P in guess(tables).items():
        known = tables.Y[view][np.isfinite(tables.Y[view][:, 0]), 0]
        assert P.shape == tables.Y_test[view].shape
        assert P[:, 0] == pytest.approx((known.sum() + 1) / (len(known) + 2))
