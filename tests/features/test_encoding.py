"""What the parameter features says, and features of views by each of its forms."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler

from naim3l import DataWarning, Kernel, Recipe
from naim3l.features.encoding import NAMES, FeatureSpec, ViewFeatures, accepts_missing, stated_text
from naim3l.features.kernels import KERNELS
from naim3l.features.plan import ViewPlan
from naim3l.features.recipes import RECIPES
from naim3l.features.survey import TableSurvey
from naim3l.input.batches import Batch

nan = np.nan


def fit(features, table, **options):
    """Fitted features of a table, their values, and which rows have the view."""
    spec, batch = FeatureSpec.of(features, "a"), Batch(table, "view 'a'")
    if not spec.has_plan:
        return spec.fit(batch, None, **options)
    plan, used = ViewPlan.of(TableSurvey.of(batch, spec.recipe.text), spec.recipe.keep)
    return spec.fit(batch.select_columns(used), plan, **options)


class TestSpecifications:
    def test_names(self):
        assert FeatureSpec.of("auto", "a") == FeatureSpec(Recipe())
        assert FeatureSpec.of(None, "a") == FeatureSpec()
        for steps in RECIPES:
            assert FeatureSpec.of(steps, "a") == FeatureSpec(Recipe(steps, plan=False))
        for name, comparison in KERNELS.items():
            before = Recipe(None) if comparison.histograms else Recipe()
            assert FeatureSpec.of(name, "a") == FeatureSpec(before, Kernel(name))
        assert set(NAMES) == {"auto", *RECIPES, *KERNELS}

    def test_one_per_view(self):
        scaler = StandardScaler()
        chosen = {"a": None, "b": Kernel(recipe="paper"), "c": scaler, "d": Kernel(recipe=scaler)}
        assert FeatureSpec.of(chosen, "a") == FeatureSpec()
        assert FeatureSpec.of(chosen, "b").recipe == Recipe("paper", plan=False)
        own = FeatureSpec.of(chosen, "c").transformer
        assert isinstance(own, StandardScaler) and own is not scaler
        assert FeatureSpec.of(chosen, "d").kernel == chosen["d"]
        with pytest.raises(ValueError, match=r"features: no entry for view 'e'; it has \['a', 'b'"):
            FeatureSpec.of(chosen, "e")

    @pytest.mark.parametrize(
        ("wrong", "error"),
        [
            ("standard", "features must be one of .*'auto', .*got 'standard' for view 'a'"),
            (3, "got 3 for view 'a'"),
            (StandardScaler, "an object, not its class"),
            (Kernel(recipe="standard"), "got 'standard'"),
            (Recipe("best"), "'steps' parameter of Recipe must be a str among .*or None"),
            (Recipe(n_components=0), r"'n_components' .* in the range \[1, inf\) or None. Got 0"),
            (Recipe(n_components=2.5), "Got 2.5"),
            (Recipe(text="ward"), "'text' parameter of Recipe must be .*Got 'ward'"),
            (Recipe(keep=[3]), "Recipe: text, keep and shared must list names of columns"),
            (Kernel("poly"), "'name' parameter of Kernel must be .*or a callable. Got 'poly'"),
            (Kernel(n_landmarks=0), r"'n_landmarks' .* an int in the range \[1, inf\) or None"),
            (Kernel(gamma=0), r"'gamma' .* among {'auto'} or a float in the range \[1e-100, 1e"),
            (Kernel(gamma="scale"), "Got 'scale'"),
            (Kernel(gamma=np.array([1, 2])), "'gamma' parameter of Kernel must be"),
            (Kernel(landmarks="best"), "'landmarks' parameter of Kernel must be a str among"),
        ],
        ids=str,
    )
    def test_refused(self, wrong, error):
        with pytest.raises(ValueError, match=error):
            FeatureSpec.of(wrong, "a")

    def test_text_that_is_stated(self):
        assert stated_text("auto") == stated_text(StandardScaler()) == set()
        chosen = {"a": Recipe(text=["zip"]), "b": Kernel(recipe=Recipe(text=["ward"])), "c": None}
        assert stated_text(chosen) == {"zip", "ward"} and stated_text(chosen["a"]) == {"zip"}

    def test_most_features_before_the_fit(self):
        assert FeatureSpec.of(None, "a").most_features(70) == 70
        assert FeatureSpec.of("paper", "a").most_features(70) == 50
        assert FeatureSpec.of(Kernel(n_landmarks=9), "a").most_features(70) == 9
        assert FeatureSpec.of(Recipe(None), "a").most_features(2) >= 2 * 30
        assert FeatureSpec.of(Recipe(n_components=None), "a").most_features(70) >= 70

    @pytest.mark.parametrize(
        ("transformer", "accepts"),
        [
            (None, False),
            ("scale", False),
            (StandardScaler, False),
            (PCA(), False),
            (Normalizer(), False),
            (SimpleImputer(), True),
            (FunctionTransformer(np.nan_to_num), True),
            (make_pipeline(SimpleImputer(), PCA()), True),
            (make_pipeline("passthrough", SimpleImputer()), True),
            (make_pipeline(PCA(), SimpleImputer()), False),
            (make_union(SimpleImputer(), "passthrough"), True),
            (make_union(SimpleImputer(), PCA()), False),
            (make_column_transformer((SimpleImputer(), [0]), (PCA(), [1, 2])), True),
        ],
        ids=lambda value: str(value).replace("\n", "")[:40],
    )
    def test_which_transformers_may_be_given_nan(self, transformer, accepts):
        assert accepts_missing(transformer) == accepts


class TestOwnFeatures:
    def test_columns_as_they_are(self):
        X = np.array([[1.0, 2], [nan, nan], [3, 4]])
        fitted, features, present = fit(None, X)
        assert_array_equal(features, X[[0, 2]])
        assert_array_equal(present, [True, False, True])
        assert fitted.n_features(2) == 2

    def test_steps_follow_each_other(self, rng):
        """Plan, recipe and kernel: features are those of the kernel of the recipe of the plan."""
        table = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("xyz")).assign(
            w=["u", "v"] * 20
        )
        table.loc[3, "x"] = nan
        fitted, features, _ = fit(Kernel(n_landmarks=10), table)
        by_hand = fitted.kernel.apply(fitted.recipe.apply(fitted.plan.encode(Batch(table, "X"))[0]))
        assert_allclose(features, by_hand)
        assert_allclose(fitted.encode(Batch(table, "X"))[0], by_hand)
        assert fitted.n_features(4) == features.shape[1]
        other = fitted.with_gamma(3.0)
        assert other.kernel.gamma == 3.0 and other.recipe is fitted.recipe
        with pytest.raises(ValueError, match="a step for 5 columns follows one that gives"):
            ViewFeatures(recipe=fitted.recipe, kernel=fitted.kernel).n_features(3)

    def test_rows_of_chunks_have_the_features_of_all_rows(self, rng):
        """Moments and a sample that is all rows give what the rows give."""
        table = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("xyz"))
        for features in ("auto", "paper", None, Kernel(n_landmarks=9), "linear", StandardScaler()):
            spec = FeatureSpec.of(features, "a")
            whole, expected, _ = fit(features, table)
            moments = None
            for part in (table[:20], table[20:]):
                found, present = spec.moments(Batch(part, "view 'a'"), whole.plan)
                assert present.all() and (found is None) == (not spec.learns_from_moments)
                moments = found if moments is None else moments.combine(found)
            sample = Batch(table, "view 'a'") if spec.learns_from_rows else None
            fitted = spec.fit_chunks("view 'a'", whole.plan, moments, sample)
            assert_allclose(fitted.encode(Batch(table, "X"))[0], expected, atol=1e-9)

    @pytest.mark.parametrize("free_text", [False, True])
    def test_rows_in_blocks_have_the_features_of_all_rows(self, rng, monkeypatch, free_text):
        n = 300
        table = pd.DataFrame(
            {
                "x": rng.normal(size=n),
                "amount": rng.lognormal(0, 3, size=n),
                "sex": rng.choice(["f", "m", None], size=n),
                "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, n), "D"),
            }
        )
        table.loc[::7, ["x", "amount"]] = nan
        if free_text:
            words = rng.choice(["fever", "cough", "pain", "rash", "none"], size=(n, 4))
            table["note"] = [" ".join(of_row) + f" {i}" for i, of_row in enumerate(words)]
        batch = Batch(table, "view 'a'")
        text = ["note"] * free_text
        plan, _ = ViewPlan.of(TableSurvey.of(batch, text), text=text)
        assert (plan.free_text_of_encoded() is not None) == free_text
        fitted, _, _ = FeatureSpec.of("auto", "a").fit(batch, plan)
        rows, whole = fitted.rows(batch)[0], fitted.encode(batch)[0]
        monkeypatch.setattr("naim3l.features.plan.BLOCK_NUMBERS", 1)
        assert_allclose(fitted.encode(batch)[0], whole, atol=1e-12)
        moments, present = FeatureSpec.of("auto", "a").moments(batch, plan)
        assert present.all() and moments.n_rows == n
        rows = rows.toarray() if free_text else rows
        assert_allclose(moments.mean, rows.mean(axis=0), atol=1e-9)
        assert_allclose(moments.scatter / n, np.cov(rows.T, bias=True), rtol=1e-9, atol=1e-9)

    def test_missing_in_every_row(self):
        table = np.full((3, 2), nan)
        with pytest.raises(ValueError, match="view 'a': missing in every row"):
            fit(None, table)
        for fitted in (ViewFeatures(), ViewFeatures(transformer=StandardScaler())):
            rows, present = fitted.encode(Batch(table, "view 'a'"))
            assert len(rows) == 0 and not present.any()

    @pytest.mark.parametrize("features", ["histogram", "hellinger", "chi2", Recipe("histogram")])
    def test_negative_counts_are_named(self, features):
        X = np.array([[nan, nan], [1, 2], [3, -4], [5, 5]])
        with pytest.raises(ValueError, match="view 'a', row 2, column 1: -4 is negative"):
            fit(features, X)
        fitted, _, _ = fit(features, np.abs(X))
        with pytest.raises(ValueError, match="view 'a', row 2, column 1: -4 is negative"):
            fitted.encode(Batch(X, "view 'a'"))

    def test_errors_of_recipes_and_kernels_name_the_view(self):
        with pytest.raises(ValueError, match=r"^view 'a': every column is constant in all rows"):
            fit("scale", np.ones((3, 2)))
        with pytest.raises(ValueError, match=r"^view 'a': kernel: a matrix of finite numbers"):
            fit(Kernel(lambda A, B: A, recipe=None), np.arange(8.0).reshape(4, 2))

    def test_scales_that_lose_digits_are_warned_of_in_the_fit_alone(self, rng):
        X = np.column_stack([1e9 + rng.normal(size=30), rng.normal(size=30)])
        with pytest.warns(DataWarning, match="view 'a': column 0 has values around 1e"):
            fitted, _, _ = fit(None, X)
        fitted.encode(Batch(X, "view 'a'"))
        fit("scale", X)


class DropFirstRow(TransformerMixin, BaseEstimator):
    """A transformer that breaks its promise to keep the rows."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X[1:]


class TestTransformersOfTheUser:
    def test_fitted_on_the_rows_that_have_the_view_and_never_again(self, rng):
        train, new = rng.normal(size=(20, 3)), rng.normal(size=(5, 3)) + 4
        fitted, features, present = fit(StandardScaler(), np.insert(train, [0, 7], nan, axis=0))
        assert_allclose(features, (train - train.mean(axis=0)) / train.std(axis=0))
        assert np.flatnonzero(~present).tolist() == [0, 8]
        found, _ = fitted.encode(Batch(new, "view 'a'"))
        assert_allclose(found, (new - train.mean(axis=0)) / train.std(axis=0))
        assert fitted.n_features(3) is None

    def test_text_and_missing_values_reach_a_transformer_that_takes_them(self):
        table = pd.DataFrame({"kind": ["u", "v", None, "u"], "size": [1.0, nan, nan, 5.0]})
        parts = make_column_transformer(
            (OneHotEncoder(sparse_output=False), ["kind"]), (SimpleImputer(), ["size"])
        )
        _, features, present = fit(parts, table)
        assert present.tolist() == [True, True, False, True]
        assert_array_equal(features, [[1, 0, 1], [0, 1, 3], [1, 0, 5]])

    def test_sparse_and_pandas_output_and_a_kernel_after_it(self, rng):
        X = rng.integers(0, 3, size=(6, 2))
        _, features, _ = fit(OneHotEncoder(), X)
        assert sparse.issparse(features)
        assert_array_equal(features.sum(axis=1), np.full(6, 2))
        named = StandardScaler().set_output(transform="pandas")
        _, plain, _ = fit(StandardScaler(), X)
        assert_array_equal(fit(named, X)[1], plain)
        _, kernel, _ = fit(Kernel("linear", None, recipe=StandardScaler()), X)
        assert_allclose(kernel @ kernel.T, plain @ plain.T, atol=1e-9)

    @pytest.mark.parametrize(
        ("transformer", "error"),
        [
            (StandardScaler(), r"view 'a' after its transformer, row 3, column 1: nan"),
            (make_pipeline(StandardScaler(), PCA(1)), "view 'a', row 3, column 'y': missing value"),
            (PCA(1), "view 'a', row 3, column 'y': missing value"),
            (make_column_transformer((PCA(1), ["y"])), "view 'a', row 3, column 'y': missing val"),
            (make_column_transformer(("drop", ["x"])), "after its transformer: 0 feature"),
            (make_pipeline(SimpleImputer(), DropFirstRow()), "transformer: 2 rows of 3 are left"),
            (make_column_transformer((SimpleImputer(), ["z"])), "view 'a': .*"),
            (make_pipeline(SimpleImputer(), SelectKBest(k=1)), "view 'a': Pipeline needs labels"),
        ],
        ids=lambda value: value[:40] if isinstance(value, str) else "",
    )
    def test_errors_name_view_row_and_column(self, transformer, error):
        table = pd.DataFrame({"x": [nan, 1.0, 2.0, 3.0], "y": [nan, 1.0, 2.0, nan]})
        with warnings.catch_warnings(), pytest.raises(ValueError, match=error):
            warnings.simplefilter("ignore")
            fit(clone(transformer), table)

    @pytest.mark.parametrize(
        ("cell", "message"),
        [
            (np.inf, r"view 'lab', row 7, column 'hb': inf is not a finite number"),
            ("old", r"view 'lab', row 7, column 'hb': 'old' is not a number, as it was at the fit"),
            ("s", r"view 'lab': Cannot use mean strategy"),  # allowed in another column
        ],
    )
    def test_the_cell_that_a_step_refuses_is_named(self, rng, cell, message):
        table = pd.DataFrame(rng.normal(size=(20, 2)), columns=["crp", "hb"])
        table["ward"] = ["n", "s"] * 10
        table.loc[3, "crp"] = nan
        steps = make_column_transformer(
            (SimpleImputer(), ["crp", "hb"]), (OneHotEncoder(sparse_output=False), ["ward"])
        )
        fitted, _, _ = fit(steps, table)
        table["hb"] = table["hb"].astype(float if isinstance(cell, float) else object)
        table.loc[7, "hb"] = cell
        with pytest.raises(ValueError, match=message):
            fitted.encode(Batch(table, "view 'lab'"))
