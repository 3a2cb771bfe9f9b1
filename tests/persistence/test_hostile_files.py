"""Files made to do harm run nothing, and take no more memory than they may."""

import io
import json
import pickle
import zipfile

import numpy as np
import pytest
import skops.io

from model_files import (
    Payload,
    array_bytes,
    assert_refused,
    attacks,
    attributes,
    leaf,
    named,
    read_members,
    sequence,
    write_members,
)
from naim3l import ModelFileError, load
from naim3l.persistence import archive


class TestHostileFiles:
    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_pickles(self, protocol, tmp_path):
        (tmp_path / "m").write_bytes(pickle.dumps(Payload(tmp_path / "ran"), protocol))
        assert_refused(tmp_path / "m", "pickle" if protocol > 1 else "not a model file")
        assert not (tmp_path / "ran").exists()

    @pytest.mark.parametrize("kind", attacks(""))
    @pytest.mark.parametrize("place", ["root", "attribute", "transformer", "new"])
    def test_types_that_would_run(self, kind, place, forge, tmp_path):
        node = attacks(tmp_path / "ran")[kind]

        def plant(tree):
            if place == "root":
                return node | {"protocol": 0 if kind == "old function" else tree["protocol"]}
            if kind == "old function":
                tree["protocol"] = 0
            if place == "transformer":
                attributes(tree)["transformers_"]["content"]["view0"] = node
            else:
                attributes(tree)["history_" if place == "attribute" else "extra"] = node

        path = forge(plant)
        assert_refused(path, "not known to be harmless|not a complete model file")
        assert not (tmp_path / "ran").exists()

    def test_the_attacks_would_work_on_one_who_trusts_them(self, tmp_path):
        tree = attacks(tmp_path / "ran")["eval"] | {"protocol": 2}
        write_members(tmp_path / "m", {"schema.json": json.dumps(tree)})
        skops.io.load(tmp_path / "m", trusted=["builtins.eval"])
        assert (tmp_path / "ran").exists()

    @pytest.mark.parametrize("wrapped", [False, True], ids=["array", "sparse"])
    def test_arrays_of_pickled_objects(self, wrapped, forge, tmp_path):
        stream = io.BytesIO()
        array = np.array([Payload(tmp_path / "ran")], dtype=object)
        (np.savez(stream, data=array) if wrapped else np.save(stream, array, allow_pickle=True))
        kind = ("scipy.sparse._matrix.spmatrix", "SparseMatrixNode", "scipy", "evil.npz")
        name, loader, form, file = kind if wrapped else (
            "numpy.ndarray", "NdArrayNode", "numpy", "evil.npy")  # fmt: skip
        node = named(name, loader, type=form, file=file)
        path = forge(lambda tree: attributes(tree).update(history_=node),
                     add={file: stream.getvalue()})  # fmt: skip
        assert_refused(path, "pickled objects")
        assert not (tmp_path / "ran").exists()

    @pytest.mark.parametrize("trusted", [(), ["os.mkdir"]])
    def test_trusting_one_type_trusts_no_other(self, trusted, forge):
        nodes = {"history_": named("os.system", "FunctionNode"), "x": named("os.mkdir", "TypeNode")}
        path = forge(lambda tree: attributes(tree).update(nodes))
        with pytest.raises(ModelFileError, match=r"os\.system"):
            load(path, trusted=trusted)


class TestBombs:
    @pytest.mark.parametrize("name", ["../0.npy", "/etc/x.npy", "a/b.npy", "x.py", "é.npy", "npy"])
    def test_odd_names(self, name, forge):
        assert_refused(forge(add={name: b""}), "members of unexpected names")

    def test_members_of_one_name(self, saved, tmp_path):
        (tmp_path / "m").write_bytes(saved.read_bytes())
        with zipfile.ZipFile(tmp_path / "m", "a") as file, pytest.warns(UserWarning, match="Dupl"):
            file.writestr("schema.json", "{}")
        assert_refused(tmp_path / "m", "two members of one name")

    def test_other_ways_of_packing(self, saved, tmp_path):
        for kind in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            write_members(tmp_path / "m", read_members(saved), kind)
            assert_refused(tmp_path / "m", "packed in an unexpected way")

    @pytest.mark.parametrize(("name", "size"), [("0.npy", 2**30), ("schema.json", 2**28 + 1)])
    def test_more_than_may_be_unpacked(self, name, size, saved, tmp_path):
        with zipfile.ZipFile(tmp_path / "m", "w") as file:
            for member, content in read_members(saved).items():
                file.writestr(member, content)
            file.getinfo(name).file_size = size  # as told at the end of the archive
        assert_refused(tmp_path / "m", f"would unpack to {str(size)[:2]}")

    def test_bombs_inside_sparse_arrays(self, forge, monkeypatch):
        stream = io.BytesIO()
        np.savez_compressed(stream, data=np.zeros(10**6))
        monkeypatch.setattr(archive, "LEAST_LIMIT", 10**6)
        monkeypatch.setattr(archive, "MOST_GROWTH", 2)
        assert_refused(forge(add={"bomb.npz": stream.getvalue()}), "would unpack to 8")

    def test_one_array_used_many_times(self, forge, monkeypatch):
        node = named("numpy.ndarray", "NdArrayNode", type="numpy", file="big.npy")
        array = array_bytes(np.random.default_rng(0).random(9999))
        path = forge(
            lambda tree: attributes(tree).update(history_=sequence(*[node] * 99)),
            add={"big.npy": array},
        )
        monkeypatch.setattr(archive, "LEAST_LIMIT", 10**6)
        monkeypatch.setattr(archive, "MOST_GROWTH", 2)
        assert_refused(path, "it would take")

    def test_parts_that_refer_to_each_other(self, forge):
        node = leaf(0)
        for level in range(60):  # 10 to the power of 60 leaves, if it were followed
            again = [{"__id__": level, "__loader__": "ListNode"}] * 9
            node = sequence(node | {"__id__": level}, *again, kind="list")
        path = forge(lambda tree: attributes(tree).update(history_=node))
        assert_refused(path, "refers to itself")

    @pytest.mark.parametrize("depth", [1000, 100_000])
    def test_deep_nesting(self, depth, forge, saved):
        members = read_members(forge(lambda tree: attributes(tree).update(history_="HERE")))
        before, after = json.dumps(sequence("X")).split('"X"')
        nested = before * depth + json.dumps(leaf(0)) + after * depth
        text = members["schema.json"].decode().replace('"HERE"', nested).encode()
        told = json.loads(members["naim3l.json"])
        told["sha256"]["schema.json"] = archive.sha256(text)
        path = forge()
        write_members(path, members | {"schema.json": text, "naim3l.json": json.dumps(told)})
        assert_refused(path, "RecursionError")

    def test_headers_that_promise_more(self, forge):
        header = array_bytes(np.zeros(3)).replace(b"(3,), }" + b" " * 9, b"(3000000000,), }")
        assert len(header) == len(array_bytes(np.zeros(3)))
        assert_refused(forge(add={"big.npy": header}), "big.npy has not the size")

    @pytest.mark.parametrize("file", ["schema.json", "0.npy", "other.npz", "none.npz"])
    def test_members_in_a_wrong_role(self, file, forge):
        node = named("builtins.bytes", "BytesNode", file=file)
        path = forge(lambda tree: attributes(tree).update(history_=node))
        assert_refused(path, "a wrong role")
