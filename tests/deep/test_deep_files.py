import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

import naim3l  # noqa: E402
from naim3l.deep import DeepNAIM3L  # noqa: E402
from naim3l.files.models import ModelFileError, inspect_file  # noqa: E402
from naim3l.files.models.state import check_state  # noqa: E402

QUICK = {"max_epochs": 2, "batch_size": 20, "random_state": 0, "device": "cpu"}


@pytest.fixture
def model(apart):
    return DeepNAIM3L(hidden=(7, 5), calibrate=True, **QUICK).fit(*apart)


def test_model_comes_back_as_it_was(model, apart, tmp_path):
    model.save(tmp_path / "m")
    # What the parameters say of later fits does not change the networks that are there.
    loaded = naim3l.load(tmp_path / "m").set_params(hidden=(3,), dropout=0.1)
    for made in ("decision_function", "predict", "predict_proba"):
        for view, values in getattr(model, made)(apart[0]).items():
            np.testing.assert_array_equal(getattr(loaded, made)(apart[0])[view], values)
    assert loaded.history_ == model.history_ and list(loaded.networks_) == model.views_
    told = inspect_file(tmp_path / "m")
    assert told["class"] == "naim3l.deep.deep_naim3l.DeepNAIM3L" and not told["other_types"]
    n_inputs = len(model.transformers_["view0"].transform(apart[0]["view0"])[0])
    assert told["views"]["view0"] == {"columns": 9, "weights": n_inputs}


def test_fit_refits_a_loaded_model_to_the_same_weights(model, apart, tmp_path):
    model.save(tmp_path / "m")
    again = naim3l.load(tmp_path / "m").fit(*apart)
    for view, arrays in model.weights_.items():
        for name, array in arrays.items():
            np.testing.assert_array_equal(again.weights_[view][name], array)


def test_encoders_of_one_s_own_are_refused_with_advice(apart, tmp_path):
    X, Y = apart
    own = {view: torch.nn.Linear(table.shape[1], 3) for view, table in X.items()}
    model = DeepNAIM3L(encoders=own, **QUICK, transformer=None).fit(X, Y)
    with pytest.raises(TypeError, match=r"networks_\[view\].state_dict\(\).*encoders_\[view\]"):
        model.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()
    path = tmp_path / "view0.pt"
    torch.save(model.networks_["view0"].state_dict(), path)
    state = torch.load(path, weights_only=True)
    torch.testing.assert_close(state["encoder.weight"], model.encoders_["view0"].weight.detach())


def test_default_encoders_named_view_by_view_are_saved_as_such(model, apart, tmp_path):
    named = DeepNAIM3L(hidden=np.array([7, 5]), encoders={"view0": None, "view1": None}, **QUICK)
    named.fit(*apart).save(tmp_path / "m")
    loaded = naim3l.load(tmp_path / "m")
    assert loaded.encoders is None
    for view, scores in model.decision_function(apart[0]).items():
        np.testing.assert_array_equal(loaded.decision_function(apart[0])[view], scores)


OF_LAYERS = "weights_ of 'view0' should be the finite weights of its layers"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.weights_.pop("view0"), "weights_ are not those of the views"),
        (lambda m: m.weights_["view0"].pop("head.bias"), OF_LAYERS),
        (lambda m: m.weights_["view0"].update(extra=np.ones(2, np.float32)), OF_LAYERS),
        (lambda m: m.weights_["view0"].update({"head.bias": np.ones(3, np.float32)}), OF_LAYERS),
        (lambda m: m.weights_["view0"]["head.bias"].fill(np.nan), OF_LAYERS),
        (lambda m: m.weights_["view0"]["encoder.scale"].fill(0), OF_LAYERS),
        (lambda m: m._architecture.update(hidden=[7, 10**9]), OF_LAYERS),
        (lambda m: setattr(m, "_networks", {}), "not made of its weights"),
        (lambda m: setattr(m, "encoders", {}), "encoders should be None, the default ones"),
    ],
)
def test_parts_that_do_not_fit_are_refused(model, change, reason):
    model.__setstate__(model.__getstate__())
    del model._networks
    check_state(model, room=100)
    change(model)
    with pytest.raises(ModelFileError, match=reason):
        check_state(model, room=100)


WITHOUT_TORCH = """
import sys

class NotInstalled:
    def find_spec(self, name, *where):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'")

sys.meta_path.insert(0, NotInstalled())
import naim3l
try:
    from naim3l.deep import DeepNAIM3L
except ImportError as error:
    print(error)
try:
    naim3l.load(sys.argv[1])
except naim3l.ModelFileError as error:
    print(error)
"""


def test_without_torch_errors_say_what_to_install(model, tmp_path):
    model.save(tmp_path / "m")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path / "m")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    imported, loaded = done.stdout.splitlines()
    for line in (imported, loaded):
        assert 'pip install "naim3l[torch]"' in line
