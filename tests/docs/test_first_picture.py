"""The first picture is what the program answers, and its answers are worth something."""

import re
import runpy
import warnings

import pytest
from sklearn.metrics import roc_auc_score

from fenced_blocks import ROOT
from naim3l import NAIM3LCV

DRAWING = runpy.run_path(str(ROOT / "tools" / "draw_problem.py"))


@pytest.fixture(scope="module")
def study():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DRAWING["fit"]()


def test_the_picture_shows_what_the_program_answers(study):
    model, X, Y, _ = study
    drawn = DRAWING["draw"](X, DRAWING["answers"](model, X, Y))
    shown = DRAWING["FIGURE"].read_text(encoding="utf-8")
    percent = re.compile(r"(\d+) %")
    assert percent.sub("%", drawn) == percent.sub("%", shown)
    pairs = zip(percent.findall(drawn), percent.findall(shown), strict=True)
    assert all(abs(int(a) - int(b)) <= 2 for a, b in pairs)  # versions of libraries differ a little


def test_a_diagnosis_that_the_survey_never_asks_for_is_predicted_there(study):
    model, *_, data = study
    (absent,) = model.absent_labels_
    assert (absent.view, absent.label, absent.obstacle) == ("survey", "gout", "")
    truth = data.new_labels["survey"]["gout"]
    asked = NAIM3LCV(random_state=0).set_output(transform="pandas").fit(data.views, data.labels)
    found, best = (
        roc_auc_score(truth, of.predict_proba(data.new_views)["survey"]["gout"])
        for of in (model, asked)
    )
    assert 0.65 < found < best  # later patients


def test_where_too_few_labels_connect_the_model_has_base_rates_and_says_so(study):
    *_, X, Y, data = study
    few = {view: table[["flu", "gout"]] for view, table in Y.items()}
    model = NAIM3LCV(random_state=0).set_output(transform="pandas").fit(X, few)
    (absent,) = model.absent_labels_
    assert "checked on labels that are recorded" in absent.obstacle
    gout = model.predict_proba(data.new_views)["survey"]["gout"]
    assert gout.to_numpy() == pytest.approx(model.view_rates_["survey"][1])
