from functools import partial

import numpy as np
import pytest

from naim3l import NAIM3L, PerViewRidge, estimators, evaluate
from naim3l.estimators import FusedRidge
from naim3l.extend import AlignedModel
from naim3l.metrics import average_precision
from naim3l_bench import rivals
from naim3l_bench.fits import run_method
from naim3l_bench.rivals import GUESSING, RIVALS, Rival, choose_and_fit, method_name
from naim3l_bench.tasks import BUDGET, Grids
from naim3l_bench.trials import WideTrial, draw_challenge, make_trial


def make(source, aligned=False):
    settings = {"alpha": 0.3, "beta": 0.3, "aligned": aligned, "seed": 0}
    return make_trial(source, draw_challenge(source, settings), features="train", seed=0)


@pytest.fixture
def trial(source):
    return make(source)


def run(trial, name, *candidates):
    return run_method(trial, method_name(name), {"candidates": list(candidates)}, 0)


def test_every_model_that_needs_aligned_rows_is_compared():
    exported = [getattr(estimators, name) for name in estimators.__all__]
    classes = {model for model in exported if isinstance(model, type)}
    compared = {rival.model for rival in RIVALS.values()}
    assert {model for model in classes if issubclass(model, AlignedModel)} <= compared
    assert all(rival.aligned for rival in RIVALS.values() if issubclass(rival.model, AlignedModel))


def test_every_method_has_a_grid_within_the_budget():
    grids = Grids().rivals
    assert grids.keys() == RIVALS.keys()
    for name, grid in grids.items():
        assert 1 < np.prod([len(values) for values in grid.values()]) <= BUDGET
        model = RIVALS[name].model()
        for parameter, values in grid.items():
            default = getattr(model, parameter)
            assert default == "auto" or min(values) <= default <= max(values), (name, parameter)


class TestChoice:
    def test_is_the_candidate_that_ranks_hidden_entries_best(self, trial):
        """From its definition: fits without the hidden entries, measured on them."""
        fits, candidates = [], [{"ridge": 1e9}, {"ridge": 1.0}, {"ridge": 1e-9}]

        class Watched(PerViewRidge):
            def fit(self, X, y=None):
                fits.append((self.ridge, y))
                return super().fit(X, y)

        model, numbers = choose_and_fit(Rival(Watched), candidates, trial.X_train, trial.Y_train, 0)
        precision = []
        for ridge, kept in fits[:-1]:
            scores = PerViewRidge(ridge, features=None).fit(trial.X_train, kept)
            found = scores.decision_function(trial.X_train)
            hidden = {v: np.where(np.isnan(kept[v]), Y, np.nan) for v, Y in trial.Y_train.items()}
            precision.append(np.mean([evaluate(hidden[v], found[v])["AP"] for v in hidden]))
        np.testing.assert_allclose(numbers["held_out"], precision)
        best = int(np.argmax(precision))
        assert numbers["chosen"] == candidates[best] and model.ridge == candidates[best]["ridge"]
        assert fits[-1][1] is trial.Y_train  # the final fit has all entries

    @pytest.mark.parametrize("name", ["PerViewRidge", "FusedRidge"])
    def test_sees_training_rows_only_and_the_same_ones_for_all(self, name, trial, monkeypatch):
        seen, wide = [], WideTrial.of(trial)
        real = rivals.compare_on_held_out

        def watched(models, X, Y, **options):
            seen.append((X, Y, options))
            return real(models, X, Y, **options)

        monkeypatch.setattr(rivals, "compare_on_held_out", watched)
        record = run(trial, name, {"ridge": 1.0}, {"ridge": 10.0})
        [(X, Y, options)] = seen
        if RIVALS[name].aligned:
            np.testing.assert_array_equal(X, wide.X_train)
            np.testing.assert_array_equal(Y, wide.Y_train)
        else:
            assert X is trial.X_train and Y is trial.Y_train
        assert options == {"share": rivals.SHARE, "metric": "AP", "random_state": 0}
        assert len(record["numbers"]["held_out"]) == 2

    def test_single_candidate_needs_no_choice(self, trial):
        numbers = run(trial, "FusedRidge", {"ridge": 2.0})["numbers"]
        assert numbers["chosen"] == {"ridge": 2.0} and numbers["held_out"] == []

    def test_skips_candidates_that_diverge(self, trial):
        class Diverging(FusedRidge):
            def fit(self, X, y=None):
                if self.ridge == 7.0:
                    raise FloatingPointError("unbounded")
                return super().fit(X, y)

        wide = WideTrial.of(trial)
        choose = partial(choose_and_fit, Rival(Diverging), X=wide.X_train, Y=wide.Y_train, seed=0,
                         views=wide.views)  # fmt: skip
        model, numbers = choose([{"ridge": 7.0}, {"ridge": 1.0}])
        assert model.ridge == 1.0 and np.isnan(numbers["held_out"][0])
        with pytest.raises(ValueError, match="no candidate could be fitted"):
            choose([{"ridge": 7.0}, {"ridge": 7.0}])


class TestWideForm:
    def test_of_rows_in_any_order_is_that_of_aligned_rows(self, source, trial):
        shuffled, aligned = WideTrial.of(trial), WideTrial.of(make(source, aligned=True))
        for name in ("X_train", "X_test", "X_shown", "Y_train"):
            found, expected = getattr(shuffled, name), getattr(aligned, name)
            np.testing.assert_allclose(found, expected, atol=1e-10, err_msg=name)

    def test_has_every_row_of_the_trial_and_no_other(self, trial):
        wide = WideTrial.of(trial)
        for view, columns in wide.views.items():
            for X, rows, table in (
                (trial.X_train, trial.train_rows, wide.X_train),
                (trial.X_test, trial.test_rows, wide.X_test),
            ):
                np.testing.assert_array_equal(table[rows[view], columns], X[view])
                others = np.setdiff1d(np.arange(len(table)), rows[view])
                assert np.isnan(table[others, columns]).all()
            np.testing.assert_array_equal(wide.Y_train[trial.train_rows[view]], trial.Y_train[view])
        shown = [~np.isnan(wide.X_shown[:, at]).any(axis=1) for at in wide.views.values()]
        np.testing.assert_array_equal(np.transpose(shown), trial.shown)


class TestRecord:
    def test_of_a_method_per_view(self, trial):
        record = run(trial, "NAIM3L", {"lam": 0.4, "ridge": 0.0})
        model = NAIM3L(0.4, ridge=0.0, features=None, random_state=0)
        scores = model.fit(trial.X_train, trial.Y_train).decision_function(trial.X_test)
        truth = {view: trial.truth[rows] for view, rows in trial.test_rows.items()}
        assert record["metrics"]["per view"] == pytest.approx(evaluate(truth, scores))
        total = np.zeros(trial.truth.shape)
        for view, rows in trial.test_rows.items():
            total[rows] += scores[view] / len(scores)
        assert record["metrics"]["all views"] == pytest.approx(evaluate(trial.truth, total))
        table2 = run_method(trial, "NAIM3L", {"lam": 0.4}, 0)
        assert table2["metrics"]["per view"] == record["metrics"]["per view"]

    def test_of_a_method_with_aligned_rows(self, trial):
        record, wide = run(trial, "FusedRidge", {"ridge": 3.0}), WideTrial.of(trial)
        model = FusedRidge(3.0, views=wide.views, features=None)
        model.fit(wide.X_train, wide.Y_train)
        expected = evaluate(trial.truth, model.decision_function(wide.X_test))
        assert record["metrics"]["all views"] == pytest.approx(expected)
        assert "macro-AUC" in record["metrics"]["all views"]
        assert "per view" not in record["metrics"]
        hidden = evaluate(trial.truth, model.decision_function(wide.X_shown), protocol="fused")
        assert record["metrics"]["fused"] == pytest.approx(hidden)
        assert record["numbers"]["converged"]

    def test_evidence_is_fused_in_the_final_fit_alone(self, trial):
        candidates = [{"lam": 0.4, "ridge": 1.0}, {"lam": 0.1, "ridge": 1.0}]
        mean, evidence = (
            run(trial, name, *candidates) for name in ("NAIM3L-aligned", "NAIM3L-evidence")
        )
        assert mean["numbers"]["held_out"] == evidence["numbers"]["held_out"]
        assert mean["metrics"] != evidence["metrics"]

    def test_of_a_failure_names_the_method(self, trial, monkeypatch):
        def fail(*_):
            raise MemoryError("too many rows")

        monkeypatch.setattr(FusedRidge, "fit", fail)
        assert run(trial, "FusedRidge", {"ridge": 1.0}) == {
            "impossible": "FusedRidge: too many rows"
        }

    def test_tells_fits_that_did_not_converge(self, trial):
        record = run(trial, "GLOCAL", {"max_iter": 1, "tol": 1e-12})
        assert record["numbers"]["converged"] is False and record["numbers"]["n_iter"] == 1


def test_guessing_is_the_more_frequent_value_and_the_base_rates(trial):
    metrics = run_method(trial, method_name(GUESSING), {}, 0)["metrics"]["per view"]
    right, precision = [], []
    for view, rows in trial.test_rows.items():
        known = trial.Y_train[view]
        n_yes, n_no = (known == 1).sum(axis=0), (known == 0).sum(axis=0)
        truth = trial.truth[rows]
        right.append(((n_yes > n_no) == truth).mean())
        rates = np.broadcast_to((n_yes + 1) / (n_yes + n_no + 2), truth.shape)
        precision.append(average_precision(truth, rates))
    assert metrics["1-HL"] == pytest.approx(np.mean(right))
    assert metrics["AP"] == pytest.approx(np.mean(precision))
    assert metrics["macro-AUC"] == 0.5
