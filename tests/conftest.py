"""Fixtures shared by the tests."""

from pathlib import Path

import numpy as np
import pytest

from naim3l.problem import Problem
from small_data import small_source
from variants import VARIANTS

# Files whose tests take longest: started first, so that no process waits for them in the end.
LONGEST = ("test_walkthrough.py", "test_kill_and_resume.py", "test_items.py", "test_fuzz_files.py")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else 9)


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS)
def terms(request):
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def shared_data():
    """Folder of real datasets beside the checkout; tests that need it say so where it is not."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"real datasets are not there: {folder.name} beside the checkout")
    return folder


@pytest.fixture
def make_problem():
    """Function that draws features and signed labels of several views."""

    def draw(seed=0, n_rows=(40, 30), n_features=(5, 7), n_labels=6, observed=0.6, positive=0.4):
        rng = np.random.default_rng(seed)
        features = [rng.normal(size=size) for size in zip(n_rows, n_features, strict=True)]
        labels = []
        for n in n_rows:
            signs = np.where(rng.random((n, n_labels)) < positive, 1, -1)
            labels.append(np.where(rng.random((n, n_labels)) < observed, signs, 0))
        return features, labels, Problem(features, labels)

    return draw


@pytest.fixture
def source():
    """A small dataset of three views."""
    return small_source()


@pytest.fixture
def plan(source):
    """A plan of experiments on it."""
    from naim3l.experiments.tasks import Plan

    return Plan({"small": source}, repeats=2, protocols=("paper", "clean", "fused"))
