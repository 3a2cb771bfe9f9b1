"""Tables that are written and read again."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naim3l import DataWarning
from naim3l.files.tables import open_table
from naim3l.files.writers import appended, write_table

ENDINGS = ["csv", "tsv", "csv.gz", "tsv.bz2", "csv.xz", "parquet", "arrow", "feather", "ipc"]
TABLE = pd.DataFrame(
    {"x": [0.1, np.nan, -1e-300], "word": ['a,"b"', "c\r\nd\te", None]},
    index=pd.Index(["007", "ä", "c"], name="patient"),
)


def read_table(path):
    return open_table(path).read()[0]


@pytest.mark.parametrize("ending", ENDINGS)
def test_ids_are_the_first_column_and_come_back(tmp_path, ending):
    path = tmp_path / f"table.{ending}"
    write_table(TABLE, path)
    table = open_table(path).read(text_columns=["patient"])[0]
    assert list(table.columns) == ["patient", "x", "word"]
    assert table["patient"].tolist() == list(TABLE.index)
    np.testing.assert_array_equal(table["x"], TABLE["x"])
    assert table["word"].isna().tolist() == [False, False, True]
    assert table["word"].tolist()[:2] == TABLE["word"].tolist()[:2]
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_which_index_is_written(tmp_path):
    path = tmp_path / "table.csv"
    write_table(pd.DataFrame({"x": [1, 2]}), path)
    assert path.read_text() == "x\n1\n2\n"
    write_table(pd.DataFrame({"x": [1, 2]}, index=[5, 3]), path)
    assert path.read_text() == "id,x\n5,1\n3,2\n"
    write_table(pd.DataFrame({0: [1]}, index=pd.RangeIndex(1, name="row")), path)
    assert path.read_text() == "row,0\n0,1\n"


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_same_table_gives_the_same_bytes(tmp_path, ending, monkeypatch):
    write_table(TABLE, tmp_path / f"a.{ending}")
    monkeypatch.setattr("time.time", lambda: 1e9)
    write_table(TABLE, tmp_path / f"b.{ending}")
    assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


@pytest.mark.parametrize("name", ["table", "table.xlsx", "table.parquet.gz", "table.npz"])
def test_unknown_endings(tmp_path, name):
    with pytest.raises(ValueError, match=f"{name}: unknown extension; tables are written to .csv"):
        write_table(TABLE, tmp_path / name)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "two columns would be named 'x'"),
        (pd.DataFrame({"id": [1]}, index=["a"]), "two columns would be named 'id'"),
        (pd.DataFrame(index=pd.RangeIndex(2)), "without columns"),
        (pd.DataFrame({"x": [1, "a"]}, dtype=object), "must be of one type"),
    ],
)
def test_tables_that_cannot_be_written_leave_the_file_alone(tmp_path, table, message):
    path = tmp_path / "table.parquet"
    path.write_text("as before")
    with pytest.raises(ValueError, match=f"table.parquet: .*{message}"):
        write_table(table, path)
    assert path.read_text() == "as before"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("ending", ENDINGS)
def test_tables_that_are_appended_are_one_table(tmp_path, ending):
    with appended(tmp_path / f"a.{ending}") as append:
        for i in range(3):
            append(TABLE.iloc[[i]])
        assert not (tmp_path / f"a.{ending}").exists()
    write_table(TABLE, tmp_path / f"b.{ending}")
    frames = [read_table(tmp_path / f"{name}.{ending}") for name in "ab"]
    pd.testing.assert_frame_equal(*frames)


def test_nothing_is_left_of_a_file_that_was_not_completed(tmp_path):
    with pytest.raises(KeyboardInterrupt), appended(tmp_path / "a.csv") as append:
        append(TABLE)
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("written")


# Text that spells neither a number nor a truth value, and is not empty; in a cell it can have
# anything else, while names have no spaces around them.
cells = st.text(max_size=8).map(lambda text: text.replace("\0", "") + "~")
names = cells.map(lambda text: text.strip().lstrip("\ufeff"))
floats = st.floats(allow_nan=False, allow_infinity=False) | st.none()


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "feather"])
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_what_is_written_is_read(folder, ending, data):
    columns = data.draw(st.lists(names, min_size=2, max_size=5, unique=True))
    n_rows = data.draw(st.integers(1, 5))
    texts = {name: data.draw(st.lists(cells, min_size=n_rows, max_size=n_rows)) for name in columns}
    last = columns[-1]
    texts[last] = np.array(
        data.draw(st.lists(floats, min_size=n_rows, max_size=n_rows)), dtype=float
    )
    path = folder / f"table.{ending}"
    write_table(pd.DataFrame(texts), path, spreadsheet_safe=False)
    table = read_table(path)
    assert list(table.columns) == columns
    np.testing.assert_array_equal(table[last].to_numpy(dtype=float), texts[last])
    for name in columns[:-1]:
        assert table[name].tolist() == texts[name]


FORMULAS = ["=1+1", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1+1"]
HARMLESS = ["-1.5", "+3", "-1e-5", "-.5", "-1,5", "a=b", " =1", "'=1", "2024-01-02", "", "ä"]


class TestSpreadsheets:
    """What a spreadsheet would run is written as text."""

    @pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz"])
    @pytest.mark.parametrize("formula", FORMULAS)
    def test_formulas_are_marked_wherever_they_stand(self, tmp_path, ending, formula):
        path = tmp_path / f"table.{ending}"
        table = pd.DataFrame({formula: [formula, "x"]}, index=pd.Index([formula, "y"], name="id"))
        with pytest.warns(DataWarning, match=r"such as .* \(3 in all\); .*--raw-cells"):
            write_table(table, path)
        # The mark stays: a file says what is in it, to our reader as to others.
        back = read_table(path)
        assert back.to_numpy().tolist() == [[f"'{formula}", f"'{formula}"], ["y", "x"]]
        assert list(back.columns) == ["id", f"'{formula}".strip()]
        assert table.iloc[0, 0] == formula  # the caller's own is left alone

    def test_numbers_and_other_text_are_left_alone(self, tmp_path):
        path = tmp_path / "table.csv"
        table = pd.DataFrame({"text": HARMLESS, "-1.5": -np.arange(len(HARMLESS)) / 8})
        table["mixed"] = pd.Series([-1.5, None, "x"] * 9, dtype=object)
        write_table(table, path)
        marked = path.read_bytes()
        write_table(table, path, spreadsheet_safe=False)
        assert path.read_bytes() == marked

    def test_formulas_can_be_kept(self, tmp_path):
        path = tmp_path / "table.csv"
        table = pd.DataFrame({"=x": FORMULAS}, index=pd.Index(FORMULAS, name="@id"))
        write_table(table, path, spreadsheet_safe=False)
        back = pd.read_csv(path)
        assert list(back.columns) == ["@id", "=x"] and back["=x"].tolist() == FORMULAS

    @pytest.mark.parametrize("ending", ["parquet", "arrow"])
    def test_forms_that_are_no_text_keep_them(self, tmp_path, ending):
        path = tmp_path / f"table.{ending}"
        write_table(pd.DataFrame({"=x": FORMULAS}), path)
        assert read_table(path)["=x"].tolist() == FORMULAS

    def test_names_must_differ_with_their_marks_too(self, tmp_path):
        table = pd.DataFrame([[1, 2]], columns=["=x", "'=x"])
        message = 'two columns would be named "\'=x"'
        with pytest.warns(DataWarning), pytest.raises(ValueError, match=message):
            write_table(table, tmp_path / "table.csv")
        assert not list(tmp_path.iterdir())
