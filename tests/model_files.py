"""Model files taken apart and put together, and parts that would do harm, for tests."""

import io
import json
import os
import zipfile

import numpy as np
import pytest

from naim3l import ModelFileError, load
from naim3l.files.models.archive import sha256

FEW = {"max_iter": 5, "tol": 0, "random_state": 0}


def read_members(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def write_members(path, members, kind=None):
    """An archive packed one way throughout, by default as models are: JSON alone is compressed."""
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            usual = zipfile.ZIP_DEFLATED if name.endswith(".json") else zipfile.ZIP_STORED
            file.writestr(name, content, usual if kind is None else kind)


def rewrite(path, schema=None, facts=None, add=(), mended=True, to=None):
    """Edit a file, or a copy of it, and mend its checksums, as an attacker would.

    ``schema`` and ``facts`` change what they are given, or return another; ``add`` has members.
    """
    members = read_members(path) | dict(add)
    told, tree = json.loads(members.pop("naim3l.json")), json.loads(members["schema.json"])
    if schema:
        members["schema.json"] = json.dumps(schema(tree) or tree).encode()
    if mended:
        told["sha256"] = {name: sha256(content) for name, content in members.items()}
    if facts:
        facts(told)
    write_members(to or path, {"naim3l.json": json.dumps(told), **members})
    return to or path


def attributes(tree):
    """Attributes of the model, or of another object, in a schema."""
    return tree["content"]["content"]


def owner_of(name, tree):
    """Node of the model, or of its reader where that has the attribute."""
    reader = attributes(tree)["reader_"]
    return tree if name in attributes(tree) or name not in attributes(reader) else reader


def features_of(tree, view):
    """Attributes of the features of a view in a schema: transformer, as_numbers."""
    return attributes(attributes(tree)["features_"]["content"][view])


def assert_refused(path, reason):
    with pytest.raises(ModelFileError, match=reason) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")


def assert_same(one, two, X):
    for method in ("decision_function", "predict"):
        first, second = getattr(one, method)(X), getattr(two, method)(X)
        for view in first if isinstance(first, dict) else [...]:
            np.testing.assert_array_equal(np.asarray(first[view]), np.asarray(second[view]))


def leaf(value):
    return {"__module__": "builtins", "__class__": "str", "__loader__": "JsonNode",
            "content": json.dumps(value), "is_json": True}  # fmt: skip


def sequence(*items, kind="tuple"):
    loader = {"tuple": "TupleNode", "list": "ListNode"}[kind]
    return {"__module__": "builtins", "__class__": kind, "__loader__": loader,
            "content": list(items)}  # fmt: skip


def names(*texts):
    return sequence(*map(leaf, texts), kind="list")


def mapping(items, key_type=None):
    key_type = key_type or {"__module__": "builtins", "__class__": "str", "__loader__": "TypeNode"}
    key_types = sequence(*[key_type] * len(items), kind="list")
    return named("builtins.dict", "DictNode", content=items, key_types=key_types)


def named(name, loader, **content):
    module, _, kind = name.rpartition(".")
    return {"__module__": module, "__class__": kind, "__loader__": loader, **content}


def plant_attributes(tree, changes):
    """Set attributes in a schema, of the model where they are new, with the type of their key."""
    for name, node in changes.items():
        owner = owner_of(name, tree)
        if name not in attributes(owner):
            owner["content"]["key_types"]["content"].append(
                {"__module__": "builtins", "__class__": "str", "__loader__": "TypeNode"}
            )
        attributes(owner)[name] = node


def array_bytes(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


def attacks(target):
    """Nodes, each of which would make a folder, were it constructed."""
    command, path = leaf(f"mkdir {target}"), leaf(str(target))
    system = named("os.system", "FunctionNode")
    mkdir = named("os.mkdir", "TypeNode")
    python = leaf(f"__import__('os').mkdir({str(target)!r})")
    return {
        "eval": named("builtins.eval", "ConstructorFromReduceNode", content=sequence(python)),
        "exec": named("builtins.exec", "ConstructorFromReduceNode", content=sequence(python)),
        "system": named("os.system", "ConstructorFromReduceNode", content=sequence(command)),
        "Popen": named("subprocess.Popen", "ConstructorFromReduceNode",
                       content=sequence(sequence(leaf("mkdir"), path, kind="list"))),
        "list of its own": named("subprocess.Popen", "ListNode", content=[leaf("mkdir"), path]),
        "reduce": named("os.mkdir", "TreeNode", content=mapping({}),
                        __reduce__={"args": sequence(path)}),
        "loss": named("os.mkdir", "LossNode", content=mapping({}),
                      __reduce__={"args": sequence(path)}),
        "key": mapping({str(target): leaf(1)}, key_type=mkdir),
        "key function": mapping({f"mkdir {target}": leaf(1)}, key_type=system),
        "partial": named("functools.partial", "PartialNode", content={
            "func": system, "args": sequence(command), "kwds": mapping({}),
            "namespace": mapping({})}),
        "method": named("builtins.str", "MethodNode", content={
            "func": "__class__", "obj": leaf(str(target))}),
        "operator": named("operator.methodcaller", "OperatorFuncNode", attrs=sequence(command)),
        "array of": named("os.mkdir", "NdArrayNode", type="numpy", file="0.npy"),
        "old function": named("builtins.str", "FunctionNode", content={
            "module_path": "os", "function": "system"}),
        "generator": named("numpy.random._generator.Generator", "RandomGeneratorNode", content={
            "bit_generator": mapping({"bit_generator": leaf("seed")}), "seed_seq": mapping({})}),
        "no loader": named("os.mkdir", "NoSuchNode", content=sequence(path)),
        "defaultdict": named("collections.defaultdict", "DefaultDictNode", content={
            "main": mapping({}), "default_factory": system}),
        "other state": named("sklearn.preprocessing._data.StandardScaler", "ObjectNode", content=(
            mapping({"mean_": named("os.mkdir", "ConstructorFromReduceNode",
                                    content=sequence(path))}))),
    }  # fmt: skip
