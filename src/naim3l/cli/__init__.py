"""The command line; the only modules that print. One module per command."""

from naim3l.cli import datasets, demo, reproduce
from naim3l.cli.app import app

__all__ = ["app", "datasets", "demo", "main", "reproduce"]


def main() -> None:
    """Entry point of the ``naim3l`` command."""
    app()
