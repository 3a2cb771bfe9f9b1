"""Numbers as people read them: tables of cells, with our figures beside the published ones."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from naim3l_bench.records import Record
from naim3l_bench.tasks import PROTOCOLS
from naim3l_bench.trials import METRICS

# Ours lies this many standard deviations (of the larger of the two) from the published mean.
WITHIN = 2.0


@dataclass(frozen=True)
class Cell:
    """A text and what it is.

    Attributes
    ----------
    text : str
    mark : str
        "within" or "outside" for a figure of ours beside a published one, "published" for the
        published one, "" for all else.
    """

    text: str
    mark: str = ""


@dataclass(frozen=True)
class ResultTable:
    """A table of an item: one row per line of cells, as long as the header."""

    title: str
    header: Sequence[str]
    rows: list[list[Cell]] = field(default_factory=list)
    note: str = ""


def summarise(records: Iterable[Record], protocol: str) -> dict[str, dict[str, Any]] | None:
    """Mean, population standard deviation and values of the four metrics over seeds, in percent.

    None where there is no record, or none that the protocol can be measured on.
    """
    return summarise_scoring(records, PROTOCOLS[protocol][1])


def summarise_scoring(records: Iterable[Record], scoring: str) -> dict[str, dict[str, Any]] | None:
    """The same of a way to score, by its name in the records."""
    found = [record["metrics"].get(scoring) for record in records]
    return summarise_metrics([metrics for metrics in found if metrics])


def summarise_metrics(measured: Sequence[dict[str, float]]) -> dict[str, dict[str, Any]] | None:
    """The same from dicts of metrics as fractions."""
    if not measured:
        return None
    return {name: spread([100 * metrics[name] for metrics in measured]) for name in METRICS}


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean and population standard deviation of values, and the values."""
    return {"mean": float(np.mean(values)), "std": float(np.std(values)), "values": list(values)}


def mean_std(value: dict[str, Any] | Sequence[float] | None) -> str:
    """``mean (std)`` with two digits; a dash for None. Takes pairs, too."""
    if value is None:
        return "–"
    mean, std = (value["mean"], value["std"]) if isinstance(value, dict) else value
    return f"{mean:.2f} ({std:.2f})"


def show_range(values: dict[str, Any]) -> str:
    """``mean (smallest–largest)`` of whole numbers; one number where all are equal."""
    low, high = min(values["values"]), max(values["values"])
    return f"{low:g}" if low == high else f"{values['mean']:.1f} ({low:g}–{high:g})"


def count_seeds(counts: Iterable[int]) -> str:
    """Such as "10 seeds", or "3–10 seeds" where some values are over fewer."""
    known = sorted(set(counts))
    if not known:
        return "no seed"
    shown = "–".join(str(count) for count in dict.fromkeys([known[0], known[-1]]))
    return f"{shown} seed{'' if known[-1] == 1 else 's'}"


def compare(ours: dict[str, Any], published: Sequence[float], *, marked: bool = True) -> Cell:
    """Difference of ours to a published mean (std), and in standard deviations.

    Without ``marked`` the cell does not say whether ours agrees, for figures that were not made in
    the paper's way.
    """
    in_std = distance(ours, published)
    mark = "within" if in_std <= WITHIN else "outside"
    text = f"{ours['mean'] - published[0]:+.2f} ({in_std:.1f} sd)"
    return Cell(text, mark if marked else "")


def distance(ours: dict[str, Any], published: Sequence[float]) -> float:
    """Absolute difference of ours to a published mean (std), in standard deviations.

    The deviation is the larger of the two; that of a published table is rounded to 0.01, so no
    less than half of that.
    """
    mean, std = published
    return float(abs(ours["mean"] - mean) / max(std, ours["std"], 0.005))


def paired_difference(first: list[float], second: list[float]) -> dict[str, float]:
    """Mean difference of paired values with its 95 % interval, t test and Wilcoxon test.

    Parameters
    ----------
    first, second : lists of n_seeds floats, at least 2
    """
    difference = np.subtract(first, second)
    n = len(difference)
    margin = float(stats.t.ppf(0.975, n - 1) * np.std(difference, ddof=1) / np.sqrt(n))
    same = not difference.any()
    if np.ptp(difference) <= 1e-9 * np.abs(difference).max():  # no spread: t is infinite, or 0 / 0
        t_test = 1.0 if same else 0.0
    else:
        t_test = float(stats.ttest_1samp(difference, 0).pvalue)
    signed = 1.0 if same else float(stats.wilcoxon(difference).pvalue)
    return {
        "mean": float(difference.mean()),
        "margin": margin,
        "t_test": t_test,
        "wilcoxon": signed,
        "n": n,
    }


def to_markdown(table: ResultTable) -> str:
    """The table in Markdown, with title and note."""
    lines = [f"**{table.title}**", ""]
    rows = [list(table.header), ["---"] * len(table.header)]
    rows += [[cell.text.replace("|", "\\|") for cell in row] for row in table.rows]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, *(["", table.note] if table.note else []), ""])
