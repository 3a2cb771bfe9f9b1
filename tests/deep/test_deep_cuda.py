import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

import naim3l  # noqa: E402
from naim3l.deep import (  # noqa: E402
    DeepNAIM3L,
    NAIM3LLoss,
    Network,
    Training,
    trace_norm,
    training,
)

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    # The thread that runs the first backward pass has no context yet, and gets one.
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
]


def test_trace_norm_loss_and_gradients_are_those_of_the_cpu(rng):
    def both(device):
        A = torch.tensor(scores).to(device, copy=True).requires_grad_()
        halves = {"a": A[:20], "b": A[20:]}
        value = loss(halves, {view: Y[: len(rows)].to(device) for view, rows in halves.items()})
        (value + trace_norm(A)).backward()
        return value.detach().cpu(), A.grad.cpu()

    scores = rng.normal(size=(50, 8))
    Y = torch.tensor(rng.integers(2, size=(50, 8))).double()
    Y[::5] = torch.nan
    loss = NAIM3LLoss(0.4, data_term="logistic", positive_weight=2.0)
    for on_cpu, on_cuda in zip(both("cpu"), both("cuda"), strict=True):
        torch.testing.assert_close(on_cpu, on_cuda)


@pytest.mark.parametrize("amp", [False, True])
def test_fit_learns_as_on_the_cpu_and_leaves_generators_alone(apart, tmp_path, amp):
    X, Y = apart
    options = {"network": Network(dropout=0.0), "random_state": 0}
    before = torch.cuda.get_rng_state()
    training = Training(max_epochs=10, batch_size=20, amp=amp)
    on_cuda = DeepNAIM3L(device="auto", training=training, **options).fit(X, Y)
    assert torch.equal(torch.cuda.get_rng_state(), before)
    assert next(on_cuda.networks_["view0"].parameters()).is_cuda
    on_cpu = DeepNAIM3L(device="cpu", training=training, **options).fit(X, Y)
    on_cuda.save(tmp_path / "m")
    loaded = naim3l.load(tmp_path / "m")
    for view, S in on_cuda.decision_function(X).items():
        np.testing.assert_allclose(S, on_cpu.decision_function(X)[view], atol=0.3 if amp else 0.05)
        np.testing.assert_array_equal(loaded.decision_function(X)[view], S)


@pytest.mark.parametrize("lam", [0.0, 0.1])
def test_networks_are_the_same_one_by_one_and_together(apart, monkeypatch, lam):
    X, Y = apart
    options = {"network": Network((8,)), "training": Training(3, batch_size=20), "decide": "f1"}
    model = DeepNAIM3L(lam, **options, device="cuda", random_state=0)
    together = model.fit(X, Y).predict_proba(X)
    monkeypatch.setattr(training, "DEVICE_SHARE", 0)
    for view, alone in model.fit(X, Y).predict_proba(X).items():
        np.testing.assert_allclose(together[view], alone, atol=1e-3)
