"""Formulas as MathML, which browsers show without a script and without a network."""

from docutils.nodes import SkipNode
from latex2mathml.converter import convert


def show(translator, node, display):
    """Write a formula, and skip its text."""
    kind = "math block" if display == "block" else "math"
    formula = convert(node.astext(), display=display)
    translator.body.append(f'<span class="{kind}" role="math">{formula}</span>')
    raise SkipNode


def setup(app):
    app.add_html_math_renderer(
        "mathml",
        (lambda self, node: show(self, node, "inline"), None),
        (lambda self, node: show(self, node, "block"), None),
    )
    return {"version": "1", "parallel_read_safe": True}
