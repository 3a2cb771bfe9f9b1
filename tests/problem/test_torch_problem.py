"""The form of a problem on a device has the values of the form in memory."""

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")
pytest.importorskip("array_api_compat")

from naim3l._device import check_device, find_device, is_usable  # noqa: E402
from naim3l.problem import cost_model  # noqa: E402
from naim3l.problem.rows import Problem  # noqa: E402
from naim3l.problem.torch_problem import TorchProblem  # noqa: E402
from naim3l.solvers import solve_fast  # noqa: E402
from naim3l.solvers.objective import Objective  # noqa: E402

pytestmark = pytest.mark.torch

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=NO_GPU)]


def make_problem(seed=0, n_labels=9, sizes=((60, 5), (35, 8)), **options):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=size) for size in sizes]
    Y = [rng.choice([-1.0, 0, 1], (len(rows), n_labels), p=[0.5, 0.3, 0.2]) for rows in X]
    Y[0][:, 0] = -1  # a label without a positive in this view
    return Problem(X, Y, **options)


def both(device, **options):
    problem = make_problem(**options)
    return problem, TorchProblem(problem, torch.device(device))


def close(found, expected, **options):
    np.testing.assert_allclose(found.cpu().numpy(), expected, **options)


@pytest.mark.parametrize("device", DEVICES)
class TestProducts:
    def test_all_products_are_those_of_the_rows(self, device):
        problem, moved = both(device, positive_weight=2.0)
        W = np.random.default_rng(1).normal(size=(problem.n_weights, problem.n_labels))
        V = moved.asarray(W)
        for name in ("multiply", "label_scores", "multiply_gram", "multiply_positive_gram"):
            close(getattr(moved, name)(V), getattr(problem, name)(W), atol=1e-10)
        Z = problem.label_scores(W)
        through = problem.label_scores_transposed(Z)
        close(moved.label_scores_transposed(moved.asarray(Z)), through, atol=1e-10)
        loss, gradient = problem.loss_and_gradient(W)
        found, moved_gradient = moved.loss_and_gradient(V)
        assert found == pytest.approx(loss)
        close(moved_gradient, gradient, atol=1e-10)
        close(moved.targets, problem.targets, atol=1e-10)

    def test_sparse_rows_become_dense(self, device):
        X = sparse.random_array((30, 6), density=0.3, random_state=0, format="csr")
        problem = Problem([X], [np.sign(np.random.default_rng(0).normal(size=(30, 4)))])
        moved = TorchProblem(problem, torch.device(device))
        close(moved.X[0], problem.X[0].toarray())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "terms", [{}, {"high_rank": False}, {"low_rank": False, "high_rank": False}]
)
def test_solutions_are_those_of_rows(device, terms):
    problem, moved = both(device)
    options = {"tol": 1e-7, "max_iter": 3000}
    on_rows = solve_fast(Objective(problem, 0.3, ridge=0.5, **terms), form="rows", **options)
    there = solve_fast(Objective(moved, 0.3, ridge=0.5, **terms), **options)
    assert on_rows.converged and there.converged
    assert isinstance(there.W, np.ndarray)
    np.testing.assert_allclose(there.W, on_rows.W, atol=1e-5 * np.abs(on_rows.W).max())
    last = [result.history[-1]["objective"] for result in (there, on_rows)]
    assert last[0] == pytest.approx(last[1], rel=1e-8)


@pytest.mark.parametrize("device", DEVICES)
def test_a_warm_start_ends_at_the_same_weights(device):
    _, moved = both(device)
    options = {"tol": 1e-6, "max_iter": 2000}
    first = solve_fast(Objective(moved, 0.2, ridge=0.5), **options)
    warm = solve_fast(Objective(moved, 0.3, ridge=0.5), warm=first, **options)
    cold = solve_fast(Objective(moved, 0.3, ridge=0.5), **options)
    np.testing.assert_allclose(warm.W, cold.W, atol=1e-4 * np.abs(cold.W).max())


@pytest.mark.parametrize("device", DEVICES)
def test_repeated_fits_are_equal_to_the_last_bit(device):
    problem = make_problem()
    fits = [
        solve_fast(Objective(TorchProblem(problem, torch.device(device)), 0.3, ridge=0.5)).W
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*fits)


@pytest.mark.parametrize("device", DEVICES)
def test_the_bounding_ridge_is_that_of_the_rows(device):
    problem, moved = both(device)
    assert moved.rows is problem
    assert moved.bounding_ridge(3.0) == problem.bounding_ridge(3.0)


class TestDevices:
    missing = "cuda" if not torch.cuda.is_available() else "cuda:77"

    def test_a_device_that_is_not_there_is_refused(self):
        with pytest.raises(ValueError, match=f"device='{self.missing}'"):
            check_device("device", self.missing)
        assert not is_usable(self.missing) and not is_usable("cpu")

    @pytest.mark.parametrize("device", ["gpu", 3, None, torch.device("cpu")])
    def test_names_that_are_no_devices_are_refused(self, device):
        with pytest.raises(ValueError, match="device"):
            check_device("device", device)

    def test_without_a_gpu_auto_is_the_cpu(self, monkeypatch):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        problem = make_problem()
        assert cost_model.move_to(problem, "auto") is cost_model.move_to(problem, "cpu") is problem

    def test_a_problem_that_does_not_fit_is_refused_before_it_is_moved(self, monkeypatch):
        fake = type("Device", (), {"type": "cuda"})()
        monkeypatch.setattr(cost_model, "find_device", lambda device: fake)
        monkeypatch.setattr(cost_model, "free_memory", lambda device: 1000)
        with pytest.raises(MemoryError, match="device='cpu'"):
            cost_model.move_to(make_problem(), "cuda")

    @NO_GPU
    def test_a_problem_that_fits_is_moved(self):
        moved = cost_model.move_to(make_problem(), "cuda")
        assert isinstance(moved, TorchProblem) and cost_model.choose_form(moved) is moved

    def test_without_torch_the_error_says_how_it_is_installed(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "torch", None)
        with pytest.raises(ValueError, match=r"naim3l\[torch\]"):
            find_device("cuda")


@pytest.mark.parametrize("device", ["meta", "mps", "xla", "vulkan", "hpu", "xpu"])
def test_devices_that_are_not_there_are_refused(device):
    kind = getattr(torch, device, None)
    if hasattr(kind, "is_available") and kind.is_available():
        pytest.skip(f"{device} is there")
    with pytest.raises(ValueError, match=f"device='{device}' cannot be used here .*'cpu'"):
        find_device(device)
    assert find_device("cpu") == find_device(torch.device("cpu")) == torch.device("cpu")
