"""Co-occurrence of labels, checked from its definitions."""

import numpy as np
import pytest
from scipy.stats import norm

from naim3l._text import plain
from naim3l.report import summarise
from naim3l.report.label_pairs import compare_pairs
from report_models import LABELS, fit_separate, fit_wide


def compare(table):
    """Pairs of a table of 1, 0 and NaN whose columns are named a, b, ..."""
    table = np.asarray(table, dtype=float)
    return compare_pairs(table, list("abcdefgh"[: table.shape[1]]))


def rows(both, first, second, neither):
    """Table of two labels with these numbers of rows."""
    return [[1, 1]] * both + [[1, 0]] * first + [[0, 1]] * second + [[0, 0]] * neither


def odds_ratio(both, a, b, n):
    return both * (n - a - b + both) / ((a - both) * (b - both))


def test_counts_are_those_of_rows_where_both_are_known():
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2, size=(60, 4)).astype(float)
    table[rng.random(table.shape) < 0.3] = np.nan
    pairs = {(pair.first, pair.second): pair for pair in compare(table)}
    assert len(pairs) == 6
    for i in range(4):
        for j in range(i + 1, 4):
            known = [row for row in table if not np.isnan(row[[i, j]]).any()]
            a, b = (sum(row[k] == 1 for row in known) for k in (i, j))
            both = sum(row[i] == row[j] == 1 for row in known)
            pair = pairs["abcd"[i], "abcd"[j]]
            assert (pair.n_rows, pair.both) == (len(known), both)
            assert pair.expected == pytest.approx(a * b / len(known))
            assert pair.lift == pytest.approx(both / pair.expected)
            assert pair.low <= pair.lift <= pair.high


def test_interval_is_that_of_the_odds_ratio():
    counts = np.array([40, 35, 25, 200])
    (pair,) = compare(rows(*counts))
    smoothed = counts + 0.5
    log_odds = np.log(smoothed[0] * smoothed[3] / (smoothed[1] * smoothed[2]))
    reach = norm.ppf(0.975) * np.sqrt((1 / smoothed).sum())
    for limit, side in ((pair.low, -1), (pair.high, 1)):
        found = odds_ratio(limit * pair.expected, 75, 65, 300)
        assert found == pytest.approx(np.exp(log_odds + side * reach))


def test_interval_contains_the_lift_that_rows_are_drawn_with():
    rng = np.random.default_rng(1)
    shares = np.array([0.12, 0.18, 0.13, 0.57])
    lift = shares[0] / ((shares[0] + shares[1]) * (shares[0] + shares[2]))
    drawn = [compare(rows(*rng.multinomial(150, shares)))[0] for _ in range(300)]
    assert np.mean([pair.low <= lift <= pair.high for pair in drawn]) > 0.92


def test_labels_that_are_independent_are_seldom_called_related():
    rng = np.random.default_rng(2)
    drawn = [compare(rng.random((200, 8)) < 0.3) for _ in range(40)]
    related = [any(pair.verdict in ("together", "apart") for pair in pairs) for pairs in drawn]
    assert np.mean(related) < 0.15


def test_verdicts_and_their_order():
    rng = np.random.default_rng(3)
    a = rng.random(400) < 0.4
    table = np.column_stack(
        [a, a ^ (rng.random(400) < 0.1), rng.random(400) < 0.4, ~a & (rng.random(400) < 0.8), a]
    ).astype(float)
    table[:, 4] = 0
    table[:3, 4] = 1  # three yes: too few to tell, whatever they go with
    verdicts = {(p.first + p.second): p.verdict for p in compare(table)}
    assert verdicts["ab"] == "together" and verdicts["ad"] == verdicts["bd"] == "apart"
    assert verdicts["ac"] == "unclear"
    assert {verdicts[pair] for pair in ("ae", "be", "ce", "de")} == {"too few"}
    ranks = [{"unclear": 1, "too few": 2}.get(verdict, 0) for verdict in verdicts.values()]
    assert ranks == sorted(ranks)


def test_extremes_are_finite_or_unknown():
    (never,) = compare(rows(0, 30, 40, 30))
    assert never.lift == never.low == 0 and 0 < never.high < 1 and never.verdict == "apart"
    (always,) = compare(rows(40, 0, 0, 60))
    assert always.lift == always.high == pytest.approx(2.5) and always.low > 1
    (unknown,) = compare([[1, np.nan], [np.nan, 0]])
    assert unknown.n_rows == 0 and np.isnan([unknown.lift, unknown.low, unknown.high]).all()
    assert compare([[1], [0]]) == []


def test_rows_of_all_tables_count_and_those_of_a_wide_table_once():
    (model, X, Y), (wide_model, wide, table) = fit_separate(), fit_wide()
    stacked = np.concatenate([labels.to_numpy() for labels in Y.values()])
    for summary, truth, names in (
        (summarise(model, X, Y), stacked, LABELS),
        (summarise(wide_model, wide, table), table.to_numpy(), list(table.columns)),
    ):
        pairs = compare_pairs(truth, names)
        clear = [plain(pair._asdict()) for pair in pairs if pair.verdict in ("together", "apart")]
        assert summary["cooccurrence"]["pairs"] == clear[:20]
        assert summary["cooccurrence"]["n_pairs"] == len(pairs)
