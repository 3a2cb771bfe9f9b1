"""Archives: what is written is read again, and nothing else is."""

import json
import os
import struct
import time
import tracemalloc
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from model_files import npy, zipped
from naim3l.files import archive as archives
from naim3l.files.archive import MOST_DEPTH, Archive, ModelFileError, parse_json, write_archive

FORMAT = {"format": "test", "version": 1}
CONTENT = {**FORMAT, "names": ["é\n", "b"], "nested": {"a": [1, 2.5, None, True]}}

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text() | st.floats(-1e300, 1e300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
plain_arrays = st.sampled_from(archives.DTYPES).flatmap(
    lambda dtype: arrays_of.arrays(
        dtype, arrays_of.array_shapes(min_dims=0, min_side=0, max_dims=3)
    )
)


def read(path, **options):
    """Everything in an archive."""
    options = {"format": "test", "newest_version": 1} | options
    with Archive(path, **options) as archive:
        arrays = [archive.array(i) for i in range(archive.n_arrays)]
        guests = [archive.guest(i) for i in range(archive.n_guests)]
        archive.check_all_read()
        return archive.document, arrays, guests


def same(one, other):
    """Whether contents are equal, including types, order of memory, and NaN."""
    alike = one[0] == other[0] and one[2] == other[2] and len(one[1]) == len(other[1])
    return alike and all(
        (a.dtype, a.shape, a.tobytes("A"), a.flags.c_contiguous)
        == (b.dtype, b.shape, b.tobytes("A"), b.flags.c_contiguous)
        for a, b in zip(one[1], other[1], strict=True)
    )


def zip_of(members, kind=zipfile.ZIP_STORED):
    return zipped(members, kind)


def archive_of(*arrays, document=FORMAT):
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    members = [(f"arrays/{i}.npy", array) for i, array in enumerate(arrays)]
    return zip_of([("naim3l.json", text), *members])


@pytest.fixture
def small(tmp_path):
    """A small archive with everything in it."""
    path = tmp_path / "small"
    write_archive(path, CONTENT, [np.arange(3.0), np.array([True, False])], [b"opaque"])
    return path


@given(values, st.lists(plain_arrays, max_size=3), st.lists(st.binary(max_size=9), max_size=2))
def test_what_is_written_is_read_and_equal_contents_give_equal_bytes(
    tmp_path_factory, value, arrays, guests
):
    path = tmp_path_factory.mktemp("archive") / "file"
    document = {**FORMAT, "value": value}
    write_archive(path, document, arrays, guests)
    first = path.read_bytes()
    found = read(path)
    assert same(found, (document, arrays, guests))
    write_archive(path, *found)
    assert path.read_bytes() == first
    assert zipfile.ZipFile(path).testzip() is None  # an ordinary zip file


def test_arrays_keep_their_order_of_memory_and_are_stored_little_endian(tmp_path):
    A = np.arange(12.0).reshape(3, 4)
    write_archive(tmp_path / "a", FORMAT, [A, A.T, A[:, ::2], A.astype(">f8"), np.array(2.0)])
    found = read(tmp_path / "a")[1]
    for array, stored in zip([A, A.T, A[:, ::2], A, np.array(2.0)], found, strict=True):
        np.testing.assert_array_equal(stored, array)
        assert stored.dtype == "<f8" and stored.flags.writeable
    assert found[1].flags.f_contiguous
    with np.load(tmp_path / "a") as plain:  # NumPy reads them, too
        np.testing.assert_array_equal(plain["arrays/1"], A.T)


def test_a_truncated_file_is_refused(small):
    content = small.read_bytes()
    for length in range(len(content)):
        small.write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            read(small)


def test_a_changed_byte_is_refused_or_harmless(small):
    content, before = small.read_bytes(), read(small)
    for position in range(len(content)):
        for change in (0x01, 0xFF):
            changed = bytearray(content)
            changed[position] ^= change
            small.write_bytes(changed)
            try:
                found = read(small)
            except ModelFileError as error:
                assert str(error).startswith(f"{small}: ")
            else:  # a member that is not found any more is missed by whoever refers to it
                n = len(found[1])
                assert same(found, (before[0], before[1][:n], before[2][: len(found[2])]))


@pytest.mark.parametrize(
    "array",
    [np.ma.zeros(2), [1.0], np.zeros(2, [("a", float)])]
    + [np.zeros(2, dtype) for dtype in ("O", "U1", "S1", "g", "c16", "f2", "M8[s]")],
)
def test_only_plain_arrays_can_be_written(tmp_path, array):
    with pytest.raises(TypeError, match="stored"):
        write_archive(tmp_path / "a", FORMAT, [array])
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("document", [{"a": (1,)}, {1: 2}, {"a": float("nan")}, {"a": {1, 2}}])
def test_documents_that_json_would_change_cannot_be_written(tmp_path, document):
    with pytest.raises((TypeError, ValueError)):
        write_archive(tmp_path / "a", document)


def changed_local_header(content, at, value):
    return content[:at] + value + content[at + len(value) :]


def overlapping():
    """Members that share their bytes: each entry of the directory points to the first member."""
    content = zip_of([("naim3l.json", json.dumps(FORMAT)), ("arrays/0.npy", npy())])
    start = content.index(b"PK\x01\x02")
    second = content.index(b"PK\x01\x02", start + 4)
    return changed_local_header(content, second + 42, struct.pack("<L", 0))


def encrypted():
    content = archive_of()
    start = content.index(b"PK\x01\x02")
    content = changed_local_header(content, 6, b"\x01\x00")
    return changed_local_header(content, start + 8, b"\x01\x00")


DEEP = b"[" * 10_000_000
REFUSED = {
    "empty": (b"", "is empty"),
    "a pickle": (b"\x80\x04K\x01.", "not a file of naim3l"),
    "no member": (zip_of([]), "its first member is not naim3l.json"),
    "other members": (zip_of([("a.txt", "a")]), "its first member is not naim3l.json"),
    "an extra member": (zip_of([("naim3l.json", json.dumps(FORMAT)), ("a", "")]), "'a'"),
    "a missing number": (
        zip_of([("naim3l.json", json.dumps(FORMAT)), ("arrays/1.npy", npy())]),
        "arrays/1.npy",
    ),
    "a path": (zip_of([("naim3l.json", json.dumps(FORMAT)), ("../../a\x1b[1m", "")]), r"\\x1b\[1m"),
    "overlapping members": (overlapping(), "overlap|File name in directory"),
    "encrypted": (encrypted(), "compressed or encrypted"),
    "compressed": (
        zip_of([("naim3l.json", " " * 10**6)], zipfile.ZIP_DEFLATED),
        "compressed or encrypted",
    ),
    "wrong checksum": (archive_of().replace(b'"test"', b'"tess"'), "Bad CRC-32"),
    "another format": (archive_of(document={"format": "else", "version": 1}), "'else'"),
    "version True": (archive_of(document={"format": "test", "version": True}), "is True"),
    "a list": (archive_of(document=b"[]"), "not a mapping"),
    "NaN": (archive_of(document=b'{"a":NaN}'), "'NaN', which is not a finite number"),
    "1e999": (archive_of(document=b'{"a":1e999}'), "'1e999', which is not a finite number"),
    "many digits": (archive_of(document=b'{"a":%s}' % (b"1" * 5000)), "JSON is damaged"),
    "not JSON": (archive_of(document=b'{"a":'), "JSON is damaged"),
    "not ASCII": (archive_of(document='{"é":1}'.encode()), "JSON is damaged"),
    "deep": (archive_of(document=DEEP), f"more than {MOST_DEPTH} levels"),
    "no array": (archive_of(b"not an array"), "arrays/0.npy is not an array"),
    "negative size": (archive_of(npy(shape="(-1, -2)")), "not an array of plain numbers"),
    "too short": (archive_of(npy(shape="(3,)")), "has 16 bytes, not 24"),
    "too long": (archive_of(npy(shape="(1,)")), "has 16 bytes, not 8"),
    "absurd shape": (archive_of(npy(shape="(4294967296, 4294967296)")), "has 16 bytes"),
    "absurd and empty": (
        archive_of(npy(shape="(0, 1152921504606846976)", data=b"")),
        "without elements",
    ),
    "many dimensions": (archive_of(npy(shape=f"({'1, ' * 40}2)")), "41 dimensions"),
    "a huge header": (archive_of(npy(shape=f"(2,{' ' * 60_000})")), "has a header of"),
    "a hard header": (archive_of(npy(shape=f"({'1' * 4000}x)")), "plain numbers"),
    "odd truth values": (archive_of(npy("|b1", "(2,)", b"\x01\x02")), "neither True nor False"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_was_not_written_by_this_package_is_refused(tmp_path, kind):
    content, reason = REFUSED[kind]
    path = tmp_path / "file\x1b[1m"
    path.write_bytes(content)
    start = time.perf_counter()
    with pytest.raises(ModelFileError, match=reason) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}/file\\x1b[1m: ") and message.endswith(".")
    assert "\x1b" not in message and len(message) < 1000
    assert time.perf_counter() - start < 5


def test_an_array_is_read_once(small):
    with Archive(small, format="test", newest_version=1) as archive:
        assert archive.header(0)[:2] == (np.dtype(float), (3,))
        with pytest.raises(ModelFileError, match="nothing in it refers to arrays"):
            archive.check_all_read()
        archive.array(0)
        with pytest.raises(ModelFileError, match=r"refers to arrays/0\.npy twice"):
            archive.array(0)
        with pytest.raises(ModelFileError, match=r"no arrays/-1.npy"):
            archive.array(-1)


def test_an_array_has_the_header_that_was_checked(small):
    with Archive(small, format="test", newest_version=1) as archive:
        header = archive.header(0)
        small.write_bytes(small.read_bytes().replace(b"(3,)", b"(1,)"))
        with suppress(ModelFileError):
            assert archive.array(0).shape == header.shape


def test_pipes_folders_and_missing_files_do_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, reason in {"pipe": "a pipe or a device", ".": "is a folder"}.items():
        with pytest.raises(ModelFileError, match=reason):
            read(tmp_path / name)
    with pytest.raises(ModelFileError, match="a pipe or a device"):
        read("/dev/zero")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "missing")
    assert not [fd for fd in os.listdir("/proc/self/fd") if _is_ours(fd, tmp_path)]


def _is_ours(descriptor, folder):
    with suppress(OSError):
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(folder))


@given(st.text('[]{}"\\,:1 a', max_size=30))
def test_nesting_is_measured_as_a_parser_meets_it(text):
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    deepest, stack = 0, [(parsed, 0)]
    while stack:
        value, depth = stack.pop()
        inner = value.values() if isinstance(value, dict) else value
        if isinstance(value, dict | list):
            deepest = max(deepest, depth + 1)
            stack += [(item, depth + 1) for item in inner]
    for most in range(4):
        try:
            parse_json(text.encode(), most)
        except ValueError as error:
            nested = "levels deep" in str(error)
            assert nested or not isinstance(parsed, dict) or "twice" in str(error)
            assert not nested or parsed is None or deepest > most
        else:
            assert deepest <= most


# Documents that take most memory for their size.
HUNGRY = {
    "empty mappings": b'{"a":[' + b"{}," * 300_000 + b"{}]}",
    "small mappings": b'{"a":[' + b'{"b":0},' * 120_000 + b"{}]}",
    "empty lists": b'{"a":[' + b"[]," * 300_000 + b"[]]}",
    "keys": b"{" + b",".join(b'"%x":0' % i for i in range(100_000)) + b"}",
    "brackets": b"[" * 1_000_000,
    "backslashes": b'{"a":"' + b"\\\\" * 500_000 + b'"}',
}
# Entries of a directory, without the members that they are of.
ENTRIES = struct.pack("<4s6H3L5H2L", b"PK\x01\x02", *[0] * 16) * 20_000
DIRECTORY = ENTRIES + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 9, 9, len(ENTRIES), 0, 0)
HUNGRY_FILES = {"directory": DIRECTORY} | {
    kind: archive_of(document=text) for kind, text in HUNGRY.items()
}


@pytest.mark.parametrize("kind", HUNGRY_FILES)
def test_memory_is_a_small_multiple_of_the_file(tmp_path, kind):
    (tmp_path / "file").write_bytes(HUNGRY_FILES[kind])
    tracemalloc.start()
    with suppress(ModelFileError):
        Archive(tmp_path / "file", format="test", newest_version=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 2**20 + 40 * len(HUNGRY_FILES[kind])  # promised: 64 MiB and 50 times its size
