import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "networks.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_every_block_of_the_page_runs():
    assert len(BLOCKS) == 7
    namespace = {}
    with torch.random.fork_rng():
        for block in BLOCKS:
            exec(block, namespace)
    assert namespace["model"].best_epoch_ >= 1
    assert torch.isfinite(namespace["loss"])
