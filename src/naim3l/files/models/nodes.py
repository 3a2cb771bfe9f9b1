"""The nodes of a schema: which are allowed, and the objects that are made from them.

skops writes an object as a node, with a loader, which is the way in which the object is stored,
and the module and class of the object. Here each loader has one entry: the classes that it may
make, the fields that its nodes must have, and the function that makes the object, so that exactly
what is made has been checked. Loaders without an entry are refused, as are other classes.
"""

import importlib
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from naim3l.files.models.archive import SCHEMA, Contents, ModelFileError, require
from naim3l.files.models.parts import ALLOWED, check_part, check_state_names
from naim3l.files.models.stored_arrays import SPARSE, Arrays

# Kinds of fields of a node: a node, a list of nodes, or nodes by key; others are types of JSON.
NODE, NODES, NAMED = "node", "nodes", "named"
_ALWAYS = {"__loader__", "__module__", "__class__"}
_ROOT = {"protocol", "_skops_version"}
# Largest number of entries of a range, and of columns of a table, unless the file has more bytes.
LEAST_ROOM = 2**16
_STATE_WORDS = 624  # of the one generator that a RandomState may have


def _by_name(*kinds: type) -> dict[str, type]:
    return {f"{kind.__module__}.{kind.__name__}": kind for kind in kinds}


SCALARS = _by_name(
    np.bool, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, np.str_,
)  # fmt: skip
TYPES = SCALARS | _by_name(bool, int, float, str, object, np.number)
# Keys of a mapping are text in JSON; these types convert them back.
_KEY_TYPES = set(TYPES.values()) - {bool, np.bool, object, np.number}
# Modules of functions of one number; the second is that of ufuncs in some versions of NumPy.
_FUNCTION_HOMES = ("numpy", "numpy._core._multiarray_umath")
FUNCTIONS = {f"{home}.{name}": value for name, value in vars(np).items() for home in _FUNCTION_HOMES
             if isinstance(value, np.ufunc) and value.nin == value.nout == 1}  # fmt: skip


@dataclass(frozen=True)
class Loader:
    """A way in which objects are stored.

    Attributes
    ----------
    classes : collection of str
        Full names of the classes that it may make.
    make : function of a node and a source
        Makes the object.
    fields : dict of str to NODE, NODES, NAMED or a type
        Fields of its nodes, in addition to loader, module and class.
    trusts : bool
        Whether a user may trust further classes.
    """

    classes: Collection[str]
    make: Callable[["Node", "Source"], Any]
    fields: dict[str, Any] = field(default_factory=dict)
    trusts: bool = False


@dataclass(frozen=True)
class Source:
    """Data from which objects are made.

    Attributes
    ----------
    arrays : Arrays
    room : int
        Largest number of entries of a range.
    trusted : collection of str
        Full names of classes and functions that are allowed in addition to the lists.
    """

    arrays: Arrays
    room: int
    trusted: Collection[str]


class Node:
    """A node, checked to have a class and the fields of its loader."""

    __slots__ = ("loader", "made", "name", "parts")

    def __init__(self, state: Any, *, root: bool = False) -> None:
        require(isinstance(state, dict), f"{SCHEMA} has a node that is no mapping.")
        loader, kind, module, name = (
            str(state.get(key, "")) for key in ("__loader__", "type", "__module__", "__class__")
        )
        known = LOADERS.get((loader, kind))
        if known is None:
            raise ModelFileError(f"{SCHEMA} names the loader {loader!r}, which no model needs.")
        self.loader: Loader = known
        self.name: str = f"{module}.{name}"
        belongs = known.trusts or self.listed
        require(belongs, f"{SCHEMA}: the loader {loader} does not make {self.name!r}.")
        fields = set(state) - _ALWAYS - (_ROOT if root else set())
        fits = fields == {*known.fields, *(["type"] if kind else [])}
        require(fits, f"{SCHEMA}: {loader} with the fields {sorted(fields)}.")
        for key, form in known.fields.items():
            fits = isinstance(state[key], {NODE: dict, NODES: list, NAMED: dict}.get(form, form))
            require(fits, f"{SCHEMA}: {key} of {self.name!r} is no {form}.")
        self.parts: dict[str, Any] = {key: state[key] for key in known.fields}
        self.made: Any = None

    @property
    def listed(self) -> bool:
        return self.name in self.loader.classes

    def expand(self) -> Iterator["Node"]:
        """Replace fields by nodes, which are yielded."""
        for key, kind in self.loader.fields.items():
            part = self.parts[key]
            if kind == NODE:
                self.parts[key] = Node(part)
                yield self.parts[key]
            elif kind == NODES:
                self.parts[key] = [Node(item) for item in part]
                yield from self.parts[key]
            elif kind == NAMED:
                self.parts[key] = {name: Node(item) for name, item in part.items()}
                yield from self.parts[key].values()

    def __getitem__(self, key: str) -> Any:
        """Object of a field."""
        part, kind = self.parts[key], self.loader.fields[key]
        if kind == NODE:
            return part.made
        if kind == NODES:
            return [node.made for node in part]
        return {name: node.made for name, node in part.items()} if kind == NAMED else part


def read_nodes(schema: Any) -> list[Node]:
    """All nodes of a schema, each before its parts; no object is made, and nothing imported."""
    nodes = [Node(schema, root=True)]
    for node in nodes:  # the list grows during the loop
        nodes.extend(node.expand())
    return nodes


def room_of(contents: Contents) -> int:
    """Largest number of entries of a range, and of columns of a table."""
    return max(LEAST_ROOM, contents.size)


def make_object(nodes: list[Node], contents: Contents, trusted: Collection[str]) -> Any:
    """The object of the nodes; ``trusted`` names additional classes and functions."""
    room = room_of(contents)
    source = Source(Arrays(contents.members, room), room, trusted)
    for node in reversed(nodes):
        node.made = node.loader.make(node, source)
    return nodes[0].made


def _make_json(node: Node, source: Source) -> Any:
    value = json.loads(node["content"])
    require(isinstance(value, str | int | float | None), f"{SCHEMA} has lists inside of text.")
    return value


def _make_dict(node: Node, source: Source) -> dict[Any, Any]:
    content, kinds = node["content"], node["key_types"]
    fits = type(kinds) is list and len(kinds) == len(content) and _KEY_TYPES.issuperset(kinds)
    require(fits, f"{SCHEMA} lacks the types of some keys of a mapping.")
    return {kind(key): value for kind, (key, value) in zip(kinds, content.items(), strict=True)}


def _make_slice(node: Node, source: Source) -> slice:
    ends = node["content"]
    fits = set(ends) == {"start", "stop", "step"}
    require(fits and all(isinstance(end, int | str | None) for end in ends.values()),
            f"{SCHEMA} has a slice with other ends than numbers and names.")  # fmt: skip
    return slice(ends["start"], ends["stop"], ends["step"])


def _make_array(node: Node, source: Source) -> Any:
    array = source.arrays.dense(node["file"])
    if node.name == "numpy.ndarray":
        return array
    fits = array.shape == () and array.dtype.type is SCALARS[node.name]
    require(fits, f"{node['file']} is no {node.name}.")
    return array[()]


def _make_object_array(node: Node, source: Source) -> Any:
    items = node["content"]
    require(node["shape"] == (len(items),), f"{SCHEMA} has a table of objects.")
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):  # in one step, lists of equal length would become a table
        array[i] = item
    return array


def _make_dtype(node: Node, source: Source) -> Any:
    array = node["content"]
    fits = isinstance(array, np.ndarray) and array.dtype.kind in "biufO"
    require(fits, f"{SCHEMA} has a dtype that is of no numbers.")
    return array.dtype


def _make_set(node: Node, source: Source) -> frozenset[Any]:
    arguments = node["content"]
    fits = isinstance(arguments, tuple) and list(map(type, arguments)) == [list]
    require(fits, f"{SCHEMA} has a frozenset of something else than a list.")
    return frozenset(arguments[0])


def _make_range(node: Node, source: Source) -> range:
    ends = node["content"]
    fits = isinstance(ends, tuple) and list(map(type, ends)) == [int] * 3 and ends[2] != 0
    made = range(*ends) if fits else range(0)
    # len() fails for ranges that are longer than memory.
    require(fits and not made[source.room :], f"{SCHEMA} has a range that is no range of columns.")
    return made


def _make_reduced(node: Node, source: Source) -> Any:
    return {"builtins.frozenset": _make_set, "builtins.range": _make_range}[node.name](node, source)


def _make_random_state(node: Node, source: Source) -> np.random.RandomState:
    state = node["content"]
    inner, gauss = state["state"], state["gauss"]
    key, position = inner["key"], inner["pos"]
    # NumPy does not check the position, and reads there.
    fits = state["bit_generator"] == "MT19937" and type(position) is int and state["has_gauss"] in (
        0, 1) and isinstance(gauss, float) and 0 <= position <= _STATE_WORDS  # fmt: skip
    fits = fits and isinstance(key, np.ndarray) and key.dtype == np.uint32
    require(fits and key.shape == (_STATE_WORDS,), f"{SCHEMA} has no state of a RandomState.")
    random = np.random.RandomState()
    random.set_state(state)
    return random


def _find(node: Node, source: Source) -> Any:
    """The class or function of a node, imported because it is listed or trusted."""
    require(node.listed or node.name in source.trusted, f"{node.name!r} is not trusted.")
    module, _, name = node.name.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _make_function(node: Node, source: Source) -> Any:
    function = FUNCTIONS[node.name] if node.listed else _find(node, source)
    require(callable(function) and not isinstance(function, type), f"{node.name!r} is no function.")
    return function


def _make_instance(node: Node, source: Source) -> Any:
    kind, state = _find(node, source), node["content"]
    require(isinstance(kind, type), f"{node.name!r} is no class.")
    # Some versions of skops write a frozenset as an object, without its contents.
    require(kind.__module__ != "builtins", f"{node.name!r} is not stored as an object.")
    if node.listed:
        check_state_names(kind, state)
    made = kind.__new__(kind)
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
    elif state is not None:
        made.__dict__.update(state)
    if node.listed:
        check_part(node.name, made)
    return made


# Keys are the loader, and the type of the node if it has one.
LOADERS = {
    ("JsonNode", ""): Loader({"builtins.str"}, _make_json, {"content": str, "is_json": bool}),
    ("ListNode", ""): Loader({"builtins.list"}, lambda n, _: n["content"], {"content": NODES}),
    ("TupleNode", ""): Loader(
        {"builtins.tuple"}, lambda node, _: tuple(node["content"]), {"content": NODES}
    ),
    ("SetNode", ""): Loader(
        {"builtins.set"}, lambda node, _: set(node["content"]), {"content": NODES}
    ),
    ("DictNode", ""): Loader({"builtins.dict"}, _make_dict, {"key_types": NODE, "content": NAMED}),
    ("SliceNode", ""): Loader({"builtins.slice"}, _make_slice, {"content": dict}),
    ("TypeNode", ""): Loader(TYPES, lambda node, _: TYPES[node.name]),
    ("NdArrayNode", "numpy"): Loader({"numpy.ndarray", *SCALARS}, _make_array, {"file": str}),
    ("NdArrayNode", "json"): Loader(
        {"numpy.ndarray"}, _make_object_array, {"content": NODES, "shape": NODE}
    ),
    ("SparseMatrixNode", "scipy"): Loader(
        SPARSE, lambda node, source: source.arrays.sparse(node["file"], node.name), {"file": str}
    ),
    ("DTypeNode", ""): Loader({"numpy.dtype"}, _make_dtype, {"content": NODE}),
    ("ConstructorFromReduceNode", ""): Loader(
        {"builtins.frozenset", "builtins.range"}, _make_reduced, {"content": NODE}
    ),
    ("RandomStateNode", ""): Loader(
        {"numpy.random.mtrand.RandomState"}, _make_random_state, {"content": NODE}
    ),
    ("FunctionNode", ""): Loader(FUNCTIONS, _make_function, trusts=True),
    ("ObjectNode", ""): Loader(ALLOWED, _make_instance, {"content": NODE}, trusts=True),
}
