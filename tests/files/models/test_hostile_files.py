"""Files made to do harm run nothing, however they are made."""

import io
import json
import pickle

import numpy as np
import pytest
import skops.io

from model_files import (
    Payload,
    assert_refused,
    attacks,
    attributes,
    features_of,
    named,
    plant_attributes,
    write_members,
)
from naim3l import ModelFileError, load

REFUSALS = "not known to be harmless|does not make|which no model needs|with the fields|should be"


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
                features_of(tree, "view0")["transformer"] = node
            else:
                plant_attributes(tree, {"history_" if place == "attribute" else "extra": node})

        path = forge(plant)
        assert_refused(path, REFUSALS)
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
        kind = ("scipy.sparse._csr.csr_array", "SparseMatrixNode", "scipy", "evil.npz")
        name, loader, form, file = kind if wrapped else (
            "numpy.ndarray", "NdArrayNode", "numpy", "evil.npy")  # fmt: skip
        node = named(name, loader, type=form, file=file)
        path = forge(lambda tree: attributes(tree).update(history_=node),
                     add={file: stream.getvalue()})  # fmt: skip
        assert_refused(path, "pickled objects")
        assert not (tmp_path / "ran").exists()

    @pytest.mark.parametrize("trusted", [(), ["os.mkdir"]])
    def test_trusting_one_type_trusts_no_other(self, trusted, forge):
        nodes = {name: named(f"os.{name}", "FunctionNode") for name in ("system", "mkdir")}
        path = forge(lambda tree: plant_attributes(tree, nodes))
        with pytest.raises(ModelFileError, match=r"os\.system"):
            load(path, trusted=trusted)
