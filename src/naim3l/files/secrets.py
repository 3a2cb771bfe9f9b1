"""Sources of tables, shown or stored without passwords.

A source is a path, or a database URL, ``#`` and a query. All messages and files show it with
`show_source`. If it is not clear which part of a URL is the password, the whole URL is hidden.
SQLAlchemy hides the password of a URL that it can parse; this module also hides tokens in the
query of a URL, URLs that SQLAlchemy cannot parse, and secrets in errors of drivers.
"""

import os
import re
from typing import Any
from urllib.parse import quote, quote_plus

HIDDEN = "***"
WEB = ("http", "https", "ftp", "file", "s3", "gs")
# Anything but a path before "://": malformed URLs are hidden, too, and are never files.
URL = re.compile(r"[^/\\]*://")
_QUERY = re.compile(r"#(?=\s*(?:select|with)\b)", re.IGNORECASE)  # a password may contain a #, too
_KEY = re.compile(
    r"pass|pwd|^pw$|secret|token|key|auth|cred|sig|cert|dsn|odbc_connect|session", re.IGNORECASE
)
# Such as "PWD=x" of ODBC or "password = 'x'" of libpq, anywhere in the text.
_SETTING = re.compile(
    r"(\w*(?:pass|pwd|secret|token)\w*\s*=\s*)('[^']*'|\"[^\"]*\"|\{(?:[^}]|\}\})*\}|[^\s&;,#]+)",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"(\w{2,}:/+[^\s:@/]*:)\S*@")
# Shorter secrets are replaced as whole words only: gaps in other words would reveal them.
_SHORT = 4


def split_source(source: str) -> tuple[str, str]:
    """URL and query of a database source; the query is empty if there is no valid one."""
    address, *query = _QUERY.split(source, maxsplit=1)
    return address if query else address.rstrip().removesuffix("#"), "".join(query).strip()


def show_source(source: str | os.PathLike[str]) -> str:
    """A source with ``***`` in place of everything that may be a password.

    Examples
    --------
    >>> show_source("visits?token=1b6c.csv")
    'visits?token=***'
    """
    text = os.fspath(source)
    if not URL.match(text):
        return hide_secrets(re.sub(r"(\w{2,}:).*@", rf"\1{HIDDEN}@", text, flags=re.DOTALL))
    address, query = split_source(text)
    url = _parse(address)
    if url is None:
        scheme = re.match(r"[\w+-]+(?=://)", address)
        # The path of a file, up to settings or a damaged query, is not secret.
        path = re.match(r"sqlite:///[^?#@;\n]+", address)
        shown = (
            f"{hide_secrets(path[0])}{HIDDEN}"
            if path
            else f"{scheme[0] if scheme else HIDDEN}://{HIDDEN}"
        )
    elif url.drivername in WEB:
        shown = f"{url.drivername}://{url.host}/{url.database or ''}"
    elif _secrets(url):
        pairs = [f"{key}={HIDDEN if _is_secret(key, x) else x}" for key, x in _pairs(url)]
        shown = url.set(query={}).render_as_string(hide_password=True)
        shown += "?" + "&".join(pairs) if pairs else ""
    else:
        shown = address
    return f"{shown}#{query}" if query else shown


def drop_secrets(source: str) -> str:
    """A source for storage: its URL without the parts that `show_source` hides."""
    if not URL.match(source):
        return source
    address, query = split_source(source)
    url = _parse(address)
    if url is None or url.drivername in WEB:
        return show_source(source)
    if not _secrets(url):
        return source
    kept: dict[str, Any] = {}
    for key, value in _pairs(url):
        if not _is_secret(key, value):
            kept[key] = (*kept.get(key, ()), value)
    address = url._replace(password=None, query={}).set(query=kept).render_as_string()
    return f"{address}#{query}" if query else address


def scrub(error: BaseException, source: str) -> str:
    """Message of a database error, in one line, without the secrets of the source."""
    message = str(getattr(error, "orig", None) or error)
    address = split_source(source)[0]
    url = _parse(address)
    if url is None:
        return (
            f"{type(error).__name__}; more is not shown, as it may contain the password: write / "
            "@ : and # in it as %2F %40 %3A %23"
        )
    forms = {
        form
        for secret in _secrets(url)
        for form in (secret, quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1])
    }
    message = message.replace(address, show_source(address))  # which may be encoded differently
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
    is_path = url.get_backend_name() == "sqlite" and url.username is None and url.host is None
    # A second @, or one that does not end a login, may be part of the password.
    n_marks = 0 if is_path else address.count("@")
    around = (url.username, url.host, url.database)
    unclear = (
        n_marks > (url.username is not None)
        or "\n" in address
        or any(_SETTING.search(part) for part in around if part)
    )
    return None if unclear else url


def _pairs(url: Any) -> list[tuple[str, str]]:
    return [
        (key, value)
        for key, values in url.query.items()
        for value in ([values] if isinstance(values, str) else values)
    ]


def _is_secret(key: str, value: str) -> bool:
    """Whether a setting of a URL is secret by its name, or contains a secret."""
    return bool(_KEY.search(key) or _SETTING.search(value) or (":" in value and "@" in value))


def _secrets(url: Any) -> list[str]:
    """All secrets of a URL, decoded."""
    settings = [value for key, value in _pairs(url) if _is_secret(key, value)]
    within = [found[2].strip("'\"{}") for text in settings for found in _SETTING.finditer(text)]
    password = [] if url.password is None else [str(url.password)]
    return [*password, *settings, *within]
