"""Explanations of rows as bars, from the rate of a label to the probability of the row."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logit

from naim3l._text import visible
from naim3l.explain.rows import KNOWN, Explanation, bars_of, share, signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BAR, LONGEST = 0.21, 44  # inches of height; characters of a name
LOW = np.array([0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4])
TICKS, MOST_TICKS = np.array([*LOW, 0.5, *1 - LOW[::-1]]), 7  # of probabilities


def draw_explanations(found: Sequence[Explanation], most: int = 8) -> "Figure":
    """A panel of bars for each label: what raises its probability, and what lowers it.

    The axis has probabilities, in steps of log-odds, so that equal parts have equal bars.

    Parameters
    ----------
    found : sequence of Explanation
        Result of `explain_row`.
    most : int, default=8
        Number of columns that have a bar of their own.

    Returns
    -------
    matplotlib.figure.Figure
        With ``savefig``.

    Examples
    --------
    >>> from naim3l.explain import Explanation, Part, draw_explanations
    >>> parts = [Part("column", "lab", "uric_acid", 9.1, 0.9)]
    >>> found = Explanation("P0113", "gout", -2.0, -1.1, parts, {"lab": 0.9}, True, {})
    >>> draw_explanations([found]).savefig("gout.png")
    """
    from naim3l.report.plots import new_figure, styled

    if not found:
        raise ValueError("there is no label to draw: all are known of this row.")
    bars = [bars_of(each, most) for each in found]
    most_bars = max(map(len, bars))
    fig, axes = new_figure(1, len(found), BAR * most_bars + 0.65, 6.3)
    for ax, each, of in zip(axes, found, bars, strict=True):
        styled(_draw)(ax, each, of, most_bars)
    said = "probability, in steps of log-odds; dotted: of all, solid: of this row"
    fig.supxlabel(said, fontsize=8)
    return fig


def _draw(ax: Any, each: Explanation, bars: Sequence[tuple[str, str, float]], most: int) -> None:
    from naim3l.report.findings import shorten
    from naim3l.report.plots import COLOURS, GREY

    added = np.array([of for *_, of in bars])
    ends = each.base_log_odds + np.cumsum(added)
    low, high = min([each.base_log_odds, *ends]), max([each.base_log_odds, *ends])
    room = max(0.12 * (high - low), 0.3)
    for i, ((kind, _, of), end) in enumerate(zip(bars, ends, strict=True)):
        look = {"hatch": "////", "edgecolor": "white"} if kind == KNOWN else {}
        ax.barh(i, of, 0.62, left=end - of, color=COLOURS[1 if of > 0 else 0], **look)
        right = max(end, end - of)
        place: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 7}
        ax.annotate(signed(of), (right, i), (3, 0), **place)
        if i:
            ax.plot([end - of] * 2, [i - 1, i], color=GREY, linewidth=0.5)
    for at, style in ((each.base_log_odds, ":"), (each.log_odds, "-")):
        ax.axvline(at, color=GREY, linestyle=style, linewidth=0.8, zorder=0)
    named = [title.rpartition(" = ") for _, title, _ in bars]  # of which the value is kept
    cut = [shorten(name, LONGEST - len(value)) if name else "" for name, _, value in named]
    titles = [f"{name}{sign}{value}" for name, (_, sign, value) in zip(cut, named, strict=True)]
    ax.set_yticks(range(len(bars)), [visible(title) for title in titles])
    ax.set(ylim=(most - 0.4, -0.6), xlim=(low - room / 2, high + room))
    shown = TICKS[(logit(TICKS) > low - room / 2) & (logit(TICKS) < high + room)]
    shown = shown[:: -(-len(shown) // MOST_TICKS) or 1]
    ax.set_xticks(logit(shown), [f"{100 * p:.3g} %" for p in shown])
    ax.grid(False, axis="y")
    ends_at = f"{share(each.probability)} (of all: {share(each.base_rate)})"
    title = ax.set_title(
        f"{shorten(f'{each.row}, {each.titles.get(each.label, each.label)}', LONGEST)}: {ends_at}"
    )
    for text in (title, *ax.get_yticklabels()):
        text.set_parse_math(False)  # a name may have signs of formulas
