"""A self-contained HTML page of a summary.

The page loads no other files and contains no date: the same summary gives the same bytes. Its only
script is allowed by its digest, so no script that a name might inject can run. jinja2 and
matplotlib are optional dependencies and are imported when the first page is made.
"""

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterable
from typing import Any

from naim3l._text import CONTROLS, visible
from naim3l.decisions.bootstrap_metrics import (
    ENOUGH_TO_JUDGE,
    GOOD_AUC,
    LEVEL,
    N_RESAMPLES,
    WIDE_AUC,
)
from naim3l.decisions.rules import ENOUGH_POSITIVES
from naim3l.files.atomic_write import write_text
from naim3l.report import figures, findings
from naim3l.report.figures import Drawing
from naim3l.report.plots import inline_svg, to_svg

TEMPLATE, SCRIPT = "report.html.jinja", "report.js"
DASH, PERCENT = "–", "\N{NO-BREAK SPACE}%"
TILES = ("macro-AUC", "1-HL")
# Colours of figures as CSS variables of the page, which differ in dark mode.
THEME = {
    "#000000": "currentColor",
    "#ffffff": "var(--page)",
    "#dddddd": "var(--line)",
    "#666666": "var(--soft)",
    "#0072b2": "var(--blue)",
    "#d55e00": "var(--orange)",
    "#009e73": "var(--green)",
}


def write_report(path: str | os.PathLike[str], summary: dict[str, Any]) -> None:
    """Write the page of a summary to a file, completely or not at all.

    Parameters
    ----------
    path : str or path-like
        File to write, such as "report.html". An existing file is replaced.
    summary : dict
        Result of `naim3l.report.summarise`.

    Examples
    --------
    >>> from naim3l import NAIM3L
    >>> from naim3l.datasets import make_unpaired
    >>> from naim3l.report import summarise, write_report
    >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> model = NAIM3L().fit(data.views, data.labels)
    >>> summary = summarise(model, data.views, data.labels)
    >>> write_report("report.html", summary)
    """
    write_text(path, render_report(summary))


def write_json(path: str | os.PathLike[str], summary: dict[str, Any]) -> None:
    """Write the numbers of a summary as JSON, completely or not at all.

    Parameters
    ----------
    path : str or path-like
        File to write, such as "report.json". An existing file is replaced.
    summary : dict
        Result of `naim3l.report.summarise`.

    Examples
    --------
    >>> from naim3l import NAIM3L
    >>> from naim3l.datasets import make_unpaired
    >>> from naim3l.report import summarise, write_json
    >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> model = NAIM3L().fit(data.views, data.labels)
    >>> summary = summarise(model, data.views, data.labels)
    >>> write_json("report.json", summary)
    """
    text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False)
    lines = (
        CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", line) for line in text.split("\n")
    )
    write_text(path, "\n".join(lines) + "\n")


def render_report(summary: dict[str, Any]) -> str:
    """The HTML page of a summary as text.

    Parameters
    ----------
    summary : dict
        Result of `naim3l.report.summarise`.

    Returns
    -------
    str
        A complete HTML document, which loads no other files.

    Examples
    --------
    >>> from naim3l import NAIM3L
    >>> from naim3l.datasets import make_unpaired
    >>> from naim3l.report import render_report, summarise
    >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> model = NAIM3L().fit(data.views, data.labels)
    >>> summary = summarise(model, data.views, data.labels)
    >>> page = render_report(summary)
    >>> page.splitlines()[0]
    '<!DOCTYPE html>'
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = PackageLoader("naim3l.report")
    environment = Environment(
        loader=loader,
        autoescape=True,  # names of views, columns and labels are the user's
        # A character that changes the text direction would also affect the surrounding sentence.
        finalize=lambda value: visible(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": show_number,
        "share": show_share,
        "points": findings.show_points,
        "range": findings.show_range,
        "setting": _show_setting,
        "capitalise": lambda text: text[:1].upper() + text[1:],
    }
    script = loader.get_source(environment, SCRIPT)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    blocks = summary["quality"]["blocks"]
    main = findings.main_block(blocks)
    return environment.get_template(TEMPLATE).render(
        summary=summary,
        figures=_draw(summary),
        title=findings.title(summary["model"]["label_names"]),
        measures=findings.MEASURES,
        tiles=TILES,
        renamed=[each for each in findings.MEASURES.values() if each.title != each.name],
        main=main,
        others=[block for block in blocks if block is not main],
        labels=findings.main_labels(summary),
        verdicts_said=findings.describe_verdicts(findings.main_labels(summary)),
        coupled=_coupled(summary),
        coupling_said=findings.describe_coupling(main, f"Coupling the {_coupled(summary)}"),
        whiskers=_whiskers(blocks),
        level=f"{100 * LEVEL:.0f} %",
        n_resamples=N_RESAMPLES,
        good_auc=GOOD_AUC,
        enough=ENOUGH_TO_JUDGE,
        few_positives=ENOUGH_POSITIVES,
        wide_auc=WIDE_AUC,
        script=Markup(script),
        digest=digest,
    )


def show_number(value: float | None, digits: int = 3) -> str:
    """A number with a fixed number of decimals, or a dash for None."""
    return DASH if value is None else f"{value:.{digits}f}".replace("-", "−")


def show_share(value: float | None) -> str:
    """A share in percent, or a dash for None; 0 and 100 are shown only if exact."""
    if value is None:
        return DASH
    if value in (0, 1):
        return f"{100 * value:.0f}{PERCENT}"
    text = f"{100 * value:.1f}"
    if (text == "0.0" and value > 0) or (text == "100.0" and value < 1):
        text = "< 0.1" if value < 0.5 else "> 99.9"
    return text + PERCENT


def _coupled(summary: dict[str, Any]) -> str:
    """What the model couples."""
    if len(summary["model"]["views"]) > 1:
        return "tables" if summary["data"]["form"] == "separate" else "views"
    return "labels" if summary["data"]["n_labels"] > 1 else "rows"


def _show_setting(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _draw(summary: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Figures by section, ready for the template."""
    fit, choice = summary["convergence"], summary["choice"]
    maps, names = summary["data"]["maps"], summary["model"]["label_names"]
    drawings: dict[str, list[Any]] = {
        "data": [figures.draw_map(entry, names) for entry in maps[: figures.MOST_MAPS]],
        "choice": [figures.draw_choice(choice)] if choice else [],
        "fit": [figures.draw_objective(fit)] if fit else [],
        "labels": [figures.draw_labels(_labels_of_views(summary))],
        "calibration": [figures.draw_calibration(entry) for entry in summary["calibration"]],
        "spectrum": [figures.draw_spectrum(summary["spectrum"])],
    }
    if fit and fit["stationarity"]:
        drawings["fit"].append(figures.draw_stationarity(fit))
    return {section: list(_lay_out(section, drawn)) for section, drawn in drawings.items()}


def _labels_of_views(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Labels of each view if the model decides on views, else of fused scores."""
    views = [view["name"] for view in summary["data"]["views"]]
    return [e for e in summary["labels"] if e["view"] in views] or summary["labels"]


def _lay_out(section: str, drawings: Iterable[Drawing | None]) -> Iterable[dict[str, Any]]:
    from markupsafe import Markup

    for number, drawing in enumerate(drawing for drawing in drawings if drawing is not None):
        anchor = f"figure-{section}-{number}"
        names = {key: _printable(name) for key, name in drawing.names.items()}
        text, described = _themed(to_svg(drawing.figure)), _printable(drawing.description)
        svg = inline_svg(text, anchor, described, names)
        yield {"id": anchor, "caption": drawing.caption, "svg": Markup(svg)}


def _themed(svg: str) -> str:
    """A figure in the colours of the page."""
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: THEME.get(found[0], found[0]), svg)


def _printable(text: str) -> str:
    """Text without the characters that XML does not allow."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _whiskers(blocks: list[dict[str, Any]]) -> dict[str, list[dict[str, float] | None]]:
    """Positions of low, value, high and guessing of each block, in percent of a common range."""
    places: dict[str, list[dict[str, float] | None]] = {}
    for name in TILES:
        found = [
            {key: entry["metrics"][name][key] for key in ("value", "low", "high", "guessing")}
            for entry in blocks
        ]
        known = [v for entry in found for v in entry.values() if v is not None]
        low, high = min(known, default=0.0), max(known, default=1.0)
        places[name] = [
            None
            if entry["value"] is None
            else {
                key: round(4 + 92 * (value - low) / (high - low or 1.0), 1)
                for key, value in entry.items()
                if value is not None
            }
            for entry in found
        ]
    return places
