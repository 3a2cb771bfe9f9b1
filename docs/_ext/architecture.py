"""The drawing of the packages: one shelf per level of the import contract."""

from html import escape
from textwrap import wrap

# What each package is for; one without an entry is an error, so that none is forgotten.
PURPOSES = {
    "__main__": "the command",
    "cli": "commands and settings file; nothing else prints",
    "extend": "names for packages that add methods, such as naim3l-bench",
    "report": "numbers about a model, then the page",
    "explain": "what a model has learned",
    "deep": "the same model with networks",
    "estimators": "NAIM3L, NAIM3LCV, and the methods beside them",
    "solvers": "objective, thresholding, W-step, algorithms",
    "files": "tables from files, model files, checkpoints",
    "datasets": "yeast, generated data, the paper's protocol of missing data",
    "decisions": "from scores to answers: thresholds, probabilities, fusion",
    "problem": "rows, and statistics of rows",
    "features": "recipes per view, kernels",
    "input": "any table to checked views and labels",
    "metrics": "metrics that skip unknown labels",
    "_arrays": "array types",
    "_parameters": "checks",
    "_progress": "progress bars",
    "_text": "values in messages",
}
# Files rather than packages.
SMALL = ("__main__", "extend", "_arrays", "_parameters", "_progress", "_text")
WIDTH, GAP, LINE = 680, 8, 15
LETTER = 6.7  # mean width
LABEL = "Packages of naim3l by level. Each imports only from its own level and from those below it."
STYLE = """
.drawing .room { fill: var(--pst-color-surface, #f3f4f5); stroke: var(--pst-color-border, #999) }
.drawing text { fill: var(--pst-color-text-base, #222); font-size: 12px }
.drawing .name { font: 600 13px var(--pst-font-family-monospace, monospace) }
"""


def draw_layers(layers):
    """SVG with one shelf of boxes per level, the highest at the top."""
    parts, y = [], 1
    for layer in layers:
        boxes, height = _shelf([name.strip() for name in layer.split(":")], y)
        parts += boxes
        y += height + GAP
    middle = f'x="{WIDTH / 2}" y="{y + 12}" text-anchor="middle"'
    return "\n".join([
        f'<svg class="drawing" viewBox="0 0 {WIDTH} {y + 20}" role="img" aria-label="{LABEL}" '
        'xmlns="http://www.w3.org/2000/svg">',
        f"<style>{STYLE}</style>",
        *parts,
        f"<text {middle}>imports go downwards only ↓</text></svg>",
    ])  # fmt: skip


def _shelf(names, y):
    """Boxes of one level, and their height; files get narrower ones."""
    shares = [5 if name in SMALL else 6 for name in names]
    unit = (WIDTH - 2 - GAP * (len(names) - 1)) / sum(shares)
    widths = [share * unit for share in shares]
    texts = [
        wrap(PURPOSES[name], int((width - 12) / LETTER))
        for name, width in zip(names, widths, strict=True)
    ]
    height = 28 + LINE * max(map(len, texts))
    x, parts = 1.0, []
    for name, width, lines in zip(names, widths, texts, strict=True):
        parts.append(
            f'<rect class="room" x="{x:.0f}" y="{y}" width="{width:.0f}" height="{height}" rx="6"/>'
            f'<text class="name" x="{x + 8:.0f}" y="{y + 18}">{escape(name)}</text>'
        )
        for i, line in enumerate(lines):
            at = f'x="{x + 8:.0f}" y="{y + 35 + LINE * i}"'
            parts.append(f"<text {at}>{escape(line)}</text>")
        x += width + GAP
    return parts, height
