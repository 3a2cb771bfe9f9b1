"""Tables that are written and read again."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naim3l.readers import read_table, write_table

ENDINGS = ["csv", "tsv", "csv.gz", "tsv.bz2", "csv.xz", "parquet", "arrow", "feather", "ipc"]
TABLE = pd.DataFrame(
    {"x": [0.1, np.nan, -1e-300], "word": ['a,"b"', "c\r\nd\te", None]},
    index=pd.Index(["007", "ä", "c"], name="patient"),
)


@pytest.mark.parametrize("ending", ENDINGS)
def test_ids_are_the_first_column_and_come_back(tmp_path, ending):
    path = tmp_path / f"table.{ending}"
    write_table(TABLE, path)
    assert list(read_table(path).columns) == ["patient", "x", "word"]
    table = read_table(path, id_column="patient")
    assert table.index.name == "patient" and list(table.index) == list(TABLE.index)
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
    with pytest.raises(ValueError, match=f"{name}: unknown ending; tables are written to .csv"):
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


def test_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write_table(TABLE, tmp_path / "none" / "table.csv")


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
    write_table(pd.DataFrame(texts), path)
    table = read_table(path)
    assert list(table.columns) == columns
    np.testing.assert_array_equal(table[last].to_numpy(dtype=float), texts[last])
    for name in columns[:-1]:
        assert table[name].tolist() == texts[name]
