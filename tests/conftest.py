"""Fixtures shared by the tests."""

import signal
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from naim3l.problem.rows import Problem
from shared_objects import unchanged_shared_objects
from variants import VARIANTS

# Files whose tests take longest: started first, so that no process waits for them in the end.
LONGEST = ("test_five_minutes.py", "test_kill_and_resume.py", "test_fuzz_files.py")

# Packages of an extra, by the marker of the tests that need them.
EXTRAS = {
    "torch": ["torch"],
    "dask": ["dask"],
    "places": ["duckdb", "onnx", "onnxruntime", "deltalake", "moto", "pgserver"],
}

# Properties are tried on slow machines, too: how long an example takes proves nothing.
hypothesis.settings.register_profile("naim3l", deadline=None)
hypothesis.settings.load_profile("naim3l")


def pytest_configure():
    # A shell that starts the tests in the background has them ignore Ctrl-C, and so the commands
    # that they start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    for item in items:
        if "deep" in item.path.parts:
            item.add_marker("torch")
        if "shared_data" in getattr(item, "fixturenames", ()):
            item.add_marker("data")
        for extra, packages in EXTRAS.items():
            lacking = [name for name in packages if find_spec(name) is None]
            if item.get_closest_marker(extra) and lacking:
                reason = f"needs {', '.join(lacking)}: pip install 'naim3l[{extra}]'"
                item.add_marker(pytest.mark.skip(reason=reason))
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else 9)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    if not hasattr(item, "funcargs"):  # a doctest
        return (yield)
    with unchanged_shared_objects(item):
        return (yield)


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS)
def terms(request):
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def dd():
    return pytest.importorskip("dask.dataframe")


@pytest.fixture
def da():
    return pytest.importorskip("dask.array")


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
