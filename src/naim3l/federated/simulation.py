"""All sites in one process, for tests, notebooks and planning."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier, BrokenBarrierError
from typing import Any

from naim3l._arrays import Arrays
from naim3l._threads import limited_blas
from naim3l.estimators.subspace import LabelSubspaceRidge
from naim3l.federated.rounds import Ask, Exchange, answer, check_parameters, fit_in_rounds
from naim3l.federated.shares import MIN_COUNT, Share, combine, finish, share

Bytes = dict[str, list[int]]
Rows = tuple[Any, Any]  # tables, and label tables


@dataclass(frozen=True)
class Simulation:
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

    >>> from naim3l.federated import Simulation
    >>> Simulation({}, {"north": [1200, 80]}, {"north": [80, 80]}).n_rounds
    2
    """

    models: dict[str, Any]
    bytes_sent: Bytes
    bytes_received: Bytes

    @property
    def n_rounds(self) -> int:
        """Number of rounds, in each of which every site sends something and gets the answer."""
        return max((len(of) for of in self.bytes_sent.values()), default=0)


def simulate(
    sites: Mapping[str, Rows],
    estimator: Any,
    *,
    labels: Sequence[str] | None = None,
    min_count: int = MIN_COUNT,
) -> Simulation:
    """Fit the models of all sites as they would be fitted apart, in this process.

    `LabelSubspaceRidge` takes one round, by files in a temporary folder; `NAIM3L` takes several for
    every iteration.

    Parameters
    ----------
    sites : mapping of str to (tables, label tables)
        What is at each site, as for the fit of the estimator.
    estimator : LabelSubspaceRidge or NAIM3L
        Unfitted.
    labels, min_count
        As for `share`.

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
    >>> simulate(sites, LabelSubspaceRidge(ridge=1.0, random_state=0)).n_rounds
    1
    >>> found = simulate(sites, NAIM3L(lam=0.4, ridge=1.0))
    >>> found.models["north"].converged_, max(found.bytes_sent["north"])
    (True, 144)
    """
    if not sites:
        raise ValueError("there are no sites.")
    with limited_blas():  # also while threads of several sites end in any order
        agreed: dict[str, Any] = {"labels": labels, "min_count": min_count}
        if isinstance(estimator, LabelSubspaceRidge):
            return _by_files(sites, partial(share, estimator=estimator, **agreed), estimator)
        check_parameters(estimator)
        return _in_rounds(sites, partial(fit_in_rounds, estimator=estimator, **agreed))


def _by_files(sites: Mapping[str, Rows], share: Any, estimator: Any) -> Simulation:
    with TemporaryDirectory() as folder:
        paths = {site: Path(folder) / f"{i}.share" for i, site in enumerate(sites)}
        for site, rows in sites.items():
            share(*rows, site=site).save(paths[site])
        common = Path(folder) / "common.share"
        combine([Share.load(path) for path in paths.values()]).save(common)
        sent = {site: [path.stat().st_size] for site, path in paths.items()}
        received = {site: [common.stat().st_size] for site in sites}
        models = {
            site: finish(Share.load(common), *rows, estimator, site=site)
            for site, rows in sites.items()
        }
    return Simulation(models, sent, received)


def _in_rounds(sites: Mapping[str, Rows], fit_in_rounds: Any) -> Simulation:
    meeting = _Meeting(list(sites))

    def fit(site: str) -> Any:
        try:
            return fit_in_rounds(*sites[site], exchange=meeting.exchange_of(site), site=site)
        except BaseException:
            meeting.barrier.abort()  # otherwise the others would wait for it
            raise

    with ThreadPoolExecutor(len(sites)) as pool:
        fits = {site: pool.submit(fit, site) for site in sites}
    errors = [of.exception() for of in fits.values()]
    causes = [error for error in errors if not isinstance(error, BrokenBarrierError | None)]
    for error in causes:
        raise error
    models = {site: of.result() for site, of in fits.items()}
    return Simulation(models, meeting.sent, meeting.received)


class _Meeting:
    """A coordinator in the memory of the process, and the threads of the sites that wait for it."""

    def __init__(self, sites: list[str]) -> None:
        self.barrier = Barrier(len(sites), self._answer)
        self.asks, self.arrays = dict[str, Ask](), dict[str, Arrays]()
        self.sent: Bytes = {site: [] for site in sites}
        self.received: Bytes = {site: [] for site in sites}
        self.answer: Arrays = {}

    def exchange_of(self, site: str) -> Exchange:
        def exchange(ask: Ask, arrays: Arrays) -> Arrays:
            self.asks[site], self.arrays[site] = ask, arrays
            self.barrier.wait()
            found = self.answer
            self.sent[site].append(_size(arrays))
            self.received[site].append(_size(found))
            return found

        return exchange

    def _answer(self) -> None:
        self.answer = answer(self.asks, self.arrays)


def _size(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays.values())
