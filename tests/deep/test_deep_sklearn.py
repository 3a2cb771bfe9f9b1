import pytest

pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

from naim3l.deep import DeepNAIM3L
from test_sklearn_checks import _as_binary, run_checks


class DeepOfAnyTarget(DeepNAIM3L):
    """The model on the targets of the checks: the highest and all above the lowest are yes."""

    def fit(self, X, y=None):
        return super().fit(X, _as_binary(y))

    def score(self, X, y):
        return super().score(X, _as_binary(y))


def test_all_checks_pass_on_binary_targets():
    results = run_checks(DeepOfAnyTarget(hidden=(4,), max_epochs=2, device="cpu"), {})
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}
    assert not failed
    assert sum(r["status"] == "passed" for r in results) > 40
