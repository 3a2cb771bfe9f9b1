"""Kernels of a model's views, and the features of their landmarks."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from naim3l.estimators.linear import LinearViewModel
from naim3l.explain.explained import check_explained
from naim3l.features.kernels import KernelMap

LINEAR = "linear"


class ViewKernel(NamedTuple):
    """Kernel of a view.

    Attributes
    ----------
    name : str
        Name of the kernel, with brackets if it is a function of the user.
    gamma : float or None
        Gamma of the kernel, None if it has none.

    Examples
    --------
    >>> from naim3l.explain import ViewKernel
    >>> ViewKernel("rbf", 0.5).name
    'rbf'
    """

    name: str
    gamma: float | None


def view_kernels(model: LinearViewModel) -> dict[str, ViewKernel]:
    """Kernel of each view; "linear" if scores are linear in the transformed features.

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, PerViewRidge or PerViewLogistic
        Fitted model.

    Returns
    -------
    dict of str to ViewKernel
        Kernels by view.

    Examples
    --------
    >>> from naim3l import NAIM3L
    >>> from naim3l.datasets import make_unpaired
    >>> from naim3l.explain import view_kernels
    >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> model = NAIM3L(kernel={"view0": "rbf", "view1": None}).fit(data.views, data.labels)
    >>> {view: kernel.name for view, kernel in view_kernels(model).items()}
    {'view0': 'rbf', 'view1': 'linear'}
    """
    check_explained(model)
    maps = model.kernel_maps_
    return {
        view: ViewKernel(_name(maps[view]), maps[view].gamma_)
        if view in maps
        else ViewKernel(LINEAR, None)
        for view in model.views_
    }


def is_linear(kernel_map: KernelMap) -> bool:
    return _name(kernel_map) == LINEAR


def linear_views(model: LinearViewModel) -> list[str]:
    """Views whose weights belong to columns, or to the output of a transformer.

    These are all views except those with a nonlinear kernel.

    Parameters
    ----------
    model : NAIM3L, NAIM3LCV, PerViewRidge or PerViewLogistic
        Fitted model.

    Returns
    -------
    list of str
        Names of the views.

    Examples
    --------
    >>> from naim3l import NAIM3L
    >>> from naim3l.datasets import make_unpaired
    >>> from naim3l.explain import linear_views
    >>> data = make_unpaired(60, n_features=(9, 8), n_labels=3, random_state=0)
    >>> model = NAIM3L(kernel={"view0": "rbf", "view1": None}).fit(data.views, data.labels)
    >>> linear_views(model)
    ['view1']
    """
    check_explained(model)
    maps = model.kernel_maps_
    return [view for view in model.views_ if view not in maps or is_linear(maps[view])]


def landmark_features(kernel_map: KernelMap) -> NDArray[np.float64]:
    """Features (n_landmarks, n_components) of the landmarks themselves.

    With ``K = V E V'`` and the normalization ``N = V E^(-1/2)`` they are ``K N = V E^(1/2)``: the
    columns of N divided by their squared lengths.
    """
    N = np.asarray(kernel_map.normalization_, dtype=np.float64)
    return N / np.sum(N**2, axis=0)


def _name(kernel_map: KernelMap) -> str:
    kernel = kernel_map.kernel
    if isinstance(kernel, str):
        return kernel
    return f"{getattr(kernel, '__name__', type(kernel).__name__)}()"
