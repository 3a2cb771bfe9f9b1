import numpy as np
import pytest

from naim3l import PerViewRidge
from naim3l.datasets import load_yeast
from naim3l.experiments import yeast_demo as demo
from naim3l.missing import make_challenge


def test_every_method_runs_on_every_seed_and_beats_chance():
    seen, methods = [], demo.demo_methods([(0.4, 1.0)])
    assert list(methods) == list(demo.METHODS)
    records = demo.run_demo([3], methods=methods, on_record=seen.append)
    assert len({record["AP"] for record in records}) == len(records), "methods differ"
    assert seen == records
    assert [record["method"] for record in records] == list(methods)
    for record in records:
        assert record["seed"] == 3
        assert 50 < record["AUC"] < 100 and 50 < record["1-HL"] < 100


def test_every_method_gets_the_challenge_of_the_seed():
    fits = []

    def fit(X, Y, seed):
        fits.append((X, Y, seed))
        return PerViewRidge().fit(X, Y)

    demo.run_demo([3, 5], methods={"first": fit, "second": fit})
    assert [seed for *_, seed in fits] == [3, 3, 5, 5]
    assert demo.BETA == 0.5 and demo.ALPHA > 0.49
    data = load_yeast()
    challenge = make_challenge(data.labels, 2, alpha=demo.ALPHA, beta=demo.BETA, random_state=3)
    expected = challenge.apply(data.views, data.labels)
    for X, Y, _ in fits[:2]:
        for view in data.views:
            np.testing.assert_array_equal(X[view], expected.X_train[view])
            np.testing.assert_array_equal(Y[view], expected.Y_train[view])


def test_summary_is_mean_and_population_deviation():
    records = [
        {"method": "a", "seed": seed, **dict.fromkeys(demo.METRICS, value)}
        for seed, value in ((0, 1.0), (1, 4.0))
    ]
    mean, deviation = demo.summarise(records)["a"]["AP"]
    assert (mean, deviation) == (pytest.approx(2.5), pytest.approx(1.5))
