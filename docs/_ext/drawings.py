"""Figures that are drawn from tables of this site, from pyproject.toml and from traces of fits."""

import re
import sys
import tomllib
import warnings
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from architecture import draw_layers, draw_paths

from naim3l.report.plots import COLOURS, GREY, MARKERS, new_figure, styled, to_svg
from naim3l_bench.paper import fig4
from naim3l_bench.paper.fig4 import nemenyi

DOCS = Path(__file__).resolve().parents[1]
sys.path.append(str(DOCS.parent / "tools"))
import trace_path  # noqa: E402


def read_table(page, title):
    """Rows of the table below a bold title, as dicts by column."""
    text = (DOCS / page).read_text("utf-8")
    block = text.split(f"**{title}**\n\n", 1)[1].split("\n\n", 1)[0]
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in block.splitlines()]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def mean_and_spread(cell):
    """The two numbers of "87.79 (0.31)" or "-0.05 ± 0.02"."""
    return tuple(float(n) for n in re.match(r"([-+\d.]+) (?:\(|± )([\d.]+)", cell).groups())


def draw_curve(ax, x, cells, index, label):
    """A line through means, with their standard deviations as error bars."""
    means, spreads = zip(*map(mean_and_spread, cells), strict=True)
    ax.errorbar(
        x, means, spreads, color=COLOURS[index], marker=MARKERS[index], markersize=4, label=label
    )


@styled
def missing_data():
    """Fig. 5: what missing views and labels cost."""
    rows = read_table("research/reproduction.md", "Fig. 5: corel5k")
    fig, axes = new_figure(2, width=3.4)
    for ax, metric in zip(axes, ("1-RL", "AP"), strict=True):
        for i, (key, name) in enumerate({"alpha": "of the views", "beta": "of the labels"}.items()):
            found = [r for r in rows if r["protocol"] == "clean" and r["missing"].startswith(key)]
            found = [r for r in found if r[metric] != "–"]
            x = [100 * float(r["missing"].split()[1]) for r in found]
            draw_curve(ax, x, [r[metric] for r in found], i, name)
        ax.set(xlabel="missing (%); of the other, 50 %", ylabel=f"{metric} (%)")
    axes[0].legend(loc="lower left")
    return fig


@styled
def coupling_strength():
    """Fig. 6: how the metrics depend on lambda, with and without the high-rank term."""
    rows = read_table("research/reproduction.md", "Fig. 6: corel5k")
    fig, axes = new_figure(2, width=3.4)
    for ax, metric in zip(axes, ("1-RL", "AP"), strict=True):
        for i, variant in enumerate(("NAIM3L", "NAIM3L-II")):
            found = [r for r in rows if r["protocol"] == "clean" and r["variant"] == variant]
            found = [r for r in found if float(r["lambda"]) <= 10]
            name = "both terms" if variant == "NAIM3L" else "without the high-rank term"
            draw_curve(ax, [float(r["lambda"]) for r in found], [r[metric] for r in found], i, name)
        ax.set(xscale="log", xlabel="lambda", ylabel=f"{metric} (%)")
    axes[1].legend(loc="lower left")
    return fig


@styled
def convergence():
    """Fig. 8: the objective along Algorithm 1."""
    rows = read_table("research/reproduction.md", "Fig. 8")
    fig, (ax,) = new_figure(width=4.5)
    kept = [r for r in rows if r["function"].startswith("objective")]
    for i, row in enumerate(kept):
        at = {int(name.split()[1]): float(v) for name, v in row.items() if "iteration" in name}
        last = at[max(at)]
        x = [n for n in at if n < max(at)]
        y = [at[n] / last - 1 for n in x]
        name = "six views" if row["dataset"] == "corel5k" else "four views"
        ax.plot(x, y, color=COLOURS[i], marker=MARKERS[i], label=name)
    ax.set(xscale="log", yscale="log", xlabel="iteration", ylabel="objective / last value - 1")
    ax.legend()
    return fig


@styled
def high_rank_term():
    """The full model minus variant II, as more iterations of Algorithm 1 are made."""
    rows = read_table("research/reproduction.md", "Paired differences: corel5k, protocol clean")
    shown = [r for r in rows if "lambda 0.4" in r["setting"] and r["pair"] == "NAIM3L − NAIM3L-II"]
    fig, axes = new_figure(2, width=3.4)
    names = [re.sub(r"Algorithm 1, lambda 0.4, |lambda 0.4, ", "", r["setting"]) for r in shown]
    for ax, metric in zip(axes, ("1-RL", "AP"), strict=True):
        pairs = [mean_and_spread(r[metric]) for r in shown]
        means, halves = zip(*pairs, strict=True)
        at = range(len(shown), 0, -1)
        ax.errorbar(means, at, xerr=halves, fmt="o", color=COLOURS[0])
        ax.axvline(0, color="black", linewidth=0.8)
        ax.set(yticks=list(at), yticklabels=names, xlabel=f"{metric}, difference in points")
    axes[1].set_yticklabels([])
    return fig


@styled
def frontier():
    """AP against 1-RL of kernel models, with the regulariser and without."""
    rows = read_table("research/kernels.md", "Frontier: corel5k")
    fig, axes = new_figure(3, width=2.5)
    scorings = ("scores per view", "probabilities per view", "fused, half hidden")
    for ax, scoring in zip(axes, scorings, strict=True):
        for i, model in enumerate(dict.fromkeys(r["model"] for r in rows)):
            found = [r for r in rows if r["model"] == model]
            x, y = (
                [mean_and_spread(r[f"{scoring}: {metric}"])[0] for r in found]
                for metric in ("1-RL", "AP")
            )
            ax.plot(x, y, color=COLOURS[i], marker=MARKERS[i], label=model)
        ax.set(xlabel="1-RL (%)", ylabel="AP (%)", title=scoring)
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=3)
    return fig


@styled
def connecting_labels():
    """AUC of a label that a table never records, by the number of labels that connect tables."""
    fig, axes = new_figure(2, width=3.4)
    for ax, study in zip(axes, ("nhanes_2017", "yeast_funcat"), strict=True):
        rows = read_table("research/labels-as-bridge.md", study)
        x = [int(r["labels that connect"]) for r in rows]
        draw_curve(ax, x, [r["AUC, if recorded"] for r in rows], 1, "if the table recorded it")
        draw_curve(ax, x, [r["AUC"] for r in rows], 0, "never recorded")
        ax.axhline(50, color=GREY, linewidth=1, linestyle="--")
        ax.set(title=study, xscale="log", xticks=x, xticklabels=x, xlabel="labels that connect")
        ax.minorticks_off()
        ax.set_ylim(48)
    axes[0].set_ylabel("AUC on new rows (%)")
    axes[0].annotate("guessing", (1, 50), (0, -9), textcoords="offset points", color=GREY)
    axes[1].legend(loc="center left")
    return fig


def critical_distances():
    """Fig. 4: the Nemenyi tests of the published tables."""
    tests = {
        key: {"published": nemenyi(fig4.scores(published, {}))}
        for key, (_, published, _) in fig4.TESTS.items()
    }
    return fig4.figures(tests)["fig4-published"]


def trace_paths():
    """Modules that two small fits pass, as ``python tools/trace_path.py`` prints them."""
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        found = {title: trace_path.trace(work) for title, work in trace_path.PATHS.items()}
    for title, path in found.items():
        if "naim3l.problem.rows" not in path.modules:
            raise RuntimeError(f"{title}: ended after {list(path.modules)}.")
    return found


FIGURES = {
    "fig4": critical_distances,
    "fig5": missing_data,
    "fig6": coupling_strength,
    "fig8": convergence,
    "high-rank-term": high_rank_term,
    "frontier": frontier,
    "connecting-labels": connecting_labels,
}


def draw_all(app):
    """Write the figures before pages are read."""
    folder = DOCS / "figures" / "drawn"
    folder.mkdir(parents=True, exist_ok=True)
    layers = tomllib.loads((DOCS.parent / "pyproject.toml").read_text("utf-8"))
    contract = layers["tool"]["importlinter"]["contracts"][0]
    drawn = {"layers": draw_layers(contract["layers"]), "paths": draw_paths(trace_paths())}
    drawn |= {name: to_svg(draw()) for name, draw in FIGURES.items()}
    for name, svg in drawn.items():
        path = folder / f"{name}.svg"
        if not path.exists() or path.read_text("utf-8") != svg:  # or pages would be read again
            path.write_text(svg, "utf-8")


def setup(app):
    app.connect("builder-inited", draw_all)
    return {"version": "1", "parallel_read_safe": True}
