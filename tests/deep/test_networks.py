"""Layers, start scores, encoders of the user, and numbers that networks cannot use."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.preprocessing import FunctionTransformer

torch = pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

from torch.nn import BatchNorm1d, Identity, LazyLinear, Linear, Sequential, Unflatten  # noqa: E402

from naim3l import join_views  # noqa: E402
from naim3l.deep import DeepNAIM3L, NAIM3LLoss, Network, Training  # noqa: E402
from naim3l.deep.networks import (  # noqa: E402
    SkipEncoder,
    make_networks,
    prior_scores,
    restore_networks,
    state_arrays,
)

NETWORK, TRAINING = Network((8, 5)), Training(max_epochs=2, batch_size=20)
SHARED = replace(NETWORK, shared_head=True)
QUICK = {"network": NETWORK, "training": TRAINING, "random_state": 0, "device": "cpu"}
AS_GIVEN = QUICK | {"features": None}
# That one column dwarfs the others is warned of, too.
pytestmark = pytest.mark.filterwarnings("ignore::naim3l.DataWarning")


def with_cell(X, value, row=7, column=3):
    """The tables with a number in one cell of the second."""
    table = X["view1"].copy()
    table[row, column] = value
    return X | {"view1": table}


class Applied(torch.nn.Module):
    """A function of rows, another one in training if given."""

    def __init__(self, function, in_training=None):
        super().__init__()
        self.functions = [function, in_training or function]

    def forward(self, rows):
        return self.functions[self.training](rows)


class TestNetwork:
    @pytest.mark.parametrize("hidden", [[4], np.array([4]), range(4, 5), np.array([4], np.uint8)])
    def test_widths_are_any_sequence_of_whole_numbers(self, hidden):
        assert Network(hidden) == Network((4,))

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *(("hidden", h) for h in (8, (0,), (True,), {4}, "4", b"4", (2**25,))),
            *(("hidden", np.array(h)) for h in ([4.0], [[4]], 4)),
            *(("dropout", 1.0), ("noise", -0.1), ("noise", "much"), ("shared_head", "yes")),
        ],
    )
    def test_options_that_cannot_be_used_are_named(self, name, value):
        with pytest.raises(ValueError, match=f"Network: {name}|'{name}' parameter of Network"):
            Network(**{name: value})

    def test_noise_is_for_training_only(self):
        encoder = SkipEncoder(3, Network((4,), 0.0, noise=0.5))
        X = torch.zeros(2000, 3)
        noisy = encoder.train()(X)[:, :3]
        assert noisy.std().item() == pytest.approx(0.5, rel=0.05)
        assert (encoder.eval()(X)[:, :3] == 0).all()

    def test_views_share_an_output_layer_and_have_a_linear_model_each(self, apart):
        X, Y = apart
        model = DeepNAIM3L(0, **QUICK | {"network": SHARED}).fit(X, Y)
        head = model.networks_["view0"].shared_head
        assert head is model.networks_["view1"].shared_head and head.weight.shape == (4, 5)
        for view, network in model.networks_.items():
            rows = torch.from_numpy(model.features_[view].recipe.apply(X[view])).float()
            rows = (rows - network.encoder.centre) / network.encoder.scale
            with torch.no_grad():
                expected = network.head(rows) + head(network.eval().encoder.layers(rows))
            found = model.decision_function(X)[view]
            np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


class TestStart:
    def test_scores_are_log_odds_of_rates_smoothed_by_those_of_all_views(self):
        labels = np.array([[1, 0, -1], [1, 0, -1], [-1, 0, -1]])  # the second is unknown here
        rates = np.array([0.5, 0.1, 0.2])
        positive = np.array([(2 + 2 * 0.5) / (3 + 2), 0.1, (0 + 2 * 0.2) / (3 + 2)])
        odds = positive / (1 - positive)
        for weight, data_term, expected in (
            (1.0, "logistic", np.log(odds)),
            (4.0, "logistic", np.log(4 * odds)),
            (1.0, "squared", 2 * positive - 1),
        ):
            loss = NAIM3LLoss(data_term=data_term, positive_weight=weight)
            start = prior_scores(labels, rates, loss).numpy()
            np.testing.assert_allclose(start, expected, rtol=1e-6)

    def test_labels_held_out_do_not_show(self, apart):
        X, Y = apart
        first = np.eye(60, 1)  # one positive, all else negative
        Y = {view: np.column_stack([first, first, labels]) for view, labels in Y.items()}
        model = DeepNAIM3L(**QUICK)
        problem = model._read_training(X, Y)
        with torch.random.fork_rng():
            start = make_networks(None, dict(zip(X, problem.X, strict=True)), 6, NETWORK)
        labels = [problem.Y, np.where(np.arange(6) == 1, 0, problem.Y)]
        for network in model._trainer(problem, start, labels, seed=0).networks:
            whole, hidden = network.head.bias.tolist()
            assert whole[0] == whole[1] < -2 and hidden[0] == whole[0]
            assert hidden[1] == 0  # of an unknown label one half is positive


class TestArrays:
    def test_networks_come_back_without_random_numbers(self, apart):
        X, _ = apart
        with torch.random.fork_rng():
            networks = make_networks(None, X, 4, SHARED)
        weights = {view: state_arrays(network) for view, network in networks.items()}
        before = torch.get_rng_state()
        again = restore_networks(weights, {}, 4, SHARED)
        assert torch.equal(torch.get_rng_state(), before)
        for view, network in again.items():
            assert network.shared_head is again["view0"].shared_head
            rows = torch.from_numpy(X[view]).float()
            assert torch.equal(network.eval()(rows), networks[view].eval()(rows))
        weights["view1"]["shared_head.weight"][0] += 1
        with pytest.raises(ValueError, match="different weights in some"):
            restore_networks(weights, {}, 4, SHARED)

    @pytest.mark.parametrize(
        "change",
        [
            lambda arrays: arrays.pop("head.bias"),
            lambda arrays: arrays.pop("encoder.centre"),
            lambda arrays: arrays.update(more=np.ones(2, np.float32)),
            lambda arrays: arrays.update({"head.bias": np.ones(3, np.float32)}),
            lambda arrays: arrays.update({"head.bias": np.ones(4)}),
            lambda arrays: arrays["head.bias"].fill(np.nan),
            lambda arrays: arrays["encoder.scale"].fill(0),
        ],
    )
    def test_arrays_of_other_layers_are_refused(self, apart, change):
        with torch.random.fork_rng():
            networks = make_networks(None, apart[0], 4, NETWORK)
        weights = {view: state_arrays(network) for view, network in networks.items()}
        for network in (Network((8,)), Network((8, 6)), Network((8, 2**24)), Network([1] * 99)):
            with pytest.raises(ValueError, match="view 'view0': these are not the finite weights"):
                restore_networks(weights, {}, 4, network)
        change(weights["view1"])
        with pytest.raises(ValueError, match="view 'view1': these are not the finite weights"):
            restore_networks(weights, {}, 4, NETWORK)


class TestNumbers:
    @pytest.mark.parametrize("value", [1e39, -1e60, 1e99])
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, pd.DataFrame])
    def test_beyond_float32_are_refused_by_cell(self, apart, value, form):
        X, Y = apart
        options = {"columns": [f"c{j}" for j in range(8)]} if form is pd.DataFrame else {}
        good, bad = (
            tables | {"view1": form(tables["view1"], **options)}
            for tables in (X, with_cell(X, value))
        )
        column = "column 'c3'" if options else "column 3"
        message = rf"view 'view1', row 7, {column}: {value!r} is too large.*; remove or rescale"
        model = DeepNAIM3L(**AS_GIVEN).fit(good, Y)
        for method in (model.predict, model.decision_function, lambda _: model.fit(bad, Y)):
            with pytest.raises(ValueError, match=message.replace("+", r"\+")):
                method(bad)

    def test_rows_are_those_of_the_table(self, apart):
        X, Y = apart
        lacking = with_cell(X, 1e60)
        lacking["view1"][:3] = np.nan
        wide, views = join_views(lacking)
        with pytest.raises(ValueError, match="view 'view1', row 7, column 12"):
            DeepNAIM3L(views=views, **AS_GIVEN).fit(wide, Y["view0"])
        features = FunctionTransformer(lambda table: table * 1e50)
        with pytest.raises(ValueError, match="view 'view0' after its features, row 0, column 0"):
            DeepNAIM3L(**QUICK, features=features).fit(X, Y)
        with pytest.raises(FloatingPointError, match=r"view 'view1', row .*scale the features"):
            DeepNAIM3L(**AS_GIVEN).fit(X | {"view1": X["view1"] * 1e-60}, Y)

    def test_scores_that_overflow_do_not_pass_for_missing_ones(self, apart):
        X, Y = apart
        model = DeepNAIM3L(**AS_GIVEN).fit(X, Y)
        broken = with_cell(X, 1e37)
        broken["view1"][2:4] = np.nan
        with pytest.raises(
            ValueError, match=r"view 'view1', row 7: its network gives nan .*1e\+37"
        ):
            model.predict(broken)
        scores = model.decision_function({"view1": np.delete(broken["view1"], 7, axis=0)})["view1"]
        np.testing.assert_array_equal(np.isnan(scores).any(axis=1), np.isin(np.arange(59), [2, 3]))

    def test_scores_of_fits_without_some_labels_are_looked_at(self, apart):
        def encode(rows):  # finite on the two rows that are tried first
            return torch.where(torch.arange(len(rows))[:, None] == 5, torch.inf, rows)

        encoders = {"view0": None, "view1": Applied(encode, Identity())}
        with pytest.raises(ValueError, match="view 'view1', row 5 of those that have the view"):
            DeepNAIM3L(encoders=encoders, decide="f1", **AS_GIVEN).fit(*apart)


class TestEncoders:
    def test_modules_of_a_mapping_or_a_function_are_copied_and_trained(self, apart):
        X, Y = apart
        modules = {view: Linear(table.shape[1], 5) for view, table in X.items()}
        before = {view: module.weight.clone() for view, module in modules.items()}
        widths = {view: table.shape[1] for view, table in X.items()}

        def make(view, n_features):
            assert n_features == widths[view]
            return modules[view]

        mapped, made = (
            DeepNAIM3L(encoders=encoders, decide="f1", **AS_GIVEN).fit(X, Y)
            for encoders in (modules, make)
        )
        again = made.weights_, made.fit(X, Y).weights_
        for view, module in modules.items():
            assert torch.equal(module.weight, before[view])
            assert not torch.equal(mapped.networks_[view].encoder.weight, before[view])
            for name, array in mapped.weights_[view].items():
                for weights in again:  # all fits start from the same weights
                    np.testing.assert_array_equal(weights[view][name], array)
            # So do those that decisions are learned on, else they would know the labels held out.
            np.testing.assert_array_equal(made.thresholds_[view], mapped.thresholds_[view])

    def test_batch_norm_gets_no_single_row_and_weights_are_seeded(self, apart):
        def make(view, n_features):
            return Sequential(Linear(n_features, 4), LazyLinear(3), BatchNorm1d(3))

        X, Y = (
            {view: table[: 7 if view == "view1" else 60] for view, table in t.items()}
            for t in apart
        )
        for batch_size in (1, 2, 8, 20):  # up to 30 batches for seven rows
            options = AS_GIVEN | {"training": replace(TRAINING, batch_size=batch_size)}
            model = DeepNAIM3L(encoders=make, **options).fit(X, Y)
            assert model.networks_["view1"].encoder[2].num_batches_tracked >= model.n_iter_
        again = DeepNAIM3L(encoders=make, **options).fit(X, Y).weights_
        for name, array in model.weights_["view0"].items():
            np.testing.assert_array_equal(again["view0"][name], array)
        X, Y = X | {"view1": X["view1"][:1]}, Y | {"view1": np.eye(1, 4)}
        with pytest.raises(ValueError, match=r"view 'view1': its encoder fails .* 1 of its rows"):
            DeepNAIM3L(encoders=make, **AS_GIVEN).fit(X, Y)

    @pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm`")
    @pytest.mark.parametrize(
        ("encoders", "message"),
        [
            ({"view0": Linear(9, 2)}, r"\['view0', 'view1'\] .* one of \['view0'\]"),
            (lambda view, n: "no module", "view 'view0': its encoder must be a torch module"),
            (lambda view, n: Linear(n + 1, 2), "view 'view0': its encoder fails on rows"),
            (lambda view, n: Unflatten(1, (n, 1)), r"view 'view0': .*\(n_rows, n_out"),
            (lambda view, n: torch.nn.utils.weight_norm(Linear(n, 2)), "'view0': .* be copied"),
            (Linear(9, 2), "encoders must be a mapping"),
            ("mlp", "encoders must be a mapping"),
        ],
    )
    def test_unusable_ones_are_refused_by_view(self, apart, encoders, message):
        with pytest.raises((ValueError, TypeError), match=message):
            DeepNAIM3L(encoders=encoders, **AS_GIVEN).fit(*apart)
        if callable(encoders) and "view0" in message:
            with pytest.raises(ValueError, match="shared_head=True needs the default encoders"):
                DeepNAIM3L(encoders=encoders, **AS_GIVEN | {"network": SHARED}).fit(*apart)

    @pytest.mark.parametrize(
        ("function", "in_training", "message"),
        [
            (torch.Tensor.double, None, r"and returns torch.float64 .*\.float\(\)"),
            (lambda x: x * torch.nan, None, "row [0-9]+ of those .* score of nan.* finite numbers"),
            (lambda x: x, lambda x: x @ x, "fails in training on 20 of its rows: mat1"),
            (lambda x: x, lambda x: x[:1], r"on 20 .* as many, the scores are \(1, 4\)"),
            (lambda x: x, lambda x: x * 1e20, "row [0-9]+ of .*; lower learning_rate"),
            (lambda x: x[:2], lambda x: x, r"fails on rows \(60, 8\): it returns 2"),
        ],
    )
    def test_failures_are_named(self, apart, function, in_training, message):
        encoders = {"view0": None, "view1": Applied(function, in_training)}
        with pytest.raises((ValueError, FloatingPointError), match=f"view 'view1'.*{message}"):
            DeepNAIM3L(encoders=encoders, **AS_GIVEN).fit(*apart).predict(apart[0])
