"""A saved model, and a way to forge it."""

from functools import partial

import numpy as np
import pytest

from model_files import FEW, rewrite
from naim3l import NAIM3L
from naim3l.datasets import make_unpaired
from naim3l.files.models import save


@pytest.fixture(scope="module")
def apart():
    data = make_unpaired(
        (30, 25), n_features=(5, 4), n_labels=3, n_latent=3, missing_labels=0.2, random_state=0
    )
    return {view: np.abs(X) for view, X in data.views.items()}, data.labels


@pytest.fixture(scope="module")
def model(apart):
    return NAIM3L(**FEW).fit(*apart)


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.skops"
    save(model, path)
    return path


@pytest.fixture
def forge(saved, tmp_path):
    """Function that edits a saved model and mends its checksums, as an attacker would."""
    return partial(rewrite, saved, to=tmp_path / "forged.skops")
