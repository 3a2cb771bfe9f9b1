import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

from naim3l.deep import DeepNAIM3L, NAIM3LLoss, trace_norm  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    # The thread that runs the first backward pass has no context yet, and gets one.
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
]


def test_trace_norm_and_gradient_are_those_of_the_cpu(rng):
    for shape in [(6, 4), (3, 5), (2, 5, 40, 30)]:
        A = torch.tensor(rng.normal(size=shape))
        values, gradients = [], []
        for device in ("cpu", "cuda"):
            B = A.to(device, copy=True).requires_grad_()
            norm = trace_norm(B)
            norm.sum().backward()
            values.append(norm.detach().cpu())
            gradients.append(B.grad.cpu())
        torch.testing.assert_close(*values)
        torch.testing.assert_close(*gradients)


def test_loss_is_that_of_the_cpu(rng):
    A, Y = torch.tensor(rng.normal(size=(50, 8))), torch.tensor(rng.integers(2, size=(50, 8)))
    Y = Y.double()
    Y[::5] = torch.nan
    loss = NAIM3LLoss(0.4, data_term="logistic", positive_weight=2.0)
    on_cuda = loss(
        {"a": A[:20].cuda(), "b": A[20:].cuda()}, {"a": Y[:20].cuda(), "b": Y[20:].cuda()}
    )
    torch.testing.assert_close(on_cuda.cpu(), loss(A, Y))


@pytest.mark.parametrize("amp", [False, True])
def test_fit_learns_as_on_the_cpu_and_leaves_generators_alone(apart, tmp_path, amp):
    X, Y = apart
    settings = {"max_epochs": 10, "batch_size": 20, "dropout": 0.0, "random_state": 0}
    before = torch.cuda.get_rng_state()
    on_cuda = DeepNAIM3L(device="auto", amp=amp, **settings).fit(X, Y)
    assert torch.equal(torch.cuda.get_rng_state(), before)
    assert next(on_cuda.networks_["view0"].parameters()).is_cuda
    on_cpu = DeepNAIM3L(device="cpu", **settings).fit(X, Y)
    for view, S in on_cuda.decision_function(X).items():
        np.testing.assert_allclose(S, on_cpu.decision_function(X)[view], atol=0.3 if amp else 0.05)
    on_cuda.save(tmp_path / "m")
