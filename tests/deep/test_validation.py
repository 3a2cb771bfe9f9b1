import numpy as np
import pytest

torch = pytest.importorskip("torch", reason='needs torch: pip install "naim3l[torch]"')

from naim3l.deep.validation import hold_out_validation  # noqa: E402
from naim3l.problem.rows import Problem  # noqa: E402

SHARES = (0.01, 0.07, 0.1, 0.25, 0.3, 0.4, 0.45, 0.5)


@pytest.mark.parametrize("share", SHARES)
def test_share_of_the_known_entries_is_hidden(make_problem, share):
    *_, problem = make_problem(n_rows=(300, 200))
    known = problem.Y != 0
    hidden = hold_out_validation(problem, share, np.random.RandomState(0))
    assert not hidden[~known].any()
    assert hidden.sum() == pytest.approx(share * known.sum(), abs=1 + 0.0005 * known.sum())
    for rows in problem.row_slices:  # positives and negatives of each label alike
        for kind in (problem.Y > 0, problem.Y < 0):
            n_hidden = (hidden & kind)[rows].sum(axis=0)
            expected = share * kind[rows].sum(axis=0)
            assert (np.abs(n_hidden - expected) <= 1.2).all()


@pytest.mark.parametrize("share", SHARES)
def test_rare_labels_keep_a_positive_in_each_view(make_problem, share):
    features, labels, _ = make_problem(n_labels=20, positive=0.07)
    problem = Problem(features, labels)
    for seed in range(5):
        hidden = hold_out_validation(problem, share, np.random.RandomState(seed))
        for rows in problem.row_slices:
            before = (problem.Y[rows] > 0).any(axis=0)
            after = ((problem.Y > 0) & ~hidden)[rows].any(axis=0)
            np.testing.assert_array_equal(after, before)


def test_few_entries_have_one_hidden_and_none_is_an_error():
    features = [np.ones((3, 1))]
    few = Problem(features, [np.array([[1], [-1], [0]])])
    assert hold_out_validation(few, 0.1, np.random.RandomState(0)).sum() == 1
    none = Problem(features, [np.array([[1], [0], [0]])])
    with pytest.raises(ValueError, match=r"validation=0\.1: too few"):
        hold_out_validation(none, 0.1, np.random.RandomState(0))
