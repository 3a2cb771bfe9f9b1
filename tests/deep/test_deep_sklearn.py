import pytest

pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

from naim3l.deep import DeepNAIM3L, Network, Training
from test_sklearn_checks import OfAnyTarget, run_checks


class DeepOfAnyTarget(OfAnyTarget, DeepNAIM3L):
    pass


def test_all_checks_pass_on_binary_targets():
    model = DeepOfAnyTarget(network=Network((4,)), training=Training(2), device="cpu")
    results = run_checks(model, {})
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}
    assert not failed
    assert sum(r["status"] == "passed" for r in results) > 40
