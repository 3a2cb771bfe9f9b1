"""Cells of all kinds as numbers, and the kinds themselves, by their definitions."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.impute import SimpleImputer

from naim3l.features.cell_encoder import MOST_CATEGORIES, CellEncoder
from naim3l.features.column_kinds import KINDS, TEXT
from naim3l.features.survey import TableSurvey
from naim3l.input.tables import Table

nan = np.nan
DAY = datetime.date(1970, 1, 3)


def kinds(frame, text=()):
    survey = TableSurvey.of(Table(frame, "view 'a'"), text=text)
    return [KINDS[kind] for kind in survey.find_kinds().values()]


def one(cells, dtype=object):
    return pd.DataFrame({"y": pd.Series(cells, dtype=dtype)})


@pytest.fixture
def frame():
    return pd.DataFrame({
        "age": [61.0, nan, 35.0, 40.0, 52.0, 58.0, 33.0],
        "ward": ["A", "B", "A", "B", "A", "B", None],
        "seen": pd.to_datetime(["1970-01-03", "1970-01-05", None] + ["1970-01-02"] * 4),
        "smokes": [True, False, True, True, False, False, True],
    })  # fmt: skip


class TestKinds:
    def test_by_type(self, frame):
        expected = ["number", "text", "date", "boolean"]
        assert kinds(frame) == kinds(pl.from_pandas(frame)) == expected
        assert kinds(pa.Table.from_pandas(frame)) == expected
        assert kinds(np.ones((2, 2))) == ["number"] * 2
        assert kinds(np.ones((2, 1), dtype=bool)) == ["boolean"]
        assert kinds(one(["1", "2"], "category")) == ["text"]
        assert kinds(one([1, None], "Int64")) == kinds(one([0.0, 1], "Sparse[float]")) == ["number"]

    @pytest.mark.parametrize(
        ("cells", "kind"),
        [
            ([1, 2.5, Decimal(3), None], "number"),
            ([None, nan], "number"),
            ([True, None, False], "boolean"),
            (["a", "b", None, 3], "text"),
            ([DAY, None], "date"),
            (["1970-01-03", "?", None], "date"),
        ],
    )
    def test_by_cells(self, cells, kind):
        assert kinds(one(cells)) == [kind]

    def test_text_may_be_stated(self):
        assert kinds(one(["1", "2"]), text=["y"]) == ["text"]

    @pytest.mark.parametrize(
        ("cells", "error"),
        [
            (
                ["1", "?", "2"],
                r"row 1, column 'y': '\?' is text, .*replace\('\?', np",
            ),
            (["?", "?", "2,5", None], r"row 0, column 'y': '\?' is text, though 1 of 3 cells"),
            ([1.0, "-", 3], r"row 1, column 'y': '-' is text, though 2 of 3"),
            ([True, "?"], r"row 1, column 'y': '\?' is text, though 1 of 2"),
            ([1.0, "x", 3], r"row 1, column 'y': 'x' is text, though 2 of 3"),
            (["7", "8"], r"row 0, column 'y': '7' is text.*with table\['y'\]\.astype\(float\); if"),
            (["1/2/2024", "3/4/2024"], r"row 0, .*'1/2/2024' cannot be read as a date: the order"),
            (["1.2.10", "1.3.11"], r"row 0, .*the order .*use table\['y'\].astype\(\"category"),
            (["2024-02-28", "2024-02-30"], r"row 1, .*'2024-02-30' .*there is no such day"),
        ],
    )
    def test_columns_that_one_would_misread(self, cells, error):
        with pytest.raises(ValueError, match=f"view 'a', {error}"):
            kinds(one(cells))
        if all(isinstance(cell, str | None) for cell in cells):
            with pytest.raises(ValueError, match=f"view 'a', {error}"):
                kinds(pl.DataFrame({"y": cells}))

    @pytest.mark.parametrize("cells", [["a", [1]], [{}, None], ["a", DAY], [b"a", b"b"]])
    def test_other_objects(self, cells):
        with pytest.raises(TypeError, match=r"view 'a', row \d, column 'y': .* is not a number"):
            kinds(one(cells))

    def test_words_for_missing_alone_are_text_without_values(self):
        encoder = CellEncoder().fit(one(["?", "n/a", None, "?"]))
        assert encoder.kinds_.tolist() == [TEXT] and encoder.missing_.tolist() == [1.0]


class TestNumbers:
    def test_numbers_first_then_words(self, frame):
        features = CellEncoder().fit_transform(frame)
        mean = frame["age"].mean()
        assert_allclose(features[:, 0], frame["age"].fillna(mean))
        assert_allclose(features[:, 1], [2, 4, 10 / 6, 1, 1, 1, 1])
        assert_array_equal(features[:, 2], frame["smokes"])
        assert_array_equal(features[:, 3:].T, [frame["ward"] == "A", frame["ward"] == "B",
                                               frame["ward"].isna()])  # fmt: skip

    def test_all_libraries_agree(self, frame):
        encoder = CellEncoder().fit(frame)
        expected = encoder.transform(frame)
        for other in (pl.from_pandas(frame), pa.Table.from_pandas(frame)):
            assert_array_equal(encoder.transform(other), expected)
            assert_array_equal(CellEncoder().fit_transform(other), expected)

    @pytest.mark.parametrize("build", [np.asarray, sparse.csr_array, pd.DataFrame])
    def test_means_are_those_of_scikit_learn(self, rng, build):
        X = rng.normal(size=(20, 4)) * (rng.random((20, 4)) < 0.6)
        X[rng.random((20, 4)) < 0.2] = nan
        encoder = CellEncoder().fit(build(X))
        assert_allclose(encoder.means_, SimpleImputer().fit(X).statistics_)
        features = encoder.transform(build(X))
        dense = features.toarray() if sparse.issparse(features) else features
        assert_allclose(dense, SimpleImputer().fit_transform(X))
        assert_allclose(encoder.missing_, np.isnan(X).mean(axis=0))

    def test_whole_numbers_stay_as_they_are(self, rng):
        X = rng.normal(size=(5, 3))
        assert_array_equal(CellEncoder().fit_transform(X), X)

    def test_an_empty_column_is_zero(self):
        features = CellEncoder().fit_transform(np.array([[1.0, nan], [2.0, nan]]))
        assert_array_equal(features, [[1, 0], [2, 0]])

    @pytest.mark.parametrize(
        ("cell", "error"),
        [(np.inf, "row 1, column 'y': inf is not a finite"), (1e150, "row 1, .* too large")],
    )
    def test_numbers_that_are_refused(self, cell, error):
        with pytest.raises(ValueError, match=error):
            CellEncoder().fit(one([nan, cell, 1.0], float))

    def test_numbers_whose_squares_vanish(self):
        with pytest.raises(ValueError, match="column 'y': its largest value is 1e-200"):
            CellEncoder().fit(pd.DataFrame({"x": ["a", "a"], "y": [1e-200, nan]}))


class TestWords:
    def test_rare_and_unseen_words_share_a_column(self):
        words = ["a"] * 5 + ["b"] * 4 + ["c", "d"]
        encoder = CellEncoder().fit(one(words))
        assert list(encoder.get_feature_names_out()) == ["y_a", "y_b", "y_other values"]
        assert encoder.n_values() == {0: (2, 2)}
        new = encoder.transform(one(["b", "c", "never", None]))
        assert_array_equal(new, [[0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]])

    def test_the_most_frequent_are_kept(self):
        words = [f"w{i}" for i in range(50) for _ in range(3 + i)]
        encoder = CellEncoder().fit(one(words))
        names = encoder.get_feature_names_out()
        assert len(names) == MOST_CATEGORIES + 1
        assert set(names[:-1]) == {f"y_w{i}" for i in range(50 - MOST_CATEGORIES, 50)}

    def test_missing_words_are_a_value_however_they_are_written(self):
        encoder = CellEncoder().fit(one(["a", "?", None, "Unknown", "a", "a"]))
        assert list(encoder.get_feature_names_out()) == ["y_a", "y_missing"]
        assert encoder.missing_ == [0.5]

    def test_names_are_distinct(self):
        frame = pd.DataFrame({"y_a": [1.0] * 3, "y": ["a"] * 3, "y_a_": [2.0] * 3})
        assert list(CellEncoder().fit(frame).get_feature_names_out()) == ["y_a", "y_a_", "y_a__"]
        names = CellEncoder().fit(np.ones((2, 2))).get_feature_names_out(["p", "q"])
        assert list(names) == ["p", "q"]

    def test_codes_are_the_same_words_as_numbers_and_as_text(self):
        encoder = CellEncoder().fit(one([1.0, 2, 1, 2, 1, 2], "category"))
        assert list(encoder.get_feature_names_out()) == ["y_1", "y_2"]
        assert_array_equal(encoder.transform(one(["2", "1"])), [[0, 1], [1, 0]])


class TestNewRows:
    def test_text_in_a_column_of_numbers_is_named(self, frame):
        encoder = CellEncoder().fit(frame)
        new = frame.astype({"age": object})
        new.loc[4, "age"] = "old"
        part = Table(new, "view 'a'").part(np.arange(7) > 1)
        with pytest.raises(ValueError, match="view 'a', row 4, column 'age': 'old' is not a num"):
            encoder.transform(part)

    def test_a_number_in_a_column_of_dates_is_named(self, frame):
        encoder = CellEncoder().fit(frame)
        with pytest.raises(ValueError, match="X, row 0, column 'seen': 3 is not a date"):
            encoder.transform(frame.assign(seen=3))
        texts = frame.assign(seen=frame["seen"].dt.strftime("%Y-%m-%d"))
        assert_array_equal(encoder.transform(texts), encoder.transform(frame))

    def test_another_number_of_columns(self, frame):
        with pytest.raises(ValueError, match="3 columns, but 4 at the fit"):
            CellEncoder().fit(frame).transform(frame.iloc[:, :3])

    def test_a_second_fit_forgets_the_first(self, frame):
        encoder = CellEncoder().fit(frame).fit(np.ones((3, 2)))
        assert not hasattr(encoder, "feature_names_in_") and encoder.encoder_ is None
        assert clone(CellEncoder(["ward"])).text == ["ward"]
