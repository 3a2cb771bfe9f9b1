"""Tables from databases: an SQLAlchemy URL, ``#`` and a query that only reads.

A query must begin with SELECT or WITH and be one statement. It runs in a transaction that is
rolled back. SQLite files are opened for reading only, and PostgreSQL, MySQL, MariaDB and Oracle
are told that the transaction only reads; on other databases it rests on the rollback alone.
"""

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from naim3l.readers.errors import ReadError, load_extra, mark_origin, quote

URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+]*://")
_PASSWORD = re.compile(r"^(.*?://[^/:]*):[^/]*@")
_WEB = ("http", "https", "ftp", "file", "s3", "gs")
_QUERY = re.compile(r"\s*(select|with)\b", re.IGNORECASE)
_READ_ONLY = ("postgresql", "mysql", "mariadb", "oracle")


def read_sql(source: str, *, n_rows: int | None = None) -> Any:
    """Table that a query returns.

    Parameters
    ----------
    source : str
        Such as ``"sqlite:///lab.db#select * from tests"``.
    n_rows : int, optional
        Fetch so many rows at most.

    Raises
    ------
    ReadError
        If the URL, the query or the database does not work; passwords are not shown.
    """
    address, mark, query = source.partition("#")
    scheme = address.partition("://")[0].lower()
    if scheme in _WEB:
        raise ReadError(
            f"{hide_password(address)}: files are not fetched from the web; download it and give "
            "its path."
        )
    shown = hide_password(address)
    if not mark or not query.strip():
        raise ReadError(f"{shown}: no query; add one to the URL: '{shown}#select * from table'.")
    _check_query(shown, query)
    engine = _engine(address, shown)
    try:
        names, rows = _fetch(engine, query, n_rows)
    except (ReadError, ImportError):
        raise
    except Exception as error:  # drivers have errors of their own
        cause = str(getattr(error, "orig", None) or error).strip()
        raise ReadError(f"{shown}: the query failed ({cause}): {quote(query.strip())}") from error
    finally:
        engine.dispose()
    pandas = load_extra("pandas")
    frame = pandas.DataFrame.from_records(rows, columns=range(len(names)), coerce_float=True)
    frame.columns = [name.strip() for name in names]
    return mark_origin(frame, f"{shown}#{query.strip()}")


def hide_password(source: str) -> str:
    """A source as it may be shown: with *** for the password of a URL."""
    address, mark, query = source.partition("#")
    hidden = _PASSWORD.sub(r"\1:***@", address)
    return re.sub(r"([?&]password=)[^&]*", r"\1***", hidden) + mark + query


def drop_password(source: str) -> str:
    """A source without the password of its URL."""
    address, mark, query = source.partition("#")
    dropped = _PASSWORD.sub(r"\1@", address)
    dropped = re.sub(r"(?<=[?&])password=[^&]*&?", "", dropped).rstrip("?&")
    return dropped + mark + query


def place_database(source: str, move: Callable[[str], str]) -> str:
    """A source in which the path of an SQLite file is changed; others stay as they are."""
    match = re.match(r"(sqlite(?:\+\w+)?:///)([^#?]+)(.*)", source, re.DOTALL | re.IGNORECASE)
    if match is None or match[2] == ":memory:":
        return source
    return match[1] + move(match[2]) + match[3]


def database_file(source: str) -> Path | None:
    """File of an SQLite database; None for other databases."""
    found: list[str] = []

    def note(path: str) -> str:
        found.append(path)
        return path

    place_database(source, note)
    return Path(found[0]) if found else None


def _check_query(shown: str, query: str) -> None:
    if not _QUERY.match(query):
        raise ReadError(
            f"{shown}: only queries that begin with SELECT or WITH are run, not "
            f"{quote(query.strip())}."
        )
    if ";" in query.rstrip().rstrip(";"):
        raise ReadError(f"{shown}: one statement is run, without ';' inside: {quote(query)}.")


def _engine(address: str, shown: str) -> Any:
    sqlalchemy = load_extra("sqlalchemy")
    try:
        url = sqlalchemy.make_url(address)
        if url.get_backend_name() == "sqlite":
            return _sqlite_engine(sqlalchemy, url, shown)
        return sqlalchemy.create_engine(url)
    except ReadError:
        raise
    except ImportError as error:
        raise ImportError(f"{shown}: install the driver of this database ({error}).") from error
    except Exception as error:
        raise ReadError(f"{shown}: not the URL of a known database ({error}).") from error


def _sqlite_engine(sqlalchemy: Any, url: Any, shown: str) -> Any:
    """Engine that reads a file and never makes one."""
    path = Path(url.database or "")
    if not path.is_file():
        raise ReadError(f"{shown}: there is no file {str(path)!r}; three slashes, then its path.")
    address = f"{path.absolute().as_uri()}?mode=ro"
    return sqlalchemy.create_engine("sqlite://", creator=lambda: sqlite3.connect(address, uri=True))


def _fetch(engine: Any, query: str, n_rows: int | None) -> tuple[list[str], list[tuple[Any, ...]]]:
    with engine.connect() as connection:  # rolled back at the end of the block
        if engine.dialect.name in _READ_ONLY:
            connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        # Without parameters, so that '%' and ':' mean what they mean to the database.
        options = {"no_parameters": True}
        result = connection.exec_driver_sql(query, execution_options=options)
        rows = result.fetchall() if n_rows is None else result.fetchmany(n_rows)
        names = [str(name) for name in result.keys()]  # noqa: SIM118
        return names, [tuple(row) for row in rows]
