"""Fits to tables that are read in chunks, which must equal fits to the same tables in memory."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

dask = pytest.importorskip("dask")
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402

from naim3l import NAIM3L, NAIM3LCV, DataWarning, Decisions, Kernel, Recipe, join_views  # noqa: E402
from naim3l.datasets import make_unpaired  # noqa: E402
from naim3l.estimators import PerViewRidge, training  # noqa: E402

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


def arrays(tables, n_parts):
    return {view: da.from_array(table, chunks=(-(-len(table) // n_parts), -1))
            for view, table in tables.items()}  # fmt: skip


def partitions(tables, n_parts):
    return {view: dd.from_pandas(table, npartitions=n_parts) for view, table in tables.items()}


def search(**options):
    return NAIM3LCV(**{"lams": [0.1, 0.5, 2.0], "ridges": [0.0, 3.0], "random_state": 0} | options)


def assert_same_weights(model, other, rtol=1e-8):
    assert model.views_ == other.views_
    for view in model.views_:
        largest = np.abs(other.coef_[view]).max()
        for found, expected in ((model.coef_, other.coef_), (model.intercept_, other.intercept_)):
            np.testing.assert_allclose(found[view], expected[view], atol=rtol * largest)
    np.testing.assert_allclose(model.ridge_, other.ridge_, rtol=1e-6)


class TestWeightsOfMemory:
    @pytest.mark.parametrize("n_parts", [1, 2, 7])
    def test_cells_of_all_kinds(self, frames, n_parts):
        X, Y = frames
        model = NAIM3L().fit(X, Y)
        chunked = NAIM3L().fit(partitions(X, n_parts), partitions(Y, n_parts))
        assert_same_weights(chunked, model)
        for view in X:
            found, expected = (of.columns_[view] for of in (chunked, model))
            assert [(c.name, c.use, c.dropped) for c in found] == [
                (c.name, c.use, c.dropped) for c in expected
            ]
        np.testing.assert_allclose(chunked.base_rates_, model.base_rates_)
        np.testing.assert_allclose(chunked.view_rates_["view0"], model.view_rates_["view0"])
        swapped = {view: of[LABELS[::-1]] for view, of in Y.items()}  # matched by name
        assert chunked.score(X, swapped) == pytest.approx(model.score(X, Y))
        np.testing.assert_allclose(
            chunked.decision_function(X)["view0"], model.decision_function(X)["view0"], atol=1e-8
        )

    @pytest.mark.parametrize(
        "features",
        [
            None,
            "scale",
            "paper",
            StandardScaler(),
            make_pipeline(StandardScaler(), PCA(4)),
            {"view0": Recipe(n_components=4), "view1": Kernel("rbf", gamma=0.3, n_landmarks=25)},
            Kernel("rbf", n_landmarks=40),
        ],
        ids=repr,
    )
    def test_features(self, data, features):
        model = NAIM3L(features=features).fit(data.views, data.labels)
        chunked = clone(model).fit(arrays(data.views, 3), arrays(data.labels, 3))
        assert_same_weights(chunked, model)

    @pytest.mark.parametrize("features", ["histogram", Kernel("hellinger", n_landmarks=30)])
    def test_counts(self, data, features):
        counts = {view: np.floor(np.abs(table) * 9) for view, table in data.views.items()}
        model = NAIM3L(features=features).fit(counts, data.labels)
        assert_same_weights(clone(model).fit(arrays(counts, 3), arrays(data.labels, 3)), model)

    @pytest.mark.parametrize(
        "options",
        [
            {"ridge": 2.0, "positive_weight": 3.0, "fit_intercept": False},
            {"variant": "loss"},
            {"variant": "low-rank", "lam": 1.3},
        ],
        ids=repr,
    )
    def test_parameters(self, data, options):
        model = NAIM3L(**options).fit(data.views, data.labels)
        chunked = NAIM3L(**options).fit(arrays(data.views, 4), arrays(data.labels, 4))
        assert_same_weights(chunked, model)

    def test_wide_tables(self, wide):
        X, y, views = wide
        model = NAIM3L(views=views).fit(X, y)
        chunks = (60, -1)
        chunked = clone(model).fit(da.from_array(X, chunks=chunks), da.from_array(y, chunks=chunks))
        assert_same_weights(chunked, model)
        np.testing.assert_allclose(chunked.base_rates_, model.base_rates_)
        np.testing.assert_allclose(chunked.view_rates_["fused"], model.view_rates_["fused"])

    def test_parts_without_rows_or_without_a_view(self, frames):
        X, Y = frames
        X = {view: table.copy() for view, table in X.items()}
        X["view0"].iloc[:100] = None
        bounds = [(0, 100), (100, 100), (100, N_ROWS)]
        parts, labels = (
            {view: dd.from_map(lambda at, table=table: table.iloc[slice(*at)], bounds,
                               meta=table.iloc[:0]) for view, table in of.items()}
            for of in (X, Y)
        )  # fmt: skip
        assert_same_weights(NAIM3L().fit(parts, labels), NAIM3L().fit(X, Y))

    def test_parquet_files(self, frames, tmp_path):
        X, Y = frames
        for view in X:
            (tmp_path / view).mkdir()
            table = pd.concat([X[view], Y[view]], axis=1)
            for k, start in enumerate(range(0, len(table), 110)):
                part = table.iloc[start : start + 110]
                part.to_parquet(tmp_path / view / f"part{k}.parquet", row_group_size=50)
        model = NAIM3L().fit(X, Y)
        folders = {view: tmp_path / view for view in X}
        assert_same_weights(NAIM3L().fit(folders, dict.fromkeys(X, LABELS)), model)
        patterns = {view: f"{tmp_path}/{view}/part*.parquet" for view in X}
        assert_same_weights(NAIM3L().fit(patterns, dict.fromkeys(X, LABELS)), model)
        with pytest.raises(TypeError, match="need labels that are columns of the same files"):
            NAIM3L().fit(folders, Y)

    def test_warnings_are_those_of_memory(self, frames):
        def messages(X, Y):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                NAIM3L().fit(X, Y)
            return {str(one.message) for one in caught if issubclass(one.category, DataWarning)}

        X = frames[0] | {"view1": pd.concat([frames[0]["view1"], frames[1]["view1"]], axis=1)}
        found = messages(partitions(X, 3), partitions(frames[1], 3))
        assert found == messages(X, frames[1]) and any("'a', 'b', 'c'" in text for text in found)


class TestHeldOut:
    def test_decisions_and_comparisons_do_not_depend_on_the_parts(self, wide):
        X, y, views = wide
        decide = Decisions("guarded", fusion="evidence")
        first, second = (NAIM3L(views=views, random_state=3, decide=decide) for _ in range(2))
        for model, n in ((first, 40), (second, 260)):
            model.compare(da.from_array(X, chunks=(n, -1)), da.from_array(y, chunks=(n, -1)))
        np.testing.assert_allclose(
            first.thresholds_["fused"], second.thresholds_["fused"], rtol=1e-6
        )
        np.testing.assert_allclose(first.predict_proba(X), second.predict_proba(X), rtol=1e-6)
        found, expected = (of.held_out_["blocks"][0]["metrics"]["AP"] for of in (first, second))
        assert found["value"] == pytest.approx(expected["value"])
        assert first.uncoupled_.ridge == second.uncoupled_.ridge

    def test_a_search_gives_the_weights_of_the_chosen_pair(self, data):
        models = [search(), search()]
        for model, n in zip(models, (3, 5), strict=True):
            model.compare(arrays(data.views, n), arrays(data.labels, n))
        chunked, again = models
        assert (chunked.lam_, chunked.ridge_) == (again.lam_, again.ridge_)
        for name, column in chunked.cv_results_.items():
            np.testing.assert_allclose(column, again.cv_results_[name], rtol=1e-6)
        model = NAIM3L(chunked.lam_, ridge=chunked.ridge_).fit(data.views, data.labels)
        assert_same_weights(chunked, model)
        # Folds are dealt in another way than in memory, so that metrics agree up to chance.
        in_memory = search().fit(data.views, data.labels)
        assert chunked.best_score_ == pytest.approx(in_memory.best_score_, abs=0.05)

    def test_gammas_are_chosen_on_the_sample(self, data):
        options = {"features": Kernel(n_landmarks=30), "lams": [0.4], "ridges": [1.0]}
        chunked = search(**options).fit(arrays(data.views, 3), arrays(data.labels, 3))
        plain = NAIM3L(features=Kernel(n_landmarks=30)).fit(data.views, data.labels)
        for view in chunked.views_:
            factor = chunked.gamma_[view] / plain.gamma_[view]
            assert np.isclose(factor, (0.5, 1.0, 2.0)).any()

    def test_same_parts_same_bits_on_every_scheduler(self, data):
        def fit(**settings):
            with dask.config.set(**settings):
                return search().fit(arrays(data.views, 4), arrays(data.labels, 4))

        first = fit(scheduler="synchronous")
        other = fit(scheduler="threads", num_workers=5)
        for view in first.views_:
            np.testing.assert_array_equal(first.coef_[view], other.coef_[view])
        np.testing.assert_array_equal(
            first.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"]
        )

    def test_a_sample_is_enough_for_decisions(self, data, monkeypatch):
        monkeypatch.setattr(training, "SAMPLE_ROWS", 120)
        options = {"decide": "guarded", "random_state": 0}
        chunked = NAIM3L(**options).fit(arrays(data.views, 5), arrays(data.labels, 5))
        model = NAIM3L(**options).fit(data.views, data.labels)
        assert_same_weights(chunked, model)
        chances, expected = (of.predict_proba(data.views)["view0"] for of in (chunked, model))
        assert np.abs(chances - expected).mean() < 0.1
        with pytest.warns(DataWarning, match="MinMaxScaler learned from a sample of 120 of"):
            NAIM3L(features=MinMaxScaler()).fit(arrays(data.views, 5), arrays(data.labels, 5))

    @pytest.mark.parametrize("form", ["separate", "wide"])
    def test_a_stopped_fit_resumes_after_the_last_pass(
        self, data, wide, form, tmp_path, monkeypatch
    ):
        n_read = []

        def counted(table):
            options = {"dtype": float, "meta": np.empty((0, 0))}
            return table.map_blocks(lambda block: (n_read.append(1), block)[1], **options)

        model = NAIM3L(features=None, ridge=1.0, decide="guarded", random_state=0)
        y, path = arrays(data.labels, 3), tmp_path / "fit.checkpoint"
        X = {view: counted(table) for view, table in arrays(data.views, 3).items()}
        if form == "wide":
            rows = np.delete(np.arange(260), 200)
            X, y = (da.from_array(table[rows], chunks=(60, -1)) for table in wide[:2])
            X = counted(X)
            model.set_params(views=wide[2])
        expected = clone(model).fit(X, y)
        n_passes = len(n_read)

        def stop(*args):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(NAIM3L, "_solve", stop)
            clone(model).fit(X, y, checkpoint=path)
        n_read.clear()
        resumed = clone(model).fit(X, y, checkpoint=path)
        assert len(n_read) == n_passes / 2  # of the survey and the statistics, the first
        for view in expected.views_:
            np.testing.assert_array_equal(resumed.coef_[view], expected.coef_[view])
        for block, values in expected.thresholds_.items():
            np.testing.assert_array_equal(resumed.thresholds_[block], values)
        with pytest.raises(ValueError, match="another fit"):
            clone(model).set_params(lam=0.1).fit(X, y, checkpoint=path)
        with pytest.raises(ValueError, match="needs a whole number as random_state"):
            clone(model).set_params(random_state=None).fit(X, y, checkpoint=path)


class TestRefused:
    def test_cells_are_named_with_their_part(self, data, frames, tmp_path):
        X = {view: table.copy() for view, table in data.views.items()}
        X["view0"][170, 3] = np.inf
        with pytest.raises(ValueError, match=r"view 'view0', partition 1, row 20, column 3: inf"):
            NAIM3L().fit(arrays(X, 2), arrays(data.labels, 2))
        labels = {view: Y.copy() for view, Y in data.labels.items()}
        labels["view1"][200, 1] = 7
        with pytest.raises(
            ValueError, match=r"view 'view1', partition 1, row 50, label 1: .* 7 is"
        ):
            NAIM3L().fit(arrays(data.views, 2), arrays(labels, 2))
        table = pd.concat([frames[0]["view1"], frames[1]["view1"]], axis=1)
        table.loc[177, "view1_2"] = np.inf
        for k in range(3):
            table.iloc[100 * k : 100 * k + 100].to_parquet(tmp_path / f"x{k}.parquet")
        with pytest.raises(
            ValueError, match=r"view 'view1', .*x1.parquet, row 77, column 'view1_2"
        ):
            NAIM3L().fit({"view1": f"{tmp_path}/x*.parquet"}, {"view1": LABELS})

    def test_what_needs_rows_in_memory(self, data):
        X, Y = arrays(data.views, 2), arrays(data.labels, 2)
        with pytest.raises(ValueError, match="solver='paper' works on rows in memory"):
            NAIM3L(solver="paper").fit(X, Y)
        with pytest.raises(
            TypeError, match="PerViewRidge takes tables in memory; NAIM3L, NAIM3LCV and"
        ):
            PerViewRidge().fit(X, Y)
        with pytest.raises(ValueError, match="n_landmarks=None takes all rows"):
            NAIM3L(features=Kernel(n_landmarks=None)).fit(X, Y)
