"""Pages of classes show the methods that naim3l defines; data get a docstring."""

import inspect

DATA = {
    "naim3l.extend.COLOURS": "Colours of the curves of a figure, in order.",
    "naim3l.extend.GREY": "Colour of what is not a curve, such as a line for guessing.",
    "naim3l.extend.MARKERS": "Markers of the curves of a figure, in order.",
}


def skip(app, what, name, found, skipped, options):
    """Whether to leave a member out; None leaves the decision to autodoc."""
    function = getattr(found, "__func__", found)
    if inspect.isfunction(function) and not (function.__module__ or "").startswith("naim3l"):
        return True
    return None


def describe(app, what, name, found, options, lines):
    """Replace the docstring of the type of a constant."""
    if name in DATA:
        lines[:] = [DATA[name]]


def setup(app):
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", describe, priority=900)
    return {"version": "1", "parallel_read_safe": True}
