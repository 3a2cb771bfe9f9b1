"""What is saved comes back; what a file holds can be told without making it."""

import importlib
import inspect
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection

import naim3l
from model_files import (
    FEW,
    assert_refused,
    assert_same,
    attributes,
    leaf,
    mapping,
    named,
    plant_attributes,
    rewrite,
)
from naim3l import NAIM3L, NAIM3LCV, ModelFileError, join_views, load
from naim3l.datasets import make_unpaired
from naim3l.estimators import PerViewRidge
from naim3l.estimators.aligned import AlignedModel, ConcatenatedModel
from naim3l.estimators.base import ViewModel
from naim3l.estimators.compared import ComparedModel
from naim3l.estimators.kernel_model import KernelModel
from naim3l.estimators.linear import LinearViewModel, PerViewModel
from naim3l.estimators.prediction import ViewPredictor
from naim3l.files.models import ALLOWED, MODELS, archive, inspect_file, save

MODELS_TO_SAVE = {
    "NAIM3L": NAIM3L(**FEW),
    "NAIM3LCV": NAIM3LCV((0.1, 1.0), (1.0,), cv=2, **FEW),
    "PerViewRidge": PerViewRidge(2.0),
}

TRANSFORMERS = [
    StandardScaler().set_output(transform="pandas"),
    make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()),
    make_union(PCA(1), MinMaxScaler()),
    ColumnTransformer([("scaled", StandardScaler(), make_column_selector("a"))]),
    ColumnTransformer(
        [("numbers", RobustScaler(), make_column_selector(dtype_include=np.number))],
        remainder="passthrough",
    ),
    FunctionTransformer(np.log1p),
    FunctionTransformer(np.sqrt),
    Binarizer(threshold=0.5),
    GaussianRandomProjection(2, random_state=0),
    IncrementalPCA(2),
    KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"),
    MaxAbsScaler(),
    Normalizer(),
    Nystroem(n_components=5, random_state=0),
    OrdinalEncoder(),
    PowerTransformer(),
    QuantileTransformer(n_quantiles=10),
    RBFSampler(n_components=5, random_state=0),
    TfidfTransformer(),
    TruncatedSVD(2),
    VarianceThreshold(),
]


class Shift(TransformerMixin, BaseEstimator):
    """A transformer that no list knows."""

    def fit(self, X, y=None):
        self.shift_ = X.min(axis=0)
        return self

    def transform(self, X):
        return X - self.shift_


class TestRoundTrip:
    @pytest.mark.parametrize("model", MODELS_TO_SAVE.values(), ids=MODELS_TO_SAVE)
    def test_apart(self, model, apart, tmp_path):
        X, Y = apart
        fitted = clone(model).fit(X, Y)
        assert fitted.save(tmp_path / "m") is None and list(tmp_path.iterdir()) == [tmp_path / "m"]
        copy = load(str(tmp_path / "m"))
        assert type(copy) is type(fitted) and vars(copy).keys() == vars(fitted).keys()
        assert copy.get_params() == fitted.get_params()
        assert_same(copy, fitted, X)
        for name in ("views_", "label_names_", "n_features_in_", "history_", "n_iter_", "lam_"):
            assert getattr(copy, name, None) == getattr(fitted, name, None)
        copy.fit(X, Y)
        assert_same(copy, fitted, X)

    @pytest.mark.parametrize("model", MODELS_TO_SAVE.values(), ids=MODELS_TO_SAVE)
    def test_wide_with_names_and_pandas_output(self, model, tmp_path):
        data = make_unpaired(
            40, n_features=(4, 3), n_labels=3, n_latent=3, aligned=True, random_state=1
        )
        table, views = join_views(data.views)
        table = pd.DataFrame(table, columns=[f"c{j}" for j in range(7)])
        labels = pd.DataFrame(data.complete_labels["view0"], columns=["flu", "asthma", "gout"])
        model = clone(model).set_params(views=views)
        model.fit(table, labels).set_output(transform="pandas")
        save(model, tmp_path / "m")
        copy = load(tmp_path / "m")
        pd.testing.assert_frame_equal(copy.predict(table), model.predict(table))
        assert list(copy.decision_function(table)) == ["flu", "asthma", "gout"]
        np.testing.assert_array_equal(copy.feature_names_in_, table.columns)
        with pytest.raises(ValueError, match="feature names"):
            copy.predict(table.rename(columns={"c0": "other"}))

    @pytest.mark.parametrize("library", [None, "pandas", "polars"])
    @pytest.mark.parametrize("recipe", ["scale", "paper", "histogram", None])
    def test_every_recipe(self, apart, recipe, library, tmp_path):
        X, Y = apart
        if library:
            frame = importlib.import_module(library).DataFrame
            X = {view: frame({f"é{j}": c for j, c in enumerate(x.T)}) for view, x in X.items()}
        model = PerViewRidge(transformer=recipe).fit(X, Y)
        save(model, tmp_path / "m")
        assert_same(load(tmp_path / "m"), model, X)

    @pytest.mark.parametrize(
        "columns",
        [[0, 2], (0, 2), {0, 2}, frozenset([0, 2]), range(2), slice(0, 3, 2),
         np.array([True, False, True]), np.array([0, 2])],
        ids=lambda columns: type(columns).__name__,
    )  # fmt: skip
    def test_every_way_to_name_columns(self, columns, rng, tmp_path):
        X, Y = rng.normal(size=(20, 3)), rng.integers(0, 2, (20, 2))
        model = PerViewRidge(views={"view": columns}, transformer=None).fit(X, Y)
        save(model, tmp_path / "m")
        assert_same(load(tmp_path / "m"), model, X)

    @pytest.mark.parametrize("transformer", TRANSFORMERS, ids=lambda t: type(t).__name__)
    def test_transformers_of_numbers(self, transformer, rng, tmp_path):
        X = pd.DataFrame(rng.random((20, 3)), columns=["a", "b", "aa"])
        model = PerViewRidge(transformer=transformer).fit(
            {"v": X}, {"v": X[["b"]].to_numpy() > 0.5}
        )
        save(model, tmp_path / "m")
        assert_same(load(tmp_path / "m"), model, {"v": X})

    def test_transformers_of_text(self, tmp_path):
        X = pd.DataFrame({"note": ["red car", "blue car", "red boat", "tree"] * 5,
                          "kind": ["u", "v", "u", "w"] * 5})  # fmt: skip
        transformer = ColumnTransformer(
            [("words", TfidfVectorizer(), "note"), ("kind", OneHotEncoder(), ["kind"])]
        )
        model = PerViewRidge(transformer={"v": transformer})
        model.fit({"v": X}, {"v": np.array([[1], [0]] * 10)})
        save(model, tmp_path / "m")
        assert_same(load(tmp_path / "m"), model, {"v": X})

    def test_checkpoints_are_not_kept(self, apart, tmp_path):
        """A file that names a path must not have the next fit write there."""
        path = tmp_path / "fit.checkpoint"
        model = NAIM3L(**FEW, checkpoint=path).fit(*apart)
        model.save(tmp_path / "m")
        assert model.checkpoint == path and load(tmp_path / "m").checkpoint is None
        planted = {"checkpoint": leaf(str(path))}
        rewrite(tmp_path / "m", lambda tree: plant_attributes(tree, planted),
                facts=lambda told: told["parameters"].update(checkpoint=str(path)))  # fmt: skip
        load(tmp_path / "m").fit(*apart)
        assert not path.exists()

    def test_equal_models_make_equal_files(self, apart, saved, tmp_path):
        save(NAIM3L(**FEW).fit(*apart), tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == saved.read_bytes()

    def test_skops_reads_the_file_too(self, model, saved, apart):
        assert_same(skops.io.load(saved, trusted=sorted(ALLOWED)), model, apart[0])


class TestSave:
    def test_refuses_what_is_not_fitted(self, tmp_path):
        with pytest.raises(NotFittedError):
            NAIM3L().save(tmp_path / "m")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("thing", [NAIM3L, StandardScaler(), None, {"coef_": 1}])
    def test_refuses_what_is_not_ours(self, thing, tmp_path):
        with pytest.raises(
            TypeError, match=r"only naim3l.estimators.naim3l.NAIM3L, .* can be saved, got"
        ):
            save(thing, tmp_path / "m")

    @pytest.mark.parametrize(
        ("parameters", "reason"),
        [
            ({"transformer": FunctionTransformer(lambda x: x)}, "transformer: .*lambda"),
            ({"kernel": lambda A, B: A @ B.T}, "kernel: .*lambda"),
            ({"views": {"v": pd.Index(["a"])}}, "saved: views: "),
            ({"transformer": FunctionTransformer(kw_args={True: 1})}, "True or False"),
        ],
        ids=["lambda", "kernel", "index", "bool keys"],
    )
    def test_what_cannot_be_read_back_is_not_written(self, parameters, reason, rng, tmp_path):
        X = pd.DataFrame(rng.random((10, 2)), columns=["a", "b"])
        model = PerViewRidge().fit(X, X[["b"]].to_numpy() > 0.5).set_params(**parameters)
        (tmp_path / "m").write_text("old")
        with pytest.raises(TypeError, match=reason):
            save(model, tmp_path / "m")
        assert (tmp_path / "m").read_text() == "old" and len(list(tmp_path.iterdir())) == 1

    def test_an_error_while_writing_leaves_the_old_file(self, model, tmp_path, monkeypatch):
        save(model, tmp_path / "m")
        before = (tmp_path / "m").read_bytes()
        monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk")))
        with pytest.raises(OSError, match="disk"):
            save(model, tmp_path / "m")
        assert (tmp_path / "m").read_bytes() == before and len(list(tmp_path.iterdir())) == 1

    def test_import_stays_light(self):
        code = "import sys, naim3l; print('skops' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout.strip() == "False"


def test_parameters_newer_than_a_file_have_their_defaults(model, tmp_path):
    """As those that a later version adds."""
    model.save(tmp_path / "m")

    def lose_parameter(tree):
        position = list(attributes(tree)).index("n_components")
        del attributes(tree)["n_components"], tree["content"]["key_types"]["content"][position]

    rewrite(tmp_path / "m", lose_parameter, lambda told: told["parameters"].pop("n_components"))
    assert load(tmp_path / "m").n_components == type(model)().n_components


class TestList:
    @pytest.mark.torch
    def test_has_every_model_and_transformer_of_this_package(self):
        importlib.import_module("naim3l.deep")
        kinds, ours = [ViewPredictor], set()
        while kinds:
            kinds += kinds.pop().__subclasses__()
            ours |= {f"{kind.__module__}.{kind.__name__}" for kind in kinds}
        bases = (
            AlignedModel, ComparedModel, ConcatenatedModel, KernelModel, LinearViewModel,
            PerViewModel, ViewModel,
        )  # fmt: skip
        ours -= {f"{base.__module__}.{base.__name__}" for base in bases}
        transform = importlib.import_module("naim3l.features.recipes")
        parts = {f"{kind.__module__}.{name}" for name, kind in inspect.getmembers(transform)
                 if inspect.isclass(kind) and issubclass(kind, BaseEstimator)}  # fmt: skip
        assert {name for name in ours if name.startswith("naim3l.")} == set(MODELS) <= ALLOWED
        assert {name for name in parts if name.startswith("naim3l.")} <= ALLOWED

    @pytest.mark.parametrize("name", sorted(ALLOWED))
    def test_names_types_that_exist(self, name):
        module, _, kind = name.rpartition(".")
        if module.startswith("naim3l.deep."):
            pytest.importorskip("torch", reason="this model needs torch")
        assert isinstance(getattr(importlib.import_module(module), kind), type)

    def test_other_types_are_listed_and_made_only_on_demand(self, apart, tmp_path):
        X, Y = apart
        model = PerViewRidge(transformer=make_pipeline(Shift(), StandardScaler())).fit(X, Y)
        save(model, tmp_path / "m")
        name = f"{__name__}.Shift"
        assert_refused(tmp_path / "m", rf"not known to be harmless: .*trusted=\['{name}'\]")
        for trusted in ([name], (Shift,), {name, "no.such.type"}):
            assert_same(load(tmp_path / "m", trusted=trusted), model, X)
        with pytest.raises(TypeError, match="trusted must be a list"):
            load(tmp_path / "m", trusted=name)
        told = inspect_file(tmp_path / "m")
        assert told["other_types"] == [name]
        assert "naim3l.estimators.ridge.PerViewRidge" in told["allowed_types"]


class TestInspect:
    def test_tells_what_the_model_is(self, model, saved):
        told = inspect_file(saved)
        content = saved.read_bytes()
        assert told["path"] == str(saved) and told["size"] == len(content)
        assert told["sha256"] == archive.sha256(content)
        assert (told["format"], told["format_version"]) == ("naim3l model", 1)
        assert told["versions"]["naim3l"] == naim3l.__version__
        assert told["class"] == "naim3l.estimators.naim3l.NAIM3L" and told["form"] == "apart"
        assert told["label_names"] == model.label_names_
        assert told["views"] == {
            view: {"columns": n, "weights": model.coef_[view].shape[0]}
            for view, n in model.n_features_in_.items()
        }
        assert (told["lam"], told["ridge"], told["n_iter"]) == (0.4, 0.0, 5)
        assert told["converged"] is model.converged_ and told["other_types"] == []
        assert told["parameters"] == model.get_params()

    def test_tells_the_chosen_parameters(self, apart, tmp_path):
        model = clone(MODELS_TO_SAVE["NAIM3LCV"]).fit(*apart)
        model.set_params(transformer=StandardScaler(), lams=np.array([0.1, 1.0]))
        save(model, tmp_path / "m")
        told = inspect_file(tmp_path / "m")
        assert (told["lam"], told["ridge"]) == (model.lam_, model.ridge_)
        assert told["parameters"]["lams"] == [0.1, 1.0] and told["parameters"]["ridges"] == [1.0]
        assert told["parameters"]["transformer"].endswith(".StandardScaler")

    def test_makes_nothing(self, forge, tmp_path, monkeypatch):
        (tmp_path / "surprise.py").write_text("open('imported', 'w')\nclass Thing: pass\n")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.chdir(tmp_path)
        thing = named("surprise.Thing", "ObjectNode", content=mapping({}))
        path = forge(lambda tree: plant_attributes(tree, {"history_": thing}))
        assert inspect_file(path)["other_types"] == ["surprise.Thing"]
        assert_refused(path, "surprise.Thing")
        assert not (tmp_path / "imported").exists() and "surprise" not in sys.modules

    def test_refuses_what_load_refuses(self, tmp_path):
        (tmp_path / "m").write_text("nothing")
        with pytest.raises(ModelFileError, match="not a model file"):
            inspect_file(tmp_path / "m")
