"""Declared fields: objects come back equal, and nothing that breaks a declaration comes back."""

import copy
import subprocess
import sys
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from typing import Annotated, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from naim3l.files import stored
from naim3l.files.archive import Archive, ModelFileError, write_archive
from naim3l.files.stored import (
    Array,
    Flag,
    Guest,
    ListOf,
    MapOf,
    Maybe,
    Names,
    Nested,
    Number,
    OneOf,
    Plain,
    Sometimes,
    Text,
    Whole,
    declared_fields,
    dump,
    read_description,
    read_model,
    restore,
    write_model,
)

VERSIONS = {"naim3l": "0.1", "numpy": "2.0"}


@dataclass(frozen=True, eq=False)
class Curve:
    """What a small fitted class looks like."""

    slope: Annotated[np.ndarray, Array("f", "labels", low=0)]
    own: Annotated[np.ndarray, Array("b", "labels")]
    word: Annotated[str, Text(("steep", "flat"))]

    @cached_property
    def steepest(self):
        return self.slope.max()


@dataclass(slots=True, eq=False)
class Scale:
    mean: Annotated[np.ndarray, Array("f", "columns")]
    kept: Annotated[np.ndarray, Array("i", "features", low=0, below=9)]


class Rotation:
    """A class that makes itself of its values."""

    _stored: ClassVar = {"matrix": Array("f", "columns", "features")}

    def __init__(self, matrix):
        self.matrix, self.norm = matrix, np.abs(matrix).max()

    def _to_stored(self):
        return {"matrix": self.matrix}

    @classmethod
    def _from_stored(cls, values):
        return cls(values["matrix"])

    def _check_stored(self):
        if self.norm == 0:
            raise ValueError("the matrix is zero.")


class Model:
    """What a model of views looks like."""

    _stored: ClassVar = {
        "lam": Number(above=0),
        "grid": OneOf({"one": Number(), "list": ListOf(Number()), "array": Array("f", ...)}),
        "quiet": Flag(),
        "transformer": Maybe(OneOf({"name": Text(), "own": Guest()})),
        "views_": Names("views"),
        "label_names_": Names("labels"),
        "n_columns_": MapOf(Whole(size="columns"), keys="views"),
        "features_": MapOf(OneOf({"scale": Scale, "rotation": Rotation}), keys="views"),
        "coef_": MapOf(Array("f", "features", "labels"), keys="views"),
        "curves_": Maybe(ListOf(Nested(Curve))),
        "history_": ListOf(MapOf(Number(finite=False))),
        "about_": Plain(),
        "seen_": Sometimes(Whole(0)),
    }

    def __init__(self, lam=1.0, grid=1.0, quiet=True, transformer=None):
        self.lam, self.grid, self.quiet, self.transformer = lam, grid, quiet, transformer


numbers = st.floats(-1e300, 1e300) | st.integers(-(2**63) + 1, 2**63 - 1)


def floats(*shape, dtype="f8"):
    width = {"f8": 64, "f4": 32}[dtype]
    finite = st.floats(allow_nan=False, allow_infinity=False, width=width)
    return arrays_of.arrays(dtype, shape, elements=finite)


@st.composite
def curves(draw, n_labels):
    slope = np.abs(draw(floats(n_labels, dtype="f4")))
    own = draw(arrays_of.arrays(bool, n_labels))
    return Curve(slope, own, draw(st.sampled_from(["steep", "flat"])))


@st.composite
def models(draw):
    grid = st.one_of(numbers, st.lists(numbers, max_size=3), floats(2, 3))
    model = Model(draw(st.floats(1e-9, 1e9)), draw(grid), draw(st.booleans()))
    names = st.lists(st.text(max_size=5), min_size=1, max_size=3, unique=True)
    model.views_, model.label_names_ = draw(names), draw(names)
    n_labels = len(model.label_names_)
    model.n_columns_, model.features_, model.coef_ = {}, {}, {}
    for view in model.views_:
        n, k = draw(st.integers(1, 4)), draw(st.integers(0, 3))
        kept = arrays_of.arrays("i4", k, elements=st.integers(0, n - 1))
        model.n_columns_[view] = n
        rotation = floats(n, k).filter(np.any).map(Rotation)
        scale = st.builds(Scale, floats(n), kept)
        model.features_[view] = draw(scale if k == 0 else st.one_of(scale, rotation))
        model.coef_[view] = draw(floats(k, n_labels))
    model.curves_ = draw(st.none() | st.lists(curves(n_labels), max_size=2))
    record = st.dictionaries(st.text(max_size=3), numbers | st.floats(), max_size=2)
    model.history_ = draw(st.lists(record, max_size=2))
    model.about_ = draw(st.none() | st.booleans() | st.lists(st.text() | st.integers(0, 9)))
    if draw(st.booleans()):
        model.seen_ = draw(st.integers(0, 9))
    return model


def example():
    """A model of two views that has everything."""
    model = Model(grid=[1, 2.5])
    model.views_, model.label_names_ = ["lab", "ward"], ["x", "y", "z"]
    model.n_columns_ = {"lab": 2, "ward": 4}
    model.features_ = {
        "lab": Scale(np.array([0.5, 1.5]), np.array([1])),
        "ward": Rotation(np.arange(8.0).reshape(4, 2)),
    }
    model.coef_ = {"lab": np.ones((1, 3)), "ward": np.ones((2, 3))}
    model.curves_ = [Curve(np.ones(3), np.array([True, False, True]), "flat")]
    model.history_ = [{"objective": np.nan}]
    model.about_ = {"note": [1, None]}
    return model


def same(one, other):
    """Whether two values are equal: types, attributes, dtypes, bits of numbers."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        alike = (one.dtype, one.shape) == (other.dtype, other.shape)
        return alike and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "_stored") or is_dataclass(one):
        names = declared_fields(type(one))
        names = [name for name in names if hasattr(one, name) or hasattr(other, name)]
        return all(same(getattr(one, name, None), getattr(other, name, None)) for name in names)
    return repr(one) == repr(other)


def save(model, path):
    write_model(path, model, {"Model": Model}, versions=VERSIONS)
    return path


def load(path, **options):
    return read_model(path, {"Model": Model}, **options)


def forge(path, change):
    """The file of the example after a function has changed its attributes and arrays."""
    parts = dump(example(), Model)
    about = {"format": stored.FORMAT, "version": stored.VERSION}
    document = about | {"class": "Model", "guests": []}
    document["model"] = parts.document
    change(document["model"], parts.arrays)
    for reference in _references(document):
        if isinstance(reference["array"], int) and 0 <= reference["array"] < len(parts.arrays):
            array = parts.arrays[reference["array"]]
            reference |= {"dtype": array.dtype.name, "shape": list(array.shape)}
    write_archive(path, document, parts.arrays)
    return path


def _references(value):
    if isinstance(value, dict):
        if "array" in value:
            yield value
        value = list(value.values())
    for item in value if isinstance(value, list) else []:
        yield from _references(item)


@given(models())
@settings(max_examples=60)
def test_objects_come_back_equal_and_equal_objects_give_equal_bytes(tmp_path_factory, model):
    folder = tmp_path_factory.mktemp("models")
    again = load(save(model, folder / "one"))
    assert same(again, model)
    save(again, folder / "two")
    save(copy.deepcopy(model), folder / "three")
    first = (folder / "one").read_bytes()
    assert (folder / "two").read_bytes() == first == (folder / "three").read_bytes()


def test_the_document_is_shown(tmp_path):
    about = read_description(save(example(), tmp_path / "model"))
    assert " ".join(about) == "format version written_by class model guests"
    assert about["model"]["coef_"]["ward"] == {"array": 4, "dtype": "float64", "shape": [2, 3]}


def set_to(*keys_and_value):
    """A change of a document: the value at some keys."""
    *keys, last, value = keys_and_value

    def change(attributes, arrays):
        for key in keys:
            attributes = attributes[key]
        attributes[last] = value

    return change


def array_to(index, array):
    return lambda attributes, arrays: arrays.__setitem__(index, array)


FORGED = [
    # In the order of arrays: mean, kept, matrix, coef of lab and ward, slope, own.
    (set_to("extra", 1), "its content has 'extra', which is no attribute of a Model"),
    (set_to("lam", 0), "lam should be a number above 0, and is 0"),
    (set_to("lam", True), "lam should be a number above 0, and is True"),
    (set_to("lam", "NaN"), "lam should be a number above 0, and is 'NaN'"),
    (set_to("history_", [{"a": "nan"}]), r"history_ \(item 0\) of 'a' should"),
    (set_to("quiet", 1), "quiet should be True or False, and is 1"),
    (set_to("quiet", "\x1b[1m"), r"and is '\\x1b\[1m'"),
    (set_to("grid", {"set": []}), "grid should be of one of the kinds 'one', 'list'"),
    (set_to("grid", {"list": [1, "b"]}), r"grid \(item 1\) should be a number"),
    (set_to("views_", []), "views_ should .*, and has 0 distinct ones"),
    (set_to("views_", ["lab", 1]), "views_ should be .*, and is a list"),
    (set_to("views_", ["lab", "bed"]), "mapping of the views 'lab', 'bed', and has 'lab', 'ward'"),
    (set_to("label_names_", ["x", "y"]), r"coef_ of view 'lab' .* \(features=1, labels=2\)"),
    (set_to("n_columns_", "lab", 3), r"mean in features_ of view 'lab' .* \(columns=3\), .*\(2,"),
    (array_to(4, np.ones((3, 3))), r"coef_ of view 'ward' .* \(features=2, labels=3\), .*\(3, 3"),
    (set_to("n_columns_", "lab", 2**40), "n_columns_ of view 'lab' should"),
    (array_to(1, np.array([9])), r"kept in features_ of view 'lab' .* at least 0 and below 9"),
    (array_to(1, np.array([1], "u8")), "and has type uint64"),
    (array_to(3, np.full((1, 3), np.nan)), "coef_ of view 'lab' .* has NaN or infinity"),
    (array_to(5, np.full(3, -1.0)), r"slope in curves_ \(item 0\) .* at least 0"),
    (set_to("curves_", 0, "word", "odd"), "one of 'steep', 'flat', and is 'odd'"),
    (array_to(2, np.zeros((4, 2))), "features_ of view 'ward' is inconsistent: the matrix"),
    (set_to("coef_", "lab", [1.0]), "does not refer to an array"),
    (set_to("coef_", "lab", "array", 99), "it has no arrays/99.npy"),
    (set_to("coef_", "ward", "array", 3), "has shape|twice"),
    (set_to("curves_", None), "nothing in it refers to arrays/5.npy"),
]


@pytest.mark.parametrize(("change", "reason"), FORGED, ids=[reason for _, reason in FORGED])
def test_what_breaks_a_declaration_is_refused(tmp_path, change, reason):
    path = forge(tmp_path / "model", change)
    with pytest.raises(ModelFileError, match=reason) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ") and len(str(caught.value)) < 600


def spoil(name, value):
    return lambda model: setattr(model, name, value)


UNSAVED = [
    (spoil("coef_", {"lab": np.ones((1, 3)), "ward": np.ones((2, 2))}), "coef_ of view 'ward'"),
    (spoil("coef_", {"lab": np.ones((1, 3))}), "coef_ should be a mapping of the views"),
    (spoil("lam", "high"), "lam should be a number above 0, and is 'high'"),
    (spoil("grid", {1, 2}), "grid should be a number or a list or finite .*, and is a set"),
    (spoil("about_", {"a": np.nan}), "about_ should be finite numbers, text"),
    (spoil("note", "mine"), "it has the attribute 'note', which would be lost"),
    (lambda model: delattr(model, "coef_"), "coef_ is missing"),
    (lambda model: setattr(model.features_["lab"], "mean", np.array(["a"])), "mean in features_"),
    (spoil("transformer", lambda rows: rows), "transformer is a function, which skops cannot"),
]


@pytest.mark.parametrize(("change", "reason"), UNSAVED, ids=[reason for _, reason in UNSAVED])
def test_what_could_not_be_loaded_is_not_saved(tmp_path, change, reason):
    model = example()
    change(model)
    with pytest.raises(ValueError, match=f"^this Model cannot be saved: {reason}"):
        save(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_cached_properties_are_not_stored(tmp_path):
    model = example()
    assert model.curves_[0].steepest == 1
    assert "steepest" not in vars(load(save(model, tmp_path / "model")).curves_[0])


def test_only_listed_classes_are_models(tmp_path):
    with pytest.raises(TypeError, match="only Model can be saved, got Curve"):
        save(example().curves_[0], tmp_path / "model")
    path = save(example(), tmp_path / "model")
    with pytest.raises(ModelFileError, match="it holds a 'Model', and this naim3l can load"):
        read_model(path, {"Curve": Curve})


def test_items_have_own_sizes_which_nested_objects_share():
    class Pair:
        _stored: ClassVar = {
            "first": Nested(Rotation),
            "second": Nested(Rotation),
            "curves": ListOf(ListOf(Array("f", "points"), "pair")),
        }

    def pair(shape, *points):
        made = Pair()
        made.first, made.second = Rotation(np.ones((2, 3))), Rotation(np.ones(shape))
        made.curves = [[np.ones(n), np.ones(n)] for n in points]
        return made

    dump(pair((2, 3), 5, 6), Pair)
    with pytest.raises(ValueError, match=r"matrix in second should .* \(columns=2, features=3\)"):
        dump(pair((2, 4)), Pair)


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [("f", "f4 f8"), ("i", "i1 i2 i4 i8"), ("u", "u1 u2 u4 u8"), ("b", "b1"), ("bf", "b1 f4 f8")],
)
def test_kinds_of_arrays(kind, allowed):
    for dtype in ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"):
        if dtype in allowed.split():
            dump(np.ones(2, dtype), Array(kind, 2))
        else:
            with pytest.raises(ValueError, match=f"and has type {np.dtype(dtype).name}"):
                dump(np.ones(2, dtype), Array(kind, 2))


def test_files_without_a_later_attribute_are_loaded(tmp_path):
    class New:
        _stored: ClassVar = {"kept": Whole(), "added": Sometimes(Whole())}
        added = 7

    write_archive(tmp_path / "a", {"format": "x", "version": 1})
    with Archive(tmp_path / "a", format="x", newest_version=2) as archive:
        old = restore(New, {"kept": 1}, archive)
        assert (old.kept, old.added) == (1, 7)
        assert restore(New, {"kept": 1, "added": 2}, archive).added == 2


SCALER = "sklearn.preprocessing._data.StandardScaler"


def scaled(rng):
    model = example()
    model.transformer = StandardScaler().fit(rng.normal(size=(9, 2)))
    return model


def test_everything_in_a_guest_must_be_trusted(tmp_path, rng):
    model = example()
    model.transformer = make_pipeline(StandardScaler(), FunctionTransformer(np.log1p), PCA(1))
    path = save(model, tmp_path / "model")
    (types,) = read_description(path)["guests"]
    expected = {type(step).__name__ for step in model.transformer} | {"Pipeline", "log1p"}
    assert types[0] == "sklearn.pipeline.Pipeline"
    assert {name.rpartition(".")[2] for name in types} == expected
    for name in types:
        with pytest.raises(ModelFileError, match=f"loaded: {name}"):
            load(path, trusted=set(types) - {name})
    assert isinstance(load(path, trusted=types).transformer[2], PCA)


def test_a_guest_cannot_hide_behind_a_list_of_other_types(tmp_path, rng):
    path = save(scaled(rng), tmp_path / "model")
    with Archive(path, format=stored.FORMAT, newest_version=stored.VERSION) as archive:
        document = archive.document
        arrays = [archive.array(i) for i in range(7)]
        guest = archive.guest(0)
    for listed in ([["numpy.ndarray"]], [["builtins.dict"]]):
        write_archive(path, document | {"guests": listed}, arrays, [guest])
        with pytest.raises(ModelFileError, match=f"transformer needs .*{SCALER}"):
            load(path, trusted=listed[0])
    for listed in ([], [[]], [["a b"]], ["a"], [[1]]):
        write_archive(path, document | {"guests": listed}, arrays, [guest])
        with pytest.raises(ModelFileError, match="guests"):
            load(path, trusted=[SCALER])
    for damaged in (b"", b"PK", guest[:-9], guest.replace(b"mean_", b"mean\n")):
        write_archive(path, document, arrays, [damaged])
        with pytest.raises(ModelFileError, match=r"transformer .*(damaged|CRC-32|loaded|empty)"):
            load(path, trusted=[SCALER])


def test_reading_imports_nothing_and_starts_no_process(tmp_path):
    script = """
import sys, numpy
sys.path.insert(0, sys.argv[1])
from test_stored import load, ModelFileError
before = set(sys.modules)
def audit(event, arguments):
    if event in ("import", "subprocess.Popen", "os.fork", "os.exec", "exec", "compile"):
        raise SystemExit(f"{event} {arguments}")
sys.addaudithook(audit)
load(sys.argv[2])
try:
    load(sys.argv[3])
except ModelFileError as error:
    assert "load(path, trusted=" in str(error)
assert "skops" not in sys.modules and set(sys.modules) == before
"""
    plain = save(example(), tmp_path / "plain")
    guest = save(scaled(np.random.default_rng(0)), tmp_path / "guest")
    command = [sys.executable, "-c", script, __file__.rpartition("/")[0], plain, guest]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stderr) == (0, "")
