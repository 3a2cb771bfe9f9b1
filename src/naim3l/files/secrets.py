"""Sources of tables, shown or stored without passwords.

A source is a path, or a database URL, ``#`` and a query. Which part of a URL is the password is
never guessed: but for SQLite files, only the kind of database and the query are shown.
"""

import os
import re
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit
from urllib.request import url2pathname

HIDDEN = "***"
WEB = ("http", "https", "ftp", "file", "s3", "gs")
# Anything but a path before "://": malformed URLs are hidden, too, and are never files.
URL = re.compile(r"[^/\\]*://")
# Addresses of files, also in object stores.
STORE = re.compile(r"(s3|gs|gcs|abfss?|hdfs|hf|file)://", re.IGNORECASE)
PATTERN_SIGNS = "*["
_HARMLESS = ("region", "endpoint_override", "scheme")  # settings of stores
# The path of an SQLite file, up to its settings.
SQLITE = re.compile(r"(sqlite(?:\+\w+)?:///)(?!:memory:)([^?#@;\n]+)", re.IGNORECASE)
_QUERY = re.compile(r"#(?=\s*(?:select|with)\b)", re.IGNORECASE)  # a password may contain a #, too
# Such as "PWD=x" of ODBC or "password = 'x'" of libpq, anywhere in the text.
_SETTING = re.compile(
    r"(\w*(?:pass|pwd|secret|token)\w*\s*=\s*)('[^']*'|\"[^\"]*\"|\{(?:[^}]|\}\})*\}|[^\s&;,#]+)",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"(\w{2,}:/+[^\s:@/]*:)\S*@")
# Shorter secrets are replaced as whole words only: gaps in other words would reveal them.
_SHORT = 4


def is_store(source: str) -> bool:
    """Whether it is an address in a store, and not of files of this machine."""
    found = STORE.match(source)
    return found is not None and found[1].lower() != "file"


def local_path(source: str) -> str:
    """The path of an address ``file://``; other sources as they are."""
    if source[:7].lower() != "file://":
        return source
    return url2pathname(source[7:] if set(PATTERN_SIGNS) & set(source) else urlsplit(source).path)


def is_store_folder(source: str, extensions: tuple[str, ...]) -> bool:
    """Whether an address is a pattern, or has no extension of a file; the store is not asked."""
    path = source.partition("?")[0].lower()
    return any(sign in path for sign in PATTERN_SIGNS) or not path.endswith(extensions)


def split_source(source: str) -> tuple[str, str]:
    """URL and query of a database source; the query is empty if there is no valid one."""
    address, *query = _QUERY.split(source, maxsplit=1)
    return address if query else address.rstrip().removesuffix("#"), "".join(query).strip()


def show_source(source: str | os.PathLike[str]) -> str:
    """A source with ``***`` in place of everything that may be a password."""
    text = os.fspath(source)
    if not URL.match(text):
        return hide_secrets(re.sub(r"(\w{2,}:).*@", rf"\1{HIDDEN}@", text, flags=re.DOTALL))
    if STORE.match(text):
        return bare_address(text)
    address, query = split_source(text)
    if (file := SQLITE.match(address)) is not None:
        rest = HIDDEN if address[file.end() :] else ""
        shown = hide_secrets(file[0]) + rest
    else:
        scheme = re.match(r"[\w+-]+(?=://)", address)
        shown = f"{scheme[0] if scheme else HIDDEN}://{HIDDEN}"
    return f"{shown}#{query}" if query else shown


def drop_secrets(source: str) -> str:
    """A source for storage: without password and settings, if these parts are clear."""
    if STORE.match(source):
        return bare_address(source)
    address, query = split_source(source)
    url = _parse(address) if URL.match(source) and not SQLITE.match(source) else None
    if url is None:
        return source if not URL.match(source) else show_source(source).replace(HIDDEN, "")
    kept = url._replace(password=None, query={}).render_as_string()
    return f"{kept}#{query}" if query else kept


def bare_address(source: str) -> str:
    """Address in a store without keys: names before @, if they may be some, and settings."""
    scheme, login, rest, settings = _parts_of_address(source)
    kept = [each for each in settings.split("&") if each.partition("=")[0] in _HARMLESS]
    return f"{scheme}{login}{rest}{'?' * bool(kept)}{'&'.join(kept)}"


def hide_parts(text: str, source: str) -> str:
    """Text without what `bare_address` leaves out."""
    bare, parts = bare_address(source), set(re.split(r"[:@?&=\s]+", source.replace("://", ":")))
    for part in sorted(parts, key=len, reverse=True):
        if len(part) >= _SHORT and part not in bare:
            for form in (part, unquote(part), quote(part, safe="")):
                text = text.replace(form, HIDDEN)
    return text


def _parts_of_address(source: str) -> tuple[str, str, str, str]:
    """Scheme, harmless login, path and settings of an address in a store."""
    scheme, _, rest = source.partition("://")
    login, at, path = rest.rpartition("@")
    container = scheme.lower().startswith("abfs") and not set(":/?") & set(login)
    if at and ("/" in login and ":" not in login and "?" not in login):  # the @ is in a path
        login, at, path = "", "", rest
    path, _, settings = path.partition("?")
    keeps = at and (container or login == "anonymous")
    return f"{scheme}://", f"{login}@" if keeps else "", path, settings


def scrub(error: BaseException, source: str) -> str:
    """Message of a database error, in one line, without anything of the source's URL."""
    address = split_source(source)[0]
    message, url = str(getattr(error, "orig", None) or error), _parse(address)
    if SQLITE.fullmatch(address):
        return " ".join(message.split())
    if url is None:
        return (
            f"{type(error).__name__}; more is not shown, as it may contain the password: write / "
            "@ : and # in it as %2F %40 %3A %23"
        )
    values = [value for of in url.query.values() for value in ([of] if isinstance(of, str) else of)]
    within = [found[2].strip("'\"{}") for text in values for found in _SETTING.finditer(text)]
    secrets = [address, *values, *within, *([] if url.password is None else [str(url.password)])]
    forms = {
        form
        for secret in secrets
        for form in (secret, quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1])
    }
    for form in sorted(forms - {""}, key=len, reverse=True):
        edges = (r"(?<!\w)", r"(?!\w)") if len(form) < _SHORT else ("", "")
        message = re.sub(re.escape(form).join(edges), HIDDEN, message, flags=re.IGNORECASE)
    return " ".join(message.split())


def hide_secrets(text: str) -> str:
    """Text with ``***`` in place of passwords that can be recognised in it."""
    return _SETTING.sub(rf"\1{HIDDEN}", _LOGIN.sub(rf"\1{HIDDEN}@", text))


def _parse(address: str) -> Any:
    """URL of SQLAlchemy; None if it is not certain which parts of it are secret."""
    try:
        from sqlalchemy import make_url

        url = make_url(address)
    except Exception:  # SQLAlchemy is missing, or cannot parse the address
        return None
    # A second @, or one that does not end a login, may be part of the password.
    around = (url.username, url.host, url.database)
    unclear = address.count("@") > (url.username is not None) or "\n" in address
    unclear |= url.drivername in WEB  # whose names of users may be tokens
    return None if unclear or any(_SETTING.search(part) for part in around if part) else url
