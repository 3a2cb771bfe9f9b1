"""The column plan: kinds by their definitions, the same for any batches; cells as numbers."""

import datetime
import json
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
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from naim3l import DataWarning
from naim3l._origin import Origin
from naim3l.features.plan import (
    MOST_CATEGORIES,
    MOST_ODD,
    MOST_WARNINGS,
    RARE_WORD,
    ColumnPlan,
    ViewPlan,
    columns_of_several_types,
    judge_column,
)
from naim3l.features.survey import TableSurvey
from naim3l.files.stored import Nested, Reader, Scope, dump
from naim3l.input.batches import Batch

nan = np.nan
DAY, NOON = datetime.date(1970, 1, 3), pd.Timestamp("1970-01-02 12:00")


def one(*cells, dtype=object):
    return pd.DataFrame({"y": pd.Series(cells, dtype=dtype)})


def plan_of(table, **options):
    return ViewPlan.of(TableSurvey.of(Batch(table, "view 'a'")), **options)[0]


def kind_of(table, text=()):
    return judge_column(TableSurvey.of(Batch(table, "view 'a'"), text), 0)


def encoded(plan, table, **options):
    rows, present = plan.encode(Batch(table, "view 'a'"), **options)
    return (rows.toarray() if sparse.issparse(rows) else rows), present


@pytest.fixture
def frame():
    return pd.DataFrame({
        "age": [61.0, nan, 35.0, 40.0, 52.0, 58.0, 33.0, 41.0],
        "ward": ["A", "B", "A", "B", "A", "B", None, "A"],
        "seen": pd.to_datetime(["1970-01-03", "1970-01-05", None] + ["1970-01-02"] * 5),
        "smokes": [True, False, True, True, False, False, True, True],
    })  # fmt: skip


class TestKinds:
    @pytest.mark.parametrize(
        ("cells", "kind"),
        [
            ([1, 2.5, Decimal(3), None], ("number", ".")),
            ([None, nan], ("number", ".")),
            (["1", " 2.5 ", "?", None, "-1e3"], ("number", ".")),
            (["1,5", "2", ".5"], None),
            (["1,5", "2", ",5"], ("number", ",")),
            ([2.5, "1,5", 3], ("number", ",")),
            ([True, None, False], ("truth", ".")),
            (["true", "False", "?"], ("truth", ".")),
            ([True, 2, 0.5], ("number", ".")),
            (["a", "b", None, 3], ("text", ".")),
            (["<0.5", "low", "high", "mid"], ("text", ".")),
            ([UUID(int=1), UUID(int=2)], ("text", ".")),
            ([DAY, None], ("date", ".")),
            ([DAY, NOON, "1970-01-03 10:00", datetime.timedelta(3)], ("date", ".")),
            (["1970-01-03", "?", None], ("date", ".")),
            (["1970-01-03", "later", None], ("text", ".")),
            (["b'23:00'", "b'01:00'"], ("date", ".")),
            (["1", "2", "80+"], ("number", ".")),
            (["1,5", "< 0,5", None], ("number", ",")),
            ([1, "3 or more"], ("number", ".")),
            (["<18", ">65", "18 or more", "5"], None),  # more ends than numbers
            ([DAY, "later"], ("text", ".")),
        ],
        ids=str,
    )
    def test_by_cells(self, cells, kind):
        if kind is None:
            with pytest.raises(ValueError, match="is not a number"):
                kind_of(one(*cells))
        else:
            assert kind_of(one(*cells))[:2] == kind

    def test_by_type_in_every_library(self, frame):
        for table in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
            plan = plan_of(table)
            assert [c.kind for c in plan.columns] == ["number", "text", "date", "truth"]
            assert plan == plan_of(frame)
        assert kind_of(one("1", "2", dtype="category")).name == "text"
        assert kind_of(one("1", "2"), text=["y"]).name == "text"

    @settings(max_examples=40)
    @given(n_numbers=st.integers(0, 40), n_odd=st.integers(1, 12), comma=st.booleans())
    def test_odd_cells_are_missing_up_to_a_tenth_and_an_error_beyond(self, n_numbers, n_odd, comma):
        sign = "," if comma else "."
        numbers = [f"{i}{sign}5" for i in range(n_numbers)]
        table = one(*numbers[:3], *(["high"] * n_odd), *numbers[3:], None, "?")
        n_known, first = n_numbers + n_odd, min(3, n_numbers)
        report = f"view 'a', row {first}, column 'y': 'high' is not a number"
        if n_odd > 1:
            report += rf" \({n_odd} of {n_known} cells of the column are not\)"
        if 2 * n_numbers <= n_known:
            assert kind_of(table).name == "text"
        elif n_odd > MOST_ODD * n_known:
            with pytest.raises(ValueError, match=f"^{report}. Correct such cells, .*text=.'y'. of"):
                kind_of(table)
        else:
            with pytest.warns(DataWarning, match=f"^{report}. Such cells are taken as missing"):
                plan = plan_of(table)
            [column] = plan.columns
            assert column.kind == "number" and column.decimal == sign
            assert column.missing == pytest.approx(n_odd / n_known)
            assert column.mean == pytest.approx(np.mean(np.arange(n_numbers) + 0.5))

    def test_few_odd_cells_among_dates_are_missing(self):
        cells = ["1970-01-03"] * 19 + ["ongoing", None]
        with pytest.warns(
            DataWarning, match="row 19, column 'y': 'ongoing' is not a date. Such ce"
        ):
            plan = plan_of(one(*cells, "1970-01-05"))
        [column] = plan.columns
        assert column.kind == "date" and column.mean == pytest.approx((19 * 2 + 4) / 20)
        assert column.missing == pytest.approx(1 / 21)
        assert encoded(plan, one("ongoing"), judge=False)[0] == [[column.mean]]
        assert kind_of(one(*cells[15:])).name == "text"  # more than a tenth

    def test_ends_of_a_scale_are_told_in_one_sentence(self):
        table = pd.DataFrame({
            "age": [*map(str, range(60, 80)), "80+", "80+", None, "?"],
            "hb": [0.5, 1.5, 2.5] * 7 + ["<0.1", 1, 2],
            "x": np.arange(24) / 7,
        })  # fmt: skip
        for built in (table, pl.from_pandas(table[["age", "x"]])):
            with pytest.warns(DataWarning) as told:
                plan = plan_of(built)
            [message] = [str(warning.message) for warning in told]
            n, columns = (3, "columns 'age', 'hb'") if built is table else (2, "column 'age'")
            start = f"view 'a': {n} cells such as '80+' are read as the number in them"
            assert message == f"{start}, in {columns}."
            age = plan.columns[0]
            assert age.kind == "number" and age.missing == 2 / 24
            assert age.mean == pytest.approx(np.mean([*range(60, 80), 80, 80]))
            assert encoded(plan, built)[0][20:22, 0].tolist() == [80, 80]

    def test_several_codes_among_numbers_are_text(self):
        cells = [*(str(i % 9) for i in range(60)), "V45", "E11", "V46", "V45"]
        with pytest.warns(
            DataWarning, match=r"'V45' is not a number \(4 of 64.*several such codes"
        ):
            assert kind_of(one(*cells)).name == "text"
        with pytest.warns(DataWarning, match="taken as missing"):  # two are not several
            assert kind_of(one(*cells[:62])).name == "number"

    @pytest.mark.parametrize(
        "cells",
        [
            ["1.234,5", "2,5", "3,5"],
            ["1,234", "950", "12"],
            [*["5"] * 30, "1,234.5"],
            [*["5,5"] * 30, "1.234,5"],
        ],
        ids=str,
    )
    def test_thousands_separators_are_refused(self, cells):
        with pytest.raises(ValueError, match=r"row \d+, column 'y': '1.*thousands separators"):
            kind_of(one(*cells))

    @pytest.mark.parametrize(
        ("cells", "error"),
        [
            (
                ["1/2/2024", "3/4/2024"],
                r"row 0, .*'1/2/2024' .*the order of day .*day_first=T",
            ),
            (["3/4/2024", "1/13/2024", "13/1/2024"], r"row 1, .*month is first, but .*'13/1/2024'"),
            (["13.1.2024", "29.2.2023"], r"row 1, .*'29.2.2023' .*there is no such day"),
            (["13.1.2024", "14.1.24"], r"row 1, .*the order of year, month and day"),
            (["1.2.10", "1.3.11"], r"row 0, .*the order .*with text=\['y'\] of Recipe"),
            (["2024-02-28", "2024-02-30"], r"row 1, .*'2024-02-30' .*there is no such day"),
        ],
    )
    def test_dates_that_one_would_misread(self, cells, error):
        for table in (one(*cells), pl.DataFrame({"y": cells})):
            with pytest.raises(ValueError, match=f"view 'a', {error}"):
                kind_of(table)

    @pytest.mark.parametrize(
        ("cells", "order", "first_days"),
        [
            (["3.4.1970", "13.1.1970", None], "day first", [92, 12]),
            (["3/4/1970", "1/13/1970 12:00", "?"], "month first", [62, 12.5]),
            (["3-4-1970", "1970-01-13", "13-1-1970", DAY], "day first", [92, 12, 12, 2]),
            (["2.2.1970", "1.1.1970"], "day first", [32, 0]),  # the same in either order
            (["1970-01-13", DAY], "", [12, 2]),
        ],
        ids=str,
    )
    def test_a_day_above_12_tells_the_order_of_all(self, cells, order, first_days):
        for cut in range(len(cells)):
            parts = [Batch(one(*part), "X") for part in (cells[:cut], cells[cut:]) if part]
            found = reduce(TableSurvey.combine, map(TableSurvey.of, parts))
            assert judge_column(found, 0) == ("date", ".", order)
        plan = plan_of(one(*cells))
        assert plan.columns[0].date_order == order and plan.columns[0].mean == np.mean(first_days)
        assert_array_equal(encoded(plan, one(*cells))[0][: len(first_days), 0], first_days)
        assert (order or "days") in plan.columns[0].use

    @pytest.mark.parametrize(("day_first", "found"), [(True, 92), (False, 62)])
    def test_an_option_decides_only_where_no_day_tells(self, day_first, found):
        plan = plan_of(one("3.4.1970", "1.1.1970"), day_first=day_first)
        assert encoded(plan, one("3.4.1970"))[0] == [[found]]
        told = plan_of(one("3.4.1970", "13.1.1970"), day_first=day_first)
        assert told.columns[0].date_order == "day first"

    def test_new_dates_have_the_order_of_the_training_rows(self):
        plan = plan_of(one("3.4.1970", "13.1.1970", "14.1.1970"))
        assert_array_equal(encoded(plan, one("1.2.1970", "1970-01-05"))[0], [[31], [4]])
        error = r"'1.13.1970' is not a date \(2 of 2 .* with the day first, as in the training"
        with pytest.raises(ValueError, match=error):
            encoded(plan, one("1.13.1970", "1.14.1970"))
        plan = plan_of(one("1970-01-03", "1970-01-05"))
        with pytest.raises(ValueError, match=r"is not a date .* with the year first, as in the"):
            encoded(plan, one("13.1.1970", "14.1.1970"))

    @pytest.mark.parametrize("cells", [["a", [1]], [{}, None], [b"a", b"b"], [1j, 2]], ids=str)
    def test_other_objects_are_refused(self, cells):
        with pytest.raises(
            TypeError, match=r"view 'a', row \d, column 'y': .* is not a number, te"
        ):
            kind_of(one(*cells))

    @pytest.mark.parametrize(
        ("cells", "error"),
        [
            ([nan, np.inf], r"row 1, column 'y': inf is not a finite number \(infinity\)"),
            (["1", "-inf"], r"row 1, column 'y': '-inf' is not a finite number \(infinity\)"),
            ([1.0, 1e150], r"row 1, column 'y': 1e\+150 is too large"),
            (["1,5", "1e150"], r"row 1, column 'y': '1e150' is too large"),
            ([1, 10**400], r"row 1, column 'y': 10000.* is too large"),
            ([1e-200, nan], "column 'y': its largest value is 1e-200"),
            (["1e-200", "0"], "column 'y': its largest value is 1e-200"),
        ],
    )
    def test_numbers_beyond_use(self, cells, error):
        y = pd.Series(cells, dtype=object if 10**400 in cells else None)
        table = pd.DataFrame({"x": [1.0, 2.0], "y": y})
        with pytest.raises(ValueError, match=f"view 'a', {error}"):
            plan_of(table)

    def test_the_first_row_with_such_a_number_is_named(self):
        table = pd.DataFrame({"x": [1.0, 2, np.inf], "y": [1.0, np.inf, 2]})
        with pytest.raises(ValueError, match="row 1, column 'y': inf"):
            plan_of(table)


# Cells that pandas gives different types, depending on those beside them.
CELLS = st.one_of(
    st.sampled_from([None, None, "?", "a", "b", "V45", "E11", "K52", "true", "x y", "1.234"]),
    st.sampled_from(["80+", "< 2", "3 or more", "90 min", "2 h", "1.5 h", "b'23:00'", "14:35"]),
    st.sampled_from(["1", "2.5", "2,5", "1,234", "007", "inf", "2024-01-31", "1.2.2024"]),
    st.sampled_from([1, 2, 3.5, -7, 1e200, True, False, NOON, pd.Timestamp("2024-01-31")]),
)


def outcome(decide):
    """What a function returns and warns of, or its error."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            result = decide()
        except (ValueError, TypeError) as error:
            return type(error), str(error)
    return result, [str(warning.message) for warning in told]


class TestAnyBatches:
    def batches(self, columns, cuts):
        """Batches of which pandas chooses the types; rows keep their numbers in messages."""
        n = len(next(iter(columns.values())))
        bounds = [0, *sorted(min(cut, n) for cut in cuts), n]
        for start, stop in pairwise(bounds):
            part = pd.DataFrame(
                {name: pd.Series(cells[start:stop]) for name, cells in columns.items()}
            )
            yield Batch(part, Origin("view 'a'", first_row=start))

    def plan(self, batches):
        def survey(cells):
            return reduce(TableSurvey.combine, [TableSurvey.of(b, cells=cells) for b in batches])

        found = survey(())
        again = columns_of_several_types(found)
        return ViewPlan.of(survey(again) if again else found)

    @settings(max_examples=80)
    @given(
        cells=st.lists(CELLS, min_size=1, max_size=14),
        repeats=st.integers(1, 5),
        cuts=st.lists(st.integers(0, 70), max_size=3),
    )
    def test_one_plan_for_any_batches_and_types(self, cells, repeats, cuts):
        """That of all cells in one column of Python objects."""
        column = cells * repeats
        if any(isinstance(c, bool) for c in column) and any(c in (0, 1) for c in column):
            column = [int(c) if isinstance(c, bool) else c for c in column]  # equal cells are one
        columns = {"x": [0.5, 1.5, 3.0] * len(column), "y": column * 3}
        batches = list(self.batches(columns, cuts))
        whole = Batch(pd.DataFrame({"x": columns["x"], "y": pd.Series(column * 3, dtype=object)}),
                      "view 'a'")  # fmt: skip
        found, expected = outcome(lambda: self.plan(batches)), outcome(lambda: self.plan([whole]))
        if expected[0] in (ValueError, TypeError):
            assert [_unquoted(part) for part in found] == [_unquoted(part) for part in expected]
            return
        (plan, used), told = expected
        assert found[0][1] == used and list(map(_unquoted, found[1])) == list(map(_unquoted, told))
        for column, other in zip(found[0][0].columns, plan.columns, strict=True):
            assert column.mean == pytest.approx(other.mean)
            assert vars(column) | {"mean": 0} == vars(other) | {"mean": 0}
        assert found[0][0].dropped == plan.dropped
        rows = [plan.encode(b.select_columns(used), judge=False)[0] for b in batches]
        expected_rows = plan.encode(whole.select_columns(used), judge=False)[0]
        assert_allclose(np.vstack(rows), expected_rows)

    def test_leading_zeros_of_numbers_beside_words_are_those_of_objects(self):
        typed, words = pd.DataFrame({"y": [7, 8] * 3}), one(*["007", "a", "b", "a", "b", "c"] * 3)
        plan, _ = self.plan([Batch(typed, "view 'a'"), Batch(words, "view 'a'")])
        assert plan.columns[0].categories == ["007", "7", "8", "a", "b", "c"]

    @pytest.mark.parametrize("empty", [[None] * 3, [nan] * 3, pd.array([None] * 3, dtype="Int64")])
    def test_a_batch_without_cells_may_have_any_type(self, empty, frame):
        expected, _ = self.plan([Batch(frame, "view 'a'")])
        for name in frame:
            lacking = frame.iloc[:3].assign(**dict.fromkeys(frame, empty)).assign(age=frame["age"])
            parts = [frame, lacking[list(frame)]]
            if name == "age":
                parts = parts[::-1]
            plan, _ = self.plan([Batch(part, "view 'a'") for part in parts])
            assert [c.kind for c in plan.columns] == [c.kind for c in expected.columns]
            part = frame.iloc[:3].assign(**{name: empty})
            known = frame.iloc[:3].assign(**{name: frame[name].mask(frame.index >= 0)})
            assert_array_equal(encoded(plan, part)[0], encoded(plan, known)[0])


def _unquoted(text):
    """A message without the forms that a cell takes in the types of pandas."""
    for a, b in (("1.0", "1"), ("2.0", "2"), ("-7.0", "-7"), ("'", "")):
        text = str(text).replace(a, b)
    return text


class TestWords:
    @settings(max_examples=30)
    @given(counts=st.lists(st.integers(1, 9), min_size=2, max_size=60), gaps=st.integers(0, 4))
    def test_categories_are_those_that_scikit_learn_finds(self, counts, gaps):
        words = [f"w {i}" for i, n in enumerate(counts) for _ in range(n)] + [None] * gaps
        table = pd.DataFrame({"x": np.arange(len(words)) % 5 + 0.5, "y": words})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plan = plan_of(table)
        if len(plan.columns) == 1:  # more values than half of the rows
            assert 2 * len(counts) > sum(counts)
            return
        reference = OneHotEncoder(
            min_frequency=RARE_WORD, max_categories=MOST_CATEGORIES + 1, sparse_output=False,
            handle_unknown="infrequent_if_exist",
        ).fit(np.array(words, dtype=object)[:, None])  # fmt: skip
        rows = np.array([*words, "new", None], dtype=object)
        expected = reference.transform(rows[:, None])
        found = encoded(plan, pd.DataFrame({"x": 1.0, "y": rows}))[0][:, 1:]
        assert_array_equal(found, expected)

    def test_rare_and_unseen_words_share_a_column(self):
        plan = plan_of(one(*"aaaaabbbbcd"))
        assert plan.encoded_names() == ["y_a", "y_b", "y_other values"] and plan.n_encoded == 3
        assert plan.columns[0].use == "2 values became columns, 2 rare ones one together"
        new = encoded(plan, one("b", "c", "never", None, "a"))[0]
        assert_array_equal(new, [[0, 1, 0], [0, 0, 1], [0, 0, 1], [1, 0, 0]])

    def test_missing_words_are_a_value_however_they_are_written(self):
        table = one("a", "?", None, "Unknown", *"aaaaa").assign(x=1.5 * np.arange(9))
        plan = plan_of(table)
        assert plan.encoded_names() == ["x", "y_a", "y_missing"]
        assert plan.columns[0].missing == pytest.approx(1 / 3)

    def test_forty_towns_in_two_hundred_rows_keep_thirty(self):
        with pytest.warns(
            DataWarning, match=r"40 different values .* in 200 rows. The 30 most freq"
        ):
            plan = plan_of(one(*(f"town {i % 40:02}" for i in range(200))))
        assert plan.columns[0].n_rare == 10
        assert plan.columns[0].categories == [f"town {i:02}" for i in range(10, 40)]

    def test_numbers_with_units_are_a_number_for_each(self):
        cells = ["90 min", "1 Season", "120 min", "2 Seasons", "3 seasons", "60 min", None]
        plan = plan_of(pd.DataFrame({"x": np.arange(7) / 3, "length": cells}))
        column = plan.columns[1]
        assert column.use == "a number for each unit: min, season" and not column.categories
        assert plan.encoded_names() == ["x", "length_min", "length_season"]
        assert plan.n_encoded == 3 and plan.source_of_encoded().tolist() == [0, 1, 1]
        means = [(90 + 120 + 60) / 6, (1 + 2 + 3) / 6]
        expected = [[90, 0], [0, 1], [120, 0], [0, 2], [0, 3], [60, 0], means]
        new = pd.DataFrame({"x": 1.0, "length": cells})
        assert_allclose(encoded(plan, new)[0][:, 1:], expected)
        stored = json.loads(json.dumps(dump(column, ColumnPlan).document))
        assert Nested(ColumnPlan).read(stored, Reader(dump(column, ColumnPlan)), Scope()) == column

    @pytest.mark.parametrize(
        "cells",
        [
            ["90 min", "80 min", "70 min", "1 h", "2 h"],  # a rare unit
            [f"{i} {unit}" for unit in "abcdef" for i in range(3)],  # six units
            ["90 min", "80 min", "70 min", "long"],
        ],
    )
    def test_other_text_with_numbers_has_no_units(self, cells):
        table = pd.DataFrame({"x": np.arange(3 * len(cells)) / 7, "y": cells * 3})
        if len(cells) == 5:
            table = table.iloc[: len(cells)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plan = plan_of(table)
        assert not any(column.units for column in plan.columns)
        as_text = plan_of(pd.DataFrame({"y": ["1 min", "2 min"] * 9}).astype("category"))
        assert as_text.encoded_names() == ["y_1 min", "y_2 min"]

    def test_new_rows_without_a_known_unit(self):
        plan = plan_of(one(*(f"{i} min" for i in range(30))))
        new = one(*["10 min"] * 18, "2 h", None)
        with pytest.warns(DataWarning, match="row 18, column 'y': '2 h' is not a number of min. S"):
            rows, _ = encoded(plan, new)
        assert rows[:, 0].tolist() == [10] * 18 + [14.5] and plan.columns[0].units == {"min": 14.5}
        with pytest.raises(ValueError, match="In training the column had numbers of min: correct"):
            encoded(plan, one(*["2 h"] * 9))

    def test_names_are_distinct(self):
        table = pd.DataFrame({"y_a": [1.0] * 3, "y": ["a"] * 3, "y_a_": [2.0] * 3})
        plan = plan_of(table)
        assert plan.encoded_names() == ["y_a", "y_a_", "y_a__"]
        assert plan.source_of_encoded().tolist() == [0, 2, 1]

    def test_codes_are_the_same_words_as_numbers_and_as_text(self):
        plan = plan_of(one(1.0, 2, 1, 2, 1, 2, dtype="category"))
        assert plan.encoded_names() == ["y_1", "y_2"]
        for new in (one("2", "1"), one(2, 1, dtype=float), one(2, 1, dtype="category")):
            assert_array_equal(encoded(plan, new)[0], [[0, 1], [1, 0]])


class TestNumbers:
    def test_numbers_first_then_words(self, frame):
        rows, present = encoded(plan_of(frame), frame)
        assert present.all()
        assert_allclose(rows[:, 0], frame["age"].fillna(frame["age"].mean()))
        assert_allclose(rows[:, 1], [2, 4, 11 / 7, 1, 1, 1, 1, 1])
        assert_array_equal(rows[:, 2], frame["smokes"])
        wards = [frame["ward"] == "A", frame["ward"] == "B", frame["ward"].isna()]
        assert_array_equal(rows[:, 3:].T, wards)

    @pytest.mark.parametrize("build", [np.asarray, sparse.csr_array, pd.DataFrame])
    def test_means_are_those_of_scikit_learn(self, rng, build):
        X = rng.normal(size=(20, 4)) * (rng.random((20, 4)) < 0.6)
        X[rng.random((20, 4)) < 0.2] = nan
        plan = plan_of(build(X))
        assert_allclose([c.mean for c in plan.columns], SimpleImputer().fit(X).statistics_)
        assert_allclose([c.missing for c in plan.columns], np.isnan(X).mean(axis=0))
        rows, _ = plan.encode(Batch(build(X), "view 'a'"))
        assert sparse.issparse(rows) == (build is sparse.csr_array)
        assert_allclose(rows.toarray() if sparse.issparse(rows) else rows,
                        SimpleImputer().fit_transform(X))  # fmt: skip

    def test_rows_without_any_known_cell_lack_the_view(self, frame):
        lacking = pd.DataFrame(
            [[nan, None, None, None], [nan, "?", None, None]], columns=frame.columns
        )
        table = pd.concat([frame.astype(object), lacking.astype(object)], ignore_index=True)
        rows, present = encoded(plan_of(frame), table)
        assert_array_equal(np.flatnonzero(~present), [8, 9])
        assert_array_equal(rows, encoded(plan_of(frame), frame)[0])
        assert encoded(plan_of(frame), frame.iloc[:0])[0].shape == (0, 6)

    @pytest.mark.parametrize(
        "cells", [[3.0] * 9, ["3", *[nan] * 2, *["3"] * 6], [True] * 9, [NOON] * 9, ["w"] * 9]
    )
    def test_constant_columns_are_marked(self, cells):
        plan = plan_of(pd.DataFrame({"x": np.arange(9) / 7, "y": cells}))
        assert [c.constant for c in plan.columns] == [False, True]
        assert plan.columns[1].use == "not used: constant"

    def test_uses_in_words(self):
        assert ColumnPlan("x", "number", 0.0).use == "used"
        assert ColumnPlan("x", "number", 0.2).use == "missing cells filled with the mean"
        assert ColumnPlan("x", "date", 0.2).use == "days, missing cells filled with the mean"
        assert ColumnPlan("x", "truth", 0.0).use == "0 and 1"
        assert ColumnPlan("x", "text", 0.0, dropped="an id").use == "dropped"


class TestNewRows:
    def test_few_odd_cells_are_missing_and_many_are_refused(self, frame):
        plan = plan_of(frame)
        new = pd.concat([frame] * 3, ignore_index=True).astype({"age": object, "seen": object})
        new.loc[4, "age"], new.loc[5, "seen"] = "old", "soon"
        with (
            pytest.warns(DataWarning, match="view 'a', row 4, column 'age': 'old' is not a number"),
            pytest.warns(DataWarning, match="view 'a', row 5, column 'seen': 'soon' is not a date"),
        ):
            rows, _ = encoded(plan, new)
        assert rows[4, 0] == plan.columns[0].mean and rows[5, 1] == plan.columns[2].mean
        new.loc[6:8, "age"] = "old"
        with pytest.raises(ValueError, match=r"'old' is not a number \(4 of 21 .*In training the"):
            encoded(plan, new)
        encoded(plan, new, judge=False)

    def test_what_the_fit_has_said_is_not_said_again(self, frame):
        table = pd.concat([frame] * 3, ignore_index=True).astype({"age": object})
        table.loc[4, "age"] = "old"
        with pytest.warns(DataWarning, match="'old' is not a number. Such cells are taken as miss"):
            plan = plan_of(table)
        encoded(plan, table)  # warnings are errors
        loaded = Nested(ViewPlan).read(
            (stored := dump(plan, ViewPlan)).document, Reader(stored), Scope()
        )
        assert loaded == plan
        with pytest.warns(DataWarning, match="row 4, column 'age': 'old' is not a number. Such"):
            encoded(loaded, table)
        encoded(loaded, table)
        table.loc[4:9, "age"] = "old"
        with pytest.raises(ValueError, match=r"'old' is not a number \(6 of"):
            encoded(loaded, table)

    def test_another_decimal_separator_than_in_training_is_named(self):
        written = ["1,5", "2,25", "3,75", "4,5"]
        plan = plan_of(pd.DataFrame({"x": written}))
        points = pd.DataFrame({"x": [cell.replace(",", ".") for cell in written]})
        with pytest.raises(ValueError, match=r"'1.5' is not a number .*decimal ',' of"):
            encoded(plan, points)

    def test_rows_of_a_part_are_counted_in_the_table(self, frame):
        batch = Batch(frame.astype({"age": object}).replace({"age": {52.0: "old"}}), "view 'a'")
        part = batch.take_rows(np.arange(8) > 1)
        with pytest.warns(DataWarning, match="view 'a', row 4, column 'age': 'old'"):
            plan_of(frame).encode(part)

    def test_cells_of_other_types(self, frame):
        plan = plan_of(frame)
        expected = encoded(plan, frame)[0]
        texts = frame.assign(
            age=frame["age"].map(str), seen=frame["seen"].dt.strftime("%Y-%m-%d"),
            smokes=frame["smokes"].map({True: "true", False: "FALSE"}),
        )  # fmt: skip
        assert_array_equal(encoded(plan, texts)[0], expected)
        assert_array_equal(encoded(plan, frame.assign(smokes=frame["smokes"] * 1.0))[0], expected)
        with pytest.raises(ValueError, match=r"column 'seen': 3 is not a date \(8 of 8"):
            encoded(plan, frame.assign(seen=3))
        with pytest.raises(ValueError, match="row 2, column 'age': inf is not a finite"):
            encoded(plan, frame.replace({"age": {35.0: np.inf}}))
        with pytest.raises(TypeError, match=r"row 0, column 'ward': \[1\] is not a number"):
            encoded(plan, frame.assign(ward=[[1]] * 8))


def known(n_rows, n_known):
    """A column with so many known cells, spread over the rows."""
    column = np.full(n_rows, nan)
    column[np.linspace(0, n_rows - 1, n_known).astype(int)] = np.arange(n_known) + 0.5
    return column


class TestDropped:
    @pytest.mark.parametrize(
        ("n_rows", "n_known", "is_dropped"),
        [(774, 7, True), (774, 8, False), (100, 4, True), (100, 5, False), (8, 3, True),
         (8, 4, False), (4, 1, True), (4, 2, False), (2, 1, False)],
    )  # fmt: skip
    def test_almost_empty_columns(self, rng, n_rows, n_known, is_dropped):
        table = pd.DataFrame({"x": rng.normal(size=n_rows), "y": known(n_rows, n_known)})
        if not is_dropped:
            assert not plan_of(table).dropped
            return
        reason = f"{n_known} known values in {n_rows} rows"
        with pytest.warns(DataWarning, match=f"column 'y': {reason}. It is dropped. .*keep=.'y'"):
            [column] = plan_of(table).dropped
        assert column == ColumnPlan("y", "number", 1 - n_known / n_rows, dropped=reason)
        assert not plan_of(table, keep=["y"]).dropped
        with pytest.warns(DataWarning, match=r"view 'a', column 1: .* It is dropped\.$"):
            assert ViewPlan.of(TableSurvey.of(Batch(table.to_numpy(), "view 'a'")))[1] == [0]

    def test_rows_without_the_view_do_not_count(self, rng):
        """Of 400 rows 8 have the view, and half of these know the column."""
        table = pd.DataFrame(np.full((400, 2), nan), columns=["x", "y"])
        table.loc[:7, "x"], table.loc[:3, "y"] = rng.normal(size=8), rng.normal(size=4)
        assert not plan_of(table).dropped

    @pytest.mark.parametrize("words", [[], ["a", "b", "c"]])
    @pytest.mark.parametrize("kind", ["object", "category"])
    def test_words_for_missing_cells_are_unknown(self, rng, words, kind):
        cells = pd.Series([*words, *["?", "N/A"] * 280][:280], dtype=kind)
        with pytest.warns(DataWarning, match=f"'y': {len(words)} known values in 280 rows"):
            [column] = plan_of(pd.DataFrame({"x": rng.normal(size=280), "y": cells})).dropped
        assert column.missing == pytest.approx(1 - len(words) / 280)
        assert column.kind == ("text" if words else "number")

    def test_free_text_ids_and_the_kinds_of_columns_that_are_not_used(self, rng):
        table = pd.DataFrame({
            "x": rng.normal(size=60),
            "note": [f"note {i // 2 if i < 20 else i}" for i in range(60)],
            "MRN": np.arange(60) * 7 + 3,
            "code": [f"P{i:03}" for i in range(60)],
            "day": [pd.Timestamp("2024-01-31"), *[None] * 59],
            "ok": [True, *[None] * 59],
        })  # fmt: skip
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            plan = plan_of(table)
        reasons = [str(one.message).removeprefix("view 'a', column ") for one in told]
        assert [reason.split(".")[0] for reason in reasons] == [
            "'note': 50 different values of text in 60 rows, an id or text whose words do not tell "
            "rows apart",
            "'MRN': an id: it is named like an id and has 60 different values in 60 rows",
            "'code': an id: its values are codes that all differ",
            "'day': 1 known values in 60 rows",
            "'ok': 1 known values in 60 rows",
        ]
        assert "To read its words, use text=['note'] of Recipe" in reasons[0]
        assert "keep=['MRN'] of Recipe" in reasons[1]
        kinds = ["text", "number", "text", "date", "truth"]
        assert [c.kind for c in plan.dropped] == kinds and [c.name for c in plan.columns] == ["x"]
        texts = table.astype(str).replace({"nan": None, "None": None, "NaT": None})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert [c.kind for c in plan_of(texts).dropped] == kinds
            assert [c.name for c in plan_of(table, keep=["MRN", "code"]).columns] == ["x", "MRN"]

    def test_many_columns_are_one_warning(self, rng):
        n = MOST_WARNINGS + 1
        table = pd.DataFrame({f"y{j}": known(100, 2) for j in range(n)}).assign(
            x=rng.normal(size=100)
        )
        with pytest.warns(DataWarning) as told:
            assert len(plan_of(table).dropped) == n
        assert len(told) == 1
        assert f"{n} columns are dropped: column 'y0' (2 known" in str(told[0].message)

    def test_nothing_but_dropped_columns_is_refused(self):
        table = one(*(f"P{i:03}" for i in range(30)))
        with (
            pytest.warns(DataWarning),
            pytest.raises(ValueError, match=r"view 'a': no column is l"),
        ):
            plan_of(table)
