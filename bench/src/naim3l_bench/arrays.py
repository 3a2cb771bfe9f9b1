"""Types of arrays, and slices of stacked ones."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.floating]
Mask = NDArray[np.bool_]


def consecutive_slices(sizes: Iterable[int]) -> list[slice]:
    """Slices of the given sizes, one after the other."""
    stops = np.cumsum(list(sizes)).tolist()
    return [slice(start, stop) for start, stop in zip([0, *stops[:-1]], stops, strict=True)]
