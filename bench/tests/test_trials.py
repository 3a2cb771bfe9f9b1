import numpy as np
import pytest

from naim3l import Recipe, evaluate
from naim3l_bench.datasets import MultiView, StoredView
from naim3l_bench.trials import (
    draw_challenge,
    hide_test_views,
    make_trial,
    masks_digest,
    measure,
    spectrum_of_scores,
)

SETTINGS = {"alpha": 0.5, "beta": 0.5, "aligned": False, "seed": 3}


def trial_of(source, features="train", **changes):
    settings = SETTINGS | changes
    challenge = draw_challenge(source, settings)
    return challenge, make_trial(source, challenge, features=features, seed=settings["seed"])


def test_clean_features_do_not_depend_on_test_rows(source):
    challenge, trial = trial_of(source)
    stored = {}
    for name, X in source.views.items():
        X = X.copy()
        X[challenge.test] *= 100  # only test rows change
        stored[name] = StoredView.in_memory(X)
    other = make_trial(MultiView(stored, source.labels), challenge, features="train", seed=3)
    for view in source.views:
        np.testing.assert_array_equal(trial.X_train[view], other.X_train[view])


def test_paper_features_do_depend_on_them(source):
    challenge, trial = trial_of(source, "all")
    _, clean = trial_of(source, "train")
    assert not np.allclose(trial.X_train["view0"], clean.X_train["view0"])
    rows = [challenge.train_order[0], challenge.test_order[0]]
    norms = [np.linalg.norm(X["view0"], axis=1) for X in (trial.X_train, trial.X_test)]
    assert [len(norm) for norm in norms] == [len(r) for r in rows]
    np.testing.assert_allclose(np.concatenate(norms), 1)  # the recipe ends with unit rows


@pytest.fixture
def holed(source):
    """The same data, with some views really missing."""
    observed = np.ones((90, 3), dtype=bool)
    observed[::7, 1] = False
    stored = source.views.stored
    return MultiView(stored, source.labels, observed=observed)


@pytest.mark.parametrize("features", ["train", "all"])
@pytest.mark.parametrize("aligned", [True, False])
def test_features_follow_their_rows(holed, features, aligned):
    challenge, trial = trial_of(holed, features, aligned=aligned)
    for v, view in enumerate(holed.views):
        X, rows = holed.views[view], challenge.train_order[v]
        fitted_on = rows if features == "train" else np.flatnonzero(holed.observed[:, v])
        recipe, _ = Recipe("paper").fit(X[fitted_on])
        for part, order in ((trial.X_train, rows), (trial.X_test, challenge.test_order[v])):
            expected = np.concatenate([recipe.apply(X[[i]]) for i in order])
            np.testing.assert_allclose(part[view], expected, atol=1e-9)


def test_labels_follow_their_rows(source):
    challenge, trial = trial_of(source)
    for v, view in enumerate(source.views):
        known = source.labels[challenge.train_order[v]]
        Y = trial.Y_train[view]
        np.testing.assert_array_equal(Y[~np.isnan(Y)], known[~np.isnan(Y)])
        np.testing.assert_array_equal(
            trial.truth[trial.test_rows[view]], source.labels[challenge.test_order[v]]
        )
    hidden = np.isnan(np.concatenate(list(trial.Y_train.values()))).mean()
    assert hidden == pytest.approx(0.5, abs=0.1)


def test_masks_digest_tells_draws_apart(source):
    assert masks_digest(*trial_of(source)) == masks_digest(*trial_of(source))
    assert masks_digest(*trial_of(source)) != masks_digest(*trial_of(source, seed=4))
    assert masks_digest(*trial_of(source)) != masks_digest(*trial_of(source, beta=0.3))


def test_half_of_the_test_views_are_hidden_and_every_row_keeps_one():
    shown = hide_test_views(np.ones((101, 2), dtype=bool), seed=0)
    assert (shown.sum(axis=0) == 51).all() and shown.any(axis=1).all()
    lone = np.eye(2, dtype=bool)[np.zeros(10, dtype=int)]  # every row has the first view only
    assert hide_test_views(lone, seed=0) is None


def test_measures_are_those_of_the_definition(source, rng):
    _, trial = trial_of(source)
    scores = {view: rng.normal(size=(len(X), 5)) for view, X in trial.X_test.items()}
    found = measure(trial, scores)
    per_view = [evaluate(trial.truth[trial.test_rows[v]], S)["AP"] for v, S in scores.items()]
    assert found["per view"]["AP"] == pytest.approx(np.mean(per_view))
    # Fused by hand, row by row.
    fused = []
    for i in range(len(trial.truth)):
        rows = [
            scores[view][list(trial.test_rows[view]).index(i)]
            for v, view in enumerate(scores)
            if trial.shown[i, v]
        ]
        fused.append(np.mean(rows, axis=0))
    assert found["fused"] == pytest.approx(evaluate(trial.truth, np.array(fused), protocol="fused"))


def test_spectrum_of_known_scores(source, rng):
    _, trial = trial_of(source)
    direction = np.array([3.0, 4, 0, 0, 0]) / 5
    scores = {view: rng.normal(size=(len(X), 1)) * direction for view, X in trial.X_test.items()}
    found = spectrum_of_scores(trial, scores)
    stacked = np.concatenate(list(scores.values()))
    assert found["rank"] == 1
    assert found["trace_norm"] == pytest.approx(np.linalg.norm(stacked))
    truth = np.concatenate([trial.truth[trial.test_rows[view]] for view in scores])
    norms = [np.linalg.norm(stacked[truth[:, k] == 1]) for k in range(5)]
    assert found["label_trace_norm_mean"] == pytest.approx(np.mean(norms))
    assert found["label_trace_norm_median"] == pytest.approx(np.median(norms))
