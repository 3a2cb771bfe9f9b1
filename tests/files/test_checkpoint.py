"""Checkpoints: what they keep, what they refuse, and when they go."""

import os
import pickle
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import naim3l
from naim3l import NAIM3L, NAIM3LCV
from naim3l.datasets import make_unpaired
from naim3l.files import checkpoint as module
from naim3l.files.archive import write_archive
from naim3l.files.checkpoint import VERSION, Checkpoint, check_seed, fingerprint, kept_in

ONE, OTHER = {"lam": 1.0}, {"lam": 2.0}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.checkpoint"


def full(*_, **__):
    raise OSError(28, "No space left on device")


class TestSections:
    def test_they_come_back_as_they_were(self, path, rng):
        first = Checkpoint(path, [], ONE)
        assert first.get("solver") is None
        A = rng.normal(size=(3, 4))
        first.put("folds", {"scores": A, "fitted": A > 0})
        first.put("solver", {"W": np.asfortranarray(A + 1), "mu": np.asarray(0.1)})
        again = Checkpoint(path, [], ONE)
        np.testing.assert_array_equal(again.get("folds")["scores"], A)
        np.testing.assert_array_equal(again.get("folds")["fitted"], A > 0)
        np.testing.assert_array_equal(again.get("solver")["W"], A + 1)
        assert float(again.get("solver")["mu"]) == 0.1
        again.discard("solver")
        again.put("more", {})
        third = Checkpoint(path, [], ONE)
        assert third.get("solver") is None and third.get("more") == {}

    def test_offers_are_taken_now_and_then(self, path):
        Checkpoint(path, [], ONE, every=1000).offer("solver", lambda: pytest.fail("not yet"))
        assert not path.exists()
        Checkpoint(path, [], ONE, every=0).offer("solver", lambda: {"W": np.ones(2)})
        assert path.exists()

    def test_writing_takes_little_of_the_time(self, path, monkeypatch):
        clock, taken = [0.0], []

        def slow(*_):
            clock[0] += 3.0

        monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
        monkeypatch.setattr(module, "write_archive", slow)
        checkpoint = Checkpoint(path, [], ONE, every=1.0)
        for _ in range(2000):
            clock[0] += 0.5
            checkpoint.offer("solver", lambda: taken.append(clock[0]) or {})
        assert taken[0] == 1.0  # the first after a second
        assert 0.03 < 3.0 * len(taken) / clock[0] <= 0.05

    def test_a_full_disk_does_not_end_the_fit(self, path, monkeypatch):
        checkpoint = Checkpoint(path, [], ONE)
        checkpoint.put("solver", {"W": np.ones(2)})
        with monkeypatch.context() as patch:
            patch.setattr(module, "write_archive", full)
            with pytest.warns(RuntimeWarning, match=r"not written \(No space left on device\)"):
                checkpoint.put("folds", {"scores": np.ones(3)})
        assert Checkpoint(path, [], ONE).get("folds") is None  # what was there stays
        checkpoint.put("more", {"scores": np.ones(3)})
        assert Checkpoint(path, [], ONE).get("folds") is not None

    def test_solutions_are_computed_once_for_the_same_labels(self, path, make_problem):
        *_, problem = make_problem()
        other = problem.without(np.arange(problem.Y.size).reshape(problem.Y.shape) % 5 == 0)
        solved = []

        def solve(of):
            solved.append(of)
            return np.full(3, float(len(solved)))

        for _ in range(2):
            checkpoint = Checkpoint(path, [], ONE)
            for name, of, value in (("", problem, 1), ("", other, 2), ("pair", other, 3)):
                found = kept_in(checkpoint, solve, name)(of)
                np.testing.assert_array_equal(found, value)
        assert len(solved) == 3 and kept_in(None, solve) is solve

    def test_only_the_file_of_the_fit_is_removed(self, path, tmp_path):
        own, other = Checkpoint(path, [], ONE), Checkpoint(path, [], OTHER)
        own.remove()  # gone already
        path.write_bytes(b"damaged")
        own.remove()
        assert path.exists()
        path.unlink()
        own.put("solver", {"W": np.ones(2)})
        other.remove()
        assert path.exists()
        (tmp_path / ".fit.checkpoint.0a.part").touch()
        own.remove()
        assert list(tmp_path.iterdir()) == []


class TestRefused:
    def refused(self, path, reason):
        with pytest.raises(ValueError, match=reason) as caught:
            Checkpoint(path, [], ONE)
        assert path.name in str(caught.value) and "Delete it" in str(caught.value)

    def test_the_file_of_another_fit(self, path):
        Checkpoint(path, [], OTHER).put("solver", {"W": np.ones(2)})
        whole = path.read_bytes()
        self.refused(path, "is the checkpoint of another fit: data or parameters differ")
        assert path.read_bytes() == whole

    @pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 not a zip"])
    def test_what_is_no_checkpoint(self, path, content):
        path.write_bytes(content)
        self.refused(path, "not a checkpoint: ")

    def test_a_model_file(self, path):
        NAIM3L(max_iter=1, tol=0).fit({"a": np.eye(3)}, {"a": np.eye(3)}).save(path)
        self.refused(path, "not a checkpoint: .*'naim3l model'")

    def test_a_truncated_file(self, path):
        Checkpoint(path, [], ONE).put("solver", {"W": np.ones(200)})
        whole = path.read_bytes()
        for size in range(0, len(whole), 97):
            path.write_bytes(whole[:size])
            self.refused(path, "not a checkpoint: ")

    def test_a_compressed_bomb(self, path):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bomb:
            bomb.writestr("naim3l.json", b" " * 10**8)
        start = time.monotonic()
        self.refused(path, "compressed or encrypted")
        assert time.monotonic() - start < 0.5  # nothing is unpacked

    @pytest.mark.parametrize(
        "sections",
        [None, [], {"solver": 3}, {"solver": {"W": 7}}, {"solver": {"W": 0}, "a": {"b": 0}}],
        ids=str,
    )
    def test_sections_that_are_not_there(self, path, sections):
        document = {"format": "naim3l checkpoint", "version": VERSION, "key": fingerprint([], ONE)}
        write_archive(path, document | {"sections": sections}, [np.ones(2)])
        self.refused(path, "not a checkpoint: ")

    def test_fits_of_another_version_are_not_resumed(self, path):
        """Folds may have been dealt in another way."""
        document = {"format": "naim3l checkpoint", "key": fingerprint([], ONE), "sections": {}}
        write_archive(path, document | {"version": VERSION - 1})
        self.refused(path, f"reads none before {VERSION}: fit again")

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
    def test_a_pipe_is_not_waited_for(self, path):
        os.mkfifo(path)
        self.refused(path, "it is not a regular file, but a pipe or a device")

    def test_places_that_cannot_be_written_are_found_before_the_fit(self, path, tmp_path):
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            Checkpoint(tmp_path / "no" / "fit.checkpoint", [], ONE)
        path.mkdir()
        self.refused(path, "it is a folder")

    @pytest.mark.parametrize("seed", [None, np.random.RandomState(0), 1.5, "1"])
    def test_seeds_that_draw_other_numbers(self, seed):
        assert check_seed(np.int64(3)) == 3
        with pytest.raises(ValueError, match="needs a whole number as random_state"):
            check_seed(seed)


def test_a_fingerprint_sees_every_change(rng):
    X = rng.normal(size=(4, 3))
    S = sparse.random_array((4, 3), density=0.5, format="csr", random_state=rng)
    keys = {
        fingerprint([X, S], {"lam": 1.0}),
        fingerprint([X, S], {"lam": 2.0}),
        fingerprint([X + 1e-12, S], {"lam": 1.0}),
        fingerprint([X, S * 2], {"lam": 1.0}),
        fingerprint([X.reshape(3, 4), S], {"lam": 1.0}),
        fingerprint([X.astype(np.float32), S], {"lam": 1.0}),
        fingerprint([X], {"lam": 1.0}),
    }
    assert len(keys) == 7
    same = fingerprint([np.asfortranarray(X), S.copy()], {"lam": np.float64(1.0)})
    assert same in keys  # of the same values


KINDS = {
    "plain": NAIM3L(0.4, ridge=1.0, decide="f1", random_state=0),
    "tuned": NAIM3LCV([0.1, 0.4], [0.0, 1.0], decide="f1", random_state=0),
}


class TestFinishedFits:
    """A finished fit stays in its checkpoint until the model is on disk."""

    @pytest.fixture(params=KINDS)
    def fit(self, request, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        data = make_unpaired(60, n_features=(9, 8), n_labels=4, random_state=0)

        def fit(**more):
            model = clone(KINDS[request.param]).set_params(**more)
            return model.fit(data.views, data.labels, checkpoint="fit.checkpoint")

        return fit

    @pytest.mark.parametrize("stop", [{}, {"tol": 0, "max_iter": 7}])
    def test_the_same_fit_again_iterates_no_more(self, fit, monkeypatch, stop):
        first = fit(**stop)
        assert os.path.exists("fit.checkpoint")
        monkeypatch.setattr("naim3l.solvers.fast._iterate", None)  # any iteration would fail
        again = fit(**stop)
        first.save("first.naim3l")
        again.save("again.naim3l")
        assert Path("first.naim3l").read_bytes() == Path("again.naim3l").read_bytes()

    def test_a_tighter_tolerance_goes_on(self, fit):
        loose = fit()
        tight = fit(tol=1e-7, max_iter=1000)
        assert tight.n_iter_ > loose.n_iter_ and tight.stationarity_ < 1e-7
        assert tight.history_[: loose.n_iter_] == loose.history_

    def test_the_checkpoint_goes_when_the_model_is_on_disk(self, fit, monkeypatch, tmp_path):
        model = fit()
        with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
            patch.setattr(os, "replace", full)
            model.save("model.naim3l")
        assert sorted(os.listdir()) == ["fit.checkpoint"]
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        model.save("model.naim3l")
        assert os.listdir() == ["model.naim3l"] and os.listdir(tmp_path) == ["elsewhere"]

    def test_copies_and_later_fits_leave_it_alone(self, fit):
        model = fit()
        pickle.loads(pickle.dumps(model)).save("copy.naim3l")
        naim3l.load("copy.naim3l").save("loaded.naim3l")
        assert os.path.exists("fit.checkpoint")
        data = make_unpaired(50, n_features=(9, 8), n_labels=4, random_state=1)
        model.fit(data.views, data.labels).save("other.naim3l")
        assert os.path.exists("fit.checkpoint")


def test_a_resumed_search_knows_which_pair_its_state_is_of(path, monkeypatch):
    """The best pair is unbounded below on all entries, and the next one is used."""
    data = make_unpaired(60, n_features=(9, 8), n_labels=4, random_state=0)
    search = NAIM3LCV([0.1, 0.4], [1.0], random_state=0)
    best = clone(search).fit(data.views, data.labels).lam_
    solve = NAIM3L._solve

    def unbounded(self, problem, checkpoint=None):
        if self.lam == best:
            raise FloatingPointError
        return solve(self, problem, checkpoint)

    with monkeypatch.context() as patch, pytest.warns(ConvergenceWarning, match="the next best"):
        patch.setattr(NAIM3L, "_solve", unbounded)
        first = clone(search).fit(data.views, data.labels, checkpoint=path)
    with pytest.warns(ConvergenceWarning, match="the next best pair is used"):
        again = clone(search).fit(data.views, data.labels, checkpoint=path)
    assert again.lam_ == first.lam_ != best
    for view in first.coef_:
        np.testing.assert_array_equal(again.coef_[view], first.coef_[view])
