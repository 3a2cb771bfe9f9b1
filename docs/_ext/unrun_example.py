"""Without torch, the page of the example that needs it says so, and shows an earlier result."""

from importlib.util import find_spec

EXAMPLE = "gallery/plot_09_image_and_table"
NOTE = """
.. note::

   This site was built without torch, so the example below was not run. The figure is the result of
   an earlier run.

.. image:: /figures/image_and_table.svg
   :alt: Average precision of the linear model and of networks, for images and for the table

"""


def add_note(app, docname, source):
    """Insert the note after the title of the page."""
    if docname == EXAMPLE and find_spec("torch") is None:
        title_end = source[0].index("\n\n", source[0].index("\n====")) + 2
        source[0] = source[0][:title_end] + NOTE + source[0][title_end:]


def setup(app):
    app.connect("source-read", add_note)
    return {"version": "1", "parallel_read_safe": True}
