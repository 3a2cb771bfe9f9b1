"""Files of others, damaged files and edited ones give an error or the model, nothing between."""

import json
import warnings

import numpy as np
import pytest
import skops.io
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from fuzz.damage import change_bytes
from model_files import (
    array_bytes,
    assert_refused,
    assert_same,
    attributes,
    leaf,
    mapping,
    named,
    names,
    owner_of,
    plant_attributes,
    read_members,
    sequence,
    write_members,
)
from naim3l import ModelFileError, load
from naim3l.files.models import archive


class TestForeignFiles:
    def test_missing_file_and_folder_keep_their_error(self, tmp_path):
        for path in (tmp_path / "none", tmp_path):
            with pytest.raises(OSError):
                load(path)

    @pytest.mark.parametrize(
        "content", [b"", b"{}", b"PK\x03\x04", b"\x00" * 99, b"PK\x05\x06" * 9]
    )
    def test_not_an_archive(self, content, tmp_path):
        (tmp_path / "m").write_bytes(content)
        assert_refused(tmp_path / "m", "empty|not a model file|not written by naim3l")

    def test_other_archives(self, model, tmp_path):
        write_members(tmp_path / "m", {"a.txt": "a"})
        assert_refused(tmp_path / "m", r"not written by naim3l: it has no naim3l\.json")
        skops.io.dump(model, tmp_path / "m")
        assert_refused(tmp_path / "m", "not written by naim3l")
        np.savez(tmp_path / "m.npz", a=np.arange(3))
        assert_refused(tmp_path / "m.npz", "not written by naim3l")
        for facts in ("[]", "{}", '{"format": "other"}'):
            write_members(tmp_path / "m", {"naim3l.json": facts})
            assert_refused(tmp_path / "m", "is not 'naim3l model'")

    def test_newer_format(self, forge):
        path = forge(facts=lambda told: told.update(format_version=2))
        assert_refused(path, "format version 2, and this naim3l reads up to 1: update naim3l")
        for number in (0, -1, True, "1", None):
            path = forge(facts=lambda told, number=number: told.update(format_version=number))
            assert_refused(path, "its format version is")

    @pytest.mark.parametrize("kind", ["scaler", "estimator"])
    def test_models_of_others_with_our_facts(self, kind, saved, apart, tmp_path):
        other = StandardScaler().fit(apart[0]["view0"])
        if kind == "estimator":
            other = [other]
        told = json.loads(read_members(saved)["naim3l.json"])
        (tmp_path / "m").write_bytes(archive.pack(skops.io.dumps(other), told))
        assert_refused(tmp_path / "m", "not a model of naim3l")


class TestDamage:
    @pytest.mark.parametrize("share", np.linspace(0, 1, 41)[:-1])
    def test_truncation(self, share, saved, tmp_path):
        content = saved.read_bytes()
        (tmp_path / "m").write_bytes(content[: int(share * len(content))])
        assert_refused(tmp_path / "m", "empty|not a model file")

    @pytest.mark.parametrize("part", ["file", "directory"])
    @settings(max_examples=150, deadline=None)
    @given(random=st.randoms(use_true_random=False))
    def test_changed_bytes(self, random, part, model, saved, apart, tmp_path_factory):
        content = saved.read_bytes()
        first = content.index(b"PK\x01\x02") if part == "directory" else 0
        path = tmp_path_factory.getbasetemp() / "changed.skops"
        path.write_bytes(change_bytes(content, random, first=first))
        try:
            copy = load(path)
        except ModelFileError:
            return
        assert_same(copy, model, apart[0])  # in a date, say

    def test_careless_edits(self, forge, saved):
        assert_refused(forge(lambda t: attributes(t).update(lam=leaf(9.0)), mended=False),
                       "schema.json was changed")  # fmt: skip
        assert_refused(forge(add={"extra.npy": b""}, mended=False), "members are not those")
        array = read_members(saved)["0.npy"]
        assert_refused(
            forge(add={"0.npy": array[:-1] + b"\x7f"}, mended=False), "0.npy was changed"
        )

    @pytest.mark.parametrize(
        ("name", "value"),
        [("class", "naim3l.estimators.naim3l_cv.NAIM3LCV"), ("label_names", ["a", "b", "c"]),
         ("lam", 9), ("views", {}), ("n_iter", 4), ("converged", None),
         ("form", "wide"), ("parameters", {})],
    )  # fmt: skip
    def test_facts_that_contradict_the_model(self, name, value, forge):
        path = forge(facts=lambda told: told.update({name: value}))
        assert_refused(path, f"naim3l.json contradicts the model: {name}")


def features(transformer, as_numbers=True):
    state = mapping({"transformer": transformer, "as_numbers": leaf(as_numbers)})
    return named("naim3l.features.encoding.ViewFeatures", "ObjectNode", content=state)


class TestHalfModels:
    @pytest.mark.parametrize("name", [
        "coef_", "intercept_", "reader_", "views_", "label_names_", "form_", "label_coding",
        "labels_named_", "one_column_", "columns_", "n_features_in_", "lam",
    ])  # fmt: skip
    def test_without_a_part(self, name, forge):
        def remove(tree):
            owner = owner_of(name, tree)
            position = list(attributes(owner)).index(name)
            del attributes(owner)[name], owner["content"]["key_types"]["content"][position]

        assert_refused(forge(remove), name)

    @pytest.mark.parametrize("name", ["transformer", "as_numbers"])
    def test_without_a_part_of_its_features(self, name, forge):
        def remove(tree):
            part = attributes(tree)["features_"]["content"]["view0"]
            position = list(attributes(part)).index(name)
            del attributes(part)[name], part["content"]["key_types"]["content"][position]

        assert_refused(forge(remove), "features_ of 'view0' should be features with a transformer")

    @pytest.mark.parametrize("name", ["coef_", "intercept_", "features_"])
    def test_without_a_view(self, name, forge):
        def remove(tree):
            part = attributes(tree)[name]
            del part["content"]["view0"], part["key_types"]["content"][0]

        assert_refused(forge(remove), f"{name} are not those of the views")

    @pytest.mark.parametrize(
        ("name", "array", "reason"),
        [
            ("coef_", np.zeros((5, 2)), "coef_ of 'view0' should be finite weights"),
            ("coef_", np.zeros(3), "coef_ of 'view0' should be finite weights"),
            ("coef_", np.zeros((5, 3), dtype=int), "coef_ of 'view0' should be finite weights"),
            ("coef_", np.full((5, 3), np.nan), "coef_ of 'view0' should be finite weights"),
            ("intercept_", np.zeros(4), "intercept_ of 'view0' should be one finite number"),
            ("intercept_", np.array([0, np.inf, 0]), "should be one finite number per label"),
            ("coef_", np.zeros((9, 3)), "weights for 9 of 5 features"),
        ],
    )
    def test_with_other_weights(self, name, array, reason, forge):
        def point(tree):
            files.append(attributes(tree)[name]["content"]["view0"]["file"])

        files = []
        forge(point)
        assert_refused(forge(add={files[0]: array_bytes(array)}), reason)

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"features_": mapping({"view0": features(leaf(3)), "view1": features(leaf(None))})},
             "features_ of 'view0' should be features"),
            ({"features_": mapping({"view0": features(leaf(None), as_numbers="yes"),
                                    "view1": features(leaf(None))})},
             "features_ of 'view0' should be features"),
            ({"features_": mapping({"view0": leaf(None), "view1": leaf(None)})},
             "features_ of 'view0' should be features"),
            ({"n_features_in_": mapping({"view0": leaf(7), "view1": leaf(4)}),
              "features_": mapping({"view0": features(leaf(None)),
                                    "view1": features(leaf(None))})}, "of 7 features"),
            ({"form_": leaf("other")}, "form_ should be one of"),
            ({"form_": leaf("wide")}, "columns, which this file has no room for"),
            ({"one_column_": leaf("yes")}, "one_column_ should be True or False"),
            ({"reader_": leaf(None)}, "it lacks reader_"),
            ({"label_names_": names("a", "a", "b")}, "label_names_ should be distinct"),
            ({"label_names_": leaf("abc")}, "label_names_ should be distinct"),
            ({"views_": names()}, "views_ should be distinct"),
            ({"views_": sequence(names("view0"), leaf("view1"), kind="list")}, "distinct"),
            ({"n_features_in_": mapping({"view0": leaf(9), "view1": leaf(4)})},
             "view 'view0': its transformer is for 5 columns"),
            ({"n_features_in_": mapping({"view0": leaf(10**12), "view1": leaf(4)})}, "no room"),
        ],
    )  # fmt: skip
    def test_with_parts_that_do_not_fit(self, changes, reason, forge):
        assert_refused(forge(lambda tree: plant_attributes(tree, changes)), reason)


def test_odd_characters_in_the_header_of_an_array_are_refused_without_a_warning(forge, saved):
    members = read_members(saved)
    name = next(name for name in members if name.endswith(".npy"))
    header = members[name].replace(b"'descr'", b"'des\\q'", 1)
    assert len(header) == len(members[name]) and header != members[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert_refused(forge(add={name: header}), "not a complete model file")
    assert not caught
