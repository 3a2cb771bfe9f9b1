"""What a node is made by belongs to what it says it is; what could write anywhere is checked."""

import io
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import skops.io._persist  # noqa: F401 -- fills the list of its loaders
from scipy import sparse
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import SparseRandomProjection
from skops.io._audit import NODE_TYPE_MAPPING

from model_files import (
    array_bytes,
    assert_refused,
    assert_same,
    features_of,
    leaf,
    mapping,
    named,
    plant_attributes,
    read_members,
    rewrite,
    sequence,
)
from naim3l import ModelFileError, load
from naim3l.estimators import PerViewRidge
from naim3l.files.models import inspect_file, save
from naim3l.files.models.nodes import LOADERS, Node

CLASSES = ("builtins.range", "builtins.str", "builtins.dict", "numpy.ndarray", "numpy.float64",
           "scipy.sparse._csr.csr_array", "functools.partial", "builtins.frozenset", "numpy.sqrt",
           "sklearn.preprocessing._data.StandardScaler", "sklearn.tree._tree.Tree")  # fmt: skip


def root(x):
    """A function that no list knows."""
    return np.sqrt(np.abs(x))


def fitted(transformer, X=None):
    X = np.random.default_rng(0).random((20, 3)) if X is None else X
    return PerViewRidge(transformer=transformer).fit({"v": X}, {"v": np.arange(20)[:, None] % 2})


class TestPairs:
    @pytest.mark.parametrize("loader", sorted({name for name, _ in NODE_TYPE_MAPPING}))
    def test_only_those_of_the_table_are_nodes(self, loader):
        """Every loader of skops, with classes of its own and of others."""
        for kind in ("numpy", "json", "scipy", ""):
            known = LOADERS.get((loader, kind))
            fields = {} if known is None else known.fields
            values = {str: "", bool: True, "node": {}, "nodes": [], "named": {}, dict: {}}
            state = {name: values[field] for name, field in fields.items()}
            state |= {"type": kind} if kind else {}
            for name in CLASSES:
                try:
                    node = Node(named(name, loader, **state))
                except ModelFileError:
                    continue
                assert known and (node.listed or loader in ("ObjectNode", "FunctionNode"))

    @pytest.mark.parametrize("label", ["builtins.range", "builtins.str", "numpy.ndarray"])
    @pytest.mark.parametrize("attack", ["sparse", "partial", "object", "type"])
    def test_labels_of_harmless_classes_do_not_help(self, label, attack, forge):
        nodes = {
            "sparse": named(label, "SparseMatrixNode", type="scipy", file="0.npz"),
            "partial": named(label, "PartialNode", content={
                "func": named("numpy.sqrt", "FunctionNode"), "args": sequence(leaf(4)),
                "kwds": mapping({}), "namespace": mapping({})}),
            "object": named(label, "ObjectNode", content=mapping({})),
            "type": named(label, "DTypeNode", content=leaf(1)),
        }  # fmt: skip
        path = forge(lambda tree: plant_attributes(tree, {"history_": nodes[attack]}))
        assert_refused(path, "does not make|which no model needs|not known to be harmless")
        if attack == "object":
            assert label in inspect_file(path)["other_types"]
        else:
            with pytest.raises(ModelFileError, match=r"does not make|which no model needs"):
                inspect_file(path)

    def test_names_that_are_trusted_are_made_as_what_they_are(self, forge):
        nodes = {"a": named(f"{__name__}.root", "ObjectNode", content=mapping({}))}
        path = forge(lambda tree: plant_attributes(tree, nodes))
        with pytest.raises(ModelFileError, match="is no class"):
            load(path, trusted=[root])
        path = forge(lambda t: plant_attributes(t, {"a": named("io.BytesIO", "FunctionNode")}))
        with pytest.raises(ModelFileError, match="is no function"):
            load(path, trusted=["io.BytesIO"])

    def test_types_of_python_are_not_made_as_objects(self, forge):
        """As skops 0.15 writes a frozenset, and loses what is in it."""
        node = named("builtins.frozenset", "ObjectNode", content=leaf(None))
        path = forge(lambda tree: plant_attributes(tree, {"views": node}))
        with pytest.raises(ModelFileError, match="is not stored as an object"):
            load(path, trusted=["builtins.frozenset"])

    def test_functions_of_one_s_own_can_be_trusted(self, tmp_path):
        model = fitted(FunctionTransformer(root))
        save(model, tmp_path / "m")
        assert_refused(tmp_path / "m", rf"trusted=\['{__name__}.root'\]")
        X = {"v": np.random.default_rng(1).random((5, 3))}
        assert_same(load(tmp_path / "m", trusted=[root]), model, X)

    @pytest.mark.parametrize("name", ["transform", "_parameter_constraints", "__class__", "fit"])
    def test_methods_are_not_for_a_file_to_set(self, name, tmp_path):
        save(fitted(StandardScaler()), tmp_path / "m")

        def change(attributes):
            attributes["content"][name] = leaf(1)
            attributes["key_types"]["content"].append(named("builtins.str", "TypeNode"))

        rewrite(tmp_path / "m", lambda tree: change(
            features_of(tree, "v")["transformer"]["content"]))  # fmt: skip
        assert_refused(tmp_path / "m", "are not for a file to set")


class TestInspect:
    CODE = """
import sys
from naim3l.files.models import inspect_file
before = set(sys.modules)
others = inspect_file(sys.argv[1])["other_types"]
# Names in archives are decoded by a module of Python's.
print(others, sorted(set(sys.modules) - before - {"encodings.cp437"}))
"""

    def test_imports_nothing(self, forge, tmp_path, monkeypatch):
        (tmp_path / "surprise.py").write_text("class Thing: pass\n")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
        nodes = {
            "a": named("surprise.Thing", "ObjectNode", content=mapping({})),
            "b": named("antigravity.geohash", "FunctionNode"),
        }
        path = forge(lambda tree: plant_attributes(tree, nodes))
        done = subprocess.run(
            [sys.executable, "-c", self.CODE, path], capture_output=True, text=True, check=True
        )
        assert done.stdout == "['antigravity.geohash', 'surprise.Thing'] []\n"


def damage(content, **changes):
    """A sparse array with other parts."""
    with np.load(io.BytesIO(content)) as file:
        parts = dict(file)
    parts |= {name: change(parts.get(name)) for name, change in changes.items()}
    stream = io.BytesIO()
    np.savez(stream, **parts)
    return stream.getvalue()


class TestMemory:
    """Code in C that takes numbers of a file for positions must not get wrong ones."""

    @pytest.fixture
    def projected(self, tmp_path):
        save(fitted(SparseRandomProjection(2, density=0.9, random_state=0)), tmp_path / "m")
        (name,) = [name for name in read_members(tmp_path / "m") if name.endswith(".npz")]
        return tmp_path / "m", name, read_members(tmp_path / "m")[name]

    def test_sparse_arrays_come_back(self, tmp_path):
        model = fitted(SparseRandomProjection(2, random_state=0))
        save(model, tmp_path / "m")
        X = {"v": np.random.default_rng(1).random((5, 3))}
        copy = load(tmp_path / "m")
        assert_same(copy, model, X)
        assert sparse.issparse(copy.transformers_["v"].components_)

    @pytest.mark.parametrize(
        "changes",
        [
            {"indices": lambda a: np.full_like(a, 200_000)},
            {"indices": lambda a: np.full_like(a, -9)},
            {"indices": lambda a: a.astype(float)},
            {"indptr": lambda a: np.array([0, 10**6, 10**6], dtype=a.dtype)},
            {"indptr": lambda a: np.array([0, a[2] + 3, a[2]], dtype=a.dtype)},
            {"indptr": lambda a: np.array([-5, a[1], a[2]], dtype=a.dtype)},
            {"indptr": lambda a: a[:2]},
            {"data": lambda a: a[:2]},
            {"data": lambda a: a.astype(str)},
            {"shape": lambda a: np.array([2, 10**12])},
            {"shape": lambda a: np.array([-2, 3])},
            {"format": lambda a: np.array(b"dia")},
            {"format": lambda a: np.array(b"csc")},
            {"more": lambda a: np.zeros(2)},
        ],
        ids=lambda changes: next(iter(changes)),
    )
    def test_sparse_arrays_with_other_parts(self, changes, projected):
        path, name, content = projected
        rewrite(path, add={name: damage(content, **changes)})
        assert_refused(path, f"{name}|not a complete model file")

    def test_compressed_sparse_arrays(self, projected):
        path, name, content = projected
        stream = io.BytesIO()
        np.savez_compressed(stream, **dict(np.load(io.BytesIO(content))))
        rewrite(path, add={name: stream.getvalue()})
        assert_refused(path, "compressed in an unexpected way")

    @pytest.mark.parametrize("position", [-1, 625, 2**31 - 1])
    def test_random_states_that_read_elsewhere(self, position, tmp_path):
        model = fitted(None).set_params(random_state=np.random.RandomState(3))
        save(model, tmp_path / "m")
        drawn = load(tmp_path / "m").random_state.random_sample(3)
        np.testing.assert_array_equal(drawn, np.random.RandomState(3).random_sample(3))

        def change(tree):
            state = tree["content"]["content"]["random_state"]["content"]["content"]
            state["state"]["content"]["pos"] = leaf(position)

        rewrite(tmp_path / "m", change)
        assert_refused(tmp_path / "m", "no state of a RandomState")

    WORDS = pd.DataFrame({"k": list("aabbcdefgh") * 2, "n": [1.0, 2, 3, 4, 5] * 4})

    @pytest.mark.parametrize(
        ("encoder", "column", "changes"),
        [
            ({}, "k", {"_n_features_outs": [1]}),
            ({}, "k", {"_n_features_outs": [10**9]}),
            ({"min_frequency": 3}, "k", {"_n_features_outs": [2]}),
            ({"min_frequency": 3}, "k",
             {"_default_to_infrequent_mappings": [np.array([0, 1, 900, 2, 2, 2, 2, 2])]}),
            ({"min_frequency": 3}, "k",
             {"_default_to_infrequent_mappings": [np.array([0, 1, -9, 2, 2, 2, 2, 2])]}),
            ({"min_frequency": 3}, "k", {"_default_to_infrequent_mappings": [None],
                                         "_infrequent_indices": [np.array([10**9])],
                                         "_n_features_outs": [8]}),
            ({"drop": "first"}, "k", {"_drop_idx_after_grouping": np.array([99], dtype=object)}),
            ({"drop": "first"}, "k", {"_drop_idx_after_grouping": np.array([-9], dtype=object)}),
            ({}, "n", {"categories_": [np.array([2.0, 3, 4, 5, 1])]}),
            ({}, "n", {"categories_": [np.array([9.0, 1, 2, 3, 4, 5])], "_n_features_outs": [6]}),
            ({}, "n", {"categories_": [np.array([2.0, 3, 4, 5, 1], dtype=object)]}),
        ],
    )  # fmt: skip
    def test_encoders_with_codes_out_of_range(self, encoder, column, changes, tmp_path):
        options = {"sparse_output": False, "handle_unknown": "infrequent_if_exist"} | encoder
        X = self.WORDS[[column]]
        model = fitted(OneHotEncoder(**options), X)
        save(model, tmp_path / "m")
        assert_same(load(tmp_path / "m"), model, {"v": X})
        for name, value in changes.items():
            setattr(model.transformers_["v"], name, value)
        with pytest.raises(TypeError, match="column 0 has other codes than categories"):
            save(model, tmp_path / "m")

    @pytest.mark.parametrize("column", [-1, 99, 1.5, None])
    def test_words_with_columns_out_of_range(self, column, tmp_path):
        texts = pd.Series(["red car", "blue car"] * 10, name="note")
        model, vectorizer = fitted(StandardScaler()), CountVectorizer().fit(texts)
        vectorizer.vocabulary_["red"] = column
        model.features_["v"] = replace(model.features_["v"], transformer=vectorizer)
        with pytest.raises(TypeError, match="words of a vocabulary are not numbered"):
            save(model, tmp_path / "m")

    def test_trees_are_not_saved(self, tmp_path):
        with pytest.raises(TypeError, match="TreeNode"):
            save(fitted(RandomTreesEmbedding(3, max_depth=2)), tmp_path / "m")

    def test_trees_are_not_loaded_even_if_trusted(self, forge):
        name = "sklearn.tree._tree.Tree"
        nodes = np.zeros(1, dtype=[("left_child", "<i8")])
        path = forge(
            lambda tree: plant_attributes(tree, {"a": named(name, "ObjectNode", content=mapping(
                {"nodes": named("numpy.ndarray", "NdArrayNode", type="numpy", file="n.npy")}))}),
            add={"n.npy": array_bytes(nodes)},
        )  # fmt: skip
        with pytest.raises(ModelFileError, match="which no model needs"):
            load(path, trusted=[name])


class TestParameters:
    @pytest.mark.parametrize(
        ("transformer", "reason"),
        [
            (Pipeline([("s", StandardScaler())], memory="folder"), "memory='folder'"),
            (make_pipeline(StandardScaler(), OneHotEncoder(handle_unknown="x")), "handle_unknown"),
            (OneHotEncoder(dtype=str), "dtype="),
        ],
    )
    def test_that_reach_outside_or_are_none(self, transformer, reason, tmp_path):
        model = fitted(StandardScaler()).set_params(transformer=transformer)
        with pytest.raises(TypeError, match=reason):
            save(model, tmp_path / "m")

    def test_steps_that_are_no_transformers(self, tmp_path):
        model = fitted(make_pipeline(StandardScaler()))
        model.transformers_["v"].steps.append(("more", 3.0))
        with pytest.raises(TypeError, match="features_ of 'v' should be features"):
            save(model, tmp_path / "m")

    @pytest.mark.parametrize(("name", "value"), [("n_jobs", 10**6), ("input", "filename")])
    def test_of_files(self, name, value, tmp_path):
        unfitted = CountVectorizer() if name == "input" else make_union(StandardScaler())
        model = fitted(StandardScaler()).set_params(transformer=unfitted)
        save(model, tmp_path / "m")

        def change(tree):
            part = tree["content"]["content"]["transformer"]["content"]
            part["content"][name] = leaf(value)

        rewrite(tmp_path / "m", change)
        assert_refused(tmp_path / "m", f"{name}={value!r}, which no model file may have")


class TestOthersOfScikitLearn:
    @pytest.mark.parametrize("transformer", [PolynomialFeatures(2), SplineTransformer()])
    def test_are_for_the_caller_to_trust(self, transformer, tmp_path):
        model = fitted(transformer)
        save(model, tmp_path / "m")
        others = inspect_file(tmp_path / "m")["other_types"]
        assert any(type(transformer).__name__ in name for name in others)
        assert_refused(tmp_path / "m", "not known to be harmless")
        X = {"v": np.random.default_rng(1).random((5, 3))}
        assert_same(load(tmp_path / "m", trusted=others), model, X)
