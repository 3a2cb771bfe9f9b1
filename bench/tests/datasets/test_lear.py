"""LEAR files written by hand, byte by byte, and files that are wrong in one way each."""

import gzip
import pickle

import numpy as np
import pytest

from naim3l_bench.datasets import open_lear, read_vectors

TYPES = {"hvecs": "<u2", "hvecs32": "<u4", "fvec": "<f4", "fvecs": "<f4"}


def vectors(X, kind, header="<u4"):
    """Bytes of a file: before each row its length."""
    length = np.array([X.shape[1]], dtype=header).tobytes()
    return b"".join(length + row.tobytes() for row in np.asarray(X, dtype=TYPES[kind]))


def table(n, d, kind, seed=0):
    """Values that fill the type, so that a wrong width or sign shows."""
    rng = np.random.default_rng(seed)
    if kind.startswith("fvec"):
        return rng.normal(size=(n, d)).astype(np.float32)
    return rng.integers(0, np.iinfo(TYPES[kind]).max, size=(n, d), endpoint=True).astype(
        TYPES[kind]
    )


@pytest.fixture
def write(tmp_path):
    def write_file(name, X, header="<u4"):
        path = tmp_path / name
        kind = name.removesuffix(".gz").rsplit(".", 1)[1]
        content = vectors(X, kind, header)
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return write_file


@pytest.fixture
def folder(write, tmp_path):
    """A small data set: two views and labels, three rows of train and two of test."""
    for part, n, seed in (("train", 3, 1), ("test", 2, 2)):
        write(f"toy_{part}_DenseHue.hvecs", table(n, 4, "hvecs", seed))
        write(f"toy_{part}_Gist.fvec", table(n, 5, "fvec", seed))
        write(f"toy_{part}_HarrisHue.hvecs", table(n, 4, "hvecs", seed))
        write(f"toy_{part}_DenseHueV3H1.hvecs", table(n, 4, "hvecs", seed))
        write(f"toy_{part}_annot.hvecs", labels(part))
    (tmp_path / "toy_dictionary.txt").write_bytes("sea\ncaf\xe9\n".encode("latin-1"))
    (tmp_path / "toy_train_list.txt").write_text("a\nb\nc\n")
    return tmp_path


def labels(part):
    return np.array({"train": [[0, 1], [1, 1], [0, 0]], "test": [[1, 0], [0, 1]]}[part])


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize(
    "kind, header",
    [("hvecs", "<u2"), ("hvecs", "<u4"), ("hvecs32", "<u4"), ("fvec", "<u4"), ("fvecs", "<u4")],
)
@pytest.mark.parametrize("n, d", [(1, 1), (7, 3), (4, 260)])
def test_values_come_back_in_their_type(write, kind, header, packed, n, d):
    X = table(n, d, kind)
    read = read_vectors(write(f"a.{kind}{packed}", X, header))
    np.testing.assert_array_equal(read, X)
    assert read.dtype == np.dtype(TYPES[kind])
    assert not read.flags.owndata and not read.flags.writeable


def test_many_sizes_leave_no_doubt_about_the_header(write):
    for n in range(1, 12):
        for d in range(1, 8):
            # Values equal to the length look like headers wherever one is looked for.
            X = np.full((n, d), d)
            for header in ("<u2", "<u4"):
                np.testing.assert_array_equal(read_vectors(write("a.hvecs", X, header)), X)


def test_a_file_that_both_headers_fit(write):
    # Words 2, 2 are a length of 16 bits and a value, or the length 131074 of 32 bits.
    X = np.full((43692, 2), 2)
    path = write("twofold.hvecs", X, "<u2")
    assert path.stat().st_size == 4 + 2 * 131074
    with pytest.raises(ValueError, match=r"twofold\.hvecs: .*16 and of 32 bits both fit"):
        read_vectors(path)


@pytest.mark.parametrize("kind", TYPES)
def test_damaged_files(write, kind):
    path = write(f"a.{kind}", table(3, 5, kind))
    whole = path.read_bytes()
    record = len(whole) // 3
    # Whole vectors are a smaller file, and 12 bytes are one vector with a length of 16 bits.
    sound = {record, 2 * record, 12 if kind == "hvecs" else record}
    for length in set(range(len(whole))) - sound:
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=rf"a\.{kind}: {length} bytes are not a whole number"):
            read_vectors(path)
    for start in range(0, len(whole), record):
        changed = bytearray(whole)
        changed[start] += 1
        path.write_bytes(changed)
        with pytest.raises(ValueError, match="not a whole number of"):
            read_vectors(path)


def test_files_of_another_kind(tmp_path, write):
    text = tmp_path / "text.hvecs"
    text.write_text("a,b\n1,2\n" * 9)
    with pytest.raises(ValueError, match=r"text\.hvecs: 72 bytes are not"):
        read_vectors(text)
    for name in ("table.csv", "table", "table.gz"):
        (tmp_path / name).write_text("1,2")
        with pytest.raises(ValueError, match=rf"{name}: the name ends in none of hvecs"):
            read_vectors(tmp_path / name)
    packed = write("cut.fvec.gz", table(30, 5, "fvec"))
    whole = packed.read_bytes()
    for content in (whole[:-9], whole[:100], b"not gzip", whole[:40] + b"\xff" * 20 + whole[60:]):
        packed.write_bytes(content)
        with pytest.raises(ValueError, match=r"cut\.fvec\.gz: not a readable \.gz file"):
            read_vectors(packed)
    with pytest.raises(FileNotFoundError):
        read_vectors(tmp_path / "absent.hvecs")


def test_a_folder(folder):
    data = open_lear("toy", folder)
    assert data.shapes == {"DenseHue": (5, 4), "Gist": (5, 5)}
    for view, kind, d in (("DenseHue", "hvecs", 4), ("Gist", "fvec", 5)):
        expected = np.vstack([table(3, d, kind, 1), table(2, d, kind, 2)])
        np.testing.assert_array_equal(data.views[view], expected)
        assert data.views[view].dtype == np.dtype(TYPES[kind])
    np.testing.assert_array_equal(data.labels, np.vstack([labels("train"), labels("test")]))
    assert data.label_names == ["sea", "café"]
    assert data.observed.all()
    assert sorted(path.name for path in data.files) == [
        "toy_dictionary.txt",
        "toy_test_DenseHue.hvecs",
        "toy_test_Gist.fvec",
        "toy_test_annot.hvecs",
        "toy_train_DenseHue.hvecs",
        "toy_train_Gist.fvec",
        "toy_train_annot.hvecs",
    ]
    copy = pickle.loads(pickle.dumps(data))
    np.testing.assert_array_equal(copy.views["Gist"], data.views["Gist"])


def test_other_case_one_part_and_compressed(folder, write):
    for path in folder.glob("toy_test_*"):
        path.unlink()
    (folder / "toy_dictionary.txt").unlink()
    (folder / "toy_train_Gist.fvec").rename(folder / "TOY_train_gist.fvec")
    write("toy_train_DenseHue.hvecs.gz", np.zeros((3, 4)))  # beside the same file uncompressed
    data = open_lear("toy", folder)
    assert data.shapes == {"DenseHue": (3, 4), "Gist": (3, 5)}
    np.testing.assert_array_equal(data.views["DenseHue"], table(3, 4, "hvecs", 1))
    assert data.label_names == ["label0", "label1"]


def test_views_of_the_paper_come_in_its_order(write, tmp_path):
    for view in ("Lab", "Rgb", "Hsv", "Gist", "DenseSift", "DenseHue", "annot"):
        write(f"toy_train_{view}.hvecs", np.eye(3))
    assert list(open_lear("toy", tmp_path).views) == [
        "DenseHue",
        "DenseSift",
        "Gist",
        "Hsv",
        "Rgb",
        "Lab",
    ]


def test_contradictions_name_the_file(folder, write):
    def fails(message):
        with pytest.raises(ValueError, match=message):
            open_lear("toy", folder)

    hue = folder / "toy_test_DenseHue.hvecs"
    good = hue.read_bytes()
    write(hue.name, table(3, 4, "hvecs"))
    fails(r"toy_test_DenseHue\.hvecs has 3 vectors of length 4, but the labels have 2 rows")
    write(hue.name, table(2, 3, "hvecs"))
    fails(r"toy_test_DenseHue\.hvecs has 2 vectors of length 3, .*DenseHue\.hvecs has length 4")
    hue.write_bytes(good[:-1])
    fails(r"toy_test_DenseHue\.hvecs: .* not a whole number")
    hue.unlink()
    fails(r"DenseHue of 'toy' is there for \['train'\], but annot, .* for \['test', 'train'\]")
    hue.write_bytes(good)
    twin = write("toy_test_DenseHue.hvecs32", table(2, 4, "hvecs"))
    fails(r"toy_test_DenseHue\.hvecs and .*toy_test_DenseHue\.hvecs32 are for the same view")
    twin.unlink()

    write("toy_test_annot.hvecs", np.array([[1, 0], [2, 0]]))
    fails(r"toy_test_annot\.hvecs.*labels holds 2 in row 4, column 0")
    write("toy_test_annot.hvecs", np.zeros((2, 3)))
    fails(r"toy_test_annot\.hvecs has 3 labels, .*toy_train_annot\.hvecs 2")
    write("toy_test_annot.hvecs", labels("test"))
    (folder / "toy_dictionary.txt").write_text("sea\n")
    fails(r"toy_dictionary\.txt: label_names has shape \(1,\), but there are 2 labels")
    for path in folder.glob("*annot*"):
        path.unlink()
    fails(r"DenseHue of 'toy' is there for .*, but annot, the labels, for \[\]")


def test_a_file_that_changes_after_the_opening(folder, write):
    data = open_lear("toy", folder)
    write("toy_test_Gist.fvec", table(4, 5, "fvec"))
    with pytest.raises(ValueError, match=r"toy_test_Gist\.fvec: view 'Gist' has shape \(7, 5\)"):
        data.views["Gist"]


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="no LEAR file of 'toy'"):
        open_lear("toy", tmp_path)
