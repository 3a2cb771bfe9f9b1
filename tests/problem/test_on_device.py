"""The form of a problem on a device has the values of the form in memory."""

import numpy as np
import pytest
from scipy import sparse

torch = pytest.importorskip("torch")
pytest.importorskip("array_api_compat")

from fenced_blocks import fenced_blocks  # noqa: E402
from naim3l import NAIM3L, NAIM3LCV  # noqa: E402
from naim3l.datasets import make_unpaired  # noqa: E402
from naim3l.features.kernels import KernelMap  # noqa: E402
from naim3l.problem import choice, on_device  # noqa: E402
from naim3l.problem.on_device import DeviceProblem  # noqa: E402
from naim3l.problem.rows import Problem  # noqa: E402
from naim3l.solvers import solve_fast  # noqa: E402
from naim3l.solvers.device_weights import DeviceWeightStep  # noqa: E402
from naim3l.solvers.objective import Objective  # noqa: E402
from naim3l.solvers.thresholding import shrink_labels, sum_trace_norms  # noqa: E402
from naim3l.solvers.weights import IterativeWeightStep  # noqa: E402

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
    return problem, DeviceProblem(problem, torch.device(device))


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
        close(moved.label_scores_transposed(moved.asarray(Z)),
              problem.label_scores_transposed(Z), atol=1e-10)  # fmt: skip
        (loss, gradient), (found, moved_gradient) = (
            problem.loss_and_gradient(W), moved.loss_and_gradient(V),
        )  # fmt: skip
        assert found == pytest.approx(loss)
        close(moved_gradient, gradient, atol=1e-10)
        close(moved.targets, problem.targets, atol=1e-10)

    def test_tall_and_short_blocks_are_thresholded_alike(self, device):
        problem, moved = both(device, n_labels=12, sizes=((90, 5), (20, 4)))
        assert moved._tall and moved._short
        A = np.random.default_rng(2).normal(size=(problem.n_positives, problem.n_labels))
        moved_A = moved.asarray(A)
        for threshold in (0.0, 1.5):
            (found, norms), (Z, expected) = (
                shrink_labels(moved, moved_A, threshold), shrink_labels(problem, A, threshold),
            )  # fmt: skip
            close(found, Z, atol=1e-9)
            assert norms == pytest.approx(expected)
        assert sum_trace_norms(moved, moved_A) == pytest.approx(sum_trace_norms(problem, A))

    def test_sparse_rows_become_dense(self, device):
        X = sparse.random_array((30, 6), density=0.3, random_state=0, format="csr")
        problem = Problem([X], [np.sign(np.random.default_rng(0).normal(size=(30, 4)))])
        moved = DeviceProblem(problem, torch.device(device))
        close(moved.X[0], problem.X[0].toarray())

    @pytest.mark.parametrize("ridge", [0.0, 0.7])
    def test_weight_steps_solve_the_same_systems(self, device, ridge):
        problem, moved = both(device)
        B = problem.targets
        step = DeviceWeightStep(moved, ridge, 1e-10)
        for mu in (0.5, 0.6, 2.0):  # the preconditioner of 0.5 is used for 0.6, too
            found = step(moved.asarray(B), mu, moved.asarray(np.zeros_like(B)))
            close(found, IterativeWeightStep(problem, ridge, 1e-10)(B, mu, np.zeros_like(B)),
                  atol=1e-7)  # fmt: skip


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
        solve_fast(Objective(DeviceProblem(problem, torch.device(device)), 0.3, ridge=0.5)).W
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*fits)


class TestDevices:
    data = make_unpaired(40, n_features=(9, 8), n_labels=4, random_state=0)

    def test_a_device_that_is_not_there_is_refused(self):
        missing = "cuda" if not torch.cuda.is_available() else "cuda:77"
        with pytest.raises(ValueError, match=f"device='{missing}'"):
            NAIM3L(device=missing).fit(self.data.views, self.data.labels)

    @pytest.mark.parametrize("device", ["gpu", 3, None, torch.device("cpu")])
    def test_names_that_are_no_devices_are_refused(self, device):
        with pytest.raises(ValueError, match="device"):
            NAIM3L(device=device).fit(self.data.views, self.data.labels)

    def test_the_papers_solver_works_on_the_cpu(self):
        with pytest.raises(ValueError, match="device= needs solver='fast'"):
            NAIM3L(device="auto", solver="paper").fit(self.data.views, self.data.labels)

    def test_without_a_gpu_auto_is_the_cpu(self, monkeypatch):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        models = [NAIM3L(device=d).fit(self.data.views, self.data.labels) for d in ("auto", "cpu")]
        np.testing.assert_array_equal(models[0].coef_["view0"], models[1].coef_["view0"])

    def test_a_problem_that_does_not_fit_is_refused_before_it_is_moved(self, monkeypatch):
        there = torch.device("cpu")
        fake = type("Device", (), {"type": "cuda"})()
        monkeypatch.setattr(choice, "find_device", lambda device: fake)
        monkeypatch.setattr(choice, "free_memory", lambda device: 1000)
        with pytest.raises(MemoryError, match="device='cpu'"):
            choice.move_to(make_problem(), "cuda")
        monkeypatch.setattr(choice, "find_device", lambda device: there)
        assert not isinstance(choice.move_to(make_problem(), "cuda"), DeviceProblem)

    def test_without_torch_the_error_says_how_it_is_installed(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "torch", None)
        with pytest.raises(ValueError, match=r"naim3l\[torch\]"):
            on_device.find_device("cuda")


@NO_GPU
class TestOnGpu:
    data = make_unpaired(80, n_features=(9, 8), n_labels=6, missing_labels=0.3, random_state=0)

    def test_fits_are_those_of_the_cpu(self):
        models = [
            NAIM3L(device=device, tol=1e-7, max_iter=3000).fit(self.data.views, self.data.labels)
            for device in ("cuda", "cpu")
        ]
        for view, W in models[1].coef_.items():
            np.testing.assert_allclose(models[0].coef_[view], W, atol=1e-5 * np.abs(W).max())

    def test_a_search_with_kernels_is_that_of_the_cpu(self, tmp_path):
        models = [
            NAIM3LCV([0.1, 1.0], [1.0], kernel="rbf", n_landmarks=20, calibrate=True, device=device,
                     random_state=0).fit(self.data.views, self.data.labels)
            for device in ("cuda", "cpu")
        ]  # fmt: skip
        assert models[0].lam_ == models[1].lam_
        P, Q = (model.predict_proba(self.data.views)["view0"] for model in models)
        np.testing.assert_allclose(P, Q, atol=0.01)

    def test_the_page_of_the_guide_runs(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        names = {"X": self.data.views, "Y": self.data.labels}
        for kind, code in fenced_blocks("docs/guide/gpu.md"):
            if kind == "python":
                exec(code, names)
        assert (tmp_path / "model.skops").exists()

    @pytest.mark.parametrize("kernel", ["rbf", "chi2", "hellinger", "laplacian", "linear"])
    def test_kernel_maps_are_those_of_the_cpu(self, kernel):
        X = np.random.default_rng(0).gamma(2.0, size=(200, 12))
        features = [
            KernelMap(kernel, n_landmarks=10, device=device).fit(X).transform(X)
            for device in ("cuda", "cpu")
        ]
        # Features are unique up to a rotation, and their inner products without it.
        np.testing.assert_allclose(*(F @ F.T for F in features), rtol=1e-6, atol=1e-8)
