"""NAIM3L: its weights are those of the paper, and what a fit reports, refuses and advises."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import oracle
from naim3l import NAIM3L, Decisions, Kernel, Recipe, evaluate, join_views
from naim3l.datasets import make_unpaired
from naim3l.files.checkpoint import Checkpoint
from naim3l.problem.rows import Problem
from naim3l.solvers import SOLVERS, solve_paper

FEW = {"max_iter": 15, "tol": 0, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    """Two unpaired tables and their labels, a third of them unknown."""
    return make_unpaired(
        (60, 50), n_features=(9, 8), n_labels=5, n_latent=4, missing_labels=0.3, random_state=0
    )


@pytest.fixture
def separate(data):
    return dict(data.views), dict(data.labels)


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


def signed(Y):
    return [np.where(np.isnan(y), 0, 2 * y - 1) for y in Y.values()]


def stacked(model):
    return np.vstack([np.vstack([model.coef_[v], model.intercept_[v]]) for v in model.views_])


def assert_same_scores(first, second, X):
    found, expected = (model.decision_function(X) for model in (first, second))
    for view in X:
        np.testing.assert_allclose(found[view], expected[view], rtol=1e-6, atol=1e-8)


class TestSolution:
    @pytest.mark.parametrize(
        ("variant", "terms"),
        [("full", {}), ("low-rank", {"high_rank": False}),
         ("loss", {"low_rank": False, "high_rank": False})],
    )  # fmt: skip
    def test_iterates_of_the_paper(self, separate, variant, terms):
        X, Y = separate
        model = NAIM3L(0.3, variant=variant, features=None, solver="paper", **FEW).fit(X, Y)
        W0 = np.random.RandomState(0).uniform(-1, 1, (10 + 9, 5))
        iterates = oracle.iterate(list(X.values()), signed(Y), W0, lam=0.3, **terms)
        for _ in range(FEW["max_iter"]):
            W, _, _ = next(iterates)
        np.testing.assert_allclose(stacked(model), W, rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize(
        ("variant", "terms"), [("full", {}), ("low-rank", {"high_rank": False})]
    )
    def test_the_fast_solver_ends_where_the_gradient_is_zero(self, separate, variant, terms):
        X, Y = separate
        options = {"lam": 0.1, "ridge": 2.0}
        model = NAIM3L(**options, variant=variant, features=None, tol=1e-8, max_iter=3000)
        W = stacked(model.fit(X, Y))
        given = list(X.values()), signed(Y), W
        size = np.abs(oracle.gradient(list(X.values()), signed(Y), np.zeros_like(W), **options))
        assert np.abs(oracle.gradient(*given, **options, **terms)).max() < 1e-5 * size.max()
        value = oracle.objective(*given, **options, **terms)
        assert model.objective_ == pytest.approx(value, rel=1e-7)
        assert model.converged_ and model.stationarity_ < 1e-8

    def test_learns_planted_labels(self, data):
        model = NAIM3L(0.01, features=None, max_iter=1000).fit(data.views, data.labels)
        result = evaluate(data.complete_labels, model.decision_function(data.views))
        assert result["AP"] > 0.95
        known = evaluate(data.labels, model.decision_function(data.views))["AP"]
        assert model.score(data.views, data.labels) == pytest.approx(known)

    def test_the_order_of_rows_and_rows_without_features_do_not_matter(self, separate, rng):
        X, Y = separate
        holes = {v: np.insert(x, [3, 7], np.nan, axis=0) for v, x in X.items()}
        labels = {v: np.insert(y, [3, 7], 1, axis=0) for v, y in Y.items()}
        order = {v: rng.permutation(len(x)) for v, x in holes.items()}
        shuffled = ({v: of[v][order[v]] for v in X} for of in (holes, labels))
        assert_same_scores(NAIM3L(**FEW).fit(*shuffled), NAIM3L(**FEW).fit(X, Y), X)

    def test_a_wide_table_has_the_weights_of_its_views_apart(self, wide):
        table, Y, views = wide
        model = NAIM3L(views=views, **FEW).fit(table, Y)
        present = {v: ~np.isnan(table[:, c]).any(axis=1) for v, c in views.items()}
        tables = {v: table[present[v]][:, c] for v, c in views.items()}
        apart = NAIM3L(**FEW).fit(tables, {v: Y[present[v]] for v in views})
        for view in views:
            np.testing.assert_allclose(model.coef_[view], apart.coef_[view], rtol=1e-9)

    def test_a_yes_that_weighs_three_is_three_rows_of_it(self, separate):
        """Without the regulariser, to which repeated rows would add."""
        X, Y = separate
        options = {"variant": "loss", "features": None, "ridge": 1.0, "tol": 1e-9}
        weighted = NAIM3L(positive_weight=3.0, max_iter=500, **options).fit(X, Y)
        only_yes = {v: np.where(y == 1, y, np.nan) for v, y in Y.items()}
        repeated = (
            {v: np.vstack([x] * 3) for v, x in X.items()},
            {v: np.vstack([y, only_yes[v], only_yes[v]]) for v, y in Y.items()},
        )
        expected = NAIM3L(max_iter=500, **options).fit(*repeated)
        assert_same_scores(weighted, expected, X)

    def test_start_weights_and_random_state(self, separate):
        X, Y = separate
        few = {"solver": "paper", "max_iter": 15, "tol": 0}
        first, again, other = (NAIM3L(**few, random_state=s).fit(X, Y) for s in (0, 0, 1))
        np.testing.assert_array_equal(first.coef_["view0"], again.coef_["view0"])
        assert np.abs(first.coef_["view0"] - other.coef_["view0"]).max() > 0
        sizes = {v: first.coef_[v].shape[0] + 1 for v in X}
        drawn = np.random.RandomState(0).uniform(-1, 1, (sum(sizes.values()), 5))
        init = dict(zip(X, np.split(drawn, [sizes["view0"]]), strict=True))
        started = NAIM3L(**few, init=init).fit(X, Y)
        np.testing.assert_array_equal(first.coef_["view1"], started.coef_["view1"])


class TestReports:
    def test_attributes(self, separate):
        model = NAIM3L(**FEW).fit(*separate)
        assert model.n_iter_ == len(model.history_) == 15 and not model.converged_
        last = model.history_[-1]
        assert model.objective_ == last["objective"]
        parts = [last[name] for name in ("loss", "low_rank", "high_rank", "ridge")]
        assert sum(parts) == pytest.approx(last["objective"])
        assert {"change", "primal_residual", "dual_residual"} < set(last)

    def test_no_rows_are_kept(self, separate):
        many = [{v: np.tile(table, (20, 1)) for v, table in of.items()} for of in separate]
        small, large = (len(pickle.dumps(NAIM3L(**FEW).fit(*of))) for of in (separate, many))
        assert large < 1.05 * small

    def test_convergence(self, separate):
        for solver, name in (("fast", "stationarity"), ("paper", "change")):
            with pytest.warns(ConvergenceWarning, match=f"max_iter=3 .*{name}.*Raise max_iter"):
                model = NAIM3L(solver=solver, max_iter=3).fit(*separate)
            assert not model.converged_
            assert NAIM3L(solver=solver, tol=0.5, max_iter=500).fit(*separate).converged_

    def test_the_ridge_that_was_used(self, separate):
        X, Y = separate
        assert NAIM3L(ridge=0.3, **FEW).fit(X, Y).ridge_ == 0.3
        model = NAIM3L(features=None, **FEW).fit(X, Y)
        problem = Problem(list(X.values()), signed(Y))
        assert model.ridge_ == pytest.approx(problem.bounding_ridge(model.lam))

    @pytest.mark.parametrize("choice", [{"solver": "paper"}, {"variant": "low-rank"}])
    def test_an_automatic_ridge_is_zero_for_the_paper_and_without_high_rank(self, choice):
        X, Y = runaway()
        assert NAIM3L(features=None, tol=0, max_iter=2, **choice).fit(X, Y).ridge_ == 0

    def test_the_default_converges_where_no_ridge_would_run_away(self):
        X, Y = runaway()
        with pytest.raises(FloatingPointError, match="ridge='auto'"):
            NAIM3L(features=None, ridge=0.0, max_iter=2000).fit(X, Y)
        model = NAIM3L(features=None, decide="f1", random_state=0).fit(X, Y)
        assert model.converged_ and model.ridge_ > 0
        assert np.abs(model.decision_function(X)["a"]).max() < 10

    @pytest.mark.parametrize("solver", ["fast", "paper"])
    def test_where_scores_run_away_the_advice_is_a_ridge_and_not_more_iterations(self, solver):
        X, Y = runaway()
        few = {"features": None, "solver": solver, "max_iter": 3, "random_state": 0}
        needed = NAIM3L(features=None, tol=0, max_iter=1).fit(X, Y).ridge_
        with pytest.warns(ConvergenceWarning, match=f"Use ridge={needed:.2g}") as caught:
            NAIM3L(ridge=0.0 if solver == "paper" else 1e-3 * needed, **few).fit(X, Y)
        (message,) = (str(w.message) for w in caught if w.category is ConvergenceWarning)
        assert "Raise max_iter" not in message and ("'auto'" in message) == (solver == "fast")
        with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
            NAIM3L(ridge=2 * needed, **few).fit(X, Y)

    def test_without_a_ridge_it_is_refused_before_the_first_iteration(self, monkeypatch):
        X, Y = runaway()
        needed = NAIM3L(features=None, tol=0, max_iter=1).fit(X, Y).ridge_
        monkeypatch.setitem(SOLVERS, "auto", None)
        with pytest.raises(
            FloatingPointError, match=f"'a' .* Use ridge={needed:.2g} or ridge='auto'"
        ):
            NAIM3L(features=None, ridge=0.0).fit(X, Y)

    def test_an_interrupt_keeps_the_weights_of_the_last_iteration(self, separate, monkeypatch):
        seen = []

        def interrupt(objective, W, callback, **options):
            def stop(record, W):
                seen.append(record)
                if len(seen) == 4:
                    raise KeyboardInterrupt

            return solve_paper(objective, W, callback=stop, **options)

        monkeypatch.setitem(SOLVERS, "paper", interrupt)
        model = NAIM3L(solver="paper", **FEW)
        with pytest.raises(KeyboardInterrupt):
            model.fit(*separate)
        assert model.n_iter_ == 4 and model.predict(separate[0])["view0"].shape == (60, 5)

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"solver": "paper", "positive_weight": 2.0}, "positive_weight needs solver='fast'"),
            ({"solver": "paper", "device": "auto"}, "device needs solver='fast'"),
            ({"init": {"view0": 0}}, r"init has views \['view0'\], the data .*'view1'"),
            ({"init": {"view0": "x", "view1": 0}}, r"init\['view0'\] must be numbers"),
            ({"init": {"view0": [[1.0]], "view1": [[1.0]]}},
             r"init\['view0'\] must be finite weights of shape \(10, 5\)"),
        ],
    )  # fmt: skip
    def test_parameters_that_do_not_go_together(self, separate, parameters, message):
        with pytest.raises(ValueError, match=message):
            NAIM3L(features=None, **parameters).fit(*separate)


class TestFeatures:
    """``features=`` per view: what each kind computes is tested with the features."""

    def test_each_view_has_its_own(self, separate):
        X, Y = separate
        X["view2"], Y["view2"] = np.abs(X["view0"]), Y["view0"]
        features = {
            "view0": None,
            "view1": Recipe(n_components=3),
            "view2": Kernel("hellinger", n_landmarks=7),
        }
        model = NAIM3L(features=features, random_state=0, **{"max_iter": 15, "tol": 0}).fit(X, Y)
        assert {v: W.shape for v, W in model.coef_.items()} == {
            "view0": (9, 5), "view1": (3, 5), "view2": (7, 5)
        }  # fmt: skip
        assert list(model.dual_coef_) == list(model.kernel_maps_) == ["view2"]
        assert list(model.columns_) == ["view1", "view2"]  # numbers as they are have no plan
        expected = X["view0"] @ model.coef_["view0"] + model.intercept_["view0"]
        np.testing.assert_allclose(model.decision_function(X)["view0"], expected)
        kernel = model.kernel_maps_["view2"]
        assert kernel.name == "hellinger" and model.gamma_ == dict.fromkeys(X) | {
            "view2": kernel.gamma
        }

    def test_a_transformer_is_fitted_to_the_table_as_it_is(self, separate, rng):
        X, Y = separate
        frame = pd.DataFrame(X["view0"][:, :2].copy(), columns=["a", "b"])
        frame["kind"] = rng.choice(["x", "y", "z"], len(frame))
        frame.loc[3, "a"] = np.nan
        encoder = make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), ["kind"]),
            (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
        )
        given = {"text": frame, "view1": X["view1"]}
        model = NAIM3L(features={"text": encoder, "view1": "scale"}, **FEW)
        model.fit(given, {"text": Y["view0"], "view1": Y["view1"]})
        by_hand = clone(encoder).fit_transform(frame) @ model.coef_["text"]
        scores = model.decision_function({"text": frame})["text"]
        np.testing.assert_allclose(scores, by_hand + model.intercept_["text"])
        assert not hasattr(encoder, "transformers_")  # the user's own is not fitted


class TestDecisions:
    def test_numbers_are_thresholds_and_nothing_is_learned(self, separate):
        X, Y = separate
        sign = NAIM3L(**FEW).fit(X, Y)
        scores = sign.decision_function(X)["view0"]
        for decide, at in ((0.3, [0.3] * 5), ({"label1": -0.2}, [0, -0.2, 0, 0, 0])):
            model = NAIM3L(decide=decide, **FEW).fit(X, Y)
            np.testing.assert_array_equal(model.predict(X)["view0"], scores > at)
            np.testing.assert_array_equal(model.thresholds_["view1"], at)
            assert not model.has_probabilities and not hasattr(model, "predict_proba")
            np.testing.assert_array_equal(model.coef_["view1"], sign.coef_["view1"])

    @pytest.mark.parametrize("rule", ["guarded", "cardinality", "f1", "half"])
    def test_learned_rules_have_probabilities_and_the_weights_of_the_sign(self, separate, rule):
        X, Y = separate
        model, sign = (NAIM3L(decide=of, **FEW).fit(X, Y) for of in (rule, "sign"))
        np.testing.assert_array_equal(model.coef_["view0"], sign.coef_["view0"])
        scores, chances = model.decision_function(X), model.predict_proba(X)
        for view in X:
            at = model.thresholds_[view]
            np.testing.assert_array_equal(model.predict(X)[view], scores[view] > at)
            assert ((chances[view] > 0) & (chances[view] < 1)).all()
            order = np.argsort(scores[view][:, 0])
            assert (np.diff(chances[view][order, 0]) >= 0).all()
            if rule == "half":  # up to the rounding of the threshold
                sure = np.abs(chances[view] - 0.5) > 1e-6
                decided = model.predict(X)[view] == 1
                np.testing.assert_array_equal(decided[sure], (chances[view] > 0.5)[sure])

    def test_a_rule_without_probabilities_and_probabilities_without_a_rule(self, separate):
        X, Y = separate
        with_both = NAIM3L(decide="f1", **FEW).fit(X, Y)
        rule = NAIM3L(decide=Decisions("f1", probabilities=False), **FEW).fit(X, Y)
        chances = NAIM3L(decide=Decisions("sign", probabilities=True), **FEW).fit(X, Y)
        assert not hasattr(rule, "predict_proba")
        np.testing.assert_array_equal(rule.thresholds_["view0"], with_both.thresholds_["view0"])
        assert not chances.thresholds_["view0"].any()
        np.testing.assert_array_equal(
            chances.predict_proba(X)["view1"], with_both.predict_proba(X)["view1"]
        )


class TestScikitLearn:
    def test_grid_search_in_a_pipeline_with_unknown_labels(self, wide, rng):
        table, Y, views = wide
        Y[rng.random(Y.shape) < 0.3] = np.nan
        pipeline = make_pipeline(StandardScaler(), NAIM3L(views=views, **FEW))
        search = GridSearchCV(pipeline, {"naim3l__lam": [0.1, 1.0]}, cv=3, error_score="raise")
        search.fit(table, Y)
        assert search.predict(table).shape == Y.shape
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert cross_val_score(NAIM3L(views=views, **FEW), table, Y, cv=3).shape == (3,)

    def test_clone_copies_parameters_and_nothing_that_was_learned(self, separate):
        features = {"view0": Kernel(n_landmarks=5), "view1": Recipe(n_components=2)}
        model = NAIM3L(0.2, features=features, decide=Decisions("f1"), **FEW).fit(*separate)
        copied = clone(model)
        assert copied.get_params() == model.get_params()
        assert not [name for name in vars(copied) if name.endswith("_")]


class TestCheckpoints:
    @pytest.mark.parametrize("decide", ["sign", "f1"])
    def test_a_stopped_fit_resumes_to_the_same_bits(self, separate, decide, tmp_path, monkeypatch):
        path = tmp_path / "fit.checkpoint"
        model = NAIM3L(np.float32(0.3), decide=decide, ridge=1.0, mu=np.float32(4), random_state=0)
        whole = clone(model).fit(*separate)
        monkeypatch.setitem(Checkpoint.__init__.__kwdefaults__, "every", 0.0)
        put, n_written = Checkpoint.put, []

        def stop(self, section, arrays):
            put(self, section, arrays)
            n_written.append(section)
            if len(n_written) == 4:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Checkpoint, "put", stop)
            clone(model).fit(*separate, checkpoint=path)
        resumed = clone(model).fit(*separate, checkpoint=path)
        assert resumed.history_ == whole.history_
        for view in whole.views_:
            np.testing.assert_array_equal(resumed.coef_[view], whole.coef_[view])
            np.testing.assert_array_equal(resumed.thresholds_[view], whole.thresholds_[view])
        resumed.save(tmp_path / "model.naim3l")
        assert not path.exists()
        with pytest.raises(ValueError, match="solver='fast'; 'paper' keeps no state"):
            NAIM3L(solver="paper").fit(*separate, checkpoint=path)
