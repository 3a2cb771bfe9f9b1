"""Why a row has its probabilities, held against the probabilities and the definitions."""

from dataclasses import replace
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from sklearn.preprocessing import StandardScaler

from naim3l import NAIM3L, Decisions, Kernel, Recipe, join_views
from naim3l.decisions.calibration import Calibration
from naim3l.estimators import BlendNAIM3L, FusedRidge, PerViewLogistic, PerViewRidge
from naim3l.explain import draw_explanations, explain_row
from naim3l.explain.contributions import column_contributions, estimate_parts
from naim3l.explain.rows import bars_of, points_of

LABELS = ["flu", "asthma", "gout", "cough"]
WORDS = ["fever", "headache", "nausea", "dizzy", "rash", "tired", "thirst", "itch", "cramp", "pain"]


def study(n=120, seed=0, absent=True):
    """Two tables with numbers, categories, free text and missing cells, and ids in common."""
    rng, X, Y = np.random.default_rng(seed), {}, {}
    for v, view in enumerate(("clinic", "lab")):
        cause = rng.normal(size=(n, 2))
        numbers = cause @ rng.normal(size=(2, 3)) * [1, 40, 0.1] + rng.normal(size=(n, 3)) + 5
        table = pd.DataFrame(numbers, columns=[f"{view}{c}" for c in "abc"])
        table[f"{view}_ward"] = np.array(["north", "south", None])[rng.integers(0, 3, n)]
        chosen = rng.integers(0, 10, (n, 4)) * (cause[:, :1] > -0.5)
        table[f"{view}_note"] = [" ".join(WORDS[w] for w in row) for row in chosen]
        table = table.mask(rng.random(table.shape) < 0.1)
        yes = rng.random((n, 4)) < expit(2 * cause @ rng.normal(size=(2, 4)) - 0.7)
        labels = pd.DataFrame(yes * 1.0, columns=LABELS).mask(rng.random((n, 4)) < 0.2)
        ids = [f"P{i}" for i in range(v * n // 2, v * n // 2 + n)]  # half of them in both tables
        X[view], Y[view] = table.set_axis(ids, axis=0), labels.set_axis(ids, axis=0)
    if absent:
        Y["lab"]["gout"] = np.nan
    return X, Y


def total(explained):
    return explained.base_log_odds + sum(part.log_odds for part in explained.parts)


def check(found, probabilities, exact):
    """Parts sum to the log-odds of the probability, and belong to columns and tables."""
    assert found
    for each in found:
        p = probabilities[each.label]
        rounding = 2.2e-16 / (p * (1 - p))  # of p, in log-odds
        assert total(each) == pytest.approx(logit(p), abs=1e-9 + rounding)
        assert each.log_odds == pytest.approx(total(each), abs=1e-9)
        known = sum(part.log_odds for part in each.parts if part.kind == "known")
        of_tables = each.base_log_odds + sum(each.tables.values()) + known
        assert of_tables == pytest.approx(each.log_odds, abs=1e-9)
        points = sum(points_of(each, part.log_odds) for part in each.parts)
        assert points == pytest.approx(100 * (each.probability - each.base_rate), abs=1e-7)
        assert each.exact is exact


MODELS = {
    "auto": NAIM3L(decide="guarded"),
    "PCA": NAIM3L(features=Recipe(n_components=3), decide="guarded"),
    "as it is": NAIM3L(features=Recipe(None), ridge=10.0, decide="guarded"),
    "ridge": PerViewRidge(decide="f1"),
    "logistic": PerViewLogistic(C=20.0, decide="guarded"),
    "linear kernel": NAIM3L(features=Kernel("linear", n_landmarks=40), decide="guarded"),
    "linear blend": BlendNAIM3L([("a", PerViewLogistic()), ("b", PerViewRidge())], random_state=0),
    "rbf": NAIM3L(features=Kernel("rbf", n_landmarks=40), ridge=1.0, decide="guarded"),
    "blend": BlendNAIM3L(random_state=0),
}


@pytest.fixture(scope="module")
def tables():
    return study()


@pytest.fixture(scope="module", params=MODELS)
def fitted(request, tables):
    model = MODELS[request.param].set_params(random_state=0).fit(*tables)
    return model, request.param not in ("rbf", "blend")


class TestPartsSumToTheLogOdds:
    def test_of_a_table(self, fitted, tables):
        (model, exact), (X, _) = fitted, tables
        for view in X:
            P = model.predict_proba({view: X[view]})[view]
            for i in (0, 7, 60):
                found = explain_row(model, {view: X[view]}, X[view].index[i])
                assert len(found) == 4
                check(found, dict(zip(LABELS, P[i], strict=True)), exact)

    def test_of_several_tables(self, fitted, tables):
        (model, exact), (X, _) = fitted, tables
        for row in ("P3", "P70", "P170"):  # of which the second is in both tables
            found = explain_row(model, X, row)
            fused = model.fuse(X)
            assert set(found[0].tables) == {view for view in X if row in X[view].index}
            check(found, fused.loc[row], exact)

    def test_given_known_labels(self, fitted, tables):
        (model, exact), (X, Y) = fitted, tables
        P = model.predict_proba(X, known=Y)
        for view, row in (("clinic", "P5"), ("lab", "P160")):
            known = {view: Y[view]}
            found = explain_row(model, {view: X[view]}, row, known=known)
            unknown = Y[view].columns[Y[view].loc[row].isna()]
            assert {each.label for each in found} == {*unknown}
            i = X[view].index.get_loc(row)
            check(found, dict(zip(LABELS, P[view][i], strict=True)), exact) if found else None

    def test_scores_are_those_of_the_view(self, fitted, tables):
        (model, exact), (X, _) = fitted, tables
        one = {view: table.iloc[[4]] for view, table in X.items()}
        for view, scores in model._view_scores(one).items():
            parts = column_contributions(model, view, one)
            np.testing.assert_allclose(parts.scores, scores[0], atol=1e-9)
            assert parts.columns == list(X[view].columns)
            assert parts.exact is exact


@pytest.mark.parametrize("fusion", ["evidence", "mean"])
def test_parts_sum_in_a_wide_table(fusion):
    X, Y = study(absent=False)
    wide, views = join_views(X)
    labels = Y["clinic"].combine_first(Y["lab"]).reindex(wide.index)
    decide = Decisions("guarded", fusion=fusion)
    model = PerViewLogistic(views=views, decide=decide, random_state=0).fit(wide, labels)
    P = pd.DataFrame(model.predict_proba(wide), index=wide.index, columns=LABELS)
    Q = pd.DataFrame(model.predict_proba(wide, known=labels), index=wide.index, columns=LABELS)
    for row in ("P3", "P70", "P170"):
        check(explain_row(model, wide, row), P.loc[row], exact=True)
        if labels.loc[row].isna().any():
            check(explain_row(model, wide, row, known=labels), Q.loc[row], exact=True)


def test_contributions_are_weights_times_distances_over_the_length(tables):
    X, Y = ({view: of.iloc[:, :3] for view, of in each.items()} for each in tables)
    X = {view: of.fillna(of.mean()) for view, of in X.items()}
    model = PerViewRidge(decide="guarded", random_state=0).fit(X, Y)
    x, mean, std = X["lab"].iloc[9], X["lab"].mean(), X["lab"].std(ddof=0)
    standard = (x - mean) / std
    recipe = model.features_["lab"].recipe
    expected = standard.to_numpy()[:, None] * (recipe.axes.T @ model.coef_["lab"])
    found = column_contributions(model, "lab", {"lab": X["lab"].iloc[[9]]})
    length = np.linalg.norm(recipe.axes @ standard.to_numpy())
    np.testing.assert_allclose(found.parts, expected / length, rtol=1e-9)
    np.testing.assert_allclose(found.start, model.intercept_["lab"])


@pytest.mark.parametrize("features", [Recipe(None), None, StandardScaler()])
def test_the_mean_in_place_of_a_value_takes_away_what_it_adds(features):
    rng = np.random.default_rng(0)
    X = {"lab": rng.normal(size=(80, 4)) @ rng.normal(size=(4, 4))}
    X["lab"] -= X["lab"].mean(axis=0)  # so that the mean is 0 where no plan knows it
    X["lab"] += 3 * isinstance(features, Recipe | StandardScaler)
    centred = X["lab"] - X["lab"].mean(axis=0)
    Y = {"lab": (centred @ rng.normal(size=(4, 3)) > 0) * 1.0}
    model = PerViewRidge(features=features, decide="guarded", random_state=0).fit(X, Y)
    one = {"lab": X["lab"][[5]]}
    before, found = model.view_scores(one)["lab"][0], column_contributions(model, "lab", one)
    for j, mean in enumerate(X["lab"].mean(axis=0)):
        changed = one["lab"].copy()
        changed[0, j] = mean
        after = model.view_scores({"lab": changed})["lab"][0]
        np.testing.assert_allclose(before - after, found.parts[j], atol=1e-9)


def test_columns_without_weight_or_value_add_nothing(tables):
    X, Y = tables
    model = PerViewLogistic(features=Recipe(None), decide="guarded", random_state=0).fit(X, Y)
    row = X["lab"].index[X["lab"]["laba"].isna()][0]  # filled with the mean
    model.coef_["lab"][1] = 0  # of labb
    for each in explain_row(model, {"lab": X["lab"]}, row):
        added = {part.name: part for part in each.parts}
        assert added["labb"].log_odds == 0
        assert added["laba"].log_odds == pytest.approx(0, abs=1e-12)
        assert added["laba"].value is None


def test_parts_of_a_category_are_those_of_its_encoded_columns(tables):
    X, Y = tables
    X = {"lab": X["lab"][["laba", "lab_ward"]].dropna()}
    Y = {"lab": Y["lab"].loc[X["lab"].index].drop(columns="gout")}
    model = PerViewRidge(features=Recipe(None), decide="guarded", random_state=0).fit(X, Y)
    one = {"lab": X["lab"].iloc[[0]]}
    ward = column_contributions(model, "lab", one).parts[1]
    names = model.features_["lab"].plan.encoded_names()
    own = names.index(f"lab_ward_{one['lab'].iloc[0, 1]}")
    np.testing.assert_allclose(ward, model.coef_["lab"][own])


def test_estimates_are_shapley_values_of_a_product():
    """Of x y, each factor has one half of the product in all orders; a third has nothing."""
    moves, start = np.diag([2.0, 3.0, 1.0]), np.zeros(3)
    found = estimate_parts(moves, start, lambda F: F[:, :1] * F[:, 1:2])
    np.testing.assert_allclose(found.ravel(), [3, 3, 0])


def test_estimates_of_a_linear_score_are_exact():
    rng = np.random.default_rng(0)
    moves, W = rng.normal(size=(6, 4)), rng.normal(size=(4, 2))
    found = estimate_parts(moves, rng.normal(size=4), lambda F: F @ W + 1)
    np.testing.assert_allclose(found, moves @ W, atol=1e-12)


def test_slopes_of_a_curve_give_its_evidence():
    one = np.ones(5)
    curve = Calibration(one * 0.3, one * 2, one * 1.7, one * 0.2, one * -1, one > 0)
    scores = np.array([0.3, 1.0, -5.0, 40.0, -70.0])  # the last two are compressed
    evidence = curve.slopes_at(scores) * (scores - curve.centre) - curve.shift
    np.testing.assert_allclose(evidence, curve.evidence(scores), rtol=1e-12)


def test_known_labels_share_what_they_add_by_their_weights(tables):
    """Of two known labels, each has its term of the expected residual of an unknown one."""
    X, Y = study(absent=False)
    model = NAIM3L(decide="guarded", random_state=0).fit(X, Y)
    bridge, log_odds = model.decisions_.bridge, np.array([-1.0, 0.4, 0.1, -2.0])
    truth = np.array([1.0, np.nan, 0.0, np.nan])
    found = bridge.shares(log_odds, truth)
    assert bridge.strength > 0
    p = expit(log_odds[[0, 2]])
    r = ([1, 0] - p) / np.sqrt(p * (1 - p))
    R = bridge.residuals.matrix()
    B = np.linalg.inv(R[np.ix_([0, 2], [0, 2])] + bridge.noise * np.eye(2))
    terms = (R[np.ix_([1, 3], [0, 2])] @ B * r).T
    np.testing.assert_allclose(found[0, [1, 3]] / found[1, [1, 3]], terms[0] / terms[1])
    added = bridge.log_odds(log_odds[None], truth[None])[0] - log_odds
    np.testing.assert_allclose(found.sum(axis=0), added, atol=1e-12)


def test_labels_that_a_table_never_records_name_those_that_tell(tables):
    X, Y = tables
    model = NAIM3L(decide="guarded", random_state=0).fit(X, Y)
    (found,) = explain_row(model, {"lab": X["lab"]}, "P100", labels=["gout"])
    assert found.through == {"lab": []}  # too few labels could be checked
    assert "lab never records gout: it is its rate there" in found.describe()


@pytest.mark.parametrize("absent", ["bridged", "unusual"])
def test_parts_of_borrowed_labels_sum(absent):
    """One cause of all labels, so that those that are recorded tell about one that is not."""
    rng, X, Y = np.random.default_rng(3), {}, {}
    for view in ("clinic", "lab", "survey"):
        cause = 2 * rng.normal(size=(200, 1))
        X[view] = cause + rng.normal(size=(200, 3)) * [0.3, 1, 2]
        Y[view] = (rng.random((200, 4)) < expit(2 * cause + rng.normal(size=4) / 2)) * 1.0
    Y["lab"][:, 2] = np.nan
    model = NAIM3L(decide="guarded", random_state=0, features=Recipe(None), ridge=1.0).fit(X, Y)
    assert model.decisions_.borrowing["lab"].strength > 0
    if absent == "unusual":
        X["lab"] = X["lab"] * 5  # beyond four standard deviations
    P = model.predict_proba(X)["lab"]
    for row in range(5):
        found = explain_row(model, {"lab": X["lab"]}, row)
        check(found, dict(zip(model.label_names_, P[row], strict=True)), exact=True)
        (borrowed,) = [each for each in found if each.label == "label2"]
        assert max(abs(part.log_odds) for part in borrowed.parts) > 0.1
        assert "it is predicted there through" in borrowed.describe()


@pytest.fixture(scope="module")
def model(tables):
    return PerViewLogistic(decide="guarded", random_state=0).fit(*tables)


class TestWords:
    def test_columns_rest_and_known_labels_are_named(self, model, tables):
        X, Y = tables
        known = {"lab": Y["lab"].assign(flu=1.0, asthma=np.nan, cough=np.nan)}
        found = explain_row(model, X, "P70", known=known)
        assert [each.label for each in found][-1] != "flu"
        text = found[0].describe(most=2)
        assert text.startswith(f"P70, {found[0].label}: ")
        assert "flu = yes" in text and "By table: clinic (" in text
        assert "8 other columns" in text or "9 other columns" in text
        assert explain_row(model, X, "P70")[0].describe().count("=") <= 5

    def test_bars_sum_to_the_change(self, model, tables):
        for each in explain_row(model, tables[0], "P70"):
            bars = sum(added for *_, added in bars_of(each, most=2))
            assert bars == pytest.approx(each.log_odds - each.base_log_odds)

    def test_labels_come_in_order_of_their_ratio(self, model, tables):
        found = explain_row(model, tables[0], "P70")
        ratios = [each.probability / each.base_rate for each in found]
        assert ratios == sorted(ratios, reverse=True)
        asked = explain_row(model, tables[0], "P70", labels=["gout", "flu"])
        assert [each.label for each in asked] == ["gout", "flu"]


def test_a_figure_ends_at_the_probability_and_has_signs_of_formulas(model, tables):
    X, Y = tables
    known = {"lab": Y["lab"].assign(flu=1.0)}
    found = explain_row(model, X, "P70", known=known)
    strange = replace(found[0], label="a $x_1$ \n")
    fig = draw_explanations([strange, *found[1:]], most=2)
    assert len(fig.axes) == len(found)
    for ax, each in zip(fig.axes, found, strict=True):
        (start, end), bars = (line.get_xdata()[0] for line in ax.lines[-2:]), ax.patches
        assert (start, end) == pytest.approx((each.base_log_odds, each.log_odds))
        assert len(bars) == len(bars_of(each, 2)) == len(ax.get_yticks())
        assert sum(bar.get_width() for bar in bars) == pytest.approx(end - start)
    fig.savefig(BytesIO())  # without an error of a formula that has no end
    with pytest.raises(ValueError, match="no label to draw"):
        draw_explanations([])


class TestErrors:
    def test_a_row_that_is_not_there(self, model, tables):
        with pytest.raises(ValueError, match=r"no row 'P7O'; did you mean 'P7"):
            explain_row(model, tables[0], "P7O")

    def test_an_id_that_is_there_twice(self, model, tables):
        lab = tables[0]["lab"]
        twice = pd.concat([lab, lab.iloc[[3]]])
        with pytest.raises(ValueError, match="2 rows have the id 'P63'"):
            explain_row(model, {"lab": twice}, "P63")

    def test_a_row_without_values(self, model, tables):
        lab = tables[0]["lab"].copy()
        lab.iloc[2] = None
        with pytest.raises(ValueError, match="'P62': all values are missing"):
            explain_row(model, {"lab": lab}, "P62")

    def test_labels_that_are_unknown_to_the_model_or_known_of_the_row(self, model, tables):
        X, Y = tables
        with pytest.raises(ValueError, match="no label 'flue'; did you mean 'flu'"):
            explain_row(model, X, "P70", labels=["flue"])
        known = {"lab": Y["lab"].assign(flu=1.0)}
        with pytest.raises(ValueError, match="'flu' is known of row 'P70': yes"):
            explain_row(model, X, "P70", labels=["flu"], known=known)
        both = known | {"clinic": Y["clinic"].assign(flu=0.0)}
        with pytest.raises(ValueError, match="'flu' is yes in one known table, no in another"):
            explain_row(model, X, "P70", known=both)

    def test_models_without_probabilities_or_that_need_all_views(self, tables):
        X, Y = study(absent=False)
        with pytest.raises(ValueError, match="explanations need probabilities"):
            explain_row(PerViewRidge().fit(X, Y), X, "P70")
        wide, views = join_views({view: of.iloc[:, :3] for view, of in X.items()})
        labels = Y["clinic"].combine_first(Y["lab"]).reindex(wide.index)
        model = FusedRidge(views=views, decide="guarded", random_state=0).fit(wide, labels)
        with pytest.raises(ValueError, match="FusedRidge scores all views of a row at once"):
            explain_row(model, wide, "P70")


def test_arrays_are_explained_by_position(tables):
    X = {view: of.iloc[:, :3].fillna(0).to_numpy() for view, of in tables[0].items()}
    Y = {view: of.to_numpy() for view, of in tables[1].items()}
    model = PerViewRidge(decide="guarded", random_state=0).fit(X, Y)
    found = explain_row(model, X, 8)
    check(found, dict(zip(model.label_names_, model.fuse(X)[8], strict=True)), exact=True)
    assert {part.name for part in found[0].parts} == {"column 0", "column 1", "column 2", ""}


@pytest.mark.torch
def test_networks_are_estimated(tables):
    from naim3l.deep import DeepNAIM3L, Training

    X, Y = tables
    training = Training(max_epochs=3)
    given = {"training": training, "features": Recipe(), "device": "cpu"}
    model = DeepNAIM3L(**given, decide="guarded", random_state=0).fit(X, Y)
    found = explain_row(model, {"lab": X["lab"]}, "P90")
    P = model.predict_proba({"lab": X["lab"].loc[["P90"]]})["lab"][0]
    for each in found:
        p = P[LABELS.index(each.label)]
        assert total(each) == pytest.approx(logit(p), abs=1e-4)  # of single precision
        assert not each.exact and "estimated" in each.describe()
