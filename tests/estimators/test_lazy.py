"""Lazy predictions: those of the table in memory, for every kind of input and number of parts."""

import pickle
import weakref

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from naim3l import NAIM3L, join_views
from naim3l.datasets import make_unpaired
from naim3l.input.passes import load_dask

dask = pytest.importorskip("dask")
pytestmark = pytest.mark.dask
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

N_PARTS = (1, 2, 7)
METHODS = ("decision_function", "predict", "predict_proba", "view_scores")


@pytest.fixture(scope="module")
def apart():
    """A model of two tables, one with names, and the tables."""
    data = make_unpaired(60, n_features=(9, 8), n_labels=3, noise=0.1, random_state=0)
    named = pd.DataFrame(data.views["view0"], columns=[f"c{j}" for j in range(9)])
    named.index = np.arange(60) * 2 + 10
    views = {"named": named, "plain": data.views["view1"]}
    labels = {"named": data.labels["view0"], "plain": data.labels["view1"]}
    return NAIM3L(calibrate=True, random_state=0).fit(views, labels), views, labels


@pytest.fixture(scope="module")
def wide():
    """A model of one wide table whose labels have names, the table, and the labels."""
    data = make_unpaired(60, n_features=(9, 8), n_labels=3, aligned=True, noise=0.1, random_state=0)
    table, columns = join_views(data.views)
    frame = pd.DataFrame(table, columns=[f"c{j}" for j in range(17)])
    labels = pd.DataFrame(data.labels["view0"], columns=["red", "green", "blue"]).astype(float)
    labels.iloc[::4, 1] = np.nan
    model = NAIM3L(views=columns, calibrate=True, random_state=0).fit(frame, labels)
    return model, frame, labels


def rows(n_rows, n_parts):
    return tuple(len(part) for part in np.array_split(np.arange(n_rows), n_parts))


def as_array(table, n_parts):
    return da.from_array(np.asarray(table), chunks=(rows(len(table), n_parts), -1))


def without_names(model):
    """The model as if its table had been an array."""
    model = pickle.loads(pickle.dumps(model))
    del model.reader_.feature_names_in_
    return model


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


@pytest.mark.parametrize("n_parts", N_PARTS)
@pytest.mark.parametrize("method", METHODS)
def test_tables_apart(apart, method, n_parts):
    model, views, _ = apart
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


@pytest.mark.parametrize("n_parts", N_PARTS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["frame", "array", "parquet"])
def test_wide_table(wide, method, n_parts, kind, tmp_path):
    model, frame, labels = wide
    if kind == "frame":
        X = dd.from_pandas(frame, npartitions=n_parts)
    elif kind == "array":
        model = without_names(model)
        X = as_array(frame, n_parts)
    else:
        # Label columns of the files are left out.
        for i, part in enumerate(np.array_split(np.arange(60), n_parts)):
            frame.join(labels).iloc[part].to_parquet(tmp_path / f"{i}.parquet", index=False)
        X = tmp_path
    found = getattr(model, method)(X)
    assert_same(found, getattr(model, method)(frame if kind != "array" else frame.to_numpy()))
    for result in found.values() if method == "view_scores" else [found]:
        assert isinstance(result, da.Array if kind == "array" else dd.DataFrame)


def test_output_of_dask_is_not_changed_by_set_output(wide):
    model, frame, _ = wide
    model = pickle.loads(pickle.dumps(model)).set_output(transform="polars")
    found = model.predict(dd.from_pandas(frame, npartitions=2))
    assert_same(found, model.predict(frame))
    assert list(found.columns) == ["red", "green", "blue"]


def test_options_are_passed_on_and_checked_at_once(wide):
    model, frame, labels = wide
    lazy = dd.from_pandas(frame, npartitions=3)
    for decide in ("sign", "f1"):
        assert_same(model.predict(lazy, decide=decide), model.predict(frame, decide=decide))
        assert_same(model.predict(lazy, decide), model.predict(frame, decide))
    with pytest.raises(ValueError, match="decide"):
        model.predict(lazy, decide="coin")
    y = dd.from_pandas(labels, npartitions=3)
    with pytest.raises(ValueError, match="min_confidence must be"):
        model.impute_labels(lazy, y, min_confidence=2)


@pytest.mark.parametrize("n_parts", N_PARTS)
@pytest.mark.parametrize("min_confidence", [None, 0.9])
def test_imputed_labels(wide, n_parts, min_confidence, tmp_path):
    model, frame, labels = wide
    expected = model.impute_labels(frame, labels, min_confidence=min_confidence)
    X = dd.from_pandas(frame, npartitions=n_parts)
    arrays = as_array(frame, n_parts)
    frame.to_parquet(tmp_path / "rows.pq", row_group_size=9)
    labels.to_parquet(tmp_path / "labels.pq", row_group_size=20)
    frame.join(labels).to_parquet(tmp_path / "both.pq", row_group_size=9)
    for table, y in (
        (X, dd.from_pandas(labels, npartitions=n_parts)),
        (X, labels),
        (X, tmp_path / "labels.pq"),
        (tmp_path / "rows.pq", tmp_path / "labels.pq"),
        (tmp_path / "rows.pq", labels),
        (tmp_path / "both.pq", list(labels.columns)),
    ):
        found = model.impute_labels(table, y, min_confidence=min_confidence)
        assert isinstance(found, dd.DataFrame)
        pd.testing.assert_frame_equal(found.compute(), expected)
    plain = without_names(model)
    for y in (as_array(labels, n_parts), labels.to_numpy()):
        found = plain.impute_labels(arrays, y, min_confidence=min_confidence)
        assert isinstance(found, da.Array)
        assert_array_equal(found.compute(), expected)


def test_imputed_labels_of_tables_apart(apart):
    model, views, labels = apart
    unknown = {view: np.where(np.arange(60)[:, None] % 3 == 0, np.nan, y)
               for view, y in labels.items()}  # fmt: skip
    lazy = {"named": dd.from_pandas(views["named"], npartitions=2),
            "plain": as_array(views["plain"], 2)}  # fmt: skip
    frame = pd.DataFrame(unknown["named"], index=views["named"].index, columns=model.label_names_)
    y = {"named": dd.from_pandas(frame, npartitions=2), "plain": as_array(unknown["plain"], 2)}
    assert_same(model.impute_labels(lazy, y), model.impute_labels(views, unknown))
    with pytest.raises(ValueError, match=r"views without labels \['plain'\]"):
        model.impute_labels(lazy, {"named": y["named"]})
    with pytest.raises(TypeError, match="takes a mapping"):
        model.impute_labels(lazy, y["named"])


def test_labels_of_one_dimension():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    y = (X[:, 0] > 0).astype(float)
    y[::5] = np.nan
    model = NAIM3L().fit(X, y)
    lazy, frame = as_array(X, 3), pd.DataFrame(X)
    assert_same(model.predict(lazy), model.predict(X))
    assert model.predict(lazy).ndim == 1
    assert_same(model.impute_labels(lazy, da.from_array(y, chunks=(rows(40, 3),))),
                model.impute_labels(X, y))  # fmt: skip
    series = model.impute_labels(
        dd.from_pandas(frame, npartitions=3), dd.from_pandas(pd.Series(y), npartitions=3)
    )
    assert isinstance(series, dd.Series)
    assert_same(series, model.impute_labels(X, y))
    assert_same(model.predict(dd.from_pandas(frame, npartitions=3)), model.predict(X)[:, None])


def test_sparse_blocks_and_unknown_lengths():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((40, 5)) < 0.5, 0, rng.normal(size=(40, 5)))
    model = NAIM3L().fit(X, (X[:, :2] > 0).astype(float))
    blocks = da.from_array(X, chunks=(15, 2)).map_blocks(sparse.csr_array)
    assert_same(model.decision_function(blocks), model.decision_function(sparse.csr_array(X)))
    chosen = X[:, 0] > 0
    lazy = da.from_array(X, chunks=15)
    found = model.predict(lazy[lazy[:, 0] > 0])
    assert np.isnan(found.chunks[0]).all() and found.chunks[1] == (2,)
    assert_same(found, model.predict(X[chosen]))


def test_parts_without_rows(wide):
    model, frame, labels = wide
    X = dd.from_pandas(frame, npartitions=4)
    none = X[X["c0"] > 1e9]
    for method in METHODS:
        found = getattr(model, method)(none)
        for result in found.values() if isinstance(found, dict) else [found]:
            assert result.compute().shape == (0, 3)
    y = dd.from_pandas(labels, npartitions=4)
    assert model.impute_labels(none, y[X["c0"] > 1e9]).compute().shape == (0, 3)


def test_text_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=40), "colour": rng.choice(["red", "blue"], 40)})
    y = (frame["colour"] == "red").to_numpy(dtype=float)
    model = NAIM3L(transformer="auto").fit(frame, y)
    assert_same(model.predict(dd.from_pandas(frame, npartitions=3)), model.predict(frame)[:, None])


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


def test_other_columns_and_forms_are_refused_at_once(wide, apart):
    model, frame, _ = wide
    lazy = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(lazy.rename(columns={"c3": "other"}))
    with pytest.raises(TypeError, match="fitted on one wide table"):
        model.predict({"all": lazy})
    with pytest.raises(ValueError, match="16 features, but NAIM3L is expecting 17"):
        without_names(model).predict(da.ones((4, 16)))
    model, views, _ = apart
    with pytest.raises(ValueError, match=r"view 'named': columns differ.*missing \['?c0"):
        model.predict({"named": dd.from_pandas(views["named"][["c1"]], npartitions=2)})
    with pytest.raises(ValueError, match=r"unknown views \['other'\]"):
        model.predict({"other": da.ones((3, 2))})
    with pytest.raises(TypeError, match=r"expected a mapping"):
        model.predict(da.ones((3, 2)))


def test_errors_name_the_partition_or_the_file_and_the_row(wide, tmp_path):
    model, frame, labels = wide
    damaged = frame.copy()
    damaged.iloc[37] = np.nan
    lazy = dd.from_pandas(damaged, npartitions=2)
    with pytest.raises(ValueError, match=r"^X, partition 1, row 7: all values are missing"):
        model.predict(lazy).compute()
    damaged[:30].to_parquet(tmp_path / "a.parquet")
    damaged[30:].to_parquet(tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"^X, b.parquet, row 7: all values are missing"):
        model.predict(tmp_path).compute()
    y = dd.from_pandas(labels, npartitions=2).loc[:50]
    with pytest.raises(ValueError, match=r"^X, partition 1: 30 rows of features but 21.*reparti"):
        model.impute_labels(dd.from_pandas(frame, npartitions=2), y).compute()


def test_scores_of_rows_without_a_view_are_missing(wide):
    model, frame, _ = wide
    lacking = frame.copy()
    lacking.iloc[37] = np.nan
    scores = model.decision_function(dd.from_pandas(lacking, npartitions=2)).compute()
    assert_array_equal(np.flatnonzero(scores.isna().all(axis=1)), [37])


def test_score(wide, apart, tmp_path):
    model, frame, labels = wide
    expected = model.score(frame, labels)
    X, y = dd.from_pandas(frame, npartitions=3), dd.from_pandas(labels, npartitions=3)
    assert model.score(X, y) == pytest.approx(expected)
    assert model.score(X, labels) == pytest.approx(expected)
    assert model.score(X, y[["blue", "red", "green"]]) == pytest.approx(expected)
    frame.join(labels).to_parquet(tmp_path / "both.pq", row_group_size=9)
    assert model.score(tmp_path / "both.pq", list(labels.columns)) == pytest.approx(expected)
    model, views, labels = apart
    lazy = {view: as_array(table, 2) for view, table in views.items()}
    del lazy["named"]
    y = {"plain": as_array(labels["plain"], 2)}
    memory = ({"plain": views["plain"]}, {"plain": labels["plain"]})
    assert model.score(lazy, y) == pytest.approx(model.score(*memory))


def test_the_model_is_in_the_graph_once(wide):
    model, frame, _ = wide
    graph = dict(model.predict(dd.from_pandas(frame, npartitions=7)).dask)
    sizes = [len(pickle.dumps(task)) for task in graph.values()]
    weights = sum(W.nbytes for W in model.coef_.values())
    holders = [task for task in graph.values() if b"NAIM3L" in pickle.dumps(task)]
    assert len(holders) == 1 and max(sizes) > weights


def test_few_parts_are_in_memory_at_a_time(wide):
    model, frame, _ = wide
    alive, most = weakref.WeakSet(), []

    def load(i):
        part = frame.iloc[3 * i : 3 * i + 3].copy()
        alive.add(part._mgr)
        most.append(len(alive))
        return part

    parts = [dask.delayed(load)(i) for i in range(20)]
    X = dd.from_delayed(parts, meta=frame.iloc[:0], verify_meta=False)
    with dask.config.set(scheduler="threads", num_workers=2):
        model.predict(X).sum().compute()
    assert len(most) == 20 and max(most) <= 6


@pytest.mark.parametrize("processes", [False, True])
def test_cluster_gives_the_same_bits(wide, processes):
    distributed = load_dask("distributed")
    model, frame, _ = wide
    found = model.decision_function(dd.from_pandas(frame, npartitions=4))
    local = found.compute(scheduler="threads")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=processes,
                                 dashboard_address=":0") as cluster,
        cluster.get_client(),
    ):  # fmt: skip
        remote = found.compute()
    pd.testing.assert_frame_equal(remote, local, check_exact=True)
