"""Statistics that add up give the weights of one fit to all rows, and refuse what does not fit."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from naim3l import NAIM3L, NAIM3LCV, DataWarning, LabelSubspaceRidge, ModelFileError, join_views
from naim3l.datasets import make_unpaired
from naim3l.estimators import PerViewRidge
from naim3l.statistics import ColumnPlan, Statistics, collect, combine

LABELS = ["flu", "gout", "rash"]
MODELS = {
    "plain": NAIM3L(lam=0.5),
    "probabilities": NAIM3L(lam=0.5, ridge=1.0, decide="guarded", random_state=0),
    "search": NAIM3LCV(lams=3, ridges=[0.0, 10.0], random_state=1),
    "subspace": LabelSubspaceRidge(random_state=2),
    "subspace, given": LabelSubspaceRidge(1.0, 1.0, decide="sign"),
    "no intercept": NAIM3L(lam=0.5, ridge=1.0, fit_intercept=False),
}
MONTHS = [slice(0, 70), slice(70, 150), slice(150, 220), slice(220, 240)]


def tables(layout, *, ids=True):
    """Two tables, or a wide one, of which some columns are text, missing or shared; and labels."""
    data = make_unpaired(240, n_features=(9, 8), n_labels=3, noise=0.5, missing_labels=0.3,
                         aligned=layout == "wide", random_state=0)  # fmt: skip
    X, y = {}, {}
    for view in data.views:
        n = 4 if view == "view0" else 1
        X[view] = pd.DataFrame(data.views[view]).add_prefix(view)
        X[view]["sex"] = np.where(np.arange(240) * n % 7 < 3, "f", "m")
        X[view].iloc[::9, 2] = np.nan
        y[view] = pd.DataFrame(data.labels[view], columns=LABELS).replace({1: "yes", 0: "no"})
        X[view].index = y[view].index = pd.Index([f"{view}-{i}" for i in range(240)], name="id")
        if not ids:
            X[view], y[view] = (of.reset_index(drop=True) for of in (X[view], y[view]))
    if layout == "apart":
        return X, y
    wide = pd.concat(
        [X["view0"].drop(columns="sex"), X["view1"].set_axis(X["view0"].index)], axis=1
    )
    wide.iloc[:30, :9] = np.nan  # lack the first view
    return wide, y["view0"]


def take(table, rows):
    if isinstance(table, dict):
        return {view: of.iloc[rows] for view, of in table.items()}
    return table.iloc[rows]


def months(plan, X, y, **options):
    """Statistics of each of four months, which have other numbers of rows."""
    return [
        collect(plan, take(X, rows), take(y, rows), source=f"2026-{m}", **options)
        for m, rows in enumerate(MONTHS)
    ]


def in_months(dd, table):
    """The table in partitions of a month each."""
    if isinstance(table, dict):
        return {view: in_months(dd, of) for view, of in table.items()}
    ends = [rows.start for rows in MONTHS]
    names = table.index
    parts = [table.iloc[rows] for rows in MONTHS]
    delayed = pytest.importorskip("dask").delayed
    assert len(names) == MONTHS[-1].stop and len(ends) == 4
    return dd.from_delayed([delayed(part) for part in parts], meta=table.iloc[:0])


def model_of(how, layout):
    model = clone(MODELS[how])
    if layout == "wide":
        columns = {"first": [f"view0{j}" for j in range(9)]}
        columns["second"] = [*(f"view1{j}" for j in range(8)), "sex"]
        model.set_params(views=columns)
    return model


def assert_same(found, expected, accuracy=0.0, *, decisions=True):
    for view in expected.views_:
        assert_allclose(found.coef_[view], expected.coef_[view], atol=accuracy, rtol=0)
        assert_allclose(found.intercept_[view], expected.intercept_[view], atol=accuracy, rtol=0)
    for block, cuts in expected.thresholds_.items() if decisions else ():
        assert_allclose(found.thresholds_[block], cuts, atol=accuracy, rtol=0)


@pytest.mark.dask
@pytest.mark.filterwarnings("ignore:.*have no view")
@pytest.mark.parametrize("layout", ["apart", "wide"])
@pytest.mark.parametrize("how", MODELS)
def test_a_fit_is_a_plan_a_pass_and_a_fit_to_statistics(how, layout, dd):
    """To the last bit: weights, thresholds and predictions, also from files."""
    X, y = (in_months(dd, of) for of in tables(layout))
    model = model_of(how, layout).fit(X, y)
    plan = ColumnPlan.of(X, y, estimator=model_of(how, layout))
    whole = Statistics.from_bytes(collect(plan, X, y).to_bytes())
    again = model_of(how, layout).fit_statistics(whole)
    assert_same(again, model)
    rows = take(tables(layout)[0], MONTHS[1])
    for one, other in zip(*(of.view_scores(rows).values() for of in (model, again)), strict=True):
        assert_array_equal(one, other)


@pytest.mark.dask
@pytest.mark.filterwarnings("ignore:.*have no view")
@pytest.mark.parametrize("layout", ["apart", "wide"])
@pytest.mark.parametrize("how", MODELS)
def test_months_add_up_to_the_weights_of_one_fit(how, layout, dd, tmp_path):
    """To the last bit, as ids decide on folds; only the order of sampled rows is another one."""
    X, y = tables(layout)
    one = model_of(how, layout).fit(in_months(dd, X), in_months(dd, y))
    plan = ColumnPlan.of(in_months(dd, X), in_months(dd, y), estimator=model_of(how, layout))
    found = []
    for number, of_month in enumerate(months(plan, X, y)):
        of_month.save(tmp_path / f"{number}.stats")
        found.append(Statistics.load(tmp_path / f"{number}.stats"))
    added = combine(found)
    assert sum(of.get(one.views_[1]) for of in added.sources.values()) == 240
    several = model_of(how, layout).fit_statistics(added)
    assert_same(several, one, decisions=False)
    assert_same(several, one, accuracy=1e-6)
    assert_same(model_of(how, layout).fit_statistics(found[0] + found[1] + found[2] + found[3]),
                one, accuracy=1e-6, decisions=False)  # fmt: skip


def test_the_plan_of_some_rows_is_that_of_others():
    """The model of all rows in memory, where a plan of the first month sees all kinds of values."""
    X, y = tables("apart")
    model = NAIM3L(lam=0.5, ridge=1.0)
    plan = ColumnPlan.of(X, y, estimator=model)
    both = combine(months(plan, X, y))
    expected = clone(model).set_params(tol=1e-8).fit(X, y)
    found = clone(model).set_params(tol=1e-8).fit_statistics(both)
    assert_same(found, expected, accuracy=1e-5)
    first = ColumnPlan.of(take(X, MONTHS[0]), take(y, MONTHS[0]), estimator=model)
    later = clone(model).fit_statistics(combine(months(first, X, y)))
    assert later.score(X, y) > expected.score(X, y) - 0.05


def test_views_may_come_from_other_sources():
    X, y = tables("apart")
    model = NAIM3L(ridge=1.0)
    plan = ColumnPlan.of(X, y, estimator=model)
    parts = [collect(plan, {v: X[v]}, {v: y[v]}, source=f"site of {v}") for v in X]
    with pytest.raises(ValueError, match="no source has rows of views 'view1'"):
        clone(model).fit_statistics(parts[0])
    together = clone(model).fit_statistics(combine(parts))
    assert_same(together, clone(model).fit_statistics(collect(plan, X, y)))


def test_labels_that_a_source_lacks_are_unknown_there_and_others_are_refused():
    X, y = tables("apart")
    plan = ColumnPlan.of(X, y, estimator=NAIM3L(ridge=1.0))
    fewer = {view: of[["rash", "flu"]] for view, of in y.items()}
    unknown = {view: of.assign(gout=None) for view, of in y.items()}
    found, expected = (collect(plan, X, of).found for of in (fewer, unknown))
    for view in X:
        assert_array_equal(found[view][0].targets, expected[view][0].targets)
        assert found[view][0].n_known[0, 1] == 0
    with pytest.raises(ValueError, match=r"labels 'cough' are not in the plan.*'flu', 'gout'"):
        collect(plan, X, {view: of.assign(cough=1) for view, of in y.items()})
    with pytest.raises(ValueError, match="'perhaps' is not a known label"):
        collect(plan, X, {view: of.replace({"yes": "perhaps"}) for view, of in y.items()})
    with pytest.raises(ValueError, match="missing \\['sex'\\]"):
        collect(plan, {view: of.drop(columns="sex") for view, of in X.items()}, y)


def test_what_differs_is_named():
    X, y = tables("apart")
    model = NAIM3L(ridge=1.0, random_state=0)
    plan = ColumnPlan.of(X, y, estimator=model)
    one = collect(plan, X, y, source="one")
    with pytest.raises(ValueError, match="source 'one' is in both; add each source once"):
        one + one
    half = ColumnPlan.of(take(X, MONTHS[1]), take(y, MONTHS[1]), estimator=model)
    with pytest.raises(
        ValueError, match="'one' and 'two' have different plans, which differ in features of v"
    ):
        one + collect(half, X, y, source="two")
    seeded = ColumnPlan.of(X, y, estimator=clone(model).set_params(random_state=1))
    with pytest.raises(ValueError, match="different plans, which differ in seed: collect all"):
        one + collect(seeded, X, y, source="two")
    with pytest.raises(ValueError, match="there are no statistics"):
        combine([])
    shareable = collect(plan, X, y, source="two", shareable=True)
    with pytest.raises(ValueError, match="'two' has shareable statistics, and 'one' has not"):
        one + shareable
    with pytest.raises(ValueError, match="source must be the name"):
        collect(plan, X, y, source=" ")
    with pytest.raises(TypeError, match="plan must be a ColumnPlan, got NAIM3L"):
        collect(model, X, y)
    with pytest.raises(TypeError, match="got PerViewRidge"):
        ColumnPlan.of(X, y, estimator=PerViewRidge())


CONTRADICTIONS = {
    "fit_intercept": ({"fit_intercept": False}, "fit_intercept of the plan is True, .* False"),
    "features": ({"features": "paper"}, "features of view 'view0' of the plan is .*'scale'.*paper"),
    "random_state": ({"random_state": 5}, "random_state of the plan is 0, and of the NAIM3L 5"),
    "decide": ({"decide": "f1"}, "NAIM3L needs held-out rows in 5 folds, and the plan has none"),
    "ridge": ({"ridge": "auto"}, "ridge='auto' needs sums over rows without a yes"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_parameters_that_contradict_the_plan_are_refused(name):
    X, y = tables("apart")
    model = NAIM3L(ridge=1.0, random_state=0)
    found = collect(ColumnPlan.of(X, y, estimator=model), X, y)
    parameters, message = CONTRADICTIONS[name]
    other = clone(model).set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        other.fit_statistics(found)
    assert not hasattr(other, "coef_")
    with pytest.raises(TypeError, match="expected Statistics, got DataFrame"):
        model.fit_statistics(X["view0"])


def test_other_parameters_may_change():
    """One pass over the rows serves many fits."""
    X, y = tables("apart")
    plan = ColumnPlan.of(X, y, estimator=NAIM3LCV(random_state=0))
    found = collect(plan, X, y)
    for model in (NAIM3L(lam=0.1, ridge=2.0), NAIM3L(ridge=1.0, decide="f1", positive_weight=3.0),
                  LabelSubspaceRidge(), NAIM3LCV(lams=2, ridges=[1.0])):  # fmt: skip
        assert model.set_params(random_state=0).fit_statistics(found).score(X, y) > 0.6
    assert NAIM3L(ridge=1.0, random_state=0).compare(found, None)["blocks"]


def test_samples_are_of_all_sources(monkeypatch):
    """As many rows as of one source, those with the smallest hashes."""
    monkeypatch.setattr("naim3l.estimators.collecting.SAMPLE_ROWS", 50)
    X, y = tables("wide", ids=False)
    model = model_of("probabilities", "wide")
    plan = ColumnPlan.of(X, y, estimator=model)
    added = combine(months(plan, X, y))
    samples = [added.found[view][1] for view in plan.names.views]
    assert all(len(sample.rows) == 50 for sample in samples)
    assert all(len(np.unique(sample.rows)) == 50 for sample in samples)
    assert model.fit_statistics(added).has_probabilities


@pytest.mark.parametrize("kind", ["arrow", "pandas"])
def test_iterators_of_batches_as_in_spark(kind):
    """What the tasks of Spark and Ray call: batches in, bytes out."""
    pyarrow = pytest.importorskip("pyarrow")
    X, y = tables("apart", ids=False)
    model = NAIM3L(ridge=1.0, decide="guarded", random_state=0)
    plan = ColumnPlan.of(X, y, estimator=model)
    table = X["view0"].join(y["view0"])
    batches = pyarrow.Table.from_pandas(table, preserve_index=False).to_batches(max_chunksize=50)
    if kind == "pandas":
        batches = [batch.to_pandas() for batch in batches]
    sent = collect(plan, {"view0": iter(batches)}, {"view0": LABELS}, source="part 3").to_bytes()
    found = Statistics.from_bytes(sent)
    whole = collect(plan, {"view0": X["view0"]}, {"view0": y["view0"]}, source="part 3")
    assert found.sources == whole.sources == {"part 3": {"view0": 240}}
    for name, array in whole.found["view0"][0].to_arrays().items():
        if name != "factors":  # of which only the products are unique
            assert_allclose(found.found["view0"][0].to_arrays()[name], array, atol=1e-9)
    assert_array_equal(found.found["view0"][1].rows, whole.found["view0"][1].rows)
    empty = collect(plan, {"view0": iter([])}, {"view0": LABELS}, source="part 4")
    assert Statistics.from_bytes(empty.to_bytes()).sources == {"part 4": {}}
    assert (found + empty).sources == {"part 3": {"view0": 240}, "part 4": {}}
    pickled = pickle.loads(pickle.dumps(found))  # which Ray sends
    assert pickled.to_bytes() == sent
    with pytest.raises(TypeError, match="labels of an iterator must be names"):
        collect(plan, {"view0": iter(batches)}, {"view0": y["view0"]}, source="x")
    fewer = [batch.drop_columns(["sex"]) if kind == "arrow" else batch.drop(columns="sex")
             for batch in batches]  # fmt: skip
    with pytest.raises(ValueError, match="view 'view0': no column 'sex'"):
        collect(plan, {"view0": iter(fewer)}, {"view0": LABELS}, source="x")


def test_files_and_tables_in_memory_are_the_same(tmp_path):
    pytest.importorskip("dask")
    X, y = tables("apart", ids=False)
    for view in X:
        X[view].join(y[view]).to_parquet(tmp_path / f"{view}.parquet", row_group_size=60)
        X[view].join(y[view]).to_csv(tmp_path / f"{view}.csv", index=False)
    model = NAIM3L(ridge=1.0, decide="guarded", random_state=0)
    files = {view: str(tmp_path / f"{view}.parquet") for view in X}
    plan = ColumnPlan.of(files, dict.fromkeys(X, LABELS), estimator=model)
    folder = {view: str(tmp_path / f"{view}*.csv") for view in X}
    of_files = [collect(plan, f, dict.fromkeys(X, LABELS)) for f in (files, folder)]
    fits = [clone(model).fit_statistics(of) for of in (*of_files, collect(plan, X, y))]
    assert_same(fits[1], fits[2], accuracy=1e-9)
    assert_same(fits[0], fits[2], accuracy=1e-6)


def test_a_transformer_needs_trust(tmp_path):
    data = make_unpaired(120, n_labels=3, random_state=0)
    model = NAIM3L(ridge=1.0, features=StandardScaler(), random_state=0)
    plan = ColumnPlan.of(data.views, data.labels, estimator=model)
    plan.save(tmp_path / "study.plan")
    found = collect(plan, data.views, data.labels)
    found.save(tmp_path / "all.stats")
    for kind, name in ((ColumnPlan, "study.plan"), (Statistics, "all.stats")):
        with pytest.raises(ModelFileError, match="StandardScaler"):
            kind.load(tmp_path / name)
    again = Statistics.load(tmp_path / "all.stats", trusted=[StandardScaler])
    assert_same(clone(model).fit_statistics(again), clone(model).fit_statistics(found))
    other = ColumnPlan.of(data.views, data.labels, estimator=model)
    with pytest.raises(
        ValueError, match="which differ in transformers"
    ):  # which cannot be compared
        found + collect(other, data.views, data.labels, source="other")
    with pytest.raises(ValueError, match="may have rows, of which a kernel or transformer"):
        collect(plan, data.views, data.labels, shareable=True)


def test_wide_rows_without_a_view_are_reported_where_they_are_read():
    X, y = tables("wide", ids=False)
    X.iloc[[5, 100]] = np.nan
    plan = ColumnPlan.of(X, y, estimator=model_of("plain", "wide"))
    with pytest.warns(DataWarning, match="2 rows \\(5, 100\\) have no view"):
        found = collect(plan, X, y, source="november")
    counts, kept = found.found["fused"][0], X.notna().any(axis=1)
    assert_array_equal(counts.n_positives.sum(axis=0), (y[kept] == "yes").sum())
    assert_array_equal(counts.n_known.sum(axis=0), y[kept].notna().sum())


def test_arrays_without_names():
    data = make_unpaired(120, n_labels=3, random_state=0)
    wide, views = join_views(make_unpaired(120, n_labels=3, aligned=True, random_state=0).views)
    for X, y, model in ((data.views, data.labels, NAIM3L(ridge=1.0)),
                        (wide, data.labels["view0"], NAIM3L(ridge=1.0, views=views))):  # fmt: skip
        plan = ColumnPlan.of(X, y, estimator=model)
        assert_same(clone(model).fit_statistics(collect(plan, X, y)), clone(model).fit(X, y), 1e-3)
    with pytest.raises(ValueError, match="2 columns of labels, and 3 in the plan"):
        collect(plan, X, y[:, :2])


@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_fits_without_sums_for_the_ridge_that_bounds_them(ridge):
    """Neither a ridge of 0, nor a fit that has not converged, needs these."""
    X, y = tables("apart")
    model = NAIM3L(ridge=ridge, max_iter=1)
    found = collect(ColumnPlan.of(X, y, estimator=model), X, y)
    with pytest.warns(ConvergenceWarning, match="did not converge in max_iter=1"):
        model.fit_statistics(found)
