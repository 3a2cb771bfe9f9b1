import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

PATH = Path(__file__).resolve().parents[2] / "examples" / "image_and_table.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("image_and_table", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sources_share_no_digit_and_tests_are_known(example):
    train, test = example.make_sources(np.random.default_rng(0))
    n_rows = sum(len(table) for part in (train, test) for table, _ in part.values())
    assert n_rows == 1797
    for view in ("image", "table"):
        assert 0.4 < np.isnan(train[view][1]).mean() < 0.6
        assert not np.isnan(test[view][1]).any()


def test_networks_beat_the_linear_model_in_both_views(example, monkeypatch, capsys):
    found = example.compare(max_epochs=20)
    for view in ("image", "table"):
        assert found["networks"][view]["macro-AUC"] > found["linear"][view]["macro-AUC"]
    monkeypatch.setattr(example, "compare", lambda: found)
    example.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["linear", "networks"]
    assert float(lines[3].split()[1]) == pytest.approx(
        100 * found["networks"]["image"]["AP"], abs=0.1
    )
