"""A self-contained HTML page of a summary.

The page loads no other files, and its date is that of the summary: the same one gives the same
bytes. Its only
script is allowed by its digest, so no script that a name might inject can run. jinja2 and
matplotlib are optional dependencies and are imported when the first page is made.
"""

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from naim3l._text import CONTROLS, visible
from naim3l.decisions import bootstrap_metrics
from naim3l.decisions.rates import RATES
from naim3l.decisions.rules import ENOUGH_POSITIVES
from naim3l.files.atomic_write import write_text
from naim3l.report import figures, findings
from naim3l.report.figures import Drawing
from naim3l.report.plots import inline_svg, styled, to_svg
from naim3l.report.titles import has_code, title_of

MOST_CUTS = 30  # labels whose other cuts are on the page
RATE_NAMES = dict(
    zip(RATES, ("sensitivity", "specificity", "value of yes", "value of no"), strict=True)
)
DASH, PERCENT = "–", "\N{NO-BREAK SPACE}%"
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
    >>> write_report("report.html", summarise(model, data.views, data.labels))
    """
    write_text(path, render_report(summary))


def write_json(path: str | os.PathLike[str], summary: dict[str, Any]) -> None:
    """Write the numbers of a summary as JSON, completely or not at all."""
    text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False)
    # Line ends are those of the file: JSON escapes them in names.
    escaped = CONTROLS.sub(lambda c: c[0] if c[0] == "\n" else f"\\u{ord(c[0]):04x}", text)
    write_text(path, escaped + "\n")


def render_report(summary: dict[str, Any]) -> str:
    """The HTML page of a summary as text, a complete document that loads no other files."""
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
        "titled": partial(title_of, summary["titles"]),
        "setting": lambda v: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False),
        "capitalise": lambda text: text[:1].upper() + text[1:],
    }
    script = loader.get_source(environment, "report.js")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("report.html.jinja").render(
        summary=summary,
        figures=_draw(summary),
        findings=findings,
        judged=bootstrap_metrics,
        whiskers=_whiskers(summary["quality"]["blocks"]),
        few_positives=ENOUGH_POSITIVES,
        rates=RATES,
        rate_names=RATE_NAMES,
        most_cuts=MOST_CUTS,
        has_code=has_code,
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
    text = f"{100 * value:.{0 if value in (0, 1) else 1}f}"
    return {"0.0": "< 0.1", "100.0": "> 99.9"}.get(text, text) + PERCENT


@styled
def _draw(summary: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Figures by section, ready for the template."""
    fit, choice = summary["convergence"], summary["choice"]
    maps, titles = summary["data"]["maps"], summary["titles"]
    names = [title_of(titles, name) for name in summary["model"]["label_names"]]
    # Labels of each view if the model decides on views, else of fused scores.
    views = [view["name"] for view in summary["data"]["views"]]
    of_views = [entry for entry in summary["labels"] if entry["view"] in views]
    shown = [of | {"label": title_of(titles, of["label"])} for of in of_views or summary["labels"]]
    drawings = {
        "data": [figures.draw_map(entry, names) for entry in maps[: figures.MOST_MAPS]],
        "choice": [figures.draw_choice(choice)] if choice else [],
        "fit": [figures.draw_fit(fit)] if fit else [],
        "labels": figures.draw_labels(shown),
        "calibration": [figures.draw_calibration(entry) for entry in summary["calibration"]],
    }
    return {section: list(_lay_out(section, drawn)) for section, drawn in drawings.items()}


def _lay_out(section: str, drawings: list[Drawing]) -> Iterator[dict[str, Any]]:
    from markupsafe import Markup

    for number, drawing in enumerate(drawings):
        anchor = f"figure-{section}-{number}"
        names = {key: _printable(name) for key, name in drawing.names.items()}
        # In the colours of the page.
        text = re.sub(r"#[0-9a-f]{6}\b", lambda c: THEME.get(c[0], c[0]), to_svg(drawing.figure))
        svg = inline_svg(text, anchor, _printable(drawing.description), names)
        yield {"id": anchor, "caption": drawing.caption, "svg": Markup(svg)}


def _printable(text: str) -> str:
    """Text without the characters that XML does not allow."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _whiskers(blocks: list[dict[str, Any]]) -> dict[str, list[dict[str, float]]]:
    """Positions of low, value, high and guessing of each block, in percent of a common range."""
    places = {}
    for name in findings.tiles(findings.main_block(blocks)):
        found = [
            {key: block["metrics"][name][key] for key in ("value", "low", "high", "guessing")}
            for block in blocks
        ]
        known = [v for entry in found for v in entry.values() if v is not None]
        low, high = min(known, default=0.0), max(known, default=1.0)
        span = high - low or 1.0
        places[name] = [
            {key: round(4 + 92 * (v - low) / span, 1) for key, v in entry.items() if v is not None}
            for entry in found
        ]
    return places
