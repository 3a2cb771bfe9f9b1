"""The numbers of a report, without a page."""

import copy
import json

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from naim3l import NAIM3L, Kernel, evaluate
from naim3l.decisions.bootstrap_metrics import MEAN, NO_BETTER, SHOWN, TOO_FEW
from naim3l.decisions.calibration import LEAST_SLOPE
from naim3l.estimators import PerViewRidge
from naim3l.report import summarise
from naim3l.report.evaluated_blocks import read_blocks
from naim3l.report.findings import find_cautions
from report_models import HOSTILE, LABELS, LONG, draw, fit_chosen, fit_separate, fit_wide

METRICS = [measure.name for measure in SHOWN]


@pytest.fixture(scope="module")
def separate():
    return fit_separate()


@pytest.fixture(scope="module")
def wide():
    return fit_wide()


@pytest.fixture(scope="module")
def chosen():
    return fit_chosen()


@pytest.fixture(scope="module")
def of_separate(separate):
    return summarise(*separate)


@pytest.fixture(scope="module")
def of_wide(wide):
    return summarise(*wide)


@pytest.fixture(scope="module")
def of_chosen(chosen):
    test = draw((70, 60), seed=5)
    return summarise(*chosen, test=test)


def test_data_are_counted(separate, of_separate):
    _, X, Y = separate
    data = of_separate["data"]
    assert (data["form"], data["n_rows"], data["n_labels"]) == ("separate", 140, 4)
    stacked = np.concatenate(list(Y.values()))
    assert data["unknown"] == pytest.approx(np.isnan(stacked).mean())
    assert data["lacking"] == 0
    for view, entry in zip(X, data["views"], strict=True):
        assert (entry["name"], entry["n_rows"], entry["n_columns"]) == (view, *X[view].shape)
        assert entry["n_features"] == X[view].shape[1] - 1
        assert entry["dropped"] == [f"{view}.3"]
        assert entry["unknown"] == pytest.approx(np.isnan(Y[view]).to_numpy().mean())
    for k, entry in enumerate(data["labels"]):
        assert entry["label"] == LABELS[k]
        assert entry["yes"] == (stacked[:, k] == 1).sum()
        assert entry["no"] == (stacked[:, k] == 0).sum()
    for entry, (view, labels) in zip(data["maps"], Y.items(), strict=True):
        assert entry["name"] == view and entry["n_rows"] == len(labels)
        shares = np.array(entry["unknown"])
        assert shares.shape == (60, 4)
        groups = np.array_split(np.isnan(labels.to_numpy()), 60)
        np.testing.assert_allclose(shares, [g.mean(axis=0) for g in groups], atol=1e-3)


def test_rows_that_lack_a_view_are_counted(of_wide):
    data = of_wide["data"]
    assert data["form"] == "wide" and data["n_rows"] == 80
    assert [view["n_present"] for view in data["views"]] == [80, 30]
    assert [view["lacking"] for view in data["views"]] == [0, pytest.approx(50 / 80)]
    (shown,) = data["maps"]
    assert shown["lacking"]["clinic"] == [0] * 60
    assert shown["lacking"][LONG][:30] == [1] * 30 and shown["lacking"][LONG][-20:] == [0] * 20
    assert len(json.dumps(data["maps"])) < 20_000


def test_views_and_their_mean_are_measured(separate, of_separate):
    model, X, Y = separate
    assert of_separate["quality"]["on"] == "training"
    assert "optimistic" in of_separate["quality"]["caveat"]
    mean, *views = of_separate["quality"]["blocks"]
    assert [block["kind"] for block in (mean, *views)] == ["mean", "view", "view"]
    scores = model.decision_function(X)
    expected = evaluate({view: Y[view].to_numpy() for view in Y}, scores)
    assert {name: mean["metrics"][name]["value"] for name in METRICS} == pytest.approx(
        {name: expected[name] for name in METRICS}
    )
    for block in views:
        assert block["n_entries"] == Y[block["name"]].notna().to_numpy().sum()
    assert summarise(model, X, Y) == of_separate  # the same draws every time


def test_fused_scores_come_first_and_alone_are_decided_on(wide, of_wide):
    model, X, Y = wide
    blocks = of_wide["quality"]["blocks"]
    assert [(b["kind"], b["n_rows"]) for b in blocks] == [("fused", 80), ("view", 80), ("view", 30)]
    expected = evaluate(Y.to_numpy(), model.decision_function(X))
    assert blocks[0]["metrics"]["AP"]["value"] == pytest.approx(expected["AP"])
    assert [entry["label"] for entry in of_wide["labels"]] == list(Y.columns)
    assert {entry["view"] for entry in of_wide["labels"]} == {"fused"}


def test_labels_are_measured_on_the_test_rows(chosen, of_chosen):
    model, _, Y = chosen
    assert of_chosen["quality"]["on"] == "test" and of_chosen["quality"]["caveat"] is None
    X_test, Y_test = draw((70, 60), seed=5)
    scores, decided = model.decision_function(X_test), model.predict(X_test)
    assert [(e["label"], e["view"]) for e in of_chosen["labels"]] == [
        (label, view) for label in LABELS for view in (MEAN, "clinic", "lab")
    ]
    for entry in of_chosen["labels"]:
        if entry["view"] == MEAN:
            continue
        view, k = entry["view"], LABELS.index(entry["label"])
        fitted, truth = Y[view].iloc[:, k], Y_test[view].iloc[:, k].to_numpy()
        assert (entry["yes"], entry["no"]) == ((fitted == 1).sum(), (fitted == 0).sum())
        assert entry["frequency"] == pytest.approx(fitted.mean())
        known = ~np.isnan(truth)
        assert entry["measured_yes"] == truth[known].sum()
        args = truth[known], scores[view][known, k]
        assert entry["auc"] == pytest.approx(roc_auc_score(*args))
        assert entry["average_precision"] == pytest.approx(average_precision_score(*args))
        assert entry["f1"] == pytest.approx(f1_score(truth[known], decided[view][known, k]))
        assert entry["called"] == decided[view][known, k].sum()
        assert entry["threshold"] == model.thresholds_[view][k]
        assert entry["slope"] == model.decisions_.calibrations[view].slope[k]
        assert entry["own_curve"] == model.decisions_.calibrations[view].own[k]


def test_probabilities_are_binned(chosen, of_chosen):
    model, _, _ = chosen
    X_test, Y_test = draw((70, 60), seed=5)
    probabilities = model.predict_proba(X_test)
    for entry in of_chosen["calibration"]:
        truth, p = Y_test[entry["name"]].to_numpy(), probabilities[entry["name"]]
        known = ~np.isnan(truth)
        bins = np.minimum((10 * p[known]).astype(int), 9)
        apart = [abs((p - truth)[known][bins == i].sum()) for i in range(10)]
        assert entry["error"] == pytest.approx(sum(apart) / known.sum())
        assert sum(b["n"] for b in entry["bins"]) == entry["n_entries"] == known.sum()
        for found in entry["bins"]:
            inside = known & (p >= found["low"]) & (p < found["high"])
            assert found["n"] == inside.sum()
            if found["n"]:
                assert found["probability"] == pytest.approx(p[inside].mean())
                assert found["share"] == pytest.approx(truth[inside].mean())


def test_choice_is_reported_with_its_spread(chosen, of_chosen):
    model, _, _ = chosen
    choice, results = of_chosen["choice"], model.cv_results_
    assert choice["metric"] == "macro-AUC" and not choice["lower_is_better"]
    assert [curve["ridge"] for curve in choice["curves"]] == [0.0, 1.0]
    assert [curve["lam"] for curve in choice["curves"]] == [[0.1, 1.0, 10.0]] * 2
    shown = {
        (lam, curve["ridge"]): (mean, std)
        for curve in choice["curves"]
        for lam, mean, std in zip(curve["lam"], curve["mean"], curve["std"], strict=True)
    }
    for i in range(6):
        pair = results["lam"][i], results["ridge"][i]
        expected = [results[f"{name}_test_score"][i] for name in ("mean", "std")]
        assert shown[pair] == tuple(None if np.isnan(value) else value for value in expected)
    best = choice["chosen"]
    assert (best["lam"], best["ridge"]) == (model.lam_, model.ridge_)
    assert best["mean"] == model.best_score_
    edges = {0.1, 10.0}
    assert ("lam" in choice["at_edge"]) == (model.lam_ in edges)
    assert ("ridge" in choice["at_edge"]) == (model.ridge_ == 1.0)


def test_convergence_is_reported(separate, of_separate):
    model, X, Y = separate
    fit = of_separate["convergence"]
    assert fit["converged"] and fit["n_iter"] == model.n_iter_ == len(fit["objective"])
    assert fit["objective"][-1] == model.objective_
    assert fit["stationarity"][-1] == pytest.approx(model.stationarity_)
    assert summarise(PerViewRidge().fit(X, Y), X, Y)["convergence"] is None


def rules(summary):
    return {caution["rule"]: caution["sentence"] for caution in find_cautions(summary)}


def test_cautions_of_real_fits(of_separate, of_wide, of_chosen):
    found = rules(of_separate)
    assert "seen in training" in found["measured-on-training"]
    assert found["few-positives"].startswith("1 label (measles) has fewer than 5")
    assert "decide='sign'" in found["says-no-to-all"] and "measles" in found["says-no-to-all"]
    assert "(lab.3)" in found["columns-dropped"]
    assert "not-converged" not in found and "chosen-at-edge" not in found
    found = rules(of_wide)
    assert "missing in 62 % of its rows" in found["view-mostly-missing"]
    assert HOSTILE in found["calibrated-from-pooled"]
    assert "a_name" in found["few-rows"] and LONG not in found["few-rows"]
    assert "measured-on-training" not in rules(of_chosen)
    assert of_wide["cautions"] == find_cautions(of_wide)


def change(summary, path, value):
    changed = copy.deepcopy(summary)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("rule", "path", "value", "words"),
    [
        ("not-converged", ["convergence", "converged"], False, "did not converge: it stopped"),
        ("objective-negative", ["convergence", "objective"], [3.0, -2.5], "negative (-2.5)"),
        ("no-positives", ["data", "labels", 0, "yes"], 0, "1 label (flu) has no known yes"),
        ("no-negatives", ["data", "labels", 1, "no"], 0, "1 label (asthma) has no known no"),
        ("view-mostly-missing", ["data", "views", 0, "lacking"], 0.75, "missing in 75 %"),
        ("few-rows", ["quality", "blocks", 1, "n_rows"], 9, "Fewer than 50 rows"),
        ("curve-flat", ["labels", 4, "slope"], LEAST_SLOPE, "1 label (asthma) hardly differ from"),
    ],
)
def test_a_caution_appears_when_it_should(of_separate, rule, path, value, words):
    assert rule not in rules(of_separate)
    assert words in rules(change(of_separate, path, value))[rule]


def test_labels_that_are_never_found_are_named_under_any_rule(of_separate):
    learned = change(of_separate, ["model", "rule"], "guarded")
    labels = [entry | {"measured_yes": 9, "found": 1} for entry in learned["labels"]]
    assert "says-no-to-all" not in rules(learned | {"labels": labels})
    labels[0] |= {"found": 0}
    said = rules(learned | {"labels": labels})["says-no-to-all"]
    assert said.startswith("With decide='guarded' the model finds none")
    assert "no better than always predicting no" in said


def test_cautions_about_quality_are_those_of_the_main_block(of_separate):
    assert of_separate["quality"]["blocks"][0]["kind"] == "mean"
    quality = ["quality", "blocks", 0, "metrics"]
    gain = {"value": -0.03, "low": -0.04, "high": -0.02}
    said = rules(change(of_separate, [*quality, "macro-AUC", "gain"], gain))["coupling-worse"]
    assert "Coupling cost 3.0 points of macro-AUC" in said
    same = change(of_separate, [*quality, "macro-AUC", "gain"], gain | {"high": 0.001})
    assert "coupling-worse" not in rules(same) and "coupling-worse" not in rules(of_separate)
    accuracy = {"value": 0.9, "low": 0.88, "high": 0.92}
    said = rules(change(of_separate, [*quality, "1-HL"], accuracy | {"guessing": 0.89}))
    assert "accuracy (90.0 %)" in said["decisions-guessed"]
    assert "more frequent value (89.0 %)" in said["decisions-guessed"]
    better = change(of_separate, [*quality, "1-HL"], accuracy | {"guessing": 0.87})
    assert "decisions-guessed" not in rules(better)
    for rule, verdict in (("labels-guessed", NO_BETTER), ("labels-unknown", TOO_FEW)):
        assert "(asthma" in rules(change(of_separate, ["labels", 3, "verdict"], verdict))[rule]
        in_one_table = rules(change(of_separate, ["labels", 4, "verdict"], verdict))
        assert "asthma" not in in_one_table.get(rule, "")


def test_columns_are_those_of_the_model(separate, of_separate):
    model, X, _ = separate
    assert set(of_separate["columns"]) == set(X)
    for view, columns in of_separate["columns"].items():
        assert [column["name"] for column in columns] == list(X[view].columns)
        for column, plan in zip(columns, model.columns_[view], strict=True):
            assert (column["kind"], column["missing"]) == (plan.kind, plan.missing)
            constant = column["name"] == f"{view}.3"
            assert (column["use"], column["reason"]) == (
                ("dropped", "constant") if constant else (plan.use, "")
            )


def test_cautions_about_the_choice(of_chosen):
    choice = {"at_edge": ["lam"], "n_close": 3, "n_pairs": 6, "chosen": {"lam": 10.0}}
    found = rules(of_chosen | {"choice": choice})
    assert "lam=10 is at the end" in found["chosen-at-edge"]
    assert "3 of the other 5 pairs" in found["choice-not-sharp"]
    found = rules(of_chosen | {"choice": choice | {"at_edge": [], "n_close": 0}})
    assert "chosen-at-edge" not in found and "choice-not-sharp" not in found


def test_cautions_that_a_reader_can_act_on_come_first(of_separate, of_wide, of_chosen):
    for summary in (of_separate, of_wide, of_chosen):
        notes = [caution["note"] for caution in summary["cautions"]]
        assert notes == sorted(notes) and len(set(notes)) == 2
    kinds = {caution["rule"]: caution["note"] for caution in of_separate["cautions"]}
    assert not kinds["measured-on-training"] and not kinds["says-no-to-all"]
    assert kinds["few-positives"] and kinds["columns-dropped"]


def test_labels_that_tables_never_record_are_cautions_only_where_nothing_is_borrowed(of_separate):
    said = {"sentences": ["a is borrowed", "b means nothing"], "unusable": ["b means nothing"]}
    found = find_cautions(of_separate | {"absent": of_separate["absent"] | said})
    kinds = {caution["sentence"]: (caution["rule"], caution["note"]) for caution in found}
    assert kinds["a is borrowed"] == ("labels-borrowed", True)
    assert kinds["b means nothing"] == ("labels-absent", False)


def test_the_date_is_that_of_today_or_of_the_environment(separate, monkeypatch):
    model, X, Y = separate
    summary = summarise(model, X, Y)
    assert summary["made"] == {"date": summary["date"], "version": summary["version"]}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(86400 * 365))
    later = summarise(model, X, Y)
    assert later["date"] == "1971-01-01" and later | {"date": summary["date"]} == summary


def test_rates_and_cuts_are_those_of_the_measured_rows(chosen, of_chosen):
    model, _, _ = chosen
    X, Y = draw((70, 60), seed=5)
    decided, chances = model.predict(X), model.predict_proba(X)
    for entry in of_chosen["labels"]:
        if entry["view"] == MEAN:
            continue
        k = LABELS.index(entry["label"])
        truth = Y[entry["view"]].to_numpy()[:, k]
        yes, flagged = truth == 1, np.asarray(decided[entry["view"]])[:, k] == 1
        known = np.isfinite(truth)
        sensitivity = entry["rates"]["sensitivity"]
        if yes.any():
            assert sensitivity["value"] == pytest.approx(flagged[yes].mean())
            assert sensitivity["low"] <= sensitivity["value"] <= sensitivity["high"]
        assert entry["cuts"][0]["flagged"] == pytest.approx(1000 * flagged[known].mean())
        (at,) = (at for at in entry["cuts"] if at["cut"] == 0.2)
        above = np.asarray(chances[entry["view"]])[:, k] > 0.2
        assert at["false_alarms"] == pytest.approx(
            1000 * (above & (truth == 0)).sum() / known.sum()
        )


def test_cautions_name_a_few_labels(of_separate):
    labels = [
        entry | {"label": f"label{k}"} for k, entry in enumerate(of_separate["data"]["labels"])
    ]
    many = [entry | {"yes": 1} for entry in labels * 3]
    sentence = rules(change(of_separate, ["data", "labels"], many))["few-positives"]
    assert sentence.startswith("12 labels (label0, ") and "and 6 more) have" in sentence


def test_tables_that_are_not_those_of_the_fit(separate):
    """Measured as test tables are, and nothing is said of training."""
    model, X, Y = separate
    X_new, Y_new = draw((70, 60), seed=5)
    summary = summarise(model, X_new, Y_new, fitted=False)
    assert summary["quality"]["on"] == "given" and summary["quality"]["caveat"] is None
    tested = summarise(model, X, Y, test=(X_new, Y_new))
    assert summary["quality"]["blocks"] == tested["quality"]["blocks"]
    for entry in summary["labels"]:
        assert (entry["yes"], entry["no"]) == (entry["measured_yes"], entry["measured_no"])
    found = rules(summary)
    assert "It is not known here" in found["perhaps-seen"] and "measured-on-training" not in found
    some = {"lab": X_new["lab"]}, {"lab": Y_new["lab"].assign(flu=np.nan, gout=1.0)}
    some[1]["lab"].loc[3:, "asthma"] = 0.0
    summary = summarise(model, *some, fitted=False)
    assert [view["name"] for view in summary["data"]["views"]] == ["lab"]
    found = rules(summary)
    assert found["no-positives"].endswith("so nothing can be measured for it.")
    assert "This report relies on only a few rows for it" in found["few-positives"]
    assert "no-negatives" not in found  # of what was given, not of what was learned from
    with pytest.raises(ValueError, match="give one of the two"):
        summarise(model, X, Y, test=some, fitted=False)


def test_words_as_labels_and_one_label():
    X, Y = draw()
    words = {view: table.replace({1: "yes", 0: "no", np.nan: "?"}) for view, table in Y.items()}
    one, other = (summarise(NAIM3L(ridge=1.0).fit(X, of), X, of) for of in (words, Y))
    assert one["quality"] == other["quality"] and one["labels"] == other["labels"]
    single = {view: table[["flu"]] for view, table in Y.items()}
    summary = summarise(NAIM3L(ridge=1.0).fit(X, single), X, single)
    assert summary["quality"]["blocks"][0]["metrics"]["AP"]["value"] is None
    assert summary["cooccurrence"]["n_pairs"] == 0


def test_kernels_are_reported_with_their_gammas_and_without_column_weights():
    kernel = Kernel("rbf", n_landmarks=20)
    model, X, Y = fit_separate(features={"clinic": "auto", "lab": kernel})
    summary = summarise(model, X, Y)
    clinic, lab = summary["data"]["views"]
    assert (clinic["kernel"], clinic["gamma"]) == ("linear", None)
    assert (lab["kernel"], lab["gamma"]) == ("rbf", model.gamma_["lab"])
    assert clinic["dropped"] == ["clinic.3"] and lab["dropped"] == ["lab.3"]
    shown = summary["model"]["parameters"]["features"]
    assert shown == {"clinic": "auto", "lab": "Kernel('rbf', n_landmarks=20)"}
    sides = [side for entry in summary["features"] for side in (entry["for"], entry["against"])]
    assert {feature["view"] for side in sides for feature in side} == {"clinic"}
    assert summarise(*fit_separate(features=kernel))["features"] == []


def test_views_fused_by_evidence_are_measured_as_rows_that_have_them_alone(of_wide):
    model, X, Y = fit_wide("evidence")
    described = summarise(model, X, Y)["model"]
    assert described["fusion"] == "evidence"
    assert described["fusion_overlap"] == model.fusion_overlap_ is not None
    assert of_wide["model"]["fusion"] == "mean" and of_wide["model"]["fusion_overlap"] is None
    blocks = {block.name: block for block in read_blocks(model, X, Y)}
    np.testing.assert_allclose(blocks["fused"].model.scores, model.decision_function(X))
    for view, others in (("clinic", slice(6, 11)), (LONG, slice(0, 6))):
        alone = X.copy()
        alone.iloc[:, others] = np.nan
        alone, truth = alone.dropna(how="all"), Y.loc[alone.notna().any(axis=1)]
        np.testing.assert_allclose(blocks[view].model.scores, model.decision_function(alone))
        found = evaluate(truth.to_numpy(), blocks[view].model.scores)["AP"]
        assert found == pytest.approx(model.score(alone, truth))
