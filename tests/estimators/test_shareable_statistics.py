"""What a file of shareable statistics reveals, and what it costs."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from naim3l import NAIM3L, NAIM3LCV, DataWarning, LabelSubspaceRidge
from naim3l.datasets import make_unpaired
from naim3l.estimators.collecting import LEAST
from naim3l.input.batches import Batch
from naim3l.problem.shareable import GramStatistics
from naim3l.statistics import ColumnPlan, Statistics, collect, combine

MODEL = NAIM3L(lam=0.4, ridge=1.0, features=None, tol=1e-8)
FIT = {"NAIM3L": MODEL, "subspace": LabelSubspaceRidge(1.0, 1.0, decide="sign", features=None)}


def study(n=400, n_labels=5):
    data = make_unpaired(n, n_labels=n_labels, noise=0.5, missing_labels=0.3, random_state=0)
    return data.views, {view: np.array(of, dtype=float) for view, of in data.labels.items()}


def revealing():
    """Labels that tell of few rows: rare yes, rare no, one that differs from another in a row."""
    X, y = study()
    for labels in y.values():
        labels[:, 1] = np.where(np.arange(400) < 3, 1, 0)  # three yes
        labels[:, 2] = np.where(np.arange(400) < 4, 0, 1)  # four no
        labels[:, 3] = labels[:, 4]
        first = np.flatnonzero(~np.isnan(labels[:, 4]))[0]
        labels[first, 3] = np.nan  # known in one row less
    return X, y


def grams(sums):
    """All products of columns in the sums of a view, those of no rows, and of all."""
    if isinstance(sums, GramStatistics):
        stacks = sums.known_grams, sums.positive_grams
    else:
        pieces = np.split(sums.factors, np.cumsum(sums.heights)[:-1])
        stacks = sums.known_grams.reshape(-1, *sums.gram.shape), [R.T @ R for R in pieces]
    return [0 * sums.gram, sums.gram, *stacks[0], *stacks[1]]


def attack(sums, sample=None):
    """Rows, with a column of ones, that can be read: samples, factors, and differences."""
    rows = [] if sample is None else list(np.pad(sample.arrays[0], [(0, 0), (0, 1)],
                                                 constant_values=1))  # fmt: skip
    rows += [] if isinstance(sums, GramStatistics) else list(sums.factors)
    every = grams(sums)
    for one, other in combinations(range(len(every)), 2):
        values, vectors = np.linalg.eigh(every[one] - every[other])
        largest = np.argmax(np.abs(values))
        others = np.delete(np.abs(values), largest)
        if np.abs(values[largest]) > 1e-6 and others.max() < 1e-8 * np.abs(values[largest]):
            row = vectors[:, largest] * np.sqrt(np.abs(values[largest]))
            rows.append(row / row[-1])  # ends with 1
    return np.array(rows).reshape(-1, len(sums.gram))


def found_rows(plan, found, X):
    """Rows of a source that the attack has found, as they are in the table."""
    known = set()
    for view, table in X.items():
        encoded, _ = plan.features[view].encode(Batch(table, view))
        true = np.pad(encoded, [(0, 0), (0, 1)], constant_values=1)
        for row in attack(*found.found[view]):
            known |= {(view, i) for i in np.flatnonzero(np.abs(true - row).max(axis=1) < 1e-6)}
    return known


def test_rows_are_read_from_ordinary_statistics_and_not_from_shareable_ones(tmp_path):
    X, y = revealing()
    plan = ColumnPlan.of(X, y, estimator=MODEL)
    ordinary = collect(plan, X, y, source="north")
    assert sum(ordinary.readable_rows.values()) > 0
    read = found_rows(plan, ordinary, X)
    assert {(view, i) for view in X for i in range(3)} <= read  # the rows of the rare yes
    first = [(v, int(np.flatnonzero(~np.isnan(y[v][:, 4]))[0])) for v in X]
    assert set(first) <= read  # a difference of sums
    with pytest.warns(DataWarning, match="'north'.*labels 'label1', 'label2', 'label3' are"):
        shareable = collect(plan, X, y, source="north", shareable=True)
    shareable.save(tmp_path / "north.stats")
    shareable = Statistics.load(tmp_path / "north.stats")
    assert found_rows(plan, shareable, X) == set()
    assert set(shareable.readable_rows.values()) == {0}
    sampled = ColumnPlan.of(X, y, estimator=NAIM3LCV(features=None, random_state=0))
    whole = collect(sampled, X, y)
    assert len(found_rows(sampled, whole, X)) == 800 and whole.readable_rows["view0"] == 400
    with pytest.warns(DataWarning, match="are left out"):
        assert found_rows(sampled, collect(sampled, X, y, shareable=True), X) == set()


def test_two_shareable_files_that_differ_by_a_row_tell_that_row():
    """It is aggregation, not anonymity: the page says so."""
    X, y = study()
    plan = ColumnPlan.of(X, y, estimator=MODEL)
    rest = [{view: of[1:] for view, of in each.items()} for each in (X, y)]
    one, other = collect(plan, X, y, shareable=True), collect(plan, *rest, shareable=True)
    difference = one.found["view0"][0].gram - other.found["view0"][0].gram
    assert_allclose(difference[:-1, -1], X["view0"][0], atol=1e-9)


@pytest.mark.parametrize("how", FIT)
def test_a_fit_to_shareable_statistics_has_the_weights_of_one_to_rows(how):
    """Up to half of the digits, where no label is rare."""
    X, y = study()
    model = FIT[how]
    plan = ColumnPlan.of(X, y, estimator=model)
    halves = [
        [{view: of[rows] for view, of in each.items()} for each in (X, y)]
        for rows in (slice(0, 150), slice(150, 400))
    ]
    parts = [collect(plan, *half, source=str(i), shareable=True) for i, half in enumerate(halves)]
    found = clone(model).fit_statistics(combine(parts))
    expected = clone(model).fit(X, y)
    for view in X:
        assert_allclose(found.coef_[view], expected.coef_[view], atol=2e-6)
        assert_allclose(found.intercept_[view], expected.intercept_[view], atol=2e-6)


def test_a_month_is_taken_away_again(tmp_path):
    X, y = study()
    plan = ColumnPlan.of(X, y, estimator=MODEL)
    parts = []
    for i, rows in enumerate((slice(0, 100), slice(100, 300), slice(300, 400))):
        half = [{view: of[rows] for view, of in each.items()} for each in (X, y)]
        parts.append(collect(plan, *half, source=f"2026-{i}", shareable=True))
    rest = combine(parts) - parts[1]
    rest.save(tmp_path / "rest.stats")
    rest, never = Statistics.load(tmp_path / "rest.stats"), parts[0] + parts[2]
    assert rest.sources == never.sources
    for view in X:
        for name, array in never.found[view][0].to_arrays().items():
            assert_allclose(rest.found[view][0].to_arrays()[name], array, atol=1e-9)
    found, expected = (clone(MODEL).fit_statistics(of) for of in (rest, never))
    for view in X:
        assert_allclose(found.coef_[view], expected.coef_[view], atol=1e-6)
    with pytest.raises(ValueError, match="'2026-1' is not among the sources '2026-0', '2026-2'"):
        rest - parts[1]
    with pytest.raises(ValueError, match="nothing would be left of the sources '2026-0'"):
        parts[0] - parts[0]


def test_a_label_of_one_month_is_gone_with_it():
    """What is left of its sums is rounding, and no label that was recorded."""
    X, y = study()
    plan, late = ColumnPlan.of(X, y, estimator=MODEL), {v: of.copy() for v, of in y.items()}
    for labels in late.values():
        labels[:200, 0] = np.nan
    parts = []
    for i, rows in enumerate((slice(0, 200), slice(200, 400))):
        half = [{view: of[rows] for view, of in each.items()} for each in (X, late)]
        parts.append(collect(plan, *half, source=str(i), shareable=True))
    sums = (combine(parts) - parts[1]).found["view0"][0]
    assert not sums.known_grams[0].any() and not sums.targets[:, 0].any()


def test_ordinary_statistics_are_not_subtracted():
    X, y = study()
    plan = ColumnPlan.of(X, y, estimator=MODEL)
    one, other = (collect(plan, X, y, source=name) for name in ("october", "november"))
    with pytest.raises(ValueError, match=r"'november' cannot be taken .*Keep one file for each"):
        (one + other) - other
    with pytest.raises(TypeError):
        one - 1


def test_a_fit_that_needs_rows_is_refused():
    X, y = study()
    plan = ColumnPlan.of(X, y, estimator=NAIM3LCV(features=None, random_state=0))
    found = collect(plan, X, y, shareable=True)
    others = {"features": None, "random_state": 0}
    for model in (NAIM3LCV(**others), NAIM3L(**others), NAIM3L(ridge=1.0, decide="f1", **others),
                  LabelSubspaceRidge(**others)):  # fmt: skip
        with pytest.raises(ValueError, match=r"have no rows that could be .*decide='sign'"):
            model.fit_statistics(found)
    assert NAIM3L(ridge=1.0, **others).fit_statistics(found).views_


def test_few_rows_and_rare_columns_are_left_out():
    X, y = study()
    X = {view: np.column_stack([of, np.arange(400) % 80 == 0, np.arange(400) % 40 == 0])
         for view, of in X.items()}  # fmt: skip
    plan = ColumnPlan.of(X, y, estimator=MODEL)
    with pytest.warns(DataWarning, match="1 of [23]3 encoded columns are left out: fewer than 10"):
        sums = collect(plan, X, y, shareable=True).found["view0"][0]
    assert not sums.gram[-3].any() and not sums.targets[-3].any() and sums.gram[-2].any()
    few = [{view: of[: LEAST - 1] for view, of in each.items()} for each in (X, y)]
    with pytest.raises(ValueError, match="view 'view0': sums of 9 rows are not shared"):
        collect(plan, *few, shareable=True)


def test_wide_tables_are_shared_alike():
    data = make_unpaired(
        400, n_labels=4, noise=0.5, missing_labels=0.2, aligned=True, random_state=0
    )
    X, y = np.hstack([*data.views.values()]), np.array(data.labels["view0"], dtype=float)
    n = data.views["view0"].shape[1]
    X[:50, :n] = np.nan
    model = clone(MODEL).set_params(views={"a": range(n), "b": range(n, X.shape[1])})
    plan = ColumnPlan.of(X, y, estimator=model)
    found = Statistics.from_bytes(collect(plan, X, y, shareable=True).to_bytes())
    shared, expected = clone(model).fit_statistics(found), clone(model).fit(X, y)
    for view in "ab":
        assert_allclose(shared.coef_[view], expected.coef_[view], atol=2e-6)
    assert_array_equal(shared.base_rates_, expected.base_rates_)
