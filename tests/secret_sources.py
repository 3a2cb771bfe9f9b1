"""Database sources with a password in every place that can hold one."""

PASSWORD = "Xyzzy7"  # nothing else spells it, in whatever case
QUERY = "select * from lab"


def _login(password, at="nohost.invalid/lab"):
    return f"nosuchdb://me:{password}@{at}#{QUERY}"


LOGINS = {  # by what is special in the password, as typed and as it should be
    "plain": _login(PASSWORD),
    "slash": _login(f"a/{PASSWORD}/b"),
    "at": _login(f"a@{PASSWORD}@b"),
    "at and slash": _login(f"a@b/{PASSWORD}@c"),
    "at and question": _login(f"a@{PASSWORD}?b"),
    "colon": _login(f"a:{PASSWORD}:b"),
    "at and colon": _login(f"a@b:{PASSWORD}"),
    "hash": _login(f"a#{PASSWORD}#b"),
    "percent": _login(f"a%{PASSWORD}%zz"),
    "space": _login(f"a {PASSWORD} b"),
    "line": _login(f"a\n{PASSWORD}"),
    "encoded": _login(f"a%2F%40%3A%23%25{PASSWORD}"),
    "no host": f"nosuchdb://me:{PASSWORD}/lab#{QUERY}",
    "no query": f"nosuchdb://me:a#{PASSWORD}@host/lab",
    "other query": f"nosuchdb://me:a#{PASSWORD}@host/lab#drop table lab",
    "user with a slash": f"nosuchdb://me/x:{PASSWORD}@host/lab#{QUERY}",
    "driver": f"postgresql+no_such-driver://me:{PASSWORD}@host/lab#{QUERY}",
    "web": f"https://{PASSWORD}@host/lab.csv?sig={PASSWORD}",
}
KEYS = ["password", "passwd", "pwd", "PWD", "sslpassword", "token", "access_token", "secret",
        "client_secret", "key", "api_key", "private_key_passphrase"]  # fmt: skip
SETTINGS = {
    **{key: f"nosuchdb://me@host/lab?x=1&{key}={PASSWORD}&y=2#{QUERY}" for key in KEYS},
    "twice": f"nosuchdb://me@host/lab?pwd={PASSWORD}1&pwd={PASSWORD}2#{QUERY}",
    "odbc": f"mssql+nosuch:///?odbc_connect=DRIVER%3D%7Bx%7D%3BUID%3Dme%3BPWD%3D{PASSWORD}%3B#{QUERY}",
    "odbc in braces": f"mssql+nosuch:///?odbc_connect=PWD%3D%7Ba;b%7D%7D{PASSWORD}%7D#{QUERY}",
    "odbc as a host": f"mssql+nosuch://host;UID=me;PWD={PASSWORD}/lab#{QUERY}",
    "libpq": f"nosuchdb:///lab?x=host%3Dh+password%3D{PASSWORD}#{QUERY}",
    "proxy": f"nosuchdb://host/lab?proxy=http%3A%2F%2Fme%3A{PASSWORD}%40host#{QUERY}",
}
NO_URLS = {
    "name": f"db=nosuchdb://me:{PASSWORD}@host/lab#{QUERY}",
    "space before": f" nosuchdb://me:{PASSWORD}@host/lab#{QUERY}",
    "quotes": f"'nosuchdb://me:{PASSWORD}@host/lab#{QUERY}'",
    "one slash": f"nosuchdb:/me:{PASSWORD}@host/lab#{QUERY}",
    "no slash": f"nosuchdb:me:a {PASSWORD}@host/lab#{QUERY}",
    "long": f"nosuchdb:/me:{PASSWORD}@host/lab#{QUERY} where {' or '.join(['x = 1'] * 99)}",
    "libpq alone": f"host=h user=me password='a {PASSWORD}' dbname=lab",
    "odbc alone": f"DRIVER={{x}};UID=me;PWD={PASSWORD};",
}
SOURCES = LOGINS | SETTINGS | NO_URLS


def assert_hidden(*texts):
    """No text or bytes has the password, in whatever case."""
    for text in texts:
        shown = text if isinstance(text, str) else text.decode("latin-1")
        at = shown.lower().find(PASSWORD.lower())
        assert at < 0, f"the password is shown: ...{shown[max(at - 80, 0) : at + 20]!r}"
