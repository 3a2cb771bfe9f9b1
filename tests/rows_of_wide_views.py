"""Tables with more columns than rows, of which some are hard to decompose."""

import numpy as np


def of_condition(rng, n_rows, n_columns, condition):
    """Rows whose singular values fall from 1 to one over the condition."""
    U = np.linalg.qr(rng.normal(size=(n_rows, n_rows)))[0]
    V = np.linalg.qr(rng.normal(size=(n_columns, n_rows)))[0]
    return U * np.geomspace(1, 1 / condition, n_rows) @ V.T


TABLES = {
    "plain": lambda rng: rng.normal(size=(9, 30)),
    "duplicate rows": lambda rng: rng.normal(size=(5, 30))[[0, 1, 1, 2, 3, 0, 4, 4]],
    "rank 3": lambda rng: rng.normal(size=(9, 3)) @ rng.normal(size=(3, 30)),
    "a row of zeros": lambda rng: rng.normal(size=(6, 30)) * np.array([1, 1, 0, 1, 1, 1])[:, None],
    "condition 1e6": lambda rng: of_condition(rng, 9, 30, 1e6),
    "one row": lambda rng: rng.normal(size=(1, 30)),
    "far from zero": lambda rng: 1e4 + rng.normal(size=(9, 30)),
}
