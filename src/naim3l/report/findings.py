"""What the numbers of a report say: sentences on quality, and on what to be careful about."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.cells import cell_len

from naim3l._text import some, visible
from naim3l.decisions.bootstrap_metrics import LEVEL, NO_BETTER, SHOWN, TOO_FEW, VERDICTS
from naim3l.decisions.calibration import LEAST_SLOPE
from naim3l.decisions.rules import ENOUGH_POSITIVES, SIGN
from naim3l.input.views import FUSED
from naim3l.report.titles import title_of

Summary = dict[str, Any]
Cautions = dict[str, Any]  # for each rule a sentence, or a list of them; false if nothing applies

# Rules about which a reader of the page can do nothing now: they are listed further down.
NOTES = {"few-positives", "few-rows", "view-mostly-missing", "labels-borrowed", "fused-unmeasured"}
NOTES |= {"calibrated-from-pooled", "chosen-at-edge", "choice-not-sharp", "columns-dropped"}

# Metrics on the page, in its order.
MEASURES = {each.name: each for each in SHOWN if each.percent and not each.lower_is_better}
MOST_LABELS, LONGEST_LABEL = 3, 36  # in the title
MOST_NAMES, LONGEST_NAME = 6, 48  # in a sentence
MUCH_LACKING = 0.5  # a view that is missing in more than this share of the rows is reported
FEW_ROWS = 50  # metrics on fewer rows are only a rough indication
FEW_KNOWN = 20  # a label with fewer known yes or no has little influence on its calibration curve
MUCH_OFF = 0.03  # probabilities further from the shares of yes, beyond noise, are reported
ROUNDED = 3  # decimals of shares that are shown as points with one decimal


def shorten(name: str, most: int) -> str:
    """A name at most this wide, with control characters escaped and the end cut where needed."""
    cut = name = visible(name)
    while cell_len(cut) > most - (cut != name):
        cut = cut[:-1]
    return name if cut == name else f"{cut.rstrip()}…"


def main_block(blocks: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The block that the page begins with, which is the first, as on the terminal."""
    return blocks[0] if blocks else None


def tiles(block: dict[str, Any] | None) -> tuple[str, str]:
    """The two measures that the page begins with: of what the model is for, and of yes and no."""
    return (block["headline"] if block else "macro-AUC", "1-HL")


def main_labels(summary: Summary) -> list[dict[str, Any]]:
    """Labels as measured in the main block, one entry each."""
    main = main_block(summary["quality"]["blocks"])
    return [entry for entry in summary["labels"] if main and entry["view"] == main["name"]]


def title(names: list[str]) -> str:
    """The question that a report answers, with the names of the labels."""
    shown = [shorten(name, LONGEST_LABEL) for name in names[:MOST_LABELS]]
    if more := names[MOST_LABELS:]:
        shown.append(f"{len(more)} more {_either(more, 'label', 'labels')}")
    listed = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"How good are the predictions of {listed}?"


def describe_verdicts(labels: list[dict[str, Any]]) -> str:
    """A sentence such as "Rows: 7 of 12 labels ranked well, 2 ranked no better than guessing."."""
    counts, (first, *others) = Counter(entry["verdict"] for entry in labels), VERDICTS
    parts = [f"{counts[verdict]} {verdict}" for verdict in others if counts[verdict]]
    n = f"{len(labels)} {_either(labels, 'label', 'labels')}"
    best = f"Rows: {counts[first]} of {n} {first}"
    return ", ".join([best, *parts]) + "."


def describe_answers(block: dict[str, Any] | None) -> str | None:
    """A sentence on yes and no beside each label's more frequent value; None if unknown."""
    found = block["metrics"]["1-HL"] if block else None
    if block is None or found is None or found["value"] is None:
        return None
    value, guessed = (round(found[key], ROUNDED) for key in ("value", "guessing"))
    f1 = block["metrics"]["micro-F1"]
    said = f"Yes and no: {100 * value:.1f} % of the entries are right"
    beside = f"each label's more frequent value is right in {100 * guessed:.1f} %"
    if value >= guessed:
        return f"{said}; {beside}."
    said = f"{said}, which is less than by guessing: {beside}."
    if f1["value"] is None or f1["value"] <= f1["guessing"]:
        return said
    return (
        f"{said} In return, the rule finds more of the yes (F1 {100 * f1['value']:.1f}); another "
        "rule decides otherwise."
    )


def describe_found(labels: list[dict[str, Any]], titles: Mapping[str, str]) -> str | None:
    """What the model's yes find, over all labels and of the worst; None without a known yes."""
    # The entries of a summary have the yes of the fit, too.
    of_yes = [of.get("measured_yes", of["yes"]) for of in labels]
    yes, called, found = (
        sum(of_yes),
        *(sum(of[key] for of in labels) for key in ("called", "found")),
    )
    if not yes:
        return None
    said = f"Of 100 yes, {100 * found / yes:.0f} are found"
    said += (
        f", and of 100 that are predicted, {100 * found / called:.0f} are right." if called else "."
    )
    shares = {
        of["label"]: of["found"] / n
        for of, n in zip(labels, of_yes, strict=True)
        if n >= ENOUGH_POSITIVES
    }
    if len(shares) < 2:
        return said
    worst = min(shares, key=lambda label: shares[label])
    name = shorten(titles.get(worst, worst), LONGEST_NAME)
    return f"{said} Least is found of {name}: {100 * shares[worst]:.0f} of 100."


def coupling_gain(block: dict[str, Any] | None, key: str = "gain") -> dict[str, Any] | None:
    """Gain of the headline over the uncoupled model, None where it is unknown."""
    gain = block["metrics"][block["headline"]].get(key) if block else None
    return gain if gain and gain["value"] is not None else None


def describe_coupling(block: dict[str, Any] | None, what: str) -> str | None:
    """What coupling, called ``what``, added to the headline; None if unknown.

    A second sentence names the measures that clearly gained and lost most.
    """
    said = _describe_gain(block, coupling_gain(block), what)
    return None if block is None or said is None else " ".join([said, *_clearest(block)])


def describe_shared(block: dict[str, Any] | None, columns: Sequence[str]) -> str | None:
    """What columns that several tables share added to the headline; None if unknown."""
    named = some([shorten(name, LONGEST_NAME) for name in columns], MOST_NAMES, str)
    what = f"Learning from {named} of all tables together"
    return _describe_gain(block, coupling_gain(block, "shared"), what)


def _describe_gain(
    block: dict[str, Any] | None, gain: dict[str, Any] | None, what: str
) -> str | None:
    if block is None or gain is None:
        return None
    value, low, high = (round(gain[key] or 0.0, ROUNDED) for key in ("value", "low", "high"))
    name, metric = block["headline"], block["metrics"][block["headline"]]
    if gain["low"] is None:
        return f"{what}: one fold is too few to tell what it added."
    # Scores that rank rows no better than by coincidence have gained nothing, however they differ.
    if low > 0 and metric["low"] > metric["guessing"]:
        return f"{what} added {_points_of(name, value, low, high)}."
    if high < 0:
        return f"{what} cost {_points_of(name, -value, -high, -low)}."
    return f"{what} made no measurable difference: {_points_of(name, value, low, high)}."


def _clearest(block: dict[str, Any]) -> list[str]:
    """A sentence on the other measures that clearly gained and lost most, if any did."""
    clear: dict[str, tuple[float, str]] = {}
    for name, measure in MEASURES.items():
        gain = block["metrics"][name]["gain"] if name in block["metrics"] else None
        if name == block["headline"] or not gain or gain["low"] is None:
            continue
        if round(gain["low"], ROUNDED) > 0 or round(gain["high"], ROUNDED) < 0:
            interval = f"{show_points(gain['low'])} to {show_points(gain['high'])}"
            shown = f"{measure.title} {show_points(gain['value'], sign=True)} ({interval})"
            clear[name] = gain["value"], shown
    if not clear:
        return []
    worst, best = min(clear.values()), max(clear.values())
    parts = [f"most gained {best[1]}"] * (best[0] > 0) + [f"most lost {worst[1]}"] * (worst[0] < 0)
    return [f"Of the other measures, {', '.join(parts)}."]


def _points_of(name: str, value: float, low: float, high: float) -> str:
    interval = f"{100 * LEVEL:.0f} % interval {show_points(low)} to {show_points(high)}"
    return f"{show_points(value)} points of {name} on your data ({interval})"


def show_points(value: float, *, sign: bool = False) -> str:
    """A difference of two shares in percentage points."""
    text = f"{100 * value:{'+' if sign else ''}.1f}"
    # A minus before a zero would say something that is not known.
    return text.replace("-0.0", "0.0").replace("+0.0", "0.0").replace("-", "−")


def show_range(found: dict[str, Any]) -> str:
    """The interval of a share in percent, such as "71.0 to 75.8 %"."""
    return f"{100 * found['low']:.1f} to {100 * found['high']:.1f}\N{NO-BREAK SPACE}%"


def find_cautions(summary: Summary) -> list[dict[str, Any]]:
    """Sentences that apply, with their "rule", and whether it is only a "note".

    Those that a reader can act on come first, and of these those that affect most of a report.
    """
    parts = (_of_quality, _of_fit, _of_known_labels, _of_rows, _of_decisions, _of_probabilities)
    titled = _titled(summary)
    found = {rule: said for part in (*parts, _of_choice) for rule, said in part(titled).items()}
    cautions = [
        {"rule": rule, "sentence": sentence, "note": rule in NOTES}
        for rule, said in found.items()
        if said
        for sentence in ([said] if isinstance(said, str) else said)
    ]
    return sorted(cautions, key=lambda caution: caution["note"])


def _titled(summary: Summary) -> Summary:
    """The summary with labels under their titles, and constant columns under theirs."""
    titles, data = summary["titles"], summary["data"]

    def rename(entry: dict[str, Any]) -> dict[str, Any]:
        return entry | {"label": titles.get(entry["label"], entry["label"])}

    views = [
        view | {"dropped": [title_of(titles, name) for name in view["dropped"]]}
        for view in data["views"]
    ]
    renamed = {"labels": [*map(rename, data["labels"])], "views": views}
    return summary | {"labels": [*map(rename, summary["labels"])], "data": data | renamed}


def _of_quality(summary: Summary) -> Cautions:
    main, on = main_block(summary["quality"]["blocks"]), summary["quality"]["on"]
    gain, accuracy = coupling_gain(main), main["metrics"]["1-HL"] if main else None
    guessed, unknown = (
        [entry["label"] for entry in main_labels(summary) if entry["verdict"] == verdict]
        for verdict in (NO_BETTER, TOO_FEW)
    )
    return {
        "measured-on-training": on == "training"
        and "All measures of quality are computed on labels that the model has seen in training. "
        "They are optimistic; provide test tables to measure the quality for new rows.",
        "perhaps-seen": on == "given"
        and "It is not known here whether the model has seen these rows in training. If it has, "
        "all measures of quality are optimistic.",
        "coupling-worse": gain
        and gain["high"] < 0
        and "The same model without coupling is better here. "
        f"{describe_coupling(main, 'Coupling')} Lower lam, or use PerViewRidge.",
        "decisions-guessed": accuracy
        and accuracy["value"] is not None
        and accuracy["low"] <= accuracy["guessing"]
        and f"The accuracy ({100 * accuracy['value']:.1f} %) is not clearly above that of always "
        f"predicting the more frequent value ({100 * accuracy['guessing']:.1f} %). Rank rows by "
        "score or probability instead of relying on yes and no.",
        "labels-guessed": guessed
        and f"The predictions of {_labels(guessed)} are no better than guessing: do not rely on "
        f"{_either(guessed, 'it', 'them')}.",
        "labels-unknown": unknown
        and f"Too few labels are known to say how good the predictions of {_labels(unknown)} are.",
    }


def _of_fit(summary: Summary) -> Cautions:
    fit = summary["convergence"]
    if not fit:
        return {}
    limits = f"(max_iter={fit['max_iter']}, tol={fit['tol']:g})"
    return {
        "not-converged": not fit["converged"]
        and f"The fit did not converge: it stopped after {fit['n_iter']} iterations {limits}. "
        "Weights and scores may still change.",
        "objective-negative": fit["objective"][-1] is not None
        and fit["objective"][-1] < 0
        and f"The objective is negative ({fit['objective'][-1]:.4g}): the high-rank term outweighs "
        "the loss. Lower lam, add a ridge, or use variant='low-rank'.",
    }


def _of_known_labels(summary: Summary) -> Cautions:
    entries, given = summary["data"]["labels"], summary["quality"]["on"] == "given"
    never = [e["label"] for e in entries if not e["yes"]]
    few = [e["label"] for e in entries if 0 < e["yes"] < ENOUGH_POSITIVES]
    always = [e["label"] for e in entries if e["yes"] and not e["no"] and not given]
    them = _either(never, "it", "them")
    lost = f"learned about {them}: the scores carry little or no information."
    lost = f"can be measured for {them}." if given else f"could be {lost}"
    who = "This report relies" if given else "The model and this report rely"
    return {
        "labels-absent": summary["absent"]["unusable"],
        "labels-borrowed": [
            said
            for said in summary["absent"]["sentences"]
            if said not in summary["absent"]["unusable"]
        ],
        "no-positives": never and f"{_have(never)} no known yes, so nothing {lost}",
        "few-positives": few
        and f"{_have(few)} fewer than {ENOUGH_POSITIVES} known yes. "
        f"{who} on only a few rows for {_either(few, 'it', 'them')}.",
        "no-negatives": always
        and f"{_have(always)} no known no: if unknown means no in "
        "your tables, replace it by 0; otherwise the model cannot learn to distinguish yes from "
        "no.",
    }


def _of_rows(summary: Summary) -> Cautions:
    blocks = [block for block in summary["quality"]["blocks"] if block["kind"] != "mean"]
    small = [block["name"] for block in blocks if block["n_rows"] < FEW_ROWS]
    return {
        "view-mostly-missing": [
            f"View {_short(view['name'])!r} is missing in {100 * view['lacking']:.0f} % of its "
            "rows; everything reported about it refers to the remaining rows."
            for view in summary["data"]["views"]
            if view["lacking"] > MUCH_LACKING
        ],
        "few-rows": small
        and f"Fewer than {FEW_ROWS} rows were evaluated in {_some(small)}: even "
        "the intervals are only rough there.",
    }


def _of_decisions(summary: Summary) -> Cautions:
    def names(applies: Callable[[dict[str, Any]], Any]) -> list[str]:
        """Labels to which something applies, in one view at least."""
        return list(dict.fromkeys(entry["label"] for entry in summary["labels"] if applies(entry)))

    rule = summary["model"]["rule"]
    least = 1 if rule == SIGN else ENOUGH_POSITIVES
    silent = names(lambda e: e["measured_yes"] >= least and not e["found"])
    # A label with many entries that is almost separable hardly depends on the slope of its curve.
    borrowed = names(lambda e: e["own_curve"] is False and min(e["yes"], e["no"]) < FEW_KNOWN)
    flat = names(
        lambda e: (
            e["slope"] is not None
            and e["slope"] <= LEAST_SLOPE
            and min(e["yes"], e["no"]) >= ENOUGH_POSITIVES
        )
    )
    where = " in some view" if len(summary["labels"]) > len(main_labels(summary)) else ""
    advice = (
        "it predicts a label only where its score is positive, which seldom happens for rare "
        "labels. Rank by score, or fit with decide='guarded' or 'cardinality'."
        if rule == SIGN
        else "it is no better than always predicting no. Rank by score or probability, or "
        "decide by another rule, such as 'cardinality' or 'f1', which predicts more labels."
    )
    return {
        "says-no-to-all": silent
        and f"With decide={rule!r} the model finds none of the known yes "
        f"of {_labels(silent)}{where}: {advice}",
        "calibrated-from-pooled": borrowed
        and f"The probabilities of {_labels(borrowed)} come "
        "from a calibration curve that labels share, because too few entries are known. They "
        "are rough estimates.",
        "curve-flat": flat
        and f"The probabilities of {_labels(flat)} hardly differ from the "
        "frequency of yes: on held-out rows, higher scores were not more often yes.",
    }


def _of_probabilities(summary: Summary) -> Cautions:
    blocks, model = summary["quality"]["blocks"], summary["model"]
    fused = any(block["kind"] == "fused" for block in blocks)
    apart = summary["data"]["form"] == "separate" and len(model["views"]) > 1
    off = []
    for curve in summary["calibration"]:
        too_high, distance = _miscalibration(curve["bins"])
        if distance <= MUCH_OFF:
            continue
        how = "too high" if too_high > 0 else "too low"
        said = (
            f"The probabilities of {_short(curve['name'])} are {100 * curve['error']:.0f} points "
        )
        said += f"from the shares of yes, and on average {100 * abs(too_high):.0f} points {how}"
        advice = "use them to rank rows, not as they are"
        if curve["name"] == FUSED and apart:
            advice += ", or fuse with another overlap (predict --fused --overlap)"
        off.append(f"{said}: {advice}.")
    return {
        "probabilities-off": off,
        "fused-unmeasured": apart
        and not fused
        and "No rows that are in several tables were measured, so nothing here is about fused "
        "answers (predict --fused). Their probabilities assume that tables repeat each other "
        "little; tables of later rows that share ids measure them (evaluate, or report --test).",
    }


def _miscalibration(bins: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Mean of probabilities less shares of yes, and their distance beyond what noise explains.

    Noise is normal, so that the distance of a right bin has the mean and variance of its absolute
    value, (2 / pi)^(1/2) and 1 - 2 / pi for variance 1; two standard deviations are granted.
    """
    n, p, share = (
        np.array([b[key] for b in bins if b["n"]], dtype=float)
        for key in ("n", "probability", "share")
    )
    weights, variance = n / max(n.sum(), 1), p * (1 - p) / np.maximum(n, 1)
    noise = weights @ np.sqrt(2 / np.pi * variance)
    noise += 2 * np.sqrt(weights**2 @ variance * (1 - 2 / np.pi))
    return float(weights @ (p - share)), float(weights @ np.abs(p - share) - noise)


def _of_choice(summary: Summary) -> Cautions:
    choice = summary["choice"] or {"at_edge": [], "n_close": 0}
    return {
        "chosen-at-edge": [
            f"The chosen {name}={choice['chosen'][name]:g} is at the end of the range that was "
            "searched; better values may lie outside."
            for name in choice["at_edge"]
        ],
        "choice-not-sharp": choice["n_close"] > 0
        and f"The choice of lam and ridge is not clear-cut: {choice['n_close']} of the other "
        f"{choice['n_pairs'] - 1} pairs are within one standard deviation over the folds of the "
        "chosen pair.",
        "columns-dropped": [
            f"View {_short(view['name'])!r}: {len(dropped)} "
            f"{_either(dropped, 'column', 'columns')} with a constant value in the training rows "
            f"{_either(dropped, 'was', 'were')} dropped ({_some(dropped)})."
            for view in summary["data"]["views"]
            if (dropped := view["dropped"])
        ],
    }


def _some(names: Sequence[str]) -> str:
    return some(names, MOST_NAMES, _short)


def _short(name: str) -> str:
    return shorten(name, LONGEST_NAME)


def _labels(names: Sequence[str]) -> str:
    return f"{len(names)} {_either(names, 'label', 'labels')} ({_some(names)})"


def _have(labels: Sequence[str]) -> str:
    return f"{_labels(labels)} {_either(labels, 'has', 'have')}"


def _either(names: Sequence[Any], one: str, many: str) -> str:
    return one if len(names) == 1 else many
