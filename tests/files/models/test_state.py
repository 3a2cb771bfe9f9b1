"""Whatever part of a model a file lacks or has otherwise: an error, or the same predictions."""

import copy
import importlib
import io
import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from model_files import (
    FEW,
    array_bytes,
    attributes,
    leaf,
    mapping,
    read_members,
    write_members,
)
from naim3l import NAIM3L, NAIM3LCV, ModelFileError, join_views, load
from naim3l.datasets import make_unpaired
from naim3l.estimators import BlendNAIM3L, FusedRidge, PerViewLogistic, PerViewRidge
from naim3l.features.column_uses import ColumnUse
from naim3l.files.models import save
from naim3l.files.models.archive import sha256
from naim3l.input.roles import ViewRoles

OTHERS = {"NaN": leaf(float("nan")), "text": leaf("text"), "None": leaf(None), "none": mapping({})}
ARRAYS = {
    "NaN": lambda a: np.full_like(a, np.nan) if a.dtype.kind == "f" else a.astype(float),
    "shorter": lambda a: a[..., :-1] if a.ndim else a[None],
}


def apart():
    data = make_unpaired((30, 25), n_features=(5, 4), n_labels=3, n_latent=3, random_state=0)
    X = {view: pd.DataFrame(x, columns=[f"{view}{j}" for j in range(x.shape[1])])
         for view, x in data.views.items()}  # fmt: skip
    return X, data.labels


def fit(kind):
    """A fitted model, and tables to predict from."""
    if kind in ("wide", "aligned"):
        data = make_unpaired(40, n_features=(4, 3), n_labels=3, n_latent=3, aligned=True,
                             random_state=1)  # fmt: skip
        table, views = join_views(data.views)
        options = {"views": views, "calibrate": True, "transformer": None}
        if kind == "aligned":
            model = FusedRidge(random_state=0, **options)
        else:
            model = NAIM3L(fusion="learned", **options, **FEW | {"max_iter": 1})
        return model.fit(table, data.complete_labels["view0"]), table
    X, Y = apart()
    if kind == "deep":
        pytest.importorskip("torch", reason="networks need torch")
        deep = importlib.import_module("naim3l.deep")
        options = {"hidden": (6,), "max_epochs": 2, "device": "cpu", "random_state": 0}
        return deep.DeepNAIM3L(calibrate=True, **options).fit(X, Y), X
    if kind == "blend":
        members = [("ridge", PerViewRidge(transformer=None))]
        return BlendNAIM3L(members, random_state=0).fit(X, Y), X
    if kind == "logistic":
        model = PerViewLogistic(transformer=StandardScaler()).fit(X, Y)
        model.roles_ = {view: ViewRoles("nr", ["label0"], ["ja"], ignored=["x"])
                        for view in X}  # fmt: skip
        return model, X
    model = NAIM3LCV(
        (1.0,), (1.0,), cv=2, kernel="rbf", n_landmarks=5, gamma_factors=(1.0,), calibrate=True,
        **FEW | {"max_iter": 1},
    )  # fmt: skip
    return model.fit(X, Y), X


KINDS = ("chosen", "logistic", "wide", "aligned", "deep", "blend")


class Edited:
    """The file of a model, in which one thing at a time is changed."""

    def __init__(self, kind, path):
        self.model, self.X = fit(kind)
        self.path = path
        save(self.model, path)
        self.known = predictions(self.model, self.X)
        self.members = read_members(path)
        self.facts = json.loads(self.members.pop("naim3l.json"))
        self.tree = json.loads(self.members["schema.json"])

    def check(self, what, tree=None, add=()):
        """Load the file with another schema, or other members."""
        members = self.members | dict(add)
        if tree is not None:
            members["schema.json"] = json.dumps(tree).encode()
        told = self.facts | {"sha256": {name: sha256(c) for name, c in members.items()}}
        write_members(self.path, {"naim3l.json": json.dumps(told), **members})
        try:
            copied = load(self.path)
        except ModelFileError as error:
            assert str(error).startswith(f"{self.path}: ")
            return
        try:
            found = predictions(copied, self.X)
            for method, values in found.items():
                np.testing.assert_array_equal(values, self.known.get(method, values))
        except Exception as error:
            raise AssertionError(f"{what}: a model that fails, or answers otherwise") from error


def predictions(model, X):
    """Decisions, scores, and probabilities where the model has them; of the first view."""
    X = X if model.reader_.wide else {"view0": X["view0"]}
    methods = ["predict", "predict_proba" if model.calibrate and model.calibration_ else
               "decision_function"]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without names of columns, which do without
        made = {method: getattr(model, method)(X) for method in methods}
    return (
        made if model.reader_.wide else {method: values["view0"] for method, values in made.items()}
    )


@pytest.fixture(scope="module", params=KINDS)
def edited(request, tmp_path_factory):
    return Edited(request.param, tmp_path_factory.mktemp("state") / "m")


def test_attributes(edited):
    for name in attributes(edited.tree):
        tree = copy.deepcopy(edited.tree)
        position = list(attributes(tree)).index(name)
        del attributes(tree)[name], tree["content"]["key_types"]["content"][position]
        edited.check(f"no {name}", tree)
        # Parameters are compared with what the file says of them, so that one kind is enough.
        is_parameter = name in edited.facts["parameters"]
        for kind in ("text",) if is_parameter else OTHERS:
            tree = copy.deepcopy(edited.tree)
            attributes(tree)[name] = OTHERS[kind]
            edited.check(f"{name}: {kind}", tree)


def test_entries_of_attributes(edited):
    """Of mappings, such as those by view, and of the parts below: calibrations, transformers."""
    for name in ("reader_", "features_", "calibration_", "evidence_", "_architecture", "roles_"):
        if name not in attributes(edited.tree):
            continue
        for path in filter(None, leaves(attributes(edited.tree)[name])):
            # Another name of a column is a model of other tables.
            for kind in ("NaN",) if "feature_names_in_" in (name, *path) else ("NaN", "text"):
                tree = copy.deepcopy(edited.tree)
                *above, last = path
                place = attributes(tree)[name]
                for key in above:
                    place = place[key]
                place[last] = OTHERS[kind]
                edited.check(f"{name} {path}: {kind}", tree)


def leaves(node, path=()):
    """Where in a node there are others that have none in them; of the first view alone."""
    content = node.get("content")
    inner = content.items() if isinstance(content, dict) else enumerate(content or ())
    if node["__loader__"] == "JsonNode" or not isinstance(content, dict | list):
        yield path
    elif node["__loader__"] == "ObjectNode":
        yield from leaves(content, (*path, "content"))
    else:
        for key, part in inner:
            if key != "view1" and isinstance(part, dict) and "__loader__" in part:
                yield from leaves(part, (*path, "content", key))


def test_arrays(edited):
    for name, content in edited.members.items():
        if not name.endswith(".npy"):
            continue
        array = np.load(io.BytesIO(content))
        for kind, change in ARRAYS.items():
            edited.check(f"{name}: {kind}", add={name: array_bytes(change(array))})


@pytest.mark.parametrize(
    "roles",
    [
        ViewRoles(id="view00"),  # a feature
        ViewRoles(ignored=["view00"]),
        ViewRoles(labels=["flu"]),  # no label of the model
        ViewRoles(id=1),
        ViewRoles(yes=["a", 1]),
        ViewRoles(no=("a",)),
        {"id": "nr"},
        None,
    ],
)
def test_roles_that_do_not_go_with_the_model(roles, tmp_path):
    X, Y = apart()
    model = PerViewLogistic(transformer=StandardScaler()).fit(X, Y)
    model.roles_ = {"view0": roles, "view1": ViewRoles()}
    with pytest.raises(TypeError, match="cannot be saved"):  # as the file would not be loaded
        save(model, tmp_path / "m")
    model.roles_ = {"view0": ViewRoles()}
    with pytest.raises(TypeError, match="roles_ are not those of the views"):
        save(model, tmp_path / "m")


@pytest.mark.parametrize(
    "uses",
    [
        None,
        ["note"],
        [ColumnUse("note", "text", np.nan, "set aside")],
        [ColumnUse("note", "text", 1.5, "set aside")],
        [ColumnUse("note", 1, 0.5, "set aside")],
    ],
)
def test_uses_of_columns_that_are_none(uses, tmp_path):
    X, Y = apart()
    model = PerViewLogistic(transformer=StandardScaler()).fit(X, Y)
    model.aside_ = {"view0": uses, "view1": []}
    with pytest.raises(TypeError, match="cannot be saved"):
        save(model, tmp_path / "m")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kinds_", np.array([0, 1, 9], dtype=np.int8)),
        ("kinds_", np.array([0, 0, 0], dtype=np.int8)),
        ("kinds_", np.array([0, 1], dtype=np.int8)),
        ("kinds_", [0, 1, 0]),
        ("means_", np.array([0.0, np.nan, 0.0])),
        ("means_", np.zeros(2)),
        ("encoder_", None),
    ],
)
def test_encoders_that_are_not_whole(name, value, tmp_path, rng):
    X = pd.DataFrame(rng.normal(size=(20, 3)), columns=list("abc")).assign(b=["p", "q"] * 10)
    Y = pd.DataFrame({"yes": (X["a"] > 0) * 1.0, "no": (X["c"] > 0) * 1.0})
    model = PerViewLogistic().fit({"v": X}, {"v": Y})
    save(model, tmp_path / "m")
    setattr(model.transformers_["v"][0], name, value)
    with pytest.raises(TypeError, match="cannot be saved"):
        save(model, tmp_path / "m")
