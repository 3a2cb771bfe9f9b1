"""The drawing of the packages: one shelf per level of the import contract."""

from html import escape

# What each package is for; a package without an entry is an error, so that none is forgotten.
PURPOSES = {
    "__main__": "the command",
    "cli": "commands and settings file; nothing else prints",
    "experiments": "tables and figures of the paper, and comparisons beyond it",
    "report": "numbers about a model, then the page",
    "explain": "what a model has learned",
    "deep": "the same model with networks",
    "estimators": "NAIM3L, NAIM3LCV, and the methods beside them",
    "solvers": "objective, thresholding, W-step, algorithms",
    "files": "tables from files, model files, checkpoints",
    "datasets": "yeast, generated data, readers",
    "missing": "the paper's protocol",
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
WIDTH, SHELF, GAP = 860, 74, 10
SMALL = ("__main__", "_arrays", "_parameters", "_progress", "_text")  # files rather than packages


def draw_layers(layers):
    """SVG with one row of boxes per level, the highest at the top."""
    height = len(layers) * SHELF + 40
    label = "Packages of naim3l by level: each imports only from its own level and from those below"
    parts = [
        f'<svg class="drawing" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}" '
        'xmlns="http://www.w3.org/2000/svg">',
        "<style>.drawing .room { fill: var(--pst-color-surface, #f3f4f5);"
        " stroke: var(--pst-color-border, #999) }"
        " .drawing text { fill: var(--pst-color-text-base, #222) }"
        " .drawing .name { font: 600 15px var(--pst-font-family-monospace, monospace) }"
        " .drawing .purpose { font-size: 12px }</style>",
    ]
    for i, layer in enumerate(layers):
        parts += _shelf([name.strip() for name in layer.split(":")], i * SHELF + 4)
    arrow = "imports go downwards only"
    parts.append(f'<text class="purpose" x="{WIDTH / 2}" y="{height - 10}" '
                 f'text-anchor="middle">{arrow} ↓</text></svg>')  # fmt: skip
    return "\n".join(parts)


def _shelf(names, y):
    """Boxes of one level; files get narrow ones."""
    shares = [1 if name in SMALL else 2 for name in names]
    unit = (WIDTH - GAP * (len(names) - 1) - 2) / sum(shares)
    x, parts = 1.0, []
    for name, share in zip(names, shares, strict=True):
        width = share * unit
        parts.append(
            f'<rect class="room" x="{x:.0f}" y="{y}" width="{width:.0f}" height="{SHELF - GAP}" '
            'rx="6"/>'
            f'<text class="name" x="{x + 10:.0f}" y="{y + 22}">{escape(name)}</text>'
        )
        for j, line in enumerate(_wrapped(PURPOSES[name], int((width - 16) / 6.2))):
            parts.append(
                f'<text class="purpose" x="{x + 10:.0f}" y="{y + 40 + 15 * j}">{line}</text>'
            )
        x += width + GAP
    return parts


def _wrapped(text, width):
    """Lines of at most so many characters, if words allow."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
