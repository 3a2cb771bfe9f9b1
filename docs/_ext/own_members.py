"""Pages of classes show the methods that naim3l defines, not those of scikit-learn or torch."""

import inspect


def skip(app, what, name, found, skipped, options):
    """Whether to leave a member out; None leaves the decision to autodoc."""
    function = getattr(found, "__func__", found)
    if inspect.isfunction(function) and not (function.__module__ or "").startswith("naim3l"):
        return True
    return None


def setup(app):
    app.connect("autodoc-skip-member", skip)
    return {"version": "1", "parallel_read_safe": True}
