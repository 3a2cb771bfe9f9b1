import io
import os
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import naim3l
from naim3l import NAIM3L, NAIM3LCV
from naim3l.datasets import make_unpaired
from naim3l.files.checkpoint import Checkpoint, fingerprint, remove_checkpoint
from naim3l.problem.rows import Problem
from naim3l.solvers import solve_fast
from naim3l.solvers.objective import Objective


def test_parts_come_back_as_they_were(tmp_path, rng):
    path = tmp_path / "fit.checkpoint"
    first = Checkpoint(path, "key")
    assert first.get("solver") is None
    A = rng.normal(size=(3, 4))
    first.put("folds", {"scores": A})
    first.put("solver", {"W": A + 1, "mu": np.asarray(0.1)})
    again = Checkpoint(path, "key")
    np.testing.assert_array_equal(again.get("folds")["scores"], A)
    np.testing.assert_array_equal(again.get("solver")["W"], A + 1)
    assert float(again.get("solver")["mu"]) == 0.1


def test_offers_are_taken_now_and_then(tmp_path):
    path = tmp_path / "fit.checkpoint"
    Checkpoint(path, "key", every=1000).offer("solver", lambda: pytest.fail("not yet"))
    assert not path.exists()
    Checkpoint(path, "key", every=0).offer("solver", lambda: {"W": np.ones(2)})
    assert path.exists()


def test_writing_takes_little_of_the_time(tmp_path, monkeypatch):
    clock = [0.0]

    def slow(*_, **__):
        clock[0] += 3.0

    monkeypatch.setattr("naim3l.files.checkpoint.time.monotonic", lambda: clock[0])
    checkpoint = Checkpoint(tmp_path / "fit.checkpoint", "key", every=1.0)
    monkeypatch.setattr("naim3l.files.checkpoint.np.savez", slow)
    monkeypatch.setattr("naim3l.files.atomic_write.os.fsync", lambda _: None)
    monkeypatch.setattr("naim3l.files.atomic_write.os.replace", lambda *_: None)
    monkeypatch.setattr("naim3l.files.atomic_write.Path.unlink", lambda *_, **__: None)
    taken = []
    for _ in range(2000):
        clock[0] += 0.5
        checkpoint.offer("solver", lambda: taken.append(clock[0]) or {})
    assert taken[0] == 1.0  # the first after a second
    assert 0.03 < 3.0 * len(taken) / clock[0] <= 0.05


def test_only_the_checkpoint_of_the_fit_is_removed(tmp_path):
    path = tmp_path / "fit.checkpoint"
    remove_checkpoint(path, "key")  # gone already
    path.write_bytes(b"damaged")
    remove_checkpoint(path, "key")
    assert path.exists()
    path.unlink()
    Checkpoint(path, "key").put("solver", {"W": np.ones(2)})
    remove_checkpoint(path, "another")
    assert path.exists()
    (tmp_path / ".fit.checkpoint.0a.part").touch()
    remove_checkpoint(path, "key")
    assert list(tmp_path.iterdir()) == []


def test_place_is_tried_before_the_fit(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        Checkpoint(tmp_path / "no" / "fit.checkpoint", "key")


def test_full_disk_does_not_end_the_fit(tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path / "fit.checkpoint", "key")
    checkpoint.put("solver", {"W": np.ones(2)})

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("naim3l.files.checkpoint.np.savez", full)
        with pytest.warns(RuntimeWarning, match=r"not written \(No space left on device\)"):
            checkpoint.put("folds", {"scores": np.ones(3)})
    assert set(Checkpoint(checkpoint.path, "key")._parts) == {"solver"}  # what was there stays
    checkpoint.put("more", {"scores": np.ones(3)})
    assert set(Checkpoint(checkpoint.path, "key")._parts) == {"solver", "folds", "more"}


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 not a zip"])
def test_damaged_file_is_refused(tmp_path, content):
    path = tmp_path / "fit.checkpoint"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"fit\.checkpoint is not a checkpoint"):
        Checkpoint(path, "key")


def test_file_of_another_fit_is_refused(tmp_path):
    path = tmp_path / "fit.checkpoint"
    Checkpoint(path, "one").put("solver", {"W": np.ones(2)})
    with pytest.raises(ValueError, match="of another fit"):
        Checkpoint(path, "two")


def test_truncated_file_is_refused(tmp_path):
    path = tmp_path / "fit.checkpoint"
    Checkpoint(path, "one").put("solver", {"W": np.ones(200)})
    whole = path.read_bytes()
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="is not a checkpoint"):
            Checkpoint(path, "one")


def write_arrays(path, arrays):
    with path.open("wb") as file:
        np.savez(file, **arrays)


def test_file_with_a_part_too_few_or_too_small_is_refused(tmp_path):
    """Damage that NumPy passes over."""
    path = tmp_path / "fit.checkpoint"
    Checkpoint(path, "one").put("solver", {"W": np.ones((9000, 2)), "mu": np.asarray(0.5)})
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"(9000, 2)", b"(8000, 2)"))
    assert len(np.load(path)["solver/W"]) == 8000
    with pytest.raises(ValueError, match="is not a checkpoint"):
        Checkpoint(path, "one")
    stored = dict(np.load(io.BytesIO(whole)))
    write_arrays(path, {name: a for name, a in stored.items() if name != "solver/mu"})
    with pytest.raises(ValueError, match=r"is not a checkpoint .*damaged"):
        Checkpoint(path, "one")
    write_arrays(path, stored | {"format": np.array("naim3l checkpoint 1")})
    with pytest.raises(ValueError, match="has format 'naim3l checkpoint 1'"):
        Checkpoint(path, "one")


def test_fingerprint_sees_every_change(rng):
    X = rng.normal(size=(4, 3))
    S = sparse.random_array((4, 3), density=0.5, format="csr", random_state=rng)
    keys = {
        fingerprint([X, S], {"lam": 1.0}),
        fingerprint([X, S], {"lam": 2.0}),
        fingerprint([X + 1e-12, S], {"lam": 1.0}),
        fingerprint([X, S * 2], {"lam": 1.0}),
        fingerprint([X.reshape(3, 4), S], {"lam": 1.0}),
        fingerprint([X.astype(np.float32), S], {"lam": 1.0}),
    }
    assert len(keys) == 6
    assert fingerprint([X.copy(), S.copy()], {"lam": 1.0}) in keys


@pytest.mark.parametrize("form", ["rows", "compressed"])
@pytest.mark.parametrize("stopped_after", [1, 5, 6, 7, 13])
@pytest.mark.parametrize("large", [False, True], ids=["exact", "from bases"])
def test_resumed_solver_ends_at_the_same_weights(
    make_problem, tmp_path, monkeypatch, form, stopped_after, large
):
    if large:  # thresholding is not always exact
        monkeypatch.setattr("naim3l.problem.blocks.LARGE_NUMBERS", 1)
    features, labels, _ = make_problem(n_rows=(60, 50))
    whole = solve_fast(Objective(Problem(features, labels), 0.4), form=form, tol=1e-6)
    assert whole.n_iter > stopped_after
    path = tmp_path / "fit.checkpoint"

    def interrupt(record, W, seen=[]):  # noqa: B006 -- one list per definition
        seen.append(record)
        if len(seen) == stopped_after + 1:
            raise KeyboardInterrupt

    objective = Objective(Problem(features, labels), 0.4)
    stopped = solve_fast(objective, form=form, tol=1e-6, callback=interrupt,
                         checkpoint=Checkpoint(path, "key", every=0))  # fmt: skip
    assert stopped.interrupted
    resumed = solve_fast(
        Objective(Problem(features, labels), 0.4),
        form=form,
        tol=1e-6,
        checkpoint=Checkpoint(path, "key", every=0),
    )
    np.testing.assert_array_equal(resumed.W, whole.W)
    # Types, too: model files would differ by them.
    assert {type(value) for record in whole.history for value in record.values()} == {float, bool}
    assert resumed.history == whole.history and resumed.stationarity == whole.stationarity


@pytest.mark.parametrize("form", ["rows", "compressed"])
def test_state_holds_the_blocks_of_the_labels_once(make_problem, tmp_path, form):
    """Multipliers and auxiliary variables both follow from what was thresholded last."""
    features, labels, _ = make_problem(n_rows=(90, 80), n_labels=20, observed=1.0)
    path = tmp_path / "fit.checkpoint"
    objective = Objective(Problem(features, labels), 0.1)
    result = solve_fast(objective, form=form, max_iter=2, tol=0,
                        checkpoint=Checkpoint(path, "key", every=0))  # fmt: skip
    blocks, weights = result.state.Z.nbytes, result.W.nbytes
    assert blocks > 10 * weights
    assert blocks < path.stat().st_size < blocks + 4 * weights + 7000


@pytest.mark.parametrize("form", ["rows", "compressed"])
def test_large_states_are_left_out_and_the_fit_ends_as_well(
    make_problem, tmp_path, form, monkeypatch
):
    """Of many frequent labels the weights alone are kept."""
    monkeypatch.setattr("naim3l.solvers.fast_state.STATE_LIMIT", 1000)
    features, labels, _ = make_problem(n_rows=(90, 80), n_labels=20, observed=1.0)
    objective, path = Objective(Problem(features, labels), 0.1), tmp_path / "fit.checkpoint"
    solve = partial(solve_fast, objective, form=form, tol=1e-6)
    whole = solve()
    solve(max_iter=8, checkpoint=Checkpoint(path, "key", every=0))
    assert path.stat().st_size < 3 * whole.W.nbytes + 8000 < whole.state.B.nbytes
    resumed = solve(checkpoint=Checkpoint(path, "key", every=0))
    assert resumed.converged and resumed.history[:8] == whole.history[:8]
    assert objective.value(resumed.W) == pytest.approx(objective.value(whole.W), rel=1e-6)
    again = solve(checkpoint=Checkpoint(path, "key", every=0))  # finished, but not saved
    np.testing.assert_array_equal(again.W, resumed.W)
    assert again.converged and again.history == resumed.history


def test_estimator_refuses_what_cannot_be_resumed(tmp_path):
    data = make_unpaired(60, n_features=(9, 8), n_labels=4, random_state=0)
    path = tmp_path / "fit.checkpoint"
    with pytest.raises(ValueError, match="solver='fast'"):
        NAIM3L(solver="paper", checkpoint=path).fit(data.views, data.labels)
    with pytest.raises(ValueError, match="whole number as random_state"):
        NAIM3LCV([0.4], checkpoint=path).fit(data.views, data.labels)
    Checkpoint(path, "another fit").put("solver", {"W": np.ones(2)})
    with pytest.raises(ValueError, match="of another fit"):
        NAIM3L(0.4, checkpoint=path).fit(data.views, data.labels)
    assert path.exists()


KINDS = {
    "plain": lambda **options: NAIM3L(0.4, ridge=1.0, **options),
    "tuned": lambda **options: NAIM3LCV([0.1, 0.4], [0.0, 1.0], **options),
}


class TestFinishedFits:
    """A finished fit stays in its checkpoint until the model is on disk."""

    @pytest.fixture(params=KINDS)
    def fit(self, request, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        data = make_unpaired(60, n_features=(9, 8), n_labels=4, random_state=0)
        options = {"threshold": "f1", "calibrate": True, "random_state": 0}
        options["checkpoint"] = "fit.checkpoint"
        return lambda **more: KINDS[request.param](**options | more).fit(data.views, data.labels)

    @pytest.mark.parametrize("stop", [{}, {"tol": 0, "max_iter": 7}])
    def test_same_fit_again_iterates_no_more(self, fit, monkeypatch, tmp_path, stop):
        first = fit(**stop)
        assert os.path.exists("fit.checkpoint")
        monkeypatch.setattr("naim3l.solvers.fast._iterate", None)  # any iteration would fail
        again = fit(**stop)
        for name in ("converged_", "n_iter_", "history_", "stationarity_"):
            assert getattr(again, name) == getattr(first, name), name
        first.save("first.skops")
        again.save("again.skops")
        assert Path("first.skops").read_bytes() == Path("again.skops").read_bytes()

    def test_tighter_tolerance_goes_on(self, fit):
        loose = fit()
        tight = fit(tol=1e-7, max_iter=1000)
        assert tight.n_iter_ > loose.n_iter_ and tight.stationarity_ < 1e-7
        assert tight.history_[: loose.n_iter_] == loose.history_

    def test_checkpoint_goes_when_the_model_is_on_disk(self, fit, monkeypatch, tmp_path):
        model = fit()
        replace = os.replace

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            model.save("model.skops")
        assert sorted(os.listdir()) == ["fit.checkpoint"]
        monkeypatch.setattr(os, "replace", replace)
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        model.save("model.skops")
        assert os.listdir() == ["model.skops"] and os.listdir(tmp_path) == ["elsewhere"]

    def test_copies_and_later_fits_leave_it_alone(self, fit):
        model = fit()
        pickle.loads(pickle.dumps(model)).save("copy.skops")
        naim3l.load("copy.skops").save("loaded.skops")
        assert os.path.exists("fit.checkpoint")
        data = make_unpaired(50, n_features=(9, 8), n_labels=4, random_state=1)
        model.set_params(checkpoint=None).fit(data.views, data.labels).save("other.skops")
        assert os.path.exists("fit.checkpoint")


def test_resumed_search_knows_which_pair_its_state_is_of(tmp_path, monkeypatch):
    """The best pair is unbounded below on all entries, and the next one is used."""
    data = make_unpaired(60, n_features=(9, 8), n_labels=4, random_state=0)
    best = NAIM3LCV([0.1, 0.4], [1.0], random_state=0).fit(data.views, data.labels).lam_
    solve = NAIM3L._solve

    def unbounded(self, problem, checkpoint=None):
        if self.lam == best:
            raise FloatingPointError
        return solve(self, problem, checkpoint)

    search = NAIM3LCV([0.1, 0.4], [1.0], random_state=0, checkpoint=tmp_path / "fit.checkpoint")
    with monkeypatch.context() as patch, pytest.warns(ConvergenceWarning, match="the next best"):
        patch.setattr(NAIM3L, "_solve", unbounded)
        first = clone(search).fit(data.views, data.labels)
    with pytest.warns(ConvergenceWarning, match="the next best pair is used"):
        again = clone(search).fit(data.views, data.labels)
    assert again.lam_ == first.lam_ != best
    for view in first.coef_:
        np.testing.assert_array_equal(again.coef_[view], first.coef_[view])
