"""Guests of model files: objects of other packages, stored with skops and loaded if trusted.

Their own code runs when they are loaded: the user must trust every class and function in a guest,
also those of scikit-learn, except for numbers, text, containers and arrays.
"""

import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from naim3l._text import some
from naim3l.files.archive import Refusal, open_zip, parse_json, read_member, require

MOST_DEPTH = 200
_BUILTIN = ("dict", "list", "tuple", "set", "str", "int", "float", "bool", "bytes", "slice")
_NUMPY: tuple[str, ...] = ("ndarray", "bool", "bool_", "str_", "float16", "float32", "float64")
_NUMPY += tuple(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))
# Types that do nothing when they are loaded, as skops stores them.
_HARMLESS = {f"builtins.{name}" for name in _BUILTIN} | {f"numpy.{name}" for name in _NUMPY}


def type_names(trusted: Iterable[str | type]) -> frozenset[str]:
    """Full names of types and functions, as they are in lists of what a guest contains."""
    names = set()
    for kind in [trusted] if isinstance(trusted, str) else trusted:
        if isinstance(trusted, str) or not (isinstance(kind, str) or callable(kind)):
            raise TypeError(f"trusted must be a list of types or of their names, got {kind!r}.")
        names.add(kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}")
    return frozenset(names)


def check_trust(types: Iterable[str], trusted: Collection[str]) -> None:
    """Refuse types that are not trusted, with what the user can do about it."""
    if unknown := sorted(set(types) - set(trusted)):
        raise Refusal(
            f"needs objects of other packages, whose own code runs when they are loaded: "
            f"{some(unknown, show=str)}. If you know them, and who wrote the file: "
            f"load(path, trusted={unknown[:50]})."
        )


def pack_guest(guest: Any) -> tuple[bytes, list[str]]:
    """A guest as skops stores it, and its type and all others that have to be trusted."""
    import skops.io  # takes half a second, and most models have no guest

    try:
        data = skops.io.dumps(guest)
        types = _types_of(data)
        types += sorted(set(skops.io.get_untrusted_types(data=data)) - set(types))
        skops.io.loads(data, trusted=types)
    except Exception as error:  # skops and the types it meets raise many kinds
        reason = str(error).removesuffix(".")
        raise Refusal(f"is a {type(guest).__name__}, which skops cannot store: {reason}.") from None
    return data, types


def load_guest(data: bytes, trusted: Collection[str]) -> Any:
    """A guest, if the user trusts everything that it contains."""
    try:
        types = _types_of(data)
    except Refusal as refusal:
        raise Refusal(f"cannot be loaded: {refusal}") from None
    check_trust(types, trusted)  # before skops reads anything
    try:
        import skops.io

        types += skops.io.get_untrusted_types(data=data)  # such as functions under other names
        check_trust(types, trusted)
        return skops.io.loads(data, trusted=types)
    except Refusal:
        raise
    except Exception as error:  # of a damaged guest, or of its own code
        cause = f"{type(error).__name__}: {str(error)[:200]}"
        raise Refusal(f"cannot be loaded ({cause}).") from error


def is_type_name(name: Any) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[\w.<>-]{1,200}", name) is not None


def _types_of(data: bytes) -> list[str]:
    """Full name of a guest's type, and of all others in it that are not harmless."""
    with open_zip(io.BytesIO(data), len(data)) as zipped:
        schema = parse_json(read_member(zipped, "schema.json"), MOST_DEPTH)
    own, names = _node_name(schema), {_node_name(node) for node in _nodes(schema)}
    types = [own, *sorted(names - _HARMLESS - {own})]
    require(all(map(is_type_name, types)), "it has a type with an odd name.")
    return types


def _node_name(node: Mapping[str, Any]) -> str:
    return f"{node.get('__module__')}.{node.get('__class__')}"


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """The mappings in a schema of skops that describe objects."""
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if isinstance(item.get("__loader__"), str):
                yield item
            stack += reversed(item.values())
        elif isinstance(item, list):
            stack += reversed(item)
