"""All sites in one process, for tests, notebooks and planning."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier, BrokenBarrierError
from typing import Any, NamedTuple

from naim3l._arrays import Arrays
from naim3l._threads import limited_blas
from naim3l.estimators.subspace import LabelSubspaceRidge
from naim3l.federated.rounds import Ask, Exchange, answer, check_parameters, fit_in_rounds
from naim3l.federated.secure import secured
from naim3l.federated.shares import MINIMUM_COUNT, Share, combine, finish, share

Rows = tuple[Any, Any]  # tables, and label tables


class Simulation(NamedTuple):
    """What sites have learned, and how much each of them has sent and received.

    Attributes
    ----------
    models : dict of str to estimator
        The fitted model of each site.
    bytes_sent, bytes_received : dict of str to list of int
        By site, for each round: of files, or of arrays.

    Examples
    --------
    See `simulate`.
    """

    models: dict[str, Any]
    bytes_sent: dict[str, list[int]]
    bytes_received: dict[str, list[int]]


def simulate(
    sites: Mapping[str, Rows],
    estimator: Any,
    *,
    labels: Sequence[str] | None = None,
    minimum_count: int = MINIMUM_COUNT,
    secure: bool = False,
) -> Simulation:
    """Fit the models of all sites as they would be fitted apart, in this process.

    `LabelSubspaceRidge` takes one round, by files in a temporary folder; `NAIM3L` takes several for
    every iteration, and `NAIM3LCV` for those of every fit of its search.

    Parameters
    ----------
    sites : mapping of str to (tables, label tables)
        What is at each site, as for the fit of the estimator.
    estimator : LabelSubspaceRidge, NAIM3L or NAIM3LCV
        Unfitted. Each site deals its rows to the folds of a search, and all choose the same pair.
    labels, minimum_count
        As for `share`.
    secure : bool, default=False
        Whether the coordinator sees sums only, and nothing of a single site; in rounds, with the
        extra ``federated``. Shares in files are meant to be read by people.

    Returns
    -------
    Simulation
        Models, and bytes.

    Examples
    --------
    >>> from naim3l import NAIM3L, LabelSubspaceRidge, datasets
    >>> from naim3l.federated import simulate
    >>> data = datasets.make_unpaired(200, n_labels=3, labels_per_row=1, random_state=0)
    >>> sites = {
    ...     site: ({view: data.views[view]}, {view: data.labels[view]})
    ...     for site, view in (("north", "view0"), ("south", "view1"))
    ... }
    >>> len(simulate(sites, LabelSubspaceRidge(ridge=1.0, decide="sign")).bytes_sent["north"])
    1
    >>> found = simulate(sites, NAIM3L(lam=0.4, ridge=1.0))
    >>> found.models["north"].converged_, max(found.bytes_sent["north"])
    (True, 144)
    """
    if not sites:
        raise ValueError("there are no sites.")
    agreed: dict[str, Any] = {"labels": labels, "minimum_count": minimum_count}
    with limited_blas():  # also while threads of several sites end in any order
        if not isinstance(estimator, LabelSubspaceRidge):
            check_parameters(estimator)
            return _in_rounds(sites, partial(fit_in_rounds, estimator=estimator, **agreed), secure)
        if secure:
            raise ValueError("secure sums are for NAIM3L; shares in files are read by people.")
        return _by_files(sites, estimator, agreed)


def _by_files(sites: Mapping[str, Rows], estimator: Any, agreed: Any) -> Simulation:
    with TemporaryDirectory() as folder:
        paths = {site: Path(folder) / f"{i}.share" for i, site in enumerate(sites)}
        for site, rows in sites.items():
            share(*rows, estimator, site=site, **agreed).save(paths[site])
        common = Path(folder) / "common.share"
        combine([Share.load(path) for path in paths.values()]).save(common)
        sums, size = Share.load(common), common.stat().st_size
        sent = {site: [path.stat().st_size] for site, path in paths.items()}
    models = {site: finish(sums, *rows, estimator, site=site) for site, rows in sites.items()}
    return Simulation(models, sent, {site: [size] for site in sites})


def _in_rounds(sites: Mapping[str, Rows], fit: Callable[..., Any], secure: bool) -> Simulation:
    """Every site is a thread; the last that asks for something computes the answer to all."""
    asks, arrays, found = dict[str, Ask](), dict[str, Arrays](), Simulation({}, {}, {})
    answers: list[Arrays] = []
    barrier = Barrier(len(sites), lambda: answers.append(answer(asks, arrays)))

    def exchange(site: str, ask: Ask, own: Arrays) -> Arrays:
        asks[site], arrays[site] = ask, own
        barrier.wait()
        for sizes, sent in ((found.bytes_sent, own), (found.bytes_received, answers[-1])):
            sizes.setdefault(site, []).append(sum(array.nbytes for array in sent.values()))
        return answers[-1]

    exchanges: dict[str, Exchange] = {site: partial(exchange, site) for site in sites}
    if secure:
        exchanges = secured(exchanges)

    def fit_site(site: str) -> None:
        try:
            found.models[site] = fit(*sites[site], exchange=exchanges[site], site=site)
        except BaseException:
            barrier.abort()  # otherwise the others would wait for it
            raise

    with ThreadPoolExecutor(len(sites)) as pool:
        errors = [of.exception() for of in [pool.submit(fit_site, site) for site in sites]]
    for error in errors:
        if not isinstance(error, BrokenBarrierError | None):
            raise error
    return found
