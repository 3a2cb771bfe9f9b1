"""Figures of a summary.

They contain no names given by the user, which may have characters that the font lacks. Captions and
alternative texts, which are HTML, contain the names.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from naim3l.report.plots import COLOURS, GREY, MARKERS, add_legend, new_figure, styled

Summary = dict[str, Any]

# More maps than this would dominate the page.
MOST_MAPS = 8
FEW_PLACES = 7
KNOWN, UNKNOWN = "#E3EAF1", "#2F4B66"


@dataclass(frozen=True)
class Drawing:
    """A figure with its caption and its alternative text."""

    figure: Any
    caption: str
    description: str


@styled
def draw_map(entry: dict[str, Any]) -> Drawing:
    """Which labels are unknown in which rows, and which rows lack a view."""
    from matplotlib.colors import LinearSegmentedColormap

    unknown = np.array(entry["unknown"], dtype=float)
    lacking = np.array(list(entry["lacking"].values()), dtype=float).T
    fig, (ax,) = new_figure(1, 1, 2.3)
    shades = LinearSegmentedColormap.from_list("unknown", [KNOWN, UNKNOWN])
    # Views are drawn to the left, separate from the labels.
    look: dict[str, Any] = {
        "cmap": shades, "vmin": 0, "vmax": 1, "aspect": "auto", "interpolation": "nearest",
    }  # fmt: skip
    n_labels, n_rows = unknown.shape[1], entry["n_rows"]
    image = ax.imshow(unknown, extent=(0.5, n_labels + 0.5, n_rows, 0), **look)
    ax.grid(False)
    ax.set(xlabel="label, in the order of the table", ylabel="row")
    _whole_numbers(ax.xaxis, ax.yaxis)
    bar = fig.colorbar(image, ax=ax, shrink=0.8)
    bar.set_label("share missing")
    bar.outline.set_visible(False)
    if lacking.any():
        side = ax.inset_axes((-0.42, 0, 0.14, 1))
        side.imshow(lacking, extent=(0.5, lacking.shape[1] + 0.5, n_rows, 0), **look)
        side.grid(False)
        side.set(xlabel="view", yticks=[])
        _whole_numbers(side.xaxis)
    views = ", ".join(
        f"{view}: {_percent(np.mean(shares))} of the rows lack it"
        for view, shares in entry["lacking"].items()
    )
    caption = f"{entry['name']}: dark where the label of a row is unknown"
    if lacking.any():
        caption += f"; left: dark where a row lacks the view ({_numbered(list(entry['lacking']))})"
    return Drawing(
        fig,
        f"{caption}.",
        f"Map of {entry['n_rows']} rows by {n_labels} labels: {_percent(unknown.mean())} of the "
        f"entries are unknown. {views}.",
    )


@styled
def draw_choice(choice: dict[str, Any]) -> Drawing:
    """Held-out metric against lam, with a line for each ridge."""
    fig, (ax,) = new_figure(1, 1, 2.6, width=4.2)
    for i, curve in enumerate(choice["curves"]):
        mean, std = (np.array(curve[key], dtype=float) for key in ("mean", "std"))
        colour = COLOURS[i % len(COLOURS)]
        ax.fill_between(curve["lam"], mean - std, mean + std, color=colour, alpha=0.15, linewidth=0)
        ax.plot(
            *(curve["lam"], mean), color=colour, marker=MARKERS[i % len(MARKERS)],
            label=f"{curve['ridge']:g}",
        )  # fmt: skip
    best = choice["chosen"]
    ax.plot(
        *(best["lam"], best["mean"]), "o", color="none", markeredgecolor="#000000",
        markersize=10, label="chosen",
    )  # fmt: skip
    lams = sorted({lam for curve in choice["curves"] for lam in curve["lam"]})
    _log_axis(ax, lams if len(lams) <= FEW_PLACES else _round_places(lams))
    ax.set(xlabel="lam", ylabel=f"{choice['metric']}, held-out entries")
    add_legend(ax, title="ridge", title_fontsize=7.5, loc="best")
    direction = "lower" if choice["lower_is_better"] else "higher"
    return Drawing(
        fig,
        f"Mean over {choice['n_folds']} folds, bands of one standard deviation; {direction} is "
        "better.",
        f"{choice['metric']} for lam from {lams[0]:g} to {lams[-1]:g} and "
        f"{len(choice['curves'])} values of ridge. Chosen: lam {best['lam']:g} and ridge "
        f"{best['ridge']:g}, with {best['mean']:.4f}, standard deviation {best['std']:.4f}.",
    )


@styled
def draw_objective(fit: dict[str, Any]) -> Drawing:
    values = fit["objective"]
    fig, (ax,) = new_figure()
    ax.plot(range(1, len(values) + 1), np.array(values, dtype=float), color=COLOURS[0])
    ax.ticklabel_format(useOffset=False)
    ax.set(xlabel="iteration", ylabel="objective")
    _whole_numbers(ax.xaxis)
    return Drawing(
        fig,
        "Objective after each iteration.",
        f"Objective from {_show(values[0])} after the first to {_show(values[-1])} after the last "
        f"of {len(values)} iterations.",
    )


@styled
def draw_stationarity(fit: dict[str, Any]) -> Drawing:
    values = np.array(fit["stationarity"], dtype=float)
    fig, (ax,) = new_figure()
    ax.plot(range(1, len(values) + 1), np.where(values > 0, values, np.nan), color=COLOURS[0])
    if fit["tol"] > 0:
        ax.axhline(fit["tol"], color=GREY, linestyle="--", label=f"tol = {fit['tol']:g}")
        add_legend(ax, loc="upper right")
    ax.set_yscale("log")
    ax.set(xlabel="iteration", ylabel="stationarity residual")
    _whole_numbers(ax.xaxis)
    return Drawing(
        fig,
        "Relative distance of the weights from a stationary point.",
        f"Stationarity residual, {_show(fit['stationarity'][-1])} after the last of {len(values)} "
        f"iterations; the fit stops below {fit['tol']:g} if it is also feasible.",
    )


@styled
def draw_labels(labels: list[dict[str, Any]]) -> Drawing | None:
    """AUC of each label against its number of known positives; None where there is no AUC."""
    shown = [entry for entry in labels if entry["auc"] is not None and entry["yes"]]
    if not shown:
        return None
    views = list(dict.fromkeys(entry["view"] for entry in shown))
    fig, (ax,) = new_figure(1, 1, 2.6, width=4.2)
    for i, view in enumerate(views):
        of_view = [entry for entry in shown if entry["view"] == view]
        ax.plot(
            *([entry[key] for entry in of_view] for key in ("yes", "auc")),
            MARKERS[i % len(MARKERS)], color=COLOURS[i % len(COLOURS)], alpha=0.7,
            label=f"view {i + 1}",
        )  # fmt: skip
    ax.axhline(0.5, color=GREY, linestyle="--")
    _log_axis(ax, _round_places([entry["yes"] for entry in shown]))
    ax.set(xlabel="known positives in training", ylabel="AUC of the label")
    if len(views) > 1:
        add_legend(ax, loc="best")
    low = min(shown, key=lambda entry: entry["auc"])
    return Drawing(
        fig,
        "Each point is a label; random guessing gives 0.5 (dashed)."
        + (f" In the legend, {_numbered(views)}." if len(views) > 1 else ""),
        f"AUC of {len(shown)} labels against their numbers of known positives; the lowest, "
        f"{low['auc']:.3f}, is that of {low['label']} with {low['yes']} known positives.",
    )


@styled
def draw_calibration(entry: dict[str, Any]) -> Drawing:
    """Share of positive entries against mean probability."""
    bins = [b for b in entry["bins"] if b["n"]]
    fig, (ax,) = new_figure(1, 1, 2.8, width=3.2)
    ax.plot([0, 1], [0, 1], "--", color=GREY, linewidth=0.8)
    x, share = ([b[key] for b in bins] for key in ("probability", "share"))
    ax.plot(x, share, color=COLOURS[0])
    sizes = [12 + 90 * b["n"] / max(b["n"] for b in bins) for b in bins]
    ax.scatter(x, share, s=sizes, color=COLOURS[0], alpha=0.6, linewidth=0, zorder=3)
    ax.set(xlabel="probability", ylabel="share of positives", xlim=(0, 1), ylim=(0, 1))
    pairs = ", ".join(f"{b['probability']:.2f} and {b['share']:.2f}" for b in bins)
    return Drawing(
        fig,
        f"{entry['name']}: entries in ten bins by probability, larger points for more entries; on "
        "the dashed line the calibration is perfect. Expected calibration error "
        f"{_show(entry['error'])}.",
        f"Mean probability and share of positives, by bin: {pairs}.",
    )


@styled
def draw_spectrum(spectrum: dict[str, Any]) -> Drawing:
    values = np.array(spectrum["singular_values"], dtype=float)
    values = np.where(values > values[0] * 1e-12, values, np.nan)
    fig, (ax,) = new_figure()
    ax.plot(range(1, len(values) + 1), values, color=COLOURS[0], marker="o", markersize=3)
    ax.set_yscale("log")
    ax.set(xlabel="index of the singular value", ylabel="singular value")
    _whole_numbers(ax.xaxis)
    return Drawing(
        fig,
        "Singular values of the scores of all rows.",
        f"{len(values)} singular values, from {_show(spectrum['singular_values'][0])} down to "
        f"{_show(spectrum['singular_values'][-1])}; the first {spectrum['dimensions']} hold 99 % "
        "of the sum of squares.",
    )


def _whole_numbers(*axes: Any) -> None:
    for axis in axes:
        axis.get_major_locator().set_params(integer=True)


def _log_axis(ax: Any, places: list[float]) -> None:
    """Logarithmic x-axis with plain numbers at the given places."""
    ax.set_xscale("log")
    ax.set_xticks(places, [f"{place:g}" for place in places])
    ax.set_xticks([], minor=True)


def _round_places(values: list[float]) -> list[float]:
    """A few round numbers within the range of the values, or its ends if there are none."""
    low, high = min(values), max(values)
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for digits in ((1, 2, 5), (1,)):
        places = [digit * 10.0**decade for decade in decades for digit in digits]
        places = [place for place in places if low <= place <= high]
        if len(places) <= FEW_PLACES:
            return places or sorted({low, high})
    return places[:: len(places) // FEW_PLACES + 1]


def _numbered(views: list[str]) -> str:
    return ", ".join(f"view {i + 1} is {view}" for i, view in enumerate(views))


def _percent(share: Any) -> str:
    return f"{100 * share:.0f} %"


def _show(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"
