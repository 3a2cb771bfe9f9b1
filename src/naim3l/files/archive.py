"""Archives: zip files of a JSON document and plain arrays, which are safe to read from anyone.

An archive is an ordinary zip file whose members are never compressed: ``naim3l.json``, arrays
``arrays/0.npy``, ... in NumPy's format, and ``guests/0.skops``, ..., bytes that nothing here looks
into. The document refers to arrays and guests by number.

Bounds hold by construction. Together the members are no longer than the file, and each is read at
most once; the header of an array states the size of its member exactly; and the nesting of the JSON
is measured before it is parsed. Nothing is imported or run, and no object is made other than arrays
and JSON's values.
"""

import errno
import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, NamedTuple
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from naim3l._text import quote, visible
from naim3l.files.atomic_write import Path_, written_whole

DOCUMENT = "naim3l.json"
# Levels of lists and mappings in a document, and its bytes, which are 30 times as many in memory.
MOST_DEPTH, MOST_JSON = 40, 2**28
MOST_DIMENSIONS, MOST_HEADER = 8, 2**12
# Product of the other dimensions of an array without elements, which no bytes stand for.
MOST_EMPTY = 2**20
# Little-endian truth values, whole numbers and floats; "|" marks types of one byte.
DTYPES = ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f4", "<f8")

_MAGIC = b"\x93NUMPY\x01\x00"
# The header that NumPy writes, without its parser, which evaluates Python.
_HEADER = re.compile(
    rb"\{'descr': '([^']{2,4})', 'fortran_order': (True|False), "
    rb"'shape': \((\d{1,19}(?:, \d{1,19})*,?)?\), \} *\n"
)
_ENCRYPTED = 0x1


class ModelFileError(ValueError):
    """Error of a file that cannot be loaded; the message names the file and the reason.

    Examples
    --------
    >>> from naim3l import ModelFileError
    >>> issubclass(ModelFileError, ValueError)
    True
    """


class Refusal(ValueError):
    """Reason for which a file or an object is refused, before the file or object is named.

    ``places`` says where, innermost first: attributes, and what comes after one, with a space, as
    in "slope in curves of view 'lab' should be a number."
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.places: list[str] = []

    def __str__(self) -> str:
        names: list[str] = []
        for place in reversed(self.places):
            if place.startswith(" ") and names:
                names[-1] += place
            else:
                names.append(place.strip())
        return " ".join([" in ".join(reversed(names)), super().__str__()]).strip()


def require(holds: Any, reason: str) -> None:
    if not holds:
        raise Refusal(reason)


class Header(NamedTuple):
    """Header of an array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool  # whether columns are contiguous
    length: int  # of the header


def write_archive(
    path: Path_,
    document: Mapping[str, Any],
    arrays: Sequence[NDArray[Any]] = (),
    guests: Sequence[bytes] = (),
) -> None:
    """Write an archive, completely or not at all; equal contents give equal bytes.

    The document has ``format`` (str), ``version`` (int), and optionally ``written_by``, a mapping
    with ``naim3l``. The order of memory of arrays is kept.
    """
    text, plain = json_text(document), [plain_array(array) for array in arrays]
    members: dict[str, Any] = {DOCUMENT: text}
    members |= {f"arrays/{i}.npy": array for i, array in enumerate(plain)}
    members |= {f"guests/{i}.skops": guest for i, guest in enumerate(guests)}
    with written_whole(path) as part, ZipFile(part, "w") as zipped:
        for name, content in members.items():
            info = ZipInfo(name)  # dated 1980, whenever written
            info.create_system = 3  # on every system
            info.file_size = memoryview(content).nbytes + MOST_HEADER  # decides on zip64
            with zipped.open(info, "w") as member:
                if isinstance(content, bytes):
                    member.write(content)
                else:
                    np.lib.format.write_array(member, content, version=(1, 0), allow_pickle=False)


def json_text(document: Any) -> bytes:
    """JSON of a document, which can be parsed again with the same result."""
    try:
        text = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
        kept = parse_json(text) == document
    except (RecursionError, Refusal) as error:
        raise ValueError(f"the document cannot be stored as JSON: {error}") from None
    if not kept:
        raise TypeError("the document has keys or values that JSON changes.")
    return text


def plain_array(array: Any) -> NDArray[Any]:
    """The array as it is stored: contiguous, little-endian, of one of the allowed types."""
    if not isinstance(array, np.ndarray | np.generic) or isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"only arrays of NumPy can be stored, got {type(array).__name__}.")
    array = np.asarray(array)
    dtype = array.dtype.newbyteorder("<") if array.dtype.names is None else array.dtype
    if dtype.str not in DTYPES:
        raise TypeError(f"arrays of type {array.dtype} cannot be stored, only plain numbers.")
    _check_shape(array.shape)
    order = array.flags.f_contiguous and not array.flags.c_contiguous
    return np.asarray(array, dtype=dtype, order="F" if order else "C")


class Archive:
    """An archive of a format, opened; arrays and guests are read when asked for, once each.

    Raises a `ModelFileError` if it is of another format, or a newer version or one before
    ``oldest_version``, or damaged.
    """

    def __init__(
        self, path: Path_, *, format: str, newest_version: int, oldest_version: int = 1
    ) -> None:
        self.path = path
        with naming(path):
            mode = os.stat(path).st_mode  # opening a pipe would wait for a writer
            require(not stat.S_ISDIR(mode), "it is a folder, not a file.")
            require(stat.S_ISREG(mode), "it is not a regular file, but a pipe or a device.")
            self._zip = open_zip(open(path, "rb"), os.path.getsize(path))  # noqa: SIM115
            try:
                names = [info.filename for info in self._zip.infolist()]
                require(names[:1] == [DOCUMENT], f"its first member is not {DOCUMENT}.")
                self.document = parse_json(read_member(self._zip, DOCUMENT))
                _check_version(self.document, format, oldest_version, newest_version)
                self.n_guests = sum(name.startswith("guests/") for name in names)
                self.n_arrays = len(names) - 1 - self.n_guests
                expected = {f"arrays/{i}.npy" for i in range(self.n_arrays)}
                expected |= {f"guests/{i}.skops" for i in range(self.n_guests)}
                odd = next((name for name in names[1:] if name not in expected), "")
                require(not odd, f"it has an unexpected member: {quote(odd)}.")
            except BaseException:
                self.close()
                raise
        self._unread = dict.fromkeys(names[1:])
        self._headers: dict[int, Header] = {}

    def header(self, index: int) -> Header:
        """Header of an array, which is not read."""
        # Kept, so that an array is as it was checked even if the file changes meanwhile.
        if index not in self._headers:
            with naming(self.path), _open_member(self._zip, f"arrays/{index}.npy") as member:
                size = self._zip.NameToInfo[member.name].file_size
                self._headers[index] = _read_header(member, size)
        return self._headers[index]

    def array(self, index: int) -> NDArray[Any]:
        header, name = self.header(index), f"arrays/{index}.npy"
        with naming(self.path), _open_member(self._zip, self._take(name)) as member:
            return _read_array(member, header)

    def guest(self, index: int) -> bytes:
        with naming(self.path):
            return read_member(self._zip, self._take(f"guests/{index}.skops"))

    def check_all_read(self) -> None:
        """Refuse an archive with arrays or guests that have not been read."""
        with naming(self.path):
            require(not self._unread, f"nothing in it refers to {next(iter(self._unread), '')}.")

    def close(self) -> None:
        file = self._zip.fp
        self._zip.close()
        if file is not None:
            file.close()

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _take(self, name: str) -> str:
        # Twice would be two copies: a small file could then fill the memory.
        missing = name not in self._zip.NameToInfo
        require(missing or name in self._unread, f"it refers to {name} twice.")
        self._unread.pop(name, None)
        return name


def format_of(path: Path_) -> Any:
    """Format that an archive states, of which nothing else is checked; None of other files."""
    if not os.path.isfile(path):  # opening a pipe would wait for a writer
        return None
    with suppress(Refusal), open(path, "rb") as file:
        zipped = open_zip(file, os.path.getsize(path))
        return parse_json(read_member(zipped, DOCUMENT)).get("format")
    return None


@contextmanager
def naming(path: Path_) -> Iterator[None]:
    """Context in which a refusal becomes a `ModelFileError` that names the file."""
    try:
        yield
    except Refusal as refusal:
        raise ModelFileError(f"{visible(os.fspath(path))}: {visible(str(refusal))}") from None


@contextmanager
def _damage(what: str) -> Iterator[None]:
    """Context in which errors of a damaged zip file, which are of many types, become refusals."""
    try:
        yield
    except (Refusal, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.EIO:  # the disk, not the file
            raise
        raise Refusal(f"{what} is damaged ({visible(str(error))}).") from None


def open_zip(file: IO[bytes], size: int) -> ZipFile:
    """A zip file whose members are not compressed, and together no longer than the file."""
    try:
        require(size > 0, "the file is empty.")
        with _damage("not a file of naim3l, or it"):
            zipped = ZipFile(file, metadata_encoding="ascii")
        infos = zipped.infolist()
        for info in infos:
            plain = info.compress_type == ZIP_STORED and not info.flag_bits & _ENCRYPTED
            plain = plain and info.compress_size == info.file_size
            name = quote(info.filename)
            require(plain, f"the member {name} is compressed or encrypted, which is never done.")
        require(sum(info.file_size for info in infos) <= size, "its members overlap.")
        require(len(zipped.NameToInfo) == len(infos), "it has two members with the same name.")
    except BaseException:
        file.close()
        raise
    return zipped


def read_member(zipped: ZipFile, name: str) -> bytes:
    """Bytes of a member, which must have its checksum."""
    with _open_member(zipped, name) as member:
        return member.read()


@contextmanager
def _open_member(zipped: ZipFile, name: str) -> Iterator[IO[bytes]]:
    require(name in zipped.NameToInfo, f"it has no {name}.")
    with _damage(name), zipped.open(name) as member:
        yield member


def _check_version(document: Mapping[str, Any], format: str, oldest: int, newest: int) -> None:
    own, version = document.get("format"), document.get("version")
    require(own == format, f"its format is {show(own)}, not {format!r}.")
    if type(version) is not int or version < 1:
        raise Refusal(f"its version of the format is {show(version)}.")
    writer = document.get("written_by")
    wrote = writer.get("naim3l") if isinstance(writer, dict) else None
    by = f"naim3l {wrote[:40]}" if isinstance(wrote, str) else "an unknown version"
    known = f"it has version {version} of the format, and this naim3l reads"
    wrote = f"the file was written by {by}"
    require(version <= newest, f"{known} up to {newest}: update naim3l ({wrote}).")
    require(version >= oldest, f"{known} none before {oldest}: fit again ({wrote}).")


def show(value: Any) -> str:
    """A short description of a value in an error; of objects only the type."""
    if value is None or isinstance(value, bool | int | float | str | np.number):
        return quote(value)
    return f"a {type(value).__name__}"


def parse_json(text: bytes, most_depth: int = MOST_DEPTH) -> dict[str, Any]:
    """Object of a JSON text, with distinct keys and finite numbers."""
    require(len(text) <= MOST_JSON, f"its JSON has more than {MOST_JSON} bytes.")
    require(_depth(text) <= most_depth, f"its JSON is nested more than {most_depth} levels deep.")
    try:
        numbers: Any = dict.fromkeys(("parse_float", "parse_constant"), _finite)
        document = json.loads(text.decode("ascii"), object_pairs_hook=_distinct, **numbers)
    except Refusal:
        raise
    except ValueError as error:
        raise Refusal(f"its JSON is damaged ({visible(str(error)[:200])}).") from None
    require(isinstance(document, dict), "its JSON is not a mapping.")
    return document


def _depth(text: bytes) -> int:
    """Largest number of open brackets in JSON, outside of strings; at least that of a parser."""
    # Escaped backslashes and quotes go first; then every second piece between quotes is a string.
    pieces = text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    brackets = np.frombuffer(b"".join(pieces), dtype=np.uint8)
    opening = (brackets == ord("[")) | (brackets == ord("{"))
    closing = (brackets == ord("]")) | (brackets == ord("}"))
    steps = opening.astype(np.int8) - closing.astype(np.int8)
    return int(np.cumsum(steps, dtype=np.int32).max(initial=0))


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    require(len(found) == len(pairs), "its JSON has a mapping with the same key twice.")
    return found


def _finite(text: str) -> float:
    number = float(text)
    require(math.isfinite(number), f"its JSON has {quote(text)}, which is not a finite number.")
    return number


def _check_shape(shape: tuple[int, ...]) -> None:
    require(len(shape) <= MOST_DIMENSIONS, f"an array has {len(shape)} dimensions.")
    if 0 in shape:
        others = math.prod(n for n in shape if n)
        require(others <= MOST_EMPTY, f"an array without elements has the shape {shape}.")


def _read_header(member: IO[bytes], size: int) -> Header:
    """Header of an array, which must account for all bytes of its member."""
    prefix = member.read(len(_MAGIC) + 2)
    plain = prefix.startswith(_MAGIC) and len(prefix) == len(_MAGIC) + 2
    require(plain, f"{member.name} is not an array.")
    length = int.from_bytes(prefix[-2:], "little")
    require(length <= MOST_HEADER, f"{member.name} has a header of {length} bytes.")
    text = member.read(length)
    found = _HEADER.fullmatch(text)
    if found is None or (dtype := found[1].decode("ascii", "replace")) not in DTYPES:
        shown = quote(text.decode("latin-1").strip())
        raise Refusal(f"{member.name} is not an array of plain numbers, but {shown}.")
    shape = tuple(map(int, (found[3] or b"").replace(b",", b" ").split()))
    _check_shape(shape)
    stated, data = math.prod(shape) * np.dtype(dtype).itemsize, size - len(prefix) - length
    require(data == stated, f"{member.name} has {data} bytes, not {stated} as its header states.")
    return Header(np.dtype(dtype), shape, found[2] == b"True", len(prefix) + length)


def _read_array(member: IO[bytes], header: Header) -> NDArray[Any]:
    member.read(header.length)
    flat: NDArray[Any] = np.empty(math.prod(header.shape), dtype=header.dtype)
    content: Any = flat.view(np.uint8)
    position = 0
    while position < content.size:  # in pieces, which are in memory twice
        n = member.readinto(content[position : position + 2**24])  # type: ignore[attr-defined]
        require(n, f"{member.name} ends too early.")
        position += n
    require(not member.read(1), f"{member.name} goes on after its array.")
    if header.dtype == bool:
        # Other bytes would be counted as True in one function of NumPy and as 2 in another.
        proper = content.max(initial=0) <= 1
        require(proper, f"{member.name} has values that are neither True nor False.")
    return flat.reshape(header.shape, order="F" if header.fortran else "C")
