"""Sheets of Excel workbooks, and files that are no such workbooks."""

import datetime
import subprocess
import sys

import pandas as pd
import pytest

from model_files import unzip, zipped
from naim3l.files import spreadsheets
from naim3l.files.errors import ReadError
from naim3l.files.tables import open_table
from workbooks import make_workbook

PLAIN = [["id", "x", "flu"], ["007", 1.5, "yes"], ["008", 2, "no"]]
STRAY = {"s": [["x"], [1], *[[]] * 99_997, [None] * 200 + [1]]}


@pytest.fixture
def write_book(write):
    """Function that writes sheets, or bytes, and gives the path of the file."""

    def write_file(content, **options):
        is_bytes = isinstance(content, bytes)
        return write(content if is_bytes else make_workbook(content, **options), "table.xlsx")

    return write_file


def read(source):
    return open_table(source).read()[0]


@pytest.mark.parametrize("shared", [True, False])
def test_cells_have_the_types_of_the_sheet(write_book, shared):
    day = datetime.datetime(2020, 1, 2)
    rows = [
        ["id", "number", "whole", "text", "truth", "day", "mixed"],
        ["007", 1.5, 3, "1.5", True, day, 1],
        ["008", None, 4, "<&>", False, day, "?"],
    ]
    table = read(write_book({"all": rows}, shared=shared))
    assert table["id"].tolist() == ["007", "008"]
    assert table["number"].dtype == float and table["number"].isna().tolist() == [False, True]
    assert table["whole"].dtype == int and table["whole"].tolist() == [3, 4]
    assert table["text"].tolist() == ["1.5", "<&>"]
    assert table["truth"].tolist() == [True, False]
    assert pd.to_datetime(table["day"]).tolist() == [day, day]
    assert table["mixed"].tolist() == [1, "?"]


def test_empty_rows_and_columns_are_left_out_and_lines_are_those_of_the_sheet(write_book):
    rows = [[], ["id", "flu", None], [], ["007", "yes"], ["008", "no"], [], ["009", None], [None]]
    path = write_book({"s": rows})
    table = open_table(path)
    whole, origin = table.read()
    assert whole["id"].tolist() == ["007", "008", "009"] and table.columns == ["id", "flu"]
    lines = [origin.place(i) for i in range(3)]
    assert lines == [f"{path}#s, row {i} (line {n})" for i, n in enumerate((4, 5, 7))]
    (part,) = table.parts
    batches = list(part.batches(["flu", "id"], batch_rows=1))
    assert [batch["id"].tolist() for batch, _ in batches] == [["007"], ["008"], ["009"]]
    assert [place.place(0) for _, place in batches] == lines


def test_errors_in_cells_are_missing(write_book):
    table = read(write_book({"s": [["x", "y"], [1, 2], ["#N/A", 3], ["#DIV/0!", 4]]}))
    assert table["x"].isna().tolist() == [False, True, True]


def test_one_of_several_sheets(write_book):
    path = write_book({"first visit": PLAIN, "notes": [], "second": [["y"], [1]]})
    assert read(f"{path}#first visit").shape == (2, 3)
    assert read(f"{path}#second").shape == (1, 1)
    with pytest.raises(ReadError, match=r"several sheets, 'first visit', 'second'; name one, such"):
        open_table(path)
    with pytest.raises(ReadError, match=r"no sheet 'secnod'; did you mean 'second'"):
        open_table(f"{path}#secnod")
    assert read(write_book({"empty": [], "s": PLAIN})).shape == (2, 3)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"x", "table.xlsx: cannot be read as the format of its extension"),
        (b"\xd0\xcf\x11\xe0" + bytes(600), "an old or an encrypted workbook"),
        ({"s": []}, "table.xlsx#s: an empty sheet"),
        ({"s": [["x", "y"]]}, "table.xlsx#s: no rows"),
        ({"s": [[2020, 2020], [1, 2]]}, "table.xlsx#s: columns 1 and 2 are both named '2020'"),
        (STRAY, "a sheet of 100000 rows and 201 columns, but 3 cells; delete stray cells"),
    ],
    ids=["no workbook", "encrypted", "empty", "no rows", "two names", "stray cell"],
)
def test_refused(write_book, content, error):
    with pytest.raises(ReadError, match=error):
        open_table(write_book(content))


def test_rows_in_another_order_are_refused_in_sheets_alone(write_book):
    """Other parts name cells in any order, for example that in which they are computed."""
    parts = unzip(make_workbook({"s": PLAIN}))
    parts["xl/calcChain.xml"] = b'<calcChain><c r="C3"/><c r="A1"/><c r="XFD9999999"/></calcChain>'
    assert read(write_book(zipped(parts))).shape == (2, 3)
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = parts[sheet].replace(b'r="1"', b'r="9"')
    with pytest.raises(ReadError, match="a damaged sheet, whose rows are not in order"):
        open_table(write_book(zipped(parts)))


def test_places_of_cells_are_found_across_chunks(write_book, monkeypatch):
    monkeypatch.setattr(spreadsheets, "_CHUNK", 7)
    with pytest.raises(ReadError, match="a sheet of 100000 rows and 201 columns, but 3 cells"):
        open_table(write_book(STRAY))


def test_a_panic_of_the_library_is_an_error(write_book, monkeypatch):
    import python_calamine

    class PanicException(BaseException):
        pass

    def panic(path):
        raise PanicException

    class Workbook:
        from_path = staticmethod(panic)

    monkeypatch.setattr(python_calamine, "CalamineWorkbook", Workbook)
    with pytest.raises(ReadError, match=r"table.xlsx: a damaged workbook"):
        open_table(write_book({"s": PLAIN}))


def test_without_the_library_the_error_names_the_extra(write_book):
    program = (
        "import sys; sys.modules['python_calamine'] = None\n"
        "from naim3l.files.tables import open_table\n"
        "try: open_table(sys.argv[1])\n"
        "except ImportError as error: print(error)\n"
    )
    command = [sys.executable, "-c", program, str(write_book({"s": PLAIN}))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Excel workbooks need python-calamine: pip install 'naim3l[excel]'" in done.stdout
