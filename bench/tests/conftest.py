"""Fixtures shared by the tests."""

from importlib.util import find_spec
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from naim3l_bench.tasks import Plan
from small_data import small_source

# Properties are tried on slow machines, too: how long an example takes proves nothing.
hypothesis.settings.register_profile("naim3l-bench", deadline=None)
hypothesis.settings.load_profile("naim3l-bench")
# Files whose tests take longest: started first, so that no process waits for them in the end.
LONGEST = ("test_items.py", "test_all_methods.py")


def pytest_collection_modifyitems(items):
    for item in items:
        if "shared_data" in getattr(item, "fixturenames", ()):
            item.add_marker("data")
        if item.get_closest_marker("torch") and find_spec("torch") is None:
            reason = "needs torch: pip install 'naim3l[torch]'"
            item.add_marker(pytest.mark.skip(reason=reason))
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else 9)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def shared_data():
    """Folder of real datasets beside the checkout; tests that need it say so where it is not."""
    folder = Path(__file__).resolve().parents[3] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"real datasets are not there: {folder.name} beside the checkout")
    return folder


@pytest.fixture
def source():
    """A small dataset of three views."""
    return small_source()


@pytest.fixture
def plan(source):
    """A plan of experiments on it."""
    return Plan({"small": source}, repeats=2, protocols=("paper", "clean", "fused"))
