"""Types of arrays."""

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.floating]
Mask = NDArray[np.bool_]
