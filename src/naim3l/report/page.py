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
from naim3l.decisions.quality import LEVEL, N_RESAMPLES
from naim3l.files.whole import write_text
from naim3l.report import figures
from naim3l.report.figures import Drawing
from naim3l.report.plots import to_svg
from naim3l.report.svg import inline_svg

TEMPLATE, SCRIPT = "report.html.jinja", "report.js"
DASH = "–"
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
METRIC_TEXTS = {
    "macro-AUC": "how well rows with a label are ranked above rows without it, mean over labels",
    "1-HL": "share of correct decisions among known entries",
    "1-RL": "share of pairs of a positive and a negative label of a row that are ranked correctly",
    "AP": "average precision: mean over rows of the precision at the ranks of the positive labels",
    "AUC": "area under the curve for the top-ranked labels of all rows, as defined in the paper",
    "macro-F1": "F1 of the decisions, averaged over labels",
    "example-F1": "F1 of the decisions, averaged over rows",
}
TILES = ("macro-AUC", "1-HL", "AP", "macro-F1")


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
    environment.filters |= {"number": show_number, "share": show_share, "setting": _show_setting}
    script = loader.get_source(environment, SCRIPT)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template(TEMPLATE).render(
        summary=summary,
        figures=_draw(summary),
        metric_texts=METRIC_TEXTS,
        tiles=TILES,
        whiskers=_whiskers(summary["quality"]["blocks"]),
        level=f"{100 * LEVEL:.0f} %",
        n_resamples=N_RESAMPLES,
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
        return f"{100 * value:.0f} %"
    text = f"{100 * value:.1f}"
    if (text == "0.0" and value > 0) or (text == "100.0" and value < 1):
        text = "< 0.1" if value < 0.5 else "> 99.9"
    return f"{text} %"


def _show_setting(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _draw(summary: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Figures by section, ready for the template."""
    fit, choice = summary["convergence"], summary["choice"]
    drawings: dict[str, list[Any]] = {
        "data": [figures.draw_map(entry) for entry in summary["data"]["maps"][: figures.MOST_MAPS]],
        "choice": [figures.draw_choice(choice)] if choice else [],
        "fit": [figures.draw_objective(fit)] if fit else [],
        "labels": [figures.draw_labels(summary["labels"])],
        "calibration": [figures.draw_calibration(entry) for entry in summary["calibration"]],
        "spectrum": [figures.draw_spectrum(summary["spectrum"])],
    }
    if fit and fit["stationarity"]:
        drawings["fit"].append(figures.draw_stationarity(fit))
    return {section: list(_lay_out(section, drawn)) for section, drawn in drawings.items()}


def _lay_out(section: str, drawings: Iterable[Drawing | None]) -> Iterable[dict[str, Any]]:
    from markupsafe import Markup

    for number, drawing in enumerate(drawing for drawing in drawings if drawing is not None):
        anchor = f"figure-{section}-{number}"
        svg = inline_svg(_themed(to_svg(drawing.figure)), anchor, _printable(drawing.description))
        yield {"id": anchor, "caption": drawing.caption, "svg": Markup(svg)}


def _themed(svg: str) -> str:
    """A figure in the colours of the page."""
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: THEME.get(found[0], found[0]), svg)


def _printable(text: str) -> str:
    """Text without the characters that XML does not allow."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _whiskers(blocks: list[dict[str, Any]]) -> dict[str, list[dict[str, float] | None]]:
    """Positions of low, value and high of each block, by metric, in percent of a common range."""
    places: dict[str, list[dict[str, float] | None]] = {}
    for name in METRIC_TEXTS:
        found = [block["metrics"][name] for block in blocks]
        known = [entry for entry in found if entry["value"] is not None]
        low = min((entry["low"] for entry in known), default=0.0)
        width = max((entry["high"] for entry in known), default=1.0) - low or 1.0
        places[name] = [
            None
            if entry["value"] is None
            else {
                key: round(4 + 92 * (entry[key] - low) / width, 1)
                for key in ("low", "value", "high")
            }
            for entry in found
        ]
    return places
