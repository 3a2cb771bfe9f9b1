"""Small problems for networks; torch keeps to one thread."""

import numpy as np
import pytest

from naim3l.datasets import make_unpaired


@pytest.fixture(autouse=True)
def one_thread():
    torch = pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def apart():
    """Two tables of rows that cannot be matched, some labels unknown."""
    data = make_unpaired(60, n_features=(9, 8), n_labels=4, missing_labels=0.3, random_state=0)
    return data.views, data.labels


@pytest.fixture
def xor():
    """Function that draws two views whose labels no linear score tells apart.

    Labels are the products of signs of two hidden factors, and their opposites; each view shows
    the factors rotated, beside noise.
    """

    def draw(n_rows, seed):
        rng = np.random.default_rng(seed)
        X, Y = {}, {}
        for view, angle in (("left", 0.3), ("right", 1.1)):
            factors = rng.uniform(-1, 1, (n_rows, 3))
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            shown = np.column_stack([factors[:, :2] @ turn, factors[:, 2]])
            X[view] = shown + 0.05 * rng.normal(size=shown.shape)
            product = factors[:, 0] * factors[:, 1] > 0
            Y[view] = np.column_stack([product, ~product, factors[:, 2] > 0]).astype(float)
            Y[view][rng.random(Y[view].shape) < 0.2] = np.nan
        return X, Y

    return draw
