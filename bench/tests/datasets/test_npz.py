"""Files as they should be, and files that are wrong in one way each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from naim3l_bench.datasets import open_npz, save_npz


def contents():
    """Arrays of a small, correct file."""
    return {
        "labels": np.array([[0, 1], [1, 1], [0, 0]], dtype=np.uint8),
        "label_names": np.array(["cat", "dog"]),
        "observed": np.array([[1, 1], [1, 0], [0, 1]], dtype=np.uint8),
        "view_words": np.arange(6, dtype=np.uint8).reshape(3, 2),
        "view_image": np.arange(12, dtype=np.float32).reshape(3, 4),
        "ids": np.array(["a", "b", "c"]),
    }


@pytest.fixture
def write(tmp_path):
    """Function that writes the correct file with some arrays replaced, or left out if None."""

    def write_file(**changes):
        stored = {**contents(), **changes}
        path = tmp_path / "data.npz"
        np.savez(path, **{key: array for key, array in stored.items() if array is not None})
        return path

    return write_file


def test_everything_comes_back(write):
    data = open_npz(write())
    expected = contents()
    assert list(data.views) == ["words", "image"]
    for name, X in data.views.items():
        np.testing.assert_array_equal(X, expected[f"view_{name}"])
        assert X.dtype == expected[f"view_{name}"].dtype
    np.testing.assert_array_equal(data.labels, expected["labels"])
    assert data.labels.dtype == np.int64  # unsigned labels would wrap around below zero
    assert data.label_names == ["cat", "dog"]
    np.testing.assert_array_equal(data.observed, expected["observed"].astype(bool))
    assert data.observed.dtype == bool


def test_optional_arrays_have_defaults(write):
    data = open_npz(str(write(label_names=None, observed=None)))
    assert data.label_names == ["label0", "label1"]
    assert data.observed.shape == (3, 2) and data.observed.all()


def test_view_order_arranges_the_views(write):
    data = open_npz(write(view_order=np.array(["image", "words"])))
    assert list(data.views) == ["image", "words"]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"labels": None}, "no array 'labels'"),
        ({"labels": np.array([0, 1, 1])}, r"labels has shape \(3,\)"),
        ({"labels": np.array([["0"], ["1"], ["1"]])}, "labels has shape .* of numbers"),
        ({"labels": np.array([[0, 1], [1, 2], [0, 0]])}, "labels holds 2 in row 1, column 1"),
        (
            {"labels": np.array([[0, 1], [1, 0], [np.nan, 0]])},
            "labels holds nan in row 2, column 0",
        ),
        ({"labels": np.array([[0, 1], [1, 1]])}, "view 'words' has 3 rows, but labels has 2"),
        ({"view_words": np.zeros((4, 2))}, "view 'words' has 4 rows, but labels has 3"),
        ({"view_words": np.zeros(3)}, r"view 'words' has shape \(3,\)"),
        ({"view_words": np.array([["a"]] * 3)}, "view 'words' has .* type <U1"),
        ({"view_words": np.array([[{}]] * 3)}, "not a readable .npz file .*allow_pickle"),
        ({"view_words": None, "view_image": None}, "no view"),
        ({"view_order": np.array(["image"])}, "view_order names"),
        ({"label_names": np.array(["cat"])}, r"label_names has shape \(1,\), but .* 2 labels"),
        ({"observed": np.ones((3, 3))}, r"observed has shape \(3, 3\), not \(3, 2\)"),
        ({"observed": np.full((3, 2), 2)}, "observed holds other values"),
    ],
)
def test_what_is_wrong_is_named(write, changes, message):
    with pytest.raises(ValueError, match=rf"data\.npz.*{message}"):
        open_npz(write(**changes))


def test_damaged_files(write):
    path = write()
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 61), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"data\.npz is not a readable \.npz file"):
            open_npz(path)
    flipped = bytearray(whole)
    flipped[whole.index(contents()["view_image"].tobytes())] ^= 1  # one bit of a stored value
    path.write_bytes(flipped)
    with pytest.raises(ValueError, match="not a readable"):
        open_npz(path)


def test_a_header_that_says_less_is_damage(write):
    """NumPy alone reads the smaller array, and never comes to the checksum behind it."""
    path = write(view_image=np.zeros((3, 5000)))
    path.write_bytes(path.read_bytes().replace(b"(3, 5000)", b"(2, 5000)"))
    assert len(np.load(path)["view_image"]) == 2
    path.write_bytes(path.read_bytes().replace(b"(2, 5000)", b"(3, 4000)"))
    with pytest.raises(ValueError, match="view_image has more bytes than its header says"):
        open_npz(path).views["image"]


def test_files_of_another_kind(tmp_path):
    text = tmp_path / "table.csv"
    text.write_text("a,b\n1,2\n")
    np.save(tmp_path / "array.npy", np.arange(3))
    for path in (text, tmp_path / "array.npy"):
        with pytest.raises(ValueError, match=rf"{path.name} is not a readable"):
            open_npz(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_npz(tmp_path / "absent.npz")


def test_views_are_read_when_asked_for(write):
    image = np.arange(30_000, dtype=np.float32).reshape(3, -1)
    path = write(view_image=image)
    flipped = bytearray(path.read_bytes())
    flipped[flipped.index(image.tobytes()) + image.nbytes - 1] ^= 1
    path.write_bytes(flipped)
    data = open_npz(path)  # the damage is not seen yet
    assert data.shapes == {"words": (3, 2), "image": (3, 10_000)}
    np.testing.assert_array_equal(data.views["words"], contents()["view_words"])
    with pytest.raises(ValueError, match=r"data\.npz is not a readable"):
        data.views["image"]


def test_several_files(tmp_path):
    parts = contents()
    labels, names = parts["labels"], parts["label_names"]
    first, second, third = (tmp_path / f"{name}.npz" for name in "abc")
    np.savez(first, view_xRecomputed=np.ones((3, 1)), labels=labels, observed=[[1], [0], [1]])
    np.savez(second, view_words=parts["view_words"], labels=labels, label_names=names)
    np.savez(third, view_image=parts["view_image"])
    data = open_npz(first, second, third)
    assert list(data.views) == ["words", "image", "xRecomputed"]
    np.testing.assert_array_equal(data.observed[:, 2], [True, False, True])
    assert data.observed[:, :2].all() and data.label_names == ["cat", "dog"]
    assert data.files == [second, third, first]
    assert data.select(["image", "words"]).files == [second, third]

    with pytest.raises(ValueError, match=r"c\.npz: there is no array 'labels'"):
        open_npz(third)
    with pytest.raises(ValueError, match=r"view 'words' is in .*b\.npz and in .*b\.npz"):
        open_npz(second, second)
    np.savez(third, view_image=parts["view_image"], labels=1 - labels)
    with pytest.raises(ValueError, match=r"c\.npz: labels differ from those in .*b\.npz"):
        open_npz(second, third)
    np.savez(third, view_image=parts["view_image"], label_names=["dog", "cat"])
    with pytest.raises(ValueError, match=r"label_names differ in .*b\.npz and .*c\.npz"):
        open_npz(second, third)
    np.savez(third, view_image=np.ones((4, 2)))
    with pytest.raises(ValueError, match=r"c\.npz: view 'image' has 4 rows, but labels has 3"):
        open_npz(second, third)


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_what_is_saved_comes_back(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("saved") / "data.npz"
    n, c, n_views = (data.draw(st.integers(1, high)) for high in (6, 4, 3))
    types = st.sampled_from([np.uint8, np.uint16, np.int64, np.float32, np.float64, np.bool_])
    letters = st.text("abz_é", min_size=1, max_size=3).filter(lambda name: name != "order")
    names = data.draw(st.lists(letters, min_size=n_views, max_size=n_views, unique=True))
    views = {
        name: data.draw(arrays(data.draw(types), (n, data.draw(st.integers(0, 5)))))
        for name in names
    }
    labels = data.draw(arrays(np.uint8, (n, c), elements=st.integers(0, 1)))
    observed = data.draw(arrays(np.bool_, (n, n_views)))
    label_names = [f"é{k}" for k in range(c)]
    save_npz(path, views, labels, label_names, observed)
    read = open_npz(path)
    assert list(read.views) == names and read.label_names == label_names
    for name, X in views.items():
        np.testing.assert_array_equal(read.views[name], X)
        assert read.views[name].dtype == X.dtype
    np.testing.assert_array_equal(read.labels, labels)
    np.testing.assert_array_equal(read.observed, observed)
    before = path.read_bytes()
    save_npz(path, views, labels, label_names, observed)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"views": {}}, "at least one"),
        ({"views": {"order": np.ones((2, 1))}}, "none named 'order'"),
        ({"views": {"a": np.ones((2, 1)), "b": np.ones((3, 1))}}, "view 'b' has 3 rows"),
        ({"views": {"a": np.array([["x"], ["y"]])}}, "view 'a' has .* type <U1"),
        ({"views": {"a": np.array([[None], [{}]])}}, "view 'a' has .* type object"),
        ({"labels": [[0], [3]]}, "labels holds 3 in row 1, column 0"),
        ({"label_names": ["a", "b"]}, r"label_names has shape \(2,\)"),
        ({"observed": [[1, 1], [1, 1]]}, r"observed has shape \(2, 2\)"),
    ],
)
def test_what_cannot_be_saved_leaves_the_old_file(tmp_path, changes, message):
    sound = {"views": {"a": np.ones((2, 1))}, "labels": [[0], [1]]}
    path = tmp_path / "data.npz"
    save_npz(path, **sound)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message):
        save_npz(path, **{**sound, **changes})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "name, shape, cardinality, n_features",
    [
        ("emotions", (593, 6), 1.868, {"timbre": 64, "rhythm": 8}),
        ("yeast", (2417, 14), 4.237, {"expression": 79, "phylogenetic": 24}),
        (
            "birds",
            (645, 19),
            1.014,
            {"audio_ssd": 153, "segment_clusters": 98, "segment_shape": 8, "location": 12},
        ),
        (
            "arxiv2007",
            (1810, 35),
            1.319,
            {"title": 855, "abstract": 1496, "journal": 80, "comments": 163},
        ),
    ],
)
def test_public_data_sets(shared_data, name, shape, cardinality, n_features):
    path = shared_data / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not among the real datasets")
    data = open_npz(path)
    assert data.labels.shape == shape and len(data.label_names) == shape[1]
    assert round(data.labels.sum(axis=1).mean(), 3) == cardinality
    assert {view: X.shape[1] for view, X in data.views.items()} == n_features
    assert data.observed.all() == (name != "arxiv2007")
    for X, column in zip(data.views.values(), data.observed.T, strict=True):
        assert name != "arxiv2007" or not X[~column].any()  # word counts of a missing text
