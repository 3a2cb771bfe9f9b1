"""MATLAB files written for the purpose, and files that are wrong in one way each."""

import h5py
import numpy as np
import pytest
from scipy import sparse
from scipy.io import savemat

from naim3l_bench.datasets import open_six_view, open_view_files
from naim3l_bench.datasets.mat import list_variables, read_variable

LENGTHS = [100, 1000, 512, 40, 40, 40]
LABELS = np.array([[0, 1], [1, 1], [0, 0], [1, 0], [0, 1]])
HEADER = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"


def cell(entries, column=False):
    """Array that is written as a cell, 1 x n or n x 1."""
    out = np.empty(len(entries), dtype=object)
    out[:] = entries
    return out[:, None] if column else out[None, :]


def tables(n=5, lengths=LENGTHS):
    rng = np.random.default_rng(0)
    return [rng.integers(0, 200, size=(n, d)).astype(np.uint8) for d in lengths]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("turned_labels", [False, True])
@pytest.mark.parametrize("turned", [(), (0, 1, 2, 3, 4, 5), (1, 4)])
def test_six_views_either_way_round(tmp_path, turned, turned_labels, column, compressed):
    path = tmp_path / "corel5k_six_view.mat"
    written = [X.T if v in turned else X for v, X in enumerate(tables())]
    Y = LABELS.T if turned_labels else LABELS
    savemat(path, {"X": cell(written, column), "label": Y}, do_compression=compressed)
    data = open_six_view(path)
    assert list(data.views) == ["DenseHue", "DenseSift", "Gist", "view4", "view5", "view6"]
    for X, read in zip(tables(), data.views.values(), strict=True):
        np.testing.assert_array_equal(read, X)
        assert read.dtype == np.uint8
    np.testing.assert_array_equal(data.labels, LABELS)
    assert data.files == [path]


@pytest.mark.parametrize(
    "labels", [2 * LABELS - 1, LABELS.astype(bool), LABELS.astype(float), sparse.csc_array(LABELS)]
)
def test_values_of_labels(tmp_path, labels):
    path = tmp_path / "a.mat"
    savemat(path, {"X": cell([sparse.csc_array(np.eye(5, 7)), np.ones((5, 3))]), "label": labels})
    data = open_six_view(path)
    np.testing.assert_array_equal(data.labels, LABELS)
    np.testing.assert_array_equal(data.views["view1"], np.eye(5, 7))


def test_names_go_by_length_only_where_it_is_unique(tmp_path):
    savemat(tmp_path / "a.mat", {"X": cell(tables(5, [100, 512, 100, 6])), "label": LABELS})
    assert list(open_six_view(tmp_path / "a.mat").views) == ["view1", "Gist", "view3", "view4"]


@pytest.mark.parametrize(
    "contents, message",
    [
        ({"X": cell(tables())}, r"there are \['X'\], but not cell X and matrix label"),
        ({"label": LABELS}, r"there are \['label'\], but not"),
        ({"X": np.ones((5, 4)), "label": LABELS}, "X is of class double, not a cell"),
        ({"X": cell(["ab", "cd"]), "label": LABELS}, "entry 1 of cell X is not a matrix of num"),
        ({"X": cell(tables(4)), "label": LABELS}, "no number of rows in common"),
        ({"X": cell([*tables(), np.ones((4, 9))]), "label": LABELS}, "no number of rows in common"),
        ({"X": cell([*tables(), np.ones((5, 5))]), "label": LABELS}, "cannot be told apart"),
        ({"X": cell([np.ones((5, 2))] * 2), "label": LABELS}, "cannot be told apart"),
        ({"X": cell(tables()), "label": np.eye(5)}, "cannot be told apart"),
        ({"X": cell(tables()), "label": LABELS * 3}, "labels holds 3 in row 0, column 1"),
        ({"X": cell(tables()), "label": LABELS - 1}, "labels holds -1 in row 0, column 0"),
        ({"X": cell(tables()), "label": np.where(LABELS, 1, np.nan)}, "labels holds nan"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, contents, message):
    savemat(tmp_path / "a.mat", contents)
    with pytest.raises(ValueError, match=rf"a\.mat: .*{message}"):
        open_six_view(tmp_path / "a.mat")


def test_damaged_and_foreign_files(tmp_path):
    path = tmp_path / "a.mat"
    lengths = [3, 4, 6]
    for compressed in (False, True):
        contents = {"X": cell(tables(5, lengths)), "label": LABELS}
        savemat(path, contents, do_compression=compressed)
        whole = path.read_bytes()
        for length in [*range(0, len(whole), 37), len(whole) - 1]:
            path.write_bytes(whole[:length])
            with pytest.raises(ValueError, match=r"a\.mat"):
                open_six_view(path)
    for content in (b"", b"a,b\n1,2\n" * 40, bytes(500), b"\x89HDF\r\n\x1a\n" * 40):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.mat"):
            open_six_view(path)
    with pytest.raises(FileNotFoundError):
        open_six_view(tmp_path / "absent.mat")


def write_parts(folder, changes=()):
    """Per-view files of every kind: two files, one file of two variables, transposed, whole."""
    X = dict(zip(("DenseHue", "Gist", "Lab"), tables(5, [4, 6, 7]), strict=True))
    files = {
        "toy_train_DenseHue.mat": {"features": X["DenseHue"][:3]},
        "toy_test_DenseHue.mat": {"features": X["DenseHue"][3:]},
        "toy_gist.mat": {"x_test": X["Gist"][3:].T, "x_train": X["Gist"][:3].T, "about": "gist"},
        "toy_train_LAB.mat": {"a": X["Lab"][:3]},
        "toy_test_LAB.mat": {"b": X["Lab"][3:]},
        "toy_train_annot.mat": {"annot": LABELS[:3]},
        "toy_test_annot.mat": {"annot": LABELS[3:]},
        "toy_train_HarrisHue.mat": {"features": np.ones((9, 9))},
        **dict(changes),
    }
    for name, contents in files.items():
        if contents is not None:
            savemat(folder / name, contents)
    return X


def test_a_file_per_view(tmp_path):
    X = write_parts(tmp_path)
    data = open_view_files("toy", tmp_path)
    assert data.shapes == {"DenseHue": (5, 4), "Gist": (5, 6), "Lab": (5, 7)}
    for view, expected in X.items():
        np.testing.assert_array_equal(data.views[view], expected)
        assert data.views[view].dtype == np.uint8
    np.testing.assert_array_equal(data.labels, LABELS)
    assert len(data.files) == 7
    assert len(data.select(["Gist"]).files) == 3


def test_whole_views(tmp_path):
    X = tables(5, [4, 6])
    for name, table in zip(("Hsv", "Rgb", "labels"), [*X, 2 * LABELS - 1], strict=True):
        savemat(tmp_path / f"toy_{name}.mat", {"values": table})
    data = open_view_files("toy", tmp_path)
    assert list(data.views) == ["Hsv", "Rgb"]
    np.testing.assert_array_equal(data.views["Rgb"], X[1])
    np.testing.assert_array_equal(data.labels, LABELS)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"toy_train_DenseHue.mat": None}, "DenseHue has 1 parts, but the labels 2"),
        (
            {"toy_train_annot.mat": None, "toy_test_annot.mat": None},
            "'toy' needs .mat files of the labels",
        ),
        (
            {"toy_train_DenseHue.mat": {"a": np.ones((3, 4)), "b": np.ones((3, 4))}},
            r"toy_train_DenseHue\.mat: among the matrices \['a', 'b'\]",
        ),
        ({"toy_train_DenseHue.mat": {"a": "text"}}, r"DenseHue\.mat: among the matrices \[\]"),
        (
            {"toy_train_DenseHue.mat": {"a": np.ones((3, 9))}},
            r"DenseHue\.mat and .*DenseHue\.mat: .*has shape \(3, 9\).*has shape \(2, 4\)",
        ),
        ({"toy_train_DenseHue.mat": {"a": np.ones((8, 4))}}, "no number of rows in common"),
        ({"toy_DenseHue.mat": {"a": np.ones((5, 4))}}, "a view is there whole and in parts"),
        (
            {"toy_train_label.mat": {"a": LABELS[:3]}},
            r"toy_train_annot\.mat and .*toy_train_label\.mat are for the same view",
        ),
        (
            {"toy_train_annot.mat": {"a": LABELS[:3] * 5}},
            r"toy_train_annot\.mat.*labels holds 5 in row 0, column 1",
        ),
    ],
)
def test_contradictions_between_files(tmp_path, changes, message):
    write_parts(tmp_path, changes)
    with pytest.raises(ValueError, match=message):
        open_view_files("toy", tmp_path)


def test_version_7_3(tmp_path):
    path = tmp_path / "a.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        references = []
        for v, X in enumerate(tables()):
            stored = file.create_dataset(f"#refs#/{v}", data=X.T)
            stored.attrs["MATLAB_class"] = np.bytes_("uint8")
            references.append(stored.ref)
        # A cell of 6 x 1 has shape (1, 6) in the file: the axes are reversed.
        stored = file.create_dataset("X", data=np.array([references], dtype=h5py.ref_dtype))
        stored.attrs["MATLAB_class"] = np.bytes_("cell")
        stored = file.create_dataset("other", data=np.array([[1, 4], [2, 5], [3, 6]]))
        stored.attrs["MATLAB_class"] = np.bytes_("int64")
        columns = sparse.csc_array(LABELS)
        group = file.create_group("label")
        group.attrs["MATLAB_sparse"] = np.uint64(5)
        group.attrs["MATLAB_class"] = np.bytes_("double")
        group["data"], group["ir"], group["jc"] = columns.data, columns.indices, columns.indptr
    with path.open("r+b") as raw:
        raw.write(HEADER)
    data = open_six_view(path)
    for X, read in zip(tables(), data.views.values(), strict=True):
        np.testing.assert_array_equal(read, X)
        assert read.dtype == np.uint8
    np.testing.assert_array_equal(data.labels, LABELS)
    variables = {variable.name: variable for variable in list_variables(path)}
    assert {name: variable[2:] for name, variable in variables.items()} == {
        "X": ((6, 1), "cell"),
        "label": ((5, 2), "sparse"),
        "other": ((2, 3), "int64"),
    }
    np.testing.assert_array_equal(read_variable(variables["other"]), [[1, 2, 3], [4, 5, 6]])
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(ValueError, match=r"a\.mat: not a readable \.mat file"):
        open_six_view(path)


def test_cells_of_other_shapes_and_in_cells(tmp_path):
    path = tmp_path / "a.mat"
    savemat(path, {"X": cell([cell([np.ones((5, 3))])]), "label": LABELS})
    with pytest.raises(ValueError, match="entry 1 of cell X is not a matrix of numbers"):
        open_six_view(path)
    savemat(path, {"X": cell([np.ones((5, 3)), np.empty((0, 0))]), "label": LABELS})
    with pytest.raises(ValueError, match="no number of rows in common"):
        open_six_view(path)
