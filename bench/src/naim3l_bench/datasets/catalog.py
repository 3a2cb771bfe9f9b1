"""The known datasets: their properties, and how to open them from a folder."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from naim3l.datasets import load_yeast, make_unpaired
from naim3l_bench.datasets.lear import find_lear, open_lear
from naim3l_bench.datasets.mat import find_six_view, find_view_files, open_six_view, open_view_files
from naim3l_bench.datasets.npz import STAND_IN, open_npz
from naim3l_bench.datasets.source import MultiView, StoredView

GENUINE = "-genuine"
EMBEDDED = "shipped with the package"
RARE = "generated-rare"
_LEAR = "http://lear.inrialpes.fr/people/guillaumin/data.php (no licence is stated there)"
_NPZ = "as .npz, see the docstring of open_npz; originally from "
# On Corel5k the test rank of a random split has a standard deviation of 3. Table 1 is for one
# unknown split, so its ranks are compared with the median over several splits.
_N_SPLITS, _RANK_TOLERANCE = 11, 3


@dataclass(frozen=True)
class Facts:
    """Known properties of a dataset; None where unknown.

    Attributes
    ----------
    title : str
        Name of the dataset in tables and figures.
    n_samples, n_labels : int
    labels_per_row : float
        Mean number of positive labels per row, to three decimals.
    train_rank, test_rank : int or None
        Ranks of the labels of a random 70 % of the rows, and of the others: the paper's Table 1.
    lam : float or None
        The lambda in the paper's experiments.
    origin : str
        Where the data are available.
    """

    title: str
    n_samples: int
    n_labels: int
    labels_per_row: float
    train_rank: int | None = None
    test_rank: int | None = None
    lam: float | None = None
    origin: str = ""


CATALOG: dict[str, Facts] = {
    "corel5k": Facts("Corel5k", 4999, 260, 3.396, 259, 249, 0.4, _LEAR),
    "espgame": Facts("ESPGame", 20770, 268, 4.686, 268, 268, 0.2, _LEAR),
    "iaprtc12": Facts("IAPRTC12", 19627, 291, 5.719, 291, 291, 0.2, _LEAR),
    "mirflickr": Facts("Mirflickr", 25000, 38, 4.716, 38, 38, 0.6, _LEAR),
    "pascal07": Facts("Pascal07", 9963, 20, 1.465, 20, 20, 1.5, _LEAR),
    "yeast": Facts("Yeast", 2417, 14, 4.237, origin=f"{EMBEDDED}: naim3l.datasets.load_yeast"),
    "emotions": Facts("Emotions", 593, 6, 1.868, origin=_NPZ + "Mulan"),
    "birds": Facts("Birds", 645, 19, 1.014, origin=_NPZ + "Mulan"),
    "arxiv2007": Facts("arXiv 2007", 1810, 35, 1.319, origin=_NPZ + "arxiv.org"),
}


class Check(NamedTuple):
    """A fact of the catalogue, its values there and in the data, and whether they agree."""

    fact: str
    expected: float
    found: float
    ok: bool


@dataclass(frozen=True)
class _Form:
    """A file format of datasets: how to find the files of a dataset, and how to open them."""

    title: str
    names: str
    find: Callable[[str, Path], list[Path]]
    open: Callable[[str, Path], MultiView]


def open_dataset(name: str, folder: str | os.PathLike[str] | None = None) -> MultiView:
    """The dataset with a name, in whichever format a folder contains it.

    The folder is searched first, then its sub-folder ``<name>``. The first of these that exists is
    used:

    1. ``<name>.npz``
    2. all ``<name>_*.npz``, with their views combined as in `open_npz`
    3. LEAR files, ``<name>_train_DenseHue.hvecs`` and so on: `open_lear`
    4. ``<name>_six_view.mat`` or ``<name>.mat``: `open_six_view`
    5. ``<name>_train_DenseHue.mat``, ``<name>_DenseHue.mat`` and so on: `open_view_files`

    Parameters
    ----------
    name : str
        A key of `CATALOG`, or any name for which there are files. With the suffix "-genuine",
        the views whose names end in "Recomputed" are left out. "generated-rare" is made anew: three
        views and 20 labels, of which 1 to 5 % of 2000 samples are positive.
    folder : path, optional
        Not needed for "yeast", which comes with the package, nor for "generated-rare".

    Examples
    --------
    >>> from naim3l_bench.datasets import open_dataset
    >>> data = open_dataset("yeast")
    >>> data.n_samples, data.n_labels, list(data.views)
    (2417, 14, ['expression', 'phylogenetic'])
    """
    base = name.removesuffix(GENUINE)
    found = _find(base, folder)
    if found is not None:
        form, paths = found
        data = form.open(base, paths[0].parent)
    elif base == "yeast":
        data = _embedded_yeast()
    elif base == RARE:
        data = _generated_rare()
    else:
        raise FileNotFoundError(_not_found(base, folder))
    return _genuine(data) if name.endswith(GENUINE) else data


def available(folder: str | os.PathLike[str] | None = None) -> dict[str, str]:
    """Datasets of the catalogue that `open_dataset` would find, and their format.

    Only file names are considered; no file is opened. Formats are such as ".npz (corel5k.npz)".
    Without a folder only datasets that come with the package are listed.
    """
    result = {}
    for name in CATALOG:
        found = _find(name, folder)
        if found is not None:
            form, paths = found
            shown = ", ".join(path.name for path in paths[:2])
            more = f" and {len(paths) - 2} more" if len(paths) > 2 else ""
            result[name] = f"{form.title} ({shown}{more})"
        elif name == "yeast":
            result[name] = EMBEDDED
    return result


def check_dataset(name: str, data: MultiView) -> list[Check]:
    """Comparison of a dataset with its entry in the catalogue, by fact that is known.

    The numbers of rows and labels must be equal, and labels per row must agree to three decimals.
    The paper's ranks are those of one unknown random split of the rows into 70 % and 30 %. They may
    differ by 3 from the median ranks over 11 fixed splits. The name may have the suffix "-genuine".
    """
    base = name.removesuffix(GENUINE)
    if base not in CATALOG:
        raise ValueError(f"name={name!r}; one of {list(CATALOG)} is needed.")
    facts = CATALOG[base]
    per_row = round(float(data.labels.sum(axis=1).mean()), 3)
    checks = [
        _equal("n_samples", facts.n_samples, data.n_samples),
        _equal("n_labels", facts.n_labels, data.n_labels),
        _equal("labels_per_row", facts.labels_per_row, per_row),
    ]
    if facts.train_rank is not None and facts.test_rank is not None:
        train_rank, test_rank = _split_ranks(data.labels)
        checks += [
            _close("train_rank", facts.train_rank, train_rank),
            _close("test_rank", facts.test_rank, test_rank),
        ]
    return checks


def _equal(fact: str, expected: float, found: float) -> Check:
    return Check(fact, expected, found, expected == found)


def _close(fact: str, expected: int, found: int) -> Check:
    return Check(fact, expected, found, abs(expected - found) <= _RANK_TOLERANCE)


def _split_ranks(labels: NDArray[np.int64]) -> tuple[int, int]:
    """Median ranks, over several splits, of the labels of 70 % of the rows and of the others."""
    Y = labels.astype(float)
    n_train = round(0.7 * len(Y))
    ranks = []
    with threadpool_limits(1):  # small matrices: more threads would be slower
        gram = Y.T @ Y  # counts of rows, exact as floats, with the rank of the rows
        for seed in range(_N_SPLITS):
            train = Y[np.random.default_rng(seed).permutation(len(Y))[:n_train]]
            train_gram = train.T @ train
            ranks.append(np.linalg.matrix_rank([train_gram, gram - train_gram], hermitian=True))
    train_rank, test_rank = np.median(ranks, axis=0).astype(int).tolist()
    return train_rank, test_rank


def _find(name: str, folder: str | os.PathLike[str] | None) -> tuple[_Form, list[Path]] | None:
    """The first format that exists, and its files."""
    for where in _places(name, folder):
        for form in _FORMS:
            paths = form.find(name, where)
            if paths:
                return form, paths
    return None


def _places(name: str, folder: str | os.PathLike[str] | None) -> list[Path]:
    """Folders to search."""
    if folder is None:
        return []
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"{os.fspath(folder)!r} is not a folder that is there.")
    return [path for path in (Path(folder), Path(folder) / name) if path.is_dir()]


def _not_found(name: str, folder: str | os.PathLike[str] | None) -> str:
    if folder is None:
        known = "" if name in CATALOG else f" Known are: {', '.join(CATALOG)}."
        return f"{name!r} does not come with the package: a folder that holds it is needed.{known}"
    where = " and ".join(str(path) for path in _places(name, folder))
    forms = "; ".join(form.names.replace("<name>", name) for form in _FORMS)
    origin = f" Origin: {CATALOG[name].origin}." if name in CATALOG else ""
    return f"{name!r} was not found in {where}. Looked for: {forms}.{origin}"


def _genuine(data: MultiView) -> MultiView:
    """The data without recomputed views."""
    names = [name for name in data.views if not name.endswith(STAND_IN)]
    if not names:
        where = ", ".join(str(path) for path in data.files)
        raise ValueError(f"{where}: all of the views {list(data.views)} are stand-ins")
    return data.select(names)


def _embedded_yeast() -> MultiView:
    yeast = load_yeast()
    path = Path(str(files("naim3l.datasets").joinpath("data", "yeast.csv.gz")))
    views = {name: StoredView.in_memory(X, [path]) for name, X in yeast.views.items()}
    return MultiView(views, yeast.labels, yeast.label_names, label_files=[path])


def _generated_rare() -> MultiView:
    """Three views of 2000 samples with 20 labels, of which 1 to 5 % of the samples are positive."""
    made = make_unpaired(
        2000,
        n_features=(30, 30, 30),
        n_labels=20,
        n_latent=10,
        noise=2.0,
        aligned=True,
        random_state=0,
    )
    scores = made.scores["view0"]
    ranks = scores.argsort(axis=0).argsort(axis=0)
    n_negative = len(scores) - len(scores) * np.linspace(0.01, 0.05, 20)
    views = {name: StoredView.in_memory(X, []) for name, X in made.views.items()}
    return MultiView(views, ranks >= n_negative.round(), None, label_files=[])


def _matching(name: str, folder: Path, end: str) -> list[Path]:
    """Files of a folder with this name, ignoring case, sorted by name."""
    pattern = re.compile(re.escape(name) + end, re.IGNORECASE)
    return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name))


_find_npz = partial(_matching, end=r"\.npz")
_find_npz_parts = partial(_matching, end=r"_.*\.npz")


def _open_npz(name: str, folder: Path) -> MultiView:
    return open_npz(*(_find_npz(name, folder) or _find_npz_parts(name, folder)))


def _open_six_view(name: str, folder: Path) -> MultiView:
    paths = find_six_view(name, folder)
    if len(paths) > 1:
        raise ValueError(f"{paths[0]} and {paths[1]} are for the same dataset")
    return open_six_view(paths[0])


_FORMS = (
    _Form(".npz", "<name>.npz", _find_npz, _open_npz),
    _Form(".npz", "<name>_*.npz", _find_npz_parts, _open_npz),
    _Form("LEAR", "<name>_<part>_<View>.hvecs, .hvecs32 or .fvec", find_lear, open_lear),
    _Form("six-view .mat", "<name>_six_view.mat", find_six_view, _open_six_view),
    _Form(
        "per-view .mat",
        "<name>_<part>_<View>.mat or <name>_<View>.mat",
        find_view_files,
        open_view_files,
    ),
)
