"""The page about networks, and the example of a picture and a table, run and hold."""

import runpy

import numpy as np
import pytest

from fenced_blocks import ROOT, fenced_blocks

torch = pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')


def test_every_block_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a model is saved
    namespace = {}
    with torch.random.fork_rng():
        for language, block in fenced_blocks("docs/guide/networks.md"):
            if language == "python":
                exec(block, namespace)
    assert namespace["model"].best_epoch_ >= 1
    assert torch.isfinite(namespace["loss"])


def test_networks_beat_the_linear_model_on_pictures_and_on_the_table():
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="needs matplotlib")
    pyplot.switch_backend("Agg")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pyplot, "show", lambda: None)
        names = runpy.run_path(str(ROOT / "examples" / "plot_09_image_and_table.py"))
    assert not set(names["rows"]["image"]) & set(names["rows"]["table"])
    for view in ("image", "table"):
        assert not set(names["train"][view]) & set(names["test"][view])
        assert 0.4 < np.isnan(names["Y"][view]).mean() < 0.6
        found = names["found"]
        assert np.mean(found["networks"][view]) > np.mean(found["linear"][view])
