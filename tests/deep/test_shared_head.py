"""One head of the last hidden layers of all views, and noise in training."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

import naim3l  # noqa: E402
from naim3l.deep import DeepNAIM3L  # noqa: E402
from naim3l.deep.networks import Architecture, SkipEncoder  # noqa: E402
from naim3l.estimators import BlendNAIM3L  # noqa: E402

QUICK = {"hidden": (8, 5), "batch_size": 20, "random_state": 0, "device": "cpu"}


@pytest.fixture
def shared(apart):
    return DeepNAIM3L(lam=0, shared_head=True, max_epochs=3, **QUICK).fit(*apart)


def test_views_have_one_head_and_a_linear_model_each(shared, apart):
    networks = list(shared.networks_.values())
    head = networks[0].shared_head
    assert all(network.shared_head is head for network in networks)
    assert head.weight.shape == (4, 5) and head.bias is None and head.weight.abs().max() > 0
    for view, network in shared.networks_.items():
        X = shared.transformers_[view].transform(apart[0][view])
        X = (torch.from_numpy(X).float() - network.encoder.centre) / network.encoder.scale
        with torch.no_grad():
            hidden = network.eval().encoder.layers(X)
            expected = X @ network.head.weight.T + network.head.bias + hidden @ head.weight.T
        found = shared.decision_function(apart[0])[view]
        np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


def test_head_learns_from_the_labels_of_all_views(apart):
    X, Y = apart
    unknown = {"view0": Y["view0"], "view1": np.full_like(Y["view1"], np.nan)}
    unknown["view1"][:2] = [[1, 0, 1, 0], [0, 1, 0, 1]]
    own, one = (
        DeepNAIM3L(lam=0, shared_head=head, max_epochs=3, **QUICK).fit(X, unknown)
        for head in (False, True)
    )
    # With hardly a label of its own, a view has the head that the other view has learned.
    norms = [model.weights_["view1"] for model in (own, one)]
    assert np.abs(norms[1]["shared_head.weight"]).mean() > np.abs(norms[0]["head.weight"]).mean()
    np.testing.assert_array_equal(
        one.weights_["view0"]["shared_head.weight"], one.weights_["view1"]["shared_head.weight"]
    )


@pytest.mark.parametrize("calibrate", [False, True])
def test_model_comes_back_from_a_file(shared, apart, tmp_path, calibrate):
    shared.set_params(calibrate=calibrate, noise=0.1).fit(*apart).save(tmp_path / "m")
    loaded = naim3l.load(tmp_path / "m")
    for view, scores in shared.decision_function(apart[0]).items():
        np.testing.assert_array_equal(loaded.decision_function(apart[0])[view], scores)
    again = loaded.fit(*apart)
    for view, scores in shared.decision_function(apart[0]).items():
        np.testing.assert_array_equal(again.decision_function(apart[0])[view], scores)


def test_interrupted_fit_resumes_to_the_same_weights(apart, tmp_path, monkeypatch):
    options = {"shared_head": True, "noise": 0.2, "max_epochs": 4, **QUICK}
    straight = DeepNAIM3L(**options).fit(*apart)
    path, training = tmp_path / "fit.npz", naim3l.deep.training.Training
    run_epoch = training._run_epoch

    def stop(self, epoch):
        if epoch == 2:
            raise KeyboardInterrupt
        return run_epoch(self, epoch)

    monkeypatch.setattr(training, "_run_epoch", stop)
    monkeypatch.setattr(naim3l.deep.training.Checkpoint, "offer",
                        lambda self, part, make: self.put(part, make()))  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        DeepNAIM3L(checkpoint=path, **options).fit(*apart)
    monkeypatch.setattr(training, "_run_epoch", run_epoch)
    resumed = DeepNAIM3L(checkpoint=path, **options).fit(*apart)
    for view, arrays in straight.weights_.items():
        for name, array in arrays.items():
            np.testing.assert_array_equal(resumed.weights_[view][name], array)


def test_without_hidden_layers_there_is_nothing_to_share(apart):
    options = QUICK | {"hidden": (), "max_epochs": 2}
    one, own = (DeepNAIM3L(shared_head=head, **options).fit(*apart) for head in (True, False))
    for view, scores in own.decision_function(apart[0]).items():
        np.testing.assert_array_equal(one.decision_function(apart[0])[view], scores)


def test_noise_is_for_training_only():
    encoder = SkipEncoder(3, Architecture((4,), 0.0, noise=0.5))
    X = torch.zeros(2000, 3)
    noisy = encoder.train()(X)[:, :3]
    assert noisy.std().item() == pytest.approx(0.5, rel=0.05)
    assert (encoder.eval()(X)[:, :3] == 0).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"noise": -0.1}, "noise must be"),
        ({"noise": "much"}, "noise must be"),
        ({"shared_head": "yes"}, "shared_head must be"),
        ({"shared_head": True, "encoders": lambda view, n: torch.nn.Linear(n, 3)},
         "shared_head=True needs the default encoders"),
    ],
)  # fmt: skip
def test_values_that_are_refused(parameters, message, apart):
    with pytest.raises(ValueError, match=message):
        DeepNAIM3L(**QUICK, **parameters).fit(*apart)


def test_networks_are_members_of_blends(apart):
    members = [
        ("network", DeepNAIM3L(lam=0, shared_head=True, max_epochs=2, **QUICK)),
        ("linear", naim3l.PerViewRidge(1.0)),
    ]
    model = BlendNAIM3L(members, random_state=0).fit(*apart)
    assert list(model.weights_) == ["network", "linear"]
    assert np.isfinite(model.decision_function(apart[0])["view0"]).all()
