"""From a view's table to features: transformers made, fitted, used; errors that name the cell."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler

from naim3l.features.encoding import ViewFeatures, accepts_missing, make_transformer
from naim3l.features.kernels import KernelMap
from naim3l._warnings import DataWarning, Table

nan = np.nan


class TestMaking:
    def test_given_transformers_are_cloned(self):
        scaler = StandardScaler()
        made = make_transformer(scaler, "a")
        assert isinstance(made, StandardScaler)
        assert made is not scaler

    def test_one_per_view(self):
        chosen = {"a": None, "b": "scale", "c": StandardScaler()}
        assert make_transformer(chosen, "a") is None
        assert isinstance(make_transformer(chosen, "c"), StandardScaler)
        as_numbers = [ViewFeatures.make(chosen, view).as_numbers for view in "abc"]
        assert as_numbers == [True, True, False]
        with pytest.raises(ValueError, match=r"no entry for view 'd'; it has .*'a', 'b', 'c'"):
            make_transformer(chosen, "d")

    @pytest.mark.parametrize("wrong", ["standard", 3, StandardScaler, [None], object()])
    def test_refused(self, wrong):
        with pytest.raises(
            ValueError, match=r"transformer must be one of .*'histogram', 'paper', 's"
        ):
            make_transformer(wrong, "a")

    @pytest.mark.parametrize(
        ("transformer", "accepts"),
        [
            (None, False),
            ("scale", False),
            (3, False),
            (StandardScaler, False),
            (PCA(), False),
            (Normalizer(), False),
            (SimpleImputer(), True),
            (StandardScaler(), True),
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


class DropFirstRow(TransformerMixin, BaseEstimator):
    """A transformer that breaks its promise to keep the rows."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X[1:]


class TestEncoding:
    def test_features_as_given(self):
        X = np.array([[1.0, 2], [nan, nan], [3, 4]])
        features, present = ViewFeatures(None, as_numbers=True).fit_encode(Table(X, "view 'a'"))
        assert_array_equal(features, X[[0, 2]])
        assert_array_equal(present, [True, False, True])

    def test_fitted_on_the_rows_that_have_the_view_and_never_again(self, rng):
        train, new = rng.normal(size=(20, 3)), rng.normal(size=(5, 3)) + 4
        holes = np.insert(train, [0, 7], nan, axis=0)
        scaler = StandardScaler()
        features, present = ViewFeatures(scaler, as_numbers=False).fit_encode(
            Table(holes, "view 'a'")
        )
        assert_allclose(features, (train - train.mean(axis=0)) / train.std(axis=0))
        assert np.flatnonzero(~present).tolist() == [0, 8]
        features, _ = ViewFeatures(scaler, as_numbers=False).encode(Table(new, "view 'a'"))
        assert_allclose(features, (new - train.mean(axis=0)) / train.std(axis=0))

    def test_text_and_missing_values_reach_a_transformer_that_takes_them(self):
        frame = pd.DataFrame({"kind": ["u", "v", None, "u"], "size": [1.0, nan, nan, 5.0]})
        parts = make_column_transformer(
            (OneHotEncoder(sparse_output=False), ["kind"]), (SimpleImputer(), ["size"])
        )
        features, present = ViewFeatures(parts, as_numbers=False).fit_encode(
            Table(frame, "view 'a'")
        )
        assert present.tolist() == [True, True, False, True]
        assert_array_equal(features, [[1, 0, 1], [0, 1, 3], [1, 0, 5]])

    def test_sparse_and_pandas_output(self, rng):
        X = rng.integers(0, 3, size=(6, 2))
        table = Table(X, "view 'a'")
        encoded, _ = ViewFeatures(OneHotEncoder(), as_numbers=False).fit_encode(table)
        assert sparse.issparse(encoded)
        assert_array_equal(encoded.sum(axis=1), np.full(6, 2))
        named = StandardScaler().set_output(transform="pandas")
        plain, _ = ViewFeatures(StandardScaler(), as_numbers=False).fit_encode(table)
        assert_array_equal(ViewFeatures(named, as_numbers=False).fit_encode(table)[0], plain)

    def test_missing_in_every_row(self):
        table = Table(np.full((3, 2), nan), "view 'a'")
        with pytest.raises(ValueError, match="view 'a': missing in every row"):
            ViewFeatures(None, as_numbers=True).fit_encode(table)
        for as_numbers in (True, False):
            _, present = ViewFeatures(StandardScaler(), as_numbers=as_numbers).encode(table)
            assert not present.any()

    @pytest.mark.parametrize(
        ("transformer", "error"),
        [
            (StandardScaler(), r"view 'a' after its transformer, row 3, column 1: nan"),
            (make_pipeline(StandardScaler(), PCA(1)), "view 'a', row 3, column 'y': missing value"),
            (PCA(1), "view 'a', row 3, column 'y': missing value"),
            (
                make_column_transformer((PCA(1), ["y"])),
                "view 'a', row 3, column 'y': missing value",
            ),
            (make_column_transformer(("drop", ["x"])), "after its transformer: 0 feature"),
            (make_pipeline(SimpleImputer(), DropFirstRow()), "transformer: 2 rows of 3 are left"),
            (make_column_transformer((SimpleImputer(), ["z"])), "view 'a': .*"),
        ],
        ids=lambda value: value[:40] if isinstance(value, str) else "",
    )
    def test_errors_name_view_row_and_column(self, transformer, error):
        frame = pd.DataFrame({"x": [nan, 1.0, 2.0, 3.0], "y": [nan, 1.0, 2.0, nan]})
        with pytest.raises(ValueError, match=error):
            ViewFeatures(clone(transformer), as_numbers=False).fit_encode(Table(frame, "view 'a'"))

    def test_negative_counts_are_named(self):
        X = np.array([[nan, nan], [1, 2], [3, -4]])
        for rows in (X, sparse.csr_array(X), pd.DataFrame(X)):
            recipe = make_transformer("histogram", "a")
            with pytest.raises(ValueError, match="view 'a', row 2, column 1: -4 is negative"):
                ViewFeatures(recipe, as_numbers=True).fit_encode(Table(rows, "view 'a'"))

    def test_negative_counts_are_named_beside_words_and_holes(self):
        frame = pd.DataFrame({"ward": ["u", "v", "u"], "x": [nan, 1, 2], "y": [3.0, 1, -4]})
        parts = make_column_transformer(
            (OneHotEncoder(sparse_output=False), ["ward"]), (SimpleImputer(), ["x", "y"])
        )
        chain = make_pipeline(parts, KernelMap("hellinger"))
        with pytest.raises(ValueError, match="view 'a', row 2, column 'y': -4 is negative"):
            ViewFeatures(chain, as_numbers=False).fit_encode(Table(frame, "view 'a'"))

    def test_columns_that_take_the_digits_of_others_are_named(self, rng):
        year, size = 2000 + rng.normal(size=30), rng.normal(size=30)
        frame = pd.DataFrame({"second": 3e7 * year, "size": size, "one": 1.0})
        message = "view 'a': column 'second' has values around 6e.10, and column 'size' varies by"
        with pytest.warns(DataWarning, match=message):
            ViewFeatures(None, as_numbers=True).fit_encode(Table(frame, "view 'a'"))
        tame = pd.DataFrame({"year": year, "size": size, "one": 1.0})
        ViewFeatures(None, as_numbers=True).fit_encode(
            Table(tame, "view 'a'")
        )  # warnings are errors
        ViewFeatures(None, as_numbers=True).encode(Table(frame, "view 'a'"))  # the fit alone warns


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (np.inf, r"view 'lab', row 7, column 'hb': inf is not a finite number"),
        ("old", r"view 'lab', row 7, column 'hb': 'old' is not a number, as it was at the fit"),
        ("s", r"view 'lab': Cannot use mean strategy"),  # allowed in another column
    ],
)
def test_the_cell_that_a_step_refuses_is_named(rng, cell, message):
    table = pd.DataFrame(rng.normal(size=(20, 2)), columns=["crp", "hb"])
    table["ward"] = ["n", "s"] * 10
    table.loc[3, "crp"] = nan
    steps = make_column_transformer(
        (SimpleImputer(), ["crp", "hb"]), (OneHotEncoder(sparse_output=False), ["ward"])
    )
    ViewFeatures(steps, as_numbers=False).fit_encode(Table(table, "view 'lab'"))
    table["hb"] = table["hb"].astype(float if isinstance(cell, float) else object)
    table.loc[7, "hb"] = cell
    with pytest.raises(ValueError, match=message):
        ViewFeatures(steps, as_numbers=False).encode(Table(table, "view 'lab'"))
