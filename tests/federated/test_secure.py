"""Secure sums: masks cancel, and one site's numbers look like noise."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from naim3l import NAIM3L, LabelSubspaceRidge
from naim3l.datasets import make_unpaired
from naim3l.federated import simulate
from naim3l.federated.rounds import Ask, answer


@pytest.fixture
def masks():
    """Function that makes the masks of some sites."""
    pytest.importorskip(
        "cryptography", reason="needs cryptography: pip install 'naim3l[federated]'"
    )
    from naim3l.federated.secure import Masks

    def make(*sites):
        made = {site: Masks(site) for site in sites}
        publics = {site: of.public for site, of in made.items()}
        return {site: of.agree(publics) for site, of in made.items()}

    return make


@pytest.fixture(scope="module")
def sites():
    data = make_unpaired((120, 110, 100), n_features=(8, 8, 9), n_labels=4, noise=1, random_state=0)
    return {v: ({v: data.views[v]}, {v: data.labels[v]}) for v in data.views}


def test_masks_cancel_in_the_sum_of_all(masks, rng):
    made = masks("a", "b", "c")
    for turn in range(3):  # every turn has other masks
        own = {site: {"x": rng.normal(size=(4, 5)) * 1000, "n": np.array(7.0)} for site in made}
        hidden = {site: made[site].hide(own[site], turn) for site in made}
        found = answer(dict.fromkeys(made, Ask("sum")), hidden)
        assert_allclose(found["x"], sum(of["x"] for of in own.values()), atol=3 * 2**-37)
        assert found["n"] == 21


def test_what_one_site_sends_is_noise(masks):
    """Also to whoever knows another site's number, and in two turns with the same numbers."""
    made, zeros = masks("a", "b", "c"), {"x": np.zeros(20_000)}
    first, second = made["a"].hide(zeros, 0)["x"], made["a"].hide(zeros, 1)["x"]
    two = first + made["b"].hide(zeros, 0)["x"]  # without c, the masks with c remain
    for sent in (first, first - second, two):
        share = np.unpackbits(sent.view(np.uint8)).mean()
        assert abs(share - 0.5) < 0.005
    assert len({*made["a"].hide(zeros, 2)["x"].tolist()}) == 20_000


def test_other_public_keys_give_other_masks(masks):
    assert (masks("a", "b")["a"].hide({"x": np.zeros(9)}, 0)["x"] != 0).all()
    first, again = (masks("a", "b")["a"].hide({"x": np.zeros(9)}, 0)["x"] for _ in range(2))
    assert (first != again).all()


def test_numbers_too_large_for_the_sum_are_refused(masks):
    made = masks("a", "b")
    for x in (2.0**25, -(2.0**30), np.nan, np.inf):
        with pytest.raises(ValueError, match="x has larger numbers"):
            made["a"].hide({"x": np.array([x])}, 0)


def test_rounds_with_secure_sums_end_at_the_same_weights(masks, sites):
    model = NAIM3L(lam=0.4, ridge=1.0)
    plain, secure = simulate(sites, model), simulate(sites, model, secure=True)
    for site in sites:
        found, expected = secure.models[site], plain.models[site]
        assert_allclose(found.coef_[site], expected.coef_[site], atol=1e-7)
        assert_array_equal(found.base_rates_, expected.base_rates_)
    assert secure.bytes_sent == plain.bytes_sent


def test_shares_in_files_are_to_be_read(sites):
    with pytest.raises(ValueError, match="secure sums are for NAIM3L"):
        simulate(sites, LabelSubspaceRidge(ridge=1.0), secure=True)


def test_without_the_package_the_extra_is_named(sites, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.x25519", None)
    with pytest.raises(ImportError, match=r"pip install 'naim3l\[federated\]'"):
        simulate(sites, NAIM3L(ridge=1.0), secure=True)
