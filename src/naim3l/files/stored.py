"""Declared fields: how objects are stored as JSON and arrays, and checked when they are read.

A class that can be stored declares its attributes:

    @dataclass(frozen=True)
    class Calibration:
        _stored: ClassVar[dict[str, Field]] = {
            "slope": Array("f", "labels"),
            "offset": Array("f", "labels"),
        }
        slope: NDArray
        offset: NDArray

`dump` turns an object into a document of JSON types and a list of arrays, and `restore` makes the
object again. Declarations are all that reading follows: a file can neither name a class nor add an
attribute. An array is read only after its type and shape have been checked, and an object is made
only of values that have been. Writing reads the result at once, so that whatever could not be
loaded again is refused when it is saved.

**Sizes have names.** The first use of a name binds it, and later uses must agree. Attributes are
read in the order of their declaration. ``Nested`` objects share the sizes of the object that they
are in, or rename them. ``MapOf(..., keys="views")`` has own sizes for each view, which are the same
in all maps by views: ``MapOf(Array("f", "features", "labels"), keys="views")`` agrees with other
arrays of the view in "features", and with everything in "labels", if the labels are known outside.
Items of lists, and of maps with other keys, have own sizes each. Bind a size by an attribute that
is always there: one that is None binds nothing.

**Making objects.** Without calling ``__init__``, attributes are set as declared. A class can
instead have a class method ``_from_stored(values)``, and a method ``_to_stored()`` that returns the
values to store by name. A method ``_check_stored()`` raises a ValueError if attributes contradict
each other. Attributes that are neither declared nor listed in ``_not_stored`` are an error when an
object is saved, as they would be lost.

**Guests** are objects of other packages. They are stored with skops, and loaded only if the user
trusts every class and function in them except numbers, text, containers and arrays, also those of
scikit-learn.
"""

import copy
import inspect
import io
import json
import math
import operator
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import EllipsisType
from typing import Any, ClassVar
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from naim3l._text import quote, some, visible
from naim3l.files.archive import (
    Archive,
    Header,
    ModelFileError,
    Path_,
    Refusal,
    json_text,
    naming,
    open_archive,
    parse_json,
    plain_array,
    read_member,
    read_members,
    require,
    show,
    write_archive,
    write_member,
)

FORMAT, VERSION = "naim3l model", 1

# Keys that have own sizes, and attributes that have a default because a file is old, in one file:
# both take memory that no bytes of the file stand for.
MOST_SCOPES, MOST_DEFAULTS = 2**16, 2**18
LARGEST, LARGEST_SIZE = 2**63, 2**31 - 1  # whole numbers are below the first
GUEST_DEPTH = 200

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_BEYOND = {
    "at least": operator.lt,
    "at most": operator.gt,
    "above": operator.le,
    "below": operator.ge,
}
_KINDS = {
    "f": "numbers",
    "i": "whole numbers",
    "u": "whole numbers of an unsigned type",
    "b": "truth values",
}
_DTYPES = {"bool", "float32", "float64"} | {
    f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)
}

Bound = float | str | None  # a number, or the name of a size


class Scope:
    """Sizes, and lists of names, by the name of what they count; an inner scope sees the outer.

    Parameters
    ----------
    outer : Scope, optional
    rename : mapping of str to str, optional
        If given, this is the outer scope with other names: ``rename[name here] = name outside``.
    """

    __slots__ = ("_children", "_inside", "_n_children", "_names", "_outer", "_rename", "_sizes")

    def __init__(
        self, outer: "Scope | None" = None, rename: Mapping[str, str] | None = None
    ) -> None:
        if outer is not None and rename is not None and outer._rename is not None:
            above = outer._rename
            rename = {**above, **{name: above.get(to, to) for name, to in rename.items()}}
            outer = outer._outer
        self._outer: Scope | None = outer
        self._rename: Mapping[str, str] | None = rename
        self._sizes: dict[str, int] = {}
        self._names: dict[str, list[str]] = {}
        self._inside: frozenset[str] = frozenset()  # sizes that inner scopes have bound
        self._children: dict[tuple[str, str], Scope] = {}
        self._n_children: list[int] = [0] if outer is None else outer._n_children

    def size(self, name: str) -> int | None:
        """A size, None if it is not known yet."""
        return next((s._sizes[own] for s, own in self._outward(name) if own in s._sizes), None)

    def names(self, name: str) -> list[str] | None:
        """Names, None if they are not known yet."""
        return next((s._names[own] for s, own in self._outward(name) if own in s._names), None)

    def bind(self, name: str, size: int) -> bool:
        """Whether a size agrees with what is known; if nothing is, it is known from now on."""
        known = self.size(name)
        if known is not None:
            return known == size
        (scope, own), *outer = self._outward(name)
        require(own not in scope._inside, f"gives the number of {own}, which was needed earlier.")
        scope._sizes[own] = size
        for scope, own in outer:
            scope._inside |= {own}
        return True

    def bind_names(self, name: str, names: list[str]) -> bool:
        """As `bind`, for distinct names, which bind their number as well."""
        known = self.names(name)
        if known is None:
            scope, own = next(self._outward(name))
            scope._names[own] = names
        return (known is None or known == names) and self.bind(name, len(names))

    def child(self, name: str, key: str) -> "Scope":
        """The inner scope of a key, such as a view, which is the same each time."""
        scope, own = next(self._outward(name))
        if (own, key) not in scope._children:
            self._n_children[0] += 1
            enough = self._n_children[0] <= MOST_SCOPES
            require(enough, f"is in mappings with more than {MOST_SCOPES} keys with own sizes.")
            scope._children[own, key] = Scope(scope)
        child = scope._children[own, key]
        return child if self._rename is None else Scope(child, self._rename)

    def _outward(self, name: str) -> "Iterator[tuple[Scope, str]]":
        """The scopes that hold sizes, from here to the outermost, and what the name is there."""
        scope: Scope | None = self
        while scope is not None:
            if scope._rename is None:
                yield scope, name
            else:
                name = scope._rename.get(name, name)
            scope = scope._outer


class Stored:
    """A value in types of JSON, and its arrays and guests, to which it refers by number.

    Attributes
    ----------
    document : types of JSON
    arrays : list of ndarray
    guests : list of bytes
    guest_types : list of list of str
        Full names of the types in each guest that have to be trusted, its own first.
    """

    def __init__(self) -> None:
        self.document: Any = None
        self.arrays: list[NDArray[Any]] = []
        self.guests: list[bytes] = []
        self.guest_types: list[list[str]] = []

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
    """What reading needs beside the document.

    Attributes
    ----------
    source : Archive or Stored
    version : int
        Version of the format of the file.
    trusted : collection of str
        Full names of the types that guests may contain.
    n_defaults : int
        Number of attributes so far that the file does not have.
    """

    source: Archive | Stored
    version: int
    trusted: Collection[str] = ()
    n_defaults: int = 0


class Field:
    """Declaration of an attribute, or of a part of one."""

    types: ClassVar[tuple[Any, ...]] = (object,)
    simple = False  # whether sizes are neither bound nor needed

    def fits(self, value: Any) -> bool:
        """Whether a value of Python is of the right type, whatever its contents."""
        # A bool is an int to Python.
        return isinstance(value, self.types) and (type(value) is not bool or int not in self.types)

    def expected(self, scope: Scope) -> str:
        """Description of the values that are allowed, for errors."""
        raise NotImplementedError

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
        raise NotImplementedError


class _Ranged(Field):
    """A field of numbers with bounds; see `Number`."""

    def __init__(
        self,
        low: Bound = None,
        high: Bound = None,
        *,
        above: Bound = None,
        below: Bound = None,
        finite: bool = True,
    ) -> None:
        bounds = {"at least": low, "at most": high, "above": above, "below": below}
        self.bounds = {word: bound for word, bound in bounds.items() if bound is not None}
        self.finite = finite
        self.simple = not any(isinstance(bound, str) for bound in self.bounds.values())

    def range_text(self, scope: Scope) -> str:
        return " and".join(f" {word} {_known(bound, scope)}" for word, bound in self.bounds.items())

    def outside(self, least: Any, most: Any, scope: Scope) -> Any:
        """``least`` or ``most`` if it is out of range, otherwise None; NaN is in every range."""
        for word, bound in self.bounds.items():
            limit = scope.size(bound) if isinstance(bound, str) else bound
            if limit is None:
                raise Refusal(f"needs the number of {bound}, which no earlier attribute gives.")
            extreme = least if word in ("at least", "above") else most
            if _BEYOND[word](extreme, limit):
                return extreme
        return None


class Number(_Ranged):
    """A number, int or float as it was given.

    Parameters
    ----------
    low, high, above, below : number, or name of a size that an earlier attribute gives
        Bounds; the first two are allowed values.
    finite : bool
        False allows NaN, and infinities within the bounds.
    """

    types: ClassVar[tuple[Any, ...]] = (int, float, np.integer, np.floating)

    def expected(self, scope: Scope) -> str:
        return f"a number{self.range_text(scope)}"

    def encode(self, value: Any, stored: Stored) -> Any:
        value = int(value) if isinstance(value, int | np.integer) else float(value)
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        if not self.finite and type(found) is str:
            found = _NOT_FINITE.get(found, found)
        fits = type(found) is float or (type(found) is int and abs(found) < LARGEST)
        if not fits or self.outside(found, found, scope) is not None:
            raise self.refuse(scope, found)
        return found


class Whole(Number):
    """A whole number, with the bounds of a `Number`.

    With ``size="columns"`` it is a number of columns, which binds that size; it is then between 0
    and 2**31 - 1, unless it has other bounds.
    """

    types = (int, np.integer)

    def __init__(
        self, low: Bound = None, high: Bound = None, *, size: str | None = None, **bounds: Bound
    ) -> None:
        if size is not None:
            low, high = 0 if low is None else low, LARGEST_SIZE if high is None else high
        super().__init__(low, high, **bounds)  # type: ignore[arg-type]
        self.size, self.simple = size, self.simple and size is None

    def expected(self, scope: Scope) -> str:
        what = "a whole number" if self.size is None else f"a number of {_known(self.size, scope)}"
        return f"{what}{self.range_text(scope)}"

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        fits = type(found) is int and super().read(found, reader, scope) is found
        if not fits or (self.size is not None and not scope.bind(self.size, found)):
            raise self.refuse(scope, found)
        return found


class Flag(Field):
    """True or False."""

    types = (bool, np.bool)
    simple = True

    def expected(self, scope: Scope) -> str:
        return "True or False"

    def encode(self, value: Any, stored: Stored) -> Any:
        return bool(value)

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        if type(found) is not bool:
            raise self.refuse(scope, found)
        return found


@dataclass(frozen=True)
class Text(Field):
    """Text; with ``choices``, one of them, which may be the keys of a registry."""

    choices: Collection[str] | None = None
    types = (str,)
    simple = True

    def expected(self, scope: Scope) -> str:
        return "text" if self.choices is None else f"one of {some(list(self.choices), most=30)}"

    def encode(self, value: Any, stored: Stored) -> Any:
        return str(value)

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        if type(found) is not str or (self.choices is not None and found not in self.choices):
            raise self.refuse(scope, found)
        return found


class Plain(Field):
    """Any value of JSON, for information that is shown and that nothing computes with."""

    simple = True

    def fits(self, value: Any) -> bool:
        if isinstance(value, dict):
            return all(isinstance(key, str) and self.fits(item) for key, item in value.items())
        if isinstance(value, list):
            return all(map(self.fits, value))
        return isinstance(value, bool | int | float | str | None)

    def expected(self, scope: Scope) -> str:
        return "finite numbers, text, lists and mappings"

    def encode(self, value: Any, stored: Stored) -> Any:
        try:
            json_text({"value": value})
        except (TypeError, ValueError) as error:
            raise Refusal(f"should be {self.expected(Scope())}: {error}") from None
        return value

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        return found


class Array(_Ranged):
    """An array of NumPy; its dtype and order of memory are kept.

    Parameters
    ----------
    kind : {"f", "i", "u", "b"}, several of them such as "biuf", or name of a dtype
        Floats (32 or 64 bits), whole numbers (signed or unsigned, up to 64 bits), truth values; or
        a type such as "float32".
    *dims : names of sizes, or numbers
        Shape; a single ``...`` allows any shape.
    low, high, above, below, finite
        As of `Number`, for all elements; ``low=0, below="columns"`` are positions of columns.
    """

    types = (np.ndarray,)

    def __init__(self, kind: str, *dims: str | int | EllipsisType, **bounds: Any) -> None:
        super().__init__(**bounds)
        self.simple = False
        self.dims = dims
        self.kinds = {kind} if kind in _DTYPES else set(kind)
        if not self.kinds <= {*_DTYPES, *_KINDS}:
            raise ValueError(f"kind is {kind!r}, not one of {[*_KINDS, *sorted(_DTYPES)]}.")
        if ... in dims and len(dims) > 1:
            raise ValueError("... must be the only dimension.")

    def expected(self, scope: Scope) -> str:
        words = " or ".join(_KINDS.get(kind, f"{kind} values") for kind in sorted(self.kinds))
        if self.finite and self.kinds & {"f", "float32", "float64"}:
            words = f"finite {words}"
        if ... not in self.dims:
            words += f" of shape ({', '.join(_known(dim, scope) for dim in self.dims)})"
        return f"{words}{self.range_text(scope)}"

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
        known = bool(self.kinds & {header.dtype.name, header.dtype.kind})
        require(known, f"should be {text}, and has type {header.dtype.name}.")
        fits = self._bind_shape(header.shape, scope)
        require(fits, f"should be {text}, and has shape {header.shape}.")
        array = reader.source.array(found["array"])
        self._check_values(array, scope)
        return array

    def _bind_shape(self, shape: tuple[int, ...], scope: Scope) -> bool:
        if ... in self.dims:
            return True
        return len(shape) == len(self.dims) and all(
            scope.bind(dim, n) if isinstance(dim, str) else n == dim
            for dim, n in zip(self.dims, shape, strict=True)
        )

    def _check_values(self, array: NDArray[Any], scope: Scope) -> None:
        if array.size == 0 or array.dtype.kind == "b":
            return
        with np.errstate(all="ignore"):
            # Without a mask of the size of the array; `min` is NaN if an element is.
            strict = self.finite and array.dtype.kind == "f"
            least, most = (np.minimum, np.maximum) if strict else (np.fmin, np.fmax)
            extremes = [f.reduce(array, axis=None).item() for f in (least, most)]
        infinite = strict and not all(map(math.isfinite, extremes))
        wrong = "NaN or infinity" if infinite else self.outside(extremes[0], extremes[1], scope)
        require(wrong is None, f"should be {self.expected(scope)}, and has {wrong}.")


@dataclass(frozen=True)
class Names(Field):
    """A list of distinct strings, which can be the keys of mappings.

    Parameters
    ----------
    name : str
        What is named, such as "views"; their number is the size of that name.
    low : int
        Smallest number of names.
    as_array : bool
        Whether the value is an array of objects, as ``feature_names_in_`` of scikit-learn.
    """

    name: str
    low: int = 1
    as_array: bool = False

    def fits(self, value: Any) -> bool:
        kind = np.ndarray if self.as_array else list
        return isinstance(value, kind) and all(isinstance(name, str) for name in value)

    def expected(self, scope: Scope) -> str:
        return f"a list of distinct names of {_known(self.name, scope)}, at least {self.low}"

    def encode(self, value: Any, stored: Stored) -> Any:
        return [str(name) for name in value]

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        if type(found) is not list or not all(type(name) is str for name in found):
            raise self.refuse(scope, found)
        n, text = len(set(found)), self.expected(scope)
        require(len(found) == n >= self.low, f"should be {text}, and has {n} distinct ones.")
        require(scope.bind_names(self.name, found), f"should be {text}, and has {some(found)}.")
        return np.array(found, dtype=object) if self.as_array else found


@dataclass(frozen=True)
class ListOf(Field):
    """A list of values of one field; with ``as_tuple`` a tuple.

    Parameters
    ----------
    field : Field
    length : name of a size, or int, optional
    as_tuple : bool
    """

    field: Field
    length: str | int | None = None
    as_tuple: bool = False

    def fits(self, value: Any) -> bool:
        return isinstance(value, tuple if self.as_tuple else list)

    def expected(self, scope: Scope) -> str:
        words = "a tuple" if self.as_tuple else "a list"
        return words if self.length is None else f"{words} of length {_known(self.length, scope)}"

    def encode(self, value: Any, stored: Stored) -> Any:
        items = []
        for i, item in enumerate(value):
            with _within(f" (item {i})"):
                items.append(self.field.write(item, stored))
        return items

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        if type(found) is not list:
            raise self.refuse(scope, found)
        text, n = self.expected(scope), len(found)
        fits = scope.bind(self.length, n) if isinstance(self.length, str) else True
        fits = fits and (not isinstance(self.length, int) or self.length == n)
        require(fits, f"should be {text}, and has {n} items.")
        i, field = 0, self.field
        try:
            for i, item in enumerate(found):
                found[i] = field.read(item, reader, scope if field.simple else Scope(scope))
        except Refusal as refusal:  # cheaper than a context for each item
            refusal.places.append(f" (item {i})")
            raise
        return tuple(found) if self.as_tuple else found


@dataclass(frozen=True)
class MapOf(Field):
    """A mapping of text to values of one field.

    Parameters
    ----------
    field : Field
    keys : str, optional
        What the keys name, such as "views": they are exactly the `Names` of an earlier attribute,
        and each has own sizes, which are the same in all such mappings.
    """

    field: Field
    keys: str | None = None

    def fits(self, value: Any) -> bool:
        return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)

    def expected(self, scope: Scope) -> str:
        if self.keys is None:
            return "a mapping of text to values"
        return f"a mapping of the {self.keys} {some(scope.names(self.keys) or [])}"

    def encode(self, value: Any, stored: Stored) -> Any:
        items = {}
        for key, item in value.items():
            with _within(self._place(key)):
                items[str(key)] = self.field.write(item, stored)
        return items

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        if type(found) is not dict:
            raise self.refuse(scope, found)
        if self.keys is not None:
            names = scope.names(self.keys)
            if names is None:
                raise Refusal(f"needs the {self.keys}, which no earlier attribute names.")
            fits = len(found) == len(names) and all(name in found for name in names)
            has = some(list(found)) or "nothing"
            require(fits, f"should be {self.expected(scope)}, and has {has}.")
        key = ""
        try:
            for key in found:
                found[key] = self.field.read(found[key], reader, self._scope(key, scope))
        except Refusal as refusal:
            refusal.places.append(self._place(key))
            raise
        return found

    def _scope(self, key: str, scope: Scope) -> Scope:
        if self.field.simple:
            return scope
        return Scope(scope) if self.keys is None else scope.child(self.keys, key)

    def _place(self, key: str) -> str:
        return f" of {quote(key)}" if self.keys is None else f" of {self.keys[:-1]} {quote(key)}"


@dataclass(frozen=True)
class Nested(Field):
    """An object of exactly this class, which declares its own fields.

    Parameters
    ----------
    cls : type with ``_stored``
    rename : mapping of str to str
        Names of sizes in the class, and the names that they have outside of it.
    """

    cls: type
    rename: Mapping[str, str] | None = None

    def fits(self, value: Any) -> bool:
        return type(value) is self.cls

    def expected(self, scope: Scope) -> str:
        return f"a {self.cls.__name__}"

    def encode(self, value: Any, stored: Stored) -> Any:
        values, found = _values_of(value), {}
        for name, field in _declared(self.cls).items():
            if isinstance(field, Sometimes) and not field.is_written(name in values):
                continue
            with _within(name):
                require(name in values, "is missing.")
                found[name] = field.write(values[name], stored)
        return found

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        if type(found) is not dict:
            raise self.refuse(scope, found)
        inner = Scope(scope, self.rename) if self.rename else scope
        values: dict[str, Any] = {}
        name = ""
        try:
            for name, field in _declared(self.cls).items():
                if name in found:
                    values[name] = field.read(found.pop(name), reader, inner)
                elif isinstance(field, Sometimes):
                    values |= field.default_of(name, reader)
                else:
                    raise Refusal("is missing.")
        except Refusal as refusal:
            refusal.places.append(name)
            raise
        unknown = quote(next(iter(found), None))
        require(not found, f"has {unknown}, which is no attribute of a {self.cls.__name__}.")
        return _make(self.cls, values)


class OneOf(Field):
    """A value of one of several kinds, which is stored with its tag.

    Parameters
    ----------
    kinds : mapping of str to Field or type
        By tag; a class stands for `Nested` of it. When a value is written, the first kind of the
        right type is taken, so that a `Guest` comes last.
    """

    def __init__(self, kinds: Mapping[str, Field | type]) -> None:
        self.kinds = {tag: _as_field(kind) for tag, kind in kinds.items()}

    def fits(self, value: Any) -> bool:
        return any(field.fits(value) for field in self.kinds.values())

    def expected(self, scope: Scope) -> str:
        return " or ".join(field.expected(scope) for field in self.kinds.values())

    def encode(self, value: Any, stored: Stored) -> Any:
        tag = next(tag for tag, field in self.kinds.items() if field.fits(value))
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


class Guest(Field):
    """An object of another package, stored with skops, and loaded only if it is trusted."""

    def fits(self, value: Any) -> bool:
        return value is not None

    def expected(self, scope: Scope) -> str:
        return "an object of another package"

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


@dataclass(frozen=True)
class Sometimes(Field):
    """An attribute of a class that not every file has.

    Parameters
    ----------
    field : Field
    since : int, optional
        Files of versions before this one lack it, and it has the ``default``.
    until : int, optional
        Only files of versions before this one have it. It is read and dropped, but passed to
        ``_from_stored``. With neither version, any object can lack the attribute.
    default : object
    """

    field: Field
    since: int | None = None
    until: int | None = None
    default: Any = None

    def fits(self, value: Any) -> bool:
        return self.field.fits(value)

    def expected(self, scope: Scope) -> str:
        return self.field.expected(scope)

    def encode(self, value: Any, stored: Stored) -> Any:
        return self.field.write(value, stored)

    def is_written(self, has_value: bool) -> bool:
        return self.until is None and (has_value or self.since is not None)

    def read(self, found: Any, reader: Reader, scope: Scope) -> Any:
        current = self.until is None or reader.version < self.until
        require(current, "is not an attribute of this version of the format.")
        return self.field.read(found, reader, scope)

    def default_of(self, name: str, reader: Reader) -> dict[str, Any]:
        """The attribute by its name, if it is to be set although the file does not have it."""
        if self.since is None:
            return {}
        require(reader.version < self.since, "is missing.")
        reader.n_defaults += 1
        require(reader.n_defaults <= MOST_DEFAULTS, "is missing, as too many others are.")
        return {name: copy.deepcopy(self.default)}


def _as_field(kind: Field | type) -> Field:
    return Nested(kind) if isinstance(kind, type) else kind


def _declared(cls: type) -> dict[str, Field]:
    return cls._stored  # type: ignore[attr-defined]


def _values_of(value: Any) -> dict[str, Any]:
    """Attributes of an object that are to be stored."""
    if hasattr(value, "_to_stored"):
        return value._to_stored()
    cls = type(value)
    slots = [name for base in cls.__mro__ for name in getattr(base, "__slots__", ())]
    slots = [name for name in slots if not name.startswith("__") and hasattr(value, name)]
    values = {name: getattr(value, name) for name in slots}
    values |= getattr(value, "__dict__", {})
    known = {*_declared(cls), *getattr(cls, "_not_stored", ())}
    for name in values:
        if name not in known and not isinstance(getattr(cls, name, None), cached_property):
            reason = f"has the attribute {name!r}, which would be lost; delete it first."
            raise Refusal(reason)
    return values


def _make(cls: type, values: dict[str, Any]) -> Any:
    """An object of checked values."""
    try:
        if hasattr(cls, "_from_stored"):
            made = cls._from_stored(values)
        else:
            made = object.__new__(cls)
            for name, value in values.items():
                if getattr(_declared(cls)[name], "until", None) is None:
                    object.__setattr__(made, name, value)  # also if it is frozen
        if hasattr(made, "_check_stored"):
            made._check_stored()
    except ValueError as error:
        raise Refusal(f"is inconsistent: {error}") from None
    return made


@contextmanager
def _within(place: str) -> Iterator[None]:
    """Context in which refusals name the attribute or item that is being read or written."""
    try:
        yield
    except Refusal as refusal:
        refusal.places.append(place)
        raise


def _known(size: Any, scope: Scope) -> str:
    """A size, or another number, in a message: its name, and its value if it is known."""
    known = scope.size(size) if isinstance(size, str) else None
    return str(size) if known is None else f"{size}={known}"


def dump(value: Any, kind: Field | type, *, version: int = VERSION) -> Stored:
    """A value as it is stored, for `write_archive` and `restore`.

    Parameters
    ----------
    value : object
    kind : Field, or type with ``_stored``
    version : int
        Version of the format that is written.

    Raises
    ------
    ValueError
        If the value does not fit its declaration, so that it could not be loaded again.
    """
    stored, field = Stored(), _as_field(kind)
    try:
        stored.document = field.write(value, stored)
        trusted = {name for types in stored.guest_types for name in types}
        again = parse_json(json_text({"value": stored.document}))["value"]
        field.read(again, Reader(stored, version, trusted), Scope())
    except Refusal as refusal:
        if not refusal.places:
            refusal.places.append("it")
        message = f"this {type(value).__name__} cannot be saved: {visible(str(refusal))}"
        raise ValueError(message) from None
    return stored


def restore(
    kind: Field | type,
    document: Any,
    source: Archive,
    *,
    trusted: Iterable[str | type] = (),
) -> Any:
    """The value that was stored; all its parts have been checked.

    Parameters
    ----------
    kind : Field, or type with ``_stored``
    document : types of JSON
        From `dump`, or the part of an archive's document that holds the value. It is taken apart.
    source : Archive
        All its arrays and guests must belong to this value.
    trusted : iterable of types or functions, or of their full names
        Those that guests may contain.

    Raises
    ------
    ModelFileError
        If something does not fit the declarations; the message names the file and the attribute.
    """
    path, reader = visible(os.fspath(source.path)), Reader(source, source.version)
    reader.trusted = type_names(trusted)
    try:
        value = _as_field(kind).read(document, reader, Scope())
    except (ModelFileError, OSError, MemoryError):
        raise
    except Refusal as refusal:
        if not refusal.places:
            refusal.places.append("its content")
        raise ModelFileError(f"{path}: {visible(str(refusal))}") from None
    except Exception as error:  # raised by a class that makes itself of its values
        cause = f"{type(error).__name__}: {visible(str(error)[:200])}"
        raise ModelFileError(f"{path}: its parts do not fit together ({cause}).") from error
    source.check_all_read()
    return value


def write_model(
    path: Path_, model: Any, classes: Mapping[str, type], *, versions: Mapping[str, str]
) -> None:
    """Write a model to a file, completely or not at all.

    Parameters
    ----------
    path : path of the file
    model : object of one of the classes
        Attributes that are parameters of its constructor are stored apart from what was fitted.
    classes : mapping of str to type with ``_stored``
        Classes that can be stored, by the name that they have in files.
    versions : mapping of str to str
        Versions of the packages that write the file; ``naim3l`` is one of them.
    """
    name = next((name for name, cls in classes.items() if type(model) is cls), None)
    if name is None:
        raise TypeError(f"only {', '.join(classes)} can be saved, got {type(model).__name__}.")
    stored = dump(model, type(model))
    parameters = inspect.signature(type(model)).parameters
    document = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": dict(versions),
        "class": name,
        "parameters": {k: v for k, v in stored.document.items() if k in parameters},
        "fitted": {k: v for k, v in stored.document.items() if k not in parameters},
        "guests": stored.guest_types,
    }
    write_archive(path, document, stored.arrays, stored.guests)


def read_model(
    path: Path_, classes: Mapping[str, type], *, trusted: Iterable[str | type] = ()
) -> Any:
    """Model from a file that `write_model` wrote; safe for files from others.

    Parameters
    ----------
    path : path of the file
    classes : mapping of str to type with ``_stored``
    trusted : iterable of types or functions, or of their full names
        Those that guests may contain. Their own code is run on the contents of the file.

    Raises
    ------
    ModelFileError
        The file is damaged, of another kind, or of a newer format; a part of the model is missing,
        inconsistent or not finite; or it has guests that are not trusted.
    OSError
        The file cannot be opened.
    """
    names = type_names(trusted)
    with open_archive(path, format=FORMAT, newest_version=VERSION) as archive:
        document = archive.document
        with naming(path):
            cls, values = _check_layout(document, classes)
            require(len(document["guests"]) == archive.n_guests, "it has other guests than stated.")
            with _within("it"):  # before anything is read, and for all guests at once
                _check_trust({name for types in document["guests"] for name in types}, names)
        return restore(cls, values, archive, trusted=names)


def read_description(path: Path_) -> dict[str, Any]:
    """The document of a model file, of which nothing else is read."""
    with open_archive(path, format=FORMAT, newest_version=VERSION) as archive:
        return archive.document


def _check_layout(
    document: dict[str, Any], classes: Mapping[str, type]
) -> tuple[type, dict[str, Any]]:
    """Class of a model, and its attributes as they are stored."""
    parts = {"written_by": dict, "class": str, "parameters": dict, "fitted": dict, "guests": list}
    for name, kind in parts.items():
        require(
            type(document.get(name)) is kind, f"its document has no {name}, or of a wrong type."
        )
    require(len(document) == len(parts) + 2, "its document has parts that no model has.")
    known = classes.get(document["class"])
    if known is None:
        found, some_ = quote(document["class"]), some(list(classes), most=30)
        raise Refusal(f"it holds a {found}, and this naim3l can load {some_}.")
    for types in document["guests"]:
        listed = type(types) is list and types and all(_is_type_name(name) for name in types)
        require(listed, "its document has guests without the names of their types.")
    twice = next((name for name in document["fitted"] if name in document["parameters"]), None)
    require(twice is None, f"its document has {quote(twice)} twice.")
    return known, document["parameters"] | document["fitted"]


def type_names(trusted: Iterable[str | type]) -> frozenset[str]:
    """Full names of types and functions, as they are in lists of what a guest contains."""
    if isinstance(trusted, str):
        raise TypeError(f"trusted must be a list of types or of their names, got {trusted!r}.")
    names = set()
    for kind in trusted:
        if not isinstance(kind, str) and not callable(kind):
            raise TypeError(f"trusted must be a list of types or of their names, and has {kind!r}.")
        names.add(kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}")
    return frozenset(names)


_BUILTIN = ("dict", "list", "tuple", "set", "str", "int", "float", "bool", "bytes", "slice")
# Types that do nothing when they are loaded, as skops stores them.
_HARMLESS = frozenset(
    {f"builtins.{name}" for name in _BUILTIN}
    | {f"numpy.{name}" for name in ("ndarray", "bool", "bool_", "str_", "float16", *_DTYPES)}
)


def pack_guest(guest: Any) -> tuple[bytes, list[str]]:
    """A guest as skops stores it, and what it contains; those of equal guests are equal.

    Returns
    -------
    data : bytes
    types : list of str
        Full name of its own type, followed by those of all others that have to be trusted.
    """
    import skops.io  # takes half a second, and most models have no guest

    try:
        data = _repack(skops.io.dumps(guest))
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
    _check_trust(types, trusted)  # before skops reads anything
    try:
        import skops.io

        types += skops.io.get_untrusted_types(data=data)  # such as functions under other names
        _check_trust(types, trusted)
        return skops.io.loads(data, trusted=types)
    except Refusal:
        raise
    except Exception as error:  # of a damaged guest, or of its own code
        cause = f"{type(error).__name__}: {str(error)[:200]}"
        raise Refusal(f"cannot be loaded ({cause}).") from error


def _check_trust(types: Iterable[str], trusted: Collection[str]) -> None:
    if unknown := sorted(set(types) - set(trusted)):
        raise Refusal(
            f"needs objects of other packages, whose own code runs when they are loaded: "
            f"{some(unknown, show=str)}. If you know them, and who wrote the file: "
            f"load(path, trusted={unknown[:50]})."
        )


def _is_type_name(name: Any) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[\w.<>-]{1,200}", name) is not None


def _types_of(data: bytes) -> list[str]:
    """Full name of a guest's type, and of all others in it that are not harmless."""
    file = io.BytesIO(data)
    members = {member.name: member for member in read_members(file, len(data))}
    require("schema.json" in members, "it has no schema.json.")
    schema = parse_json(read_member(file, members["schema.json"]), GUEST_DEPTH)
    files = [node["file"] for node in _nodes(schema) if isinstance(node.get("file"), str)]
    # As in the archive itself, each member is read once.
    require(
        sorted([*files, "schema.json"]) == sorted(members), "it has other members than it needs."
    )
    own, names = _node_name(schema), {_node_name(node) for node in _nodes(schema)}
    types = [own, *sorted(names - _HARMLESS - {own})]
    require(all(map(_is_type_name, types)), "it has a type with an odd name.")
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


def _repack(data: bytes) -> bytes:
    """A dump of skops without addresses in memory, which differ for equal objects."""
    with (
        ZipFile(io.BytesIO(data)) as zipped,
        ZipFile(packed := io.BytesIO(), "w") as target,
    ):
        schema = parse_json(zipped.read("schema.json"), GUEST_DEPTH)
        n_files = 0
        for node in _nodes(schema):
            node.pop("__id__", None)
            if isinstance(file := node.get("file"), str):
                node["file"] = f"{n_files}{os.path.splitext(file)[1]}"
                write_member(target, node["file"], zipped.read(file))
                n_files += 1
        write_member(target, "schema.json", json.dumps(schema).encode())
    return packed.getvalue()
