"""Studies of filling in: what is hidden, and what is measured on it."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from naim3l_bench import filling_in
from naim3l_bench.filling_in import METHODS, Filling, Sources, auc_and_ap, make_filling, measure

N_SAMPLES, VIEWS = 300, ("left", "right")
quiet = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def sources(rng):
    """Tables of noise whose first column is the sample; labels 0 and 1 go together, 2 does not."""
    first, other, rare = rng.random((3, N_SAMPLES)) < [[0.4], [0.5], [0.01]]
    changed = rng.random(N_SAMPLES) < 0.05
    Y = np.column_stack([first, first ^ changed, other, rare]).astype(float)
    samples = {view: rng.permutation(N_SAMPLES) for view in VIEWS}
    views = {
        view: np.column_stack([of_rows, rng.normal(size=(N_SAMPLES, 3))])
        for view, of_rows in samples.items()
    }
    return Sources(views, {view: Y[rows] for view, rows in samples.items()}, samples)


def of_sample(filling, values):
    """Values (n_labels,) of each row of all tables, by sample."""
    found = {}
    for view, X in filling.X.items():
        for sample, row in zip(X[:, 0], values[view], strict=True):
            found.setdefault(int(sample), []).append(row)
    return found


class TestMakeFilling:
    @pytest.mark.parametrize("unknown", [0.3, 0.6, 0.9])
    def test_entries_are_hidden_in_every_table(self, sources, unknown):
        filling = make_filling(sources, unknown, 3)
        both = [rows for rows in of_sample(filling, filling.Y).values() if len(rows) == 2]
        assert len(both) > N_SAMPLES / 8
        for first, second in both:
            np.testing.assert_array_equal(first, second)
        share = np.mean([np.isnan(Y).mean() for Y in filling.Y.values()])
        assert share == pytest.approx(unknown, abs=0.06)

    def test_hidden_entries_are_the_true_ones_that_are_not_known(self, sources):
        filling = make_filling(sources, 0.5, 3)
        for view, hidden in filling.hidden.items():
            rows = np.argsort(sources.samples[view])[filling.X[view][:, 0].astype(int)]
            np.testing.assert_array_equal(sources.views[view][rows], filling.X[view])
            filled = np.where(np.isnan(hidden), filling.Y[view], hidden)
            np.testing.assert_array_equal(filled, sources.labels[view][rows])
            assert not (np.isfinite(hidden) & np.isfinite(filling.Y[view])).any()

    @pytest.mark.parametrize("seed", range(5))
    def test_a_yes_and_a_no_stay_known(self, sources, seed):
        filling = make_filling(sources, 0.95, seed)
        known = np.concatenate(list(filling.Y.values()))
        for value in (0, 1):
            truth = np.concatenate([known, *filling.hidden.values()])
            there = (truth == value).any(axis=0)
            assert ((known == value).any(axis=0) == there).all()

    def test_labels_without_a_yes_are_not_measured(self, sources):
        never = {view: np.column_stack([Y, 0 * Y[:, 0]]) for view, Y in sources.labels.items()}
        filling = make_filling(Sources(sources.views, never, sources.samples), 0.5, 3)
        for view in VIEWS:
            assert np.isnan(filling.hidden[view][:, -1]).all()
            assert np.isfinite(filling.hidden[view][:, 0]).any()

    def test_sizes(self, sources):
        for most, expected in ((1000, 150), (60, 60), (40, 40)):
            filling = make_filling(sources, 0.5, 3, most=most)
            assert {len(Y) for Y in filling.Y.values()} == {expected}
            assert len(of_sample(filling, filling.Y)) <= min(2 * most, N_SAMPLES)

    def test_disjoint(self, sources):
        filling = make_filling(sources, 0.5, 3, disjoint=True)
        assert all(len(rows) == 1 for rows in of_sample(filling, filling.Y).values())
        assert sum(len(Y) for Y in filling.Y.values()) == N_SAMPLES

    def test_seeds(self, sources):
        first, same, other = (make_filling(sources, 0.5, seed) for seed in (3, 3, 4))
        np.testing.assert_array_equal(first.Y["left"], same.Y["left"])
        assert not np.array_equal(first.X["left"], other.X["left"])


class TestMeasures:
    @pytest.mark.parametrize("digits", [0, 1, 9])  # with many equal scores, some, none
    def test_rankings_are_those_of_scikit_learn(self, rng, digits):
        for _ in range(10):
            y = np.append(rng.random(30) < 0.3, [True, False]).astype(float)
            scores = rng.random(32).round(digits)
            expected = roc_auc_score(y, scores), average_precision_score(y, scores)
            assert auc_and_ap(y, scores) == pytest.approx(expected)

    def test_are_means_over_tables(self):
        nan = np.nan
        hidden = {"a": np.array([[1.0, nan], [0, nan], [nan, 0]]), "b": np.array([[1.0, 0]])}
        P = {"a": np.array([[0.8, 0.5], [0.4, 0.5], [0.9, 0.7]]), "b": np.array([[0.4, 0.2]])}
        losses = -100 * np.log([0.8, 0.6, 0.3]).mean(), -100 * np.log([0.4, 0.8]).mean()
        expected = {"log-loss": np.mean(losses), "accuracy": 100 * (2 / 3 + 1 / 2) / 2}
        assert measure(hidden, P) == pytest.approx(expected | {"AUC": 100, "AP": 100})


class TestMethods:
    @quiet
    def test_known_labels_help_where_labels_go_together(self, sources):
        found = filling_in.measure_filling(make_filling(sources, 0.3, 3), 0)
        assert found["AUC, base rates"] == 50
        for method in ("with", "own", "labels only"):
            assert found[f"AUC, {method}"] > found["AUC, without"] + 10
            assert found[f"log-loss, {method}"] < 0.9 * found["log-loss, without"]
        assert found["strength"] > 0
        assert found["predicted"] > 5
        assert found["worst table"] < -5
        assert set(METHODS) == {key.split(", ")[1] for key in found if key.startswith("AP")}

    @quiet
    def test_boosting_has_the_known_labels_as_columns(self, sources):
        filling = make_filling(sources, 0.3, 3)
        alone = {view: Y[:, :1] for view, Y in filling.Y.items()}
        hidden = {view: Y[:, :1] for view, Y in filling.hidden.items()}
        P = {view: filling_in._boosted(X, filling.Y[view], 0) for view, X in filling.X.items()}
        of_first = measure(hidden, {view: of[:, :1] for view, of in P.items()})
        assert of_first["AUC"] > 80
        noise = filling_in.measure_boosting(Filling(filling.X, alone, hidden), 0)
        assert noise["AUC, boosting"] < 65
        assert noise["log-loss, boosting"] < 72  # base rates

    @quiet
    def test_tables_of_different_samples(self, sources):
        found = filling_in.measure_disjoint(make_filling(sources, 0.3, 3, disjoint=True), 0)
        assert found["AUC, disjoint"] > found["AUC, without"] + 5
        assert abs(found["log-loss, disjoint"] - found["log-loss, checked alone"]) < 5


def test_genes_with_the_same_labels_are_one_sample(shared_data):
    sources = filling_in.open_sources("yeast_funcat", shared_data)
    assert len(sources.views) == 8
    assert {Y.shape[1] for Y in sources.labels.values()} == {34}
    of_sample = {}
    for view, samples in sources.samples.items():
        for sample, y in zip(samples, sources.labels[view], strict=True):
            np.testing.assert_array_equal(of_sample.setdefault(sample, y), y)
