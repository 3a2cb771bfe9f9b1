"""Metrics against hand arithmetic, scikit-learn, and loops written from the definitions."""

import inspect
import math
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.metrics as skm
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from scipy import sparse

from naim3l import DataWarning, metrics
from naim3l.metrics.measures import MEASURES

NAN = math.nan
RANKING = {
    "1-RL": lambda y, s, **kw: 1 - metrics.ranking_loss(y, s, **kw),
    "AP": metrics.average_precision,
    "AUC": metrics.adapted_auc,
    "coverage": metrics.coverage,
    "one-error": metrics.one_error,
    "macro-AUC": metrics.macro_auc,
    "micro-AUC": metrics.micro_auc,
}
DECISION = {
    "1-HL": lambda y, s, **kw: 1 - metrics.hamming_loss(y, s, **kw),
    "macro-F1": metrics.macro_f1,
    "micro-F1": metrics.micro_f1,
    "example-F1": metrics.example_f1,
}


def assert_same(left, right):
    """Two dicts of metrics agree, NaN being equal to NaN."""
    assert left.keys() == right.keys()
    for name in left:
        assert_allclose(left[name], right[name], rtol=1e-12, atol=1e-12, err_msg=name)


def trapezoid(TPR, FPR):
    steps = range(len(TPR) - 1)
    return sum((FPR[t + 1] - FPR[t]) * (TPR[t + 1] + TPR[t]) / 2 for t in steps)


@st.composite
def tables(draw, max_rows=6):
    """Labels with unknown entries, and scores from so few values that ties are common."""
    shape = draw(st.integers(1, max_rows)), draw(st.integers(1, 6))
    Y = draw(hnp.arrays(float, shape, elements=st.sampled_from([0.0, 1.0, NAN])))
    S = draw(hnp.arrays(float, shape, elements=st.integers(-2, 2).map(float)))
    return Y, S


@pytest.fixture
def complete():
    """Every row and every column has both classes; scores with and without ties."""
    rng = np.random.default_rng(3)
    Y = (rng.random((60, 9)) < 0.4).astype(int)
    Y[:, 0], Y[:, 1] = 1, 0
    Y[0, 0], Y[0, 1] = 0, 1
    return Y, [rng.normal(size=Y.shape), rng.integers(-2, 3, size=Y.shape)]


Y_HAND = np.array([[1, 0, 1, 0], [0, 1, 0, 0]])
S_HAND = np.array([[4, 3, 2, 1], [1, 2, 3, 0]])


def test_ranking_metrics_by_hand():
    # Row 0: the positives score 4 and 2, the negatives 3 and 1: one pair of four is wrong.
    # Row 1: the positive scores 2, the negatives 1, 3, 0: one pair of three is wrong.
    assert metrics.ranking_loss(Y_HAND, S_HAND) == pytest.approx((1 / 4 + 1 / 3) / 2)
    # Row 0 has its positives at ranks 1 and 3, row 1 at rank 2.
    AP = ((1 / 1 + 2 / 3) / 2 + 1 / 2) / 2
    assert metrics.average_precision(Y_HAND, S_HAND) == pytest.approx(AP)
    assert metrics.coverage(Y_HAND, S_HAND) == (3 + 2) / 2
    assert metrics.one_error(Y_HAND, S_HAND) == (0 + 1) / 2


def test_adapted_auc_by_hand():
    # Best first, row 0 reads + - + - and row 1 reads - + - -; 3 positives, 5 negatives.
    TPR = [1 / 3, 2 / 3, 3 / 3, 3 / 3]
    FPR = [1 / 5, 2 / 5, 3 / 5, 5 / 5]
    expected = trapezoid(TPR, FPR) / (5 / 5 - 1 / 5)
    assert metrics.adapted_auc(Y_HAND, S_HAND) == pytest.approx(expected)


def test_difference_to_sklearn_is_what_it_gives_to_rows_left_out(complete):
    Y, (S, _) = complete
    Y[:7], Y[7:10] = 0, 1  # of 60 rows, 7 without a positive, 3 with nothing else
    RL, AP = metrics.ranking_loss(Y, S), metrics.average_precision(Y, S)
    assert_allclose((50 * RL + 10 * 0) / 60, skm.label_ranking_loss(Y, S))
    assert_allclose((50 * AP + 10 * 1) / 60, skm.label_ranking_average_precision_score(Y, S))
    assert_allclose((53 * metrics.coverage(Y, S) + 7 * 0) / 60, skm.coverage_error(Y, S))


@given(tables())
def test_label_metrics_equal_sklearn_on_the_observed_rows_of_each_label(table):
    Y, S = table
    F1, AUC = [], []
    for y, s in zip(Y.T, S.T, strict=True):
        seen = ~np.isnan(y)
        if seen.any():
            F1.append(skm.f1_score(y[seen], s[seen] > 0, zero_division=0))
        if len(set(y[seen])) == 2:
            AUC.append(skm.roc_auc_score(y[seen], s[seen]))
    assert_allclose(metrics.macro_f1(Y, S), np.mean(F1) if F1 else NAN)
    assert_allclose(metrics.macro_auc(Y, S), np.mean(AUC) if AUC else NAN)


@given(tables())
def test_pooled_metrics_equal_sklearn_on_the_observed_entries(table):
    Y, S = table
    seen = ~np.isnan(Y)
    y, s = Y[seen], S[seen]
    if not y.size:
        return
    assert_allclose(metrics.hamming_loss(Y, S), skm.zero_one_loss(y, s > 0))
    assert_allclose(metrics.micro_f1(Y, S), skm.f1_score(y, s > 0, zero_division=0))
    AUC = skm.roc_auc_score(y, s) if len(set(y)) == 2 else NAN
    assert_allclose(metrics.micro_auc(Y, S), AUC)


def observed_rows(Y, S):
    """Each row as a list of (label, score), unknown entries gone."""
    for y, s in zip(Y.tolist(), S.tolist(), strict=True):
        yield [(label, score) for label, score in zip(y, s, strict=True) if label == label]


def split_rows(Y, S):
    """Scores of the positives and of the negatives of each row."""
    for row in observed_rows(Y, S):
        yield [score for label, score in row if label == 1], [s for label, s in row if label == 0]


def mean(values):
    return float(sum(values) / len(values)) if values else NAN


def loop_ranking_loss(Y, S):
    rows = [[p <= n for p in P for n in N] for P, N in split_rows(Y, S)]
    return mean([mean(wrong) for wrong in rows if wrong])


def loop_average_precision(Y, S):
    def precision(score, P, N):
        return sum(s >= score for s in P) / sum(s >= score for s in P + N)

    return mean([mean([precision(p, P, N) for p in P]) for P, N in split_rows(Y, S) if P and N])


def loop_adapted_auc(Y, S):
    TPR, FPR = [], []
    for T in range(1, Y.shape[1] + 1):
        TP = FP = FN = TN = 0
        for row in observed_rows(Y, S):
            best = sorted(row, key=lambda entry: -entry[1])  # a stable sort: ties by column
            TP += sum(label == 1 for label, _ in best[:T])
            FP += sum(label == 0 for label, _ in best[:T])
            FN += sum(label == 1 for label, _ in best[T:])
            TN += sum(label == 0 for label, _ in best[T:])
        if TP + FN == 0 or FP + TN == 0:
            return NAN
        TPR.append(Fraction(TP, TP + FN))
        FPR.append(Fraction(FP, FP + TN))
    width = FPR[-1] - FPR[0]
    return float(trapezoid(TPR, FPR) / width) if width else NAN


def loop_coverage(Y, S):
    return mean([sum(s >= min(P) for s in P + N) for P, N in split_rows(Y, S) if P])


def loop_one_error(Y, S):
    return mean([max(P + N) in N for P, N in split_rows(Y, S) if P])


def loop_example_f1(Y, S):
    rows = [(P, N) for P, N in split_rows(Y, S) if P or N]
    TP = [sum(p > 0 for p in P) for P, _ in rows]
    wrong = [sum(p <= 0 for p in P) + sum(n > 0 for n in N) for P, N in rows]
    return mean([2 * r / (2 * r + w) if r else 0 for r, w in zip(TP, wrong, strict=True)])


LOOPS = [
    (metrics.ranking_loss, loop_ranking_loss),
    (metrics.average_precision, loop_average_precision),
    (metrics.adapted_auc, loop_adapted_auc),
    (metrics.coverage, loop_coverage),
    (metrics.one_error, loop_one_error),
    (metrics.example_f1, loop_example_f1),
]


@pytest.mark.parametrize(("metric", "loop"), LOOPS, ids=lambda f: f.__name__)
@given(table=tables())
def test_equals_the_loop(metric, loop, table):
    assert_allclose(metric(*table), loop(*table), rtol=1e-12, atol=1e-12)


@given(tables(max_rows=1))
def test_unknown_entries_of_one_row_equal_deleted_columns(table):
    Y, S = table
    seen = ~np.isnan(Y[0])
    assert_same(metrics.evaluate(Y, S), metrics.evaluate(Y[:, seen], S[:, seen]))


@given(tables())
def test_unknown_rows_and_columns_equal_deleted_ones(table):
    Y, S = table
    Y[0], Y[:, -1] = NAN, NAN
    assert_same(metrics.evaluate(Y, S), metrics.evaluate(Y[1:, :-1], S[1:, :-1]))


@given(tables(), st.integers(-5, 5))
def test_scores_of_unknown_entries_do_not_matter(table, other):
    Y, S = table
    S_other = np.where(np.isnan(Y), other - S, S)
    assert_same(metrics.evaluate(Y, S), metrics.evaluate(Y, S_other))


@pytest.mark.parametrize("shape", [(3, 2), (1, 1), (0, 4), (4, 0), (0, 0)])
def test_nothing_observed_gives_nan_everywhere(shape):
    found = metrics.evaluate(np.full(shape, NAN), np.zeros(shape))
    assert all(math.isnan(value) for value in found.values()), found


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_only(label):
    Y, S = np.full((3, 2), label), np.ones((3, 2))
    found = metrics.evaluate(Y, S)
    undefined = {"1-RL", "AP", "AUC", "macro-AUC", "micro-AUC"}
    if label == 0:
        undefined |= {"coverage", "one-error"}
    assert {name for name, value in found.items() if math.isnan(value)} == undefined
    for name in ("1-HL", "micro-F1", "macro-F1", "example-F1"):
        assert found[name] == label


@pytest.mark.parametrize("name", [*RANKING, *DECISION])
def test_evaluate_equals_the_single_functions(name, complete):
    Y, (_, S) = complete
    Y = np.where(np.arange(Y.size).reshape(Y.shape) % 5 == 0, NAN, Y)
    options = {"sample_weight": np.arange(len(Y))}
    found = metrics.evaluate(Y, S, threshold=1, **options)
    assert set(found) == {*RANKING, *DECISION} and type(found[name]) is float
    if name in RANKING:
        assert found[name] == RANKING[name](Y, S, **options)
    else:
        assert found[name] == DECISION[name](Y, S, threshold=1, **options)


@pytest.mark.parametrize("name", metrics.__all__)
def test_functions_know_their_names_and_their_documentation(name):
    function = getattr(metrics, name)
    assert pickle.loads(pickle.dumps(function)) is function and function.__name__ == name
    for parameter in inspect.signature(function).parameters:
        assert f"\n{parameter} : " in inspect.getdoc(function)


@pytest.mark.parametrize("name", MEASURES)
def test_what_the_registry_says_of_a_measure_is_true(name, complete):
    """On labels of which every row and every column has both classes."""
    Y, (S, _) = complete
    measure = MEASURES[name]

    def value(scores, labels=Y):
        return metrics.evaluate(labels, scores)[name]

    best, usual, worst = value(2.0 * Y - 1), value(S), value(1 - 2.0 * Y)
    assert best < usual < worst if measure.lower_is_better else best > usual > worst
    assert (min(best, worst) >= 0 and max(best, worst) <= 1) == measure.percent
    # Decisions depend on the signs of scores, and everything else on their order.
    same = np.sign(S) if measure.of_decisions else 2.0 * S**3 + S - 7
    assert value(same) == pytest.approx(usual)
    of_one = {value(scores[:, [1]], Y[:, [1]]) for scores in (S, -S, S + 1)}
    constant = len(of_one) == 1 or all(map(math.isnan, of_one))
    assert constant == measure.ranks_labels


def test_names_of_measures_are_distinct():
    labels = [measure.label for measure in MEASURES.values()]
    places = [measure.place for measure in MEASURES.values() if measure.place]
    assert len(set(labels)) == len(labels) and sorted(places) == [*range(1, len(places) + 1)]
    assert MEASURES["1-HL"].label == "accuracy (1-HL)"
    assert MEASURES["coverage"].label == "coverage (lower is better)"


def test_views_are_measured_alone_and_averaged(complete):
    Y, (S, S_ties) = complete
    first, second = metrics.evaluate(Y, S), metrics.evaluate(Y[10:], S_ties[10:])
    found = metrics.evaluate({"a": Y, "b": Y[10:]}, {"b": S_ties[10:], "a": S})
    assert_same(found, {name: (first[name] + second[name]) / 2 for name in first})


def test_a_metric_undefined_in_one_view_has_no_mean():
    found = metrics.evaluate({"a": Y_HAND, "b": [[0, 0]]}, {"a": S_HAND, "b": [[1, 2]]})
    assert math.isnan(found["AP"])
    # Above 0 lie all entries of both tables but (1, 3) of the first: 4 of 8 right, then 0 of 2.
    assert found["1-HL"] == (4 / 8 + 0 / 2) / 2


Y_NULL = [[1, 0, None], [None, 1, 0]]
S_NULL = [[3, 2, 1], [1, 2, 3]]


@pytest.mark.parametrize(
    "Y",
    [
        Y_NULL,
        np.array(Y_NULL, dtype=float),
        np.array(Y_NULL, dtype=object),
        sparse.csr_array(np.array(Y_NULL, dtype=float)),
        pd.DataFrame(Y_NULL),
        pd.DataFrame(Y_NULL).astype("Int64"),
        pd.DataFrame(Y_NULL).astype("boolean"),
        pl.DataFrame(Y_NULL, orient="row"),
        pl.DataFrame(Y_NULL, orient="row").cast(pl.Boolean),
    ],
    ids=lambda Y: f"{type(Y).__module__}-{type(Y).__name__}",
)
def test_kinds_of_label_tables(Y):
    expected = metrics.evaluate(np.array(Y_NULL, dtype=float), np.array(S_NULL))
    assert_same(metrics.evaluate(Y, pd.DataFrame(S_NULL)), expected)
    assert_same(metrics.evaluate(Y, pl.DataFrame(S_NULL, orient="row")), expected)


@pytest.mark.parametrize("value", [2, -1, 0.5, math.inf, "1", "yes", 1j])
def test_bad_label_is_named(value):
    Y = [[1, 0, 1], [0, 1, value]]
    with pytest.raises(
        ValueError, match=r"y_true has .*row 1, column 2; allowed are 1 \(yes\)"
    ) as e:
        metrics.ranking_loss(Y, np.zeros((2, 3)))
    assert str(value) in str(e.value)


@pytest.mark.parametrize("value", [NAN, math.inf, -math.inf, None, "high"])
@pytest.mark.parametrize("label", [1, NAN])
def test_bad_score_is_named_even_at_an_unknown_label(value, label):
    S = np.array([[0, value, 0]], dtype=object)
    with pytest.raises(ValueError, match=r"scores has .*row 0, column 1; allowed are finite"):
        metrics.hamming_loss([[0, label, 0]], S)


def test_wrong_shapes_are_explained():
    with pytest.raises(ValueError, match=r"scores must be \(2, 4\), got shape \(2, 3\)"):
        metrics.coverage(Y_HAND, S_HAND[:, :3])
    with pytest.raises(ValueError, match=r"y_true must be .* got shape \(4,\).*reshape\(-1, 1\)"):
        metrics.coverage(Y_HAND[0], S_HAND[0])
    with pytest.raises(ValueError, match=r"scores must be .* got shape \(2,\).*reshape\(-1, 1\)"):
        metrics.coverage(Y_HAND[:, :1], pd.Series([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"got shape \(1, 2, 4\)\.$"):
        metrics.coverage(Y_HAND[None], S_HAND[None])


def test_views_that_differ_are_named():
    with pytest.raises(
        ValueError, match=r"y_true, scores must have the same views; y_true lacks \['c'\]"
    ):
        metrics.evaluate({"a": Y_HAND, "b": Y_HAND}, {"c": S_HAND, "a": S_HAND})
    for tables in [({"a": Y_HAND}, S_HAND), (Y_HAND, {"a": S_HAND}), ({}, {})]:
        with pytest.raises(ValueError, match="all be tables, or all mappings of one view or more"):
            metrics.evaluate(*tables)


def test_an_error_inside_a_view_names_the_view():
    with pytest.raises(ValueError, match=r"view 'b': y_true has 3 in row 0, column 1"):
        metrics.evaluate({"a": Y_HAND, "b": [[0, 3]]}, {"a": S_HAND, "b": [[0, 1]]})


def test_labels_of_frames_are_matched_by_name():
    rng = np.random.default_rng(0)
    y = pd.DataFrame(rng.integers(0, 2, (30, 4)), columns=list("abcd"))
    scores = pd.DataFrame(rng.normal(size=(30, 4)), columns=list("abcd"))
    expected = metrics.evaluate(y.to_numpy(), scores.to_numpy())
    assert metrics.evaluate(y, scores[list("cadb")]) == expected
    assert metrics.evaluate(y, scores.to_numpy()) == expected
    with pytest.raises(ValueError, match=r"y_true has the labels \['a', .*scores have \['e'"):
        metrics.evaluate(y, scores.rename(columns={"a": "e"})[list("ebcd")])


def test_protocol_fused_counts_rows_without_a_positive_as_zero():
    Y = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 0], [1, 1, 1]])
    S = np.array([[3.0, 2, 1], [1, 2, 3], [1, 3, 2], [1, 2, 3]])
    paper, fused = (metrics.evaluate(Y, S, protocol=name) for name in ("paper", "fused"))
    by_row = [1.0, (1 / 1 + 2 / 3) / 2]  # the last row has no negative: no ranking to measure
    assert paper["AP"] == pytest.approx(np.mean(by_row))
    assert fused["AP"] == pytest.approx(np.mean([*by_row, 0.0]))
    assert fused.pop("AP") != paper.pop("AP") and fused == pytest.approx(paper)


def test_probabilities_need_another_threshold():
    Y, P = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.8, 0.3], [0.0, 0.6]])
    for measure in (metrics.evaluate, metrics.hamming_loss):
        with pytest.warns(DataWarning, match=r"all are from 0 to 1, .* give threshold=0\.5"):
            measure(Y, P)
    assert metrics.hamming_loss(Y, P, threshold=0.5) == 0 == metrics.hamming_loss(Y, P > 0.5)
    assert metrics.macro_auc(Y, P) == 1  # ranks need no threshold
