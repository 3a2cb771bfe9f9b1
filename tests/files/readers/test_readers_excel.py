"""Sheets of Excel workbooks, and files that are no such workbooks."""

import datetime
import sqlite3
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from fuzz.damage import unzip, zipped
from naim3l.files.readers import (
    ReadError,
    excel,
    guess_roles,
    parse_features,
    parse_labels,
    read_table,
)
from workbooks import make_workbook

PLAIN = [["id", "x", "flu"], ["007", 1.5, "yes"], ["008", 2, "no"]]


@pytest.fixture
def write(tmp_path):
    """Function that writes sheets, or bytes, and gives the path of the file."""

    def write_file(content, name="table.xlsx", **options):
        path = tmp_path / name
        is_bytes = isinstance(content, bytes)
        path.write_bytes(content if is_bytes else make_workbook(content, **options))
        return path

    return write_file


@pytest.mark.parametrize("shared", [True, False])
def test_cells_have_the_types_of_the_sheet(write, shared):
    day = datetime.datetime(2020, 1, 2)
    rows = [
        ["id", "number", "whole", "text", "truth", "day", "mixed"],
        ["007", 1.5, 3, "1.5", True, day, 1],
        ["008", None, 4, "<&>", False, day, "?"],
    ]
    table = read_table(write({"all": rows}, shared=shared), id_column="id")
    assert list(table.index) == ["007", "008"]
    assert table["number"].dtype == float and table["number"].isna().tolist() == [False, True]
    assert table["whole"].dtype == int and table["whole"].tolist() == [3, 4]
    assert table["text"].tolist() == ["1.5", "<&>"]
    assert table["truth"].tolist() == [True, False]
    assert pd.to_datetime(table["day"]).tolist() == [day, day]
    assert table["mixed"].tolist() == [1, "?"]


def test_labels_and_features_are_those_of_the_same_csv_file(write, tmp_path):
    rng = np.random.default_rng(0)
    rows = [[f"p{i}", rng.integers(90), round(rng.normal(), 3), ("yes", "no", None)[i % 3],
             ("red", "blue")[i % 2]] for i in range(30)]  # fmt: skip
    rows[4][2] = None
    rows = [[cell.item() if isinstance(cell, np.generic) else cell for cell in row] for row in rows]
    names = ["id", "age", "crp", "flu", "ward"]
    pd.DataFrame(rows, columns=names).to_csv(tmp_path / "table.csv", index=False)
    sources = (write({"s": [names, *rows]}), tmp_path / "table.csv")
    sheet, text = (read_table(source, id_column="id") for source in sources)
    roles = guess_roles(sheet)
    assert roles == guess_roles(text) and roles.labels == ["flu"]
    for found, expected in zip(parse_features(sheet[roles.features]),
                               parse_features(text[roles.features]), strict=True):  # fmt: skip
        if isinstance(found, pd.DataFrame):
            pd.testing.assert_frame_equal(found, expected)
        else:
            assert found == expected
    pd.testing.assert_frame_equal(parse_labels(sheet[["flu"]]), parse_labels(text[["flu"]]))


def test_empty_rows_and_columns_are_left_out_and_lines_are_those_of_the_sheet(write):
    rows = [[], ["id", "flu", None], [], *PLAIN[1:], [None, None, None]]
    rows[3:5] = [["007", "yes", None], ["008", "perhaps", None]]
    table = read_table(write({"s": rows}), id_column="id")
    assert table.shape == (2, 1)
    with pytest.raises(ReadError, match=r"table.xlsx#s, row 1 \(line 5\), column 'flu': 'perhaps'"):
        parse_labels(table)


def test_errors_in_cells_are_missing(write):
    table = read_table(write({"s": [["x", "y"], [1, 2], ["#N/A", 3], ["#DIV/0!", 4]]}))
    assert table["x"].isna().tolist() == [False, True, True]


def test_head_of_a_sheet(write):
    rows = [["x"], *([i] for i in range(9))]
    assert read_table(write({"s": rows}), n_rows=3)["x"].tolist() == [0, 1, 2]


def test_one_of_several_sheets(write):
    path = write({"first visit": PLAIN, "notes": [], "second": [["y"], [1]]})
    assert read_table(f"{path}#first visit").shape == (2, 3)
    assert read_table(f"{path}#second").shape == (1, 1)
    with pytest.raises(ReadError, match=r"several sheets, 'first visit', 'second'; name one, such"):
        read_table(path)
    with pytest.raises(ReadError, match=r"no sheet 'secnod'; did you mean 'second'"):
        read_table(f"{path}#secnod")
    assert read_table(write({"empty": [], "s": PLAIN}, "other.xlsx")).shape == (2, 3)


def test_names_that_two_columns_have(write):
    with pytest.raises(ReadError, match=r"table.xlsx#s: columns 1 and 2 are both named '2020'"):
        read_table(write({"s": [[2020, 2020], [1, 2]]}))


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"x", "table.xlsx: cannot be read as the format of its extension"),
        (b"\xd0\xcf\x11\xe0" + bytes(600), "an old or an encrypted workbook"),
        ({"s": []}, "table.xlsx#s: an empty sheet"),
        ({"s": [["x", "y"]]}, "table.xlsx#s: no rows"),
        ({"s": [["x"], [1], *[[]] * 99_997, [None] * 200 + [1]]},
         "a sheet of 100000 rows and 201 columns, but 3 cells; delete stray cells"),
    ],
    ids=["no workbook", "encrypted", "empty", "no rows", "stray cell"],
)  # fmt: skip
def test_refused(write, content, error):
    with pytest.raises(ReadError, match=error):
        read_table(write(content))


def test_rows_in_another_order_are_refused_in_sheets_alone(write):
    """Other parts name cells in any order, for example that in which they are computed."""
    parts = unzip(make_workbook({"s": PLAIN}))
    parts["xl/calcChain.xml"] = b'<calcChain><c r="C3"/><c r="A1"/><c r="XFD9999999"/></calcChain>'
    assert read_table(write(zipped(parts))).shape == (2, 3)
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = parts[sheet].replace(b'r="1"', b'r="9"')
    with pytest.raises(ReadError, match="a damaged sheet, whose rows are not in order"):
        read_table(write(zipped(parts)))


def test_places_of_cells_are_found_across_chunks(write, monkeypatch):
    monkeypatch.setattr(excel, "_CHUNK", 7)
    path = write({"s": [["x"], [1], *[[]] * 99_997, [None] * 200 + [1]]})
    with pytest.raises(ReadError, match="a sheet of 100000 rows and 201 columns, but 3 cells"):
        read_table(path)


def test_a_panic_of_the_library_is_an_error(write, monkeypatch):
    import python_calamine

    class PanicException(BaseException):
        pass

    def panic(path):
        raise PanicException

    class Workbook:
        from_path = staticmethod(panic)

    monkeypatch.setattr(python_calamine, "CalamineWorkbook", Workbook)
    with pytest.raises(ReadError, match=r"table.xlsx: a damaged workbook"):
        read_table(write({"s": PLAIN}))


@pytest.mark.parametrize("ending", ["xls", "xlsm", "xlsb", "ods"])
def test_other_spreadsheets(write, ending):
    with pytest.raises(ReadError, match=r"of another kind; save it as .xlsx, or as CSV"):
        read_table(write(b"x", f"table.{ending}"))


def test_without_the_library_the_error_names_the_extra(write):
    program = (
        "import sys; sys.modules['python_calamine'] = None\n"
        "from naim3l.files.readers import read_table\n"
        "try: read_table(sys.argv[1])\n"
        "except ImportError as error: print(error)\n"
    )
    command = [sys.executable, "-c", program, str(write({"s": PLAIN}))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Excel workbooks need python-calamine: pip install 'naim3l[excel]'" in done.stdout


@pytest.mark.parametrize("ending", ["db", "sqlite", "sqlite3"])
@pytest.mark.parametrize(("table", "quoted"), [("tests", "tests"), ('a "b"', '"a ""b"""')])
def test_a_database_is_answered_with_a_query_that_works(tmp_path, ending, table, quoted):
    path = tmp_path / f"lab.{ending}"
    with pytest.raises(ReadError, match=r"there is no such file"):
        read_table(path)
    connection = sqlite3.connect(path)
    connection.execute(f"create table {quoted} (id text, hb real)")
    connection.execute(f"insert into {quoted} values ('p', 1.5)")
    connection.commit()
    connection.close()
    with pytest.raises(ReadError) as error:
        read_table(path)
    source = f"sqlite:///{path}#select * from {quoted}"
    assert f"'{source}' (needs naim3l[sql])" in str(error.value)
    assert read_table(source)["hb"].tolist() == [1.5]


def test_a_file_that_is_no_database(write):
    with pytest.raises(ReadError, match=r"lab.db#select \* from TABLE'"):
        read_table(write(b"text", "lab.db"))
