"""The page of a report: numbers and safety."""

import base64
import hashlib
import json
import re

import numpy as np
import pandas as pd
import pytest

from html_pages import Reader
from naim3l import NAIM3L, Kernel
from naim3l.report import summarise, write_report
from naim3l.report.findings import MEASURES, main_labels, show_points, show_range
from naim3l.report.page import show_number, show_share, write_json
from report_models import HOSTILE, LABELS, LONG, draw, fit_chosen, fit_separate, fit_wide, page_of


@pytest.fixture(scope="module")
def chosen():
    return summarise(*fit_chosen(), test=draw((70, 60), seed=5))


@pytest.fixture(scope="module")
def wide():
    """With hostile and long names, on training rows."""
    return summarise(*fit_wide())


@pytest.fixture(scope="module")
def separate():
    return summarise(*fit_separate())


def flat(reader, **options):
    return " ".join(reader.text(**options))


def test_numbers_are_on_the_page(chosen):
    reader = Reader(page_of(chosen))
    cells = reader.text(of="td") + reader.text(of="span")

    def is_shown(text):
        return " ".join(text.split()) in cells

    for block in chosen["quality"]["blocks"]:
        assert block["name"] in cells and str(block["n_entries"]) in cells
        for name in MEASURES:
            metric = block["metrics"][name]
            assert is_shown(show_share(metric["value"])) and is_shown(show_range(metric))
            assert is_shown(show_share(metric["guessing"]))
    for entry in chosen["labels"]:
        for key in ("auc", "accuracy", "average_precision", "f1"):
            assert is_shown(show_share(entry[key]))
        assert str(entry["yes"]) in cells and entry["verdict"] in cells
        assert is_shown(f"guessing {show_share(entry['accuracy_guessing'])}")
    for pair in chosen["cooccurrence"]["pairs"]:
        assert show_number(pair["expected"], 1) in cells and str(pair["both"]) in cells
        assert f"{show_number(pair['low'], 2)} to {show_number(pair['high'], 2)}" in cells
    assert [c["sentence"] for c in chosen["cautions"]] == [
        text for text in reader.text(of="li") if text in {c["sentence"] for c in chosen["cautions"]}
    ]
    text = flat(reader)
    assert "Measured on test rows that the model has not seen" in text
    assert "optimistic" not in text
    assert f"lam {chosen['choice']['chosen']['lam']:g} and ridge" in text
    assert "Yes: converged after" in text


def test_gain_of_coupling_is_beside_every_measure():
    X, Y = draw()
    model = NAIM3L(ridge=1.0, random_state=0)
    model.compare(X, Y)
    summary = summarise(model, X, Y)
    assert summary["quality"]["on"] == "held-out"
    reader = Reader(page_of(summary))
    cells = reader.text(of="td") + reader.text(of="span")
    for block in summary["quality"]["blocks"]:
        for name in MEASURES:
            gain = block["metrics"][name]["gain"]
            assert show_points(gain["value"], sign=True) in cells
            assert f"{show_points(gain['low'])} to {show_points(gain['high'])}" in cells
    text = flat(reader)
    assert "Does it help to learn from all tables together? Coupling the tables" in text
    assert "held out in turn during the fit" in text and "optimistic" not in text
    without = flat(Reader(page_of(summarise(*fit_separate()))))
    assert "Does it help" not in without and "without coupling" not in without


def test_specialist_terms_are_explained_and_named_as_in_the_paper_once(chosen):
    reader = Reader(page_of(chosen))
    for measure in MEASURES.values():
        assert measure.title in reader.text(of="dt") and measure.meaning in reader.text(of="dd")
    assert flat(reader).count("1-HL") == flat(reader).count("1-RL") == 1
    (title,) = reader.text(of="h1")
    assert title == "How good are the predictions of flu, asthma, gout and 1 more label?"


def test_fused_predictions_are_beside_those_of_separate_tables():
    made = draw(80, aligned=True)
    for tables in made:
        for table in tables.values():
            table.index = pd.Index([f"p{i}" for i in range(80)], name="patient")
    model = NAIM3L(ridge=1.0, decide="guarded", random_state=0).fit(*made)
    summary = summarise(model, *made, fitted=False)
    main, *others = summary["quality"]["blocks"]
    assert main["kind"] == "fused" and {block["kind"] for block in others} == {"mean", "view"}
    reader = Reader(page_of(summary))
    tiles = {"class": "tiles", "aria-label": f"Main results, {main['name']}"}
    assert ("ul", tiles) in reader.tags
    shown = reader.text(of="summary")
    for block in others:
        assert f"All measures: {block['name']}" in shown
        assert f"The same for: {block['name']}" in shown
    assert [entry["label"] for entry in main_labels(summary)] == LABELS


def test_rates_cuts_and_notes_are_on_the_page(chosen):
    reader = Reader(page_of(chosen))
    cells, rows = reader.text(of="td"), reader.text(of="summary")
    for entry in main_labels(chosen):
        assert f"Other cuts: {entry['label']}" in rows
        for rate in entry["rates"].values():
            assert " ".join(show_share(rate["value"]).split()) in cells
        assert f"{entry['cuts'][3]['flagged']:.0f}" in cells
    text = flat(reader)
    assert f"fitted on {chosen['made']['date']} with naim3l {chosen['made']['version']}" in text
    assert f"this page was made on {chosen['date']}" in text
    n = sum(caution["note"] for caution in chosen["cautions"])
    assert n and f"{n} further note" in text
    acted = chosen | {"cautions": [c for c in chosen["cautions"] if not c["note"]]}
    assert 'id="notes"' not in page_of(acted)


def test_columns_are_listed_with_the_dropped_ones_first(separate):
    used = {"name": "pulse", "kind": "number", "missing": 0.25, "use": "used", "reason": ""}
    dropped = used | {"name": HOSTILE, "use": "dropped", "reason": "constant"}
    page = page_of(separate | {"columns": {"clinic": [used, dropped], "lab": [used]}})
    reader = Reader(page)
    shown = reader.text(of="summary")
    assert "Columns of clinic: 2, 1 dropped" in shown and "Columns of lab: 1" in shown
    names = [text for text in reader.text(of="span") if text in ("pulse", HOSTILE)]
    assert names == [HOSTILE, "pulse", "pulse"]
    assert "dropped: constant" in reader.text(of="td") and "25.0 %" in reader.text(of="td")


def test_figures_have_names_that_the_browser_draws(wide):
    reader = Reader(page_of(wide))
    texts = reader.text(of="text")
    assert {"flu", "asthma", "gout", "clinic"} <= set(texts)
    assert any(text.startswith("<script>alert('x'") and text.endswith("…") for text in texts)
    assert any(text.startswith("a_name_that") and text.endswith("…") for text in texts)
    assert not any(set(text) == {"n"} for text in texts), "a placeholder is left"


def test_rows_that_were_given_are_neither_test_nor_training(separate):
    model, _, _ = fit_separate()
    given = summarise(model, *draw((70, 60), seed=5), fitted=False)
    shown = flat(Reader(page_of(given)))
    assert "4 labels predicted for 2 tables with 130 rows" in shown
    assert "Measured on the given rows" in shown and "Tables that were given" in shown
    of_training = flat(Reader(page_of(separate)))
    for words in ("on training rows", "trained on", "learned from"):
        assert words in of_training and words not in shown


def test_parts_that_are_not_there_are_left_out(wide, separate, chosen):
    text = page_of(separate)
    for part in ("choice", "probabilities"):
        assert f'id="{part}"' not in text and f'"#{part}"' not in text
        assert f'id="{part}"' in page_of(chosen)
    assert "The same for: lab" in flat(Reader(text))
    assert "The same for:" not in flat(Reader(page_of(wide)))
    alone = {"pairs": [], "n_pairs": 0, "n_related": 0, "n_too_few": 0}
    bare = separate | {"convergence": None, "cautions": [], "cooccurrence": alone}
    shown = flat(Reader(page_of(bare)))
    assert "None of the checks found a problem." in shown and "Did the training" not in shown
    assert "Which labels occur together?" not in shown


def test_ids_are_unique_and_links_lead_to_them(chosen):
    reader = Reader(page_of(chosen))
    ids = reader.attributes("id")
    assert len(set(ids)) == len(ids)
    referred = [href[1:] for href in reader.attributes("href") if href.startswith("#")]
    for name in ("aria-labelledby", "aria-describedby", "aria-controls", "for"):
        referred += reader.attributes(name)
    assert len(referred) > 20 and set(referred) <= set(ids)


def test_page_stands_alone_and_says_what_it_is_to_everyone(chosen):
    text = page_of(chosen)
    reader = Reader(text)
    assert not re.search(r"https?://|@import|javascript:|\bsrc=|\son\w+=", text)
    assert all(
        href.startswith(("#", "data:,", "data:image/png")) for href in reader.attributes("href")
    )
    assert ("html", {"lang": "en"}) in reader.tags
    levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1 and set(levels[1:]) == {2}
    names = [tag for tag, _ in reader.tags]
    assert names.count("caption") == names.count("table") >= 6
    assert all(attrs.get("scope") for tag, attrs in reader.tags if tag == "th")
    drawings = [a for tag, a in reader.tags if tag == "svg" and "aria-hidden" not in a]
    # Two maps, choice, labels, two calibrations, fit.
    assert [drawing["role"] for drawing in drawings] == ["img"] * 7
    assert all(re.search(r"\d", drawing["aria-label"]) for drawing in drawings)
    assert "label" in names and ("label", {"for": "label-search"}) in reader.tags


def test_the_only_script_is_ours_and_allowed_by_its_digest(wide):
    text = page_of(wide)
    (script,) = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', text)[1]
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy
    assert text.count("<script") == 1


def test_names_are_escaped(wide):
    text = page_of(wide)
    reader = Reader(text)
    assert HOSTILE in reader.text(of="span")
    assert any(HOSTILE in said for said in reader.text(of="li"))
    assert any(HOSTILE in found for found in reader.attributes("data-search"))
    assert LONG in reader.text(of="span")
    for path in (("model", "class"), ("version",)):
        changed = json.loads(json.dumps(wide))
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = HOSTILE
        again = page_of(changed)
        assert again.count("<script") == 1 and HOSTILE in flat(Reader(again))


def test_odd_signs_in_names_do_no_harm(separate, tmp_path):
    odd = "\\u0000 \\u001b \\u009b \\u202e \\ud83d\\ude00"
    text = json.dumps(separate).replace("measles", odd).replace("clinic", "$_{")
    summary = json.loads(text)
    page = page_of(summary)
    assert "\U0001f600" in page and "$_{" in Reader(page).text(of="span")
    assert r"\x00 \x1b \x9b \u202e" in flat(Reader(page))
    write_json(tmp_path / "page.json", summary)
    stored = (tmp_path / "page.json").read_text()
    assert json.loads(stored) == summary and "\U0001f600" in stored
    for found in (page, stored):
        assert not set(found) & set("\x00\x1b\x9b\u202e")


def test_pages_of_models_that_learned_nothing_and_tests_that_tell_nothing():
    model, X, Y = fit_wide()
    for W in (*model.coef_.values(), *model.intercept_.values()):
        W[...] = 0
    unknown = Y.iloc[:2] * np.nan
    summary = summarise(model, X, Y, test=(X.iloc[:2], unknown))
    (block, *_) = summary["quality"]["blocks"]
    assert {metric["value"] for metric in block["metrics"].values()} == {None}
    assert summary["shares"] == {"clinic": None, LONG: None}
    reader = Reader(page_of(summary))
    assert "–" in reader.text(of="td") and "nan" not in flat(reader)


def test_numbers_as_texts():
    assert show_number(None) == "–" and show_number(-0.12345) == "−0.123"
    shares = [None, 0, 0.00001, 0.12345, 0.99999, 1]
    texts = ["–", "0 %", "< 0.1 %", "12.3 %", "> 99.9 %", "100 %"]
    assert [show_share(s).replace("\N{NO-BREAK SPACE}", " ") for s in shares] == texts


def test_files_are_written_whole_and_the_same_every_time(tmp_path, wide, monkeypatch):
    page, numbers = tmp_path / "report.html", tmp_path / "report.json"
    write_report(page, wide)
    write_json(numbers, wide)
    assert page.read_text(encoding="utf-8") == page_of(wide)
    assert json.loads(numbers.read_text(encoding="utf-8")) == wide
    before = page.read_bytes()
    with pytest.raises(Exception, match="version"):
        write_report(page, {key: value for key, value in wide.items() if key != "version"})

    def fail(*args):
        raise OSError("disk")

    monkeypatch.setattr("naim3l.files.atomic_write.os.replace", fail)
    with pytest.raises(OSError, match="disk"):
        write_report(page, wide)
    assert page.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_pages_say_which_views_have_no_column_weights():
    no_weights = "so there are no column weights in"
    kernel = Kernel("rbf", n_landmarks=20)
    curved, mixed = (
        summarise(*fit_separate(features=features))
        for features in (kernel, {"clinic": "auto", "lab": kernel})
    )
    assert 'id="features"' not in page_of(curved) and 'id="features"' in page_of(mixed)
    shown = flat(Reader(page_of(curved)))
    assert f"{no_weights} clinic, lab." in shown
    for view in curved["data"]["views"]:
        assert f"rbf {view['gamma']:.3g}" in shown
    shown = flat(Reader(page_of(mixed)))
    assert shown.count(no_weights) == 1 and f"{no_weights} lab." in shown
