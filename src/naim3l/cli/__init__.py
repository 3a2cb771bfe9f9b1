"""The command line; the only modules that print. One module per command, or per related pair."""

import sys
from io import TextIOWrapper

from naim3l.cli import (
    check,
    collect,
    compare,
    demo,
    evaluate,
    explain,
    export,
    federate,
    fit,
    init,
    inspect,
    predict,
    report,
    rounds,
)
from naim3l.cli.app import add_commands, add_group, app

__all__ = ["app", "main"]

add_commands(init.init, fit.fit, predict.predict, predict.impute, evaluate.evaluate)
add_commands(explain.explain, check.check, report.report, inspect.inspect, export.export)
add_commands(demo.demo)
by_file, in_rounds = (
    (federate.share, federate.combine, federate.finish),
    (rounds.key, rounds.serve, rounds.join),
)
add_commands(compare.compare, collect.plan, collect.collect)
add_group(federate.GROUP, *by_file, *in_rounds, name="federate")


def main() -> None:
    """Run the ``naim3l`` command, which `naim3l.__main__` starts."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # terminals may lack a character
    app()
