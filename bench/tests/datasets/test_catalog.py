"""Opening by name, whatever form the data have, and the facts of the catalogue."""

import hashlib

import numpy as np
import pytest
from scipy.io import savemat

from naim3l.datasets import load_yeast
from naim3l_bench.datasets import (
    CATALOG,
    MultiView,
    StoredView,
    available,
    check_dataset,
    open_dataset,
    save_npz,
)

LABELS = np.array([[0, 1], [1, 1], [0, 0], [1, 0], [0, 1]])
TABLE = np.arange(20, dtype=np.uint16).reshape(5, 4)


def write_npz(folder):
    save_npz(folder / "corel5k.npz", {"DenseHue": TABLE}, LABELS)


def write_npz_parts(folder):
    save_npz(folder / "corel5k_b.npz", {"DenseHue": TABLE}, LABELS)
    save_npz(folder / "corel5k_a.npz", {"HsvRecomputed": TABLE}, LABELS)


def write_lear(folder):
    for what, table in (("DenseHue", TABLE), ("annot", LABELS)):
        for part, rows in (("train", slice(0, 3)), ("test", slice(3, 5))):
            words = np.insert(table[rows], 0, table.shape[1], axis=1).astype("<u2")
            (folder / f"corel5k_{part}_{what}.hvecs").write_bytes(words.tobytes())


def write_six_view(folder):
    cell = np.empty((1, 1), dtype=object)
    cell[0, 0] = TABLE
    savemat(folder / "corel5k_six_view.mat", {"X": cell, "label": LABELS})


def write_view_files(folder):
    savemat(folder / "corel5k_DenseHue.mat", {"train_x": TABLE[:3], "test_x": TABLE[3:]})
    savemat(folder / "corel5k_annot.mat", {"train_y": LABELS[:3], "test_y": LABELS[3:]})


# In order of preference.
FORMS = {
    ".npz (corel5k.npz)": write_npz,
    ".npz (corel5k_a.npz, corel5k_b.npz)": write_npz_parts,
    "LEAR (corel5k_test_DenseHue.hvecs, corel5k_test_annot.hvecs and 2 more)": write_lear,
    "six-view .mat (corel5k_six_view.mat)": write_six_view,
    "per-view .mat (corel5k_DenseHue.mat, corel5k_annot.mat)": write_view_files,
}


@pytest.mark.parametrize("below", ["", "corel5k"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_opens_and_converts(tmp_path, form, below):
    (tmp_path / below).mkdir(exist_ok=True)
    FORMS[form](tmp_path / below)
    assert available(tmp_path) == {"corel5k": form, "yeast": "shipped with the package"}
    data = open_dataset("corel5k", tmp_path)
    X = next(iter(data.views.values()))
    np.testing.assert_array_equal(X, TABLE)
    assert X.dtype == np.uint16
    np.testing.assert_array_equal(data.labels, LABELS)
    assert all(path.parent == tmp_path / below for path in data.files)

    copied = data.views, data.labels, data.label_names, data.observed
    save_npz(tmp_path / "copy.npz", *copied)
    copy = open_dataset("copy", str(tmp_path))
    assert list(copy.views) == list(data.views) and copy.label_names == data.label_names
    for name in data.views:
        np.testing.assert_array_equal(copy.views[name], data.views[name])
        assert copy.views[name].dtype == data.views[name].dtype
    np.testing.assert_array_equal(copy.labels, data.labels)
    np.testing.assert_array_equal(copy.observed, data.observed)


def test_forms_are_preferred_in_order(tmp_path):
    for form, write in reversed(FORMS.items()):
        write(tmp_path)
        assert available(tmp_path)["corel5k"] == form


def test_genuine_views(tmp_path):
    write_npz_parts(tmp_path)
    assert list(open_dataset("corel5k", tmp_path).views) == ["DenseHue", "HsvRecomputed"]
    data = open_dataset("corel5k-genuine", tmp_path)
    assert list(data.views) == ["DenseHue"] and data.observed.shape == (5, 1)
    assert [path.name for path in data.files] == ["corel5k_b.npz"]
    (tmp_path / "corel5k_a.npz").unlink()
    assert list(open_dataset("corel5k-genuine", tmp_path).views) == ["DenseHue"]
    save_npz(tmp_path / "corel5k.npz", {"HsvRecomputed": TABLE}, LABELS)
    with pytest.raises(ValueError, match=r"corel5k\.npz: all of the views .* are stand-ins"):
        open_dataset("corel5k-genuine", tmp_path)


def test_parts_with_other_labels(tmp_path):
    write_npz_parts(tmp_path)
    save_npz(tmp_path / "corel5k_c.npz", {"Lab": TABLE}, 1 - LABELS)
    with pytest.raises(ValueError, match=r"corel5k_c\.npz: labels differ .*corel5k_b\.npz"):
        open_dataset("corel5k", tmp_path)


def test_two_six_view_files(tmp_path):
    write_six_view(tmp_path)
    (tmp_path / "corel5k.mat").write_bytes(b"")
    with pytest.raises(ValueError, match=r"corel5k\.mat and .*six_view\.mat are for the same"):
        open_dataset("corel5k", tmp_path)


def test_nothing_found_says_what_and_where(tmp_path):
    (tmp_path / "espgame").mkdir()
    (tmp_path / "espgame_notes.txt").write_text("")
    with pytest.raises(FileNotFoundError) as error:
        open_dataset("espgame-genuine", tmp_path)
    for text in (
        f"{tmp_path} and {tmp_path / 'espgame'}.",
        "espgame.npz",
        "espgame_<part>_<View>.hvecs",
        "espgame_six_view.mat",
        "espgame_<View>.mat",
        "lear.inrialpes.fr",
        "no licence is stated",
    ):
        assert text in str(error.value)
    with pytest.raises(FileNotFoundError, match="a folder that holds it is needed"):
        open_dataset("espgame")
    for function in (available, lambda folder: open_dataset("yeast", folder)):
        with pytest.raises(FileNotFoundError, match="absent' is not a folder"):
            function(tmp_path / "absent")


def test_yeast_needs_no_folder(tmp_path):
    for data in (open_dataset("yeast"), open_dataset("yeast", tmp_path)):
        for name, X in load_yeast().views.items():
            np.testing.assert_array_equal(data.views[name], X)
        assert all(check.ok for check in check_dataset("yeast", data))
        assert data.digest == open_dataset("yeast").digest
    assert list(available()) == ["yeast"]
    save_npz(tmp_path / "yeast.npz", {"own": TABLE}, LABELS)
    assert list(open_dataset("yeast", tmp_path).views) == ["own"]


def test_digest_is_of_names_and_contents(tmp_path):
    write_npz_parts(tmp_path)
    data = open_dataset("corel5k", tmp_path)
    sha = hashlib.sha256()
    for name in ("corel5k_b.npz", "corel5k_a.npz"):
        content = (tmp_path / name).read_bytes()
        sha.update(f"{name}\0{len(content)}\0".encode() + content)
    assert data.digest == sha.hexdigest()
    before = data.select(["DenseHue"]).digest
    (tmp_path / "corel5k_a.npz").unlink()
    assert data.digest == sha.hexdigest()  # computed once
    assert open_dataset("corel5k", tmp_path).digest == before
    (tmp_path / "corel5k_b.npz").rename(tmp_path / "corel5k_c.npz")
    assert open_dataset("corel5k", tmp_path).digest != before


def test_views_can_be_selected():
    views = {name: StoredView.in_memory(TABLE + v) for v, name in enumerate("abc")}
    observed = np.eye(5, 3)
    data = MultiView(views, LABELS, observed=observed).select(["c", "a"])
    assert list(data.views) == ["c", "a"] and "b" not in data.views
    np.testing.assert_array_equal(data.views["c"], TABLE + 2)
    np.testing.assert_array_equal(data.observed, observed[:, [2, 0]])
    assert (data.n_samples, data.n_labels) == (5, 2)
    for names in ([], ["a", "a"], ["b"], "ab"):
        with pytest.raises(ValueError, match="view_names="):
            data.select(names)
    with pytest.raises(ValueError, match="there is no view"):
        MultiView({}, LABELS)


def test_check_finds_what_differs():
    """Labels with the facts of Pascal07, then each of them spoilt."""
    facts = CATALOG["pascal07"]
    n, c = facts.n_samples, facts.n_labels
    labels = np.zeros((n, c), dtype=int)
    labels[np.arange(n), np.arange(n) % c] = 1
    extra = round(facts.labels_per_row * n) - n
    labels[np.arange(extra), (np.arange(extra) + 1) % c] = 1

    def failed(labels):
        X = StoredView.in_memory(np.zeros((len(labels), 1)))
        checks = check_dataset("pascal07-genuine", MultiView({"a": X}, labels))
        assert [check.fact for check in checks] == [
            "n_samples",
            "n_labels",
            "labels_per_row",
            "train_rank",
            "test_rank",
        ]
        return [check.fact for check in checks if not check.ok]

    assert failed(labels) == []
    assert failed(labels[:-1]) == ["n_samples"]
    assert failed(np.hstack([labels, labels[:, :1] * 0])) == ["n_labels"]
    assert failed(np.roll(labels, 1, axis=1) | labels) == ["labels_per_row"]
    lower = labels.copy()
    lower[:, :4] = 0
    assert failed(lower) == ["labels_per_row", "train_rank", "test_rank"]
    with pytest.raises(ValueError, match="name='other'; one of"):
        check_dataset("other", open_dataset("yeast"))


def test_ranks_are_medians_over_splits(rng):
    """Against the singular values of the rows themselves, on labels whose ranks vary by split."""
    labels = (rng.random((60, 30)) < rng.random(30) ** 4).astype(int)
    ranks = []
    for seed in range(11):
        order = np.random.default_rng(seed).permutation(60)
        ranks.append([np.linalg.matrix_rank(labels[rows]) for rows in (order[:42], order[42:])])
    assert len(set(map(tuple, ranks))) > 2
    data = MultiView({"a": StoredView.in_memory(labels)}, labels)
    found = [check.found for check in check_dataset("corel5k", data)[3:]]
    assert found == np.median(ranks, axis=0).tolist()


def test_the_catalogue_is_complete():
    paper = {name: facts for name, facts in CATALOG.items() if facts.lam is not None}
    assert list(paper) == ["corel5k", "espgame", "iaprtc12", "mirflickr", "pascal07"]
    for facts in CATALOG.values():
        assert facts.title and facts.origin
        assert 0 < facts.labels_per_row < facts.n_labels < facts.n_samples
        assert (facts.train_rank is None) == (facts.lam is None) == (facts.test_rank is None)
    assert {facts.origin for facts in paper.values()} == {paper["corel5k"].origin}


def test_corel5k(shared_data):
    if "corel5k" not in available(shared_data):
        pytest.skip("no Corel5k among the real datasets")
    data = open_dataset("corel5k", shared_data)
    assert all(check.ok for check in check_dataset("corel5k", data))
    assert data.labels.shape == (4999, 260) and round(data.labels.sum() / 4999, 3) == 3.396
    genuine = open_dataset("corel5k-genuine", shared_data)
    assert sorted(genuine.views) == ["DenseHue", "DenseSift", "Lab", "Rgb"]
    assert list(data.views) == [*genuine.views, "GistRecomputed", "HsvRecomputed"]
    lengths = dict(DenseHue=100, DenseSift=1000, Lab=4096, Rgb=4096, HsvRecomputed=4096)
    assert {name: d for name, (_, d) in data.shapes.items()} == {**lengths, "GistRecomputed": 512}
    hue = data.views["DenseHue"]
    assert hue.shape == (4999, 100) and hue.dtype == np.uint16
    assert data.views["GistRecomputed"].dtype == np.float32
    assert data.label_names == genuine.label_names and "sky" in data.label_names
    assert data.digest != genuine.digest


@pytest.mark.parametrize("name", ["yeast", "emotions", "birds", "arxiv2007"])
def test_facts_of_the_other_data_sets(shared_data, name):
    if name not in available(shared_data):
        pytest.skip(f"no {name} among the real datasets")
    checks = check_dataset(name, open_dataset(name, shared_data))
    assert len(checks) == 3 and all(check.ok for check in checks)
