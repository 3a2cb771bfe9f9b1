"""``naim3l federate``: one model of several sites, which share nothing but sums over labels."""

from pathlib import Path
from typing import Annotated, Any

import typer

from naim3l.cli.app import print_table, report_errors, say
from naim3l.cli.options import option, print_json

GROUP = """Fit one model at several sites, which share nothing but sums over labels.

By file, in one round: each site writes a share of its own tables, somebody adds up the shares, and
each site finishes its own model with the sums. Over a network, in many rounds: each site makes a
key, somebody serves, and all join. No row, column or weight leaves a site. 'naim3l inspect' shows
every number of a share; 'What leaves my site?' in the user guide says what can be told from them.
"""
MOST_LABELS = 12  # for which pairs are printed without --all

Config: Any = option("Settings of the site, with a table [federated].", Path, "--config")
Out: Any = option("Share to write, such as north.share.", Path, "--out", "-o")
Target: Any = option("Model file to write, such as north.model.", Path, "--out", "-o")
Common: Any = option("Sums of all sites, from 'naim3l federate combine'.", Path, "--common")
Shares = Annotated[list[Path], typer.Argument(help="Shares, one of each site.")]


def share(config: Config, out: Out) -> None:
    """Write the share of this site: the sums of its tables that other sites need.

    Settings are those of 'naim3l fit', with a table [federated]: site, the name of the site;
    labels, those of the whole study, in an order that all sites agree on; ridge and shrinkage,
    numbers that all sites agree on, or "auto"; and minimum_count, 10 by default, the fewest yes,
    and no, of a label with which it takes part here.

    Example: naim3l federate share --config study.toml -o north.share
    """
    with report_errors():
        from naim3l import federated
        from naim3l.federated.shares import MINIMUM_COUNT

        settings, _, given = read_site(config, out)
        own = settings.federated
        given["estimator"] = _one_round(settings, given["estimator"])
        minimum_count = own.get("minimum_count", MINIMUM_COUNT)
        made = federated.share(**given, labels=own.get("labels"), minimum_count=minimum_count)
        made.save(out)
    _say_written(out, made)


def combine(shares: Shares, out: Out) -> None:
    """Add up the shares of all sites.

    Example: naim3l federate combine north.share south.share west.share -o common.share
    """
    with report_errors():
        from naim3l import federated
        from naim3l.files.atomic_write import check_outputs

        check_outputs([out], shares)
        made = federated.combine([federated.Share.load(path) for path in shares])
        made.save(out)
    if len(made.sites) == 2:
        say("With two sites, each can subtract its own share and learn that of the other.")
    _say_written(out, made)


def finish(config: Config, common: Common, out: Target) -> None:
    """Fit the model of this site with the sums of all sites.

    The settings and tables must be those of its share. The model is an ordinary model file, for
    'naim3l predict' and the others; it stays at the site.

    Example: naim3l federate finish --config study.toml --common common.share -o north.model
    """
    with report_errors():
        from naim3l import federated

        sums = federated.Share.load(common)
        settings, views, given = read_site(config, out, common)
        given["estimator"] = _one_round(settings, given["estimator"])
        model = federated.finish(sums, **given)
        save_model(model, settings, views, given, out)
    say(f"ridge {model.ridge_:g}, shrinkage {model.shrinkage_:g}")
    say(f"Wrote {out}.")


def print_share(path: Path, *, every: bool, as_json: bool) -> None:
    """Show every number of a share."""
    from naim3l.federated import Share

    found = Share.load(path)
    if as_json:
        shown = vars(found) | {"study": found.study, "seal": found.seal}
        print_json(shown | {"products": found.matrices})
        return
    sites = (f"{site} (at least {k} yes and no)" for site, k in found.sites.items())
    facts = {"sites": ", ".join(sites), "study": found.study, "seal": found.seal}
    facts |= {"size": f"{path.stat().st_size} bytes"}
    facts |= {name: str(value) for name, value in found.parameters.items()}
    print_table(str(path), ["fact", "value"], [list(fact) for fact in facts.items()], n_left=2)
    labels, ridges = found.labels, [f"ridge {ridge:g}" for ridge in found.matrices]
    counts = zip(labels, found.n_sites, *found.counts, strict=True)
    rows = [[label, *map(str, (n, yes, known - yes, known))] for label, n, yes, known in counts]
    title = "How often each label is yes, no and known, at how many sites"
    print_table(title, ["label", "sites", "yes", "no", "known"], rows)
    if len(labels) > MOST_LABELS and not every:
        n = found.products.size
        say(f"{n} further numbers, of pairs of labels and ridges, are shown with --all.")
        return
    pairs = [(a, b) for k, a in enumerate(labels) for b in labels[k:]]
    rows = [
        [*pair, *(f"{value:.6g}" for value in values)]
        for pair, values in zip(pairs, found.products.T, strict=True)
    ]
    title = (
        "What ridge regression explains of each pair of labels: the sum over rows of one label, "
        "around its mean, times the score of the other"
    )
    print_table(title, ["label", "and", *ridges], rows, n_left=2)


def read_site(config: Path, out: Path, *others: Path) -> tuple[Any, Any, dict[str, Any]]:
    """Settings of a site, its views, and its tables, estimator and name."""
    from naim3l.cli.settings import make_model, read_settings
    from naim3l.cli.tables import is_chunked, open_training
    from naim3l.files.atomic_write import check_outputs
    from naim3l.files.errors import ReadError

    settings = read_settings(config)
    check_outputs([out], [*settings.files(config), *others])
    if "site" not in settings.federated:
        raise ReadError(f"{config}: name the site, as site in a table [federated].")
    if is_chunked(settings, None, None):
        raise ReadError(f"{config}: folders and patterns are for Python; name single files.")
    views = open_training(settings)
    tables = {name: view.read() for name, view in views.items()}
    model = make_model(settings.model, {name: view.recipe for name, view in views.items()})
    X, y = ({name: pair[i] for name, pair in tables.items()} for i in (0, 1))
    given = {"X": X, "y": y, "estimator": model, "site": settings.federated["site"]}
    return settings, views, given


def _one_round(settings: Any, model: Any) -> Any:
    """The estimator of one round, with what it has in common with the one of the settings."""
    from naim3l.estimators.subspace import LabelSubspaceRidge

    taken = ("features", "decide", "random_state", "positive_weight", "fit_intercept")
    chosen = {name: getattr(model, name) for name in taken}
    own = settings.federated
    return LabelSubspaceRidge(
        **chosen, **{name: own[name] for name in ("ridge", "shrinkage") if name in own}
    )


def save_model(model: Any, settings: Any, views: Any, given: Any, out: Path) -> None:
    from naim3l.cli.tables import id_of_fit
    from naim3l.cli.titles import set_titles

    set_titles(model, settings)
    for name, view in views.items():
        model.roles_[name] = view.roles(id_of_fit(model, view, given["X"][name].data))
    model.set_output(transform="pandas").save(out)


def _say_written(path: Path, made: Any) -> None:
    n = len(made.labels) - len(made.left_out)
    say(f"Sites {', '.join(made.sites)}; study {made.study}, seal {made.seal}")
    say(f"Wrote {path}: {n} of {len(made.labels)} labels, {path.stat().st_size} bytes.")
