"""Queries on real databases: they read, and nothing else."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from decimal import Decimal
from pathlib import Path

import pytest

from naim3l.files.databases import database_file, place_database
from naim3l.files.errors import ReadError
from naim3l.files.tables import open_table, source_files

ROWS = [("007", 13.5, "yes"), ("008", None, "no"), ("009", 11.0, None)]
CREATE = "create table lab (id text, hb double precision, flu text)"


@pytest.fixture
def database(tmp_path):
    """URL of an SQLite file."""
    connection = sqlite3.connect(tmp_path / "lab.db")
    connection.execute(CREATE)
    connection.executemany("insert into lab values (?, ?, ?)", ROWS)
    connection.commit()
    connection.close()
    return f"sqlite:///{tmp_path / 'lab.db'}"


@pytest.fixture(scope="module")
def server():
    """URL of a PostgreSQL server that runs for these tests only, without a network port."""
    pytest.importorskip("psycopg", reason="PostgreSQL: the driver psycopg is not installed")
    folders = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"))]
    program = shutil.which("pg_ctl", path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))
    if program is None or sys.platform == "win32":
        pytest.skip("PostgreSQL: no server with sockets of POSIX is installed")
    # The server refuses to run as root.
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if as_user and subprocess.run([*as_user, "true"], capture_output=True).returncode:
        pytest.skip("PostgreSQL: runs as root, and there is no user postgres to run as")
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: the path of a socket is limited
    if as_user:
        shutil.chown(folder, "postgres")
    data, options = folder / "data", f"-k {folder} -c listen_addresses= -c fsync=off"

    def run(*command):
        nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.run([*as_user, *command], cwd=folder, **nowhere).returncode == 0

    try:
        binary = Path(program).resolve().parent / "initdb"
        if not run(str(binary), "-D", str(data), "-U", "postgres", "-A", "trust", "--no-sync"):
            pytest.skip("PostgreSQL: a database cannot be made here")
        log = str(folder / "log")
        if not run(program, "-D", str(data), "-o", options, "-l", log, "-w", "start"):
            pytest.skip("PostgreSQL: the server does not start here")
        try:
            yield f"postgresql+psycopg://postgres:secret@/postgres?host={folder}"
        finally:
            run(program, "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres(server):
    """The same table on that server."""
    import psycopg

    address = server.replace("+psycopg", "")
    with psycopg.connect(address) as connection:
        connection.execute("drop table if exists lab")
        connection.execute(CREATE)
        with connection.cursor() as cursor:
            cursor.executemany("insert into lab values (%s, %s, %s)", ROWS)
    return server


@pytest.fixture(params=["database", "postgres"])
def url(request):
    return request.getfixturevalue(request.param)


def read_table(source):
    return open_table(source).read()[0]


def test_a_query_gives_a_table(url):
    opened = open_table(f"{url}#select * from lab order by id;")
    table, origin = opened.read()
    assert table["id"].tolist() == ["007", "008", "009"]
    assert table["hb"].dtype == float and table["hb"].isna().tolist() == [False, True, False]
    assert table["flu"].isna().tolist() == [False, False, True]
    assert opened.lengths == [3] and origin.place(1).endswith("lab order by id;, row 1")
    assert "secret" not in origin.place(1) + opened.name


def test_facts_are_those_of_the_rows(url):
    """A database has no file whose time of change could tell."""
    by_id, by_number = (f"{url}#select * from lab order by {column}" for column in ("id", "hb"))
    assert open_table(by_id).facts == open_table(by_id).facts != open_table(by_number).facts


def test_rows_stay_those_of_the_first_query(database, tmp_path):
    opened = open_table(f"{database}#select * from lab")
    connection = sqlite3.connect(tmp_path / "lab.db")
    connection.execute("delete from lab")
    connection.commit()
    connection.close()
    (part,) = opened.parts
    assert [len(frame) for frame, _ in part.batches(batch_rows=2)] == [2, 1]


def test_percent_signs_and_colons_are_left_alone(url):
    table = read_table(f"{url}#select id, ':x' as c from lab where flu like 'y%' and id <> '%s'")
    assert table.to_numpy().tolist() == [["007", ":x"]]


def test_with_queries(url):
    query = "with high as (select hb from lab where hb > 12) select hb as a from high"
    assert read_table(f"{url}#{query}")["a"].tolist() == [13.5]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select * from nowhere", "the query failed .*nowhere"),
        ("select id as a, hb as a from lab", "both named 'a'"),
        ("select * from lab where 1 = 0", "no rows"),
        ("drop table lab", "only queries that begin with SELECT or WITH"),
        ("select 1; drop table lab", "one statement"),
        ("with gone as (select 1) delete from lab", "the query failed"),
        ("", "no query; add one"),
    ],
)
def test_other_queries_are_refused_and_change_nothing(url, query, message):
    with pytest.raises(ReadError, match=f"(?s){message}") as caught:
        read_table(f"{url}#{query}")
    assert "secret" not in str(caught.value)
    assert len(read_table(f"{url}#select * from lab")) == 3


def test_writing_within_a_query_is_refused(postgres):
    with pytest.raises(ReadError, match="read-only transaction"):
        read_table(f"{postgres}#with gone as (delete from lab returning id) select * from gone")


def test_types_of_postgresql(server):
    """Exact numbers, truth values and ids of the kind that databases make."""
    import psycopg

    with psycopg.connect(server.replace("+psycopg", "")) as connection:
        connection.execute("drop table if exists kinds")
        connection.execute(
            "create table kinds (id uuid default gen_random_uuid(), hb numeric, flu boolean, "
            "day date, more jsonb)"
        )
        connection.execute(
            "insert into kinds (hb, flu, day, more) values (1.50, true, '2020-01-02', '[1, 2]'), "
            "(null, false, null, null), ('NaN', null, '2021-01-02', '[1]')"
        )
    table = read_table(f"{server}#select * from kinds order by flu desc nulls last")
    assert all(isinstance(cell, uuid.UUID) for cell in table["id"])
    assert table["hb"][0] == Decimal("1.50") and table["hb"][1:].isna().all()
    assert table["flu"].tolist() == [True, False, None] and table["more"][0] == [1, 2]


def test_a_server_that_does_not_answer():
    pytest.importorskip("psycopg", reason="PostgreSQL: the driver psycopg is not installed")
    with pytest.raises(ReadError, match="the query failed") as caught:
        read_table("postgresql+psycopg://me:secret@127.0.0.1:1/lab#select 1")
    assert "secret" not in str(caught.value)


def test_errors_of_the_address(tmp_path, database):
    with pytest.raises(ReadError, match="there is no file"):
        read_table(f"sqlite:///{tmp_path / 'none.db'}#select 1")
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(ReadError, match="no query; add one"):
        read_table(database)
    with pytest.raises(ReadError, match="not the URL of a known database"):
        read_table("nosuchdb://user:secret@host/name#select 1")
    with pytest.raises(ReadError, match="download it"):
        read_table("https://example.org/table.csv")
    (tmp_path / "text.db").write_text("not a database, but long enough to be taken for one" * 30)
    with pytest.raises(ReadError, match="the query failed"):
        read_table(f"sqlite:///{tmp_path / 'text.db'}#select 1 from sqlite_master")


def test_files_of_databases():
    source = "sqlite:///data/lab.db?mode=ro#select '?#' from a"
    assert source_files(source) == [Path("data/lab.db")]
    assert place_database(source, lambda path: f"/x/{path}") == source.replace("data", "/x/data")
    for other in ("sqlite:///:memory:#select 1", "postgresql://host/lab#select 1"):
        assert database_file(other) is None and place_database(other, str.upper) == other


def test_missing_library_is_named(database, monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(ImportError, match=r"pip install 'naim3l\[sql\]'"):
        read_table(f"{database}#select 1 as x")
