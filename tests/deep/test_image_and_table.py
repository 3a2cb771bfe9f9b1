import runpy
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

PATH = Path(__file__).resolve().parents[2] / "examples" / "plot_09_image_and_table.py"


@pytest.fixture(scope="module")
def example():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pyplot, "show", lambda: None)
        names = runpy.run_path(str(PATH))
    return {name: names[name] for name in ("rows", "train", "test", "Y", "found")}


def test_sources_share_no_digit_and_half_of_the_labels_are_unknown(example):
    assert not set(example["rows"]["image"]) & set(example["rows"]["table"])
    for view in ("image", "table"):
        assert not set(example["train"][view]) & set(example["test"][view])
        assert 0.4 < np.isnan(example["Y"][view]).mean() < 0.6


def test_networks_beat_the_linear_model_in_both_views(example):
    found = example["found"]
    for view in ("image", "table"):
        assert np.mean(found["networks"][view]) > np.mean(found["linear"][view])
