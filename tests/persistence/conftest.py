"""A saved model, and a way to forge it."""

import json

import numpy as np
import pytest

from model_files import FEW, read_members, write_members
from naim3l import NAIM3L
from naim3l.datasets import make_unpaired
from naim3l.persistence import archive, save


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

    def edit(schema=None, facts=None, add=(), mended=True):
        members = read_members(saved) | dict(add)
        told, tree = json.loads(members.pop("naim3l.json")), json.loads(members["schema.json"])
        if schema:
            tree = schema(tree) or tree
            members["schema.json"] = json.dumps(tree).encode()
        if mended:
            told["sha256"] = {name: archive.sha256(content) for name, content in members.items()}
        if facts:
            facts(told)
        write_members(tmp_path / "forged.skops", {"naim3l.json": json.dumps(told), **members})
        return tmp_path / "forged.skops"

    return edit
