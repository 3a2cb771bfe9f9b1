"""Forged files of real models: edited by one who knows the format, with right checksums."""

import io
import json
import os
import sys
import threading
import tracemalloc
import zipfile

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import StandardScaler

from fuzz import samples
from model_files import array_bytes, npy, put_together, saved, take_apart, unzip, zipped
from naim3l import ModelFileError, inspect_file, load
from naim3l.estimators import PerViewRidge
from naim3l.estimators.saved import MODELS
from naim3l.files.stored import OLDEST, VERSION

CLASSES = sorted(set(MODELS) - {"DeepNAIM3L"})
# Information that nothing computes with, and parameters, which have defaults.
FREE = {"parameters", "roles_", "history_", "held_out_", "uncoupled_", "cv_results_", "written_by"}
FREE |= {"metric_", "titles_", "made_"}


@pytest.fixture
def refused(tmp_path):
    """Function that asserts that bytes of a file are refused, with a reason."""

    def check(content, reason=": ", trusted=()):
        (tmp_path / "model.naim3l").write_bytes(content)
        with pytest.raises(ModelFileError, match=reason) as caught:
            load(tmp_path / "model.naim3l", trusted=trusted)
        assert str(caught.value).startswith(f"{tmp_path}/model.naim3l: ")
        assert str(caught.value).isprintable() and len(str(caught.value)) < 2000
        return str(caught.value)

    return check


@pytest.fixture(params=CLASSES)
def sample(request):
    """Document and members of the file of a model of each class, without guests."""
    parts = (take_apart(content) for content in samples.models())
    return next(of for of in parts if of[0]["class"] == request.param and not of[0]["guests"])


@pytest.fixture(scope="module")
def plain():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(40).reshape(20, 2) % 3 % 2
    return take_apart(saved(PerViewRidge().fit({"v": X}, {"v": y})))


def mappings(tree, skipped=FREE):
    """Mappings in a document, except for those that may have any keys."""
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            yield item
            stack += [item[key] for key in item if key not in skipped]
        stack += item if isinstance(item, list) else []


def forged(document, keys, value):
    """A copy of a document with another value somewhere in its model."""
    copy = json.loads(json.dumps(document))
    place = copy["model"]
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return copy


def test_no_key_may_be_missing_or_unknown(sample, refused):
    document, members = sample
    places = list(mappings(document["model"]))
    # What the rules reach is shown for those that have it.
    optional = [place["prices"] for place in places if "prices" in place]
    for place in places[:: 1 + len(places) // 40]:
        for key, value in list(place.items()):
            if key in FREE or any(place is each for each in optional):
                continue
            del place[key]
            refused(put_together(document, members))
            place[key] = value
        place["extra"] = 1
        refused(put_together(document, members))
        del place["extra"]


def test_arrays_are_finite_and_have_the_sizes_of_views_columns_and_labels(sample, refused):
    document, members = sample
    places = [place for place in mappings(document["model"]) if "dtype" in place]
    for place in places[:: 1 + len(places) // 20]:
        name = f"arrays/{place['array']}.npy"
        array, shape = np.load(io.BytesIO(members[name])), place["shape"]
        if array.dtype.kind == "f":
            array.flat[-1] = np.nan
            refused(put_together(document, members | {name: array_bytes(array)}), "NaN or infinity")
        for other in (array[:-1], array[None], array.astype(object), array.astype("c16")):
            place["shape"] = list(other.shape)
            refused(put_together(document, members | {name: array_bytes(other)}))
        place["shape"] = [*shape, 1]
        refused(put_together(document, members), "than the document states")
        place["shape"] = shape


@pytest.mark.parametrize(
    ("keys", "value", "reason"),
    [
        (["names_", "views"], ["v", "v"], "distinct names of views"),
        (["names_", "views"], ["w"], "used in names_ should be a mapping of the views 'w'"),
        (["names_", "labels"], ["a"], "labels=1"),
        (["names_", "labels"], [], "labels in names_ should"),
        (["names_", "used", "v"], [0, 1, 3], "columns that its table does not have"),
        (["names_", "used", "v"], [0, 1, 1], "columns that its table does not have"),
        (["names_", "used", "v"], [0, 1], "columns in plan in features_ of view 'v'"),
        (["names_", "tables", "v", "n"], 2**40, "n in tables of 'v' in names_"),
        (
            ["features_", "v", "plan", "columns", 0, "mean"],
            "NaN",
            "mean in columns .item 0. in plan",
        ),
        (["features_", "v", "plan", "columns", 0, "kind"], "code", "kind in columns .item 0."),
        (["features_", "v", "transformer"], {"guest": 0}, "no guests/0.skops"),
        (["parameters", "features"], {"by view": {"by view": {}}}, "should be of one of the kinds"),
        (["parameters", "random_state"], {"__reduce__": 1}, "should be of one of the kinds"),
    ],
)
def test_values_that_contradict_a_declaration(plain, refused, keys, value, reason):
    document, members = plain
    refused(put_together(forged(document, keys, value), members), reason)


def test_categories_in_any_order_lead_to_columns_that_exist(tmp_path):
    """An encoder that searches sorted categories would write beyond its array."""
    contents = [take_apart(content) for content in samples.models()]
    document, members = next(of for of in contents if "blue" in json.dumps(of[0]))
    plan = document["model"]["features_"]["view0"]["plan"]
    (word,) = [column for column in plan["columns"] if column["kind"] == "text"]
    for categories in (word["categories"][::-1], ["red"] * len(word["categories"])):
        word["categories"] = categories
        (tmp_path / "model").write_bytes(put_together(document, members))
        features = load(tmp_path / "model").features_["view0"]
        assert len(features.plan.encoded_names()) == features.plan.n_encoded


def test_long_doubles_complex_numbers_and_objects_are_no_arrays(plain, refused):
    document, members = plain
    for dtype, size in (("<f16", 16), ("<c16", 16), ("|O", 8), ("<U4", 16), (">f8", 8), ("|V8", 8)):
        array = npy(dtype, "(2,)", bytes(2 * size))
        refused(put_together(document, members | {"arrays/0.npy": array}), "plain numbers|states")


def test_nesting_in_json_is_refused_before_it_is_parsed(plain, refused, monkeypatch):
    _, members = plain
    monkeypatch.setattr("json.loads", lambda *_, **__: pytest.fail("parsed"))
    for text in (b"[" * 10**6, b'{"a":' * 10**6, b'{"model":' + b"[" * 100 + b"]" * 100 + b"}"):
        refused(put_together(text, members), "nested more than 40 levels")


@pytest.mark.parametrize("make", [
    lambda inner: Pipeline([("a", inner)]),
    lambda inner: FeatureUnion([("a", inner)]),
    lambda inner: ColumnTransformer([("a", inner, [0])]),
])  # fmt: skip
def test_deeply_nested_guests_are_refused_before_skops_is_asked(make, refused, monkeypatch):
    X, y = {"v": np.arange(12.0).reshape(6, 2)}, {"v": samples.LABELS}
    document, members = take_apart(saved(PerViewRidge(features=make(StandardScaler())).fit(X, y)))
    (types, *_) = document["guests"]
    inner = unzip(members["guests/0.skops"])["schema.json"]
    for _ in range(400):  # as many levels as no program makes
        inner = b'{"__loader__":"ListNode","content":[' + inner + b"]}"
    deep = zipped({"schema.json": inner}, zipfile.ZIP_STORED)
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    refused(put_together(document, members | {"guests/0.skops": deep}), "levels deep", types)
    message = refused(put_together(document, members), "needs objects of other packages")
    assert all(name in message for name in types) and "load(path, trusted=[" in message


def test_a_pipeline_that_skops_cannot_read_again_is_not_saved(tmp_path):
    X, y = {"v": np.arange(12.0).reshape(6, 2)}, {"v": samples.LABELS}
    deep = StandardScaler()
    for _ in range(30):
        deep = Pipeline([("a", deep)])
    model = PerViewRidge(features=deep).fit(X, y)
    with pytest.raises((TypeError, ValueError), match="levels deep"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_transformer_needs_trust_and_says_so(tmp_path, refused):
    X, y = {"v": np.arange(12.0).reshape(6, 2)}, {"v": samples.LABELS}
    model = PerViewRidge(features=StandardScaler()).fit(X, y)
    model.save(tmp_path / "model")
    message = refused((tmp_path / "model").read_bytes(), "StandardScaler")
    assert "load(path, trusted=['sklearn.preprocessing._data.StandardScaler'])" in message
    for trusted in ([StandardScaler], inspect_file(tmp_path / "model")["guests"]):
        found = load(tmp_path / "model", trusted=trusted)
        np.testing.assert_array_equal(found.predict(X)["v"], model.predict(X)["v"])
    with pytest.raises(TypeError, match="trusted must be a list"):
        load(tmp_path / "model", trusted="StandardScaler")


def test_a_number_of_jobs_starts_no_process_and_no_thread(tmp_path, monkeypatch):
    contents = [take_apart(content) for content in samples.models()]
    document, members = next(of for of in contents if of[0]["class"] == "NAIM3LCV")
    (tmp_path / "model").write_bytes(
        put_together(forged(document, ["parameters", "n_jobs"], {"value": 12}), members)
    )
    for name in ("os.fork", "os.posix_spawn", "subprocess.Popen", "joblib.Parallel.__call__"):
        monkeypatch.setattr(name, lambda *_, name=name, **__: pytest.fail(name))
    n_threads = threading.active_count()
    model = load(tmp_path / "model")
    X = {view: np.ones((2, of.n)) for view, of in model.names_.tables.items()}
    assert model.n_jobs == 12 and model.predict(X)
    assert threading.active_count() == n_threads


def test_memory_is_a_small_multiple_of_the_file(plain, tmp_path):
    document, members = plain
    bomb = {"naim3l.json": b" " * 10**8, **members}
    guest = zipped({"schema.json": b" " * 10**8})
    hungry = {
        "shape": put_together(document, members | {"arrays/0.npy": npy(shape="(1000000000000,)")}),
        "empty": put_together(document, members | {"arrays/0.npy": npy(shape="(0, 10000000000)")}),
        "compressed": zipped(bomb),
        "a guest": put_together(
            forged(document, ["features_", "v", "transformer"], {"guest": 0})
            | {"guests": [["builtins.dict"]]},
            members | {"guests/0.skops": guest},
        ),
        "twice": put_together(
            forged(document, ["base_rates_"], document["model"]["coef_"]["v"]), members
        ),
    }
    for kind, content in hungry.items():
        (tmp_path / "model").write_bytes(content)
        tracemalloc.start()
        with pytest.raises(ModelFileError):
            load(tmp_path / "model", trusted=["builtins.dict"])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= 2**21 + 50 * len(content), kind


def test_links_are_followed_and_pipes_are_not_waited_for(plain, tmp_path):
    (tmp_path / "model").write_bytes(put_together(*plain))
    os.mkfifo(tmp_path / "pipe")
    for name, target in {"good": "model", "fifo": "pipe", "device": "/dev/zero"}.items():
        (tmp_path / name).symlink_to(target)
    assert load(tmp_path / "good").views_ == ["v"]
    for name in ("pipe", "fifo", "device"):
        with pytest.raises(ModelFileError, match="a pipe or a device"):
            load(tmp_path / name)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="loop"):
        load(tmp_path / "loop")


def test_what_is_twice_in_a_file_is_refused(plain, refused):
    document, members = plain
    text = json.dumps(document)
    refused(put_together(text.replace("{", '{"class":"NAIM3L",', 1).encode(), members), "key twice")
    pairs = [("naim3l.json", text), *members.items(), *members.items()]
    with pytest.warns(UserWarning, match="Duplicate name"):
        content = zipped(pairs, zipfile.ZIP_STORED)
    refused(content, "two members with the same name")


def test_other_classes_and_newer_versions(plain, refused, tmp_path):
    document, members = plain
    for name in ("StandardScaler", "os.system", ""):
        refused(put_together(document | {"class": name}, members), "this naim3l can load")
    for key, value in {"class": None, "model": [], "guests": {}}.items():
        refused(put_together(document | {key: value}, members), "its document")
    refused(put_together(document | {"class": "NAIM3L"}, members), "is missing|should be")
    newer = document | {"version": VERSION + 1, "written_by": {"naim3l": "9.9\x1b[1m"}}
    refused(put_together(newer, members), r"update naim3l \(.*naim3l 9.9\\x1b\[1m\)")
    refused(put_together(document | {"format": "naim3l checkpoint"}, members), "its format is")
    (tmp_path / "model").write_bytes(put_together(newer, members))
    with pytest.raises(ModelFileError, match="update naim3l"):
        inspect_file(tmp_path / "model")


def test_versions_that_are_no_longer_read(plain, refused, tmp_path):
    document, members = plain
    assert document["version"] == VERSION >= OLDEST
    older = document | {"version": OLDEST - 1, "written_by": {"naim3l": "0.0.9"}}
    said = f"it has version {OLDEST - 1} of the format, and this naim3l reads none before {OLDEST}"
    refused(put_together(older, members), rf"{said}: fit again \(.* written by naim3l 0\.0\.9\)")
    (tmp_path / "model").write_bytes(put_together(older, members))
    with pytest.raises(ModelFileError, match="fit again"):
        inspect_file(tmp_path / "model")


def test_what_was_not_forged_is_loaded(sample, tmp_path):
    (tmp_path / "model").write_bytes(put_together(*sample))
    assert type(load(tmp_path / "model")).__name__ == sample[0]["class"]
