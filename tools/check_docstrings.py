"""Check the docstrings of the public names with numpydoc, and exit with 1 if one has faults.

The public names are those of ``naim3l.__all__``, those that the public modules export, the compared
methods of the laboratory, and the public methods of the classes among them, except for the data
that ``naim3l.extend`` passes to methods, where a line each is enough. ``naim3l.deep`` is left out
where torch is not installed.
"""

import inspect
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator, validate
from sklearn.base import BaseEstimator

import naim3l

# Checks of numpydoc that do not fit the style of this package.
LEFT_OUT = {
    "ES01",  # a summary can be enough
    "PR03",  # parameters are in the order in which they are explained best
    "PR04",  # entries such as "views, transformer" with "As in NAIM3L." have no type
    "SA01",  # related names are mentioned where they matter
    "SS05",  # a summary says what is returned, and so may start with a plural noun
}
# Names that are used alike, or together: examples are in the docstring of their module.
BENCH, EXTEND = "naim3l_bench.methods", "naim3l.extend"
LEFT_OUT_THERE = LEFT_OUT | {"EX01"}


class RecordValidator(Validator):
    """Validator of a class of results, whose fields are documented as attributes."""

    def __init__(self, obj_name: str) -> None:
        super().__init__(get_doc_object(self._load_obj(obj_name)))

    def _doc_parameters(self, sections: list[str]) -> dict[str, Any]:
        # First, as numpydoc also takes parameters whose default is None for attributes.
        return super()._doc_parameters(["Attributes", *sections])


def is_record(found: Any) -> bool:
    """Whether it is a dataclass or named tuple; estimators are dataclasses with parameters."""
    has_fields = hasattr(found, "__dataclass_fields__") or hasattr(found, "_fields")
    return inspect.isclass(found) and has_fields and not issubclass(found, BaseEstimator)


def public_objects() -> Iterator[tuple[str, Any]]:
    """Full names of the public functions, classes and methods, and the objects; each once."""
    modules = [f"naim3l.{name}" for name in naim3l._PUBLIC_MODULES]
    if find_spec("torch") is None:
        modules.remove("naim3l.deep")
    seen = set()
    for module in map(import_module, ["naim3l", *modules, BENCH]):
        for name in module.__all__:
            found = {name: getattr(module, name)}
            if inspect.isclass(found[name]) and (
                module.__name__ != EXTEND or issubclass(found[name], BaseEstimator)
            ):
                found |= {f"{name}.{method}": f for method, f in public_methods(found[name])}
            for part, value in found.items():
                home = (getattr(value, "__module__", None), getattr(value, "__qualname__", None))
                if callable(value) and home not in seen:
                    seen.add(home)
                    yield f"{module.__name__}.{part}", value


def public_methods(cls: type) -> Iterator[tuple[str, Any]]:
    """Names of the methods that this package defines for a class, and the functions."""
    for name, value in inspect.getmembers(cls):
        function = getattr(value, "__func__", value)  # of a class method
        own = inspect.isfunction(function) and function.__module__.startswith("naim3l")
        if own and not name.startswith("_"):
            yield name, function


def main() -> None:
    n_names, faults = 0, []
    for name, found in public_objects():
        n_names += 1
        left_out = LEFT_OUT_THERE if name.startswith((BENCH, EXTEND)) else LEFT_OUT
        errors = validate(name, RecordValidator if is_record(found) else None)["errors"]
        faults += [f"{name}: {code} {text}" for code, text in errors if code not in left_out]
    print("\n".join([*faults, f"{n_names} public names, {len(faults)} faults in docstrings"]))
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
