"""Why a row has its probabilities, held against the probabilities and the definitions."""

from dataclasses import replace
from importlib import import_module
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from sklearn.preprocessing import StandardScaler

from naim3l import (
    NAIM3L,
    Decisions,
    Kernel,
    LabelSubspaceRidge,
    Recipe,
    estimators,
    join_views,
)
from naim3l.decisions.calibration import Calibration
from naim3l.estimators import (
    BlendNAIM3L,
    FusedRidge,
    PerViewBoosting,
    PerViewLogistic,
    PerViewRidge,
)
from naim3l.estimators.aligned import AlignedModel
from naim3l.estimators.linear import LinearViewModel
from naim3l.explain import draw_explanations, explain_row
from naim3l.explain.contributions import column_contributions, estimate_parts
from naim3l.explain.rows import bars_of, points_of
from naim3l.report import summarise

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
    (found,) = explain_row(model, {"lab": X["lab"]}, "P100", labels="gout")
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
        with pytest.raises(ValueError, match="'flu' is yes in one known table or row, no"):
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


def sharing(n=150, seed=0, same=False):
    """Tables that know age and sex, which decide on two labels; with ids in common, or the same."""
    rng, X, Y = np.random.default_rng(seed), {}, {}
    people = pd.DataFrame({"age": rng.integers(20, 90, 2 * n), "sex": rng.integers(0, 2, 2 * n)})
    for v, view in enumerate(("clinic", "lab", "survey")):
        of = people.iloc[:n] if same else people.iloc[v * n // 2 : v * n // 2 + n]
        age, sex = of.to_numpy().T
        own = pd.DataFrame(rng.normal(size=(n, 4)), columns=[f"{view}{j}" for j in range(4)])
        table = own.assign(age=age + 0.0, sex=np.where(sex, "f", "m"))
        table = table.mask(rng.random(table.shape) < 0.1)
        risk = np.column_stack(
            [(age - 60) / 12, 1.5 * sex + (age - 80) / 30, 1.5 * own[f"{view}0"]]
        )
        yes = pd.DataFrame((rng.random(risk.shape) < expit(risk)) * 1.0, columns=LABELS[:3])
        ids = [f"P{i}" for i in of.index]
        X[view], Y[view] = table.set_axis(ids, axis=0), yes.set_axis(ids, axis=0)
    X["survey"] = X["survey"].drop(columns="sex")
    return X, Y


SHARING = {
    "NAIM3L": NAIM3L(decide="guarded"),
    "ridge": PerViewRidge(decide="f1"),
    "subspace": LabelSubspaceRidge(decide="guarded"),
    "kernel": NAIM3L(features=Kernel("rbf", n_landmarks=40), ridge=1.0, decide="guarded"),
    "boosting": PerViewBoosting(max_trees=10, decide="guarded"),
    "blend": BlendNAIM3L([("a", PerViewLogistic()), ("b", PerViewRidge())]),
}


@pytest.fixture(scope="module", params=SHARING)
def shared(request):
    """A model of tables that share columns, and whether its parts are exact."""
    X, Y = sharing()
    Y["survey"]["gout"] = np.nan  # borrowed
    model = SHARING[request.param].set_params(random_state=0).fit(X, Y)
    members = getattr(model, "members_", {"": model}).values()
    assert all({"clinic", "lab"} <= {*of.shared_.stackings} for of in members)
    return model, request.param not in ("kernel", "boosting")


class TestSharedColumns:
    def test_parts_sum_in_a_table(self, shared):
        model, exact = shared
        X, _ = sharing(60, seed=1)
        for view, table in X.items():
            P = model.predict_proba({view: table})[view]
            for i in range(0, 60, 13):
                found = explain_row(model, {view: table}, table.index[i])
                check(found, dict(zip(model.label_names_, P[i], strict=True)), exact)
                assert not found[0].shared
                # A column is one part, whether it is in one score or in both.
                assert [part.name for part in found[0].parts].count("age") == 1

    @pytest.mark.parametrize("same", [False, True])
    def test_parts_sum_in_several_tables(self, shared, same):
        model, exact = shared
        X, Y = sharing(60, seed=1, same=same)
        X["lab"].iloc[3] = None
        fused = model.fuse(X)
        for row in ("P3", "P29", "P31", "P59", "P70"):
            if row in fused.index:
                check(explain_row(model, X, row), fused.loc[row], exact)
        known = {"clinic": Y["clinic"].assign(flu=1.0, asthma=np.nan, gout=np.nan)}
        found = explain_row(model, X, "P31", known=known)
        bridge, log_odds = model.decisions_.bridge, logit(fused.loc["P31"].to_numpy())
        given = bridge.log_odds(log_odds[None], np.array([[1.0, np.nan, np.nan]]))[0]
        check(found, dict(zip(model.label_names_, expit(given), strict=True)), exact)

    def test_a_missing_number_adds_nothing(self, shared):
        model, exact = shared
        X, _ = sharing(60, seed=1)
        one = X["lab"].iloc[[5]].assign(age=np.nan)
        for each in explain_row(model, {"lab": one}, "P35"):
            (part,) = [part for part in each.parts if part.name == "age"]
            assert part.value is None
            assert part.log_odds == pytest.approx(0, abs=1e-9 if exact else 0.2)


def test_what_tables_share_counts_once():
    """Age alone tells: for a person in two tables it adds no more than in one."""
    model = PerViewRidge(decide="guarded", random_state=0).fit(*sharing(400))
    X, _ = sharing(100, seed=1, same=True)
    X = {view: X[view].dropna() for view in ("clinic", "lab")}

    def of_age(tables, row):
        (found,) = explain_row(model, tables, row, labels=["flu"])
        return sum(part.log_odds for part in found.parts if part.name == "age"), found

    once, twice = [], []
    for row in X["clinic"].index.intersection(X["lab"].index):
        both, found = of_age(X, row)
        twice.append(both)
        once.append(np.mean([of_age({view: table}, row)[0] for view, table in X.items()]))
        assert found.shared == ["age", "sex"]
        assert "Columns that the tables share are counted once: age, sex." in found.describe()
        assert found.describe().count("age = ") <= 1  # without the name of a table
    assert np.polyfit(once, twice, 1)[0] == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("number", [0, 2])
def test_rows_with_one_id_are_averaged_as_in_fuse(number):
    """The answer of an id is that of the mean scores of its rows, with or without known labels."""
    model = list(SHARING.values())[number].set_params(random_state=0).fit(*sharing())
    X, Y = sharing(40, seed=1, same=True)
    for view in ("lab", "survey"):
        rows = X[view].iloc[[*range(len(X[view])), X[view].index.get_loc("P3")]]
        last = np.arange(len(rows)) == len(rows) - 1
        X[view] = rows.mask(np.broadcast_to(last[:, None], rows.shape))
        later = X[view].iloc[[7]].assign(age=31.0)
        X[view] = pd.concat([X[view], later.set_axis(["P3"])])
    for tables in (X, {"lab": X["lab"]}):
        found = explain_row(model, tables, "P3")
        check(found, model.fuse(tables).loc["P3"], exact=True)
        assert found[0].averaged == {v: [3, 40, 41] for v in ("lab", "survey") if v in tables}
        said = "Scores are means over the rows of lab with this id: 3, 40, 41 (from 0)."
        assert said in found[0].describe()
    (part,) = [p for p in found[0].parts if p.name == "age"]
    assert part.value == [X["lab"]["age"].iloc[3], 31]
    labels = Y["lab"].reindex(X["lab"].index[:40]).to_numpy()
    known = pd.DataFrame(np.vstack([labels, labels[:2]]), X["lab"].index, LABELS[:3])
    known.iloc[[3, 40, 41]] = [[1, np.nan, np.nan], [np.nan] * 3, [0, np.nan, np.nan]]
    with pytest.raises(ValueError, match="'flu' is yes in one known table or row, no in"):
        explain_row(model, {"lab": X["lab"]}, "P3", known={"lab": known})
    known.iloc[41] = [np.nan, 1, np.nan]
    (left,) = explain_row(model, {"lab": X["lab"]}, "P3", known={"lab": known})
    assert left.label == "gout"


def test_a_wide_table_with_rows_of_one_id():
    X, Y = study(absent=False)
    wide, views = join_views(X)
    labels = Y["clinic"].combine_first(Y["lab"]).reindex(wide.index)
    model = PerViewRidge(views=views, decide="guarded", random_state=0).fit(wide, labels)
    twice = pd.concat([wide, wide.iloc[[3]]])
    with pytest.raises(ValueError, match=r"rows 3, 180 have the id 'P3', .* X.iloc\[\[3\]\]"):
        explain_row(model, twice, "P3")


QUICK = {"NAIM3LCV": {"lams": 2, "ridges": (1.0,), "cv": 3}, "PerViewBoosting": {"max_trees": 10}}
OF_KERNELS = {"features": Kernel("rbf", n_landmarks=30)}
CLASSES = [name for name in estimators.__all__ if isinstance(getattr(estimators, name), type)]
EVERY = [(name, QUICK.get(name, {})) for name in CLASSES]
EVERY += [("NAIM3L", OF_KERNELS), ("LabelSubspaceRidge", OF_KERNELS)]
EVERY += [pytest.param("DeepNAIM3L", {"device": "cpu"}, marks=pytest.mark.torch)]


@pytest.mark.parametrize(("name", "options"), EVERY)
def test_every_model_is_explained_and_reported_or_says_what_to_do(name, options):
    """Its rows: parts sum. Its report: there is one, or the error names another way."""
    home = estimators
    if name == "DeepNAIM3L":
        home = import_module("naim3l.deep")
        options = options | {"network": home.Network((4,)), "training": home.Training(max_epochs=2)}
    X, Y = sharing(80)
    X = {view: table.drop(columns="sex", errors="ignore").fillna(60) for view, table in X.items()}
    model = getattr(home, name)(decide="guarded", random_state=0, **options)
    if isinstance(model, AlignedModel):
        wide, views = join_views(X)
        labels = pd.concat(Y.values()).groupby(level=0).max().reindex(wide.index)
        model.set_params(views=views).fit(wide, labels)
        with pytest.raises(ValueError, match=f"{name} scores all views .* such as NAIM3L"):
            explain_row(model, wide, "P3")
        with pytest.raises(ValueError, match=f"{name} has no .* of each view, such as NAIM3L,"):
            summarise(model, wide, labels)
        return
    model.fit(X, Y)
    (found,) = explain_row(model, X, "P50", labels=["flu"])
    p = model.fuse(X).loc["P50", "flu"]
    assert total(found) == pytest.approx(logit(p), abs=1e-4 if name == "DeepNAIM3L" else 1e-9)
    assert found.exact is ("What columns add is estimated" not in found.describe())
    kernel = isinstance(getattr(model, "features", None), Kernel)
    assert found.exact is (isinstance(model, LinearViewModel) and not kernel)
    if isinstance(model, LinearViewModel):
        assert summarise(model, X, Y)["labels"]
    else:
        with pytest.raises(ValueError, match=f"{name} has no .* explain_row, or naim3l explain"):
            summarise(model, X, Y)


def test_titles_are_shown_with_their_codes(tables):
    X, Y = tables
    named = NAIM3L(decide="guarded", random_state=0).fit(X, Y)
    named.titles_ = {"gout": "Gout, ever", "clinica": "Uric acid", "flu": "Influenza", "other": "?"}
    known = {"lab": Y["lab"].assign(flu=1.0)}
    (found,) = explain_row(named, X, "P70", labels=["gout"], known=known)
    assert found.label == "gout" and {part.name for part in found.parts} > {"clinica", "flu"}
    text = found.describe(most=20)
    assert text.startswith("P70, Gout, ever (gout): ")
    assert "known Influenza (flu) = yes" in text
    assert "lab never records Gout, ever (gout): it is" in text
    bars = [title for _, title, _ in bars_of(found, 20)]
    assert any(title.startswith("clinic: Uric acid (clinica) = ") for title in bars)
    codes = ("gout", "clinica", "flu")
    assert found.titles == {code: f"{named.titles_[code]} ({code})" for code in codes}
    (ax,) = draw_explanations([found]).axes
    assert ax.get_title().startswith("P70, Gout, ever (gout): ")


def test_a_day_is_shown_without_a_time(rng):
    """And a time with one."""
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 80), unit="D")
    X = pd.DataFrame({"visit": days, "taken": days + pd.Timedelta(hours=9)})
    Y = pd.DataFrame({"flu": (days > pd.Timestamp("2024-06-01")).astype(float)})
    model = NAIM3L(decide="guarded", random_state=0).fit({"lab": X}, {"lab": Y})
    (found,) = explain_row(model, {"lab": X})
    text = found.describe(most=20)
    assert f"visit = {days[0].date()} (" in text and f"taken = {days[0].date()} 09:00:00" in text


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
