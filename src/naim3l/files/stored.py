"""Declared fields: how objects are stored as JSON and arrays, and checked when they are read.

A class that can be stored declares its attributes:

    @dataclass(frozen=True)
    class Calibration:
        slope: Annotated[Matrix, Array("f", "labels")]
        offset: Annotated[Matrix, Array("f", "labels")]

One whose attributes are no fields of a dataclass has a mapping of their names, ``_stored``.

Reading follows declarations alone: a file can neither name a class nor add an attribute. An object
is made only of values that have been checked. What could not be loaded again is not saved.

**Sizes have names.** The first use of a name binds it, and later ones must agree, in the order of
declarations. ``Nested`` objects share the sizes of the object that they are in. ``MapOf(...,
keys="views")`` has own sizes for each view, the same in all such maps; items of lists, and of maps
with other keys, have own sizes each.

**Making objects.** Attributes are set without calling ``__init__``, unless the class has
``_from_stored(values)``; ``_to_stored()`` may return the values to store. ``_check_stored()``
raises a ValueError if attributes contradict each other.
"""

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from operator import ge, gt, le, lt
from types import EllipsisType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from naim3l._arrays import ArrayFields
from naim3l._text import quote, some, visible
from naim3l.files.archive import (
    Archive,
    Header,
    ModelFileError,
    Path_,
    Refusal,
    json_text,
    naming,
    parse_json,
    plain_array,
    require,
    show,
    write_archive,
)
from naim3l.files.guests import check_trust, is_type_name, load_guest, pack_guest, type_names

FORMAT, VERSION, OLDEST = "naim3l model", 2, 2
MODEL_FORMAT = FORMAT, VERSION, OLDEST  # name of a format, its newest version, the oldest readable
LARGEST, LARGEST_SIZE = 2**63, 2**31 - 1  # whole numbers are below the first

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_BEYOND = {"at least": lt, "at most": gt, "above": le, "below": ge}
_KINDS = {"f": "numbers", "i": "whole numbers", "u": "unsigned numbers", "b": "truth values"}


class Scope:
    """Sizes, and lists of names, by the name of what they count; an inner scope sees the outer."""

    __slots__ = ("_children", "_known", "_outer")

    def __init__(self, outer: "Scope | None" = None) -> None:
        self._outer = outer
        self._known: dict[Any, Any] = {}
        self._children: dict[tuple[str, str], Scope] = {}

    def size(self, name: Any) -> Any:
        """A size, None if it is not known yet."""
        if name in self._known or self._outer is None:
            return self._known.get(name)
        return self._outer.size(name)

    def names(self, name: str) -> list[str]:
        return self.size(("names", name)) or []

    def bind(self, name: Any, size: Any) -> bool:
        """Whether a size agrees with what is known; if nothing is, it is known from now on."""
        known = self.size(name)
        if known is None:
            self._known[name] = size
        return known is None or known == size

    def bind_names(self, name: str, names: list[str]) -> bool:
        """As `bind`, for distinct names, which bind their number as well."""
        return self.bind(("names", name), names) and self.bind(name, len(names))

    def child(self, name: str, key: str) -> "Scope":
        """The inner scope of a key, such as a view, which is the same each time."""
        return self._children.setdefault((name, key), Scope(self))


@dataclass
class Stored:
    """A value in types of JSON, and its arrays and guests, to which it refers by number."""

    document: Any = None
    arrays: list[NDArray[Any]] = field(default_factory=list)
    guests: list[bytes] = field(default_factory=list)
    guest_types: list[list[str]] = field(default_factory=list)  # in each, to be trusted

    # As an `Archive`, of which the reader needs no more than this.

    def header(self, index: int) -> Header:
        array = self.arrays[index]
        return Header(array.dtype, array.shape, False, 0)

    def array(self, index: int) -> NDArray[Any]:
        return self.arrays[index]

    def guest(self, index: int) -> bytes:
        return self.guests[index]


@dataclass
class Reader:
    """What reading needs beside the document: arrays, and the types that guests may contain."""

    source: Archive | Stored
    trusted: Collection[str] = ()


class Field:
    """Declaration of an attribute, or of a part of one."""

    types: ClassVar[tuple[Any, ...]] = (object,)
    json: ClassVar[type] = object  # exact type in a document
    words = ""

    def fits(self, value: Any) -> bool:
        """Whether a value of Python is of the right type, whatever its contents."""
        # A bool is an int to Python.
        return isinstance(value, self.types) and (type(value) is not bool or int not in self.types)

    def expected(self, scope: Scope) -> str:
        """Description of the values that are allowed, for errors."""
        return self.words

    def refuse(self, scope: Scope, found: Any) -> Refusal:
        return Refusal(f"should be {self.expected(scope)}, and is {show(found)}.")

    def write(self, value: Any, stored: Stored) -> Any:
        """The value in types of JSON; its contents are checked when the result is read."""
        if not self.fits(value):
            raise self.refuse(Scope(), value)
        return self.encode(value, stored)

    def encode(self, value: Any, stored: Stored) -> Any:
        """The value in types of JSON, given that it is of the right type."""
        return value

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        """The value, checked; lists and mappings of the document are reused for it."""
        if self.json not in (object, type(found)):
            raise self.refuse(scope, found)
        return found


class Number(Field):
    """A number within bounds; ``finite=False`` allows NaN, and infinities within the bounds."""

    types: ClassVar[tuple[Any, ...]] = (int, float, np.integer, np.floating)

    def __init__(
        self,
        low: float | None = None,
        high: float | None = None,
        *,
        above: float | None = None,
        below: float | None = None,
        finite: bool = True,
    ) -> None:
        bounds = {"at least": low, "at most": high, "above": above, "below": below}
        self.bounds = {word: bound for word, bound in bounds.items() if bound is not None}
        self.finite = finite

    def expected(self, scope: Scope) -> str:
        return f"a number{self.range_text()}"

    def range_text(self) -> str:
        return " and".join(f" {word} {bound}" for word, bound in self.bounds.items())

    def outside(self, least: Any, most: Any) -> Any:
        """``least`` or ``most`` if it is out of range, otherwise None; NaN is in every range."""
        for word, bound in self.bounds.items():
            extreme = least if word in ("at least", "above") else most
            if _BEYOND[word](extreme, bound):
                return extreme
        return None

    def encode(self, value: Any, stored: Stored) -> Any:
        value = int(value) if isinstance(value, int | np.integer) else float(value)
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        if not self.finite and type(found) is str:
            found = _NOT_FINITE.get(found, found)
        fits = type(found) is float or (type(found) is int and abs(found) < LARGEST)
        if not fits or self.outside(found, found) is not None:
            raise self.refuse(scope, found)
        return found


class Whole(Number):
    """A whole number; with ``size="columns"``, one of columns, which binds that size."""

    types = (int, np.integer)

    def __init__(
        self, low: int | None = None, high: int | None = None, *, size: str | None = None
    ) -> None:
        super().__init__(low or 0, high or LARGEST_SIZE) if size else super().__init__(low, high)
        self.size = size

    def expected(self, scope: Scope) -> str:
        what = "a whole number" if self.size is None else f"a number of {_known(self.size, scope)}"
        return f"{what}{self.range_text()}"

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        fits = type(found) is int and super().read(found, reader, scope) is found
        if not fits or (self.size is not None and not scope.bind(self.size, found)):
            raise self.refuse(scope, found)
        return found


class Flag(Field):
    """True or False."""

    types, words, json = (bool, np.bool), "True or False", bool

    def encode(self, value: Any, stored: Stored) -> Any:
        return bool(value)


@dataclass(frozen=True)
class Text(Field):
    """Text; with ``choices``, one of them, which may be the keys of a registry."""

    choices: Collection[str] | None = None
    types, json = (str,), str

    def expected(self, scope: Scope) -> str:
        return "text" if self.choices is None else f"one of {some(list(self.choices), most=30)}"

    def encode(self, value: Any, stored: Stored) -> Any:
        return str(value)

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        if super().read(found, reader, scope) not in (self.choices or [found]):
            raise self.refuse(scope, found)
        return found


class Plain(Field):
    """Any value of JSON, for information that is shown and that nothing computes with."""

    words = "finite numbers, text, lists and mappings"

    def fits(self, value: Any) -> bool:
        try:
            return bool(json_text({"value": value}))
        except (TypeError, ValueError):
            return False


class Array(Number):
    """An array of NumPy, whose dtype and order of memory are kept.

    ``kinds`` are letters of the types that are allowed: "f" (floats of 32 or 64 bits), "i" (whole
    numbers), "u" (unsigned ones), "b" (truth values); ``dims`` are names of sizes, or numbers, and
    a single ``...`` allows any shape; bounds of all elements are those of `Number`.
    """

    types = (np.ndarray,)

    def __init__(self, kinds: str, *dims: str | int | EllipsisType, **bounds: Any) -> None:
        super().__init__(**bounds)
        self.kinds, self.dims = kinds, dims

    def expected(self, scope: Scope) -> str:
        words = " or ".join(_KINDS[kind] for kind in self.kinds)
        if self.finite and "f" in self.kinds:
            words = f"finite {words}"
        if ... not in self.dims:
            words += f" of shape ({', '.join(_known(dim, scope) for dim in self.dims)})"
        return f"{words}{self.range_text()}"

    def encode(self, value: Any, stored: Stored) -> Any:
        try:
            array = plain_array(value)
        except TypeError as error:
            raise Refusal(f"cannot be stored: {error}") from None
        stored.arrays.append(array)
        reference = {"array": len(stored.arrays) - 1, "dtype": array.dtype.name}
        return reference | {"shape": list(array.shape)}

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        text = self.expected(scope)  # before sizes are bound
        known = type(found) is dict and set(found) == {"array", "dtype", "shape"}
        if not known or type(found["array"]) is not int:
            raise Refusal(f"should be {text}, and does not refer to an array.")
        header = reader.source.header(found["array"])
        same = found["dtype"] == header.dtype.name and found["shape"] == list(header.shape)
        require(same, "has an array of another type or shape than the document states.")
        known = header.dtype.kind in self.kinds
        require(known, f"should be {text}, and has type {header.dtype.name}.")
        shape = header.shape
        fits = ... in self.dims or len(shape) == len(self.dims)
        for dim, n in zip(self.dims, shape, strict=False):
            fits = fits and (scope.bind(dim, n) if isinstance(dim, str) else dim in (n, ...))
        require(fits, f"should be {text}, and has shape {shape}.")
        array = reader.source.array(found["array"])
        self._check_values(array, scope)
        return array

    def _check_values(self, array: NDArray[Any], scope: Scope) -> None:
        if array.size == 0 or array.dtype.kind == "b":
            return
        with np.errstate(all="ignore"):
            # Without a mask of the size of the array; `min` is NaN if an element is.
            strict = self.finite and array.dtype.kind == "f"
            least, most = (np.minimum, np.maximum) if strict else (np.fmin, np.fmax)
            extremes = [f.reduce(array, axis=None).item() for f in (least, most)]
        infinite = strict and not all(map(math.isfinite, extremes))
        wrong = "NaN or infinity" if infinite else self.outside(*extremes)
        require(wrong is None, f"should be {self.expected(scope)}, and has {wrong}.")


@dataclass(frozen=True)
class Names(Field):
    """Distinct strings, at least one, which can be keys of mappings; they bind a size."""

    name: str
    json = list

    def fits(self, value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(name, str) for name in value)

    def expected(self, scope: Scope) -> str:
        return f"a list of distinct names of {_known(self.name, scope)}"

    def encode(self, value: Any, stored: Stored) -> Any:
        return [str(name) for name in value]

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        if not all(type(name) is str for name in super().read(found, reader, scope)):
            raise self.refuse(scope, found)
        n, text = len(set(found)), self.expected(scope)
        require(len(found) == n >= 1, f"should be {text}, and has {n} distinct ones.")
        require(scope.bind_names(self.name, found), f"should be {text}, and has {some(found)}.")
        return found


@dataclass(frozen=True)
class ListOf(Field):
    """A list of values of one field, of a length that has a name; with ``as_tuple`` a tuple."""

    field: Field
    length: str | None = None
    as_tuple: bool = False
    json = list

    def fits(self, value: Any) -> bool:
        return isinstance(value, tuple if self.as_tuple else list)

    def expected(self, scope: Scope) -> str:
        words = "a tuple" if self.as_tuple else "a list"
        return words if self.length is None else f"{words} of length {_known(self.length, scope)}"

    def encode(self, value: Any, stored: Stored) -> Any:
        write = partial(self.field.write, stored=stored)
        return [_at(f" (item {i})", write, item) for i, item in enumerate(value)]

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        text, n = self.expected(scope), len(super().read(found, reader, scope))
        fits = self.length is None or scope.bind(self.length, n)
        require(fits, f"should be {text}, and has {n} items.")
        for i, item in enumerate(found):
            found[i] = _at(f" (item {i})", self.field.read, item, reader, Scope(scope))
        return tuple(found) if self.as_tuple else found


@dataclass(frozen=True)
class MapOf(Field):
    """A mapping of text to values of one field; ``keys`` are the `Names` that its keys must be."""

    field: Field
    keys: str | None = None
    json = dict

    def fits(self, value: Any) -> bool:
        return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)

    def expected(self, scope: Scope) -> str:
        if self.keys is None:
            return "a mapping of text to values"
        return f"a mapping of the {self.keys} {some(scope.names(self.keys))}"

    def encode(self, value: Any, stored: Stored) -> Any:
        write = partial(self.field.write, stored=stored)
        return {str(key): _at(self._place(key), write, item) for key, item in value.items()}

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        super().read(found, reader, scope)
        if self.keys is not None:
            has = some(list(found)) or "nothing"
            fits = sorted(scope.names(self.keys)) == sorted(found)
            require(fits, f"should be {self.expected(scope)}, and has {has}.")
        for key in found:
            inner = Scope(scope) if self.keys is None else scope.child(self.keys, key)
            found[key] = _at(self._place(key), self.field.read, found[key], reader, inner)
        return found

    def _place(self, key: str) -> str:
        return f" of {quote(key)}" if self.keys is None else f" of {self.keys[:-1]} {quote(key)}"


@dataclass(frozen=True)
class Nested(Field):
    """An object of exactly this class, which declares its own fields."""

    cls: Any
    json = dict

    def fits(self, value: Any) -> bool:
        return type(value) is self.cls

    def expected(self, scope: Scope) -> str:
        return f"a {self.cls.__name__}"

    def encode(self, value: Any, stored: Stored) -> Any:
        values = _values_of(value)
        return self._each(values, lambda name, of: of.write(values[name], stored))

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        super().read(found, reader, scope)
        values = self._each(found, lambda name, of: of.read(found.pop(name), reader, scope))
        unknown = quote(next(iter(found), None))
        require(not found, f"has {unknown}, which is no attribute of a {self.cls.__name__}.")
        return _make(self.cls, values)

    def _each(self, values: Any, convert: Callable[[str, Field], Any]) -> dict[str, Any]:
        converted: dict[str, Any] = {}
        for name, declared in declared_fields(self.cls).items():
            if name in values or not isinstance(declared, Sometimes):
                _at(name, require, name in values, "is missing.")
                converted[name] = _at(name, convert, name, declared)
        return converted


@dataclass(frozen=True)
class ArraysOf(Field):
    """An object of `ArrayFields`, as the arrays that it is made of, which share sizes."""

    cls: type[ArrayFields]
    arrays: Mapping[str, Array]
    json = dict

    def fits(self, value: Any) -> bool:
        return type(value) is self.cls and value.to_arrays().keys() == self.arrays.keys()

    def expected(self, scope: Scope) -> str:
        return f"the arrays of a {self.cls.__name__}, {some(list(self.arrays), most=30, show=str)}"

    def encode(self, value: Any, stored: Stored) -> Any:
        arrays = value.to_arrays()
        return {name: _at(name, of.write, arrays[name], stored) for name, of in self.arrays.items()}

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        if super().read(found, reader, scope).keys() != self.arrays.keys():
            raise self.refuse(scope, found)
        inner = Scope(scope)
        values = {n: _at(n, of.read, found[n], reader, inner) for n, of in self.arrays.items()}
        return self.cls.from_arrays(values)


class OneOf(Field):
    """A value of one of several kinds, which is stored with its tag: the first that fits.

    A class stands for `Nested` of it.
    """

    def __init__(self, kinds: Mapping[str, Field | type]) -> None:
        self.kinds = {tag: _as_field(kind) for tag, kind in kinds.items()}

    def fits(self, value: Any) -> bool:
        return any(kind.fits(value) for kind in self.kinds.values())

    def expected(self, scope: Scope) -> str:
        return " or ".join(kind.expected(scope) for kind in self.kinds.values())

    def encode(self, value: Any, stored: Stored) -> Any:
        tag = next(tag for tag, kind in self.kinds.items() if kind.fits(value))
        return {tag: self.kinds[tag].write(value, stored)}

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        tag = next(iter(found)) if type(found) is dict and len(found) == 1 else None
        if tag not in self.kinds:
            own = show(found) if tag is None else f"of the kind {quote(tag)}"
            known = some(list(self.kinds), most=30)
            raise Refusal(f"should be of one of the kinds {known}, and is {own}.")
        return self.kinds[tag].read(found.pop(tag), reader, scope)


@dataclass(frozen=True)
class Maybe(Field):
    """None, or a value of a field."""

    field: Field

    def fits(self, value: Any) -> bool:
        return value is None or self.field.fits(value)

    def expected(self, scope: Scope) -> str:
        return f"{self.field.expected(scope)}, or None"

    def encode(self, value: Any, stored: Stored) -> Any:
        return None if value is None else self.field.write(value, stored)

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        return None if found is None else self.field.read(found, reader, scope)


@dataclass(frozen=True)
class Sometimes(Maybe):
    """An attribute that not every object has, or not every file, whose class then has a default."""


class Guest(Field):
    """An object of another package, stored with skops, and loaded only if it is trusted."""

    words = "an object of another package"

    def fits(self, value: Any) -> bool:
        return value is not None

    def encode(self, value: Any, stored: Stored) -> Any:
        data, types = pack_guest(value)
        stored.guests.append(data)
        stored.guest_types.append(types)
        return {"guest": len(stored.guests) - 1}

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        known = type(found) is dict and set(found) == {"guest"}
        if not known or type(found["guest"]) is not int:
            raise self.refuse(scope, found)
        return load_guest(reader.source.guest(found["guest"]), reader.trusted)


@cache
def declared_fields(cls: Any) -> Mapping[str, Field]:
    """Fields of the attributes of a class, by name: in ``_stored``, or in annotations."""
    if hasattr(cls, "_stored"):
        return cls._stored
    annotated = {of.name: getattr(of.type, "__metadata__", ()) for of in dataclasses.fields(cls)}
    return {name: of[0] for name, of in annotated.items() if of}


def _as_field(kind: Field | type) -> Field:
    return Nested(kind) if isinstance(kind, type) else kind


def _values_of(value: Any) -> dict[str, Any]:
    """Attributes of an object that are to be stored."""
    if hasattr(value, "_to_stored"):
        return value._to_stored()
    cls: Any = type(value)
    slots = (name for base in cls.__mro__ for name in getattr(base, "__slots__", ()))
    values = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    values |= getattr(value, "__dict__", {})
    declared = declared_fields(cls)
    for name in values:
        lost = name not in declared and not isinstance(getattr(cls, name, 0), cached_property)
        require(not lost, f"has the attribute {name!r}, which would be lost; delete it first.")
    return values


def _make(cls: Any, values: dict[str, Any]) -> Any:
    """An object of checked values."""
    try:
        if hasattr(cls, "_from_stored"):
            made = cls._from_stored(values)
        else:
            made = object.__new__(cls)
            for name, value in values.items():
                object.__setattr__(made, name, value)  # also if it is frozen
        if hasattr(made, "_check_stored"):
            made._check_stored()
    except ValueError as error:
        raise Refusal(f"is inconsistent: {error}") from None
    return made


def _at(place: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns; its refusals name the attribute or item that it is about."""
    try:
        return function(*arguments)
    except Refusal as refusal:
        refusal.places.append(place)
        raise


def _known(size: Any, scope: Scope) -> str:
    """A size in a message: its name, and its value if it is known."""
    known = scope.size(size) if isinstance(size, str) else None
    return str(size) if known is None else f"{size}={known}"


def dump(value: Any, kind: Field | type) -> Stored:
    """A value as it is stored; a ValueError if it could not be loaded again."""
    stored, declared = Stored(), _as_field(kind)
    try:
        stored.document = declared.write(value, stored)
        trusted = {name for types in stored.guest_types for name in types}
        again = parse_json(json_text({"value": stored.document}))["value"]
        declared.read(again, Reader(stored, trusted), Scope())
    except Refusal as refusal:
        refusal.places = refusal.places or ["it"]
        message = f"this {type(value).__name__} cannot be saved: {visible(str(refusal))}"
        raise ValueError(message) from None
    return stored


def restore(
    kind: Field | type, document: Any, source: Archive, *, trusted: Collection[str] = ()
) -> Any:
    """The value of a document of `dump`, checked; all arrays and guests must belong to it."""
    with naming(source.path):
        try:
            value = _as_field(kind).read(document, Reader(source, trusted), Scope())
        except (ModelFileError, OSError, MemoryError):
            raise
        except Refusal as refusal:
            refusal.places = refusal.places or ["its content"]
            raise
        except Exception as error:  # raised by a class that makes itself of its values
            cause = f"{type(error).__name__}: {str(error)[:200]}"
            raise Refusal(f"its parts do not fit together ({cause}).") from error
    source.check_all_read()
    return value


def write_model(
    path: Path_,
    model: Any,
    classes: Mapping[str, type],
    *,
    versions: Mapping[str, str],
    format: tuple[str, int, int] = MODEL_FORMAT,
) -> None:
    """Write a model of one of the classes to a file, completely or not at all."""
    name = type(model).__name__
    if name not in classes or classes[name] is not type(model):
        raise TypeError(f"only {', '.join(classes)} can be saved, got {name}.")
    stored = dump(model, type(model))
    document: dict[str, Any] = dict(zip(("format", "version"), format, strict=False))
    document |= {"written_by": dict(versions), "class": name}
    document |= {"model": stored.document, "guests": stored.guest_types}
    write_archive(path, document, stored.arrays, stored.guests)


def read_model(
    path: Path_,
    classes: Mapping[str, type],
    *,
    trusted: Iterable[str | type] = (),
    format: tuple[str, int, int] = MODEL_FORMAT,
) -> Any:
    """Model from a file that `write_model` wrote; guests may contain what is ``trusted``."""
    names = type_names(trusted)
    with _open_model(path, format) as archive:
        name, guests = (archive.document[key] for key in ("class", "guests"))
        if name not in classes:
            known = some(list(classes), most=30)
            raise Refusal(f"it holds a {quote(name)}, and this naim3l can load {known}.")
        # Before anything is read, and for all guests at once.
        _at("it", check_trust, [each for types in guests for each in types], names)
        return restore(classes[name], archive.document["model"], archive, trusted=names)


def read_description(path: Path_) -> dict[str, Any]:
    """The document of a model file, of which nothing else is read."""
    with _open_model(path) as archive:
        return archive.document


@contextmanager
def _open_model(path: Path_, format: tuple[str, int, int] = MODEL_FORMAT) -> Iterator[Archive]:
    """Archive of a model, whose document names a class and what its guests contain."""
    kind, newest, oldest = format
    with (
        Archive(path, format=kind, newest_version=newest, oldest_version=oldest) as archive,
        naming(path),
    ):
        name, guests, model = (archive.document.get(key) for key in ("class", "guests", "model"))
        lists = type(guests) is list and all(type(types) is list and types for types in guests)
        listed = [each for types in guests for each in types] if lists else [""]  # type: ignore
        plain = all(map(is_type_name, listed)) and len(guests) == archive.n_guests  # type: ignore
        require(plain, "its document does not list what its guests contain.")
        require(type(name) is str and type(model) is dict, "its document describes no model.")
        yield archive
