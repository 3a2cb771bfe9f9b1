"""Files that promise, or unpack to, more than they are take no more memory than they may."""

import io
import json
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from model_files import (
    array_bytes,
    assert_refused,
    leaf,
    mapping,
    named,
    plant_attributes,
    read_members,
    sequence,
    write_members,
)
from naim3l import ModelFileError, load
from naim3l.files.models import archive, inspect_file

MIB = 2**20


def peak_of(path, read=load):
    """Most bytes that were held at once while a file was read, or refused."""
    tracemalloc.start()
    try:
        read(path)
    except ModelFileError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak


def ends_of(*numbers):
    return sequence(*map(leaf, numbers))


RANGE = named("builtins.range", "ConstructorFromReduceNode", content=ends_of(0, 10**12, 1))
HUGE = {
    "columns": {"n_features_in_": mapping({"view0": leaf(10**12), "view1": leaf(4)})},
    "range": {"views": mapping({"view0": RANGE})},
    "set of a range": {
        "views": named("builtins.frozenset", "ConstructorFromReduceNode", content=sequence(RANGE))
    },
    "tuple of a set": {"views": sequence(sequence(RANGE, kind="list"), kind="tuple")},
    "wide": {"form_": leaf("wide"), "n_features_in_": leaf(10**12)},
    "array of ranges": {
        "views": named("numpy.ndarray", "NdArrayNode", type="json", content=[RANGE, RANGE],
                       shape=ends_of(2, 10**12))
    },
}  # fmt: skip


class TestSizes:
    @pytest.mark.parametrize("kind", HUGE)
    def test_numbers_of_a_file_make_nothing_large(self, kind, forge):
        path = forge(lambda tree: plant_attributes(tree, HUGE[kind]))
        assert_refused(path, "no room|range of columns|frozenset of|table of objects|blocks")
        assert peak_of(path) < 10 * MIB

    def test_ranges_of_columns_are_made(self, forge, saved):
        range_ = named("builtins.range", "ConstructorFromReduceNode", content=ends_of(2, 9, 3))
        facts = lambda told: told["parameters"].update(views="builtins.dict")  # noqa: E731
        path = forge(lambda t: plant_attributes(t, {"views": mapping({"v": range_})}), facts)
        assert load(path).views == {"v": range(2, 9, 3)}

    def test_headers_that_promise_more(self, forge):
        header = array_bytes(np.zeros(3)).replace(b"(3,), }" + b" " * 9, b"(3000000000,), }")
        assert len(header) == len(array_bytes(np.zeros(3)))
        assert_refused(forge(add={"0.npy": header}), "0.npy does not have the size")

    def test_arrays_without_cells_that_are_long(self, forge):
        empty = np.zeros((0, 10**12))
        assert_refused(forge(add={"0.npy": array_bytes(empty)}), "longer than its file has room")

    def test_one_array_used_many_times_is_there_once(self, forge, tmp_path):
        array = np.random.default_rng(0).random(100_000)
        node = named("numpy.ndarray", "NdArrayNode", type="numpy", file="big.npy")
        nodes = mapping({"view0": sequence(*[node] * 500, kind="list")})
        path = forge(
            lambda tree: plant_attributes(tree, {"init": nodes}),
            lambda told: told["parameters"].update(init="builtins.dict"),
            add={"big.npy": array_bytes(array)},
        )
        arrays = load(path).init["view0"]
        assert all(entry is arrays[0] for entry in arrays)
        assert peak_of(path) < 10 * MIB


class TestArchives:
    @pytest.mark.parametrize("name", ["../0.npy", "/etc/x.npy", "a/b.npy", "x.py", "é.npy", "npy"])
    def test_odd_names(self, name, forge):
        assert_refused(forge(add={name: b""}), "members of unexpected names")

    def test_members_of_one_name(self, saved, tmp_path):
        (tmp_path / "m").write_bytes(saved.read_bytes())
        with zipfile.ZipFile(tmp_path / "m", "a") as file, pytest.warns(UserWarning, match="Dupl"):
            file.writestr("schema.json", "{}")
        assert_refused(tmp_path / "m", "two members with the same name")

    @pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED])
    def test_other_ways_of_packing(self, kind, saved, tmp_path):
        write_members(tmp_path / "m", read_members(saved), kind)
        assert_refused(tmp_path / "m", "compressed in an unexpected way")

    @pytest.mark.parametrize("file", ["schema.json", "1.npz", "none.npy"])
    def test_members_in_a_wrong_role(self, file, forge):
        node = named("numpy.ndarray", "NdArrayNode", type="numpy", file=file)
        path = forge(lambda tree: plant_attributes(tree, {"history_": node}))
        assert_refused(path, "in a wrong role, or missing")

    def test_parts_that_refer_to_each_other(self, forge):
        node = leaf(0)
        for level in range(60):  # 10 to the power of 60 leaves, if it were followed
            again = [{"__id__": level, "__loader__": "CachedNode"}] * 9
            node = sequence(node | {"__id__": level}, *again, kind="list")
        path = forge(lambda tree: plant_attributes(tree, {"history_": node}))
        assert_refused(path, "with the fields|CachedNode")


def with_schema(members, text):
    """The members with another schema, and its checksum."""
    told = json.loads(members["naim3l.json"])
    told["sha256"]["schema.json"] = archive.sha256(text)
    return members | {"naim3l.json": json.dumps(told), "schema.json": text}


def lie_about_sizes(path):
    """Write sizes of one byte for what is compressed, in both places that an archive has them."""
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as file:
        infos = [info for info in file.infolist() if info.compress_type == zipfile.ZIP_DEFLATED]
        start = file.start_dir
    for info in infos:
        content[info.header_offset + 22 : info.header_offset + 26] = struct.pack("<I", 1)
        at = content.index(info.filename.encode(), start) - 46
        content[at + 24 : at + 28] = struct.pack("<I", 1)
    path.write_bytes(content)


class TestJson:
    @pytest.mark.parametrize("honest", [True, False], ids=["honest", "lying"])
    def test_json_that_unpacks_to_much_is_not_unpacked(self, honest, saved, tmp_path):
        text = b'{"a": "' + b" " * (20 * MIB) + b'"}'
        write_members(tmp_path / "m", with_schema(read_members(saved), text))
        if not honest:
            lie_about_sizes(tmp_path / "m")
        assert (tmp_path / "m").stat().st_size < 50_000
        assert_refused(
            tmp_path / "m", "would decompress to more" if honest else "CRC|decompress to more"
        )
        assert peak_of(tmp_path / "m") < 10 * MIB
        assert peak_of(tmp_path / "m", inspect_file) < 10 * MIB

    @pytest.mark.parametrize("unit", ['{"":0},', '{"a":[{}]},', "[],", '"ab",', "1.5,"])
    def test_json_takes_at_most_forty_times_its_length(self, unit, saved, tmp_path):
        text = ("[" + unit * (200_000 // len(unit)) + "0]").encode()
        write_members(tmp_path / "m", with_schema(read_members(saved), text))
        assert_refused(tmp_path / "m", "no mapping")
        assert peak_of(tmp_path / "m") < 40 * len(text) + MIB

    @pytest.mark.parametrize("depth", [1000, 5000])
    def test_deep_nesting(self, depth, forge, tmp_path):
        members = read_members(forge(lambda tree: plant_attributes(tree, {"history_": "HERE"})))
        before, after = json.dumps(sequence("X")).split('"X"')
        nested = before * depth + json.dumps(leaf(0)) + after * depth
        text = members["schema.json"].decode().replace('"HERE"', nested).encode()
        write_members(tmp_path / "m", with_schema(members, text))
        assert_refused(tmp_path / "m", "history_|RecursionError")

    def test_much_json_is_written_as_it_is(self, model, tmp_path):
        names = [f"label{k}" for k in range(20_000)]
        dump = io.BytesIO()
        write_members(dump, {"schema.json": json.dumps({"content": names})})
        packed = archive.pack(dump.getvalue(), {})
        with zipfile.ZipFile(io.BytesIO(packed)) as file:
            assert file.getinfo("schema.json").compress_type == zipfile.ZIP_DEFLATED
        write_members(dump, {"schema.json": json.dumps({"content": names * 10})})
        packed = archive.pack(dump.getvalue(), {})
        with zipfile.ZipFile(io.BytesIO(packed)) as file:
            assert file.getinfo("schema.json").compress_type == zipfile.ZIP_STORED


def test_an_honest_file_takes_what_is_promised(forge):
    array = np.random.default_rng(0).random((1000, 500))
    node = named("numpy.ndarray", "NdArrayNode", type="numpy", file="big.npy")
    path = forge(
        lambda tree: plant_attributes(tree, {"init": mapping({"view0": node})}),
        lambda told: told["parameters"].update(init="builtins.dict"),
        add={"big.npy": array_bytes(array)},
    )
    load(path)
    assert peak_of(path) < 4 * path.stat().st_size + 2 * MIB
