"""Surveys of batches add up to that of the table, and are what ids are told by."""

import dataclasses
import datetime
import pickle
import uuid
from collections import Counter
from decimal import Decimal
from functools import reduce
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal, assert_equal
from scipy import sparse
from sklearn import datasets

from naim3l._ids import is_named_like_id
from naim3l.features import survey as module
from naim3l.features.survey import RowPatterns, TableSurvey, ValueCounts, column_types, find_ids
from naim3l.input.batches import Batch

nan = np.nan
DAY = datetime.date(1970, 1, 3)
N = 60


class TestValueCounts:
    VALUES = st.lists(st.one_of(st.integers(-3, 3), st.sampled_from(["a", "b", 0.5, True])))

    @given(st.lists(VALUES, min_size=1, max_size=4))
    def test_parts_add_up_to_the_whole(self, parts):
        whole = [value for part in parts for value in part]
        counts = reduce(ValueCounts.combine, (ValueCounts.of(Counter(part)) for part in parts))
        assert counts.counts == Counter(whole)
        assert counts.n_values == len(set(whole))
        assert counts.all_differ == (len(set(whole)) == len(whole))

    @given(st.lists(st.lists(st.integers(-5, 5)), min_size=1, max_size=4))
    def test_numbers(self, parts):
        whole = np.array([number for part in parts for number in part], dtype=float)
        counted = (ValueCounts.of_numbers(np.array(part, dtype=float)) for part in parts)
        counts = reduce(ValueCounts.combine, counted)
        assert counts.n_values == len(set(whole)) and not counts.is_sample
        assert sorted(counts.repeats) == sorted(Counter(whole).values())
        assert counts.all_differ == (len(set(whole)) == len(whole))

    def test_equal_numbers_are_one_value(self):
        assert ValueCounts.of_numbers(np.array([0.0, -0.0])).n_values == 1
        hashes = [module._hash(one) for one in (1, 1.0, True, Decimal(1), np.int64(1))]
        assert len(set(hashes)) == 1

    @pytest.mark.parametrize("build", [str, float])
    def test_beyond_the_bound(self, build, monkeypatch):
        """The sample is the same for all ways to cut the rows, and has the counts of all rows."""
        monkeypatch.setattr(module, "MOST_VALUES", 4000)
        values = [build(i % 25_000) for i in range(40_000)]

        def count(part):
            if build is float:
                return ValueCounts.of_numbers(np.array(part))
            return ValueCounts.of(Counter(part))

        whole = count(values)
        assert whole.is_sample and len(whole.hashes) == 4000
        assert whole.n_values == pytest.approx(25_000, rel=0.05)
        assert not whole.all_differ and set(whole.repeats.tolist()) == {1, 2}
        assert whole.repeats.mean() == pytest.approx(40 / 25, rel=0.05)
        for size in (7000, 39_999):
            parts = [values[i : i + size] for i in range(0, len(values), size)]
            found = reduce(ValueCounts.combine, map(count, parts))
            assert found.is_sample
            assert_array_equal(found.hashes, whole.hashes)
            assert_array_equal(found.repeats, whole.repeats)
        assert count(values[:25_000]).all_differ


class TestRowPatterns:
    def in_parts(self, missing, cuts):
        return reduce(RowPatterns.combine, map(RowPatterns.of, np.split(missing, cuts)))

    @pytest.mark.parametrize("n_columns", [3, 8, 70, 130])
    def test_rows_that_have_some_of_the_columns(self, rng, n_columns):
        missing = rng.random((40, n_columns)) < rng.choice([0.2, 0.98], size=(40, 1))
        missing[:3], missing[3:5] = True, False
        patterns = self.in_parts(missing, [0, 7, 31])
        assert patterns == RowPatterns.of(missing)
        assert patterns.n_present == (~missing).any(axis=1).sum()
        for _ in range(5):
            columns = rng.permutation(n_columns)[: rng.integers(1, n_columns)].tolist()
            assert patterns.n_with(columns) == (~missing[:, columns]).any(axis=1).sum()

    def test_too_many_patterns(self, rng, monkeypatch):
        missing = rng.random((300, 70)) < 0.5
        assert len(RowPatterns.of(missing).partly) == 300
        monkeypatch.setattr(module, "MOST_PATTERNS", 50)
        for patterns in (self.in_parts(missing, [30, 60]), RowPatterns.of(missing)):
            assert patterns.partly is None and patterns.n_with([0]) == 300

    def test_sparse_masks(self):
        missing = np.array([[True, True], [False, False], [False, True]])
        assert RowPatterns.of(sparse.csr_array(missing)) == RowPatterns(2, 2, None)
        assert RowPatterns.of(sparse.csr_array(missing[:2])) == RowPatterns(2, 1, {})


def pick(*cells, dtype=object):
    """Columns whose cells are drawn from a few."""
    return lambda rng, n: pd.Series(
        [cells[i] for i in rng.integers(len(cells), size=n)], dtype=dtype
    )


def with_gaps(rng, numbers):
    return pd.Series(np.where(rng.random(len(numbers)) < 0.2, nan, numbers))


# Columns that all libraries have, and those of Python objects.
PLAIN = {
    "decimals": lambda rng, n: with_gaps(rng, rng.normal(size=n)),
    "whole": lambda rng, n: with_gaps(rng, rng.integers(0, 9, size=n)),
    "ids": lambda rng, n: pd.Series(rng.permutation(n) * 7_654_321 + 20_000_001),
    "counter_with_gaps": lambda rng, n: with_gaps(rng, np.arange(n)),
    "codes": lambda rng, n: pd.Series([f"P{i:03d}" for i in rng.permutation(n)], dtype=object),
    "words": pick("a", "b", "c", "?", "N/A", None),
    "truth_words": pick("true", "FALSE", None),
    "unknown": pick("?", None),
    "nothing": pick(None, dtype=float),
    "written_dates": pick("2024-01-31", "2023-12-01 10:00", "?", None),
    "wrong_dates": pick("2024-01-31", "1.2.24"),
    "days_first": pick("2024-01-31", "1.2.2024", "31.1.2024", None),
    "both_orders": pick("1/2/2024", "31/1/2024", "1/31/2024"),
    "dates": pick("2024-01-31", "1999-01-01", None, dtype="datetime64[us]"),
    "truth": pick(True, False, dtype=bool),
    "category": pick("a", "b", None, dtype="category"),
    "numbers_as_text": pick("1", "2,5", "1,234", "V45", "?", "x"),
    "infinite": pick(*[1.0] * 20, np.inf, -np.inf, 1e200, dtype=float),
    "tiny": pick(1e-200, 0.0, nan, dtype=float),
}
OBJECTS = {
    "mixed": pick(1, 2.5, Decimal(3), "4", None),
    "truth_and_nothing": pick(True, False, None),
    "uuid_objects": lambda rng, n: pd.Series([uuid.UUID(int=i) for i in range(n)], dtype=object),
    "whole_objects": lambda rng, n: pd.Series(rng.permutation(n), dtype=object),
    "huge": lambda rng, n: pd.Series([10 ** (300 + i) for i in range(n)], dtype=object),
    "days_and_words": pick(DAY, "a", 1, None),
    "lists": pick([1], "a", "?", None),
    "zones": pick("2024-01-31 10:00+02:00", None, dtype="datetime64[us, UTC]"),
    "codes_as_category": pick(1.0, 2.0, None, dtype="category"),
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
    """Surveys of the batches between the cuts; rows keep their numbers in messages."""
    bounds = [0, *sorted(cuts), table.shape[0]]
    for start, stop in pairwise(bounds):
        origin = module.Origin("view 'a'", first_row=start)
        yield TableSurvey.of(Batch(take(table, start, stop), origin), **options)


def plain(value):
    """Containers and arrays in place of records, so that surveys can be compared."""
    if dataclasses.is_dataclass(value):
        return {k: plain(v) for k, v in vars(value).items() if k not in ("totals", "origin")}
    if isinstance(value, module.Amounts):
        return [round(value.total, 6) or 0, value.lowest, value.highest]
    if isinstance(value, Counter):
        return {key: n for key, n in value.items() if n}
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [plain(entry) for entry in value]
    return (type(value), str(value)) if isinstance(value, Exception) else value


def assert_same(found, expected):
    assert_equal(plain(found), plain(expected))
    assert_allclose(found.totals, expected.totals, rtol=1e-12, atol=1e-9)


class TestTableSurvey:
    @settings(max_examples=60)
    @given(
        chosen=st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=5, unique=True),
        n=st.integers(1, 30),
        cuts=st.lists(st.integers(0, 30), max_size=4),
        seed=st.integers(0, 2**32 - 1),
        data=st.data(),
    )
    def test_batches_add_up_to_the_table(self, chosen, n, cuts, seed, data):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({name: COLUMNS[name](rng, n) for name in chosen})
        libraries = sorted(MAKERS) if set(chosen) <= set(PLAIN) else ["pandas"]
        table = MAKERS[data.draw(st.sampled_from(libraries))](frame)
        whole = TableSurvey.of(Batch(table, "view 'a'"))
        parts = list(surveys(table, [min(cut, n) for cut in cuts]))
        assert_same(reduce(TableSurvey.combine, parts), whole)
        assert_same(reduce(lambda found, part: part.combine(found), reversed(parts)), whole)
        assert_same(pickle.loads(pickle.dumps(whole)), whole)

    @pytest.mark.parametrize("build", [np.asarray, sparse.csr_array])
    def test_arrays(self, build, rng):
        X = rng.normal(size=(20, 4)) * (rng.random((20, 4)) < 0.6)
        X[rng.random((20, 4)) < 0.3], X[3], X[11, 2] = nan, nan, np.inf
        whole = TableSurvey.of(Batch(build(X), "view 'a'"))
        assert_same(reduce(TableSurvey.combine, surveys(build(X), [0, 5, 11])), whole)
        assert whole.rows.n_present == 19 and not whole.ids
        assert_array_equal(whole.n_known, (~np.isnan(X)).sum(axis=0))
        if build is np.asarray:
            assert_array_equal(whole.lowest, np.nanmin(X, axis=0))
            assert_array_equal(whole.highest, np.nanmax(X, axis=0))

    def test_columns_that_differ_between_parts_are_refused(self):
        one, two = (TableSurvey.of(Batch(pd.DataFrame({name: [1]}), f"view 'a', part {name}"))
                    for name in "xy")  # fmt: skip
        with pytest.raises(
            ValueError, match=r"part y: its columns differ from those of view 'a', p"
        ):
            one.combine(two)

    def test_types(self):
        frame = pd.DataFrame({
            "number": [1.5], "truth": [True], "date": pd.to_datetime(["2024-01-31"]),
            "time": pd.to_timedelta([3], "h"), "category": pd.Categorical(["a"]), "text": ["a"],
        })  # fmt: skip
        expected = ["number", "truth", "date", "date", "text", "cells"]
        for build in MAKERS.values():
            assert column_types(Batch(build(frame), "X")) == expected
        assert column_types(Batch(frame, "X"), ["number"])[0] == "text"
        assert column_types(Batch(np.eye(2) > 0, "X")) == ["truth"] * 2
        structs = pl.DataFrame({"x": [{"a": 1}], "y": pl.Series([[1, 2]], dtype=pl.Array(int, 2))})
        assert column_types(Batch(structs, "X")) == ["cells"] * 2


def shuffled(values):
    return np.random.default_rng(0).permutation(values)


def ids_of(table, **options):
    return find_ids(TableSurvey.of(Batch(table, "t"), **options))


def why_id(name, cells):
    series = cells if isinstance(cells, np.ndarray) else pd.Series(cells, dtype=object)
    found = ids_of(pd.DataFrame({name: series}))
    # As text, and divided in two, it is the same.
    parts = surveys(pd.DataFrame({name: series}), [len(cells) // 3])
    assert find_ids(reduce(TableSurvey.combine, parts)) == found
    return found.get(0, "")


IDS = {
    "counter": np.arange(10),
    "counter from the end of another table": np.arange(7001, 7011.0),
    "counter in another order": shuffled(np.arange(N)),
    "part of a counter": shuffled(np.arange(3 * N))[:N],
    "long numbers": shuffled(np.arange(N) * 7_654_321 + 200_000_001),
    "years and numbers": [f"2019/{i:04d}" for i in range(N)],
    "codes": [f"P{i:03d}" for i in range(N)],
    "codes with parts": [f"S19/{i}" for i in range(N)],
    "UUIDs": [str(uuid.UUID(int=i * 2**100 + 1)) for i in range(N)],
    "UUIDs as objects": [uuid.UUID(int=i) for i in range(N)],
    "beyond the digits of a float": [10**20 + 7 * i * 10**6 + 1 for i in range(N)],
    "numbers as text": [str(i) for i in range(N)],
}
MEASURED = {
    "decimals that all differ": shuffled(np.arange(N) + 0.5),
    "ages of few": shuffled(np.arange(20, 80))[:20],
    "amounts": shuffled(np.arange(N) * 1234 + 20_000),
    "large round amounts": shuffled(np.arange(N) * 1_230_000 + 20_000_000),
    "values that repeat": np.arange(N) // 2,
    "truth values": np.arange(N) % 2 == 0,
    "negative and long": shuffled(np.arange(N) * 7_654_321 - 200_000_001),
    "words": ["north", "south", "east"] * 20,
    "sentences": [f"came on day {i}" for i in range(N)],
    "nothing": [None] * N,
    "lists": [[i] for i in range(N)],
}


class TestIds:
    @pytest.mark.parametrize(
        "name",
        ["id", "ID", "patient_id", "MRN", "pid", "patient_no", "caseNr", "patientNo", "record",
         "case", "subject", "Subject number", "uuid", "Unnamed: 0", "id_patient", "sample code"],
    )  # fmt: skip
    def test_names_of_ids(self, name):
        assert is_named_like_id(name)
        assert why_id(name, shuffled(10 * np.arange(N) ** 2)).startswith("it is named like an id")

    @pytest.mark.parametrize("name", ["age", "paid", "acid", "patient", "cases", "nodes", "width"])
    def test_names_of_measurements(self, name):
        assert not is_named_like_id(name)

    @pytest.mark.parametrize("kind", IDS)
    def test_values_of_ids_whatever_the_column_is_called(self, kind):
        assert why_id("x", IDS[kind])

    @pytest.mark.parametrize("kind", MEASURED)
    def test_values_that_are_no_ids(self, kind):
        assert not why_id("x", MEASURED[kind])

    def test_ids_with_a_decimal_comma(self):
        cells = [f"{i},0" for i in shuffled(np.arange(N))]
        assert why_id("x", cells) == why_id("x", [float(c.replace(",", ".")) for c in cells]) != ""

    @pytest.mark.parametrize("name", ["year", "day_of_study", "rank", "age at entry"])
    def test_what_counts_by_its_nature_is_no_id(self, name):
        assert not why_id(name, np.arange(N))

    def test_a_name_alone_is_not_enough(self):
        assert not why_id("key_rate", np.arange(N) + 0.5)
        assert not why_id("ward_id", np.arange(N) % 5)
        assert why_id("patient_id", np.arange(2 * N) // 2)  # each patient came twice
        assert why_id("patient_id", [*(str(i) for i in range(N)), "x7"])
        assert not why_id("patient_id", [None] * N)

    def test_missing_cells_do_not_count(self):
        cells = np.arange(N, dtype=float)
        cells[::7] = nan
        assert why_id("x", shuffled(cells))

    @pytest.mark.parametrize("name", ["breast_cancer", "diabetes", "wine", "iris", "digits"])
    def test_every_column_of_known_tables_is_kept(self, name):
        assert ids_of(getattr(datasets, f"load_{name}")(as_frame=True).frame) == {}

    def test_columns_without_names_are_no_ids(self):
        assert ids_of(np.arange(2.0 * N).reshape(N, 2)) == {}
        assert ids_of(pd.DataFrame({0: np.arange(N), 1: [f"P{i:03d}" for i in range(N)]})) == {}

    def test_order_counts_also_where_some_batches_have_objects(self):
        frame = pd.DataFrame({"x": np.arange(15)})
        parts = [frame[:5], frame[5:10].astype(object), frame[10:].astype(float)]
        parts = [TableSurvey.of(Batch(part, "t")) for part in parts]
        assert find_ids(reduce(TableSurvey.combine, parts)) == {0: "it counts the rows"}
