import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

torch = pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

import naim3l.deep.training  # noqa: E402
from naim3l import NAIM3L, DataWarning, evaluate, join_views  # noqa: E402
from naim3l.deep import DeepNAIM3L  # noqa: E402
from naim3l.deep.networks import ViewNetwork, prior_scores  # noqa: E402
from naim3l.deep.training import Training  # noqa: E402
from naim3l.files.checkpoint import Checkpoint  # noqa: E402

QUICK = {"hidden": (8,), "max_epochs": 3, "batch_size": 20, "random_state": 0, "device": "cpu"}


def assert_same_weights(one, other):
    assert list(one.weights_) == list(other.weights_)
    for view, arrays in one.weights_.items():
        for name, array in arrays.items():
            np.testing.assert_array_equal(other.weights_[view][name], array)


class TestForms:
    def test_tables_apart(self, apart):
        X, Y = apart
        model = DeepNAIM3L(**QUICK).fit(X, Y)
        scores = model.decision_function(X)
        assert {view: S.shape for view, S in scores.items()} == {v: Y[v].shape for v in X}
        for view, labels in model.predict(X).items():
            np.testing.assert_array_equal(labels, scores[view] > 0)
        filled = model.impute_labels(X, Y)
        for view, before in Y.items():
            known = ~np.isnan(before)
            np.testing.assert_array_equal(filled[view][known], before[known])
            np.testing.assert_array_equal(filled[view][~known], (scores[view] > 0)[~known])
        assert 0 < model.score(X, Y) <= 1
        assert [record["objective"] for record in model.history_]
        assert model.n_iter_ == model.best_epoch_ == 3

    @pytest.mark.parametrize("validation", [0.0, 0.3])
    def test_base_rates_are_the_shares_of_positives(self, apart, validation):
        X, Y = apart
        model = DeepNAIM3L(validation=validation, **QUICK).fit(X, Y)
        stacked = np.concatenate(list(Y.values()))
        expected = (np.nansum(stacked, axis=0) + 1) / ((~np.isnan(stacked)).sum(axis=0) + 2)
        np.testing.assert_allclose(model.base_rates_, expected)
        assert "base_rates_" in DeepNAIM3L.__doc__

    def test_one_wide_table(self, apart):
        X, _ = apart
        wide, views = join_views(X)
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
        dense = DeepNAIM3L(transformer=None, **QUICK).fit(X, Y)
        wide = {view: sparse.csr_array(table) for view, table in X.items()}
        thin = DeepNAIM3L(transformer=None, **QUICK).fit(wide, Y)
        for view, S in dense.decision_function(X).items():
            np.testing.assert_allclose(thin.decision_function(wide)[view], S, atol=1e-4)

    def test_signed_labels_and_one_label(self, apart):
        X, Y = apart
        signed = {view: np.nan_to_num(2 * labels - 1) for view, labels in Y.items()}
        model = DeepNAIM3L(label_coding="signed", **QUICK).fit(X, signed)
        assert_same_weights(model, DeepNAIM3L(**QUICK).fit(X, Y))
        assert set(np.unique(model.predict(X)["view1"])) <= {-1, 1}
        one = {view: labels[:, 0] for view, labels in Y.items()}
        model = DeepNAIM3L(validation=0.2, **QUICK).fit(X, one)
        assert all(record["held_out"] > 0 for record in model.history_)


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

    def test_without_hidden_layers_it_approaches_the_linear_model(self, apart):
        X, Y = apart
        linear = NAIM3L(lam=0.1, tol=1e-6, max_iter=1000).fit(X, Y)
        settings = QUICK | {"hidden": (), "max_epochs": 300, "batch_size": 60}
        model = DeepNAIM3L(
            0.1, data_term="squared", weight_decay=0.0, learning_rate=0.1, **settings
        )
        model.fit(X, Y)
        assert model.history_[-1]["objective"] == pytest.approx(linear.objective_, rel=1e-3)

    def test_planted_products_of_signs_are_beyond_the_linear_model(self, xor):
        X, Y = xor(300, seed=0)
        X_test, Y_test = xor(300, seed=1)
        settings = {"transformer": None, "random_state": 0}
        linear = NAIM3L(0.1, **settings).fit(X, Y)
        deep = DeepNAIM3L(0.1, hidden=(32,), dropout=0.0, batch_size=100, max_epochs=40,
                          learning_rate=2e-2, **settings).fit(X, Y)  # fmt: skip
        auc = {}
        for name, model in (("linear", linear), ("deep", deep)):
            scores = model.decision_function(X_test)
            auc[name] = evaluate(Y_test, scores)["macro-AUC"]
        assert auc["linear"] < 0.75 and auc["deep"] > 0.95

    def test_early_stopping_keeps_the_best_epoch(self, apart):
        X, Y = apart
        settings = QUICK | {"max_epochs": 30, "learning_rate": 0.1}
        model = DeepNAIM3L(validation=0.25, patience=4, **settings).fit(X, Y)
        held_out = [record["held_out"] for record in model.history_]
        assert model.best_epoch_ == 1 + int(np.argmin(held_out))
        assert model.n_iter_ == min(30, model.best_epoch_ + 4) == len(held_out)

    def test_decisions_are_learned_on_held_out_entries(self, apart):
        X, Y = apart
        model = DeepNAIM3L(threshold="f1", calibrate=True, **QUICK).fit(X, Y)
        assert set(model.thresholds_) == set(X)
        for chances in model.predict_proba(X).values():
            assert ((chances >= 0) & (chances <= 1)).all()
        assert not hasattr(DeepNAIM3L(**QUICK), "predict_proba")

    def test_interrupt_keeps_what_is_there(self, apart, monkeypatch):
        run_epoch = Training._run_epoch

        def interrupted(self, epoch):
            if epoch == stop_at:
                raise KeyboardInterrupt
            return run_epoch(self, epoch)

        monkeypatch.setattr(Training, "_run_epoch", interrupted)
        stop_at, model = 2, DeepNAIM3L(**QUICK)
        with pytest.raises(KeyboardInterrupt):
            model.fit(*apart)
        assert model.n_iter_ == 2 and model.predict(apart[0])
        stop_at = 0
        with pytest.raises(KeyboardInterrupt):
            model.fit(*apart)
        assert not hasattr(model, "weights_")  # nothing of the earlier fit is left

    def test_checkpoint_resumes_to_the_same_weights(self, apart, tmp_path, monkeypatch):
        path = tmp_path / "fit.checkpoint"
        settings = QUICK | {"checkpoint": path, "validation": 0.2, "calibrate": True}
        whole = DeepNAIM3L(**settings).fit(*apart)
        with monkeypatch.context() as patch:  # a finished fit is not trained again
            patch.setattr(Training, "_run_epoch", None)
            again = DeepNAIM3L(**settings).fit(*apart)
        assert_same_weights(again, whole)
        for view, curve in whole.calibration_.items():
            np.testing.assert_array_equal(again.calibration_[view].slope, curve.slope)
        assert path.exists()
        again.save(tmp_path / "model.skops")
        assert not path.exists()
        monkeypatch.setattr(naim3l.deep.training.Checkpoint, "offer",
                            lambda self, part, make: self.put(part, make()))  # fmt: skip
        run_epoch = Training._run_epoch

        def interrupted(self, epoch):
            if epoch == 2:
                raise KeyboardInterrupt
            return run_epoch(self, epoch)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Training, "_run_epoch", interrupted)
            DeepNAIM3L(**settings).fit(*apart)
        assert path.exists()
        resumed = DeepNAIM3L(**settings).fit(*apart)
        assert_same_weights(resumed, whole)
        assert resumed.history_ == whole.history_
        resumed.save(tmp_path / "model.skops")
        assert not path.exists()
        Checkpoint(path, "another fit").put("training", {"a": np.ones(2)})
        with pytest.raises(ValueError, match="of another fit"):
            DeepNAIM3L(**settings).fit(*apart)
        with pytest.raises(ValueError, match="whole number as random_state"):
            DeepNAIM3L(**settings | {"random_state": None}).fit(*apart)

    def test_checkpoint_belongs_to_its_functions(self, apart, tmp_path):
        X, Y = apart
        linear = {view: torch.nn.Linear(table.shape[1], 5) for view, table in X.items()}

        def key_of(then=torch.nn.Tanh, frozen=False):
            encoders = {v: torch.nn.Sequential(copy.deepcopy(linear[v]), then()) for v in linear}
            for encoder in encoders.values():
                encoder.requires_grad_(not frozen)
            model = DeepNAIM3L(transformer=None, encoders=encoders, **QUICK)
            path = tmp_path / "fit.checkpoint"
            _, key = model.set_params(checkpoint=path).fit(X, Y)._checkpoint
            path.unlink()
            return key

        assert key_of() == key_of()
        # Start weights, data and parameters are the same in all of these.
        others = [key_of(torch.nn.ReLU), key_of(frozen=True)]
        assert len({key_of(), *others}) == 3

    def test_checkpoint_of_the_same_rows_in_other_samples_is_another_one(self, tmp_path):
        rng = np.random.default_rng(0)
        rows, n = rng.normal(size=(2, 10, 3)), 10
        # One label all round: stacked rows and labels are the same whichever rows belong together.
        joined, apart = np.full((n, 6), np.nan), np.full((2 * n, 6), np.nan)
        joined[:, :3], joined[:, 3:] = rows
        apart[:n, :3], apart[n:, 3:] = rows
        views = {"a": slice(0, 3), "b": slice(3, 6)}
        keys = []
        for table in (joined, apart):
            model = DeepNAIM3L(views=views, transformer=None, **QUICK)
            model.set_params(checkpoint=tmp_path / "fit.checkpoint", max_epochs=1)
            with pytest.warns(DataWarning, match="never observed negative"):
                problem = model._read_training(table, np.ones((len(table), 1)))
            model._architecture = {"hidden": [8], "dropout": 0.5}
            training = model._training(problem, problem.Y, seed=0)
            for network in training.networks:  # start weights alone would tell base rates
                network.start_at(torch.zeros(1))
            keys.append(model._open_checkpoint(problem, training).key)
        assert keys[0] != keys[1]


class TestStart:
    def test_scores_are_log_odds_of_rates_smoothed_by_those_of_all_views(self):
        labels = np.array([[1, 0, -1], [1, 0, -1], [-1, 0, -1]])
        rates = np.array([0.5, 0.1, 0.2])
        chances = np.array([(2 + 2 * 0.5) / (3 + 2), 0.1, (0 + 2 * 0.2) / (3 + 2)])
        odds = chances / (1 - chances)
        start = prior_scores(labels, rates, 1.0, "logistic").numpy()
        np.testing.assert_allclose(start, np.log(odds), rtol=1e-6)
        start = prior_scores(labels, rates, 4.0, "logistic").numpy()
        np.testing.assert_allclose(start, np.log(4 * odds), rtol=1e-6)
        start = prior_scores(labels, rates, 1.0, "squared").numpy()
        np.testing.assert_allclose(start, 2 * chances - 1, rtol=1e-6)

    def test_label_unknown_in_a_view_starts_at_its_rate_in_the_others(self, apart, monkeypatch):
        X, Y = apart
        Y = {view: labels.copy() for view, labels in Y.items()}
        Y["view0"][:, 1] = np.nan
        Y["view1"][:, 1] = 0
        Y["view1"][:6, 1] = 1
        starts = []
        monkeypatch.setattr(ViewNetwork, "start_at", lambda self, bias: starts.append(bias))
        DeepNAIM3L(**QUICK).fit(X, Y)
        rate = (6 + 1) / (60 + 2)
        assert float(starts[0][1]) == pytest.approx(np.log(rate / (1 - rate)), rel=1e-5)

    def test_labels_held_out_do_not_show(self, apart):
        X, Y = apart
        first = np.eye(60, 1)  # one positive, all else negative
        Y = {view: np.column_stack([first, first, labels]) for view, labels in Y.items()}
        model = DeepNAIM3L(**QUICK)
        problem = model._read_training(X, Y)
        model._architecture = {"hidden": [8], "dropout": 0.5}
        training = model._training(problem, np.where(np.arange(6) == 1, 0, problem.Y), seed=0)
        for network in training.networks:  # of an unknown label one half is positive
            start = network.head.bias.tolist()
            assert start[1] == 0 and start[0] < -2


class TestEncoders:
    def test_batch_norm_gets_no_single_row(self, apart):
        X, Y = apart
        X, Y = X | {"view1": X["view1"][:7]}, Y | {"view1": Y["view1"][:7]}

        def make(view, n_features):
            return torch.nn.Sequential(torch.nn.Linear(n_features, 3), torch.nn.BatchNorm1d(3))

        for batch_size in (1, 2, 8, 20):  # up to 30 batches for seven rows
            settings = QUICK | {"batch_size": batch_size}
            model = DeepNAIM3L(transformer=None, encoders=make, **settings).fit(X, Y)
            counted = model.networks_["view1"].encoder[1].num_batches_tracked
            assert counted >= model.n_iter_  # it was trained
        X, Y = X | {"view1": X["view1"][:1]}, Y | {"view1": np.eye(1, 4)}
        with pytest.raises(ValueError, match=r"view 'view1': its encoder fails .* 1 of its rows"):
            DeepNAIM3L(transformer=None, encoders=make, **QUICK).fit(X, Y)
        linear = DeepNAIM3L(transformer=None, encoders=lambda view, n: torch.nn.Linear(n, 2))
        assert linear.set_params(**QUICK).fit(X, Y).n_iter_ == 3

    def test_modules_are_copied_and_trained(self, apart):
        X, Y = apart
        encoders = {view: torch.nn.Linear(table.shape[1], 5) for view, table in X.items()}
        before = {view: encoder.weight.clone() for view, encoder in encoders.items()}
        model = DeepNAIM3L(transformer=None, encoders=encoders, **QUICK).fit(X, Y)
        for view, encoder in encoders.items():
            assert torch.equal(encoder.weight, before[view])
            assert not torch.equal(model.encoders_[view].weight, before[view])
            assert model.networks_[view].head.in_features == 5
        again = clone(model).fit(X, Y)
        assert_same_weights(model, again)
        restored = pickle.loads(pickle.dumps(model))
        for view, S in model.decision_function(X).items():
            np.testing.assert_array_equal(restored.decision_function(X)[view], S)

    def test_factory_gets_names_and_widths_and_seeded_numbers(self, apart):
        X, Y = apart
        asked = []

        def make(view, n_features):
            asked.append((view, n_features))
            return torch.nn.Sequential(torch.nn.Linear(n_features, 3), torch.nn.Tanh())

        settings = QUICK | {"transformer": None}
        model = DeepNAIM3L(encoders=make, **settings).fit(X, Y)
        assert asked == [(view, table.shape[1]) for view, table in X.items()]
        assert_same_weights(model, DeepNAIM3L(encoders=make, **settings).fit(X, Y))

    @pytest.mark.parametrize(
        ("encoders", "message"),
        [
            ({"view0": torch.nn.Linear(9, 2)}, r"lacking for views \['view1'\]"),
            (lambda view, n: "no module", "view 'view0': its encoder must be a torch module"),
            (lambda view, n: torch.nn.Linear(n + 1, 2), "view 'view0': its encoder fails on rows"),
            (lambda view, n: torch.nn.Unflatten(1, (n, 1)), r"view 'view0': .*\(n_rows, n_out"),
            (torch.nn.Linear(9, 2), "encoders is one torch module"),
            ("mlp", "encoders must be a mapping"),
        ],
    )  # fmt: skip
    def test_unusable_ones_are_refused_by_view(self, apart, encoders, message):
        with pytest.raises((ValueError, TypeError), match=message):
            DeepNAIM3L(transformer=None, encoders=encoders, **QUICK).fit(*apart)


@pytest.mark.parametrize("hidden", [[4], np.array([4]), range(4, 5), np.array([4], np.uint8)])
def test_widths_are_any_sequence_of_whole_numbers(apart, hidden):
    model = DeepNAIM3L(**QUICK | {"hidden": hidden}).fit(*apart)
    assert_same_weights(model, DeepNAIM3L(**QUICK | {"hidden": (4,)}).fit(*apart))
    assert_same_weights(model, clone(model).fit(*apart))


@pytest.mark.parametrize(
    "wrong",
    [
        {"lam": -1}, {"hidden": 8}, {"hidden": (0,)}, {"dropout": 1.0}, {"validation": 0.6},
        {"max_epochs": 0}, {"batch_size": 1.5}, {"learning_rate": 0}, {"weight_decay": -1},
        {"data_term": "hinge"}, {"device": "toaster"}, {"amp": 1.5}, {"patience": 0},
        {"hidden": np.array([4.0])}, {"hidden": np.array([[4]])}, {"hidden": np.array(4)},
        {"hidden": {4}}, {"hidden": "4"}, {"hidden": b"4"},
        {"positive_weight": 0}, {"verbose": -1}, {"low_rank": False}, {"fusion": "best"},
    ],
    ids=str,
)  # fmt: skip
def test_wrong_parameters_are_named(apart, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        DeepNAIM3L(**QUICK | wrong).fit(*apart)


def test_every_parameter_has_its_place_in_the_schema():
    assert set(DeepNAIM3L().get_params()) <= set(DeepNAIM3L._schema)


def test_tables_are_refused_as_by_the_linear_model(apart):
    X, Y = apart
    broken = X | {"view1": np.where(np.arange(8) == 3, np.inf, X["view1"])}
    with pytest.raises(ValueError, match="view 'view1', row 0"):
        DeepNAIM3L(**QUICK).fit(broken, Y)
    never = {view: np.where(np.arange(4) == 1, 0, labels) for view, labels in Y.items()}
    with pytest.warns(DataWarning, match="never observed positive"):
        model = DeepNAIM3L(**QUICK).fit(X, never)
    assert all(np.isfinite(S).all() for S in model.decision_function(X).values())
