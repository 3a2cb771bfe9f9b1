"""The embedded table against what is known of it, and against a second copy where there is one."""

import gzip
import hashlib
import re
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

from naim3l.datasets import load_yeast

N_FEATURES = {"expression": 79, "phylogenetic": 24}


@pytest.fixture(scope="module")
def yeast():
    return load_yeast()


def test_shapes_names_and_types(yeast):
    assert list(yeast.views) == list(N_FEATURES)
    for view, d in N_FEATURES.items():
        X = yeast.views[view]
        assert X.shape == (2417, d) and X.dtype == np.float64
        assert np.isfinite(X).all() and (X.std(axis=0) > 0).all()
        assert len(yeast.feature_names[view]) == d
    names = [name for view in N_FEATURES for name in yeast.feature_names[view]]
    assert names == [f"Att{j}" for j in range(1, 104)]
    assert yeast.labels.shape == (2417, 14) and yeast.labels.dtype == np.int64
    assert yeast.label_names == [f"Class{k}" for k in range(1, 15)]
    assert "Elisseeff" in yeast.DESCR and "river" in yeast.DESCR


def test_labels_are_0_or_1_with_the_published_cardinality(yeast):
    assert np.isin(yeast.labels, (0, 1)).all()
    assert (yeast.labels.sum(axis=0) > 0).all()
    assert round(yeast.labels.sum(axis=1).mean(), 3) == 4.237


def test_equal_to_the_other_copy(yeast, shared_data):
    with np.load(shared_data / "yeast.npz", allow_pickle=False) as other:
        for view in N_FEATURES:
            np.testing.assert_allclose(yeast.views[view], other[f"view_{view}"], atol=1e-12)
        np.testing.assert_array_equal(yeast.labels, other["labels"])


def test_frames_hold_the_same(yeast):
    frames = load_yeast(as_frame=True)
    for view, X in yeast.views.items():
        assert isinstance(frames.views[view], pd.DataFrame)
        assert list(frames.views[view].columns) == yeast.feature_names[view]
        np.testing.assert_array_equal(frames.views[view].to_numpy(), X)
    assert list(frames.labels.columns) == yeast.label_names
    np.testing.assert_array_equal(frames.labels.to_numpy(), yeast.labels)


def test_checksums_and_licence_lie_beside_the_file():
    folder = files("naim3l.datasets").joinpath("data")
    packed = folder.joinpath("yeast.csv.gz").read_bytes()
    stated = re.findall(r"`([0-9a-f]{64})`", folder.joinpath("README.md").read_text("utf-8"))
    contents = (packed, gzip.decompress(packed))
    assert stated == [hashlib.sha256(content).hexdigest() for content in contents]
    assert packed[4:8] == bytes(4)  # no time stamp
    licence = folder.joinpath("LICENSE.yeast").read_text("utf-8")
    assert "BSD 3-Clause License" in licence and "the river developers" in licence
