"""The Nemenyi test against the tables of Demsar (2006) and hand examples."""

import numpy as np
import pandas as pd
import pytest

from naim3l_bench.paper import fig4 as module
from naim3l_bench.paper.fig4 import nemenyi

# Demsar (2006), Table 5a, two-tailed Nemenyi test at the level 0.05.
TABULATED = {2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728, 6: 2.850, 7: 2.949, 10: 3.164}


@pytest.mark.parametrize(("n_methods", "q"), TABULATED.items())
def test_critical_values_are_those_tabulated(n_methods, q):
    assert module.critical_value(n_methods) == pytest.approx(q, abs=1e-3)


def test_critical_distance_of_demsars_example():
    # Four methods on 14 data sets: the distance in his text is 2.569 sqrt(4 * 5 / (6 * 14)).
    assert module.critical_distance(4, 14) == pytest.approx(1.25, abs=0.005)


def test_printed_distance_lacks_the_six():
    q = module.critical_value(6)
    assert module.printed_distance(6, 20) == pytest.approx(q * np.sqrt(6 * 7 / 20))


def test_equal_scores_share_their_ranks():
    found = nemenyi({"a": [3.0, 5.0], "b": [1.0, 5.0], "c": [3.0, 5.0]})
    assert found["ranks"] == {"a": 1.75, "c": 1.75, "b": 2.5}


def test_ranks_by_hand_best_first():
    scores = {"bad": [1, 2, 1], "good": [3, 3, 3], "fair": [2, 1, 2]}
    found = nemenyi(scores)
    assert list(found["ranks"]) == ["good", "fair", "bad"]
    assert found["ranks"] == pytest.approx({"good": 1, "fair": 7 / 3, "bad": 8 / 3})
    assert found["n_blocks"] == 3


def test_a_data_frame_does_as_well():
    scores = {"a": [1.0, 2.0], "b": [3.0, 4.0]}
    assert nemenyi(pd.DataFrame(scores)) == nemenyi(scores)


@pytest.mark.parametrize("seed", range(5))
def test_p_values_and_distance_agree(seed):
    rng = np.random.default_rng(seed)
    scores = {str(k): rng.normal(0.4 * k, 1, 15) for k in range(5)}
    found = nemenyi(scores)
    names = list(found["ranks"])
    by_p = [[a, b] for i, a in enumerate(names) for b in names[i + 1 :] if found["p"][a][b] <= 0.05]
    assert found["different"] == by_p


@pytest.mark.parametrize("seed", range(5))
def test_groups_cover_exactly_the_pairs_that_do_not_differ(seed):
    rng = np.random.default_rng(seed)
    found = nemenyi({str(k): rng.normal(0.5 * k, 1, 20) for k in range(6)})
    names = list(found["ranks"])
    joined = {(a, b) for group in found["groups"] for a in group for b in group if a != b}
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            assert ((a, b) in joined) != ([a, b] in found["different"])
    for group in found["groups"]:
        assert not any(set(group) < set(other) for other in found["groups"])


def test_methods_far_apart_form_no_group():
    far = {name: np.full(40, value) for name, value in (("bad", 1), ("good", 3), ("fair", 2))}
    found = nemenyi(far)
    assert found["groups"] == []
    assert found["different"] == [["good", "fair"], ["good", "bad"], ["fair", "bad"]]
    assert module.different({"a": 1.0, "b": 3.0}, 1.5) == [["a", "b"]]


def test_methods_close_to_each_other_form_one_group():
    close = {name: np.roll([1.0, 2.0, 3.0], shift) for shift, name in enumerate("abc")}
    assert nemenyi(close)["groups"] == [["a", "b", "c"]]


@pytest.mark.parametrize(
    "scores", [{}, {"a": [1.0]}, {"a": [], "b": []}, {"a": [np.nan], "b": [1]}]
)
def test_scores_that_cannot_be_ranked_are_refused(scores):
    with pytest.raises(ValueError, match="scores has"):
        nemenyi(scores)
