"""The command line; the only modules that print. One module per command, or two that belong."""

import sys
from io import TextIOWrapper

from naim3l.cli import datasets, demo, evaluate, fit, predict, report, reproduce
from naim3l.cli.app import app

__all__ = ["app", "datasets", "demo", "evaluate", "fit", "main", "predict", "report", "reproduce"]


def main() -> None:
    """Run the ``naim3l`` command; `naim3l.__main__` is how it is started."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for terminals that lack a letter
    app()
