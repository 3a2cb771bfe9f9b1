"""Figures of a summary.

Names given by the user may have characters that the fonts of matplotlib lack, and signs that it
would read as formulas. A figure has a placeholder of the same width for each; the page, which is
drawn with the fonts of the browser, puts the names in their place.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from rich.cells import cell_len

from naim3l.report.findings import shorten
from naim3l.report.plots import COLOURS, GREY, MARKERS, new_figure, styled

Look = dict[str, Any]  # options of matplotlib

MOST_MAPS = 8  # more would dominate the page
FEW_PLACES = 7
MOST_NAMES, NAME_WIDTH = 24, 18  # ticks next to each other, and characters of a name
ENOUGH_ENTRIES = 20  # that a point of a calibration curve stands for
KNOWN, UNKNOWN = "#E3EAF1", "#2F4B66"


class Drawing(NamedTuple):
    """A figure with its caption, its alternative text, and the names that replace placeholders."""

    figure: Any
    caption: str
    description: str
    names: Mapping[str, str] = MappingProxyType({})


def _place_names(texts: Iterable[Any], names: Sequence[str], prefix: str) -> dict[str, str]:
    """Turn texts into placeholders, and return the names by the ids of the placeholders."""
    placed = {}
    for i, (text, name) in enumerate(zip(texts, names, strict=True)):
        placed[f"{prefix}-{i}"] = shown = shorten(name, NAME_WIDTH)
        text.set_text("n" * cell_len(shown))
        text.set_gid(f"{prefix}-{i}")
    return placed


def _name_ticks(ax: Any, names: Sequence[str], prefix: str) -> dict[str, str]:
    """Ticks at 1, 2, ... with names, or at some of them where there are many."""
    places = range(0, len(names), -(-len(names) // MOST_NAMES))
    some = [names[i] for i in places]
    widths = ["n" * cell_len(shorten(name, NAME_WIDTH)) for name in some]
    look = {"rotation": 90, "rotation_mode": "anchor", "ha": "right", "va": "center"}
    ax.set_xticks([i + 1 for i in places], widths, fontsize=7, **look)
    return _place_names(ax.get_xticklabels(), some, prefix)


def draw_map(entry: dict[str, Any], labels: list[str]) -> Drawing:
    """Which labels are unknown in which rows, and which rows lack a view."""
    from matplotlib.colors import LinearSegmentedColormap

    unknown = np.array(entry["unknown"], dtype=float)
    lacking = np.array(list(entry["lacking"].values()), dtype=float).T
    n_labels, n_rows, views = len(labels), entry["n_rows"], list(entry["lacking"])
    n_beside = len(views) if lacking.any() else 0
    # Views are drawn to the right, separate from the labels.
    ratios = [max(n_labels, 2), max(n_beside, n_labels / 6)][: 1 + bool(n_beside)]
    fig, axes = new_figure(len(ratios), 1, 3.2, 4.4 / len(ratios), ratios)
    colours = LinearSegmentedColormap.from_list("unknown", [KNOWN, UNKNOWN])
    look: Look = dict(cmap=colours, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    image = axes[0].imshow(unknown, extent=(0.5, n_labels + 0.5, n_rows, 0), **look)
    axes[0].set(xlabel="label", ylabel="row")
    axes[0].locator_params("y", integer=True)
    names = _name_ticks(axes[0], labels, "label")
    n_named = len(names)
    for side in axes[1:]:
        side.imshow(lacking, extent=(0.5, n_beside + 0.5, n_rows, 0), **look)
        side.set(xlabel="view", yticks=[])
        names |= _name_ticks(side, views, "view")
    for ax in axes:
        ax.grid(False)
    bar = fig.colorbar(image, ax=axes, shrink=0.8)
    bar.set_label("share missing")
    bar.outline.set_visible(False)
    caption = f"{entry['name']}: dark where it is unknown whether a label applies to a row"
    if n_beside:
        caption += "; on the right, dark where a row lacks a view"
    if n_labels > MOST_NAMES:
        caption += f". Only {n_named} of {n_labels} labels are named"
    said = f"Map of {n_rows} rows by {n_labels} labels: {_percent(unknown.mean())} of the entries"
    shares = [f"{view}: {_percent(np.mean(of))}" for view, of in entry["lacking"].items()]
    lack = ", ".join(f"{share} of the rows lack it" for share in shares)
    return Drawing(fig, f"{caption}.", f"{said} are unknown. {lack}.", names)


def draw_choice(choice: dict[str, Any]) -> Drawing:
    """Held-out metric against lam, with a line for each ridge."""
    fig, (ax,) = new_figure(1, 1, 2.6, width=4.2)
    for i, curve in enumerate(choice["curves"]):
        mean, std = (np.array(curve[key], dtype=float) for key in ("mean", "std"))
        look, name = _look(i), f"{curve['ridge']:g}"
        band: Look = {"color": look["color"], "alpha": 0.15, "linewidth": 0}
        ax.fill_between(curve["lam"], mean - std, mean + std, **band)
        ax.plot(curve["lam"], mean, label=name, **look)
    best = choice["chosen"]
    circle: Look = {"color": "none", "markeredgecolor": "#000000", "markersize": 10}
    ax.plot(best["lam"], best["mean"], "o", label="chosen", **circle)
    lams = sorted({lam for curve in choice["curves"] for lam in curve["lam"]})
    _log_axis(ax, lams if len(lams) <= FEW_PLACES else _round_places(lams))
    ax.set(xlabel="lam", ylabel=f"{choice['metric']}, held-out labels")
    ax.legend(title="ridge", title_fontsize=7.5, loc="best")
    better = f"{'lower' if choice['lower_is_better'] else 'higher'} is better."
    return Drawing(
        fig,
        f"Mean over {choice['n_folds']} folds, bands of one standard deviation; {better}",
        f"{choice['metric']} for lam from {lams[0]:g} to {lams[-1]:g} and "
        f"{len(choice['curves'])} values of ridge. Chosen: lam {best['lam']:g} and ridge "
        f"{best['ridge']:g}, with {best['mean']:.4f}, standard deviation {best['std']:.4f}.",
    )


def draw_labels(labels: list[dict[str, Any]]) -> list[Drawing]:
    """AUC of each label against its number of known positives; nothing where there is no AUC."""
    shown = [entry for entry in labels if entry["auc"] is not None and entry["yes"]]
    if not shown:
        return []
    views = list(dict.fromkeys(entry["view"] for entry in shown))
    fig, (ax,) = new_figure(1, 1, 2.6, width=4.2)
    for i, view in enumerate(views):
        points = [(entry["yes"], entry["auc"]) for entry in shown if entry["view"] == view]
        ax.plot(*zip(*points, strict=True), linestyle="none", alpha=0.7, label="n", **_look(i))
    ax.axhline(0.5, color=GREY, linestyle="--")
    _log_axis(ax, _round_places([entry["yes"] for entry in shown]))
    ax.set(xlabel="known yes", ylabel="AUC of the label")
    ax.yaxis.set_major_formatter(_percent)
    names = {}
    if len(views) > 1:  # beside the points, where it covers none of them
        legend = ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        names = _place_names(legend.get_texts(), views, "legend")
    low = min(shown, key=lambda entry: entry["auc"])
    caption = "Each point is a label; guessing reaches 50 % (dashed). With few known yes, the AUC "
    said = f"AUC of {len(shown)} labels against their numbers of known yes; the lowest, "
    said += f"{100 * low['auc']:.1f} %, is that of {low['label']} with {low['yes']} known yes."
    return [Drawing(fig, f"{caption}varies by coincidence.", said, names)]


@styled
def draw_gains(found: list[dict[str, Any]]) -> Any:
    """Figure of the gains of macro-AUC of methods over the first, with intervals."""
    shown = [of for of in found if of["gains"]][::-1]
    gains = [{key: 100 * x for key, x in of["gains"]["macro-AUC"].items()} for of in shown]
    fig, (ax,) = new_figure(1, 1, 0.5 + 0.3 * len(shown), width=5)
    for at, of in enumerate(gains):
        ax.plot([of["low"], of["high"]], [at, at], color=COLOURS[0])
        ax.plot(of["value"], at, "o", color=COLOURS[0])
    ax.axvline(0, color=GREY, linestyle="--")
    ax.set(yticks=range(len(shown)), yticklabels=[of["method"] for of in shown])
    ax.set_xlabel("macro-AUC, points above ridge regression of each table alone")
    return fig


def draw_calibration(entry: dict[str, Any]) -> Drawing:
    """Share of yes against mean probability."""
    bins = merge_bins(entry["bins"])
    fig, (ax,) = new_figure(1, 1, 3.0, width=3.4)
    ax.plot([0, 1], [0, 1], "--", color=GREY, linewidth=0.8)
    ax.plot(*([b[key] for b in bins] for key in ("probability", "share")), "o", color=COLOURS[0])
    for b in bins:
        # Away from the dashed line, to which points are close.
        above = b["share"] >= b["probability"]
        offset, side = ((-3, 4), "right") if above else ((3, -9), "left")
        look: Look = {"textcoords": "offset points", "ha": side, "fontsize": 6.5, "color": GREY}
        ax.annotate(f"{b['n']}", (b["probability"], b["share"]), offset, **look)
    ax.set(xlabel="probability that the model gives", ylabel="share that is yes")
    ax.set(xlim=(-0.08, 1.08), ylim=(-0.08, 1.08))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(_percent)
    pairs = ", ".join(
        f"{_percent(b['probability'])} and {_percent(b['share'])} of {b['n']} entries" for b in bins
    )
    error = "unknown" if entry["error"] is None else f"{100 * entry['error']:.1f} points"
    return Drawing(
        fig,
        f"{entry['name']}: entries grouped by probability; the number at each point is that of its "
        "entries. On the dashed line, probabilities are exactly right. Mean distance from it "
        f"(expected calibration error): {error}.",
        f"Mean probability and share of yes, by group: {pairs}.",
    )


def merge_bins(bins: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Bins of a calibration curve, neighbours merged until each has enough entries, "n"."""
    groups: list[list[dict[str, Any]]] = [[]]
    for found in (b for b in bins if b["n"]):
        if sum(b["n"] for b in groups[-1]) >= ENOUGH_ENTRIES:
            groups.append([])
        groups[-1].append(found)
    if len(groups) > 1 and sum(b["n"] for b in groups[-1]) < ENOUGH_ENTRIES:
        last = groups.pop()
        groups[-1] += last
    merged = []
    for group in filter(None, groups):
        n = sum(b["n"] for b in group)
        means = {key: sum(b["n"] * b[key] for b in group) / n for key in ("probability", "share")}
        merged.append({"n": n} | means)
    return merged


def draw_fit(fit: dict[str, Any]) -> Drawing:
    """Objective and, if it is known, stationarity residual after each iteration."""
    values, residuals, tol = fit["objective"], fit["stationarity"], f"{fit['tol']:g}"
    fig, (ax, *others) = new_figure(1 + bool(residuals))
    steps = range(1, len(values) + 1)
    ax.plot(steps, np.array(values, dtype=float), color=COLOURS[0])
    ax.set(xlabel="iteration", ylabel="objective")
    ax.ticklabel_format(axis="y", useOffset=False)
    ax.locator_params("x", integer=True)
    caption = "Objective after each iteration"
    said = (
        f"Objective from {_show(values[0])} after the first to {_show(values[-1])} after the last"
    )
    said += f" of {len(values)} iterations."
    for side in others:
        heights = np.array(residuals, dtype=float)
        side.plot(steps, np.where(heights > 0, heights, np.nan), color=COLOURS[0])
        side.set(xlabel="iteration", ylabel="stationarity residual", yscale="log")
        side.locator_params("x", integer=True)
        if fit["tol"] > 0:
            side.axhline(fit["tol"], color=GREY, linestyle="--", label=f"tol = {tol}")
            side.legend(loc="upper right")
        caption += "; and relative distance of the weights from a stationary point"
        said += f" Stationarity residual, {_show(residuals[-1])} after the last; the fit stops "
        said += f"below {tol} if it is also feasible."
    return Drawing(fig, f"{caption}.", said)


def _look(i: int) -> Look:
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}


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


def _percent(share: Any, tick: Any = None) -> str:
    """A share in percent; a tick has its position, too."""
    return f"{100 * share:.0f} %"


def _show(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"
