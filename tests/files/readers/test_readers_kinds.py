"""What a column holds where its cells are not all alike, and which decimal sign it has."""

import numpy as np
import pandas as pd
import pytest

from naim3l import DataWarning
from naim3l.files.readers import ReadError, guess_roles, parse_features, read_table

NAN = np.nan


@pytest.fixture
def write(tmp_path):
    """Function that writes rows of text, and gives the path."""

    def write_file(header, rows, separator=","):
        lines = [separator.join(row) for row in [header, *rows]]
        (tmp_path / "lab.csv").write_text("\n".join(lines) + "\n")
        return tmp_path / "lab.csv"

    return write_file


def column(cells):
    return pd.DataFrame({"x": pd.Series(cells, dtype=object)})


def numbers(n, start=1):
    return [str(i) for i in range(start, start + n)]


# Odd cells


def test_one_odd_cell_does_not_make_a_column_text(write):
    rows = [[cell, "1"] for cell in [*numbers(10), "<0.5", *numbers(9, 11)]]
    table = read_table(write(["x", "y"], rows))
    match = r"lab\.csv, row 10 \(line 12\), column 'x': '<0\.5' is not a number\. .* missing"
    with pytest.warns(DataWarning, match=match):
        features, text = parse_features(table)
    assert text == []
    np.testing.assert_array_equal(features["x"], [*range(1, 11), NAN, *range(11, 20)])


def test_odd_cells_are_counted_and_words_for_missing_ones_are_none():
    cells = ["?", "low", *numbers(36), "NA", "high", "low", "low"]
    with pytest.warns(DataWarning, match=r"row 1, .*'low' is not a number \(4 of 40 cells"):
        features, text = parse_features(column(cells))
    assert text == [] and features["x"].isna().sum() == 6


@pytest.mark.parametrize(
    "cells",
    [
        [*numbers(8), "low", "low"],
        [*numbers(6), *["<0.5"] * 14],  # mostly below what can be measured
        [*numbers(2), "1.5", "2,5", "3,5"],
        [*numbers(8), "12 %", "15%"],
    ],
)
def test_numbers_and_text_in_one_column_stop_unless_the_odd_cells_are_few(cells):
    with pytest.raises(ReadError, match=r"is not a number.*text = \['x'\].*ignore") as caught:
        parse_features(column(cells))
    first = next(i for i, cell in enumerate(cells) if not cell.replace(".", "").isdigit())
    assert f"row {first}, column 'x': {cells[first]!r}" in str(caught.value)
    features, text = parse_features(column(cells), text=["x"])
    assert text == ["x"] and features["x"].tolist() == cells
    ignored = guess_roles(column([*cells]).assign(y=range(len(cells)))).ignored
    assert f"no numbers, such as {cells[first]!r}" in ignored["x"]


@pytest.mark.parametrize(
    "cells",
    [
        ["north", "south", "7"] * 5,
        ["<18", ">=18", "<18"],  # groups, of which none is a number
        ["1 of 3", "2 of 3", "3"],
    ],
)
def test_columns_mostly_of_words_are_text(cells):
    features, text = parse_features(column(cells))
    assert text == ["x"] and features["x"].tolist() == cells


def test_codes_among_numbers_are_text_and_this_is_said():
    codes = ["250", "250.10", "401.9", "276"] * 20 + ["V45", "V57.1", "E11"]
    with pytest.warns(DataWarning, match=r"row 80, .*'V45'.*codes.*read as text; text = \['x'\]"):
        features, text = parse_features(column(codes))
    assert text == ["x"] and features["x"].tolist() == codes  # 250.10 is not 250.1
    features, text = parse_features(column(codes), text=["x"])
    assert text == ["x"]
    with pytest.warns(DataWarning, match="'V45' is not a number"):  # one is a slip
        assert parse_features(column(codes[:81]))[1] == []


def test_columns_that_are_said_to_be_text_are_read_as_they_are_written(write):
    path = write(["ward", "x"], [["007", "1"], ["1.10", "2"], ["", "3"]])
    table = read_table(path, text_columns=["ward", "gone"])
    features, text = parse_features(table, text=["ward"])
    assert text == ["ward"] and features["ward"].tolist() == ["007", "1.10", None]
    assert features["x"].tolist() == [1, 2, 3]


# Decimal signs


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_each_column_has_its_own_decimal_sign(write, separator):
    rows = [["1.5", "1,25", "7"], ["2.25", "3", "8"], ["", "-,5e1", "9"]]
    table = read_table(write(["x", "y", "z"], rows, separator))
    assert list(table.columns) == ["x", "y", "z"]
    np.testing.assert_array_equal(table, [[1.5, 1.25, 7], [2.25, 3, 8], [NAN, -5, 9]])


def test_the_decimal_sign_is_that_of_all_rows(write):
    """Not that of the first lines, and whatever words for missing cells are there."""
    rows = [[str(i), str(i)] for i in range(300)] + [["0,5", "0,25"], ["1", "unknown"]]
    features, text = parse_features(read_table(write(["x", "y"], rows, ";")))
    assert text == [] and features["x"].tolist() == [*range(300), 0.5, 1]
    np.testing.assert_array_equal(features["y"], [*range(300), 0.25, NAN])


def test_the_other_decimal_sign_in_a_column_is_an_odd_cell(write):
    rows = [[f"{i},25", "1"] for i in range(20)] + [["7.5", "2"]]
    table = read_table(write(["x", "y"], rows, ";"))
    with pytest.warns(DataWarning, match=r"row 20 \(line 22\), column 'x': '7\.5' is not a number"):
        features, _ = parse_features(table)
    np.testing.assert_array_equal(features["x"], [*(np.arange(20) + 0.25), NAN])


@pytest.mark.parametrize(
    ("separator", "cells"),
    [
        (";", ["12,5", "1.234,5", "1.234", "3"]),
        (";", ["950", "1.234.567", "12", "13"]),
        (";", ["1,234.5", "7.5", "8", "9"]),
        ("\t", ["1 234,5", "12", "3,5", "4"]),
        (",", ['"1,234"', "950", "12", "13"]),  # as spreadsheets write it
    ],
)
def test_thousands_separators_stop_however_few(write, separator, cells):
    rows = [[cell, "1"] for cell in [*cells, *numbers(100)]]
    table = read_table(write(["x", "y"], rows, separator))
    with pytest.raises(ReadError, match=r"lab\.csv, row \d+ \(line \d+\), column 'x': '1.234"):
        parse_features(table)


@pytest.mark.parametrize("cells", [["950", "1,234", "12,500"], ["950", "1.234", "12.500"]])
def test_what_may_be_thousands_is_read_with_a_warning(write, cells):
    for more in ([], ["unknown"]):  # a plain column of numbers, and one that is read by cell
        table = read_table(write(["x", "y"], [[cell, "a"] for cell in [*cells, *more]], ";"))
        match = r"column 'x': numbers such as '1.234' are read with a decimal (comma|point)"
        with pytest.warns(DataWarning, match=match):
            features, _ = parse_features(table[["x"]])
        assert features["x"].tolist()[:3] == [950, 1.234, 12.5]
    parse_features(table[["y"]])  # nothing is said of columns that are not used


@pytest.mark.parametrize(
    "cells",
    [
        ["9500", "1,234"],  # has no separator where it would need one
        ["1,234", "12,500"],  # either way of reading them differs in scale alone
        ["950", "1,234", "2,5"],
        ["950", "0.234", "1.234"],
        ["950.0", "1.234"],
    ],
)
def test_what_cannot_be_thousands_is_read_without_a_word(write, cells):
    table = read_table(write(["x", "y"], [[cell, "1"] for cell in cells], ";"))
    features, text = parse_features(table)
    assert text == []
    assert features["x"].tolist() == [float(cell.replace(",", ".")) for cell in cells]
