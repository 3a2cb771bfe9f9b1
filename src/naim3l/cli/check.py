"""``naim3l check``: known labels that are suspect, because everything else speaks against them."""

from typing import Any

from naim3l.cli import options
from naim3l.cli.app import print_table, report_errors, say
from naim3l.cli.options import load_model, option, print_json

Number: Any = option("Number of entries to show, the most surprising first.", int, "-n", min=1)
Below: Any = option("Show only entries that are less probable than this.", float, min=0, max=1)


def check(
    model: options.Model,
    views: options.Views = None,
    config: options.Config = None,
    labels: options.Labels = None,
    labels_file: options.LabelFiles = None,
    ids: options.Ids = None,
    number: Number = 20,
    below: Below = 0.1,
    as_json: options.AsJson = False,
) -> None:
    """List known labels that may be wrong: improbable given the features and the other labels.

    The probability is that of the value in the table. Improbable values do occur: of entries with a
    probability of 0.05, one in twenty should be as it is.

    Example: naim3l check model.naim3l --config study.toml -n 50
    """
    with report_errors():
        from naim3l.cli.predictions import (
            SOURCE,
            check_answers,
            find_suspects,
            words_of_source,
        )
        from naim3l.cli.settings import make_settings, with_views
        from naim3l.cli.tables import read_known

        settings = make_settings(with_views(views, model), config, labels, labels_file, ids)
        fitted = load_model(model)
        check_answers(fitted, "probabilities")
        X, Y = read_known(fitted, settings)
        found = find_suspects(fitted.check_labels(X, Y), Y, below)
        n_known = sum(int(of.notna().to_numpy().sum()) for of in Y.values())
    if as_json:
        print_json({"known": n_known, "below": len(found), "entries": found[:number]})
        return
    say(f"{len(found)} of {n_known} known labels have a probability below {below:g}.")
    header = ["view", "row", "label", "value", "its probability"]
    words = words_of_source(fitted, X, SOURCE) or ("1", "0")
    rows = [
        [
            str(of["view"]),
            str(of["row"]),
            of["label"],
            words[1 - of["value"]],
            f"{of['probability']:.4f}",
        ]
        for of in found
    ]
    if rows:
        print_table("The most surprising labels", header, rows[:number], n_left=4)
