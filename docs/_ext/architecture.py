"""Drawings of the package: its levels, from the import contract, and the paths of two fits."""

from collections import Counter
from html import escape
from textwrap import wrap

# What each package is for; one without an entry is an error, so that none is forgotten.
PURPOSES = {
    "__main__": "the command",
    "cli": "one module per command, settings file; nothing else prints",
    "extend": "names for packages that add methods, such as naim3l-bench",
    "report": "numbers about a model, then the page",
    "explain": "what a model has learned",
    "export": "a model as SQL or ONNX",
    "federated": "sites that share nothing but sums over labels",
    "statistics": "sums over rows that add up: of months and sites",
    "deep": "the same model with networks",
    "estimators": "NAIM3L, NAIM3LCV, and the methods beside them",
    "datasets": "yeast, generated data, the paper's protocol of missing data",
    "decisions": "from scores to decisions: held-out entries, rules, probabilities, fusion",
    "solvers": "objective, thresholding, W-step, algorithms",
    "problem": "rows, or statistics of rows; which is cheaper",
    "features": "survey and plan of columns, recipes, kernels",
    "metrics": "metrics that skip unknown labels",
    "input": "any table in batches; labels; views",
    "files": "tables in files and databases, model files, checkpoints",
    "_arrays": "array types",
    "_device": "CPU or GPU",
    "_hashing": "hashes of rows",
    "_ids": "names of ids",
    "_origin": "where a cell came from",
    "_progress": "progress bars",
    "_text": "values in messages",
    "_threads": "threads, BLAS",
    "_warnings": "DataWarning",
}
# The order in which a table passes the packages; files beside them come last.
ON_THE_PATH = ("cli", "estimators", "files", "input", "features", "problem", "decisions", "solvers")
SMALL_FILES = "small files"
WIDTH, GAP, LINE, MOST_BOXES = 680, 8, 15, 5
LETTER = 6.7  # mean width
LEVELS = (
    "Packages of naim3l by level. Each imports only from its own level and from those below it."
)
STYLE = """
.drawing .room { fill: var(--pst-color-surface, #f3f4f5); stroke: var(--pst-color-border, #999) }
.drawing text { fill: var(--pst-color-text-base, #222); font-size: 12px }
.drawing .name, .drawing .room-name { font: 600 13px var(--pst-font-family-monospace, monospace) }
.drawing .title { font-weight: 600; font-size: 13px }
"""


def draw_layers(layers):
    """SVG with a shelf of boxes for each level, the highest at the top."""
    parts, y = [], 1
    for layer in layers:
        names = [name.strip() for name in layer.split(":")]
        for start in range(0, len(names), MOST_BOXES):
            boxes, height = _shelf(names[start : start + MOST_BOXES], y)
            parts += boxes
            y += height + GAP
    middle = f'x="{WIDTH / 2}" y="{y + 12}" text-anchor="middle"'
    return _svg([*parts, f"<text {middle}>imports go downwards only ↓</text>"], y + 20, LEVELS)


def _shelf(names, y):
    """Boxes of one level, and their height."""
    width = (WIDTH - 2 - GAP * (len(names) - 1)) / len(names)
    texts = [wrap(PURPOSES[name], int((width - 12) / LETTER)) for name in names]
    height = 28 + LINE * max(map(len, texts))
    boxes = [
        _box(1 + i * (width + GAP), y, width, height, name, lines)
        for i, (name, lines) in enumerate(zip(names, texts, strict=True))
    ]
    return boxes, height


def draw_paths(paths):
    """SVG with a column for each path: the modules of each package, in the order of first use.

    Parameters
    ----------
    paths : dict of str to Trace
        Results of ``tools/trace_path.py``, by title.
    """
    width = (WIDTH - 2 - GAP) / 2
    columns = [_modules_by_room(found) for found in paths.values()]
    parts = [
        f'<text class="title" x="{1 + i * (width + GAP):.0f}" y="{14 + LINE * line}">{escape(text)}'
        "</text>"
        for i, (title, found) in enumerate(paths.items())
        for line, text in enumerate(
            (title, f"{len(found.modules)} modules, {found.n_changes} calls between them")
        )
    ]
    y, described = 14 + 2 * LINE, []
    for room in (*ON_THE_PATH, SMALL_FILES):
        texts = [wrap(column.get(room, ""), int((width - 14) / LETTER)) for column in columns]
        if not any(texts):
            continue
        height = 28 + LINE * max(map(len, texts))
        parts += [
            _box(1 + i * (width + GAP), y, width, height, room, lines, kind="room-name")
            for i, lines in enumerate(texts)
            if lines
        ]
        y += height + GAP
    for title, found in paths.items():
        names = ", ".join(module.removeprefix("naim3l.") for module in found.modules)
        described.append(f"{title}: {names}.")
    return _svg(parts, y, escape(" ".join(described), quote=True))


def _modules_by_room(found):
    """Text of each package: its modules, and how often others call into them."""
    entered = Counter()
    for (_, module), n in found.changes.items():
        entered[module] += n
    texts = {}
    for module in found.modules:
        name = module.removeprefix("naim3l.")
        room, _, own = name.rpartition(".")
        shown = f"{own}\N{NO-BREAK SPACE}{entered[module]}"
        texts.setdefault(room or SMALL_FILES, []).append(shown)
    return {room: ", ".join(shown) for room, shown in texts.items()}


def _box(x, y, width, height, name, lines, kind="name"):
    """A box with a name and lines of text."""
    texts = [
        f'<text x="{x + 8:.0f}" y="{y + 35 + LINE * i}">{escape(line)}</text>'
        for i, line in enumerate(lines)
    ]
    return (
        f'<rect class="room" x="{x:.0f}" y="{y}" width="{width:.0f}" height="{height}" rx="6"/>'
        f'<text class="{kind}" x="{x + 8:.0f}" y="{y + 18}">{escape(name)}</text>{"".join(texts)}'
    )


def _svg(parts, height, label):
    """The drawing, in an element that scrolls on a phone."""
    size = f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}"'
    return "\n".join([
        f'<div class="scrolled"><svg class="drawing" {size} xmlns="http://www.w3.org/2000/svg">',
        f"<style>{STYLE}</style>",
        *parts,
        "</svg></div>",
    ])  # fmt: skip
