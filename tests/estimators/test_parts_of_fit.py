"""Fits to tables in parts, which must equal fits to the same tables in memory."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

dask = pytest.importorskip("dask")
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402

import naim3l  # noqa: E402
from naim3l import NAIM3L, NAIM3LCV, DataWarning, PerViewRidge, join_views  # noqa: E402
from naim3l.datasets import make_unpaired  # noqa: E402
from naim3l.estimators import part_tasks  # noqa: E402

pytestmark = [pytest.mark.dask, pytest.mark.filterwarnings("ignore::naim3l.DataWarning")]

LABELS = list("abcd")
N_ROWS = 300


@pytest.fixture(scope="module")
def data():
    return make_unpaired(N_ROWS, n_features=(9, 8), n_labels=4, missing_labels=0.4, noise=0.6,
                         random_state=0)  # fmt: skip


@pytest.fixture(scope="module")
def frames(data):
    """Features with text, dates, an id and missing cells in the first view; labels."""
    X = {view: pd.DataFrame(table, columns=[f"{view}_{j}" for j in range(table.shape[1])])
         for view, table in data.views.items()}  # fmt: skip
    rng = np.random.default_rng(0)
    first = X["view0"]
    first["ward"] = rng.choice(["north", "south", "west"], len(first))
    first["seen"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(
        rng.integers(0, 900, len(first)), "D"
    )
    first["patient_id"] = [f"P{i:05d}" for i in range(len(first))]
    first.loc[5:60, "view0_2"] = np.nan
    first.loc[7, :] = None  # lacks the view
    Y = {view: pd.DataFrame(labels, columns=LABELS) for view, labels in data.labels.items()}
    return X, Y


def arrays(tables, n_parts):
    return {view: da.from_array(table, chunks=(-(-len(table) // n_parts), -1))
            for view, table in tables.items()}  # fmt: skip


def parts_of(tables, n_parts):
    return {view: dd.from_pandas(table, npartitions=n_parts) for view, table in tables.items()}


def parts_of_order(tables, n_parts):
    return {view: dd.from_pandas(table, npartitions=n_parts, sort=False)
            for view, table in tables.items()}  # fmt: skip


def assert_same_weights(model, other, rtol=1e-8):
    assert model.views_ == other.views_
    for view in model.views_:
        largest = np.abs(other.coef_[view]).max()
        np.testing.assert_allclose(model.coef_[view], other.coef_[view], atol=rtol * largest)
        np.testing.assert_allclose(model.intercept_[view], other.intercept_[view],
                                   atol=rtol * largest)  # fmt: skip
    np.testing.assert_allclose(model.ridge_, other.ridge_, rtol=1e-6)


@pytest.mark.parametrize("n_parts", [1, 2, 7])
def test_data_frames_of_all_kinds_of_cells_have_the_weights_of_memory(frames, n_parts):
    X, Y = frames
    model = NAIM3L().fit(X, Y)
    streamed = NAIM3L().fit(parts_of(X, n_parts), parts_of(Y, n_parts))
    assert_same_weights(streamed, model)
    for view in X:
        assert [(use.name, use.use, use.reason) for use in streamed.columns_[view]] == [
            (use.name, use.use, use.reason) for use in model.columns_[view]
        ]
    np.testing.assert_allclose(streamed.base_rates_, model.base_rates_)
    np.testing.assert_allclose(streamed.view_rates_["view0"], model.view_rates_["view0"])
    assert streamed.label_names_ == LABELS
    np.testing.assert_allclose(
        streamed.decision_function(X)["view0"], model.decision_function(X)["view0"], atol=1e-8
    )


@pytest.mark.parametrize(
    "transformer",
    [None, "scale", "paper", StandardScaler(), MinMaxScaler(), {"view0": "paper", "view1": None}],
)
def test_every_transformer_has_the_weights_of_memory(data, transformer):
    model = NAIM3L(transformer=transformer).fit(data.views, data.labels)
    streamed = clone(model).fit(arrays(data.views, 3), arrays(data.labels, 3))
    assert_same_weights(streamed, model)


@pytest.mark.parametrize(
    "options",
    [
        {"ridge": 2.0, "positive_weight": 3.0, "fit_intercept": False},
        {"low_rank": False, "high_rank": False},
        {"high_rank": False, "lam": 1.3},
        {"kernel": "rbf", "n_landmarks": 40},
        {
            "kernel": {"view0": "rbf", "view1": None},
            "gamma": {"view0": 0.3, "view1": "auto"},
            "n_landmarks": 25,
        },
    ],
)
def test_parameters_have_their_effect(data, options):
    model = NAIM3L(**options).fit(data.views, data.labels)
    streamed = NAIM3L(**options).fit(arrays(data.views, 4), arrays(data.labels, 4))
    assert_same_weights(streamed, model)


def test_histograms(data):
    counts = {view: np.floor(np.abs(table) * 9) for view, table in data.views.items()}
    for options in ({"transformer": "histogram"}, {"kernel": "hellinger", "n_landmarks": 30}):
        model = NAIM3L(**options).fit(counts, data.labels)
        assert_same_weights(NAIM3L(**options).fit(arrays(counts, 3), arrays(data.labels, 3)), model)


def test_the_ridge_that_bounds_scores_is_found_from_statistics(data):
    rng = np.random.default_rng(1)
    labels = {view: np.where(rng.random(Y.shape) < 0.93, np.nan, Y)
              for view, Y in data.labels.items()}  # fmt: skip
    model = NAIM3L(lam=3.0).fit(data.views, labels)
    assert model.ridge_ > 0
    assert_same_weights(NAIM3L(lam=3.0).fit(arrays(data.views, 3), arrays(labels, 3)), model)


@pytest.fixture(scope="module")
def wide():
    data = make_unpaired(
        260, n_features=(9, 8), n_labels=4, missing_labels=0.3, aligned=True, random_state=0
    )
    X, views = join_views(data.views)
    X = np.array(X)
    X[:80, views["view0"]] = np.nan
    X[150:190, views["view1"]] = np.nan
    X[200] = np.nan
    return X, data.labels["view0"], views


def test_wide_tables(wide):
    X, y, views = wide
    model = NAIM3L(views=views).fit(X, y)
    chunks = (60, -1)
    streamed = clone(model).fit(da.from_array(X, chunks=chunks), da.from_array(y, chunks=chunks))
    assert_same_weights(streamed, model)
    np.testing.assert_allclose(streamed.base_rates_, model.base_rates_)
    np.testing.assert_allclose(streamed.view_rates_["fused"], model.view_rates_["fused"])


def test_decisions_do_not_depend_on_the_parts(wide, data):
    X, y, views = wide
    options = {"calibrate": True, "fusion": "learned", "threshold": "guarded", "compare": True}
    first, second = (
        NAIM3L(views=views, random_state=3, **options).fit(
            da.from_array(X, chunks=(n, -1)), da.from_array(y, chunks=(n, -1))
        )
        for n in (40, 260)
    )
    np.testing.assert_allclose(first.thresholds_["fused"], second.thresholds_["fused"], rtol=1e-6)
    np.testing.assert_allclose(first.predict_proba(X), second.predict_proba(X), rtol=1e-6)
    assert first.held_out_["blocks"][0]["metrics"]["AP"]["value"] == pytest.approx(
        second.held_out_["blocks"][0]["metrics"]["AP"]["value"]
    )
    assert first.uncoupled_.ridge == second.uncoupled_.ridge


def search(**options):
    chosen = {"lams": [0.1, 0.5, 2.0], "ridges": [0.0, 3.0], "random_state": 0}
    return NAIM3LCV(**chosen | options)


def test_the_search_gives_the_weights_of_the_chosen_pair(data):
    streamed = search(calibrate=True, compare=True).fit(
        arrays(data.views, 3), arrays(data.labels, 3)
    )
    again = search(calibrate=True, compare=True).fit(arrays(data.views, 5), arrays(data.labels, 5))
    assert (streamed.lam_, streamed.ridge_) == (again.lam_, again.ridge_)
    for name, column in streamed.cv_results_.items():
        np.testing.assert_allclose(column, again.cv_results_[name], rtol=1e-6)
    model = NAIM3L(streamed.lam_, ridge=streamed.ridge_).fit(data.views, data.labels)
    assert_same_weights(streamed, model)
    # Folds are dealt in another way than in memory, so that metrics agree up to chance.
    in_memory = search().fit(data.views, data.labels)
    assert streamed.best_score_ == pytest.approx(in_memory.best_score_, abs=0.05)


def test_the_bandwidth_is_refined_on_the_sample(data):
    options = {"kernel": "rbf", "n_landmarks": 30, "lams": [0.4], "ridges": [1.0]}
    streamed = search(**options).fit(arrays(data.views, 3), arrays(data.labels, 3))
    plain = NAIM3L(kernel="rbf", n_landmarks=30).fit(data.views, data.labels)
    for view in streamed.views_:
        factor = streamed.gamma_[view] / plain.gamma_[view]
        assert min(abs(factor - f) for f in (0.5, 1.0, 2.0)) < 1e-6
    options["gamma_factors"] = [2.0]
    streamed = search(**options).fit(arrays(data.views, 3), arrays(data.labels, 3))
    assert_same_weights(streamed, search(**options).fit(data.views, data.labels))


def test_same_parts_same_bits_on_every_scheduler(data):
    def fit(**settings):
        with dask.config.set(**settings):
            return search().fit(arrays(data.views, 4), arrays(data.labels, 4))

    first = fit(scheduler="synchronous")
    for settings in ({"scheduler": "threads"}, {"scheduler": "threads", "num_workers": 5}):
        other = fit(**settings)
        for view in first.views_:
            np.testing.assert_array_equal(first.coef_[view], other.coef_[view])
        np.testing.assert_array_equal(
            first.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"]
        )


def test_parquet_files(frames, tmp_path):
    X, Y = frames
    for view in X:
        (tmp_path / view).mkdir()
        table = pd.concat([X[view], Y[view]], axis=1)
        for k, start in enumerate(range(0, len(table), 110)):
            part = table.iloc[start : start + 110]
            part.to_parquet(tmp_path / view / f"part{k}.parquet", row_group_size=50)
    model = NAIM3L().fit(X, Y)
    paths = {view: tmp_path / view for view in X}
    streamed = NAIM3L().fit(paths, dict.fromkeys(X, LABELS))
    assert_same_weights(streamed, model)
    for view in X:
        X[view].to_parquet(tmp_path / f"{view}.parquet", row_group_size=70)
        Y[view].to_parquet(tmp_path / f"labels_{view}.parquet", row_group_size=33)
    paths = {view: f"{tmp_path}/{view}.par*" for view in X}
    assert_same_weights(NAIM3L().fit(paths, Y), model)  # labels in memory
    labels = {view: f"{tmp_path}/labels_{view}.parquet" for view in X}
    assert_same_weights(NAIM3L().fit(paths, labels), model)


def test_labels_in_memory_beside_partitions_of_dask(frames):
    X, Y = frames
    in_parts = NAIM3L(transformer="auto").fit(parts_of(X, 3), Y)
    assert_same_weights(in_parts, NAIM3L(transformer="auto").fit(parts_of(X, 3), parts_of(Y, 3)))


def test_a_sample_is_enough_for_decisions(data, monkeypatch):
    monkeypatch.setattr(part_tasks, "SAMPLE_ROWS", 120)
    options = {"calibrate": True, "threshold": "guarded", "random_state": 0}
    streamed = NAIM3L(**options).fit(arrays(data.views, 5), arrays(data.labels, 5))
    model = NAIM3L(**options).fit(data.views, data.labels)
    assert_same_weights(streamed, model)
    difference = (
        streamed.predict_proba(data.views)["view0"] - model.predict_proba(data.views)["view0"]
    )
    assert np.abs(difference).mean() < 0.1
    with pytest.warns(DataWarning, match="MinMaxScaler learned from a sample of 120 of"):
        NAIM3L(transformer=MinMaxScaler()).fit(arrays(data.views, 5), arrays(data.labels, 5))


def test_parts_without_rows_or_without_a_view(frames):
    X, Y = frames
    whole = {view: table.copy() for view, table in X.items()}
    whole["view0"].iloc[:100] = None
    model = NAIM3L().fit(whole, Y)
    parts = {
        view: dd.from_map(lambda at, table=table: table.iloc[at[0] : at[1]],
                          [(0, 100), (100, 100), (100, N_ROWS)], meta=table.iloc[:0])
        for view, table in whole.items()
    }  # fmt: skip
    labels = {
        view: dd.from_map(lambda at, table=table: table.iloc[at[0] : at[1]],
                          [(0, 100), (100, 100), (100, N_ROWS)], meta=table.iloc[:0])
        for view, table in Y.items()
    }  # fmt: skip
    assert_same_weights(NAIM3L().fit(parts, labels), model)


def test_a_model_can_be_saved_and_loaded(frames, tmp_path):
    X, Y = frames
    streamed = NAIM3L(calibrate=True, random_state=0).fit(parts_of(X, 3), parts_of(Y, 3))
    streamed.save(tmp_path / "model.skops")
    loaded = naim3l.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(
        loaded.predict_proba(X)["view0"], streamed.predict_proba(X)["view0"]
    )


@pytest.mark.parametrize("form", ["apart", "wide"])
def test_a_fit_that_was_stopped_resumes_after_the_last_pass(
    data, wide, form, tmp_path, monkeypatch
):
    options = {"random_state": 0, "calibrate": True}
    if form == "apart":
        X, y = arrays(data.views, 3), arrays(data.labels, 3)
    else:
        X, y = (da.from_array(table, chunks=(60, -1)) for table in wide[:2])
        options["views"] = wide[2]
    expected = NAIM3L(**options).fit(X, y)
    model = NAIM3L(**options, checkpoint=tmp_path / "fit.checkpoint")

    def stop(self, *args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(NAIM3L, "_solve", stop)
        model.fit(X, y)
    monkeypatch.setattr(part_tasks.StatisticsTask, "__call__", stop)  # must not run again
    resumed = clone(model).fit(X, y)
    for view in expected.views_:
        np.testing.assert_array_equal(resumed.coef_[view], expected.coef_[view])
    block = next(iter(expected.thresholds_))
    np.testing.assert_array_equal(resumed.thresholds_[block], expected.thresholds_[block])
    with pytest.raises(ValueError, match="another fit"):
        clone(model).set_params(lam=0.1).fit(X, y)


def test_labels_among_features_and_rows_without_a_view_are_warned_of(frames, wide):
    X, Y = frames
    table = pd.concat([X["view1"], Y["view1"]], axis=1)
    with pytest.warns(DataWarning, match=r"view 'view1': columns \['a', 'b', 'c', 'd'\] have the"):
        NAIM3L().fit(parts_of({"view1": table}, 2), parts_of({"view1": Y["view1"]}, 2))
    X, y, views = wide
    with pytest.warns(DataWarning, match="X: 1 rows have no view at all and are left out"):
        NAIM3L(views=views).fit(
            da.from_array(X, chunks=(60, -1)), da.from_array(y, chunks=(60, -1))
        )


@pytest.mark.parametrize(
    "transformer",
    [
        StandardScaler(),
        make_pipeline(StandardScaler(), PCA(4)),
        make_pipeline(SimpleImputer(), StandardScaler()),
        make_column_transformer((SimpleImputer(), ["view1_1"]), remainder="passthrough"),
    ],
)
def test_transformers_of_the_user_get_data_frames_as_in_memory(frames, transformer, tmp_path):
    X, Y = {"view1": frames[0]["view1"].copy()}, {"view1": frames[1]["view1"]}
    if "Imputer" in repr(transformer):
        X["view1"].loc[20:200, "view1_1"] = np.nan
    model = NAIM3L(transformer=transformer).fit(X, Y)
    assert_same_weights(clone(model).fit(parts_of(X, 3), parts_of(Y, 3)), model)
    X["view1"].to_parquet(tmp_path / "view1.parquet", row_group_size=90)
    assert_same_weights(clone(model).fit({"view1": tmp_path / "view1.parquet"}, Y), model)


def test_numbers_far_from_zero_keep_their_digits(data):
    X = {view: 1e9 + table for view, table in data.views.items()}
    model = NAIM3L(transformer="scale").fit(X, data.labels)
    streamed = clone(model).fit(arrays(X, 3), arrays(data.labels, 3))
    assert_same_weights(streamed, model, rtol=1e-6)


class TestRefused:
    def test_labels_in_another_order(self, frames):
        X, Y = {"view1": frames[0]["view1"]}, {"view1": frames[1]["view1"]}
        names = [f"P{i:04}" for i in range(N_ROWS)]
        X["view1"] = X["view1"].set_axis(names)
        shuffled = {"view1": Y["view1"].set_axis(names[:150][::-1] + names[150:])}
        with pytest.raises(ValueError, match="same index as the features but in another order"):
            NAIM3L().fit(parts_of(X, 2), parts_of_order(shuffled, 2))
        others = {"view1": Y["view1"].set_axis([f"Q{i:04}" for i in range(N_ROWS)])}
        with pytest.warns(DataWarning, match="'P0000' and 'Q0000' in row 0; they are matched row"):
            NAIM3L().fit(parts_of(X, 2), parts_of(others, 2))

    def test_cells_of_files_are_named_with_their_rows(self, frames, tmp_path):
        X, Y = frames[0]["view1"].copy(), frames[1]["view1"].copy()
        X.loc[177, "view1_2"] = np.inf
        for k in range(3):
            X.iloc[100 * k : 100 * k + 100].to_parquet(tmp_path / f"x{k}.parquet")
        with pytest.raises(ValueError, match=r"view 'view1', x1.parquet, row 77, column 'view1_2'"):
            NAIM3L().fit({"view1": f"{tmp_path}/x*.parquet"}, {"view1": Y})
        Y.loc[250, "b"] = 7
        for k in range(2):
            Y.iloc[150 * k : 150 * k + 150].to_parquet(tmp_path / f"y{k}.parquet")
        with pytest.raises(ValueError, match=r"view 'view1', y1.parquet, row 100, label 'b'"):
            NAIM3L().fit({"view1": f"{tmp_path}/x*.parquet"}, {"view1": f"{tmp_path}/y*.parquet"})

    def test_a_view_without_rows(self, data):
        X = dict(data.views) | {"view1": np.full((N_ROWS, 8), np.nan)}
        with pytest.raises(ValueError, match="view 'view1': missing in every row; leave the view"):
            NAIM3L().fit(arrays(X, 2), arrays(data.labels, 2))

    def test_cells_are_named_with_their_part(self, data):
        X = {view: table.copy() for view, table in data.views.items()}
        X["view0"][170, 3] = np.inf
        with pytest.raises(ValueError, match=r"view 'view0', partition 1, row 20, column 3: inf"):
            NAIM3L().fit(arrays(X, 2), arrays(data.labels, 2))
        labels = {view: Y.copy() for view, Y in data.labels.items()}
        labels["view1"][200, 1] = 7
        with pytest.raises(ValueError, match=r"view 'view1', partition 1, row 50, label 1: .*7"):
            NAIM3L().fit(arrays(data.views, 2), arrays(labels, 2))

    def test_numbers_that_vanish_when_squared(self, data):
        X = {view: table.copy() for view, table in data.views.items()}
        X["view1"][:, 2] *= 1e-150
        for transformer in ("auto", "paper"):
            with pytest.raises(ValueError, match="view 'view1', column 2: its largest value is"):
                NAIM3L(transformer=transformer).fit(arrays(X, 2), arrays(data.labels, 2))

    def test_labels_of_other_rows(self, data):
        labels = {view: Y[:-1] for view, Y in data.labels.items()}
        with pytest.raises(ValueError, match="300 rows of features but 299 rows of labels"):
            NAIM3L().fit(arrays(data.views, 2), arrays(labels, 2))

    def test_no_labels(self, data):
        for y in (None, {"view0": None, "view1": None}):
            with pytest.raises(ValueError, match="requires y to be passed, but the target y is N"):
                NAIM3L().fit(arrays(data.views, 2), y)

    def test_views_without_positives(self, data):
        labels = dict(data.labels) | {"view1": np.zeros((N_ROWS, 4))}
        with pytest.raises(ValueError, match="view 'view1': no label is observed positive"):
            NAIM3L().fit(arrays(data.views, 2), arrays(labels, 2))

    def test_what_needs_rows_in_memory(self, data):
        X, Y = arrays(data.views, 2), arrays(data.labels, 2)
        with pytest.raises(ValueError, match="solver='paper' works on rows in memory"):
            NAIM3L(solver="paper").fit(X, Y)
        with pytest.raises(TypeError, match="PerViewRidge takes tables in memory; NAIM3L and"):
            PerViewRidge().fit(X, Y)
        with pytest.raises(ValueError, match="n_landmarks=None takes all rows"):
            NAIM3L(kernel="rbf", n_landmarks=None).fit(X, Y)

    def test_statistics_beyond_memory(self, data):
        with (
            dask.config.set({"naim3l.memory": "20 kB"}),
            pytest.raises(MemoryError, match="statistics of 4 labels in 2 views and 3 folds"),
        ):
            NAIM3L(calibrate=True).fit(arrays(data.views, 2), arrays(data.labels, 2))

    def test_no_model_is_left_after_an_error(self, data):
        model = NAIM3L().fit(data.views, data.labels)
        with pytest.raises(TypeError, match="mapping"):
            model.fit(arrays(data.views, 2), da.zeros((N_ROWS, 4)))
        assert not hasattr(model, "coef_")


def test_warnings_of_memory_are_those_of_parts(frames):
    X, Y = frames

    def messages(X, Y):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            NAIM3L().fit(X, Y)
        return {str(one.message) for one in caught if issubclass(one.category, DataWarning)}

    assert messages(parts_of(X, 3), parts_of(Y, 3)) == messages(X, Y)
