"""Blends: what they compute from their members, and how members are judged and stored."""

import copy
import pickle

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import FunctionTransformer

from naim3l import NAIM3L, NAIM3LCV, Decisions, Kernel, join_views, load
from naim3l.datasets import make_unpaired
from naim3l.estimators import BlendNAIM3L, FusedRidge, PerViewBoosting, PerViewRidge
from naim3l.files.stored import dump

RIDGE = ("ridge", PerViewRidge(1.0))
KERNEL = ("kernel", PerViewRidge(1.0, features=Kernel("rbf", n_landmarks=20)))


@pytest.fixture(scope="module")
def data():
    return make_unpaired(
        90, n_features=(9, 8), n_labels=4, missing_labels=0.3, noise=0.5, random_state=0
    )


@pytest.fixture(scope="module")
def model(data):
    return BlendNAIM3L([RIDGE, KERNEL], random_state=0).fit(data.views, data.labels)


def test_scores_are_base_rates_and_weighted_evidence_of_the_members(model, data):
    for view, found in model.decision_function(data.views).items():
        expected = base = logit(model.view_rates_[view])
        for m, (name, member) in enumerate(model.members_.items()):
            curve = model.blends_[view].calibrations[m]
            scores = member.decision_function(data.views)[view]
            expected = expected + model.weights_[name] * (curve.log_odds(scores) - base)
        np.testing.assert_allclose(found, expected)


def test_one_member_ranks_the_rows_of_a_label_as_that_member_does(data):
    model = BlendNAIM3L([RIDGE], random_state=0).fit(data.views, data.labels)
    alone = PerViewRidge(1.0).fit(data.views, data.labels).decision_function(data.views)
    for view, scores in model.decision_function(data.views).items():
        np.testing.assert_array_equal(rankdata(scores, axis=0), rankdata(alone[view], axis=0))


def test_equal_weights_are_the_mean_of_log_odds(data):
    model = BlendNAIM3L([RIDGE, KERNEL], weights="equal", random_state=0)
    model.fit(data.views, data.labels)
    for view, found in model.decision_function(data.views).items():
        log_odds = [
            curve.log_odds(member.decision_function(data.views)[view])
            for curve, member in zip(
                model.blends_[view].calibrations, model.members_.values(), strict=True
            )
        ]
        np.testing.assert_allclose(found, np.mean(log_odds, axis=0))
    with pytest.raises(ValueError, match="'weights' parameter of BlendNAIM3L"):
        BlendNAIM3L([RIDGE], weights="all").fit(data.views, data.labels)


def test_members_are_judged_on_entries_that_they_have_not_seen(rng):
    # Labels have nothing to do with the rows, so that only what was learned by heart seems right.
    X = {view: rng.normal(size=(200, 6)) for view in ("a", "b")}
    Y = {view: (rng.random((200, 5)) < 0.4).astype(float) for view in X}
    by_heart = PerViewRidge(1e-6, features=Kernel("rbf", n_landmarks=None, gamma=5.0))
    model = BlendNAIM3L([("by heart", by_heart)], random_state=0).fit(X, Y)
    for view, scores in model.members_["by heart"].decision_function(X).items():
        np.testing.assert_array_equal(scores > 0, Y[view] > 0)  # it is
    new = {view: rng.normal(size=(200, 6)) for view in X}
    for scores in model.decision_function(new).values():
        assert (scores - logit(model.base_rates_)).std() < 0.4
    alone = by_heart.set_params(decide="half", random_state=0)
    problem, scores, final = alone._fit_held_out(X, Y)
    assert (np.sign(final) == problem.Y).all()
    known = np.isfinite(scores)
    assert abs(np.corrcoef(scores[known], problem.Y[known])[0, 1]) < 0.15


def first_columns(X):
    return X[:, :3]


def last_columns(X):
    return X[:, 3:]


def test_blend_is_more_accurate_than_its_members(rng):
    """Of which one sees the first columns, and the other one the last."""
    X, Y = {}, {}
    for view in ("a", "b"):
        X[view] = rng.normal(size=(600, 6))
        Y[view] = (X[view] @ rng.normal(size=(6, 4)) > 0) * 1.0
    train, test = ({v: T[rows] for v, T in X.items()} for rows in (slice(300), slice(300, None)))
    labels, truth = ({v: T[rows] for v, T in Y.items()} for rows in (slice(300), slice(300, None)))
    members = [
        (part.__name__, PerViewRidge(1.0, features=FunctionTransformer(part)))
        for part in (first_columns, last_columns)
    ]
    model = BlendNAIM3L(members, random_state=0).fit(train, labels)

    def losses(predicted):
        return np.mean([log_loss(truth[v].ravel(), P.ravel()) for v, P in predicted.items()])

    alone = []
    for m, member in enumerate(model.members_.values()):
        scores = member.decision_function(test)
        alone.append(
            losses(
                {v: model.blends_[v].calibrations[m].probabilities(S) for v, S in scores.items()}
            )
        )
    assert losses(model.predict_proba(test)) < min(alone) - 0.1


def noise_of_rows(X):
    """Numbers that have nothing to do with the rows, but are the same for the same rows."""
    return np.sin(1e6 * np.hstack([X, X**2]))


@pytest.mark.filterwarnings("ignore::naim3l.DataWarning")
@pytest.mark.parametrize(("n", "known"), [(100, 0.05), (100, 0.3), (400, 1.0)])
def test_beside_a_member_of_noise_a_good_one_is_blended_to_no_worse(n, known):
    losses = {"good": [], "blend": []}
    for seed in range(5):
        rng, X, Y, new, truth = np.random.default_rng(seed), {}, {}, {}, {}
        W = rng.normal(size=(6, 4))
        for view in ("a", "b"):
            rows = rng.normal(size=(n + 500, 6))
            labels = (rows @ W + rng.normal(size=(n + 500, 4)) > 0).astype(float)
            X[view], new[view], truth[view] = rows[:n], rows[n:], labels[n:]
            Y[view] = np.where(rng.random((n, 4)) < known, labels[:n], np.nan)
        noise = PerViewRidge(1.0, features=FunctionTransformer(noise_of_rows))
        members = [("good", PerViewRidge(1.0)), ("noise", noise)]
        model = BlendNAIM3L(members, random_state=seed).fit(X, Y)
        for name, P in (
            ("good", model.members_["good"].predict_proba(new)),
            ("blend", model.predict_proba(new)),
        ):
            losses[name].append(np.mean([log_loss(truth[v].ravel(), P[v].ravel()) for v in P]))
    apart = np.subtract(losses["blend"], losses["good"])
    assert apart.mean() <= 2 * apart.std(ddof=1) / 5**0.5 + 0.002


def test_probabilities_are_calibrated_and_decisions_follow_them(model, data):
    scores, P = model.decision_function(data.views), model.predict_proba(data.views)
    for view, labels in model.predict(data.views).items():
        np.testing.assert_array_equal(labels, scores[view] > 0)
        curve = model.decisions_.calibrations[view]
        np.testing.assert_allclose(P[view], curve.probabilities(scores[view]))


def test_boosting_is_a_member_and_is_stored_with_a_blend(data, tmp_path):
    members = [RIDGE, ("trees", PerViewBoosting(max_trees=20))]
    model = BlendNAIM3L(members, random_state=0).fit(data.views, data.labels)
    model.save(tmp_path / "blend.naim3l")
    loaded = load(tmp_path / "blend.naim3l")
    for view, P in model.predict_proba(data.views).items():
        np.testing.assert_array_equal(loaded.predict_proba(data.views)[view], P)
    trees = loaded.members_["trees"]
    assert trees.n_trees_ == model.members_["trees"].n_trees_ and trees.max_trees == 20


@pytest.mark.parametrize("fusion", ["mean", "evidence"])
def test_one_wide_table(fusion):
    drawn = make_unpaired(80, n_features=(9, 8), n_labels=3, aligned=True, random_state=0)
    wide, views = join_views(drawn.views)
    wide[:5, views["view1"]] = np.nan
    decide = Decisions("sign", fusion=fusion)
    model = BlendNAIM3L([RIDGE, KERNEL], views=views, decide=decide, random_state=0)
    labels = drawn.labels["view0"]
    model.fit(wide, labels)
    assert {view: len(columns) for view, columns in model.columns_.items()} == {
        "view0": 9,
        "view1": 8,
    }
    fused = model.decision_function(wide)
    assert fused.shape == (80, 3) and np.isfinite(fused).all()
    assert model.predict_proba(wide).shape == (80, 3) and model.score(wide, labels) > 0.7
    if fusion == "mean":
        found = np.nanmean(list(model.view_scores(wide).values()), axis=0)
        np.testing.assert_allclose(fused, found)
    search = GridSearchCV(clone(model), {"ridge__ridge": [0.1, 10.0]}, cv=2)
    assert search.fit(wide, labels).best_params_["ridge__ridge"] in (0.1, 10.0)


def test_default_members_and_a_search_among_them(data):
    model = BlendNAIM3L(random_state=0).fit(data.views, data.labels)
    assert list(model.members_) == ["coupled", "kernel", "boosting"]
    search = NAIM3LCV(lams=[0.1], ridges=[1.0], metric="log-loss")
    again = BlendNAIM3L([("search", search), RIDGE], random_state=0).fit(data.views, data.labels)
    assert 0 < again.score(data.views, data.labels) <= 1


def test_same_seed_same_blend_and_members_are_not_changed(model, data):
    member = NAIM3L(0.2)
    one, other = (
        BlendNAIM3L([("m", member), RIDGE], random_state=3).fit(data.views, data.labels)
        for _ in range(2)
    )
    for name, weights in one.weights_.items():
        np.testing.assert_array_equal(other.weights_[name], weights)
    assert not hasattr(member, "coef_") and not member.has_probabilities
    copied = pickle.loads(pickle.dumps(model))
    for view, scores in model.decision_function(data.views).items():
        np.testing.assert_array_equal(copied.decision_function(data.views)[view], scores)


def test_parameters_of_members_are_parameters_of_the_blend():
    model = BlendNAIM3L([("a", NAIM3L(0.2)), ("b", PerViewRidge(3.0))])
    assert model.get_params()["b__ridge"] == 3.0 and "b" not in model.get_params(deep=False)
    copied = clone(model).set_params(a__lam=0.5, b=PerViewRidge(4.0))
    assert copied.members[0][1].lam == 0.5 and copied.members[1][1].ridge == 4.0
    assert model.members[0][1].lam == 0.2


@pytest.mark.parametrize(
    ("members", "error", "message"),
    [
        ([], ValueError, "members must be a list of pairs"),
        ([PerViewRidge()], ValueError, "members must be a list of pairs"),
        ([RIDGE, RIDGE], ValueError, "not unique"),
        ([("logistic", LogisticRegression())], TypeError, r"members\['logistic'\].*Logistic"),
        ([("aligned", FusedRidge())], TypeError, "scores every view by itself.*FusedRidge"),
    ],
)
def test_members_that_cannot_be_blended_are_refused(members, error, message, data):
    with pytest.raises(error, match=message):
        BlendNAIM3L(members).fit(data.views, data.labels)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.members_.clear(), "weights of .*, members"),
        (lambda m: m.members_.update(more=m), "members_ of 'more' should be a NAIM3L or"),
        (lambda m: m.members_["ridge"].names_.views.reverse(), "names of views=2, and has"),
        (lambda m: m.members_["ridge"].coef_.clear(), "coef_ in members_ of 'ridge' should be"),
        (lambda m: m.weights_.pop("ridge"), "weights of .*, members"),
        (lambda m: m.weights_["ridge"].fill(np.nan), "weights_ of 'ridge' should be finite"),
        (lambda m: m.blends_.pop("view0"), "blends_ should be a mapping of the views"),
        (lambda m: m.blends_["view0"].calibrations.pop(), "members=1"),
    ],
)
def test_parts_that_do_not_fit_are_refused(model, change, reason):
    copied = copy.deepcopy(model)
    copied.names_ = copy.deepcopy(copied.names_)  # members share it
    change(copied)
    with pytest.raises(ValueError, match=f"cannot be saved: .*{reason}"):
        dump(copied, BlendNAIM3L)
