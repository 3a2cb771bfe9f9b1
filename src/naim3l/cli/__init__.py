"""The command line; the only modules that print. One module per command, or two that belong."""

from naim3l.cli import datasets, demo, evaluate, fit, predict, report, reproduce
from naim3l.cli.app import app

__all__ = ["app", "datasets", "demo", "evaluate", "fit", "main", "predict", "report", "reproduce"]


def main() -> None:
    """Entry point of the ``naim3l`` command."""
    app()
