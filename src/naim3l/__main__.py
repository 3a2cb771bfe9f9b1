"""How the ``naim3l`` command is started: nothing is imported before Ctrl-C is taken care of."""

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
    except KeyboardInterrupt:  # from where no command has begun, or ended
        sys.exit(130)


def _stop(number: int, frame: FrameType | None) -> None:
    """Ctrl-C: end at once amid an import, and else with an exception, as Python does.

    Libraries in C turn an exception in the imports that they make into an ImportError, and Python
    itself drops one in the locks of modules. So early there is nothing to be put in order.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
