"""Warnings for the reader of a report, as sentences.

Each rule inspects a summary and yields sentences, or none. ``CAUTIONS`` lists the rules; those that
affect most of the report come first.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from naim3l._text import some
from naim3l.decisions.bootstrap_metrics import NO_BETTER, TOO_FEW
from naim3l.decisions.rules import ENOUGH_POSITIVES, SIGN
from naim3l.report.findings import (
    coupling_gain,
    describe_coupling,
    main_block,
    main_labels,
    shorten,
)

Summary = dict[str, Any]

# A view that is missing in more than this share of the rows is reported.
MUCH_LACKING = 0.5
# Metrics on fewer rows than this are only a rough indication.
FEW_ROWS = 50
# A label with fewer known yes or no has little influence on its own calibration curve.
FEW_KNOWN = 20
MOST_NAMES, LONGEST_NAME = 6, 48


def find_cautions(summary: Summary) -> list[dict[str, str]]:
    """Sentences that apply to a summary, each as a dict with "rule" and "sentence"."""
    return [
        {"rule": rule.__name__.lstrip("_").replace("_", "-"), "sentence": sentence}
        for rule in CAUTIONS
        for sentence in rule(summary)
    ]


def _measured_on_training(summary: Summary) -> Iterator[str]:
    if summary["quality"]["on"] == "training":
        yield (
            "All measures of quality are computed on labels that the model has seen in training. "
            "They are optimistic; provide test tables to measure the quality for new rows."
        )


def _perhaps_seen(summary: Summary) -> Iterator[str]:
    if _only_given(summary):
        yield (
            "It is not known here whether the model has seen these rows in training. If it has, "
            "all measures of quality are optimistic."
        )


def _coupling_worse(summary: Summary) -> Iterator[str]:
    main = main_block(summary["quality"]["blocks"])
    gain = coupling_gain(main)
    if gain and gain["high"] < 0:
        yield (
            f"The same model without coupling is better here. {describe_coupling(main, 'Coupling')}"
            " Lower lam, or use PerViewRidge."
        )


def _decisions_guessed(summary: Summary) -> Iterator[str]:
    main = main_block(summary["quality"]["blocks"])
    found = main["metrics"]["1-HL"] if main else None
    if found and found["value"] is not None and found["low"] <= found["guessing"]:
        yield (
            f"The accuracy ({100 * found['value']:.1f} %) is not clearly above that of always "
            f"predicting the more frequent value ({100 * found['guessing']:.1f} %). Rank rows by "
            "score or probability instead of relying on yes and no."
        )


def _labels_guessed(summary: Summary) -> Iterator[str]:
    guessed = _labels_with(summary, NO_BETTER)
    if guessed:
        yield (
            f"The predictions of {_count(guessed, 'label')} ({_some(guessed)}) are no better than "
            f"guessing: do not rely on {_them(guessed)}."
        )


def _labels_unknown(summary: Summary) -> Iterator[str]:
    unknown = _labels_with(summary, TOO_FEW)
    if unknown:
        yield (
            f"Too few labels are known to say how good the predictions of "
            f"{_count(unknown, 'label')} ({_some(unknown)}) are."
        )


def _not_converged(summary: Summary) -> Iterator[str]:
    fit = summary["convergence"]
    if fit and not fit["converged"]:
        yield (
            f"The fit did not converge: it stopped after {fit['n_iter']} iterations "
            f"(max_iter={fit['max_iter']}, tol={fit['tol']:g}). Weights and scores may still "
            "change."
        )


def _objective_negative(summary: Summary) -> Iterator[str]:
    fit = summary["convergence"]
    if fit and fit["objective"][-1] is not None and fit["objective"][-1] < 0:
        yield (
            f"The objective is negative ({fit['objective'][-1]:.4g}): the high-rank term outweighs "
            "the loss. Lower lam, add a ridge, or use variant='low-rank'."
        )


def _no_positives(summary: Summary) -> Iterator[str]:
    never = [entry["label"] for entry in summary["data"]["labels"] if not entry["yes"]]
    if never and _only_given(summary):
        yield f"{_labels(never)} no known yes, so nothing can be measured for {_them(never)}."
    elif never:
        yield (
            f"{_labels(never)} no known yes, so nothing could be learned about "
            f"{_them(never)}: the scores carry little or no information."
        )


def _few_positives(summary: Summary) -> Iterator[str]:
    few = [
        entry["label"] for entry in summary["data"]["labels"] if 0 < entry["yes"] < ENOUGH_POSITIVES
    ]
    if few:
        who = "This report relies" if _only_given(summary) else "The model and this report rely"
        yield (
            f"{_labels(few)} fewer than {ENOUGH_POSITIVES} known yes. {who} on only a few "
            f"rows for {_them(few)}."
        )


def _no_negatives(summary: Summary) -> Iterator[str]:
    only_yes = [
        entry["label"] for entry in summary["data"]["labels"] if entry["yes"] and not entry["no"]
    ]
    if only_yes and not _only_given(summary):
        yield (
            f"{_labels(only_yes)} no known no: if unknown means no in your tables, replace "
            "it by 0; otherwise the model cannot learn to distinguish yes from no."
        )


def _view_mostly_missing(summary: Summary) -> Iterator[str]:
    for view in summary["data"]["views"]:
        if view["lacking"] > MUCH_LACKING:
            yield (
                f"View {_short(view['name'])!r} is missing in {100 * view['lacking']:.0f} % of its "
                "rows; everything reported about it refers to the remaining rows."
            )


def _few_rows(summary: Summary) -> Iterator[str]:
    small = [
        block["name"]
        for block in summary["quality"]["blocks"]
        if block["kind"] != "mean" and block["n_rows"] < FEW_ROWS
    ]
    if small:
        yield (
            f"Fewer than {FEW_ROWS} rows were evaluated in {_some(small)}: even the intervals are "
            "only rough there."
        )


def _says_no_to_all(summary: Summary) -> Iterator[str]:
    rule = summary["model"]["rule"]
    least = 1 if rule == SIGN else ENOUGH_POSITIVES
    silent = _names(summary, lambda e: e["measured_yes"] >= least and not e["found"])
    if silent:
        advice = (
            "it predicts a label only where its score is positive, which seldom happens for rare "
            "labels. Rank by score, or fit with decide='guarded' or 'cardinality'."
            if rule == SIGN
            else "it is no better than always predicting no. Rank by score or probability, or "
            "decide by another rule, such as 'cardinality' or 'f1', which predicts more labels."
        )
        yield (
            f"With decide={rule!r} the model finds none of the known yes of "
            f"{_count(silent, 'label')} ({_some(silent)}){_somewhere(summary)}: {advice}"
        )


def _calibrated_from_pooled(summary: Summary) -> Iterator[str]:
    # A label with many entries that is almost separable hardly depends on the slope of its curve.
    borrowed = _names(
        summary,
        lambda entry: entry["own_curve"] is False and min(entry["yes"], entry["no"]) < FEW_KNOWN,
    )
    if borrowed:
        yield (
            f"The probabilities of {_count(borrowed, 'label')} ({_some(borrowed)}) come from a "
            "calibration curve that all labels share, because too few entries are known. They are "
            "rough estimates."
        )


def _curve_falls(summary: Summary) -> Iterator[str]:
    falling = _names(
        summary,
        lambda e: e["slope"] is not None and e["slope"] <= 0 and min(e["yes"], e["no"]) > 1,
    )
    if falling:
        yield (
            f"The probabilities of {_count(falling, 'label')} ({_some(falling)}) do not rise with "
            "the score: on held-out entries, higher scores were not more often yes."
        )


def _chosen_at_edge(summary: Summary) -> Iterator[str]:
    choice = summary["choice"]
    for name in choice["at_edge"] if choice else []:
        yield (
            f"The chosen {name}={choice['chosen'][name]:g} is at the end of the range that was "
            "searched; better values may lie outside."
        )


def _choice_not_sharp(summary: Summary) -> Iterator[str]:
    choice = summary["choice"]
    if choice and choice["n_close"] > 0:
        yield (
            f"The choice of lam and ridge is not clear-cut: {choice['n_close']} of the other "
            f"{choice['n_pairs'] - 1} pairs are within one standard deviation over the folds of "
            "the chosen pair."
        )


def _columns_dropped(summary: Summary) -> Iterator[str]:
    for view in summary["data"]["views"]:
        dropped = view["dropped"]
        if dropped:
            yield (
                f"View {_short(view['name'])!r}: {_count(dropped, 'column')} with a constant value "
                f"in the training rows {'was' if len(dropped) == 1 else 'were'} dropped "
                f"({_some(dropped)})."
            )


CAUTIONS: tuple[Callable[[Summary], Iterator[str]], ...] = (
    _measured_on_training,
    _perhaps_seen,
    _coupling_worse,
    _decisions_guessed,
    _labels_guessed,
    _labels_unknown,
    _not_converged,
    _objective_negative,
    _no_positives,
    _few_positives,
    _no_negatives,
    _view_mostly_missing,
    _few_rows,
    _says_no_to_all,
    _calibrated_from_pooled,
    _curve_falls,
    _chosen_at_edge,
    _choice_not_sharp,
    _columns_dropped,
)


def _only_given(summary: Summary) -> bool:
    """Whether the tables are not those of the fit, so that nothing is known about the training."""
    return bool(summary["quality"]["on"] == "given")


def _some(names: Sequence[str]) -> str:
    return some(names, MOST_NAMES, _short)


def _short(name: str) -> str:
    return shorten(name, LONGEST_NAME)


def _names(summary: Summary, applies: Callable[[dict[str, Any]], Any]) -> list[str]:
    """Labels to which something applies, in one view at least."""
    return list(dict.fromkeys(entry["label"] for entry in summary["labels"] if applies(entry)))


def _labels_with(summary: Summary, verdict: str) -> list[str]:
    return [entry["label"] for entry in main_labels(summary) if entry["verdict"] == verdict]


def _somewhere(summary: Summary) -> str:
    return " in some view" if len(summary["labels"]) > len(main_labels(summary)) else ""


def _count(names: Sequence[str], word: str) -> str:
    return f"{len(names)} {word}{'' if len(names) == 1 else 's'}"


def _labels(names: Sequence[str]) -> str:
    """Beginning of a sentence about labels, including its verb."""
    return f"{_count(names, 'label')} ({_some(names)}) {'has' if len(names) == 1 else 'have'}"


def _them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"
