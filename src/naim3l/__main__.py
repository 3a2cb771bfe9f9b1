"""Start of the ``naim3l`` command, which handles Ctrl-C before anything else is imported."""

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Entry point of the ``naim3l`` command."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # nohup has it ignored
        signal.signal(signal.SIGINT, _stop)
    try:
        from naim3l.cli import main as run

        run()
    except KeyboardInterrupt:  # before or after a command
        sys.exit(130)


def _stop(number: int, frame: FrameType | None) -> None:
    """End at once during an import, otherwise raise an exception, as Python does.

    Libraries in C turn an exception in their imports into an ImportError, and Python itself drops
    one in the locks of modules. During an import there is nothing to clean up yet.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
