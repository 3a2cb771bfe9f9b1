"""Model files taken apart and put together, for tests."""

import io
import json
import zipfile

import numpy as np
import pytest

from naim3l import ModelFileError, load

FEW = {"max_iter": 5, "tol": 0, "random_state": 0}


def read_members(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def write_members(path, members, kind=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", kind) as file:
        for name, content in members.items():
            file.writestr(name, content)


def attributes(tree):
    """Attributes of the model in a schema."""
    return tree["content"]["content"]


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


def mapping(items, key_type=None):
    key_type = key_type or {"__module__": "builtins", "__class__": "str", "__loader__": "TypeNode"}
    key_types = sequence(*[key_type] * len(items), kind="list")
    return named("builtins.dict", "DictNode", content=items, key_types=key_types)


def named(name, loader, **content):
    module, _, kind = name.rpartition(".")
    return {"__module__": module, "__class__": kind, "__loader__": loader, **content}


def plant_attributes(tree, changes):
    """Set attributes of the model in a schema, new ones with the type of their key."""
    for name, node in changes.items():
        if name not in attributes(tree):
            tree["content"]["key_types"]["content"].append(
                {"__module__": "builtins", "__class__": "str", "__loader__": "TypeNode"}
            )
        attributes(tree)[name] = node


def array_bytes(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()
