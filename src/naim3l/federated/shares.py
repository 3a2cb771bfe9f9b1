"""One round by file: each site shares sums over labels, and finishes its own model with the total.

`LabelSubspaceRidge` needs nothing else of other tables: a matrix of label by label for every ridge,
and how often each label is yes and known. Weights are those of one fit to the tables of all sites.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from naim3l import __version__
from naim3l._arrays import Matrix
from naim3l._text import some
from naim3l._warnings import warn_user
from naim3l.estimators.ridge_fits import all_pairs, label_products
from naim3l.estimators.subspace import LabelSubspaceRidge
from naim3l.estimators.training import Alone
from naim3l.files.archive import Archive, write_archive
from naim3l.files.atomic_write import Path_
from naim3l.files.checkpoint import fingerprint
from naim3l.files.stored import Array, MapOf, Names, Plain, Text, Whole, dump, restore

FORMAT, VERSION = "naim3l share", 1
# Fewest yes, and fewest no, of a label with which it takes part at a site.
MINIMUM_COUNT = 10
SUMS = ("counts", "n_sites", "products")


class Elsewhere(Alone):
    """What a site knows of the others: the labels of the study, and their sums.

    ``left_out`` are labels of which the site says nothing, as if its tables did not have them.
    """

    several = True

    def __init__(
        self,
        labels: Sequence[str] | None,
        left_out: Sequence[str],
        counts: Any = (0, 0),
        products: Mapping[float, Matrix] = Alone.products,
    ) -> None:
        self.labels, self.left_out = labels, left_out
        self.counts, self.products = counts, products

    def place_labels(self, labels: list[str], positions: Any) -> tuple[list[str], Any]:
        study = labels if self.labels is None else list(self.labels)
        if unknown := [label for label in labels if label not in study]:
            raise ValueError(
                f"labels {some(unknown)} are not among those of the study, {some(study)}: rename "
                "these columns, or leave them out."
            )
        at = {label: k for k, label in enumerate(labels) if label not in self.left_out}
        return study, {
            table: [of[at[label]] if label in at else None for label in study]
            for table, of in positions.items()
        }

    def settle(self, problem: Any) -> None:
        problem.settle(self.counts)


@dataclass(frozen=True)
class Share:
    """Sums over the rows of one site, or of several: all that the sites of a study exchange.

    Attributes
    ----------
    labels : list of str
        Labels of the study.
    parameters : dict
        Parameters of the estimator on which the sums depend, and the ridges that they are for.
    sites : dict of str to int
        Names of the sites, and the minimum count of each.
    counts : ndarray of int, of shape (2, n_labels)
        How many entries of each label are yes, and how many are known.
    n_sites : ndarray of int, of shape (n_labels,)
        Number of sites at which each label takes part.
    products : ndarray of shape (n_ridges, n_labels * (n_labels + 1) / 2)
        Upper triangles: what ridge regression explains of each pair of labels.

    Examples
    --------
    See `share`.
    """

    labels: list[str]
    parameters: dict[str, Any]
    sites: dict[str, int]
    counts: NDArray[np.int64]
    n_sites: NDArray[np.int64]
    products: Matrix

    _stored: ClassVar[dict[str, Any]] = {
        "labels": Names("labels"),
        "parameters": MapOf(Plain()),
        "sites": MapOf(Whole(0)),
        "counts": Array("i", 2, "labels", low=0),
        "n_sites": Array("i", "labels", low=0),
        "products": Array("f", "ridges", "pairs"),
        "seal": Text(),
    }

    @property
    def study(self) -> str:
        """Fingerprint of the labels and parameters, which are the same at all sites of a study."""
        return fingerprint([], {"labels": self.labels, "parameters": self.parameters})[:16]

    @property
    def seal(self) -> str:
        """Fingerprint of the whole share, by which sites can compare files on the telephone."""
        arrays = [getattr(self, name) for name in SUMS]
        return fingerprint(arrays, {"study": self.study, "sites": self.sites})[:32]

    @property
    def left_out(self) -> list[str]:
        """Labels that take part at no site of these."""
        return [label for label, n in zip(self.labels, self.n_sites, strict=True) if not n]

    @property
    def matrices(self) -> dict[float, Matrix]:
        """The products by ridge, (n_labels, n_labels) each."""
        return dict(zip(self.parameters["ridges"], symmetric(self.products), strict=True))

    def save(self, path: Path_) -> None:
        """Write the share to a file, completely or not at all.

        Parameters
        ----------
        path : str or path-like
            Such as "north.share".

        Examples
        --------
        See `share`.
        """
        stored = dump(self, Share)
        document = {"format": FORMAT, "version": VERSION, "written_by": {"naim3l": __version__}}
        write_archive(path, document | {"share": stored.document}, stored.arrays)

    @classmethod
    def load(cls, path: Path_) -> "Share":
        """Share from a file that `save` wrote, checked; nothing in it is run.

        Parameters
        ----------
        path : str or path-like
            Path of the file. One that is damaged, was changed, or is of another kind or version,
            is a ModelFileError.

        Returns
        -------
        Share
            As it was saved.

        Examples
        --------
        See `share`.
        """
        with Archive(path, format=FORMAT, newest_version=VERSION) as archive:
            return restore(cls, archive.document.get("share"), archive)

    def _to_stored(self) -> dict[str, Any]:
        return {**vars(self), "seal": self.seal}

    @classmethod
    def _from_stored(cls, values: dict[str, Any]) -> "Share":
        seal, c = values.pop("seal"), len(values["labels"])
        shape = len(values["parameters"].get("ridges", ())), c * (c + 1) // 2
        if values["products"].shape != shape or not values["sites"]:
            raise ValueError("its sums are not those of its sites, labels and ridges.")
        if (found := cls(**values)).seal != seal:
            raise ValueError("it was changed after it was written.")
        return found

    def _plus(self, other: "Share", sign: int = 1) -> "Share":
        """Sums of both, or without the other sites; another study is refused."""
        mine, its = (" and ".join(map(repr, of.sites)) for of in (self, other))
        if self.labels != other.labels:
            apart = [label for label in self.labels if label not in other.labels]
            apart += [label for label in other.labels if label not in self.labels]
            what = f"labels {some(apart)} are not in both" if apart else "their order differs"
            raise ValueError(
                f"{mine} and {its} have different labels: {what}. Give all sites the same list."
            )
        for name, value in self.parameters.items():
            if (found := other.parameters.get(name)) != value:
                raise ValueError(
                    f"the sites are of different studies: {name} is {value!r} at {mine}, and "
                    f"{found!r} at {its}."
                )
        sites = self.sites | other.sites
        if sign < 0:
            sites = {site: k for site, k in self.sites.items() if site not in other.sites}
        sums = {name: getattr(self, name) + sign * getattr(other, name) for name in SUMS}
        return replace(self, sites=sites, **sums)


def share(
    X: Any,
    y: Any,
    estimator: LabelSubspaceRidge,
    *,
    site: str,
    labels: Sequence[str] | None = None,
    minimum_count: int = MINIMUM_COUNT,
) -> Share:
    """The sums of a site's tables, which are all that other sites need to know.

    Parameters
    ----------
    X, y : tables and label tables
        As for the fit of the estimator.
    estimator : LabelSubspaceRidge
        Unfitted. ridge, shrinkage, positive_weight and fit_intercept must be those of all sites;
        the others are the site's own.
    site : str
        Name of the site, different from those of the others.
    labels : sequence of str, optional
        All labels of the study in an order that all sites agree on; own tables may lack some. By
        default those of the own tables.
    minimum_count : int, default=10
        A label with fewer yes, or fewer no, takes no part at this site: its sums would tell of
        single rows. A warning names such labels.

    Returns
    -------
    Share
        To be saved, read by people, and combined.

    Examples
    --------
    >>> from naim3l import LabelSubspaceRidge, datasets
    >>> from naim3l.federated import Share, combine, finish, share
    >>> data = datasets.make_unpaired(200, n_labels=3, labels_per_row=1, random_state=0)
    >>> ridge = LabelSubspaceRidge(ridge=1.0, shrinkage=1.0, decide="sign")
    >>> sites = {
    ...     site: ({view: data.views[view]}, {view: data.labels[view]})
    ...     for site, view in (("north", "view0"), ("south", "view1"))
    ... }
    >>> for site, rows in sites.items():
    ...     share(*rows, ridge, site=site).save(f"{site}.share")
    >>> common = combine([Share.load(f"{site}.share") for site in sites])
    >>> common.counts
    array([[187, 122,  91],
           [400, 400, 400]])
    >>> finish(common, *sites["north"], ridge, site="north").views_
    ['view0']
    """
    if not isinstance(estimator, LabelSubspaceRidge):
        raise TypeError(f"one round is for LabelSubspaceRidge, got {type(estimator).__name__}.")
    if estimator.soft_labels:
        raise ValueError("soft_labels must be 0: sums of filled-in labels are not exchanged.")
    [*_, problem], study, _ = read_site(estimator, X, y, site, labels, minimum_count)
    whole, counts = problem.rotated().whole, problem.label_counts.sum(axis=1)
    ridges = list(dict.fromkeys(r for r, _ in all_pairs(estimator.ridge, estimator.shrinkage)))
    products = np.array([label_products(whole, W) for W in whole.ridge_solutions(ridges)])
    others = ("shrinkage", "positive_weight", "fit_intercept")
    return Share(
        study,
        {"ridges": ridges, **{name: getattr(estimator, name) for name in others}},
        {site: minimum_count},
        counts.astype(np.int64),
        (counts[1] > 0).astype(np.int64),
        triangles((products + products.swapaxes(1, 2)) / 2),  # the estimator uses no more
    )


def combine(shares: Sequence[Share]) -> Share:
    """The sums of several sites, in the order of their names.

    Parameters
    ----------
    shares : sequence of Share
        Each of other sites, of the same study; others are a ValueError.

    Returns
    -------
    Share
        With the sums. Of three sites or more, none can tell by itself those of another.

    Examples
    --------
    See `share`.
    """
    if not shares:
        raise ValueError("there are no shares to combine.")
    first, *others = sorted(shares, key=lambda of: sorted(of.sites))
    for other in others:
        if twice := first.sites.keys() & other.sites.keys():
            raise ValueError(f"site {min(twice)!r} is there twice; combine each site once.")
        first = first._plus(other)
    return first


def finish(
    common: Share, X: Any, y: Any, estimator: LabelSubspaceRidge, *, site: str
) -> LabelSubspaceRidge:
    """The model of a site, fitted to its own tables and the sums of all sites.

    Weights are those of one fit of the estimator to the tables of all sites, without labels that
    are too rare at another site, if ridge and shrinkage are given. If they are "auto", each site
    chooses them for itself, on its own held-out rows; decisions and probabilities are learned from
    these in any case.

    Parameters
    ----------
    common : Share
        A result of `combine`, in which the site's own share is.
    X, y, estimator, site
        Those of the site's share.

    Returns
    -------
    LabelSubspaceRidge
        Fitted.

    Examples
    --------
    See `share`.
    """
    if site not in common.sites:
        raise ValueError(f"the sums are of the sites {some(list(common.sites))}, not of {site!r}.")
    minimum_count = common.sites[site]
    own = share(X, y, estimator, site=site, labels=common.labels, minimum_count=minimum_count)
    others = common._plus(own, -1)
    n_yes, n_known = others.counts
    counts = np.concatenate([n_yes, n_known - n_yes, others.n_sites])
    if (counts < 0).any() or (not others.sites and counts.any()):
        raise ValueError(
            f"the tables of site {site!r} are not those of its share: the labels are counted "
            "differently. Finish with the same tables, or share and combine again."
        )
    # Labels that are too rare to be shared are learned from the own rows all the same.
    known = Elsewhere(common.labels, (), others.counts, others.matrices)
    return fit_at_site(clone(estimator), known, lambda model: model.fit(X, y))


def fit_at_site(model: Any, site: Alone, fit: Callable[[Any], Any]) -> Any:
    """What ``fit`` of a model returns, which knows meanwhile what a site knows of others."""
    model._site = site
    try:
        return fit(model)
    finally:
        del model._site


def read_site(
    model: Any, X: Any, y: Any, site: str, labels: Sequence[str] | None, minimum_count: int
) -> tuple[list[Any], list[str], list[str]]:
    """Problems of a site's tables, the labels of the study, and those too rare at the site.

    The first problem has all labels. These are left out of the last one, which others may know.
    """
    if not isinstance(site, str) or not site.strip():
        raise ValueError(f"site must be the name of the site, got {site!r}.")
    if isinstance(minimum_count, bool) or not isinstance(minimum_count, int) or minimum_count < 0:
        raise ValueError(
            f"minimum_count must be a whole number of 0 or more, got {minimum_count!r}."
        )
    model, left_out = clone(model).set_params(decide="sign"), list[str]()
    problems = list[Any]()
    # For tables in chunks.
    chunks: dict[str, Any] = {"n_folds": 0, "open_checkpoint": lambda facts: None}
    for _ in range(2):
        known = Elsewhere(labels, left_out)
        problem = fit_at_site(model, known, lambda of: of._read_training(X, y, **chunks))
        problems.append(problem)
        n_yes, n_known = problem.label_counts.sum(axis=1)
        few = (n_known > 0) & (np.minimum(n_yes, n_known - n_yes) < minimum_count)
        if not few.any():
            break
        left_out = [model.label_names_[k] for k in np.flatnonzero(few)]
        warn_user(
            f"site {site!r}: labels {some(left_out)} have fewer than {minimum_count} yes, or no; "
            "nothing is said of them to other sites."
        )
    return problems, list(model.label_names_), left_out


def triangles(G: Matrix) -> Matrix:
    """Upper triangles (..., n (n + 1) / 2) of symmetric matrices (..., n, n), row by row."""
    return np.ascontiguousarray(G[(..., *np.triu_indices(G.shape[-1]))])


def symmetric(of: Matrix) -> Matrix:
    """Symmetric matrices (..., n, n) from their upper triangles."""
    n = int(np.sqrt(2 * of.shape[-1]))
    G, (i, j) = np.empty((*of.shape[:-1], n, n)), np.triu_indices(n)
    G[..., i, j] = G[..., j, i] = of
    return G
