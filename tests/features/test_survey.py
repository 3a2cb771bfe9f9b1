"""Surveys of parts add up to that of the whole, and decide the same as in memory."""

import dataclasses
import datetime
import pickle
import warnings
from decimal import Decimal
from functools import reduce
from itertools import pairwise
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_equal
from scipy import sparse

from naim3l.features.cell_encoder import CellEncoder
from naim3l.features.column_kinds import TEXT
from naim3l.features.encoding import ViewFeatures
from naim3l.features.survey import TableSurvey
from naim3l.features.unused_columns import set_aside
from naim3l.input import distinct
from naim3l.input.tables import Table

nan = np.nan
DAY = datetime.date(1970, 1, 3)


def pick(*cells, dtype=object):
    """Columns whose cells are drawn from a few."""
    return lambda rng, n: pd.Series(
        [cells[i] for i in rng.integers(len(cells), size=n)], dtype=dtype
    )


def with_gaps(rng, numbers):
    return pd.Series(np.where(rng.random(len(numbers)) < 0.2, nan, numbers))


PLAIN = {
    "decimals": lambda rng, n: with_gaps(rng, rng.normal(size=n)),
    "whole": lambda rng, n: with_gaps(rng, rng.integers(0, 9, size=n)),
    "ids": lambda rng, n: pd.Series(rng.permutation(n) * 7_654_321 + 20_000_001),
    "counter": lambda rng, n: pd.Series(np.arange(n) + 5),
    "counter_with_gaps": lambda rng, n: with_gaps(rng, np.arange(n)),
    "codes": lambda rng, n: pd.Series([f"P{i:03d}" for i in rng.permutation(n)], dtype=object),
    "uuids": lambda rng, n: pd.Series([str(UUID(int=i)) for i in range(n)], dtype=object),
    "words": pick("a", "b", "c", "?", "N/A", None),
    "many_words": pick(*(f"word {i}" for i in range(40)), None),
    "unknown": pick("?", None),
    "nothing": pick(None, dtype=float),
    "written_dates": pick("2024-01-31", "2023-12-01 10:00", "?", None),
    "wrong_dates": pick("2024-01-31", "1.2.2024"),
    "dates": pick("2024-01-31", "1999-01-01", None, dtype="datetime64[us]"),
    "truth": pick(True, False, dtype=bool),
    "category": pick("a", "b", None, dtype="category"),
    "numbers_as_text": pick("1", "2,5", "?", "x"),
    "infinite": pick(*[1.0] * 20, np.inf, -np.inf, 1e200, dtype=float),
    "tiny": pick(1e-200, 0.0, nan, dtype=float),
}
OBJECTS = {
    "mixed": pick(1, 2.5, Decimal(3), True, None),
    "truth_and_nothing": pick(True, False, None),
    "uuid_objects": lambda rng, n: pd.Series([UUID(int=i) for i in range(n)], dtype=object),
    "whole_objects": lambda rng, n: pd.Series(rng.permutation(n), dtype=object),
    "huge": lambda rng, n: pd.Series([10 ** (300 + i) for i in range(n)], dtype=object),
    "days": pick(DAY, None),
    "days_and_words": pick(DAY, "a"),
    "numbers_and_words": pick(1, "1", "a", "b", "?"),
    "lists": pick([1], "a", "?", None),
    "zones": pick("2024-01-31 10:00+02:00", None, dtype="datetime64[us, UTC]"),
    "codes_as_category": pick(1.0, 2.0, None, dtype="category"),
    "whole_with_null": pick(1, 2, None, dtype="Int64"),
    "sparse": pick(0.0, 1.0, dtype="Sparse[float]"),
}
COLUMNS = PLAIN | OBJECTS
MAKERS = {
    "pandas": pd.DataFrame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


def take(table, start, stop):
    return table.slice(start, stop - start) if hasattr(table, "slice") else table[start:stop]


def surveys(table, cuts, **options):
    """Surveys of the parts between the cuts; rows keep their numbers in messages."""
    bounds = [0, *sorted(cuts), table.shape[0]]
    for start, stop in pairwise(bounds):
        part = Table(take(table, start, stop), "view 'a'", rows=range(start, stop))
        yield TableSurvey.of(part, **options)


def plain(value):
    """Containers and arrays in place of records, so that surveys can be compared."""
    if dataclasses.is_dataclass(value):
        return {key: plain(entry) for key, entry in vars(value).items() if key != "totals"}
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [plain(entry) for entry in value]
    return (type(value), str(value)) if isinstance(value, Exception) else value


def assert_same(found, expected):
    assert_equal(plain(found), plain(expected))
    assert_allclose(found.sums.totals, expected.sums.totals, rtol=1e-12, atol=1e-9)


names = st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=5, unique=True)
CUTS = st.lists(st.integers(0, 30), max_size=4)
SEEDS = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=40)
@given(chosen=names, n=st.integers(1, 30), cuts=CUTS, seed=SEEDS, data=st.data())
def test_parts_add_up_to_the_whole(chosen, n, cuts, seed, data):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({name: COLUMNS[name](rng, n) for name in chosen})
    library = data.draw(st.sampled_from(sorted(MAKERS))) if set(chosen) <= set(PLAIN) else "pandas"
    table = MAKERS[library](frame)
    whole = TableSurvey.of(Table(table, "view 'a'"))
    parts = list(surveys(table, [min(cut, n) for cut in cuts]))
    assert_same(reduce(TableSurvey.combine, parts), whole)
    from_the_right = reduce(lambda found, part: part.combine(found), reversed(parts))
    assert_same(from_the_right, whole)


@pytest.mark.parametrize("build", [np.asarray, sparse.csr_array])
def test_arrays(build, rng):
    X = rng.normal(size=(20, 4)) * (rng.random((20, 4)) < 0.6)
    X[rng.random((20, 4)) < 0.3], X[3], X[11, 2] = nan, nan, np.inf
    whole = TableSurvey.of(Table(build(X), "view 'a'"))
    assert_same(reduce(TableSurvey.combine, surveys(build(X), [0, 5, 11])), whole)
    assert whole.n_present == 19 and not whole.ids


def outcome(decide):
    """What a function returns and warns of, or its error."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            result = decide()
        except (ValueError, TypeError) as error:
            return type(error), str(error)
    return result, [str(warning.message) for warning in told]


def fitted(encoder):
    state = {key: value for key, value in vars(encoder).items() if key != "encoder_"}
    one_hot = encoder.encoder_
    if one_hot is not None:
        state |= {"categories": one_hot.categories_, "rare": one_hot.infrequent_categories_}
    return state | {"names": encoder.get_feature_names_out()}


def in_memory(table):
    unused = set_aside(TableSurvey.of(table))
    kept = [j for j in range(table.shape[1]) if j not in unused]
    if not kept:
        return unused, None
    features = ViewFeatures.make("auto", "a")
    rows, _ = features.rows(table.select_columns(kept, table.where))
    return unused, fitted(CellEncoder().fit(rows))


def from_survey(survey):
    unused = set_aside(survey)
    kept = [j for j in range(len(survey.labels)) if j not in unused]
    if not kept:
        return unused, None
    return unused, fitted(CellEncoder().fit_survey(survey.select_columns(kept)))


@settings(deadline=None, max_examples=40)
@given(chosen=names, n=st.integers(2, 30), cuts=CUTS, seed=SEEDS)
def test_decisions_are_those_in_memory(chosen, n, cuts, seed):
    """Also of rows that lack the view once ids are set aside, and also if they are errors."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({name: COLUMNS[name](rng, n) for name in chosen})
    merged = reduce(TableSurvey.combine, surveys(frame, [min(cut, n) for cut in cuts]))
    found, expected = outcome(lambda: from_survey(merged)), outcome(
        lambda: in_memory(Table(frame, "view 'a'")))  # fmt: skip
    if expected[0] in (ValueError, TypeError) or expected[0][1] is None:
        assert found == expected
        return
    (unused, state), told = expected
    assert found[0][0] == unused and found[1] == told
    assert_allclose(found[0][1].pop("means_"), state.pop("means_"), rtol=1e-12)
    assert_equal(found[0][1], state)


def one_hot_by_hand(words):
    """Encoder that scikit-learn fits to the words themselves."""
    encoder = CellEncoder().fit(pd.DataFrame({"y": words})).encoder_
    return encoder, type(encoder)(**encoder.get_params()).fit(np.array(words, object)[:, None])


@settings(deadline=None, max_examples=30)
@given(counts=st.lists(st.integers(1, 9), min_size=1, max_size=60), gaps=st.integers(0, 4))
def test_categories_are_those_that_scikit_learn_finds(counts, gaps):
    words = [f"w{i}" for i, n in enumerate(counts) for _ in range(n)] + [None] * gaps
    found, expected = one_hot_by_hand(words)
    assert_equal(found.categories_, expected.categories_)
    assert_equal(found.infrequent_categories_, expected.infrequent_categories_)
    rows = np.array([*words, "new"], dtype=object)[:, None]
    assert_equal(found.transform(rows), expected.transform(rows))


class TestPlaces:
    def parts(self, *columns):
        tables = [Table(pd.DataFrame({"y": pd.Series(cells, dtype=object)}), f"view 'a', part {i}")
                  for i, cells in enumerate(columns)]  # fmt: skip
        return reduce(TableSurvey.combine, [TableSurvey.of(part, "view 'a'") for part in tables])

    @pytest.mark.parametrize(
        ("columns", "error"),
        [
            (
                [["1", "2"], ["3", "4", "x"]],
                r"part 1, row 2, column 'y': 'x' is text, though 4 of 5",
            ),
            ([[1, 2], ["?"]], r"part 1, row 0, column 'y': '\?' is text, though 2 of 3"),
            ([["2024-01-31"], ["1.2.2024"]], r"part 1, row 0, .*'1.2.2024' cannot be read as a da"),
            ([["a"], [None, DAY]], r"part 1, row 1, .*is not a number, nor text like other"),
            ([["a", "b"], ["a", {}]], r"part 1, row 1, column 'y': {} is not a number, text or"),
            ([[1.0, 2], [3, 1e200]], r"part 1, row 1, column 'y': 1e\+200 is too large"),
            ([[1, 2], [3, 10**400]], r"part 1, row 1, column 'y': 1000.* is not a number"),
            ([[1e-200], [0.0]], r"view 'a', column 'y': its largest value is 1e-200"),
        ],
    )
    def test_errors_name_the_part_and_the_row(self, columns, error):
        survey = self.parts(*columns)
        with pytest.raises((ValueError, TypeError), match=error):
            CellEncoder().fit_survey(pickle.loads(pickle.dumps(survey)))

    def test_the_first_row_is_named_as_in_memory(self):
        frame = pd.DataFrame({"x": [1.0, 2, np.inf], "y": [1.0, np.inf, 2]})
        with pytest.raises(ValueError, match="row 1, column 'y': inf"):
            CellEncoder().fit_survey(reduce(TableSurvey.combine, surveys(frame, [1, 2])))

    def test_warnings_name_the_whole_table(self):
        survey = self.parts([f"P{i}" for i in range(20)], [f"Q{i}" for i in range(20)])
        with pytest.warns(UserWarning, match="^view 'a', column 'y': an id: its values are codes"):
            set_aside(survey)


class TestTypesOfParts:
    def combined(self, *columns):
        parts = [Table(pd.DataFrame({"y": column}), f"view 'a', part {i}")
                 for i, column in enumerate(columns)]  # fmt: skip
        return reduce(TableSurvey.combine, map(TableSurvey.of, parts))

    @pytest.mark.parametrize(
        "empty", [[None, None], [nan, nan], pd.Series([None, None], dtype="Int64")], ids=str
    )
    @pytest.mark.parametrize("cells", [["a", "b", "a"], [1.5, 2, nan], [True, False, True],
                                       pd.to_datetime(["2024-01-31"] * 3)])  # fmt: skip
    def test_a_part_without_cells_may_have_any_type(self, cells, empty):
        expected = CellEncoder().fit(pd.DataFrame({"y": cells})).kinds_
        for columns in ([cells, empty], [empty, cells], [empty, cells, empty]):
            survey = self.combined(*columns)
            assert_equal(CellEncoder().fit_survey(survey).kinds_, expected)
            assert survey.n_present == survey.n_known[0] <= 3 and survey.n_rows > 4

    def test_truth_values_and_numbers_are_numbers(self):
        encoder = CellEncoder().fit_survey(self.combined([True, False], [3.0, 0.0]))
        assert encoder.means_ == [1.0] and encoder.kinds_ == [0]

    def test_categories_in_one_part_are_text_in_all(self):
        days = ["2024-01-31", "2024-02-01"]
        for columns in ([days, pd.Series(days, dtype="category")], [pd.Categorical(days), days]):
            assert CellEncoder().fit_survey(self.combined(*columns)).kinds_ == [TEXT]

    def test_text_in_one_part_and_numbers_in_another_are_refused(self):
        with pytest.raises(TypeError, match="part 1, column 'y': it has text, but numbers in view"):
            self.combined([1.0, 2.0], ["a", "b"])
        with pytest.raises(
            ValueError, match="part 1: its columns differ from those of view 'a', p"
        ):
            TableSurvey.of(Table(pd.DataFrame({"x": [1]}), "view 'a', part 0")).combine(
                TableSurvey.of(Table(pd.DataFrame({"y": [1]}), "view 'a', part 1"))
            )

    @pytest.mark.parametrize("empty", [[None] * 2, [nan] * 2, pd.Series([None] * 2, dtype="Int64")])
    def test_parts_are_encoded_whatever_the_type_of_a_column_without_cells(self, empty):
        """Kinds are those of the fit; a part may also have no rows, or none with the view."""
        frame = pd.DataFrame({
            "age": [1.0, 2, 3, nan], "ward": ["a", "b", None, "a"], "ok": [True, False, True, True],
            "seen": ["2024-01-31"] * 4, "day": pd.to_datetime(["2024-01-31"] * 3 + [None]),
        })  # fmt: skip
        features = ViewFeatures.make("auto", "a")
        expected, _ = features.fit_encode(Table(frame, "view 'a'"))
        for name in frame:
            part = frame.iloc[:2].assign(**{name: empty})
            known = frame.iloc[:2].assign(**{name: frame[name].mask(frame.index >= 0)})
            found, present = features.encode(Table(part, "view 'a'"))
            assert_equal(found, features.encode(Table(known, "view 'a'"))[0])
            assert present.all() and found.shape == (2, expected.shape[1])
        lacking = Table(frame.iloc[:2].assign(**dict.fromkeys(frame, empty)), "view 'a'")
        for part, n in ((lacking, 2), (Table(frame.iloc[:0], "view 'a'"), 0)):
            rows, present = features.encode(part)
            assert rows.shape[0] == 0 and present.tolist() == [False] * n


class TestManyValues:
    @pytest.fixture
    def few(self, monkeypatch):
        monkeypatch.setattr(distinct, "MOST_VALUES", 4000)

    @pytest.mark.parametrize("build", [lambda i: i, lambda i: f"note {i}"], ids=["whole", "text"])
    def test_estimates(self, few, build):
        rng = np.random.default_rng(0)
        cells = [build(i) for i in rng.integers(0, 60_000, size=50_000)]
        frame = pd.DataFrame({"y": cells})
        survey = reduce(TableSurvey.combine, surveys(frame, [1000, 3000, 20_000]))
        assert_same(survey, TableSurvey.of(Table(frame, "view 'a'")))
        values = survey.cells[0].values if survey.cells else survey.ids[0][1]
        assert values.is_sample and not values.all_differ
        assert values.n_values == pytest.approx(len(set(cells)), rel=0.05)

    def test_ids_and_free_text(self, few):
        n = 9000
        frame = pd.DataFrame({
            "x": np.random.default_rng(0).normal(size=n),
            "counter": np.arange(n),
            "code": [f"P{i}" for i in range(n)],
            "MRN": np.arange(n) // 2 * 7,
            "note": [f"a note {i}" for i in np.arange(n) % 4500],
        })  # fmt: skip
        survey = reduce(TableSurvey.combine, surveys(frame, [2000, 4000]))
        with pytest.warns(UserWarning):
            reasons = {use.name: use.reason for use in set_aside(survey).values()}
        assert reasons["counter"] == "an id: it counts the rows"
        assert reasons["code"] == "an id: its values are codes that all differ"
        assert reasons["MRN"].startswith("an id: it is named like an id and has about 4")
        assert reasons["note"].startswith("more than") and list(reasons) == list(frame)[1:]
        with pytest.raises(ValueError, match=r"column 'note': more than .* leave the column out"):
            CellEncoder().fit_survey(survey.select_columns([0, 4]))
