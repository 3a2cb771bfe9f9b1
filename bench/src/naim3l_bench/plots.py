"""Figures of experiments, in the style of the reports of naim3l."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from naim3l.extend import COLOURS, MARKERS, new_figure, styled
from naim3l_bench.files import written_whole
from naim3l_bench.trials import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN_WIDTH = 3.5  # inches, of a page with two columns
DPI = 200
LINES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1))]


@styled
def draw_series(
    ax: "Axes",
    x: Iterable[Any],
    values: Sequence[Sequence[float]],
    *,
    index: int = 0,
    label: str | None = None,
) -> None:
    """A line through the means of groups of values, with their standard deviations as error bars.

    Parameters
    ----------
    ax : Axes
    x : iterable of n_points
    values : sequence of n_points sequences
        The values of each point, one per seed. Error bars are population standard deviations.
    index : int
        Index of the line, which determines its colour and marker.
    label : str, optional
        For the legend.
    """
    look: dict[str, Any] = {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[index % len(MARKERS)],
        "label": label,
    }
    means = [float(np.mean(group)) for group in values]
    ax.errorbar(list(x), means, yerr=[float(np.std(group)) for group in values], **look)


@styled
def save(fig: "Figure", stem: Path) -> list[Path]:
    """Write a figure as ``<stem>.svg`` and ``<stem>.png``, each completely or not at all.

    The same figure gives the same bytes: the files contain no date and no random names.

    Parameters
    ----------
    fig : Figure
    stem : Path
        Path without extension; a dot in the name is part of the name.

    Returns
    -------
    paths : list of the two paths
    """
    written = []
    for suffix, options in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": DPI})):
        target = stem.with_name(f"{stem.name}.{suffix}")
        with written_whole(target) as part:
            fig.savefig(part, format=suffix, **options)
        written.append(target)
    return written


@styled
def metric_figure(draw: "Callable[[Axes, str], None]", x_label: str) -> "Figure":
    """Four panels, each filled by ``draw(axes, metric)``, under one legend."""
    fig, axes = new_figure(2, 2, 1.9)
    for ax, metric in zip(axes, METRICS, strict=True):
        draw(ax, metric)
        ax.set(xlabel=x_label, ylabel=f"{metric} (%)")
        ax.ticklabel_format(axis="y", useOffset=False)
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return fig
