"""Labels that tables lose, and what is measured of the answers there."""

import numpy as np
import pytest
from sklearn import metrics

from naim3l.datasets import make_unpaired
from naim3l_bench import absent
from naim3l_bench.absent import Tables, choose_lost, failing, measure_absent, summarise


@pytest.mark.parametrize(
    ("n_tables", "n_labels", "n_lost"), [(2, 6, 1), (2, 14, 3), (3, 3, 1), (4, 12, 2), (8, 34, 7)]
)
def test_each_table_loses_a_fifth_and_every_label_stays(n_tables, n_labels, n_lost):
    for seed in range(5):
        lost = choose_lost(n_tables, n_labels, seed)
        np.testing.assert_array_equal(lost.sum(axis=1), n_lost)
        assert (~lost).sum(axis=0).min() >= (2 if n_tables > 2 else 1)
    assert not np.array_equal(choose_lost(8, 34, 0), choose_lost(8, 34, 1))


def test_only_lost_labels_become_unknown():
    Y = {"a": np.array([[1.0, 0, np.nan], [0, 1, 1]]), "b": np.ones((1, 3))}
    lost = np.array([[True, False, False], [False, False, True]])
    found = absent.lose(Tables({}, Y, {}, {}), lost).Y
    np.testing.assert_array_equal(found["a"], [[np.nan, 0, np.nan], [np.nan, 1, 1]])
    np.testing.assert_array_equal(found["b"], [[1, 1, np.nan]])
    assert Y["b"].all()


def test_measures_are_those_of_scikit_learn(rng):
    y, p = np.arange(60) % 3 == 0, rng.uniform(0.05, 0.95, 60)
    assert absent.auc(y, p) == pytest.approx(100 * metrics.roc_auc_score(y, p))
    assert absent.log_loss(y, p) == pytest.approx(100 * metrics.log_loss(y, p))
    same = absent.log_loss(y, np.full(60, 0.3))
    assert absent.log_loss(y, 0.3) == pytest.approx(same)


@pytest.fixture
def tables():
    """Three tables of 250 samples, with labels that go together, and 400 that are in all."""
    data = make_unpaired(
        1150, n_features=(8, 8, 8), n_labels=6, noise=1.0, aligned=True, random_state=0
    )
    labels, found = data.complete_labels["view0"].astype(float), Tables({}, {}, {}, {})
    for v, (view, table) in enumerate(data.views.items()):
        rows = slice(250 * v, 250 * v + 250)
        found.X[view], found.Y[view] = table[rows], labels[rows].copy()
        found.X_test[view], found.Y_test[view] = table[750:], labels[750:].copy()
    return found


@pytest.mark.filterwarnings(
    "ignore::naim3l.DataWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
)
def test_pairs_are_measured_where_both_values_are_known(tables):
    lost = choose_lost(3, 6, 0)
    first, second, _ = tables.Y
    tables.Y_test[first][:, lost[0]] = 1  # no pair
    tables.Y_test[second][:100] = np.nan
    run = measure_absent(tables, lost, 0)
    assert [pair["view"] for pair in run["pairs"]] == [*tables.Y][1:]
    assert [pair["label"] for pair in run["pairs"]] == [*np.nonzero(lost[1:])[1]]
    assert [pair["n"] for pair in run["pairs"]] == [300, 400]
    of = summarise(run)
    reached, base = (
        sum(pair["n"] * pair[of] for pair in run["pairs"])
        for of in ("log-loss", "log-loss, base rates")
    )
    assert of["gain"] == pytest.approx(100 * (1 - reached / base))
    assert of["AUC"] == pytest.approx(np.mean([pair["AUC"] for pair in run["pairs"]]))
    if run["obstacle"]:
        assert of["AUC"] == 50
        assert of["gain"] == pytest.approx(0, abs=1e-9)


def test_claims_that_fail_are_named():
    fine = {"log-loss": 40.0, "log-loss, base rates": 41.0, "AUC": 60.0, "AUC, recorded": 65.0}
    fine |= {"gain": 2.0, "predicted gain": 2.0}
    assert failing([fine, fine]) == []
    worse = fine | {"log-loss": 42.0}
    assert failing([worse, worse]) == [
        "log-loss - log-loss, base rates = +1.00 (standard error 0.00)"
    ]
    assert "predicted gain - gain" in failing([fine | {"gain": 1.0}] * 2)[0]
