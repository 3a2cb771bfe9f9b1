"""Lazy predictions: those of the table in memory, for every kind of input and number of parts."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from naim3l import NAIM3L, DataWarning, join_views
from naim3l.datasets import make_unpaired
from naim3l.files.errors import load_extra

dask = pytest.importorskip("dask")
pytestmark = pytest.mark.dask
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

METHODS = ("decision_function", "predict", "predict_proba", "view_scores")
each_method = pytest.mark.parametrize("method", METHODS)


@pytest.fixture(scope="module")
def separate():
    """A model of two tables, one with names, and the tables."""
    data = make_unpaired(60, n_features=(9, 8), n_labels=3, noise=0.1, random_state=0)
    named = pd.DataFrame(data.views["view0"], columns=[f"c{j}" for j in range(9)])
    named.index = np.arange(60) * 2 + 10
    views = {"named": named, "plain": data.views["view1"]}
    labels = {"named": data.labels["view0"], "plain": data.labels["view1"]}
    return NAIM3L(decide="guarded", random_state=0).fit(views, labels), views, labels


@pytest.fixture(scope="module")
def wide():
    """A model of one wide table whose labels have names, the table, and the labels."""
    data = make_unpaired(60, n_features=(9, 8), n_labels=3, aligned=True, noise=0.1, random_state=0)
    table, columns = join_views(data.views)
    frame = pd.DataFrame(table, columns=[f"c{j}" for j in range(17)])
    labels = pd.DataFrame(data.labels["view0"], columns=["red", "green", "blue"]).astype(float)
    labels.iloc[::4, 1] = np.nan
    model = NAIM3L(views=columns, decide="guarded", random_state=0).fit(frame, labels)
    return model, frame, labels


@pytest.fixture(scope="module")
def unnamed(wide):
    """A model of the same table as an array."""
    model, frame, labels = wide
    return NAIM3L(**model.get_params()).fit(frame.to_numpy(), labels)


def rows(n_rows, n_parts):
    return tuple(len(part) for part in np.array_split(np.arange(n_rows), n_parts))


def as_array(table, n_parts):
    return da.from_array(np.asarray(table), chunks=(rows(len(table), n_parts), -1))


def assert_same(lazy, expected):
    """Equal up to rounding: products of fewer rows may be added up in another order."""
    if isinstance(expected, dict):
        assert list(lazy) == list(expected)
        for view in expected:
            assert_same(lazy[view], expected[view])
        return
    assert hasattr(lazy, "dask")
    found = lazy.compute(scheduler="synchronous")
    assert found.shape == expected.shape
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_parts", [1, 7])
@each_method
def test_separate_tables(separate, method, n_parts):
    model, views, _ = separate
    lazy = {
        "named": dd.from_pandas(views["named"], npartitions=n_parts),
        "plain": as_array(views["plain"], n_parts),
    }
    found = getattr(model, method)(lazy)
    assert_same(found, getattr(model, method)(views))
    assert found["named"].divisions == lazy["named"].divisions
    assert list(found["named"].columns) == model.label_names_
    assert list(found["named"].compute().index) == list(views["named"].index)
    assert found["plain"].chunks == (rows(60, n_parts), (3,))
    assert found["plain"].dtype == found["named"].dtypes.iloc[0]


@each_method
@pytest.mark.parametrize("kind", ["frame", "array", "parquet"])
def test_wide_table(wide, unnamed, method, kind, tmp_path):
    model, frame, labels = wide
    X = dd.from_pandas(frame, npartitions=3)
    if kind == "array":
        model, X, frame = unnamed, as_array(frame, 3), frame.to_numpy()
    elif kind == "parquet":  # label columns of the files are left out
        for i, part in enumerate(np.array_split(np.arange(60), 3)):
            frame.join(labels).iloc[part].to_parquet(tmp_path / f"{i}.parquet", index=False)
        X = tmp_path
    found = getattr(model, method)(X)
    assert_same(found, getattr(model, method)(frame))
    for result in found.values() if method == "view_scores" else [found]:
        assert isinstance(result, da.Array if kind == "array" else dd.DataFrame)


def test_options_are_passed_on(wide):
    model, frame, labels = wide
    lazy, y = (dd.from_pandas(table, npartitions=3) for table in (frame, labels))
    assert_same(model.predict(lazy, decide="f1"), model.predict(frame, decide="f1"))
    assert_same(model.predict(lazy, "sign"), model.predict(frame, "sign"))
    with pytest.raises(ValueError, match="decide"):
        model.predict(lazy, decide="coin").compute()
    with pytest.raises(ValueError, match="min_confidence must be"):
        model.impute_labels(lazy, y, min_confidence=2).compute()
    polars = pickle.loads(pickle.dumps(model)).set_output(transform="polars")
    assert list(polars.predict(lazy).compute().columns) == ["red", "green", "blue"]  # of pandas


@pytest.mark.parametrize("min_confidence", [None, 0.9])
def test_imputed_labels(wide, unnamed, min_confidence, tmp_path):
    model, frame, labels = wide
    options = {"min_confidence": min_confidence}
    expected = model.impute_labels(frame, labels, **options)
    X, y = (dd.from_pandas(table, npartitions=3) for table in (frame, labels))
    frame.join(labels).to_parquet(tmp_path / "both.pq", row_group_size=9)
    for table, of in ((X, y), (X, labels), (tmp_path / "both.pq", list(labels.columns))):
        found = model.impute_labels(table, of, **options)
        assert isinstance(found, dd.DataFrame)
        pd.testing.assert_frame_equal(found.compute(), expected)
    for of in (as_array(labels, 3), labels.to_numpy()):
        found = unnamed.impute_labels(as_array(frame, 3), of, **options)
        assert isinstance(found, da.Array)
        assert_array_equal(found.compute(), expected)


def test_labels_of_one_dimension():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    y = (X[:, 0] > 0).astype(float)
    y[::5] = np.nan
    model = NAIM3L(decide="half", random_state=0).fit(X, y)
    lazy, frame = as_array(X, 3), dd.from_pandas(pd.DataFrame(X), npartitions=3)
    assert_same(model.predict(lazy), model.predict(X))
    assert_same(model.predict_proba(lazy), model.predict_proba(X))
    assert_same(model.impute_labels(lazy, da.from_array(y, chunks=(rows(40, 3),))),
                model.impute_labels(X, y))  # fmt: skip
    series = model.impute_labels(frame, dd.from_pandas(pd.Series(y), npartitions=3))
    assert isinstance(series, dd.Series)
    assert_same(series, model.impute_labels(X, y))
    assert_same(model.predict(frame), model.predict(X)[:, None])
    assert list(model.predict_proba(frame).columns) == ["0", "1"]


def test_parts_without_rows_and_rows_without_a_view(wide):
    model, frame, labels = wide
    X, y = (dd.from_pandas(table, npartitions=4) for table in (frame, labels))
    none = X[X["c0"] > 1e9]
    for method in METHODS:
        found = getattr(model, method)(none)
        for result in found.values() if isinstance(found, dict) else [found]:
            assert result.compute().shape == (0, 3)
    assert model.impute_labels(none, y[X["c0"] > 1e9]).compute().shape == (0, 3)
    lacking = frame.copy()
    lacking.iloc[37] = np.nan
    scores = model.decision_function(dd.from_pandas(lacking, npartitions=2)).compute()
    assert_array_equal(np.flatnonzero(scores.isna().all(axis=1)), [37])


def refuse():
    raise AssertionError("computed too early")


def test_nothing_is_computed_at_once(wide):
    model, frame, labels = wide
    lazy = dask.delayed(refuse)()
    X = dd.from_delayed([lazy, lazy], meta=frame.iloc[:0], verify_meta=False)
    y = dd.from_delayed([lazy, lazy], meta=labels.iloc[:0], verify_meta=False)
    found = [getattr(model, method)(X) for method in METHODS[:3]]
    found += [model.impute_labels(X, y), *model.view_scores(X).values()]
    for result in found:
        with pytest.raises(AssertionError, match="too early"):
            result.compute(scheduler="synchronous")


def test_other_columns_and_forms_are_refused_at_once(wide, separate):
    model, frame, _ = wide
    lazy = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(lazy.rename(columns={"c3": "other"}))
    with pytest.raises(TypeError, match="fitted on one wide table"):
        model.predict({"all": lazy})
    model, views, _ = separate
    with pytest.raises(ValueError, match=r"view 'named': columns differ.*missing \['?c0"):
        model.predict({"named": dd.from_pandas(views["named"][["c1"]], npartitions=2)})
    with pytest.raises(ValueError, match=r"unknown views \['other'\]"):
        model.predict({"other": da.ones((3, 2))})


def test_errors_name_the_partition_or_the_file_and_the_row(wide, tmp_path):
    model, frame, labels = wide
    damaged = frame.copy()
    damaged.iloc[37] = np.nan
    with pytest.warns(DataWarning, match=r"^X, partition 1, row 7: all values are missing"):
        labels = model.predict(dd.from_pandas(damaged, npartitions=2)).compute()
    assert np.flatnonzero(labels.isna().all(axis=1)).tolist() == [37]
    damaged[:30].to_parquet(tmp_path / "a.parquet")
    damaged[30:].to_parquet(tmp_path / "b.parquet")
    with pytest.warns(DataWarning, match=r"^X, .*b.parquet, row 7: all values are missing"):
        model.predict(tmp_path).compute()
    y = dd.from_pandas(labels, npartitions=2).loc[:50]
    with pytest.raises(ValueError, match=r"^X, partition 1: 30 rows of features but 21"):
        model.impute_labels(dd.from_pandas(frame, npartitions=2), y).compute()


def test_score(wide, separate, tmp_path):
    model, frame, labels = wide
    expected = model.score(frame, labels)
    X, y = dd.from_pandas(frame, npartitions=3), dd.from_pandas(labels, npartitions=3)
    for of in (y, labels, y[["blue", "red", "green"]]):
        assert model.score(X, of) == pytest.approx(expected)
    frame.join(labels).to_parquet(tmp_path / "both.pq", row_group_size=9)
    assert model.score(tmp_path / "both.pq", list(labels.columns)) == pytest.approx(expected)
    model, views, labels = separate
    found = model.score({"plain": as_array(views["plain"], 2)},
                        {"plain": as_array(labels["plain"], 2)})  # fmt: skip
    memory = ({"plain": views["plain"]}, {"plain": labels["plain"]})
    assert found == pytest.approx(model.score(*memory))


@pytest.mark.parametrize("kind", ["frame", "array", "parquet"])
def test_the_model_is_in_the_graph_once(wide, unnamed, kind, tmp_path):
    model, frame, _ = wide
    X = dd.from_pandas(frame, npartitions=7)
    if kind == "array":
        model, X = unnamed, as_array(frame, 7)
    elif kind == "parquet":
        frame.to_parquet(tmp_path / "x.parquet", row_group_size=9)
        X = tmp_path / "x.parquet"
    graph = dict(model.predict(X).__dask_graph__())
    holders = [task for task in graph.values() if b"LearnedDecisions" in pickle.dumps(task)]
    assert len(graph) > 7 and len(holders) == 1


def test_a_cluster_gives_the_same_bits(wide):
    distributed = load_extra("distributed")
    model, frame, _ = wide
    found = model.decision_function(dd.from_pandas(frame, npartitions=4))
    local = found.compute(scheduler="threads")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=True,
                                 dashboard_address=":0") as cluster,
        cluster.get_client(),
    ):  # fmt: skip
        remote = found.compute()
    pd.testing.assert_frame_equal(remote, local, check_exact=True)
