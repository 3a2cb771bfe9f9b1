"""The warning about data, and how it names the caller's line."""

import sys
import warnings


class DataWarning(UserWarning):
    """Warning that data can be used, but that something about them is probably not intended.

    Examples
    --------
    To turn these warnings into errors, for example in a script that runs unattended:

    >>> import warnings
    >>> from naim3l import DataWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", DataWarning)
    ...     # model.fit(X, y)
    """


def warn_user(message: str, category: type[Warning] = DataWarning) -> None:
    """Warn with the line outside of this package from which it was called."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("naim3l."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
