"""NAIM3L as a user meets it: both forms, names, containers, imputation, starting weights."""

import pickle
import warnings

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import get_tags
from threadpoolctl import threadpool_limits

import oracle
from naim3l import NAIM3L, DataWarning, evaluate, join_views
from naim3l.datasets import make_unpaired
from naim3l.problem.blocks import blas_threads
from naim3l.problem.boundedness import bounding_ridge
from naim3l.problem.rows import Problem

FEW = {"max_iter": 15, "tol": 0, "random_state": 0}


@pytest.fixture
def apart():
    """Two unpaired tables and their labels, a third of them unknown."""
    data = make_unpaired(
        (60, 50), n_features=(9, 8), n_labels=5, n_latent=4, missing_labels=0.3, random_state=0
    )
    return data.views, data.labels


@pytest.fixture
def wide():
    """One table with a missing view in some rows, complete labels."""
    data = make_unpaired(
        80, n_features=(6, 5), n_labels=4, n_latent=3, aligned=True, random_state=1
    )
    table, views = join_views(data.views)
    table[:15, views["view0"]] = np.nan
    table[20:35, views["view1"]] = np.nan
    return table, data.complete_labels["view0"].astype(float), views


def runaway():
    """A table with more columns than known rows of a label, and few rows with a positive."""
    rng = np.random.default_rng(0)
    Y = (rng.random((200, 6)) < 0.15).astype(float)
    Y[rng.random(Y.shape) > 0.06] = np.nan
    Y[:3], Y[3:6] = 1, 0
    return {"a": rng.normal(size=(200, 30))}, {"a": Y}


def framed(tables, library):
    build = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]
    return {v: build({f"{v}_{j}": column for j, column in enumerate(X.T)})
            for v, X in tables.items()}  # fmt: skip


def labels_framed(labels, library):
    frames = {}
    for view, Y in labels.items():
        columns = {f"tag{k}": column for k, column in enumerate(Y.T)}
        if library == "pandas":
            frames[view] = pd.DataFrame(columns)
        else:
            frames[view] = pl.DataFrame(columns).with_columns(pl.all().fill_nan(None))
    return frames


class TestFit:
    def test_weights_are_those_of_the_paper_s_algorithm(self, apart):
        X, Y = apart
        model = NAIM3L(0.3, transformer=None, solver="paper", **FEW).fit(X, Y)
        signed = [np.where(np.isnan(y), 0, 2 * y - 1) for y in Y.values()]
        W0 = np.random.RandomState(0).uniform(-1, 1, (10 + 9, 5))
        iterates = oracle.iterate(list(X.values()), signed, W0, lam=0.3)
        for _ in range(FEW["max_iter"]):
            W, _, _ = next(iterates)
        ours = [np.vstack([model.coef_[v], model.intercept_[v]]) for v in X]
        np.testing.assert_allclose(np.vstack(ours), W, rtol=1e-9, atol=1e-9)

    def test_learns_planted_labels(self, apart):
        X, Y = apart
        data = make_unpaired(
            (60, 50), n_features=(9, 8), n_labels=5, n_latent=4, missing_labels=0.3, random_state=0
        )
        model = NAIM3L(0.01, transformer=None, max_iter=1000, random_state=0).fit(X, Y)
        result = evaluate(data.complete_labels, model.decision_function(X))
        assert result["AP"] > 0.95

    def test_attributes(self, apart):
        X, Y = apart
        model = NAIM3L(**FEW).fit(X, Y)
        assert model.views_ == ["view0", "view1"]
        assert model.label_names_ == [f"label{k}" for k in range(5)]
        assert model.n_iter_ == len(model.history_) == 15 and not model.converged_
        assert model.n_features_in_ == {"view0": 9, "view1": 8}
        assert not hasattr(model, "feature_names_in_")
        last = model.history_[-1]
        assert model.objective_ == last["objective"]
        parts = [last[name] for name in ("loss", "low_rank", "high_rank", "ridge")]
        assert sum(parts) == pytest.approx(last["objective"])
        assert {"change", "primal_residual", "dual_residual"} < set(last)

    def test_no_rows_are_kept(self, apart):
        X, Y = apart
        small, large = (
            len(pickle.dumps(NAIM3L(**FEW).fit(
                {v: np.tile(x, (times, 1)) for v, x in X.items()},
                {v: np.tile(y, (times, 1)) for v, y in Y.items()})))
            for times in (1, 20)
        )  # fmt: skip
        assert large < 1.05 * small

    def test_row_order_and_missing_rows_do_not_matter(self, apart, rng):
        """Rows of NaN lack the view, and the model is one of sets of rows."""
        X, Y = apart
        holes = {v: np.insert(x, [3, 7], np.nan, axis=0) for v, x in X.items()}
        holes_Y = {v: np.insert(y, [3, 7], 1, axis=0) for v, y in Y.items()}
        order = {v: rng.permutation(len(x)) for v, x in holes.items()}
        model = NAIM3L(**FEW).fit(X, Y)
        other = NAIM3L(**FEW).fit(
            {v: holes[v][order[v]] for v in X}, {v: holes_Y[v][order[v]] for v in X}
        )
        for view, x in X.items():
            np.testing.assert_allclose(
                model.decision_function({view: x})[view],
                other.decision_function({view: x})[view],
                rtol=1e-6, atol=1e-8,
            )  # fmt: skip

    def test_unknown_labels_are_not_used(self, apart):
        """Signed and binary coding say the same."""
        X, Y = apart
        signed = {v: np.where(np.isnan(y), 0, 2 * y - 1).astype(int) for v, y in Y.items()}
        one = NAIM3L(**FEW).fit(X, Y)
        two = NAIM3L(label_coding="signed", **FEW).fit(X, signed)
        np.testing.assert_array_equal(one.coef_["view0"], two.coef_["view0"])
        assert set(np.unique(two.predict(X)["view1"])) <= {-1, 1}
        assert set(np.unique(one.predict(X)["view1"])) <= {0, 1}

    def test_variants_and_ridge(self, apart):
        X, Y = apart
        norms = [
            np.linalg.norm(NAIM3L(ridge=r, max_iter=300, tol=0).fit(X, Y).coef_["view0"])
            for r in (0.0, 1.0, 100.0)
        ]
        assert norms[0] > norms[1] > norms[2]
        one = NAIM3L(low_rank=False, high_rank=False, **FEW).fit(X, Y).history_[-1]
        two = NAIM3L(high_rank=False, **FEW).fit(X, Y).history_[-1]
        assert one["low_rank"] == one["high_rank"] == two["high_rank"] == 0 < two["low_rank"]

    def test_init_and_random_state(self, apart):
        X, Y = apart
        few = {"solver": "paper", "max_iter": 15, "tol": 0}
        first, again, other = (NAIM3L(**few, random_state=s).fit(X, Y) for s in (0, 0, 1))
        np.testing.assert_array_equal(first.coef_["view0"], again.coef_["view0"])
        assert np.abs(first.coef_["view0"] - other.coef_["view0"]).max() > 0
        sizes = {v: first.coef_[v].shape[0] + 1 for v in X}
        drawn = np.random.RandomState(0).uniform(-1, 1, (sum(sizes.values()), 5))
        init = dict(zip(X, np.split(drawn, [sizes["view0"]]), strict=True))
        started = NAIM3L(**few, init=init).fit(X, Y)
        np.testing.assert_array_equal(first.coef_["view1"], started.coef_["view1"])

    def test_no_intercept(self, apart):
        X, Y = apart
        model = NAIM3L(fit_intercept=False, **FEW).fit(X, Y)
        assert not any(b.any() for b in model.intercept_.values())

    def test_convergence_is_reported(self, apart):
        X, Y = apart
        for solver, name in (("fast", "stationarity"), ("paper", "change")):
            with pytest.warns(ConvergenceWarning, match=f"max_iter=3 .*{name}.*Raise max_iter"):
                model = NAIM3L(solver=solver, max_iter=3).fit(X, Y)
            assert not model.converged_
            assert NAIM3L(solver=solver, tol=0.5, max_iter=500).fit(X, Y).converged_

    def test_the_ridge_that_was_used_is_an_attribute(self, apart):
        X, Y = apart
        assert NAIM3L(ridge=0.3, **FEW).fit(X, Y).ridge_ == 0.3
        model = NAIM3L(transformer=None, **FEW).fit(X, Y)
        signed = [np.where(np.isnan(Y[v]), 0, 2 * Y[v] - 1) for v in X]
        problem = Problem([np.asarray(X[v], dtype=float) for v in X], signed)
        assert model.ridge_ == pytest.approx(bounding_ridge(problem, model.lam))

    @pytest.mark.parametrize("choice", [{"solver": "paper"}, {"high_rank": False}])
    def test_an_automatic_ridge_is_zero_for_the_paper_and_without_high_rank(self, choice):
        X, Y = runaway()
        assert NAIM3L(transformer=None, tol=0, max_iter=2, **choice).fit(X, Y).ridge_ == 0

    def test_the_default_converges_where_no_ridge_would_run_away(self):
        X, Y = runaway()
        with pytest.raises(FloatingPointError, match="ridge='auto'"):
            NAIM3L(transformer=None, ridge=0.0, max_iter=2000).fit(X, Y)
        model = NAIM3L(transformer=None, threshold="f1", random_state=0).fit(X, Y)
        assert model.converged_ and model.ridge_ > 0
        assert np.abs(model.decision_function(X)["a"]).max() < 10

    @pytest.mark.parametrize("solver", ["fast", "paper"])
    def test_where_scores_run_away_the_advice_is_a_ridge_and_not_more_iterations(self, solver):
        X, Y = runaway()
        few = {"transformer": None, "solver": solver, "max_iter": 3, "random_state": 0}
        needed = NAIM3L(transformer=None, tol=0, max_iter=1).fit(X, Y).ridge_
        with pytest.warns(ConvergenceWarning, match=f"Use ridge={needed:.2g}") as caught:
            NAIM3L(ridge=0.0, **few).fit(X, Y)
        (message,) = (str(w.message) for w in caught if w.category is ConvergenceWarning)
        assert "Raise max_iter" not in message
        assert ("'auto'" in message) == (solver == "fast")
        with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
            NAIM3L(ridge=2 * needed, **few).fit(X, Y)

    @pytest.mark.parametrize("ridge", ["automatic", -1.0, None, True, 1e30])
    def test_a_ridge_is_a_number_or_auto(self, apart, ridge):
        with pytest.raises(ValueError, match="ridge must be"):
            NAIM3L(ridge=ridge).fit(*apart)

    def test_fast_is_the_default_and_certifies_its_solution(self, apart):
        X, Y = apart
        model = NAIM3L().fit(X, Y)
        assert model.converged_ and model.stationarity_ < 1e-4
        fast = NAIM3L(solver="fast").fit(X, Y)
        np.testing.assert_array_equal(model.coef_["view0"], fast.coef_["view0"])

    def test_interrupt_keeps_the_weights_and_goes_on(self, apart, monkeypatch):
        X, Y = apart
        seen = []

        def interrupt(objective, W, callback, **options):
            def stop(record, W):
                seen.append(record)
                if len(seen) == 4:
                    raise KeyboardInterrupt

            from naim3l.solvers import solve_paper

            return solve_paper(objective, W, callback=stop, **options)

        monkeypatch.setitem(__import__("naim3l.solvers").solvers.SOLVERS, "paper", interrupt)
        model = NAIM3L(solver="paper", **FEW)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, Y)
        assert model.n_iter_ == 4
        assert model.predict(X)["view0"].shape == (60, 5)


class TestContainers:
    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_frames_give_the_weights_of_arrays_and_keep_names(self, apart, library):
        X, Y = apart
        model = NAIM3L(**FEW).fit(framed(X, library), labels_framed(Y, library))
        plain = NAIM3L(**FEW).fit(X, Y)
        np.testing.assert_array_equal(model.coef_["view1"], plain.coef_["view1"])
        assert model.label_names_ == [f"tag{k}" for k in range(5)]
        assert list(model.feature_names_in_["view0"]) == [f"view0_{j}" for j in range(9)]

    def test_sparse_equals_dense(self, apart):
        X, Y = apart
        for transformer in ("scale", "paper", None):
            model = NAIM3L(transformer=transformer, **FEW).fit(X, Y)
            other = NAIM3L(transformer=transformer, **FEW).fit(
                {v: sparse.csc_array(x) for v, x in X.items()}, Y
            )
            np.testing.assert_allclose(
                other.decision_function(X)["view0"],
                model.decision_function(X)["view0"],
                rtol=1e-6, atol=1e-8,
            )  # fmt: skip

    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_set_output_names_labels_and_keeps_the_index(self, apart, library):
        X, Y = apart
        tables, labels = framed(X, library), labels_framed(Y, library)
        model = NAIM3L(**FEW).fit(tables, labels)
        scores = model.decision_function(tables)["view0"]
        model.set_output(transform=library)
        again = clone(model).fit(tables, labels).predict(tables)["view0"]
        assert nw.from_native(again).columns == model.label_names_
        if library == "pandas":
            tables["view0"].index = range(100, 160)
        frame = model.decision_function(tables)["view0"]
        assert nw.from_native(frame).columns == model.label_names_
        np.testing.assert_array_equal(nw.from_native(frame).to_numpy(), scores)
        if library == "pandas":
            assert list(frame.index) == list(range(100, 160))
        model.set_output(transform="default")
        assert isinstance(model.predict(tables)["view0"], np.ndarray)
        with pytest.raises(ValueError, match="transform must be one of"):
            model.set_output(transform="arrow")

    def test_a_view_may_hold_text_if_its_transformer_reads_it(self, apart, rng):
        X, Y = apart
        frame = pd.DataFrame(X["view0"][:, :2], columns=["a", "b"])
        frame["kind"] = rng.choice(["x", "y", "z"], len(frame))
        encoder = make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), ["kind"]),
            (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
        )
        frame.loc[3, "a"] = np.nan
        model = NAIM3L(transformer={"text": encoder, "view1": "scale"}, **FEW)
        model.fit({"text": frame, "view1": X["view1"]}, {"text": Y["view0"], "view1": Y["view1"]})
        assert model.coef_["text"].shape == (5, 5)
        assert np.isfinite(model.decision_function({"text": frame})["text"]).all()


class TestPrediction:
    def test_scores_and_decisions(self, apart):
        X, Y = apart
        model = NAIM3L(**FEW).fit(X, Y)
        scores = model.decision_function(X)["view1"]
        features = model.transformers_["view1"].transform(X["view1"])
        expected = features @ model.coef_["view1"] + model.intercept_["view1"]
        np.testing.assert_allclose(scores, expected)
        np.testing.assert_array_equal(model.predict(X)["view1"], scores > 0)
        assert set(model.predict({"view1": X["view1"][:3]})) == {"view1"}

    def test_a_row_without_the_view_has_no_score_and_no_prediction(self, apart):
        X, Y = apart
        model = NAIM3L(**FEW).fit(X, Y)
        table = X["view0"][:4].copy()
        table[2] = np.nan
        scores = model.decision_function({"view0": table})["view0"]
        assert np.isnan(scores).all(axis=1).tolist() == [False, False, True, False]
        with pytest.raises(ValueError, match=r"view 'view0', row 2: all values are missing"):
            model.predict({"view0": table})

    @pytest.mark.parametrize("library", [None, "pandas", "polars"])
    def test_impute_fills_the_unknown_and_leaves_the_known(self, apart, library):
        X, Y = apart
        model = NAIM3L(**FEW).fit(X, Y)
        labels = Y if library is None else labels_framed(Y, library)
        filled = model.impute_labels(X, labels)
        predicted = model.predict(X)
        for view, y in Y.items():
            assert type(filled[view]) is type(labels[view])
            values = np.asarray(filled[view], dtype=float)
            known = ~np.isnan(y)
            np.testing.assert_array_equal(values[known], y[known])
            np.testing.assert_array_equal(values[~known], predicted[view][~known])
            unknown = np.isnan(np.asarray(labels[view], dtype=float))
            np.testing.assert_array_equal(unknown, ~known)  # the input is not changed in place

    def test_impute_matches_labels_by_name(self, apart):
        X, Y = apart
        labels = labels_framed(Y, "pandas")
        model = NAIM3L(**FEW).fit(X, labels)
        swapped = {v: frame[frame.columns[::-1]] for v, frame in labels.items()}
        one, two = model.impute_labels(X, labels), model.impute_labels(X, swapped)
        pd.testing.assert_frame_equal(two["view0"][one["view0"].columns], one["view0"])
        assert model.score(X, labels) == pytest.approx(model.score(X, swapped))

    def test_impute_leaves_a_row_without_features_unknown(self, apart):
        X, Y = apart
        model = NAIM3L(**FEW).fit(X, Y)
        table, labels = X["view0"].copy(), Y["view0"].copy()
        table[0], labels[0] = np.nan, [np.nan, 1, np.nan, 0, np.nan]
        filled = model.impute_labels({"view0": table}, {"view0": labels})["view0"]
        np.testing.assert_array_equal(filled[0], labels[0])
        assert not np.isnan(filled[1:]).any()

    def test_score_is_the_average_precision_over_views(self, apart):
        X, Y = apart
        model = NAIM3L(**FEW).fit(X, Y)
        assert model.score(X, Y) == pytest.approx(evaluate(Y, model.decision_function(X))["AP"])

    def test_a_score_of_zero_is_no(self, apart):
        X, Y = apart
        model = NAIM3L(**FEW).fit(X, Y)
        model.coef_["view0"][:], model.intercept_["view0"][:] = 0, 0
        assert not model.predict({"view0": X["view0"]})["view0"].any()

    def test_the_coding_is_that_of_the_fit(self, apart):
        X, Y = apart
        model = NAIM3L(**FEW).fit(X, Y)
        assert set(np.unique(model.set_params(label_coding="signed").predict(X)["view0"])) <= {0, 1}


class TestWide:
    def test_equals_tables_apart(self, wide):
        table, Y, views = wide
        model = NAIM3L(views=views, **FEW).fit(table, Y)
        present = {v: ~np.isnan(table[:, c]).any(axis=1) for v, c in views.items()}
        tables = {v: table[present[v]][:, c] for v, c in views.items()}
        apart = NAIM3L(**FEW).fit(tables, {v: Y[present[v]] for v in views})
        for view in views:
            np.testing.assert_array_equal(model.coef_[view], apart.coef_[view])

    def test_scores_are_fused_over_the_views_of_a_row(self, wide):
        table, Y, views = wide
        model = NAIM3L(views=views, **FEW).fit(table, Y)
        scores = {}
        for view, columns in views.items():
            rows = ~np.isnan(table[:, columns]).any(axis=1)
            scores[view] = np.full(Y.shape, np.nan)
            features = model.transformers_[view].transform(table[rows][:, columns])
            scores[view][rows] = features @ model.coef_[view] + model.intercept_[view]
        expected = np.nanmean(np.stack(list(scores.values())), axis=0)
        np.testing.assert_allclose(model.decision_function(table), expected)

    def test_names_and_columns_by_name(self, wide):
        table, Y, views = wide
        frame = pd.DataFrame(table, columns=[f"c{j}" for j in range(table.shape[1])])
        frame.insert(0, "id", "patient")
        named = {v: [f"c{j}" for j in columns] for v, columns in views.items()}
        model = NAIM3L(views=named, **FEW).fit(frame, pd.DataFrame(Y).add_prefix("tag"))
        plain = NAIM3L(views=views, **FEW).fit(table, Y)
        np.testing.assert_array_equal(model.coef_["view0"], plain.coef_["view0"])
        assert model.label_names_ == ["tag0", "tag1", "tag2", "tag3"]
        assert model.feature_names_in_[0] == "id"

    def test_a_row_without_any_view_is_left_out_with_a_warning(self, wide):
        table, Y, views = wide
        table = np.vstack([table, np.full(table.shape[1], np.nan)])
        labels = np.vstack([Y, Y[:1]])
        with pytest.warns(DataWarning, match=r"1 rows \(80\) have no view at all"):
            model = NAIM3L(views=views, **FEW).fit(table, labels)
        with pytest.warns(DataWarning, match="scores are NaN"):
            assert np.isnan(model.decision_function(table)[80]).all()
        with pytest.raises(ValueError, match="row 80: all values are missing"):
            model.predict(table)

    def test_one_column_of_labels_comes_back_as_one(self, wide):
        table, Y, views = wide
        model = NAIM3L(views=views, **FEW).fit(table, Y[:, 0])
        assert model.predict(table).shape == (80,)
        assert 0.5 < model.score(table, Y[:, 0]) <= 1


class TestScikitLearn:
    def test_tags(self):
        tags = get_tags(NAIM3L())
        assert tags.target_tags.required and tags.target_tags.multi_output
        assert tags.target_tags.two_d_labels and tags.input_tags.sparse
        assert tags.input_tags.allow_nan
        assert not get_tags(NAIM3L(transformer="scale")).input_tags.allow_nan
        assert get_tags(NAIM3L(transformer=SimpleImputer())).input_tags.allow_nan

    def test_classes_are_aligned_with_scores(self, apart, wide):
        X, Y = apart
        assert not hasattr(NAIM3L(), "classes_")
        labels = labels_framed(Y, "pandas")
        model = NAIM3L(**FEW).fit(X, labels)
        names = list(model.set_output(transform="pandas").decision_function(X)["view0"].columns)
        assert list(model.classes_) == names == list(labels["view0"].columns)
        table, Y, views = wide
        model = NAIM3L(views=views, **FEW).fit(table, Y)
        assert model.classes_.shape == Y.shape[1:]
        for coding, no in (("binary", 0), ("signed", -1)):
            model = NAIM3L(views=views, label_coding=coding, **FEW)
            model.fit(table, np.where(Y[:, 0] == 1, 1, no))
            assert set(model.predict(table)) <= set(model.classes_) == {no, 1}
            assert list(model.classes_) == [no, 1]

    def test_a_failed_fit_leaves_no_model(self, apart):
        X, Y = apart
        model = NAIM3L(**FEW).fit(X, Y)
        with pytest.raises(ValueError, match="rows of labels"):
            model.fit(X, {v: y[1:] for v, y in Y.items()})
        with pytest.raises(NotFittedError):
            model.predict(X)

    def test_recipes_work_when_all_transformers_give_frames(self, apart):
        X, Y = apart
        plain = NAIM3L(**FEW).fit(X, Y)
        with config_context(transform_output="pandas"):
            framed_ = NAIM3L(**FEW).fit(X, Y)
        np.testing.assert_allclose(framed_.coef_["view0"], plain.coef_["view0"])

    def test_threads_are_those_that_blas_may_use(self, apart):
        with threadpool_limits(1, user_api="blas"):
            assert blas_threads() == 1
        assert blas_threads() >= 1

    def test_grid_search_in_a_pipeline_with_unknown_labels(self, wide, rng):
        table, Y, views = wide
        Y[rng.random(Y.shape) < 0.3] = np.nan
        pipeline = make_pipeline(StandardScaler(), NAIM3L(views=views, **FEW))
        search = GridSearchCV(pipeline, {"naim3l__lam": [0.1, 1.0]}, cv=3, error_score="raise")
        search.fit(table, Y)
        assert search.predict(table).shape == Y.shape
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert cross_val_score(NAIM3L(views=views, **FEW), table, Y, cv=3).shape == (3,)

    @pytest.mark.parametrize("transformer", ["scale", "paper", "histogram", None])
    def test_pickle_and_skops_give_the_same_predictions(self, apart, transformer, tmp_path):
        X, Y = apart
        tables, labels = (
            framed({v: np.abs(x) for v, x in X.items()}, "pandas"),
            labels_framed(Y, "pandas"),
        )
        model = NAIM3L(transformer=transformer, **FEW).fit(tables, labels)
        skops.io.dump(model, tmp_path / "model.skops")
        untrusted = skops.io.get_untrusted_types(file=tmp_path / "model.skops")
        assert all(name.startswith("naim3l.") for name in untrusted)
        loaded = skops.io.load(tmp_path / "model.skops", trusted=untrusted)
        for copy in (loaded, pickle.loads(pickle.dumps(model))):
            np.testing.assert_array_equal(
                copy.decision_function(tables)["view0"], model.decision_function(tables)["view0"]
            )
            assert copy.label_names_ == model.label_names_ and copy.history_ == model.history_

    def test_refit_in_another_form_forgets_the_first(self, apart, wide):
        X, Y = apart
        table, y, _ = wide
        model = NAIM3L(**FEW).fit(framed(X, "pandas"), Y)
        rows = ~np.isnan(table).any(axis=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(table[rows], y[rows])
        assert model.views_ == ["all"] and model.n_features_in_ == 11
        assert not hasattr(model, "feature_names_in_")
