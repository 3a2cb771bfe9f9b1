"""Reader of multi-view data sets in .npz files."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

_VIEW = "view_"


def load_npz(path: str | os.PathLike[str]) -> Bunch:
    """Views and labels from an .npz file, with nothing in the file run as code.

    The file holds an array ``view_<name>`` of shape (n_samples, n_features of the view) for each
    view and ``labels`` of shape (n_samples, n_labels), 0 or 1. It may hold ``label_names``,
    ``observed`` of shape (n_samples, n_views), 1 where the view exists for the row, and
    ``view_order``, the names of the views in the order of the columns of ``observed``; without it
    that is the order in which the file stores the views. Other arrays are left alone.

    Parameters
    ----------
    path : path of the file

    Returns
    -------
    data : Bunch
        ``views``: dict of arrays in the type they were stored in. ``labels``: int array.
        ``label_names``: list of str, "label0", "label1", ... where the file has none.
        ``observed``: bool array, all True where the file has none.

    Raises
    ------
    ValueError
        If the file is damaged, of another kind, or contradicts itself; says what is wrong.
    """
    arrays = _read_arrays(path)
    try:
        order = arrays.pop("view_order", None)
        views = {key.removeprefix(_VIEW): X for key, X in arrays.items() if key.startswith(_VIEW)}
        if order is not None:
            views = _in_order(views, order)
        labels = _check_labels(arrays)
        _check_views(views, len(labels))
        return Bunch(
            views=views,
            labels=labels,
            label_names=_label_names(arrays.get("label_names"), labels.shape[1]),
            observed=_observed(arrays.get("observed"), (len(labels), len(views))),
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _read_arrays(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Arrays that this reader knows, by name."""
    known = ("labels", "label_names", "observed")
    with open(path, "rb") as file:  # a file that cannot be opened keeps its OSError
        try:
            with np.load(file, allow_pickle=False) as stored:
                return {
                    key: stored[key]
                    for key in stored.files
                    if key.startswith(_VIEW) or key in known
                }
        except Exception as error:  # damage surfaces as many types, from BadZipFile to EOFError
            cause = f"{type(error).__name__}: {error}"
            raise ValueError(f"{path} is not a readable .npz file ({cause})") from error


def _in_order(views: dict[str, NDArray[Any]], order: NDArray[Any]) -> dict[str, NDArray[Any]]:
    names = [str(name) for name in order.ravel()]
    if sorted(names) != sorted(views):
        raise ValueError(f"view_order names {names}, but the views are {sorted(views)}")
    return {name: views[name] for name in names}


def _check_labels(arrays: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    if "labels" not in arrays:
        raise ValueError("there is no array 'labels'")
    labels = arrays["labels"]
    if labels.ndim != 2 or 0 in labels.shape or labels.dtype.kind not in "biuf":
        raise ValueError(
            f"labels has shape {labels.shape} and type {labels.dtype}, "
            "not (n_samples, n_labels) of numbers"
        )
    wrong = np.argwhere(~np.isin(labels, (0, 1)))
    if wrong.size:
        i, k = wrong[0]
        raise ValueError(f"labels holds {labels[i, k]} in row {i}, column {k}, not 0 or 1")
    return labels.astype(np.int64)


def _check_views(views: dict[str, NDArray[Any]], n_samples: int) -> None:
    if not views:
        raise ValueError("there is no view, an array named 'view_<name>'")
    for name, X in views.items():
        if X.ndim != 2 or X.dtype.kind not in "biuf":
            raise ValueError(
                f"view {name!r} has shape {X.shape} and type {X.dtype}, "
                "not (n_samples, n_features) of numbers"
            )
        if len(X) != n_samples:
            raise ValueError(f"view {name!r} has {len(X)} rows, but labels has {n_samples}")


def _label_names(names: NDArray[Any] | None, n_labels: int) -> list[str]:
    if names is None:
        return [f"label{k}" for k in range(n_labels)]
    if names.shape != (n_labels,):
        raise ValueError(f"label_names has shape {names.shape}, but there are {n_labels} labels")
    return [str(name) for name in names]


def _observed(observed: NDArray[Any] | None, shape: tuple[int, int]) -> NDArray[np.bool_]:
    if observed is None:
        return np.ones(shape, dtype=bool)
    if observed.shape != shape:
        raise ValueError(f"observed has shape {observed.shape}, not {shape}, (n_samples, n_views)")
    if observed.dtype.kind not in "biuf" or not np.isin(observed, (0, 1)).all():
        raise ValueError("observed holds other values than 0 and 1")
    return observed.astype(bool)
