"""Reports of models with kernels, and of views fused by evidence."""

import json

import numpy as np
import pytest

from html_pages import MEASURE, Reader, dump_dom, in_frames
from naim3l import evaluate
from naim3l.report import summarise
from naim3l.report.judged import read_blocks
from report_models import LONG, draw, fit_apart, fit_wide, page_of

NO_WEIGHTS = "so there are no column weights in"


@pytest.fixture(scope="module")
def curved():
    return fit_apart(kernel="rbf", n_landmarks=20)


@pytest.fixture(scope="module")
def of_curved(curved):
    return summarise(*curved)


@pytest.fixture(scope="module")
def of_mixed():
    return summarise(*fit_apart(kernel={"clinic": None, "lab": "rbf"}, n_landmarks=20))


@pytest.fixture(scope="module", params=["evidence", "learned"])
def fused(request):
    return fit_wide(fusion=request.param)


def shown(summary):
    return " ".join(Reader(page_of(summary)).text())


def test_kernels_are_told_with_their_gammas(curved, of_curved, of_mixed):
    model, _, _ = curved
    assert json.loads(json.dumps(of_curved, allow_nan=False)) == of_curved
    for view in of_curved["data"]["views"]:
        kernel_map = model.transformers_[view["name"]][-1]
        assert (view["kernel"], view["gamma"]) == ("rbf", kernel_map.gamma_)
        assert f"rbf {kernel_map.gamma_:.3g}" in shown(of_curved)
    clinic, lab = of_mixed["data"]["views"]
    assert (clinic["kernel"], clinic["gamma"]) == ("linear", None) and lab["gamma"] > 0
    assert clinic["dropped"] == ["clinic.3"] and lab["dropped"] == ["lab.3"]
    assert "gamma" not in Reader(page_of(summarise(*fit_apart()))).text(of="th")


def test_columns_are_left_out_and_the_page_says_why(of_curved, of_mixed):
    assert of_curved["features"] == []
    page = page_of(of_curved)
    assert 'id="features"' not in page and '"#features"' not in page
    assert (
        f"distance. A kernel compares whole rows with some of the training rows, {NO_WEIGHTS} "
        "clinic, lab." in shown(of_curved)
    )
    named = {
        f["view"] for e in of_mixed["features"] for side in ("for", "against") for f in e[side]
    }
    assert named == {"clinic"}
    assert 'id="features"' in page_of(of_mixed)
    assert shown(of_mixed).count(NO_WEIGHTS) == 1 and f"{NO_WEIGHTS} lab." in shown(of_mixed)
    assert NO_WEIGHTS not in shown(summarise(*fit_apart()))


def test_new_rows_of_a_kernel_model_can_be_reported_on(curved):
    model, X, Y = curved
    test = draw((70, 60), seed=5)
    tested = summarise(model, X, Y, test=test)
    assert tested["quality"]["blocks"] == summarise(model, *test, fitted=False)["quality"]["blocks"]
    assert "Measured on test rows" in shown(tested)


def test_weights_of_fusion_are_means_over_labels(fused):
    model, _, _ = fused
    summary = summarise(*fused)
    weights = summary["model"]["fusion_weights"]
    assert weights == {view: pytest.approx(np.mean(model.fusion_weights_[view]))
                       for view in ("clinic", LONG)}  # fmt: skip
    text = shown(summary)
    if model.fusion == "evidence":
        assert (
            text.count("1.000 for its contribution to the log-odds") == 2 and "learned;" not in text
        )
    else:
        for weight in weights.values():
            assert f"{weight:.3f} for its contribution to the log-odds, learned; mean over" in text
        overlap = summary["model"]["fusion_overlap"]
        assert overlap == pytest.approx(np.mean(model.fusion_overlap_))
        assert f"{overlap:.3f}, where 0 means independent" in text
    plain = summarise(*fit_wide())["model"]
    assert plain["fusion_weights"] is None and plain["fusion_overlap"] is None


def test_views_fused_by_evidence_are_judged_as_rows_that_have_them_alone(fused):
    model, X, Y = fused
    blocks = {block.name: block for block in read_blocks(model, X, Y)}
    np.testing.assert_allclose(blocks["fused"].model.scores, model.decision_function(X))
    for view, others in (("clinic", slice(6, 11)), (LONG, slice(0, 6))):
        alone = X.copy()
        alone.iloc[:, others] = np.nan
        alone, truth = alone.dropna(how="all"), Y.loc[alone.notna().any(axis=1)]
        scores = model.decision_function(alone)
        np.testing.assert_allclose(blocks[view].model.scores, scores)
        found = evaluate(truth.to_numpy(), blocks[view].model.scores)["AP"]
        assert found == pytest.approx(model.score(alone, truth))


def test_page_of_kernels_suits_any_width_and_the_browser(of_curved, tmp_path):
    widths = (320, 400, 1200)
    path = tmp_path / "page.html"
    path.write_text(in_frames(page_of(of_curved), widths, MEASURE), encoding="utf-8")
    document, logged = dump_dom(path, tmp_path)
    assert "CONSOLE" not in logged
    for width in widths:
        (line,) = [t for t in Reader(document).text(of="p") if t.startswith(f"{width}: ")]
        root, body, n_seen = map(int, line.split()[1:])
        assert root <= width and body <= width and n_seen > 60
