"""Studies of tables about different samples, and what must hold on samples that were set aside."""

import numpy as np
import pytest
from sklearn import metrics

from naim3l.datasets import make_unpaired
from naim3l_bench import studies
from naim3l_bench.studies import CLAIMS, Population, failing, make_study, measure_study


@pytest.fixture(scope="module")
def population():
    """900 samples in three tables, whose first column is the number of the sample."""
    data = make_unpaired(
        900, n_features=(8, 8, 8), n_labels=6, noise=2.0, aligned=True, random_state=0
    )
    numbered = {}
    for view, table in data.views.items():
        numbered[view] = np.column_stack([np.arange(900.0), table])
    return Population(numbered, data.complete_labels["view0"].astype(float))


class TestMakeStudy:
    def test_no_sample_is_in_two_tables_or_in_training_and_test(self, population):
        study = make_study(population, 150, 1.0, 0)
        parts = [table[:, 0] for table in study.X.values()]
        test = next(iter(study.X_test.values()))[:, 0]
        every = np.concatenate([*parts, test])
        assert len(np.unique(every)) == len(every) == 3 * 150 + 270
        for table in study.X_test.values():
            np.testing.assert_array_equal(table[:, 0], test)
        np.testing.assert_array_equal(study.Y_test, population.labels[test.astype(int)])
        for view, rows in zip(study.X, parts, strict=True):
            np.testing.assert_array_equal(study.Y[view], population.labels[rows.astype(int)])

    def test_tables_share_samples_only_where_there_are_too_few(self, population):
        study = make_study(population, 400, 1.0, 0)
        assert {len(table) for table in study.X.values()} == {400}
        test = next(iter(study.X_test.values()))[:, 0]
        assert not np.isin(study.X["view0"][:, 0], test).any()

    @pytest.mark.parametrize("known", [0.05, 0.2, 0.6])
    def test_share_of_known_labels(self, population, known):
        study = make_study(population, 200, known, 1)
        for Y in study.Y.values():
            assert (Y == 1).any()
            assert abs(np.isfinite(Y).mean() - known) < 4 * np.sqrt(known * (1 - known) / Y.size)

    def test_seeds(self, population):
        first, same, other = (make_study(population, 100, 0.5, seed) for seed in (0, 0, 1))
        np.testing.assert_array_equal(first.X["view0"], same.X["view0"])
        assert not np.array_equal(first.X["view0"], other.X["view0"])


class TestMeasures:
    def test_are_those_of_scikit_learn(self, rng):
        truth, P = (rng.random((200, 1)) < 0.3).astype(float), rng.uniform(0.01, 0.99, (200, 1))
        y, p = truth.ravel(), P.ravel()
        assert studies.brier(truth, P) == pytest.approx(100 * metrics.brier_score_loss(y, p))
        assert studies.log_loss(truth, P) == pytest.approx(100 * metrics.log_loss(y, p))
        assert studies.macro_auc(truth, P) == pytest.approx(100 * metrics.roc_auc_score(y, p))
        assert studies.micro_f1(truth, P > 0.5) == pytest.approx(100 * metrics.f1_score(y, p > 0.5))
        right = 100 * metrics.accuracy_score(y, p > 0.5)
        assert studies.accuracy(truth, P > 0.5) == pytest.approx(right)

    def test_unknown_entries_do_not_count(self, rng):
        truth, P = (rng.random((50, 2)) < 0.5).astype(float), rng.uniform(0.01, 0.99, (50, 2))
        hidden = np.where(rng.random(truth.shape) < 0.5, np.nan, truth)
        known = np.isfinite(hidden)
        expected = 100 * np.mean((P - truth)[known] ** 2)
        assert studies.brier(hidden, P) == pytest.approx(expected)

    def test_claims_that_fail_are_named(self):
        fine = {name: 50.0 for claim in CLAIMS for name in claim[:2]}
        assert failing([fine, fine]) == []
        worse = fine | {"Brier": 51.0}
        assert "Brier - Brier, base rates = +1.00" in failing([worse, worse])[0]

    def test_the_best_table_is_that_of_all_runs(self):
        runs = [
            {"AUC, table a": a, "AUC, table b": b}
            for a, b in [(50.0, 61.0), (60.0, 51.0), (60.0, 51.0)]
        ]
        assert [run["AUC, best table"] for run in studies.with_best_table(runs)] == [50, 60, 60]


# Of what fits say about these tables, nothing matters here.
quiet = pytest.mark.filterwarnings(
    "ignore::naim3l.DataWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
)


@quiet
@pytest.mark.parametrize("known", [0.1, 1.0])
def test_answers_on_new_rows_hold(population, known):
    plain = Population({v: t[:, 1:] for v, t in population.views.items()}, population.labels)
    runs = [measure_study(make_study(plain, 120, known, seed), seed) for seed in range(3)]
    assert failing(runs) == []


# A few cells of benchmarks/new_rows.py, with other seeds; those with many labels take minutes.
CELLS = [
    ("nhanes_2017", 100, 0.2),
    ("emotions", 100, 0.05),
    ("emotions", 100, 0.2),
    ("yeast", 100, 0.05),
    ("yeast", 100, 1.0),
]


@quiet
@pytest.mark.parametrize(("name", "n_rows", "known"), CELLS)
def test_answers_on_new_rows_of_real_studies_hold(shared_data, name, n_rows, known):
    real = studies.open_population(name, shared_data)
    runs = [measure_study(make_study(real, n_rows, known, seed), seed) for seed in (20, 21, 22)]
    assert failing(runs) == []
