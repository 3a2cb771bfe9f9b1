"""Files in object stores, by addresses such as ``s3://bucket/folder``, with pyarrow's file systems.

Where a store is, and who may read it, comes from the usual variables of the environment, such as
``AWS_ENDPOINT_URL`` and ``AWS_ACCESS_KEY_ID``.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from naim3l.files.errors import ReadError, load_extra
from naim3l.files.secrets import PATTERN_SIGNS, bare_address, hide_parts


@dataclass(frozen=True)
class StoreFile:
    """A file in a store, with what code needs that reads paths."""

    path: str  # with the name of the bucket
    filesystem: Any = field(repr=False)

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.path).suffix

    @property
    def suffixes(self) -> list[str]:
        return PurePosixPath(self.path).suffixes

    def __str__(self) -> str:
        return self.path

    def open(self, mode: str = "rb") -> Any:
        return self.filesystem.open_input_file(self.path)


def store_files(source: str) -> tuple[str, list[StoreFile]]:
    """Files of an address in a store: of one, of a folder, or of a pattern; and their folder."""
    shown = bare_address(source)
    with _errors_name(source):
        filesystem, path = _open(source)
        kinds = load_extra("pyarrow.fs").FileType
        parts, base = PurePosixPath(path).parts, path.rstrip("/")
        if filesystem.get_file_info(base).type == kinds.File:
            return str(PurePosixPath(base).parent), [StoreFile(base, filesystem)]
        if is_pattern := any(sign in path for sign in PATTERN_SIGNS):
            fixed = next(k for k, part in enumerate(parts) if set(PATTERN_SIGNS) & set(part))
            base = "/".join(parts[:fixed])
        select = load_extra("pyarrow.fs").FileSelector(base, allow_not_found=True, recursive=True)
        wanted = _as_regex(path) if is_pattern else re.compile("")
        found = [info.path for info in filesystem.get_file_info(select) if info.type == kinds.File]
    files = [
        StoreFile(each, filesystem)
        for each in found
        if wanted.match(each)
        and not any(
            part[:1] in "._" for part in PurePosixPath(each[len(base) :]).parts if part != "/"
        )
    ]
    if not files:
        raise ReadError(f"{shown}: there are no files there.")
    return base, files


def _open(source: str) -> tuple[Any, str]:
    """File system and path of an address."""
    fs, address = load_extra("pyarrow.fs"), urlsplit(source.replace("#", "%23"))
    unsigned = os.environ.get("AWS_NO_SIGN_REQUEST", "").lower() in ("1", "true", "yes")
    if address.scheme.lower() == "s3" and (unsigned or address.username == "anonymous"):
        given = parse_qs(address.query)
        options = {key: given[key][0] for key in ("region", "endpoint_override") if key in given}
        places = map(os.environ.get, ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
        if (endpoint := next(filter(None, places), None)) is not None:
            options.setdefault("endpoint_override", endpoint)
        path = unquote(f"{address.netloc.rpartition('@')[2]}{address.path}")
        return fs.S3FileSystem(anonymous=True, **options), path
    try:  # names may contain signs that addresses must not
        return fs.FileSystem.from_uri(source)
    except load_extra("pyarrow").ArrowInvalid:
        escaped = re.sub(r"[\[\]# ]", lambda sign: f"%{ord(sign[0]):02X}", source)
        if escaped == source:
            raise
        return fs.FileSystem.from_uri(escaped)


@contextmanager
def _errors_name(source: str) -> Iterator[None]:
    """Context in which errors of a store name the address, without anything secret in it."""
    try:
        yield
    except (OSError, ValueError, ImportError) as error:
        if isinstance(error, ReadError):
            raise
        cause = hide_parts(f"{type(error).__name__}: {error}", source)
        raise ReadError(f"{bare_address(source)}: cannot be read ({cause}).") from None


def _as_regex(pattern: str) -> re.Pattern[str]:
    """Regular expression of a pattern, in which ``**`` are any folders, as in glob."""
    found, rest = "", pattern
    while rest:
        if piece := re.match(r"\*\*/|\*\*|\*|\?|\[!?[^/]+?\]", rest):
            of = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
            signs = re.sub(r"([\\\[&~|])", r"\\\1", piece[0][1:])
            found += of.get(piece[0]) or "[" + re.sub("^!", "^", signs)
            rest = rest[piece.end() :]
        else:
            found, rest = found + re.escape(rest[0]), rest[1:]
    return re.compile(f"{found}\\Z", re.DOTALL)
