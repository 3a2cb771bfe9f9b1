"""Tables of results, which have a bold title, are collapsed; a click on the title opens them."""

from html import escape

from docutils import nodes

OPEN_UP_TO = 4  # rows; shorter tables are shown at once


def is_title(node):
    """Whether it is a paragraph of bold text only."""
    kinds = [type(part) for part in node.children if part.astext()]
    return isinstance(node, nodes.paragraph) and kinds == [nodes.strong]


def collapse(app, doctree):
    """Put each titled table, and the note below it, into a ``<details>`` element."""
    for table in list(doctree.findall(nodes.table)):
        parent, i = table.parent, table.parent.index(table)
        if i == 0 or not is_title(parent[i - 1]):
            continue
        title = escape(parent[i - 1].astext())
        n_rows = len(list(table.findall(nodes.row))) - 1
        after = parent[i + 1] if i + 1 < len(parent) else None
        has_note = isinstance(after, nodes.paragraph) and not is_title(after)
        is_open = " open" if n_rows <= OPEN_UP_TO else ""
        words = f'<span class="rows">{n_rows} rows</span>'
        start = f'<details class="table"{is_open}><summary>{title} {words}</summary>'
        parent.insert(i + 1 + has_note, nodes.raw("", "</details>", format="html"))
        parent[i - 1] = nodes.raw("", start, format="html")


def setup(app):
    app.connect("doctree-read", collapse)
    return {"version": "1", "parallel_read_safe": True}
