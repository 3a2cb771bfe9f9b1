"""Zip archives of models, and checks of their members before any of them is used.

Archives can be read by skops: ``schema.json`` contains the types and attributes of the model, and
members such as ``0.npy`` its arrays. ``naim3l.json`` adds a description of the model, and a
checksum of each other member.

Arrays are never compressed. Compressed JSON has at most ``JSON_FLOOR`` bytes, or the size of the
file if that is more; otherwise it is stored without compression. Sizes that a file states are not
trusted: members are read up to their limit only.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from re import compile as pattern
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

FORMAT, FORMAT_VERSION = "naim3l model", 1
FACTS, SCHEMA = "naim3l.json", "schema.json"
# Once parsed, JSON takes up to 35 times its length.
JSON_FLOOR = 2**20
_MEMBER = pattern(r"[A-Za-z0-9_]{1,64}\.(json|npy|npz)")
# Facts that `describe` writes, other than numbers and flags, and their types in JSON.
_FACT_TYPES = {"versions": dict, "class": str, "form": str, "label_names": list, "views": dict,
               "parameters": dict, "sha256": dict}  # fmt: skip


class ModelFileError(ValueError):
    """Error of a file that cannot be loaded as a model; the message names the file and the reason.

    Examples
    --------
    >>> import naim3l
    >>> with open("notes.txt", "w") as file:
    ...     n_characters = file.write("no model")
    >>> try:
    ...     model = naim3l.load("notes.txt")
    ... except naim3l.ModelFileError as error:
    ...     print(error)
    notes.txt: not a model file, or the end of one is missing.
    """


def require(holds: Any, reason: str) -> None:
    if not holds:
        raise ModelFileError(reason)


@dataclass(frozen=True)
class Contents:
    """Contents of an archive.

    Attributes
    ----------
    facts, schema : parsed JSON
    members : dict of str to bytes
        All other members.
    size : int
        Size of the file in bytes.
    """

    facts: dict[str, Any]
    schema: Any
    members: dict[str, bytes]
    size: int


def split_dump(dump: bytes) -> tuple[Any, dict[str, bytes]]:
    """Schema and other members of a dump of skops; those of equal objects are equal."""
    with ZipFile(BytesIO(dump)) as source:
        schema = json.loads(source.read(SCHEMA))
        names: dict[str, str] = {}
        for node in _mappings(schema):
            # An address in memory; shared parts are written each time they occur.
            if not isinstance(node.get("__id__"), dict):
                node.pop("__id__", None)
            if isinstance(file := node.get("file"), str):
                node["file"] = names.setdefault(file, f"{len(names)}{Path(file).suffix}")
            _check_keys(node)
        members = {new: source.read(old) for old, new in names.items()}
    return schema, {name: _stored(content) if name.endswith(".npz") else content
                    for name, content in members.items()}  # fmt: skip


def pack(dump: bytes, facts: dict[str, Any]) -> bytes:
    """Archive of a dump of skops and of ``facts`` about it; equal models have equal archives."""
    schema, members = split_dump(dump)
    members = {SCHEMA: json.dumps(schema).encode(), **members}
    facts = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **facts,
        "sha256": {name: sha256(content) for name, content in members.items()},
    }
    members = {FACTS: json.dumps(facts, indent=1).encode(), **members}
    archive = zip_members(members, {name for name in members if name.endswith(".json")})
    n_bytes = sum(len(content) for name, content in members.items() if name.endswith(".json"))
    return archive if n_bytes <= json_limit(len(archive)) else zip_members(members)


def zip_members(members: dict[str, bytes], compressed: Any = ()) -> bytes:
    """Archive of members, of which those in ``compressed`` are deflated."""
    target = BytesIO()
    with ZipFile(target, "w") as archive:
        for name, content in members.items():
            kind = ZIP_DEFLATED if name in compressed else ZIP_STORED
            archive.writestr(ZipInfo(name), content, kind)  # dated 1980, whenever written
    return target.getvalue()


def json_limit(size: int) -> int:
    """Number of bytes to which the JSON in a file of this size may decompress."""
    return max(JSON_FLOOR, size)


def _stored(archive: bytes) -> bytes:
    """The archive without compression, as arrays are stored."""
    with ZipFile(BytesIO(archive)) as source:
        return zip_members({name: source.read(name) for name in sorted(source.namelist())})


def _check_keys(node: dict[str, Any]) -> None:
    if node.get("__loader__") == "DictNode" and any(
        kind["__class__"] == "bool" for kind in node["key_types"]["content"]
    ):
        raise TypeError("a mapping has True or False as a key, which skops does not store.")


def unpack(data: bytes) -> Contents:
    """Contents of an archive, whose members must be those that were written."""
    require(data, "the file is empty.")
    require(data[:1] != b"\x80", "this seems to be a pickle, which would run code when loaded.")
    members = read_members(data, json_limit(len(data)))
    require(FACTS in members, f"not written by naim3l: it has no {FACTS}.")
    facts = json.loads(members.pop(FACTS))
    _check_facts(facts)
    listed = facts["sha256"]
    require(set(members) == set(listed), f"its members are not those that {FACTS} lists.")
    for name, content in members.items():
        require(listed[name] == sha256(content), f"{name} was changed.")
    return Contents(facts, json.loads(members.pop(SCHEMA)), members, len(data))


def read_members(data: bytes, limit: int = 0) -> dict[str, bytes]:
    """Members of an archive by name; JSON up to ``limit`` bytes, others up to the file's size.

    Members could share their bytes, so that limits apply to all of them together.
    """
    try:
        archive = ZipFile(BytesIO(data))
    except BadZipFile:
        raise ModelFileError("not a model file, or the end of one is missing.") from None
    with archive:
        infos = archive.infolist()
        _check_members(infos)
        members, left = {}, {True: limit, False: len(data)}
        for info in infos:
            is_json = info.filename.endswith(".json")
            with archive.open(info) as file:
                content = file.read(left[is_json] + 1)
            left[is_json] -= len(content)
            require(
                left[is_json] >= 0,
                f"{info.filename} would decompress to more than a file of {len(data)} bytes may.",
            )
            members[info.filename] = content
    return members


def _check_members(infos: list[ZipInfo]) -> None:
    """Refuse unexpected names and compression methods."""
    names = [info.orig_filename for info in infos]
    odd = [name for name in names if not _MEMBER.fullmatch(name)]
    if odd and FACTS not in names:
        raise ModelFileError(f"not written by naim3l: it has no {FACTS}.")
    require(not odd, f"it has members of unexpected names: {odd[:3]}.")
    require(len(set(names)) == len(names), "it has two members with the same name.")
    for info in infos:
        is_json = info.filename.endswith(".json")
        kinds = (ZIP_STORED, ZIP_DEFLATED) if is_json else (ZIP_STORED,)
        usual = info.compress_type in kinds and not info.flag_bits & 1
        require(usual, f"{info.filename} is encrypted or compressed in an unexpected way.")


def _check_facts(facts: Any) -> None:
    known = isinstance(facts, dict) and facts.get("format") == FORMAT
    require(known, f"not written by naim3l: the format in {FACTS} is not {FORMAT!r}.")
    number = facts.get("format_version")
    require(type(number) is int and number >= 1, f"its format version is {number!r}.")
    require(
        number <= FORMAT_VERSION,
        f"it has format version {number}, and this naim3l reads up to {FORMAT_VERSION}: update "
        f"naim3l (the file was written by {facts.get('versions')}).",
    )
    for name, kind in _FACT_TYPES.items():
        require(isinstance(facts.get(name), kind), f"{FACTS} does not contain the {name}.")
    views = facts["views"].values()
    require(all(isinstance(view, dict) for view in views), f"{FACTS} does not describe the views.")


def _mappings(tree: Any) -> Iterator[dict[str, Any]]:
    """All mappings in parsed JSON, at any depth; each may be changed when it is yielded."""
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
        stack += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
