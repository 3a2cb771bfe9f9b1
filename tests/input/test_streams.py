"""Arrow streams as tables: of databases and formats that give some, in any batches."""

from contextlib import closing
from functools import partial

import numpy as np
import pandas as pd
import pytest

from naim3l import NAIM3L
from naim3l.files.errors import ReadError

pyarrow = pytest.importorskip("pyarrow")
LABELS = ["flu", "gout"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    found = pd.DataFrame(x, columns=["a", "b", "c"])
    found["ward"] = rng.choice(["x", "y", None], 300)
    found["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, 300), "D")
    for k, label in enumerate(LABELS):
        found[label] = np.where(rng.random(300) < 0.2, np.nan, x[:, k] > 0)
    return found


def check(table, source):
    """A fit to a stream, and its predictions, are those of the table in memory."""
    memory, streamed = NAIM3L(max_iter=2000, tol=1e-10), NAIM3L(max_iter=2000, tol=1e-10)
    memory.fit({"v": table.drop(columns=LABELS)}, {"v": table[LABELS]})
    streamed.fit({"v": source}, {"v": LABELS})
    np.testing.assert_allclose(streamed.coef_["v"], memory.coef_["v"], atol=1e-6)
    expected = streamed.decision_function({"v": table.drop(columns=LABELS)})["v"]
    lazy = streamed.decision_function({"v": source})["v"]
    np.testing.assert_allclose(lazy.compute(), expected, atol=1e-12)


@pytest.mark.dask
@pytest.mark.parametrize("n", [1, 7, 300])
def test_fit_to_a_function_that_opens_a_stream(table, n, monkeypatch):
    monkeypatch.setattr("naim3l.input.sources.FileView.batch_rows", 40)
    arrow = pyarrow.Table.from_pandas(table)
    check(table, lambda: pyarrow.RecordBatchReader.from_batches(arrow.schema, arrow.to_batches(n)))


@pytest.mark.dask
def test_streams_that_are_read_once_are_refused(table):
    arrow = pyarrow.Table.from_pandas(table)
    for source in (arrow.to_reader(), partial(lambda reader: reader, arrow.to_reader())):
        with pytest.raises(ReadError, match=r"can be read once only; give a function"):
            NAIM3L().fit({"v": source}, {"v": LABELS})
    with pytest.raises(ReadError, match="the function gives a list, which has no Arrow data"):
        NAIM3L().fit({"v": lambda: [1, 2]}, {"v": LABELS})
    with pytest.raises(ValueError, match="no column 'flux'"):
        NAIM3L().fit({"v": arrow.to_reader}, {"v": ["flux"]})


@pytest.mark.dask
@pytest.mark.places
def test_fit_to_relations_of_duckdb(table):
    import duckdb

    with closing(duckdb.connect()) as database:
        database.execute('create table t as select * from "table"')
        check(table, database.sql("select * from t"))
        check(table, lambda: database.cursor().sql("select * from t"))
        wrong = database.sql("select *, error('disk is gone') as e from t")
        with pytest.raises(Exception, match="disk is gone"):
            NAIM3L().fit({"v": wrong}, {"v": LABELS})


@pytest.mark.dask
@pytest.mark.places
def test_fit_to_tables_of_delta(table, tmp_path):
    import deltalake

    path = str(tmp_path / "delta")
    for rows in (table[:120], table[120:]):
        deltalake.write_deltalake(
            path, pyarrow.Table.from_pandas(rows, preserve_index=False), mode="append"
        )
    found = deltalake.DeltaTable(path)
    whole = found.to_pyarrow_table().to_pandas()
    check(whole, found.to_pyarrow_dataset())
    check(whole, lambda: deltalake.QueryBuilder().register("t", found).execute("select * from t"))


@pytest.mark.dask
def test_fit_to_a_query_by_adbc(table):
    dbapi = pytest.importorskip("adbc_driver_sqlite.dbapi", reason="needs adbc-driver-sqlite")
    with dbapi.connect() as database, database.cursor() as cursor:
        given = table.drop(columns="day")
        cursor.adbc_ingest("t", pyarrow.Table.from_pandas(given, preserve_index=False))

        def read():
            cursor.execute("select * from t")
            return cursor.fetch_record_batch()

        check(given, read)


@pytest.mark.dask
def test_fit_to_frames_of_polars(table):
    polars = pytest.importorskip("polars")
    frame = polars.from_pandas(table)
    check(table, lambda: frame)
