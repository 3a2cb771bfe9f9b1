"""Draw docs/figures/problem.svg with what naim3l answers: ``python tools/draw_problem.py``."""

import warnings
from pathlib import Path
from typing import Any

from naim3l import NAIM3LCV
from naim3l.datasets import make_patients

FIGURE = Path(__file__).resolve().parents[1] / "docs" / "figures" / "problem.svg"
SHOWN = {
    "clinic": ["age", "pressure", "ward"],
    "lab": ["hb", "crp", "urate", "alt"],
    "survey": ["sleep", "pain"],
}
LABELS = ["flu", "asthma", "gout"]
N_ROWS = {"clinic": 3, "lab": 4, "survey": 3}
# Rows of each table that have known and unknown labels among those that are shown.
FIRST = {"clinic": 0, "lab": 0, "survey": 9}
ABOUT = (
    "Three tables, clinic, lab and survey, with different columns and different patients in their "
    "rows, and no key between them. All have labels such as flu, asthma and gout, of which many "
    "are unknown; the survey never asks about gout. Unknown labels have the probability that "
    "naim3l gives."
)
NOTES = [
    "Dashed: unknown, with the probability of yes that naim3l gives.",
    "The survey never asks about gout. Its probabilities come from what the other",
    "tables know of gout and of the labels that the survey has. If these are too",
    "few, naim3l says so. The patients are invented.",
]
STYLE = """
.problem .back { fill: var(--pst-color-background, #fff) }
.problem text { fill: var(--pst-color-text-base, #222); font-family: var(--pst-font-family-base, system-ui, sans-serif); font-size: 13px }
.problem .head { font-weight: 600; font-size: 14px }
.problem .name { font-weight: 700; font-size: 15px }
.problem .col, .problem .value { text-anchor: middle }
.problem .col, .problem .note { fill: var(--pst-color-text-muted, #555) }
.problem .cell { stroke: none }
.problem .clinic { fill: #56b4e9; fill-opacity: .35 }
.problem .lab { fill: #009e73; fill-opacity: .3 }
.problem .survey { fill: #e69f00; fill-opacity: .35 }
.problem .yes { fill: #0072b2 }
.problem .yes-text { fill: #fff; font-weight: 600 }
.problem .no { fill: none; stroke: #0072b2; stroke-width: 1.5 }
.problem .unknown { fill: none; stroke: #888; stroke-dasharray: 3 3 }
.problem .never { fill: none; stroke: #d55e00; stroke-dasharray: 3 3; stroke-width: 1.5 }
.problem .row { stroke: var(--pst-color-border, #bbb); stroke-width: 1; fill: none }
.problem .cut { stroke: #d55e00; stroke-width: 2; stroke-dasharray: 7 5; fill: none }
"""  # noqa: E501
LEFT, RIGHT, STEP, HEIGHT = 14, 372, 70, 24


def fit() -> tuple[Any, Any, Any, Any]:
    """The model of the study, its tables, labels without gout in the survey, and later patients."""
    data = make_patients(random_state=0)
    X, Y = (
        {view: table.reset_index(drop=True) for view, table in of.items()}  # without a key
        for of in (data.views, data.labels)
    )
    Y["survey"]["gout"] = float("nan")
    model = NAIM3LCV(random_state=0).set_output(transform="pandas").fit(X, Y)
    return model, X, Y, data


def answers(model: Any, X: Any, Y: Any) -> dict[str, list[list[tuple[str, str]]]]:
    """Kind and text of the label cells that are shown, by table and row."""
    P, cells = model.predict_proba(X, known=Y), {}
    for view in SHOWN:
        rows = slice(FIRST[view], FIRST[view] + N_ROWS[view])
        known, p = Y[view][LABELS][rows], P[view][LABELS][rows]
        never = Y[view].isna().all()
        cells[view] = [
            [
                ("yes", "yes") if y == 1 else ("no", "no") if y == 0
                else ("never" if never[label] else "unknown", f"{100 * q:.0f} %")
                for label, y, q in zip(LABELS, *pair, strict=True)
            ]
            for pair in zip(known.to_numpy(), p.to_numpy(), strict=True)
        ]  # fmt: skip
    return cells


def draw(X: Any, cells: Any) -> str:
    """The picture."""
    found, y = [text("head", LEFT, 20, "what each table measures")], 30
    found.append(text("head", RIGHT, 20, "what all share: the labels"))
    for number, (view, columns) in enumerate(SHOWN.items()):
        if number:
            found.append(f'<path class="cut" d="M{LEFT} {y + 8}H{RIGHT - 16}"/>')
            found.append(text("note", LEFT, y + 25, "other rows, other columns, no key"))
            y += 26
        found.append(text("name", LEFT, y + 24, view))
        for x, names in ((LEFT, columns), (RIGHT, LABELS)):
            found += [text("col", x + 34 + STEP * i, y + 46, of) for i, of in enumerate(names)]
        y += 52
        rows = X[view][columns][FIRST[view] : FIRST[view] + N_ROWS[view]]
        for values, labels in zip(rows.itertuples(index=False), cells[view], strict=True):
            shown = [(view, f"{of:g}" if isinstance(of, float) else str(of)) for of in values]
            found += [box(LEFT + STEP * i, y, *of) for i, of in enumerate(shown)]
            found.append(f'<path class="row" d="M{LEFT + STEP * len(columns) + 2} {y + 10}H366"/>')
            found += [box(RIGHT + STEP * i, y, *of) for i, of in enumerate(labels)]
            y += HEIGHT
    found += [text("note", LEFT, y + 25 + 20 * i, line) for i, line in enumerate(NOTES)]
    height = y + 30 + 20 * len(NOTES)
    return (
        f'<svg class="drawing problem" xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 600 {height}" role="img" aria-label="{ABOUT}">\n<title>{ABOUT}</title>\n'
        f'<style>{STYLE}</style>\n<rect class="back" width="600" height="{height}"/>\n'
        + "\n".join(found)
        + "\n</svg>\n"
    )


def text(kind: str, x: float, y: float, what: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{what}</text>'


def box(x: float, y: float, kind: str, what: str) -> str:
    frame = f'<rect class="cell {kind}" x="{x}" y="{y}" width="67" height="21" rx="3"/>'
    return frame + text(f"value {kind}-text", x + 33.5, y + 15.5, what)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    model, X, Y, _ = fit()
    FIGURE.write_text(draw(X, answers(model, X, Y)), encoding="utf-8")
