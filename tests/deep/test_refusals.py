"""Numbers that float32 cannot hold, encoders that do not work, devices that are not there."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.preprocessing import FunctionTransformer

torch = pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

from naim3l import join_views  # noqa: E402
from naim3l.deep import DeepNAIM3L  # noqa: E402
from naim3l.deep.network_options import find_device  # noqa: E402
from naim3l.deep.networks import Architecture, make_networks  # noqa: E402

QUICK = {"hidden": (8,), "max_epochs": 2, "batch_size": 20, "random_state": 0, "device": "cpu"}
AS_GIVEN = QUICK | {"transformer": None}
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


class TestNumbers:
    @pytest.mark.parametrize("value", [1e39, -1e60, 1e99])
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, pd.DataFrame])
    def test_beyond_float32_are_refused_by_cell(self, apart, value, form):
        X, Y = apart
        names = [f"c{j}" for j in range(8)]
        broken = with_cell(X, value)
        if form is pd.DataFrame:
            broken["view1"] = pd.DataFrame(broken["view1"], columns=names)
            X = X | {"view1": pd.DataFrame(X["view1"], columns=names)}
        else:
            broken["view1"] = form(broken["view1"])
        column = "column 'c3'" if form is pd.DataFrame else "column 3"
        told = rf"view 'view1', row 7, {column}: {value!r} is too large.*; remove or rescale"
        model = DeepNAIM3L(**AS_GIVEN).fit(X, Y)
        for method in (model.predict, model.decision_function, lambda _: model.fit(broken, Y)):
            with pytest.raises(ValueError, match=told.replace("+", r"\+")):
                method(broken)

    def test_rows_are_those_of_the_table(self, apart):
        X, Y = apart
        lacking = with_cell(X, 1e60)
        lacking["view1"][:3] = np.nan
        with pytest.raises(ValueError, match="view 'view1', row 7, column 3"):
            DeepNAIM3L(**AS_GIVEN).fit(lacking, Y)
        wide, views = join_views(lacking)
        with pytest.raises(ValueError, match="view 'view1', row 7, column 12"):
            DeepNAIM3L(views=views, **AS_GIVEN).fit(wide, Y["view0"])

    def test_of_a_transformer_are_told_as_such(self, apart):
        model = DeepNAIM3L(**QUICK, transformer=FunctionTransformer(lambda table: table * 1e50))
        with pytest.raises(ValueError, match="view 'view0' after its transformer, row 0, column 0"):
            model.fit(*apart)

    def test_too_small_for_float32_are_refused(self, apart):
        X, Y = apart
        with pytest.raises(ValueError, match=r"view 'view1': its values.* too small for float32"):
            DeepNAIM3L(**AS_GIVEN).fit(X | {"view1": X["view1"] * 1e-60}, Y)

    @pytest.mark.parametrize("value", [1e30, 1e37])
    def test_scores_that_overflow_do_not_pass_for_missing_ones(self, apart, value):
        X, Y = apart
        model = DeepNAIM3L(**AS_GIVEN).fit(X, Y)
        broken = with_cell(X, value)
        broken["view1"][2:4] = np.nan
        told = rf"view 'view1', row 7: its network gives nan .*{value:g}".replace("+", r"\+")
        for method in (model.predict, model.decision_function):
            with pytest.raises(ValueError, match=told):
                method(broken)
        scores = model.decision_function({"view1": np.delete(broken["view1"], 7, axis=0)})["view1"]
        np.testing.assert_array_equal(np.isnan(scores).any(axis=1), np.isin(np.arange(59), [2, 3]))

    def test_scores_of_fits_without_some_labels_are_looked_at(self, apart):
        X, Y = apart
        model = DeepNAIM3L(**AS_GIVEN)
        problem = model._read_training(X, Y)
        model._architecture = {"hidden": [8], "dropout": 0.5}
        model.best_epoch_ = 1
        assert np.isfinite(model._scores_of_fit(problem, problem.Y, 0)).all()

        def encode(rows):  # finite on the two rows that are tried first
            return torch.where(torch.arange(len(rows))[:, None] == 5, torch.inf, rows)

        model.set_params(encoders={"view0": None, "view1": Applied(encode, torch.nn.Identity())})
        with pytest.raises(ValueError, match="view 'view1', row 5 of those that have the view"):
            model._scores_of_fit(problem, problem.Y, 0)


class TestEncodersFromFunctions:
    def test_modules_that_are_there_already_are_copied(self, apart):
        X, Y = apart
        modules = {view: torch.nn.Linear(table.shape[1], 5) for view, table in X.items()}
        before = {view: module.weight.clone() for view, module in modules.items()}
        settings = AS_GIVEN | {"threshold": "f1", "calibrate": True}
        model = DeepNAIM3L(encoders=lambda view, n: modules[view], **settings).fit(X, Y)
        for view, module in modules.items():
            assert torch.equal(module.weight, before[view])
            found = model.networks_[view].encoder.weight.detach().numpy()
            np.testing.assert_array_equal(found, model.weights_[view]["encoder.weight"])
            assert not np.array_equal(found, before[view].detach())
        found, mapped = model.weights_, DeepNAIM3L(encoders=modules, **settings).fit(X, Y)
        model.fit(X, Y)
        for view in X:
            for weights in (found, model.weights_):  # all fits start from the same weights
                for name, array in mapped.weights_[view].items():
                    np.testing.assert_array_equal(weights[view][name], array)
            # So do those that decisions are learned on, else they would know the labels held out.
            np.testing.assert_array_equal(model.thresholds_[view], mapped.thresholds_[view])

    def test_new_modules_have_the_weights_that_were_drawn(self, apart):
        X, _ = apart
        drawn = {}

        def make(view, n_features):
            drawn[view] = torch.nn.Sequential(
                torch.nn.Linear(n_features, 3), torch.nn.LazyLinear(2)
            )
            return drawn[view]

        with torch.random.fork_rng():
            torch.manual_seed(0)
            networks = make_networks(make, X, 4, Architecture((), 0.0))
        for view, network in networks.items():
            assert network.encoder is not drawn[view]
            torch.testing.assert_close(network.encoder[0].weight, drawn[view][0].weight)
            assert network.head.in_features == 2

    @pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm`")
    def test_what_cannot_be_copied_is_named(self, apart):
        with pytest.raises(ValueError, match="view 'view0': its encoder cannot be copied"):
            DeepNAIM3L(
                encoders=lambda view, n: torch.nn.utils.weight_norm(torch.nn.Linear(n, 2)),
                **AS_GIVEN,
            ).fit(*apart)


class TestEncodersThatFail:
    @pytest.mark.parametrize(
        ("own", "kind", "message"),
        [
            (Applied(torch.Tensor.double), ValueError, r"returns torch.float64, .*\.float\(\)"),
            (Applied(lambda rows: rows * torch.nan), ValueError,
             "row 0 of those .* its encoder returns nan"),
            (Applied(lambda rows: rows, lambda rows: rows @ rows), ValueError,
             "its encoder fails in training on a batch of 20 of its rows: mat1"),
            (Applied(lambda rows: rows, torch.Tensor.double), ValueError,
             "its encoder fails in training on a batch .*dtype"),
            (Applied(lambda rows: rows, lambda rows: rows[:1]), ValueError,
             r"20 rows give scores of shape \(1, 4\)"),
            (Applied(lambda rows: rows, lambda rows: rows / 0), FloatingPointError,
             "its encoder returns -?inf in epoch 1; it must return finite numbers"),
            (Applied(lambda rows: rows, lambda rows: rows * torch.nan), FloatingPointError,
             "its encoder returns nan in epoch 1; it must return finite numbers"),
        ],
        ids=str,
    )  # fmt: skip
    def test_in_training(self, apart, own, kind, message):
        encoders = {"view0": None, "view1": own}
        with pytest.raises(kind, match=f"view 'view1'.*{message}"):
            DeepNAIM3L(encoders=encoders, **AS_GIVEN).fit(*apart)

    def test_in_prediction(self, apart):
        def few(rows):
            if len(rows) > 2:
                raise RuntimeError("too many")
            return rows

        encoders = {"view0": None, "view1": Applied(few, torch.nn.Identity())}
        model = DeepNAIM3L(encoders=encoders, **AS_GIVEN).fit(*apart)
        with pytest.raises(ValueError, match=r"'view1': its encoder fails on rows \(60, 8\): too"):
            model.predict(apart[0])

    def test_divergence_names_view_and_row(self, apart):
        X, Y = apart
        X = with_cell(X, 1e20)
        encoders = {"view0": None, "view1": torch.nn.Linear(8, 3)}
        told = r"diverged in epoch 1: view 'view1', row 7 of .*a score of .*; lower learning_rate"
        with pytest.raises(FloatingPointError, match=told):
            DeepNAIM3L(encoders=encoders, **AS_GIVEN).fit(X, Y)


@pytest.mark.parametrize("device", ["meta", "mps", "xla", "vulkan", "hpu", "xpu"])
def test_devices_that_are_not_there_are_refused(device):
    kind = getattr(torch, device, None)
    if hasattr(kind, "is_available") and kind.is_available():
        pytest.skip(f"{device} is there")
    with pytest.raises(ValueError, match=f"device='{device}' cannot be used here .*'cpu'"):
        find_device(device)


def test_devices_that_are_there_are_taken():
    assert find_device("cpu") == find_device(torch.device("cpu")) == torch.device("cpu")
    assert find_device("auto").type in ("cpu", "cuda")
