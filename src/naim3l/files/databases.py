"""Tables from databases: an SQLAlchemy URL, ``#`` and a query that only reads.

A query is one statement that begins with SELECT or WITH, in a transaction that is rolled back; for
SQLite, PostgreSQL, MySQL, MariaDB and Oracle, also one that is read-only.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from naim3l._origin import Origin
from naim3l._text import quote
from naim3l.files.errors import ReadError, load_extra
from naim3l.files.secrets import SQLITE, WEB, scrub, show_source, split_source

_READ_ONLY = ("postgresql", "mysql", "mariadb", "oracle")


def read_query(source: str) -> tuple[Any, Origin]:
    """Table that a query returns, such as that of ``"sqlite:///lab.db#select * from tests"``."""
    address, query = split_source(source)
    shown = show_source(address)
    if address.partition("://")[0].lower() in WEB:
        raise ReadError(f"{shown}: files are not fetched from the web; download it.")
    if not query:
        advice = f"add one to the URL: '{shown}#select * from table'"
        fault = (
            "only queries that begin with SELECT or WITH are run" if "#" in address else "no query"
        )
        raise ReadError(f"{shown}: {fault}; {advice}.")
    if ";" in query.rstrip().rstrip(";"):
        raise ReadError(f"{shown}: one statement is run, without ';' inside: {quote(query)}.")
    engine = _engine(address)
    try:
        names, rows = _fetch(engine, query)
    except (ReadError, ImportError):
        raise
    except Exception as error:  # drivers have their own errors, which may show the URL
        cause = scrub(error, address)
        raise ReadError(f"{shown}: the query failed ({cause}): {quote(query)}") from None
    finally:
        engine.dispose()
    # Exact numbers stay Decimal: as floats, long ids would lose digits.
    options: Any = {"columns": range(len(names)), "coerce_float": False}
    frame = load_extra("pandas").DataFrame.from_records(rows, **options)
    frame.columns = [name.strip() for name in names]
    return frame, Origin("", show_source(source))


def place_database(source: str, move: Callable[[str], str]) -> str:
    """A source with another path of its SQLite file; other sources are unchanged."""
    match = SQLITE.match(source)
    return source if match is None else match[1] + move(match[2]) + source[match.end() :]


def database_file(source: str) -> Path | None:
    """File of an SQLite database; None for other databases."""
    return None if (match := SQLITE.match(source)) is None else Path(match[2])


def _engine(address: str) -> Any:
    sqlalchemy, shown = load_extra("sqlalchemy"), show_source(address)
    try:
        url = sqlalchemy.make_url(address)
        if url.get_backend_name() == "sqlite":
            return _sqlite_engine(sqlalchemy, url, shown)
        return sqlalchemy.create_engine(url)
    except ReadError:
        raise
    except ImportError as error:
        cause = scrub(error, address)
        raise ImportError(f"{shown}: install the driver of this database ({cause}).") from None
    except Exception as error:
        cause = scrub(error, address)
        raise ReadError(f"{shown}: not the URL of a known database ({cause}).") from None


def _sqlite_engine(sqlalchemy: Any, url: Any, shown: str) -> Any:
    """Engine that reads a file and never creates one."""
    path = Path(url.database or "")
    if not path.is_file():
        fault = f"there is no file {show_source(path)!r}"
        raise ReadError(f"{shown}: {fault}; three slashes, then its path.")
    address = f"{path.absolute().as_uri()}?mode=ro"
    return sqlalchemy.create_engine("sqlite://", creator=lambda: sqlite3.connect(address, uri=True))


def _fetch(engine: Any, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    with engine.connect() as connection:  # rolled back at the end of the block
        if engine.dialect.name in _READ_ONLY:
            connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        options = {"no_parameters": True}  # '%' and ':' have their meaning in the database
        result = connection.exec_driver_sql(query, execution_options=options)
        rows = [tuple(row) for row in result.fetchall()]
        return [str(name) for name in result.keys()], rows  # noqa: SIM118
