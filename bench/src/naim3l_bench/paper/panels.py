"""Figures of one panel per metric, with one legend for all."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from naim3l.extend import new_figure, styled
from naim3l_bench.present import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1))]


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
