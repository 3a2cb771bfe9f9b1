import copy
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

torch = pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

from naim3l import NAIM3L, Kernel, join_views  # noqa: E402
from naim3l.deep import DeepNAIM3L, Network, Training, training  # noqa: E402
from naim3l.deep.training import Trainer  # noqa: E402
from naim3l.files.checkpoint import Checkpoint  # noqa: E402
from test_sklearn_checks import OfAnyTarget, run_checks  # noqa: E402

TRAINING = Training(max_epochs=3, batch_size=20)
QUICK = {"network": Network((8,)), "training": TRAINING, "random_state": 0, "device": "cpu"}


def assert_same_weights(one, other):
    assert list(one.weights_) == list(other.weights_)
    for view, arrays in one.weights_.items():
        for name, array in arrays.items():
            np.testing.assert_array_equal(other.weights_[view][name], array)


def interrupted(run_epoch, stop_at):
    def run(self, epoch, judge):
        if epoch == stop_at:
            raise KeyboardInterrupt
        return run_epoch(self, epoch, judge)

    return run


class TestForms:
    def test_separate_tables(self, apart):
        X, Y = apart
        model = DeepNAIM3L(**QUICK).fit(X, Y)
        scores = model.decision_function(X)
        filled = model.impute_labels(X, Y)
        for view, labels in model.predict(X).items():
            np.testing.assert_array_equal(labels, scores[view] > 0)
            expected = np.where(np.isnan(Y[view]), labels, Y[view])
            np.testing.assert_array_equal(filled[view], expected)
        assert 0 < model.score(X, Y) <= 1
        assert model.n_iter_ == model.best_epoch_ == len(model.history_) == 3

    def test_one_wide_table(self, apart):
        wide, views = join_views(apart[0])
        labels = pd.DataFrame({"a": wide[:, 0] > 0, "b": wide[:, -1] > 0}).astype(float)
        wide[:5, views["view1"]] = np.nan
        model = DeepNAIM3L(views=views, **QUICK).fit(wide, labels)
        fused = model.decision_function(wide)
        assert fused.shape == (60, 2) and np.isfinite(fused).all()
        model.set_output(transform="pandas")
        assert list(model.predict(wide).columns) == ["a", "b"]
        assert np.isfinite(cross_val_score(clone(model), wide, labels, cv=2)).all()

    def test_sparse_rows_are_the_dense_ones(self, apart):
        X, Y = apart
        X = {view: np.where(np.abs(table) > 1, table, 0) for view, table in X.items()}
        thin = {view: sparse.csr_array(table) for view, table in X.items()}
        dense, model = (DeepNAIM3L(features=None, **QUICK).fit(tables, Y) for tables in (X, thin))
        for view, S in dense.decision_function(X).items():
            np.testing.assert_allclose(model.decision_function(thin)[view], S, atol=1e-4)

    def test_features_and_labels_are_those_of_the_linear_model(self, apart):
        X, Y = apart
        features = {"view0": Kernel("rbf", n_landmarks=20), "view1": "auto"}
        words = {v: np.where(np.isnan(y), "?", np.where(y, "yes", "no")) for v, y in Y.items()}
        model = DeepNAIM3L(features=features, **QUICK).fit(X, words)
        assert model.networks_["view0"].encoder.centre.shape == (20,)
        assert len(model.columns_["view1"]) == 8
        assert_same_weights(model, DeepNAIM3L(features=features, **QUICK).fit(X, Y))
        broken = X | {"view1": np.where(np.arange(8) == 3, np.inf, X["view1"])}
        with pytest.raises(ValueError, match="view 'view1', row 0"):
            DeepNAIM3L(**QUICK).fit(broken, Y)


class TestFit:
    def test_whole_number_as_random_state_reproduces(self, apart):
        before = torch.get_rng_state()
        model = DeepNAIM3L(**QUICK).fit(*apart)
        assert torch.equal(torch.get_rng_state(), before)
        torch.rand(3)
        assert_same_weights(model, DeepNAIM3L(**QUICK).fit(*apart))
        other = DeepNAIM3L(**QUICK | {"random_state": 1}).fit(*apart)
        with pytest.raises(AssertionError):
            assert_same_weights(model, other)

    @pytest.mark.parametrize("own", [False, True])
    def test_copies_of_models_predict_alike(self, apart, own):
        X, Y = apart
        encoders = {view: torch.nn.Linear(table.shape[1], 5) for view, table in X.items()}
        model = DeepNAIM3L(features=None, encoders=encoders if own else None, **QUICK).fit(X, Y)
        assert_same_weights(model, clone(model).fit(X, Y))
        for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            for view, S in model.decision_function(X).items():
                np.testing.assert_array_equal(copied.decision_function(X)[view], S)

    def test_without_hidden_layers_it_approaches_the_linear_model(self, apart):
        linear = NAIM3L(lam=0.1, features="scale", tol=1e-6, max_iter=1000).fit(*apart)
        training = Training(300, batch_size=60, weight_decay=0.0, learning_rate=0.1)
        options = QUICK | {"network": Network(()), "training": training}
        model = DeepNAIM3L(0.1, data_term="squared", **options).fit(*apart)
        assert model.history_[-1]["objective"] == pytest.approx(linear.objective_, rel=1e-3)

    def test_early_stopping_keeps_the_best_epoch(self, apart):
        training = Training(30, batch_size=20, learning_rate=0.1, validation=0.25, patience=4)
        model = DeepNAIM3L(**QUICK | {"training": training}).fit(*apart)
        held_out = [record["held_out"] for record in model.history_]
        assert model.best_epoch_ == 1 + int(np.argmin(held_out))
        assert model.n_iter_ == min(30, model.best_epoch_ + 4) == len(held_out)
        stacked = np.concatenate(list(apart[1].values()))  # with entries that were held out
        rates = (np.nansum(stacked, axis=0) + 1) / ((~np.isnan(stacked)).sum(axis=0) + 2)
        np.testing.assert_allclose(model.base_rates_, rates)

    def test_decisions_are_learned_on_held_out_entries(self, apart):
        model = DeepNAIM3L(decide="f1", **QUICK).fit(*apart)
        assert set(model.thresholds_) == set(apart[0])
        for probabilities in model.predict_proba(apart[0]).values():
            assert ((probabilities >= 0) & (probabilities <= 1)).all()
        assert not hasattr(DeepNAIM3L(**QUICK), "predict_proba")

    @pytest.mark.parametrize("validation", [0.0, 0.25])
    def test_networks_are_the_same_if_memory_holds_few_at_a_time(
        self, apart, monkeypatch, validation
    ):
        options = QUICK | {"training": replace(TRAINING, validation=validation), "decide": "f1"}
        found = []
        for n_bytes in (training.CPU_BYTES, 3e5, 0):  # for six, some, and one at a time
            monkeypatch.setattr(training, "CPU_BYTES", n_bytes)
            found.append(DeepNAIM3L(**options).fit(*apart))
        for model in found[1:]:
            assert model.best_epoch_ == found[0].best_epoch_
            for method in ("decision_function", "predict_proba"):
                expected = getattr(found[0], method)(apart[0])
                for view, values in getattr(model, method)(apart[0]).items():
                    np.testing.assert_allclose(values, expected[view], atol=1e-3)

    def test_known_labels_tell_about_others(self, rng):
        X = rng.normal(size=(300, 4))
        scores = X[:, :1] + 1.5 * rng.normal(size=(300, 1)) + 0.7 * rng.normal(size=(300, 4))
        truth = (scores > 0).astype(float)
        hidden = rng.random(truth.shape) < 0.4
        Y = {"a": np.where(hidden, np.nan, truth)}
        model = DeepNAIM3L(decide="guarded", **QUICK).fit({"a": X}, Y)
        alone, given = (model.predict_proba({"a": X}, known)["a"] for known in (None, Y))
        right = [((P > 0.5) == truth)[hidden].mean() for P in (alone, given)]
        assert right[1] > right[0] + 0.05

    def test_interrupt_keeps_what_is_there(self, apart, monkeypatch):
        model, run_epoch = DeepNAIM3L(**QUICK), Trainer._run_epoch
        for stop_at in (2, 0):
            monkeypatch.setattr(Trainer, "_run_epoch", interrupted(run_epoch, stop_at))
            with pytest.raises(KeyboardInterrupt):
                model.fit(*apart)
            if stop_at:
                assert model.n_iter_ == 2 and model.predict(apart[0])
        assert not hasattr(model, "weights_")  # nothing of the earlier fit is left


class TestCheckpoint:
    @pytest.mark.parametrize("network", [Network((8,)), Network((8,), noise=0.2, shared_head=True)])
    def test_resumed_fit_ends_at_the_same_weights(self, apart, tmp_path, monkeypatch, network):
        path, training = tmp_path / "fit.checkpoint", replace(TRAINING, validation=0.2)
        options = QUICK | {"training": training, "network": network, "decide": "f1"}
        whole = DeepNAIM3L(**options).fit(*apart, checkpoint=path)
        with monkeypatch.context() as patch:  # a finished fit is not trained again
            patch.setattr(Trainer, "_run_epoch", None)
            again = DeepNAIM3L(**options).fit(*apart, checkpoint=path)
        assert_same_weights(again, whole)
        for view, thresholds in whole.thresholds_.items():
            np.testing.assert_array_equal(again.thresholds_[view], thresholds)
        again.save(tmp_path / "model.naim3l")
        assert not path.exists()
        monkeypatch.setattr(Checkpoint, "offer", lambda self, name, make: self.put(name, make()))
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Trainer, "_run_epoch", interrupted(Trainer._run_epoch, 2))
            DeepNAIM3L(**options).fit(*apart, checkpoint=path)
        resumed = DeepNAIM3L(**options).fit(*apart, checkpoint=path)
        assert_same_weights(resumed, whole)
        assert resumed.history_ == whole.history_

    def test_that_of_another_fit_is_refused(self, apart, tmp_path):
        X, Y = apart
        path = tmp_path / "fit.checkpoint"
        modules = {view: torch.nn.Linear(table.shape[1], 5) for view, table in X.items()}

        def encoders(then=torch.nn.Tanh, frozen=False):
            layers = {v: torch.nn.Sequential(copy.deepcopy(modules[v]), then()) for v in modules}
            return {view: layer.requires_grad_(not frozen) for view, layer in layers.items()}

        options = QUICK | {"features": None, "encoders": encoders()}
        DeepNAIM3L(**options).fit(X, Y, checkpoint=path)
        DeepNAIM3L(**options | {"encoders": encoders()}).fit(X, Y, checkpoint=path)
        for other in (
            {"lam": 0.2},
            {"training": replace(TRAINING, weight_decay=0.1)},
            # Start weights and parameters are the same in these.
            {"encoders": encoders(torch.nn.ReLU)},
            {"encoders": encoders(frozen=True)},
        ):
            with pytest.raises(ValueError, match="of another fit"):
                DeepNAIM3L(**options | other).fit(X, Y, checkpoint=path)
        with pytest.raises(ValueError, match="whole number as random_state"):
            DeepNAIM3L(**options | {"random_state": None}).fit(X, Y, checkpoint=path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("lam", -1), ("variant", "II"), ("data_term", "hinge"), ("network", (8,))),
        *(("training", 3), ("device", "toaster"), ("positive_weight", 0), ("verbose", -1)),
    ],
)
def test_wrong_parameters_are_named(apart, name, value):
    with pytest.raises(ValueError, match=name):
        DeepNAIM3L(**QUICK | {name: value}).fit(*apart)


class DeepOfAnyTarget(OfAnyTarget, DeepNAIM3L):
    pass


def test_all_checks_of_scikit_learn_pass_on_binary_targets():
    model = DeepOfAnyTarget(network=Network((4,)), training=Training(2), device="cpu")
    results = run_checks(model, {})
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert not failed
    assert skipped <= {"check_array_api_input"}  # needs SciPy's experimental array API switch
    assert sum(r["status"] == "passed" for r in results) >= 35
