"""Small problems for networks; torch keeps to one thread."""

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
