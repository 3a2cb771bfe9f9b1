"""Start of the ``naim3l-bench`` command."""

import sys
from io import TextIOWrapper

from naim3l_bench.cli import app


def main() -> None:
    """Entry point of the ``naim3l-bench`` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # terminals may lack a character
    app()


if __name__ == "__main__":
    main()
