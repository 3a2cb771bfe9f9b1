"""The zip archives that models are kept in, and what is refused before any of them is used.

An archive is one that skops can read: ``schema.json`` names the types and attributes of the model,
and members such as ``0.npy`` hold its arrays. ``naim3l.json`` adds what the model is in plain
words, and a checksum of each other member.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np

FORMAT, FORMAT_VERSION = "naim3l model", 1
FACTS, SCHEMA = "naim3l.json", "schema.json"
# A file may unpack to 1 GiB, or to 200 times its own size where that is more; JSON takes many times
# its length once it is parsed.
LEAST_LIMIT, MOST_GROWTH, JSON_LIMIT = 2**30, 200, 2**28
_MEMBER = re.compile(r"[A-Za-z0-9_]{1,64}\.(json|npy|npz|bin)")
_ENDINGS = {"NdArrayNode": ".npy", "SparseMatrixNode": ".npz", "BytesNode": ".bin",
            "BytearrayNode": ".bin"}  # fmt: skip
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0}  # fmt: skip


class ModelFileError(ValueError):
    """A file is no model that can be loaded; the message names it and says why."""


def require(holds: Any, reason: str) -> None:
    if not holds:
        raise ModelFileError(reason)


def pack(written: bytes, facts: dict[str, Any]) -> bytes:
    """Archive of what skops wrote and of ``facts`` about it; equal models make equal archives."""
    with ZipFile(BytesIO(written)) as source:
        schema = json.loads(source.read(SCHEMA))
        names: dict[str, str] = {}
        for node in mappings(schema):
            # An address in memory; shared parts are written anew wherever they occur.
            if not isinstance(node.get("__id__"), dict):
                node.pop("__id__", None)
            if isinstance(file := node.get("file"), str):
                node["file"] = names.setdefault(file, f"{len(names)}{Path(file).suffix}")
            _check_keys(node)
        members = {SCHEMA: json.dumps(schema).encode()}
        members |= {new: source.read(old) for old, new in names.items()}
    facts = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **facts,
        "sha256": {name: sha256(content) for name, content in members.items()},
    }
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        for name, content in {FACTS: json.dumps(facts, indent=1).encode(), **members}.items():
            kind = ZIP_DEFLATED if name.endswith(".json") else ZIP_STORED
            archive.writestr(ZipInfo(name), content, kind)  # dated 1980, whenever written
    return packed.getvalue()


def _check_keys(node: dict[str, Any]) -> None:
    if node.get("__loader__") == "DictNode" and any(
        kind["__class__"] == "bool" for kind in node["key_types"]["content"]
    ):
        raise TypeError("a mapping has True or False as a key, which skops does not keep.")


def unpack(data: bytes) -> tuple[dict[str, Any], Any]:
    """Facts and schema of an archive that passes every check which needs no object of it."""
    require(data, "the file is empty.")
    require(data[:1] != b"\x80", "this seems to be a pickle, which would run code when loaded.")
    limit = max(LEAST_LIMIT, MOST_GROWTH * len(data))
    try:
        archive = ZipFile(BytesIO(data))
    except BadZipFile:
        raise ModelFileError("not a model file, or the end of one is missing.") from None
    with archive:
        require(FACTS in archive.namelist(), f"not written by naim3l: it has no {FACTS}.")
        _check_members(archive, limit)
        facts = json.loads(archive.read(FACTS))
        _check_format(facts)
        names = set(archive.namelist()) - {FACTS}
        require(names == set(facts["sha256"]), f"its members are not those that {FACTS} lists.")
        sizes = {}
        for name in names:
            content = archive.read(name)
            require(facts["sha256"][name] == sha256(content), f"{name} was changed.")
            sizes[name] = _unpacked_size(name, content, limit)
        schema = json.loads(archive.read(SCHEMA))
    _check_schema(schema, sizes, limit)
    return facts, schema


def _check_members(archive: ZipFile, limit: int) -> None:
    """Refuse odd names and ways of packing, and what unpacks to too much."""
    infos = archive.infolist()
    names = [info.orig_filename for info in infos]
    odd = [name for name in names if not _MEMBER.fullmatch(name)]
    require(not odd, f"it has members of unexpected names: {odd[:3]}.")
    require(len(set(names)) == len(names), "it has two members of one name.")
    for info in infos:
        usual = info.compress_type in (ZIP_STORED, ZIP_DEFLATED) and not info.flag_bits & 1
        require(usual, f"{info.filename} is encrypted or packed in an unexpected way.")
        fits = not info.filename.endswith(".json") or info.file_size <= JSON_LIMIT
        require(fits, f"{info.filename} would unpack to {info.file_size} bytes.")
    total = sum(info.file_size for info in infos)
    require(total <= limit, f"it would unpack to {total} bytes, more than the {limit} allowed.")


def _check_format(facts: Any) -> None:
    known = isinstance(facts, dict) and facts.get("format") == FORMAT
    require(known, f"not written by naim3l: {FACTS} does not say {FORMAT!r}.")
    number = facts["format_version"]
    require(type(number) is int and number >= 1, f"its format version is {number!r}.")
    require(
        number <= FORMAT_VERSION,
        f"it has format version {number}, and this naim3l reads up to {FORMAT_VERSION}: update "
        f"naim3l (the file was written by {facts.get('versions')}).",
    )


def _unpacked_size(name: str, content: bytes, limit: int) -> int:
    """Bytes that a member takes in memory; array headers must agree with what follows them."""
    if name.endswith(".npz"):
        with ZipFile(BytesIO(content)) as archive:
            _check_members(archive, limit)
            return sum(_unpacked_size("array.npy", archive.read(n), limit)
                       for n in archive.namelist())  # fmt: skip
    if name.endswith(".npy"):
        stream = BytesIO(content)
        shape, _, dtype = _HEADERS[np.lib.format.read_magic(stream)](stream)
        require(not dtype.hasobject, f"{name} holds pickled objects, which are never loaded.")
        size = math.prod(shape) * dtype.itemsize
        require(
            min(shape, default=0) >= 0 and size == len(content) - stream.tell(),
            f"{name} has not the size that its header says.",
        )
    return len(content)


def _check_schema(schema: Any, sizes: dict[str, int], limit: int) -> None:
    """Refuse a schema that refers to members wrongly or too often, or to parts of itself."""
    total = 0
    for node in mappings(schema):
        # Repeated references could make a small schema stand for an endless one.
        require(isinstance(node.get("__id__", {}), dict), f"{SCHEMA} refers to itself.")
        if isinstance(file := node.get("file"), str):
            ending = _ENDINGS.get(node["__loader__"])
            require(ending and file.endswith(ending), f"{SCHEMA} gives {file} a wrong role.")
            total += sizes[file]
    require(total <= limit, f"it would take {total} bytes, more than the {limit} allowed.")


def mappings(tree: Any) -> Iterator[dict[str, Any]]:
    """All mappings in parsed JSON, at any depth; each may be changed when it is handed out."""
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
        stack += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
