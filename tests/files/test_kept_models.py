"""Model files of this version and of earlier ones are loaded, and give the same scores."""

import json

import numpy as np
import pytest

from kept_models import FOLDER, scores
from naim3l import inspect_file, load

KEPT = {}
for file in sorted(FOLDER.glob("scores-*.json")):
    KEPT |= json.loads(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.torch][: "Deep" in name]) for name in KEPT],
)
def test_a_kept_file_gives_the_same_scores(name):
    assert inspect_file(FOLDER / name)["class"] == name.partition("-")[0]
    found = scores(load(FOLDER / name))
    assert set(found) == set(KEPT[name])
    for view, expected in KEPT[name].items():
        np.testing.assert_allclose(found[view], expected, rtol=1e-6, atol=1e-9)


def test_every_class_is_kept():
    from naim3l.estimators.saved import MODELS

    assert {name.partition("-")[0] for name in KEPT} == set(MODELS)
    assert sorted(KEPT) == sorted(path.name for path in FOLDER.glob("*.naim3l"))
    assert max(path.stat().st_size for path in FOLDER.iterdir()) <= 30_000
