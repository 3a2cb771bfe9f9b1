"""Columns by name and by guess; labels in words; features as numbers or text."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naim3l.files.readers import (
    ReadError,
    choose_columns,
    guess_roles,
    parse_features,
    parse_labels,
    read_table,
)
from naim3l.files.readers.cells import NO, UNKNOWN, YES
from naim3l.files.readers.columns import label_likeness
from naim3l.files.readers.features import parse_known

NAN = np.nan


@pytest.fixture
def messy(tmp_path):
    """A table as it comes: words, gaps, notes and dates."""
    path = tmp_path / "messy.csv"
    path.write_text(
        "patient_id;age;bp;ward;seen;note;site;flu;gout;smokes\n"
        "P1;61,5;120;a;2020-01-05;came late, left early;x;yes;NO;1\n"
        "P2;31;NA;b;2020-02-05;nothing;x;unknown;Yes;0\n"
        "\n"
        "P3;47;118;a;2020-03-05;?;x;no;?;1\n"
        "P4;;117;a;2021-03-05;much to say;x;no;;1\n"
    )
    return path


def column(cells, dtype=object):
    return pd.DataFrame({"y": pd.Series(cells, dtype=dtype)})


# Choosing


def test_names_patterns_and_lists(tmp_path):
    columns = ["id", "flu", "lab_hb", "lab_crp", "a*"]
    (tmp_path / "names.txt").write_text("flu\n\n lab_h* \n")
    assert choose_columns(columns, "flu") == ["flu"]
    assert choose_columns(columns, ["lab_*", "id", "lab_hb"]) == ["lab_hb", "lab_crp", "id"]
    assert choose_columns(columns, ["a*"]) == ["a*"]
    assert choose_columns([*columns, "ab"], ["a*"]) == ["a*"]
    assert choose_columns(columns, [f"@{tmp_path / 'names.txt'}"]) == ["flu", "lab_hb"]
    assert choose_columns(["@x"], ["@x"]) == ["@x"]
    assert choose_columns(columns, []) == []


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("Flue", r"clinic\.csv: no column 'Flue'; did you mean 'flu'\?"),
        ("zzz*", "no column 'zzz.'; there are 'id', 'flu'"),
        ("FLU", r"did you mean 'flu'\?"),
        ("@nowhere.txt", "nowhere.txt: there is no such file"),
    ],
)
def test_unknown_names(pattern, message):
    with pytest.raises(ReadError, match=message):
        choose_columns(["id", "flu"], [pattern], where="clinic.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "no names"), (b"\xff\xff", "UTF-8"), (b"@names.txt\n", "another one")],
)
def test_bad_lists_of_names(tmp_path, content, message):
    (tmp_path / "names.txt").write_bytes(content)
    with pytest.raises(ReadError, match=message):
        choose_columns(["id"], [f"@{tmp_path / 'names.txt'}"])


# Guessing


def test_roles_of_a_messy_table(messy):
    roles = guess_roles(read_table(messy))
    assert roles.id == "patient_id"
    assert roles.labels == ["flu", "gout"]
    assert roles.features == ["age", "bp", "ward", "seen", "smokes"]
    assert roles.perhaps == ["smokes"]
    assert roles.ignored == {
        "note": "free text, 3 different values in 3 rows",
        "site": "constant, 'x' throughout",
    }
    assert set(roles.reasons) == {"patient_id", "flu", "gout"}
    assert guess_roles(read_table(messy)) == roles
    assert guess_roles(read_table(messy, id_column="patient_id")).id == "patient_id"


def test_columns_of_0_and_1_are_labels_where_no_other_is():
    table = pd.DataFrame({"x": [0.5, 1.5, 2.5], "a": [0, 1, 1], "b": [1, NAN, 0], "c": [0, 0, 0]})
    roles = guess_roles(table)
    assert roles.labels == roles.perhaps == ["a", "b"]
    assert roles.features == ["x"]
    assert roles.ignored == {"c": "constant, 0.0 throughout"}


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"x": [1, 2], "id": ["a", "b"]}, "id"),
        ({"sample_id": ["a", "b"], "ID": [3, 4]}, "ID"),
        ({"patientId": [1, 2]}, "patientId"),
        ({"unnamed_1": [0, 1], "x": [1.5, 2]}, "unnamed_1"),
        ({"patient": ["P1", "P2"], "x": [1, 2]}, "patient"),
        ({"id": ["a", "a"]}, None),
        ({"id": ["a", None]}, None),
        ({"id": [1.5, 2.5]}, None),
        ({"id": [True, False]}, None),
        ({"id": [[1], [2]]}, None),
        ({"paid": [1, 2], "x": [3, 4]}, None),
        ({"patient": ["Ann", "Bob"]}, None),
    ],
)
def test_which_column_is_the_id(columns, expected):
    assert guess_roles(pd.DataFrame(columns)).id == expected


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["yes", "no", "unknown"], "sure"),
        (["Y", None], "sure"),
        ([True, False], "sure"),
        (["+", "-"], "sure"),
        (["present", "absent", "?"], "sure"),
        ([1, 0], "perhaps"),
        ([1.0, -1.0, NAN], "perhaps"),
        (["1", "0", "na"], "perhaps"),
        ([1, 0, -1], None),
        (["f", "m"], None),
        (["?", None], None),
        ([1, 2], None),
        ([[1], [2]], None),
    ],
)
def test_what_looks_like_a_label(cells, expected):
    assert label_likeness(pd.Series(cells)) == expected


def test_useless_columns():
    table = pd.DataFrame(
        {"x": [1, 2, 3], "empty": [None, "?", "NA"], "lists": [[1], [2], [3]], "raw": [b"a"] * 3}
    )
    ignored = guess_roles(table).ignored
    assert ignored["empty"] == "empty"
    assert ignored["lists"].startswith("neither numbers nor text, such as [1]")
    assert ignored["raw"].startswith("neither numbers nor text")


# Labels


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["yes", " No ", "UNKNOWN", "", None], [1, 0, NAN, NAN, NAN]),
        (["ja", "nein", "-"], [1, 0, NAN]),
        (["+", "-", "?"], [1, 0, NAN]),
        (["positive", "absent", "n/a"], [1, 0, NAN]),
        ([1, 0, NAN], [1, 0, NAN]),
        ([1.0, -1.0], [1, 0]),
        (["1", "0.0", "+1", "-1.0"][:3], [1, 0, 1]),
        ([True, False, None], [1, 0, NAN]),
        ([pd.NA, pd.NaT, None], [NAN, NAN, NAN]),
    ],
)
def test_words_of_labels(cells, expected):
    labels = parse_labels(column(cells))
    assert labels["y"].dtype == float
    np.testing.assert_array_equal(labels["y"], expected)


def test_every_type_of_column():
    for dtype in ("Int64", "Float64", "boolean", "category", "int8"):
        cells = [1, 0, 1] if dtype == "int8" else [1, 0, None]
        expected = [1, 0, 1] if dtype == "int8" else [1, 0, NAN]
        np.testing.assert_array_equal(parse_labels(column(cells, dtype))["y"], expected)
    words = column(["yes", None, "no"], "string")
    np.testing.assert_array_equal(parse_labels(words)["y"], [1, NAN, 0])


def test_words_of_ones_own_come_first():
    table = column(["affected", "none", "1", "2.0", "yes"])
    labels = parse_labels(table, yes=["Affected", "2"], no="none", unknown=[" 1 "])
    np.testing.assert_array_equal(labels["y"], [1, 0, NAN, 1, 1])
    signed = parse_labels(column([1, 0, -1]), unknown=["0"])
    np.testing.assert_array_equal(signed["y"], [1, NAN, 0])
    with pytest.raises(ReadError, match="'X' cannot mean both yes and no"):
        parse_labels(table, yes=["x"], no=["X"])


def test_index_and_names_are_kept(messy):
    table = read_table(messy, id_column="patient_id")
    labels = parse_labels(table[["gout", "flu"]])
    assert list(labels.columns) == ["gout", "flu"]
    assert labels.index.equals(table.index)
    np.testing.assert_array_equal(labels["gout"], [0, 1, NAN, NAN])
    assert parse_labels(table[[]]).shape == (4, 0)


def test_a_bad_label_is_named_with_its_place(messy):
    table = read_table(messy)
    messy.write_text(messy.read_text().replace("Yes", "yess"))
    with pytest.raises(ReadError) as caught:
        parse_labels(read_table(messy)[["flu", "gout"]])
    message = str(caught.value)
    assert "messy.csv, row 1 (line 3), column 'gout': 'yess' is not a known label" in message
    for part in ("allowed are yes (1, yes", "no (0", "unknown (?", "yes=, no= or unknown="):
        assert part in message
    with pytest.raises(ReadError, match=r"row 0 \(line 2\), column 'ward': 'a'.*nor are 'b'"):
        parse_labels(table[["ward"]])
    with pytest.raises(ReadError, match=r"messy\.csv, row 0, column 'ward'"):
        parse_labels(table[["ward"]].iloc[:2])  # whose lines are no longer known
    with pytest.raises(ReadError, match="row 2, column 'y': both 0 and -1 occur"):
        parse_labels(column([1, 0, -1]))
    with pytest.raises(ReadError, match=r"column 'y'.*such as \[1\]"):
        parse_labels(column([[1], [0]]))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(sorted({*YES, *NO, *UNKNOWN} - {"-", "-1"})), min_size=1),
    st.sampled_from([str, str.upper, str.title, " {} ".format]),
)
def test_words_mean_the_same_in_every_spelling(words, spell):
    labels = parse_labels(column([spell(word) for word in words]))["y"]
    for value, entry in zip(labels, words, strict=True):
        assert (value == 1) == (entry in YES)
        assert (value == 0) == (entry in NO)


# Features


def test_features_of_a_messy_table(messy):
    table = read_table(messy, id_column="patient_id")
    features, text = parse_features(table[["age", "bp", "ward", "smokes"]])
    assert text == ["ward"]
    np.testing.assert_array_equal(features["age"], [61.5, 31, 47, NAN])
    np.testing.assert_array_equal(features["bp"], [120, NAN, 118, 117])
    assert features["ward"].tolist() == ["a", "b", "a", "a"]
    assert features.index.equals(table.index)
    features, text = parse_features(table, ignore=["seen", "flu"])
    assert "seen" not in features and "flu" not in features
    assert features["note"].tolist() == ["came late, left early", "nothing", None, "much to say"]


def test_decimal_commas_beside_missing_words(tmp_path):
    (tmp_path / "a.csv").write_text("x;y\n1,5;1,5\nNA;2,5\n")
    table = read_table(tmp_path / "a.csv")
    features, text = parse_features(table)
    np.testing.assert_array_equal(features["x"], [1.5, NAN])
    assert text == []


@pytest.mark.parametrize(
    "cells",
    [["1_000", "2"], ["0x1", "2"], ["1 2", "3"], ["٣", "1"], ["1.2.3", "1"]],
)
def test_columns_of_which_half_spell_no_number_stay_text(cells):
    features, text = parse_features(column(cells))
    assert text == ["y"] and features["y"].tolist() == cells


def test_whole_numbers_of_any_length(tmp_path):
    (tmp_path / "a.csv").write_text(f"x,y\n{'9' * 400},1\n-{'9' * 400},2\n3,3\n")
    with pytest.raises(ReadError, match=r"a\.csv, row 0 \(line 2\), column 'x': '?99.*is infinite"):
        parse_features(read_table(tmp_path / "a.csv"))


def test_numbers_of_every_type():
    for cells, dtype in [
        ([1, None], "Int64"),
        ([True, None], "boolean"),
        ([True, None], object),
        ([Decimal("1.0"), None], object),
        (["1", "n/a"], "string"),
        (["1e0", "?"], "category"),
        ([1, None], "category"),
        ([1.0, NAN], "float32"),
    ]:
        features, text = parse_features(column(cells, dtype))
        assert text == [] and features["y"].dtype == float
        np.testing.assert_array_equal(features["y"], [1, NAN])
    with pytest.raises(ReadError, match="row 1, column 'y': '-inf' is infinite, or beyond 1e"):
        parse_features(column(["1", "-inf"]))
    with pytest.raises(ReadError, match=r"row 0, column 'y': 1e\+200 is infinite, or beyond 1e"):
        parse_features(column([1e200, 1.0], float))


@pytest.mark.parametrize(
    "cells",
    [
        ["2020-01-05", "2020-1-6", "?"],
        ["2020-01-05T10:00:00Z"],
        [datetime.date(2020, 1, 5), None],
        pd.to_datetime(["2020-01-05", None]),
        pd.to_timedelta([1, 2], unit="D"),
    ],
)
def test_dates_are_neither_numbers_nor_text(cells):
    features, text = parse_features(pd.DataFrame({"y": cells}))
    assert text == [] and features["y"].dtype == object
    read = parse_known(pd.DataFrame({"y": cells}), [], ["y"], takes_missing=True)
    assert [str(cell) for cell in read["y"]] == [str(cell) for cell in features["y"]]


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        (["5.1.2020", "06.01.20"], "the order of day and month is ambiguous"),
        (["1/5/2020 10:30", "1/6/2020 11:00:05"], "the order of day and month is ambiguous"),
        (["1.2.10", "1.3.11"], "the order of day and month is ambiguous"),
        (["2020-02-29", "2020-02-30"], "there is no such day"),
    ],
)
def test_dates_that_cannot_be_read_are_refused_by_name(cells, why):
    table = pd.DataFrame({"y": cells})
    where = rf"the table, column 'y': '{cells[-1] if 'such' in why else cells[0]}' .*{why}"
    with pytest.raises(ReadError, match=rf"{where}.*text = \['y'\]"):
        parse_features(table)
    assert why in guess_roles(table).ignored["y"]
    assert parse_features(table, text=["y"])[1] == ["y"]


def test_dates_where_training_had_numbers():
    days = pd.DataFrame({"y": pd.to_datetime(["2020-01-05"])})
    with pytest.raises(ReadError, match=r"column 'y': dates, such as .*In training .* numbers"):
        parse_known(days, [], takes_missing=True)


@pytest.mark.parametrize("cells", [[[1], [2]], [b"a", b"b"], [1j, 2j], [{}, {}]])
def test_other_cells_are_refused_by_name(cells):
    with pytest.raises(ReadError, match="column 'y': neither numbers nor text"):
        parse_features(pd.DataFrame({"y": cells}))
