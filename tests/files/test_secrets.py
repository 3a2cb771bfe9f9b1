"""Passwords of sources: in no message, no name of a table."""

import sqlite3
import sys
import traceback
from urllib.parse import quote, quote_plus

import pytest

from naim3l.files.secrets import HIDDEN, drop_secrets, hide_secrets, scrub, show_source
from naim3l.files.tables import open_table
from secret_sources import LOGINS, NO_URLS, PASSWORD, QUERY, SETTINGS, SOURCES, assert_hidden

sources = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)


@pytest.fixture
def database(tmp_path):
    """URL of an SQLite file, without a query."""
    connection = sqlite3.connect(tmp_path / "lab.db")
    connection.execute("create table lab (id text, hb real, flu text)")
    connection.executemany("insert into lab values (?, ?, ?)", [("a", 1, "yes"), ("b", 2, "no")])
    connection.commit()
    connection.close()
    return f"sqlite:///{tmp_path / 'lab.db'}"


@sources
def test_a_source_is_shown_and_stored_without_its_password(source):
    assert_hidden(show_source(source))
    assert HIDDEN in show_source(source) or source.startswith("http")
    if source not in NO_URLS.values():
        assert_hidden(drop_secrets(source))


@sources
def test_nor_where_sqlalchemy_is_missing(source, monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    assert_hidden(show_source(source))
    with pytest.raises((ValueError, ImportError)) as caught:
        open_table(source)
    assert_hidden("".join(traceback.format_exception(caught.value)))


@sources
def test_errors_do_not_show_it_either(source):
    with pytest.raises((ValueError, ImportError)) as caught:
        open_table(source)
    assert_hidden("".join(traceback.format_exception(caught.value)))


def test_what_is_no_secret_is_shown():
    for source in ("sqlite:///work/größe.db#select 1", "lab.csv", "C:/me@work/lab.csv"):
        assert show_source(source) == drop_secrets(source) == source
    source = "postgresql://me:p:w@host:5432/lab?pwd=x#select '#', ':a@b'"
    assert show_source(source) == "postgresql://***#select '#', ':a@b'"
    assert drop_secrets(source) == "postgresql://me@host:5432/lab#select '#', ':a@b'"
    assert hide_secrets("clinic.csv, row 3, column 'mail': 'me@work' is text") == (
        "clinic.csv, row 3, column 'mail': 'me@work' is text"
    )


@pytest.mark.parametrize("password", ["a/b@c:d%e#f  g", "'\"\\{};", "%2F"])
def test_what_a_driver_says_is_scrubbed(password):
    source = f"postgresql://me:{quote(password, safe='')}@host/lab?pwd={quote_plus(password)}#x"
    forms = [
        password,
        quote(password, safe=""),
        quote_plus(password),
        quote(password, safe="").lower(),
    ]
    told = scrub(ValueError(" | ".join(["refused by host", *forms, repr(password)])), source)
    assert told.startswith("refused by host") and told.count(HIDDEN) == 5
    assert password not in told and quote(password, safe="") not in told


def test_a_short_password_leaves_no_gaps_in_words():
    told = scrub(ValueError("connection to 'host' with e: refused (PWD=e;)"), "db://me:e@host/lab")
    assert told == "connection to 'host' with ***: refused (PWD=***;)"


@pytest.mark.parametrize(
    "source", [s for s in (LOGINS | SETTINGS).values() if "://" in s and s.endswith(QUERY)]
)
def test_errors_of_drivers_are_not_chained(source, database, monkeypatch):
    """Whatever a driver says of its address, and whichever error it wraps."""
    import sqlalchemy

    def refuse(*args, **kwargs):
        try:
            raise OSError(source)
        except OSError as error:
            raise RuntimeError(f"cannot connect to {source}") from error

    monkeypatch.setattr(sqlalchemy, "create_engine", refuse)
    with pytest.raises(ValueError, match="not the URL of a known database") as caught:
        open_table(source)
    assert_hidden("".join(traceback.format_exception(caught.value)))
    monkeypatch.undo()
    monkeypatch.setattr("naim3l.files.databases._fetch", refuse)
    monkeypatch.setattr(
        "naim3l.files.databases._engine", lambda *_: sqlalchemy.create_engine(database)
    )
    with pytest.raises(ValueError, match="the query failed") as caught:
        open_table(source)
    assert_hidden("".join(traceback.format_exception(caught.value)))


def test_a_table_is_named_without_the_password(database):
    pieces = [f"{key}={PASSWORD}" for key in ("password", "pwd", "token", "sslpassword")]
    table = open_table(f"{database}?{'&'.join(pieces)}&mode=ro#{QUERY}")
    assert_hidden(repr(table), table.name)
    assert table.name.endswith(f"lab.db***#{QUERY}") and table.read()[1].source == table.name


def test_a_password_with_a_number_sign_ends_no_url(database):
    """Only what begins like a query ends it, and only that is taken for one."""
    assert show_source(f"db://me:a#b@host/lab# {QUERY}") == f"db://***#{QUERY}"
    table = open_table(f"{database}#\n with x as (select '#select' as a) select * from x")
    assert table.lengths == [1]


def test_files_of_databases_are_named_even_where_the_query_is_none():
    shown = show_source("sqlite:///data/lab.db#selct *\nfrom a where b = 'x@y'")
    assert shown == "sqlite:///data/lab.db***"
    assert "s3cret" not in show_source("sqlite:///lab.db;PWD=s3cret#selct\n1")
