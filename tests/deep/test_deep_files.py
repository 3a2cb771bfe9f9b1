import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

from torch.nn import BatchNorm1d, Linear, Sequential  # noqa: E402

import naim3l  # noqa: E402
from naim3l.deep import DeepNAIM3L, Network, Training  # noqa: E402
from naim3l.estimators import BlendNAIM3L, PerViewRidge  # noqa: E402
from naim3l.files.stored import dump  # noqa: E402

NETWORK = Network((7, 5))
QUICK = {"training": Training(2, batch_size=20), "random_state": 0, "device": "cpu"}


def own_encoders():
    """The same layers each time, with other weights."""
    return {"view0": Sequential(Linear(9, 3), BatchNorm1d(3)), "view1": None}


@pytest.fixture
def model(apart):
    return DeepNAIM3L(network=NETWORK, **QUICK).fit(*apart)


@pytest.fixture
def own(apart):
    return DeepNAIM3L(features=None, encoders=own_encoders(), **QUICK).fit(*apart)


def assert_same_answers(one, other, X, method="decision_function"):
    for view, values in getattr(one, method)(X).items():
        np.testing.assert_array_equal(getattr(other, method)(X)[view], values)


@pytest.mark.parametrize("shared_head", [False, True])
def test_model_comes_back_as_it_was(apart, tmp_path, shared_head):
    network = replace(NETWORK, shared_head=shared_head, noise=0.1)
    options = QUICK | {"device": torch.device("cpu"), "network": network}
    model = DeepNAIM3L(decide="f1", **options).fit(*apart)
    model.save(tmp_path / "m")
    # What the parameters say of later fits does not change the networks that are there.
    loaded = naim3l.load(tmp_path / "m").set_params(network=Network((3,)))
    for method in ("decision_function", "predict", "predict_proba"):
        assert_same_answers(loaded, model, apart[0], method)
    assert loaded.history_ == model.history_ and loaded.training == model.training
    loaded.save(tmp_path / "again")
    again = naim3l.load(tmp_path / "again")
    assert again.network == Network((3,)) and again.network_ == network
    assert_same_answers(again.set_params(network=network).fit(*apart), model, apart[0])


def test_own_encoders_are_given_to_load(own, apart, tmp_path):
    own.save(tmp_path / "m")
    assert naim3l.inspect_file(tmp_path / "m")["guests"] == []
    loaded = naim3l.load(tmp_path / "m", encoders=own_encoders())
    assert_same_answers(loaded, own, apart[0])
    loaded.save(tmp_path / "again")
    again = naim3l.load(tmp_path / "again", encoders={"view0": own_encoders()["view0"]})
    assert_same_answers(again, own, apart[0])
    assert again.fit(*apart).own_encoders_ == ["view0"]


@pytest.mark.parametrize(
    ("encoders", "reason"),
    [
        (None, r"own encoders of the views \['view0'\], and encoders= has \[\]\. A file does not"),
        ({"view1": Linear(8, 3)}, r"of the views \['view0'\], and encoders= has \['view1"),
        ({"view0": Linear(9, 3)}, "view 'view0': its encoder is not that of the fit: .*key"),
        ({"view0": Sequential(Linear(9, 4), BatchNorm1d(4))}, "that of the fit: .*size mismatch"),
        ({"view0": Sequential(Linear(9, 3), BatchNorm1d(3)).double()}, "float64, and was float32"),
    ],
)
def test_other_encoders_are_refused_with_advice(own, tmp_path, encoders, reason):
    own.save(tmp_path / "m")
    with pytest.raises(naim3l.ModelFileError, match=f"m: .*(?s:{reason})"):
        naim3l.load(tmp_path / "m", encoders=encoders)


def test_encoders_of_models_without_any_are_refused(model, own, apart, tmp_path):
    for name, saved in (("m", model), ("own", own), ("linear", PerViewRidge().fit(*apart))):
        saved.save(tmp_path / name)
    for name, encoders, kind, message in (
        ("m", own_encoders(), naim3l.ModelFileError, r"views \[\], and encoders= has \['view0'\]"),
        ("linear", own_encoders(), naim3l.ModelFileError, "PerViewRidge, which has no encoders"),
        ("m", Linear(2, 3), TypeError, "encoders must be a mapping"),
        ("own", {"view0": "mlp"}, TypeError, "view 'view0': its encoder must be a torch module"),
    ):
        with pytest.raises(kind, match=message):
            naim3l.load(tmp_path / name, encoders=encoders)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.weights_.pop("view0"), "weights_ should be a mapping of the views"),
        (lambda m: m.weights_["view0"].pop("head.bias"), "not the finite weights of its layers"),
        (lambda m: setattr(m, "network_", Network((7, 4))), "not the finite weights of its layers"),
        (lambda m: m.own_encoders_.append("view2"), "own encoders of .*view2"),
        (lambda m: m.features_.update(view0=m.features_["view1"]), "'view0' .*=9, and has 8"),
        (lambda m: delattr(m, "network_"), "network_ is missing"),
    ],
)
def test_parts_that_do_not_fit_are_refused(model, change, reason):
    change(model)
    with pytest.raises(ValueError, match=f"cannot be saved: .*{reason}"):
        dump(model, DeepNAIM3L)


@pytest.mark.parametrize("own", [False, True])
def test_blend_with_networks_comes_back(apart, tmp_path, own):
    encoders = own_encoders() if own else None
    network = DeepNAIM3L(0, encoders=encoders, features=None, network=NETWORK, **QUICK)
    members = [("network", network), ("linear", PerViewRidge(1.0))]
    model = BlendNAIM3L(members, random_state=0).fit(*apart)
    model.save(tmp_path / "m")
    refused = [
        (None, "member 'network': .*own encoders"),
        (encoders, r"networks of this blend are \['network'"),
        ({"network": Linear(9, 3)}, "should be a mapping {member: {view"),
    ]
    for given, reason in refused if own else []:
        with pytest.raises(naim3l.ModelFileError, match=reason):
            naim3l.load(tmp_path / "m", encoders=given)
    loaded = naim3l.load(tmp_path / "m", encoders={"network": encoders} if own else None)
    assert_same_answers(loaded, model, apart[0], "predict_proba")
    unfitted = dict(loaded.members)["network"]
    assert unfitted.training == QUICK["training"] and (unfitted.encoders is None) == (not own)


WITHOUT_TORCH = """
import sys

class NotInstalled:
    def find_spec(self, name, *where):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'")

sys.meta_path.insert(0, NotInstalled())
import naim3l
for task in (lambda: naim3l.deep, *(lambda p=p: naim3l.load(p) for p in sys.argv[1:3])):
    try:
        task()
    except (ImportError, naim3l.ModelFileError) as error:
        print(error)
naim3l.load(sys.argv[3]).save(sys.argv[3])  # a blend of linear models needs no torch
"""


def test_without_torch_errors_say_what_to_install(model, apart, tmp_path):
    blends = [BlendNAIM3L([("one", of)], random_state=0) for of in (model, PerViewRidge(1.0))]
    paths = [str(tmp_path / name) for name in "abc"]
    for path, saved in zip(paths, (model, *(blend.fit(*apart) for blend in blends)), strict=True):
        saved.save(path)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *paths], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and all('pip install "naim3l[torch]"' in line for line in lines)
