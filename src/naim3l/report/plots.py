"""The style of all figures: size, fonts, colours, and reproducible SVG for HTML pages.

Figures are made without pyplot, so there is no global state and no display. matplotlib is an
optional dependency and is imported when the first figure is made. Functions that draw are decorated
with `styled`, because matplotlib reads the sizes of texts and lines when they are added.
"""

import re
from collections.abc import Callable, Mapping
from functools import wraps
from io import BytesIO
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")
R = TypeVar("R")

# The palette of Okabe and Ito, distinguishable for colour-blind readers; the palest colours last.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442"]
# One for each colour, so that lines can be distinguished in black and white.
MARKERS = list("os^DvPX*")
GREY = "#666666"

STYLE: dict[Any, Any] = {
    "font.size": 8,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same on every computer
    **dict.fromkeys(("axes.labelsize", "axes.titlesize", "xtick.labelsize", "ytick.labelsize"), 8),
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.6),
    **dict.fromkeys(("grid.linewidth", "xtick.minor.width", "ytick.minor.width"), 0.4),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    **dict.fromkeys(("axes.grid", "axes.axisbelow"), True),
    "grid.color": "#DDDDDD",
    "legend.fontsize": 7.5,
    "legend.handlelength": 1.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "errorbar.capsize": 2,
    "svg.hashsalt": "naim3l",
}


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """The same function, with the settings of `STYLE` applied while it draws.

    Parameters
    ----------
    draw : callable
        Function that adds to a figure.

    Returns
    -------
    callable
        The decorated function.
    """

    @wraps(draw)
    def drawing(*args: P.args, **kwargs: P.kwargs) -> R:
        import matplotlib

        with matplotlib.rc_context(STYLE):
            return draw(*args, **kwargs)

    return drawing


@styled
def new_figure(
    n_columns: int = 1, n_rows: int = 1, height: float = 2.4, width: float = 3.5, ratios: Any = None
) -> "tuple[Figure, list[Axes]]":
    """A figure and the list of its axes, row by row; for one panel, ``fig, (ax,) = new_figure()``.

    Parameters
    ----------
    n_columns, n_rows : int
        Numbers of panels.
    height, width : float
        Size of one panel in inches. By default a panel is as wide as a column of text.
    ratios : sequence of float, optional
        Widths of the columns relative to each other, instead of equal ones.

    Returns
    -------
    fig : Figure
        The figure.
    axes : list of Axes
        Its panels.
    """
    from matplotlib.figure import Figure

    fig = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    return fig, list(fig.subplots(n_rows, n_columns, squeeze=False, width_ratios=ratios).flat)


@styled
def to_svg(fig: "Figure") -> str:
    """A figure as the text of an SVG file; the same figure gives the same text."""
    import matplotlib

    file = BytesIO()
    # Texts stay texts, which the browser draws with its own fonts.
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        fig.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue().decode("utf-8")


def inline_svg(text: str, anchor: str, label: str, names: Mapping[str, str] | None = None) -> str:
    """An SVG file as an element of an HTML page.

    Parameters
    ----------
    text : str
        Content of the file.
    anchor : str
        The new id of the figure, and the prefix of every id in it, because figures share ids.
    label : str
        Alternative text.
    names : mapping of str to str, optional
        Texts to put in place of those in the groups with these ids.

    Returns
    -------
    str
        The element without prolog, comments, metadata and namespaces; its styles apply only to it.
    """
    root = ElementTree.fromstring(text)
    for element in list(root.iter()):
        element.tag = _local(element.tag)
        if names and (found := element.attrib.get("id", "")) in names:
            element[-1].text = names[found]
        for child in list(element):
            if _local(child.tag) in ("metadata", "script"):
                element.remove(child)
        given = [(_local(name), value) for name, value in element.attrib.items()]
        element.attrib.clear()
        element.attrib |= {name: _rename(name, value, f"{anchor}-") for name, value in given}
        if element.tag == "style" and element.text:
            element.text = f"#{anchor} {{{element.text}}}"
    root.attrib |= {"id": anchor, "role": "img", "aria-label": label}
    title = ElementTree.Element("title")
    title.text = label
    root.insert(0, title)
    return ElementTree.tostring(root, encoding="unicode").strip()


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _rename(attribute: str, value: str, prefix: str) -> str:
    """The value of an attribute, with a prefix before the id that it is or refers to, if any."""
    if attribute == "id":
        return prefix + value
    if attribute == "href" and value.startswith("#"):
        return f"#{prefix}{value[1:]}"
    return re.sub(r"url\(\s*(['\"]?)#", rf"url(\1#{prefix}", value)
