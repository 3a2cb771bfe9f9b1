"""Label tables: words and codings, names, rows, and unknown entries filled in."""

import pickle
import re
import warnings
from functools import reduce
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from scipy import sparse

from containers import CONTAINERS, DENSE
from naim3l import DataWarning, decode_labels
from naim3l.input.batches import UNKNOWN, Batch, compare_indexes
from naim3l.input.labels import (
    MOST_WORDS,
    NO,
    USUAL_WORDS,
    YES,
    LabelDecoder,
    LabelledRows,
    LabelSurvey,
    LabelWordError,
    LabelWords,
    check_seen,
    fill_unknown,
    label_batch,
    match_labels,
    word,
    written_words,
)
from naim3l.input.sources import refuse_names

nan = np.nan
SIGNED = np.array([[1, -1, 0], [0, 0, 0], [-1, 1, 1], [0, 1, -1]])
BINARY = np.where(SIGNED == 0, nan, SIGNED > 0)
signed_tables = hnp.arrays(
    np.int8,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=5),
    elements=st.sampled_from([1, 0, -1]),
)


def read(labels, words=USUAL_WORDS):
    batch, one_column = label_batch(labels, "view 'a'")
    return LabelledRows.of(batch, words, one_column=one_column)


def column(*cells, dtype=object):
    return pd.DataFrame({"x": pd.Series(cells, dtype=dtype)})


class TestWords:
    @pytest.mark.parametrize("kind", CONTAINERS)
    def test_numbers_in_every_container(self, kind):
        rows = read(CONTAINERS[kind](BINARY))
        assert_array_equal(rows.signed, SIGNED)
        assert rows.signed.dtype == np.int8 and not rows.one_column

    @pytest.mark.parametrize("form", [str.upper, str.title, " {} ".format])
    def test_words_of_any_case_and_with_spaces(self, form):
        for words, sign in ((YES, 1), (NO, -1), (UNKNOWN, 0)):
            for entry in words:
                other = "yes" if sign < 1 else "no"
                signed = read(column(form(entry), other)).signed
                assert signed[0, 0] == sign, entry

    @pytest.mark.parametrize(
        ("yes", "no"),
        [("Oui", "NON"), ("Sí", "No"), ("si\u0301", "no"), ("SI", "NO"), ("Да", "нет"),
         ("はい", "いいえ"), ("Y", "N"), ("+", "-"), ("＋", "－"), ("１", "０")],
    )  # fmt: skip
    def test_words_of_several_languages(self, yes, no):
        """Also of letters with separate accents, and of full width."""
        assert_array_equal(read(column(yes, no, "?", None)).signed.ravel(), [1, -1, 0, 0])

    def test_where_a_usual_word_is_reversed_its_partner_is_refused(self):
        """Otherwise a file of 1 and 0 would be read in reverse after a fit to one of 2 and 1."""
        assert_array_equal(decode_labels([2, 1], yes=[2], no=[1]), [1, 0])
        with pytest.raises(ValueError, match=r"row 1, label 0: .* 0 is not a known label"):
            decode_labels([1, 0], yes=[2], no=[1])
        assert_array_equal(decode_labels([1, 0], yes=[0], no=[1]), [0, 1])

    def test_the_guide_has_all_words(self):
        guide = Path(__file__).parents[2] / "docs" / "guide" / "tables.md"
        rows = [row for row in guide.read_text(encoding="utf-8").splitlines() if row[:2] == "| "]
        for words, meaning in ((YES, "yes"), (NO, "no")):
            (row,) = [row for row in rows if row.endswith(f"| {meaning} |")]
            assert set(words) <= set(re.split(r"[,;|] ?| in ", row.replace(" |", ",")))

    @pytest.mark.parametrize(
        "labels",
        [
            [1, 0, None],
            ["yes", "no", "?"],
            np.array([1, 0, nan]),
            np.array([True, False, None], dtype=object),
            pd.Series([True, False, None], dtype="boolean"),
            pd.Series([1, 0, None], dtype="Int64", index=[4, 4, 2]),
            pd.Series(["1", "0", None], dtype="category"),
            pd.Series([1.0, -1.0, nan], name="tag"),
            pl.Series([True, False, None]),
            pl.Series("tag", ["positive", "neg", None]),
            pa.chunked_array([["+", "-"], [None]]),
        ],
        ids=lambda labels: f"{type(labels).__name__} {getattr(labels, 'dtype', '')}",
    )
    def test_one_column(self, labels):
        rows = read(labels)
        assert rows.one_column
        assert_array_equal(rows.signed, [[1], [-1], [0]])
        named = getattr(labels, "name", None) == "tag"
        assert rows.labels.columns == (["tag"] if named else None)

    def test_a_minus_is_no_beside_a_plus_and_unknown_elsewhere(self):
        frame = pd.DataFrame({"x": ["+", "-", "-"], "y": ["y", "-", "n"]})
        assert_array_equal(read(frame).signed, [[1, 1], [-1, 0], [-1, -1]])
        given_words = LabelWords(unknown=("-",))
        assert_array_equal(read(frame, given_words).signed[:, 0], [1, 0, 0])

    def test_zero_and_minus_one_in_one_column_are_ambiguous(self):
        frame = pd.DataFrame({"x": [1, 0, -1], "y": [1, -1, -1], "z": [0, 1, 1]})
        with pytest.raises(ValueError, match=r"row 2, label 'x': both 0 and -1 .*coding='signed'"):
            read(frame)
        words = LabelWords(no=("-1",), unknown=("0",))
        assert_array_equal(read(frame[["x"]], words).signed, [[1], [0], [-1]])
        assert_array_equal(read(frame[["y", "z"]]).signed, [[1, -1], [-1, 1], [-1, 1]])

    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            (2, "2"),
            (2.0, "2"),
            (0.5, "0.5"),
            (np.inf, "inf"),
            ("maybe", "'maybe'"),
            ("yes!", "'yes!'"),
        ],
    )
    def test_other_cells_are_refused(self, value, shown):
        frame = pd.DataFrame({"x": [1, 1], "y": pd.Series([1, value], dtype=object)})
        numbers = frame.astype(float) if isinstance(value, int | float) else frame
        for labels, name in ((frame, "'y'"), (numbers, "'y'"), (frame.to_numpy(), "1")):
            with pytest.raises(ValueError, match="Unknown label type") as raised:
                read(labels)
            message = str(raised.value)
            assert message.startswith(f"view 'a', row 1, label {name}: Unknown label type: {shown}")
            assert "Allowed are yes (1, yes" in message
            assert f"naim3l.decode_labels(labels, no=[{shown}])" in message
            assert "--no" not in message

    def test_classes_need_a_column_each(self):
        with pytest.raises(LabelWordError, match="a column each, as by pandas") as raised:
            read(column(0, 1, 2))
        assert "a column of yes and no each" in raised.value.for_commands
        with pytest.raises(LabelWordError) as raised:
            read(column(1, 2, "?"))
        assert "Classes" not in str(raised.value)

    def test_the_first_of_several_strange_words_is_named(self):
        with pytest.raises(ValueError, match=r"row 1, .*'b' is .*\(nor are 'c', 'd'\)"):
            read(column("yes", "b", "c", "b", "d"))

    @pytest.mark.parametrize(
        ("cells", "cure"),
        [
            ([1.0, 2.0], 'naim3l fit --no 2, or no = ["2"] under [labels] in the settings'),
            (["yes", "not at all"], "--no 'not at all', or no = [\"not at all\"]"),
            ([1, 0, -1], "naim3l fit --no=-1 --unknown 0"),
        ],
        ids=str,
    )
    def test_commands_name_their_options(self, cells, cure):
        """In other processes, too, from which errors come as pickles."""
        with pytest.raises(LabelWordError) as raised:
            read(column(*cells))
        error = pickle.loads(pickle.dumps(raised.value))
        assert str(error) == str(raised.value)
        assert cure in error.for_commands and "decode_labels" not in error.for_commands

    @pytest.mark.parametrize(
        ("labels", "error"),
        [
            (None, "y is None"),
            (np.empty((2, 0)), "no columns"),
            (np.zeros((2, 2, 2)), "expected a table"),
            ([[1], [1, 0]], "rows of one length"),
            (pd.DataFrame([[1, 0]], columns=["x", "x"]), r"duplicate label names \['x'\]"),
        ],
        ids=["none", "no columns", "3-D", "ragged", "duplicate"],
    )
    def test_refused(self, labels, error):
        with pytest.raises(ValueError, match=f"^view 'a': .*{error}"):
            read(labels)


class TestWrittenWords:
    @pytest.mark.parametrize(
        ("columns", "words"),
        [
            ([["yes", "no", "?"], ["no", "yes", None]], ("yes", "no")),
            ([["Yes", "No"], ["yes", "no"]], ("yes", "no")),  # in several letter cases
            ([["Yes ", "No"], ["No", None]], ("Yes", "No")),
            ([[1.0, 2.0], [2, 9]], ("1", "2")),
            ([["1.0", "2"], [" 2.0", "9"]], ("1", "2")),
            ([[1, 0], [True, False]], None),
            ([[1, 0, None], [0, 1, 1]], ("1", "0")),
            ([["yes", "no"], ["y", "n"]], None),
            ([["yes", "no"], ["yes", "0"]], None),
            ([["yes", "?"], ["yes", "yes"]], None),  # no word for no
            ([["+", "-"]], ("+", "-")),
        ],
        ids=str,
    )
    def test_one_word_for_yes_and_one_for_no_in_all_labels(self, columns, words):
        frame = pd.DataFrame({k: pd.Series(cells, dtype=object) for k, cells in enumerate(columns)})
        survey = LabelSurvey.of(Batch(frame.rename(columns=str), "X", "label"))
        decoder = LabelDecoder.of(survey, LabelWords(no=("2",), unknown=("9",)))
        assert written_words(survey, decoder) == words


class TestDecodeLabels:
    def test_own_words_take_precedence(self):
        frame = pd.DataFrame({"flu": ["affected", "n", "refused"]}, index=[7, 8, 9])
        found = decode_labels(frame, yes=["affected"], no=["N"], unknown=["refused"])
        pd.testing.assert_frame_equal(found, pd.DataFrame({"flu": [1, 0, nan]}, index=[7, 8, 9]))
        assert_array_equal(decode_labels(["no", "yes"], yes=["no"], no=["yes"]), [1, 0])
        assert_array_equal(decode_labels([3, 4, 5], yes=[3], no=[4], unknown=[5]), [1, 0, nan])

    @given(signed_tables)
    def test_the_coding_of_the_paper(self, signed):
        expected = np.where(signed == 0, nan, signed > 0)
        for labels in (signed, signed.astype(float), sparse.csr_array(signed)):
            assert_array_equal(decode_labels(labels, coding="signed"), expected)

    def test_containers(self):
        words = {"x": ["yes", "no", None]}
        assert decode_labels(pl.DataFrame(words)).equals(pl.DataFrame({"x": [1.0, 0.0, nan]}))
        series = decode_labels(pd.Series(["y", "n"], name="x", index=["p", "q"]))
        pd.testing.assert_series_equal(series, pd.Series([1.0, 0.0], ["p", "q"], name="x"))
        assert_array_equal(decode_labels(pa.table(words))["x"], [1, 0, nan])

    def test_refused(self):
        with pytest.raises(ValueError, match="cannot mean both yes and no"):
            decode_labels(["a"], yes=["a"], no=[" A"])
        with pytest.raises(ValueError, match=r"coding must be one of \['words', 'signed'\]"):
            decode_labels([1], coding="binary")
        for labels in (np.array([[True]]), pd.DataFrame({"x": [True]})):
            with pytest.raises(ValueError, match="values are True and False, but with coding='sig"):
                decode_labels(labels, coding="signed")
        assert word(1.0) == word(True and 1) == word(" 1.") == word("1,0") == "1"
        assert word(pd.NA) == ""


class TestChunks:
    """What a word means can depend on words of other chunks."""

    CELLS = st.sampled_from(["yes", "no", "?", "-", "+", None, "1", "0", "-1", "maybe"])

    @given(cells=st.lists(CELLS, min_size=1, max_size=9), cuts=st.lists(st.integers(0, 9)))
    def test_chunks_are_decoded_as_the_whole(self, cells, cuts):
        frame = column(*cells)
        bounds = [0, *sorted(min(cut, len(cells)) for cut in cuts), len(cells)]
        parts = [frame.iloc[a:b] for a, b in pairwise(bounds)]
        batches = [Batch(part, "view 'a'", "label") for part in parts]

        def outcome(batches):
            survey = reduce(LabelSurvey.combine, map(LabelSurvey.of, batches))
            try:
                decoder = LabelDecoder.of(survey, USUAL_WORDS)
            except ValueError as error:
                return str(error).split(": ", 1)[1]
            return np.vstack([decoder.decode(batch) for batch in batches]).tolist()

        assert outcome(batches) == outcome([Batch(frame, "view 'a'", "label")])

    def test_numbers_and_words_in_different_chunks(self):
        batches = [Batch(table, "X", "label") for table in (pd.DataFrame({"x": [1, 0]}),
                   column("yes", None), pd.DataFrame({"x": [nan, 1.0]}))]  # fmt: skip
        survey = reduce(LabelSurvey.combine, map(LabelSurvey.of, batches))
        decoder = LabelDecoder.of(survey, USUAL_WORDS)
        assert [decoder.decode(batch).ravel().tolist() for batch in batches] == [
            [1, -1], [1, 0], [0, 1]
        ]  # fmt: skip

    def test_free_text_does_not_fill_the_memory(self):
        parts = [column(*(f"word {i}{k}" for i in range(MOST_WORDS))) for k in range(3)]
        survey = reduce(LabelSurvey.combine, (LabelSurvey.of(Batch(p, "X")) for p in parts))
        assert len(survey.words[0]) == MOST_WORDS


class TestNames:
    @pytest.mark.parametrize(
        ("columns", "names"),
        [(["x", "y"], ["x", "y"]), ([0, 1], None), ([7, 5], ["7", "5"]), ([1, 0], ["1", "0"])],
        ids=str,
    )
    def test_numbers_are_names_unless_they_only_count(self, columns, names):
        assert label_batch(pd.DataFrame([[1, 0]], columns=columns), "y")[0].columns == names

    def test_named_tables_are_matched_by_name(self):
        names = {"one": ["x", "y"], "two": ["y", "x"]}
        every, positions = match_labels(names, {"one": 2, "two": 2})
        assert every == ["x", "y"] and positions == {"one": [0, 1], "two": [1, 0]}

    def test_a_label_that_a_table_lacks_is_unknown_there(self):
        names = {"one": ["x", "y"], "two": ["x", "z"], "three": None}
        with (
            pytest.warns(DataWarning, match="view 'one': labels 'z' are in other views only"),
            pytest.warns(DataWarning, match="view 'two': labels 'y' are in other views only"),
        ):
            every, positions = match_labels(names, {"one": 2, "two": 2, "three": 3})
        assert every == ["x", "y", "z"]
        assert positions == {"one": [0, 1, None], "two": [0, None, 1], "three": [0, 1, 2]}

    def test_tables_without_names_are_taken_in_order(self):
        assert match_labels({"one": None}, {"one": 2})[0] == ["label0", "label1"]
        with pytest.raises(ValueError, match="view 'b': 3 label columns, but 2 in other views"):
            match_labels({"a": ["x", "y"], "b": None}, {"a": 2, "b": 3})

    def test_names_of_columns_and_paths_are_not_labels_of_tables_in_memory(self):
        for labels in ("a", ["a", "b"], ("b",)):
            with pytest.raises(TypeError, match="as labels; names of columns and paths are for"):
                refuse_names(labels, ["a", "b", "c"], "X")
        refuse_names(["yes", "no"], ["a", "b"], "X")


class TestRowsAndObservations:
    def indexes(self, one, two, **options):
        tables = (
            Batch(pd.DataFrame({"x": range(len(i))}, index=i), "view 'a'") for i in (one, two)
        )
        return compare_indexes(*tables, **options)

    def test_indexes(self):
        assert self.indexes([3, 4], [3, 4]) is None
        assert self.indexes([3, 4], [0, 1]) is None  # counts the rows
        assert self.indexes(["p", "q"], [5, 6], part=True) is None  # of a part of a table
        assert "for example 'p' and 5 in row 0" in self.indexes(["p", "q"], [5, 6])
        with pytest.raises(ValueError, match=r"view 'a': .*another order; .*labels\.loc\["):
            self.indexes(["p", "q"], ["q", "p"])

    def test_views_that_teach_nothing(self):
        good, none = np.array([True, True]), np.zeros(2, dtype=bool)
        with pytest.raises(ValueError, match="view 'b': no label is observed in it"):
            check_seen({"a": (good, good), "b": (none, none)}, ["x", "y"])
        with pytest.raises(ValueError, match="view 'b': no label is observed positive in it"):
            check_seen({"a": (good, good), "b": (none, good)}, ["x", "y"])

    @pytest.mark.parametrize("wide", [False, True])
    def test_labels_that_cannot_be_learned(self, wide):
        signed = {"a": np.array([[1, 0, -1, 0, 1]]), "b": np.array([[1, 0, 0, -1, -1]])}
        seen = {view: ((Y > 0)[0], (Y < 0)[0]) for view, Y in signed.items()}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            check_seen(seen, ["v", "w", "x", "y", "z"], wide=wide)
        assert all(issubclass(warning.category, DataWarning) for warning in caught)
        apart = ["labels observed positive in some views and negative only in others: ['z']"]
        assert [str(warning.message).split(";")[0] for warning in caught] == [
            "labels never observed: ['w']",
            "labels never observed positive: ['x', 'y']",
            "labels never observed negative: ['v']",
            *(apart if not wide else []),
        ]


PREDICTED = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1], [1, 0, 1]], dtype=float)
FILLED = np.where(SIGNED == 0, PREDICTED, SIGNED > 0)


def fill(labels, predicted=PREDICTED):
    return fill_unknown(read(labels), np.asarray(predicted, dtype=float))


class TestFilling:
    @pytest.mark.parametrize("kind", [kind for kind in DENSE if kind != "pandas sparse"])
    def test_containers_and_known_entries_are_kept(self, kind):
        labels = DENSE[kind](BINARY)
        filled = fill(labels)
        assert type(filled) is type(Batch(labels, "y").data)
        assert_array_equal(Batch(filled, "y").numbers(), FILLED)
        assert_array_equal(Batch(labels, "y").numbers(), BINARY)  # not changed in place

    @pytest.mark.parametrize(
        ("build", "dtype"),
        [
            *((pd.Series, t) for t in ("float64", "Int64", "boolean", "int8[pyarrow]", object)),
            *((pl.Series, t) for t in (pl.Int64, pl.UInt8, pl.Float32, pl.Boolean)),
        ],
        ids=lambda value: getattr(value, "__name__", str(value)),
    )
    def test_columns_keep_type_name_and_index(self, build, dtype):
        for cells, expected in (([1, 0, None, None], [1, 0, 1, 0]), ([None] * 4, [0, 1, 1, 0])):
            labels = build(cells)
            labels = (
                labels.cast(dtype) if build is pl.Series else labels.astype("Int64").astype(dtype)
            )
            labels = labels.rename("tag")
            if build is pd.Series:
                labels.index = [5, 5, 9, 2]
            filled = fill(labels, [[0], [1], [1], [0]])
            assert isinstance(filled, build) and filled.name == "tag"
            assert filled.dtype == labels.dtype
            assert filled.to_list() == expected
            if build is pd.Series:
                assert filled.index.tolist() == [5, 5, 9, 2]

    @pytest.mark.parametrize(
        ("cells", "expected"),
        [
            (["yes", "no", "?"], ["yes", "no", "yes"]),
            (["POS", None, "unknown"], ["POS", "NEG", "POS"]),
            (["no", None, ""], ["no", "no", "yes"]),
            (["+", "-", "?"], ["+", "-", "+"]),
            (["1", "-1", "?"], ["1", "-1", "1"]),
            (["-1", "?", "?"], ["-1", "-1", "1"]),
            (["oui", "?", None], ["oui", "non", "oui"]),
            (["?", "Non", None], ["Oui", "Non", "Oui"]),
            (["?", None, "-"], ["yes", "no", "yes"]),
        ],
        ids=str,
    )
    def test_in_the_words_of_the_column(self, cells, expected):
        """Where only yes or only no is known, the usual partner of the word."""
        values = [[1], [0], [1]]
        frames = [column(*cells), column(*cells, dtype="category"), pl.DataFrame({"x": cells}),
                  pa.table({"x": cells})]  # fmt: skip
        for frame in frames:
            filled = Batch(fill(frame, values), "y")
            assert type(filled.data) is type(frame) and filled.cells(0) == expected
        assert (
            fill(np.array([[cell] for cell in cells], dtype=object), values).ravel().tolist()
            == expected
        )
        words = np.array([[cell or "?"] for cell in cells])  # of as many letters as the longest
        assert fill(words, values).ravel().tolist() == expected

    def test_columns_of_different_types_side_by_side(self):
        frame = pd.DataFrame(
            {"x": [1.0, nan], "y": pd.array([None, True], dtype="boolean"), "z": [1, 0]},
            index=["p", "p"],
        )
        filled = fill(frame, [[0, 0, 0], [1, 1, 1]])
        expected = pd.DataFrame(
            {"x": [1.0, 1.0], "y": pd.array([False, True], dtype="boolean"), "z": [1, 0]},
            index=["p", "p"],
        )
        pd.testing.assert_frame_equal(filled, expected)

    @pytest.mark.parametrize(
        "labels",
        [
            pd.DataFrame({"x": pd.Categorical([1, None])}),
            pd.DataFrame({"x": pd.arrays.SparseArray([1, nan])}),
            pl.DataFrame({"x": pl.Series(["1", None], dtype=pl.Enum(["1"]))}),
        ],
        ids=["categories", "pandas sparse", "polars enum"],
    )
    def test_a_type_that_cannot_hold_the_value_is_widened(self, labels):
        filled = Batch(fill(labels, [[0], [0]]), "y").cells(0)
        assert [float(cell) for cell in filled] == [1, 0]

    @pytest.mark.parametrize("build", [pl.DataFrame, pa.table])
    def test_a_column_of_nulls(self, build):
        filled = fill(build({"x": [None, None]}), [[1], [0]])
        assert_array_equal(Batch(filled, "y").numbers(), [[1], [0]])

    def test_one_dimension_stays_one(self):
        assert_array_equal(fill([1, None], [[0], [0]]), [1, 0])
        assert_array_equal(fill(np.array([0, 1]), [[1], [0]]), [0, 1])

    @pytest.mark.parametrize("kind", ["numpy", "numpy object", "pandas", "polars null", "pyarrow"])
    def test_what_could_not_be_predicted_stays_unknown(self, kind):
        values = np.full((2, 2), nan)
        values[0] = 1
        filled = fill(DENSE[kind](np.array([[nan, 0], [nan, 0]])), values)
        assert_array_equal(Batch(filled, "y").numbers(), [[1, 0], [nan, 0]])

    @given(signed_tables, st.randoms())
    def test_known_entries_stay_and_unknown_ones_are_predicted(self, signed, random):
        predicted = np.array([[random.choice([1.0, 0.0]) for _ in row] for row in signed])
        binary = np.where(signed == 0, nan, signed > 0)
        for kind in ("numpy", "pandas nullable", "polars null"):
            filled = fill(DENSE[kind](binary), predicted)
            expected = np.where(signed == 0, predicted, signed > 0)
            assert_array_equal(Batch(filled, "y").numbers(), expected)
