"""Archives: zip files of a JSON document and plain arrays, which are safe to read from anyone.

An archive is an ordinary zip file whose members are never compressed: ``naim3l.json`` is a JSON
object, ``arrays/0.npy``, ``arrays/1.npy``, ... are arrays of numbers in NumPy's format, and
``guests/0.skops``, ... are bytes that nothing here looks into. The document refers to arrays and
guests by number.

Bounds hold by construction. Members follow each other without gaps, so that together they are no
longer than the file; each is read at most once; the header of an array states the size of its
member exactly; and the nesting of the JSON is measured before it is parsed, so that no function
calls itself once per level of the file. Nothing is imported or run, and no object is created other
than arrays, and JSON's numbers, text, lists and mappings.
"""

import errno
import json
import math
import os
import re
import stat
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from naim3l._text import quote, visible
from naim3l.files.atomic_write import written_whole

Path_ = str | os.PathLike[str]

DOCUMENT = "naim3l.json"
# Levels of lists and mappings in a document, and its bytes, which are 30 times as many in memory.
MOST_DEPTH, MOST_JSON = 40, 2**28
# Longest number in JSON, in characters; the longest float has 24.
MOST_DIGITS = 32
MOST_DIMENSIONS, MOST_HEADER = 8, 2**12
# Product of the other dimensions of an array without elements, which no bytes stand for.
MOST_EMPTY = 2**20
# Little-endian truth values, whole numbers and floats; "|" marks types of one byte.
DTYPES = ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f4", "<f8")

_MAGIC = b"\x93NUMPY\x01\x00"
_PREFIX = len(_MAGIC) + 2  # with the length of the header
_ALIGNMENT = 64
_HEADER = re.compile(
    rb"\{'descr': '([^']{2,4})', 'fortran_order': (True|False), "
    rb"'shape': \((\d{1,19}(?:, \d{1,19})*,?)?\), \} *\n"
)
# Local header of a member: signature, version, flags, method, time, date, checksum, packed size,
# size, length of the name, length of the extra field.
_LOCAL = struct.Struct("<4s5H3L2H")
_END_SIZE, _END = 22, b"PK\x05\x06"
_ZIP64 = 0xFFFFFFFF  # stands for a size that is in the extra field
_TEXT_FLAG = 0x800  # a name in UTF-8


class ModelFileError(ValueError):
    """Error of a file that cannot be loaded; the message names the file and the reason."""


class Refusal(ValueError):
    """Reason for which a file or an object is refused, before the file or object is named.

    Parameters
    ----------
    reason : str
        A sentence; or, if places are added, the end of one, such as "should be a number."

    Attributes
    ----------
    places : list of str
        Where the value is, innermost first: names of attributes, and what comes after a name,
        which begins with a space, such as " of view 'lab'".

    Examples
    --------
    >>> refusal = Refusal("should be a number.")
    >>> refusal.places += ["slope", " of view 'lab'", "curves"]
    >>> str(refusal)
    "slope in curves of view 'lab' should be a number."
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
        reason = super().__str__()
        return f"{' in '.join(reversed(names))} {reason}" if names else reason


def require(holds: Any, reason: str) -> None:
    if not holds:
        raise Refusal(reason)


class Member(NamedTuple):
    """A member of a zip file: its name, the position and number of its bytes, their checksum."""

    name: str
    start: int
    size: int
    checksum: int


class Header(NamedTuple):
    """Header of an array: dtype, shape, whether columns are contiguous, and its own length."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    length: int


def write_archive(
    path: Path_,
    document: Mapping[str, Any],
    arrays: Sequence[NDArray[Any]] = (),
    guests: Sequence[bytes] = (),
) -> None:
    """Write an archive, completely or not at all; equal contents give equal bytes.

    Parameters
    ----------
    path : path of the file
        An existing file is replaced.
    document : mapping
        Types of JSON, finite numbers. For `open_archive` it has the keys ``format`` (str),
        ``version`` (int), and optionally ``written_by`` (mapping with the key ``naim3l``).
    arrays : sequence of ndarray, or of numbers of NumPy
        Truth values, whole numbers or floats (float32 or float64). The order of memory is kept.
    guests : sequence of bytes

    Raises
    ------
    TypeError, ValueError
        If something could not be read again.
    OSError
        If the file cannot be written.
    """
    text = json_text(document)
    plain = [plain_array(array) for array in arrays]
    with written_whole(path) as part, ZipFile(part, "w") as zipped:
        write_member(zipped, DOCUMENT, text)
        for i, array in enumerate(plain):
            flat = (array if array.flags.c_contiguous else array.T).reshape(-1)
            write_member(zipped, f"arrays/{i}.npy", _array_header(array), flat.view(np.uint8))
        for i, guest in enumerate(guests):
            write_member(zipped, f"guests/{i}.skops", guest)


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


def _array_header(array: NDArray[Any]) -> bytes:
    """Header in NumPy's format, written here so that it is the same with all versions of NumPy."""
    fortran = not array.flags.c_contiguous
    text = f"{{'descr': {array.dtype.str!r}, 'fortran_order': {fortran}, 'shape': {array.shape}, }}"
    length = -(-(_PREFIX + len(text) + 1) // _ALIGNMENT) * _ALIGNMENT - _PREFIX
    return _MAGIC + struct.pack("<H", length) + f"{text:<{length - 1}}\n".encode()


def write_member(zipped: ZipFile, name: str, *contents: Any) -> None:
    """Add a member that consists of one or several buffers; equal ones give equal bytes."""
    info = ZipInfo(name)  # dated 1980, whenever written
    info.create_system = 3  # on every system
    info.compress_type = ZIP_STORED
    info.file_size = sum(memoryview(content).nbytes for content in contents)  # decides on zip64
    with zipped.open(info, "w") as member:
        for content in contents:
            member.write(content)


def open_archive(path: Path_, *, format: str, newest_version: int) -> "Archive":
    """Archive whose members have been located and whose document has been parsed.

    Parameters
    ----------
    path : path of the file
    format : str
        Required value of ``format`` in the document, such as "naim3l model".
    newest_version : int
        Largest ``version`` that can be read; the smallest is 1.

    Returns
    -------
    Archive
        To be used in a ``with`` statement, or closed.

    Raises
    ------
    ModelFileError
        If the file is not an archive of this format and version, or is damaged.
    OSError
        If the file cannot be opened or read.
    """
    with naming(path):
        file = _open_regular(path)
        try:
            return Archive(path, file, format, newest_version)
        except BaseException:
            file.close()
            raise


class Archive:
    """An open archive; arrays and guests are read when they are asked for, once each.

    Attributes
    ----------
    path : path of the file
    size : int
        Bytes of the file.
    document : dict
        Parsed JSON.
    version : int
        Version of the format, which is in the document.
    n_arrays, n_guests : int
    """

    def __init__(self, path: Path_, file: IO[bytes], format: str, newest_version: int) -> None:
        self.path, self._file, self._used = path, file, set[str]()
        self.size = os.fstat(file.fileno()).st_size
        members = read_members(file, self.size)
        require(members[0].name == DOCUMENT, f"its first member is not {DOCUMENT}.")
        require(members[0].size <= MOST_JSON, f"its JSON has more than {MOST_JSON} bytes.")
        self.document: dict[str, Any] = parse_json(read_member(file, members[0]))
        self.version = _check_version(self.document, format, newest_version)
        names = [member.name for member in members]
        self.n_guests = sum(name.startswith("guests/") for name in names)
        self.n_arrays = len(names) - 1 - self.n_guests
        expected = [f"arrays/{i}.npy" for i in range(self.n_arrays)]
        expected += [f"guests/{i}.skops" for i in range(self.n_guests)]
        odd = next((a for a, b in zip(names[1:], expected, strict=True) if a != b), "")
        require(not odd, f"it has an unexpected member: {quote(odd)}.")
        self._members = {member.name: member for member in members[1:]}
        self._headers: dict[int, Header] = {}

    def header(self, index: int) -> Header:
        """Header of an array, which is not read."""
        # Kept, so that an array is as it was checked even if the file changes meanwhile.
        if index not in self._headers:
            with naming(self.path):
                member = self._member(f"arrays/{index}.npy")
                self._headers[index] = _read_header(self._file, member)
        return self._headers[index]

    def array(
        self, index: int, *, kinds: str = "biuf", shape: tuple[int, ...] | None = None
    ) -> NDArray[Any]:
        """An array, of one of the given kinds of types and, if it is given, of this shape."""
        with naming(self.path):
            member, header = self._take(f"arrays/{index}.npy"), self.header(index)
            fits = header.dtype.kind in kinds
            require(fits, f"{member.name} has the unexpected type {header.dtype}.")
            fits = shape is None or header.shape == tuple(shape)
            require(fits, f"{member.name} has shape {header.shape}, and should have {shape}.")
            return _read_array(self._file, member, header)

    def guest(self, index: int) -> bytes:
        """Bytes of a guest."""
        with naming(self.path):
            return read_member(self._file, self._take(f"guests/{index}.skops"))

    def check_all_read(self) -> None:
        """Refuse an archive with arrays or guests that have not been read."""
        with naming(self.path):
            unread = next((name for name in self._members if name not in self._used), "")
            require(not unread, f"nothing in it refers to {unread}.")

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _member(self, name: str) -> Member:
        require(name in self._members, f"it has no {name}.")
        return self._members[name]

    def _take(self, name: str) -> Member:
        # Twice would be two copies: a small file could then fill the memory.
        require(name not in self._used, f"it refers to {name} twice.")
        self._used.add(name)
        return self._member(name)


@contextmanager
def naming(path: Path_) -> Iterator[None]:
    """Context in which a refusal becomes a `ModelFileError` that names the file."""
    try:
        yield
    except Refusal as refusal:
        raise ModelFileError(f"{visible(os.fspath(path))}: {visible(str(refusal))}") from None


def _open_regular(path: Path_) -> IO[bytes]:
    """A file, opened for reading; opening others, such as pipes, must not wait for a writer."""
    _check_regular(os.stat(path))  # even opening a device can do something
    extra = (getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_BINARY"))
    descriptor = os.open(path, os.O_RDONLY | sum(extra))
    try:
        _check_regular(os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _check_regular(status: os.stat_result) -> None:
    require(not stat.S_ISDIR(status.st_mode), "it is a folder, not a file.")
    require(stat.S_ISREG(status.st_mode), "it is not a regular file, but a pipe or a device.")


def read_members(file: IO[bytes], size: int) -> list[Member]:
    """Members of a zip file in which they follow each other without gaps, uncompressed.

    Parameters
    ----------
    file : binary file
    size : int
        Bytes of the file.
    """
    require(size > 0, "the file is empty.")
    end = _read_at(file, max(0, size - _END_SIZE), min(size, _END_SIZE))
    whole = len(end) == _END_SIZE and end.startswith(_END) and end.endswith(b"\0\0")
    require(whole, "not a file of naim3l, or its end is missing or followed by other bytes.")
    try:
        with ZipFile(file, metadata_encoding="ascii") as zipped:
            infos, directory = zipped.infolist(), zipped.start_dir
    except Exception as error:  # damage surfaces as many types, from BadZipFile to struct.error
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise Refusal(f"its directory of members is damaged ({visible(str(error))}).") from None
    members: list[Member] = []
    position = 0
    for info in infos:
        members.append(_locate(file, info, position))
        position = members[-1].start + members[-1].size
        require(position <= size, "it ends too early.")
    require(members, "it has no members.")
    require(position == directory, "there are bytes between its members.")
    names = {member.name for member in members}
    require(len(names) == len(members), "it has two members with the same name.")
    return members


def _locate(file: IO[bytes], info: ZipInfo, position: int) -> Member:
    """The member that begins at a position, where its directory entry must place it."""
    name = quote(info.orig_filename)
    local = _LOCAL.unpack(_read_at(file, position, _LOCAL.size))
    sign, _, flags, method, _, _, checksum, packed, size, n_name, n_extra = local
    begins = info.header_offset == position and sign == b"PK\x03\x04"
    require(begins, f"the member {name} overlaps another, or does not follow it.")
    plain = info.compress_type == method == ZIP_STORED and info.compress_size == info.file_size
    plain = plain and not (info.flag_bits | flags) & ~_TEXT_FLAG
    require(plain, f"the member {name} is compressed or encrypted, which is never done.")
    own = _read_at(file, position + _LOCAL.size, n_name)
    # Others that read the file cut names at a zero.
    agrees = own == info.filename.encode() and info.filename == info.orig_filename
    agrees = agrees and checksum == info.CRC and {packed, size} <= {info.file_size, _ZIP64}
    require(agrees, f"the member {name} differs from its entry in the directory.")
    start = position + _LOCAL.size + n_name + n_extra
    return Member(info.orig_filename, start, info.file_size, info.CRC)


def read_member(file: IO[bytes], member: Member) -> bytes:
    """Bytes of a member, which must have its checksum."""
    content = _read_at(file, member.start, member.size)
    require(zlib.crc32(content) == member.checksum, f"{quote(member.name)} was changed.")
    return content


def _read_at(file: IO[bytes], position: int, size: int) -> bytes:
    file.seek(position)
    content = file.read(size)
    require(len(content) == size, "it ends too early.")
    return content


def _check_version(document: Mapping[str, Any], format: str, newest: int) -> int:
    """Version of the format of a document, which must be known."""
    own, version = document.get("format"), document.get("version")
    require(own == format, f"its format is {show(own)}, not {format!r}.")
    if type(version) is not int or version < 1:
        raise Refusal(f"its version of the format is {show(version)}.")
    writer = document.get("written_by")
    wrote = writer.get("naim3l") if isinstance(writer, dict) else None
    by = f"naim3l {wrote[:40]}" if isinstance(wrote, str) else "an unknown version"
    require(
        version <= newest,
        f"it has version {version} of the format, and this naim3l reads up to {newest}: update "
        f"naim3l (the file was written by {by}).",
    )
    return version


def show(value: Any) -> str:
    """A short description of a value in an error; of objects only the type."""
    if value is None or isinstance(value, bool | int | float | str | np.number):
        return quote(value)
    return f"a {type(value).__name__}"


def parse_json(text: bytes, most_depth: int = MOST_DEPTH) -> dict[str, Any]:
    """Object of a JSON text, with distinct keys and finite numbers of ordinary length."""
    require(len(text) <= MOST_JSON, f"its JSON has more than {MOST_JSON} bytes.")
    require(_depth(text) <= most_depth, f"its JSON is nested more than {most_depth} levels deep.")
    try:
        document = json.loads(
            text.decode("ascii"),
            object_pairs_hook=_distinct,
            parse_int=_whole,
            parse_float=_float,
            parse_constant=_float,
        )
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


def _whole(text: str) -> int:
    require(len(text) <= MOST_DIGITS, f"its JSON has a number of {len(text)} digits.")
    return int(text)


def _float(text: str) -> float:
    require(len(text) <= MOST_DIGITS, f"its JSON has a number of {len(text)} digits.")
    number = float(text)
    require(math.isfinite(number), f"its JSON has {text}, which is not a finite number.")
    return number


def _check_shape(shape: tuple[int, ...]) -> None:
    require(len(shape) <= MOST_DIMENSIONS, f"an array has {len(shape)} dimensions.")
    if 0 in shape:
        others = math.prod(n for n in shape if n)
        require(others <= MOST_EMPTY, f"an array without elements has the shape {shape}.")


def _read_header(file: IO[bytes], member: Member) -> Header:
    """Header of an array, which must account for all bytes of its member."""
    name = member.name
    require(member.size >= _PREFIX, f"{name} is not an array.")
    prefix = _read_at(file, member.start, _PREFIX)
    require(prefix.startswith(_MAGIC), f"{name} is not an array.")
    length = _PREFIX + int.from_bytes(prefix[-2:], "little")
    require(length <= min(member.size, MOST_HEADER), f"{name} has a header of {length} bytes.")
    text = _read_at(file, member.start + _PREFIX, length - _PREFIX)
    found = _HEADER.fullmatch(text)
    if found is None or (dtype := found[1].decode("ascii", "replace")) not in DTYPES:
        shown = quote(text.decode("latin-1").strip())
        raise Refusal(f"{name} is not an array of plain numbers, but {shown}.")
    shape = tuple(map(int, (found[3] or b"").replace(b",", b" ").split()))
    _check_shape(shape)
    size = math.prod(shape) * np.dtype(dtype).itemsize
    fits = size == member.size - length
    require(fits, f"{name} has {member.size - length} bytes, not {size} as its header states.")
    return Header(np.dtype(dtype), shape, found[2] == b"True", length)


def _read_array(file: IO[bytes], member: Member, header: Header) -> NDArray[Any]:
    start = _read_at(file, member.start, header.length)  # the file is at the data afterwards
    try:
        flat: NDArray[Any] = np.empty(math.prod(header.shape), dtype=header.dtype)
    except MemoryError:
        raise Refusal(f"{member.name} has {member.size} bytes, too many for the memory.") from None
    content: Any = flat.view(np.uint8)
    require(file.readinto(content) == content.size, "it ends too early.")  # type: ignore[attr-defined]
    checksum = zlib.crc32(content, zlib.crc32(start))
    require(checksum == member.checksum, f"{member.name} was changed.")
    if header.dtype == bool:
        # Other bytes would be counted as True in one function of NumPy and as 2 in another.
        proper = content.max(initial=0) <= 1
        require(proper, f"{member.name} has values that are neither True nor False.")
    return flat.reshape(header.shape, order="F" if header.fortran else "C")
