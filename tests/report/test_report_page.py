"""The page of a report: numbers, safety, and how it behaves in a browser."""

import base64
import hashlib
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from html_pages import MEASURE, Reader, dump_dom, in_frames
from naim3l.report import render_report, summarise, write_json, write_report
from naim3l.report.figures import _round_places
from naim3l.report.page import METRIC_TEXTS, show_number, show_share
from report_models import HOSTILE, LONG, draw, fit_apart, fit_chosen, fit_wide


@pytest.fixture(scope="module")
def chosen():
    return summarise(*fit_chosen(), test=draw((70, 60), seed=5))


@pytest.fixture(scope="module")
def wide():
    """With hostile and long names, on training rows."""
    return summarise(*fit_wide())


@pytest.fixture(scope="module")
def apart():
    return summarise(*fit_apart())


@pytest.fixture
def open_page(tmp_path):
    """Function that writes a page to a file and opens that."""

    def opened(text):
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        return dump_dom(path, tmp_path)

    return opened


def flat(reader, **options):
    return " ".join(reader.text(**options))


def test_numbers_are_on_the_page(chosen):
    reader = Reader(render_report(chosen))
    cells = reader.text(of="td") + reader.text(of="span")
    for block in chosen["quality"]["blocks"]:
        assert block["name"] in cells and str(block["n_entries"]) in cells
        for name in METRIC_TEXTS:
            metric = block["metrics"][name]
            assert show_number(metric["value"]) in cells
            assert f"{show_number(metric['low'])} to {show_number(metric['high'])}" in cells
    for entry in chosen["labels"]:
        for key in ("auc", "average_precision", "f1", "threshold"):
            assert show_number(entry[key]) in cells
        assert str(entry["yes"]) in cells and show_share(entry["frequency"]) in cells
    for pair in chosen["relations"]:
        assert show_number(pair["cosine"], 2) in cells
    assert [c["sentence"] for c in chosen["cautions"]] == [
        text for text in reader.text(of="li") if text in {c["sentence"] for c in chosen["cautions"]}
    ]
    text = flat(reader)
    assert "Measured on test rows that the model has not seen" in text
    assert "optimistic" not in text
    assert f"lam {chosen['choice']['chosen']['lam']:g} and ridge" in text
    assert "Converged after" in text


def test_what_was_seen_in_training_is_marked_wherever_it_is_measured(wide, apart):
    for summary in (wide, apart):
        reader = Reader(render_report(summary))
        marks = [text for text in reader.text(of="span") if text == "seen in training, optimistic"]
        assert len(marks) == (4 if summary["calibration"] else 3)


def test_rows_that_were_given_are_neither_test_nor_training(apart):
    model, _, _ = fit_apart()
    given = summarise(model, *draw((70, 60), seed=5), fitted=False)
    shown = flat(Reader(render_report(given)))
    assert "4 labels predicted for 2 views with 130 rows" in shown
    assert "Measured on the given rows" in shown and "Views that were given" in shown
    of_training = flat(Reader(render_report(apart)))
    for words in ("on training rows", "over all training rows", "fitted on", "learned from"):
        assert words in of_training and words not in shown


def test_parts_that_are_not_there_are_left_out(wide, apart, chosen):
    text = render_report(apart)
    for part in ("choice", "probabilities"):
        assert f'id="{part}"' not in text and f'"#{part}"' not in text
        assert f'id="{part}"' in render_report(chosen)
    assert '<th scope="col">view</th>' in text
    assert '<th scope="col">view</th>' not in render_report(wide)
    bare = apart | {"convergence": None, "cautions": [], "relations": []}
    shown = flat(Reader(render_report(bare)))
    assert "None of the checks found a problem." in shown and "Convergence" not in shown


def test_ids_are_unique_and_links_lead_to_them(chosen):
    reader = Reader(render_report(chosen))
    ids = reader.attributes("id")
    assert len(set(ids)) == len(ids)
    referred = [href[1:] for href in reader.attributes("href") if href.startswith("#")]
    for name in ("aria-labelledby", "aria-describedby", "aria-controls", "for"):
        referred += reader.attributes(name)
    assert len(referred) > 20 and set(referred) <= set(ids)


def test_page_stands_alone_and_says_what_it_is_to_everyone(chosen):
    text = render_report(chosen)
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
    # Two maps, choice, labels, two calibrations, two of the fit, spectrum.
    assert [drawing["role"] for drawing in drawings] == ["img"] * 9
    assert all(re.search(r"\d", drawing["aria-label"]) for drawing in drawings)
    assert "label" in names and ("label", {"for": "label-search"}) in reader.tags


def test_the_only_script_is_ours_and_allowed_by_its_digest(wide):
    text = render_report(wide)
    (script,) = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', text)[1]
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy
    assert text.count("<script") == 1


def test_names_are_escaped(wide):
    text = render_report(wide)
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
        again = render_report(changed)
        assert again.count("<script") == 1 and HOSTILE in flat(Reader(again))


def test_odd_signs_in_names_do_no_harm(apart, tmp_path):
    odd = "\\u0000 \\u001b \\u009b \\u202e \\ud83d\\ude00"
    text = json.dumps(apart).replace("measles", odd).replace("clinic", "$_{")
    summary = json.loads(text)
    page = render_report(summary)
    assert "\U0001f600" in page and "$_{" in Reader(page).text(of="span")
    assert r"\x00 \x1b \x9b \u202e" in flat(Reader(page))
    write_json(tmp_path / "page.json", summary)
    stored = (tmp_path / "page.json").read_text()
    assert json.loads(stored) == summary and "\U0001f600" in stored
    for found in (page, stored):
        assert not set(found) & set("\x00\x1b\x9b\u202e")


def test_importing_needs_none_of_the_optional_parts():
    code = "import sys, naim3l.report; sys.exit(bool({'matplotlib', 'jinja2'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unusual_numbers_can_be_shown(apart):
    changed = json.loads(json.dumps(apart))
    changed["convergence"]["objective"][-1] = None
    changed["convergence"]["stationarity"] = None
    for entry in changed["labels"]:
        entry |= {"auc": None, "average_precision": None, "f1": None, "frequency": None}
    for metric in changed["quality"]["blocks"][0]["metrics"].values():
        metric |= {"value": None, "low": None, "high": None}
    for metric in changed["quality"]["blocks"][1]["metrics"].values():
        metric |= {"value": 1.0, "low": 1.0, "high": 1.0}
    reader = Reader(render_report(changed))
    assert "–" in reader.text(of="td") and "–" in reader.text(of="strong")
    assert "NaN" not in flat(reader) and "nan" not in flat(reader)


def test_pages_of_models_that_learned_nothing_and_tests_that_tell_nothing():
    model, X, Y = fit_wide()
    for W in (*model.coef_.values(), *model.intercept_.values()):
        W[...] = 0
    unknown = Y.iloc[:2] * np.nan
    summary = summarise(model, X, Y, test=(X.iloc[:2], unknown))
    (block, *_) = summary["quality"]["blocks"]
    assert {metric["value"] for metric in block["metrics"].values()} == {None}
    assert summary["shares"] == {"clinic": None, LONG: None}
    reader = Reader(render_report(summary))
    assert "–" in reader.text(of="td") and "nan" not in flat(reader)


def test_numbers_as_texts():
    assert show_number(None) == "–" and show_number(-0.12345) == "−0.123"
    shares = [None, 0, 0.00001, 0.12345, 0.99999, 1]
    assert [show_share(s) for s in shares] == ["–", "0 %", "< 0.1 %", "12.3 %", "> 99.9 %", "100 %"]


@pytest.mark.parametrize(
    ("values", "places"),
    [
        ([8, 390], [10, 20, 50, 100, 200]),
        ([21, 24], [21, 24]),
        ([3], [3]),
        ([1e-3, 1e3], [1e-3, 1e-2, 0.1, 1, 10, 100, 1000]),
    ],
)
def test_places_on_a_logarithmic_axis(values, places):
    np.testing.assert_allclose(_round_places(values), places)
    assert len(_round_places([1e-9, 1e9])) <= 7


def test_files_are_written_whole_and_the_same_every_time(tmp_path, wide, monkeypatch):
    page, numbers = tmp_path / "report.html", tmp_path / "report.json"
    write_report(page, wide)
    write_json(numbers, wide)
    assert page.read_text(encoding="utf-8") == render_report(wide)
    assert json.loads(numbers.read_text(encoding="utf-8")) == wide
    before = page.read_bytes()
    with pytest.raises(Exception, match="version"):
        write_report(page, {key: value for key, value in wide.items() if key != "version"})

    def fail(*args):
        raise OSError("disk")

    monkeypatch.setattr("naim3l.files.whole.os.replace", fail)
    with pytest.raises(OSError, match="disk"):
        write_report(page, wide)
    assert page.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_no_width_makes_the_page_scroll_sideways(wide, open_page):
    widths = (320, 400, 768, 1200)
    shown, _ = open_page(in_frames(render_report(wide), widths, MEASURE))
    measured = re.findall(r"<p>(\d+): (\d+) (\d+) (\d+)</p>", shown)
    assert [int(width) for width, *_ in measured] == list(widths)
    for width, root, body, n_seen in (map(int, found) for found in measured):
        assert root <= width and body <= width
        assert n_seen > 60, "the page was laid out"


def test_browser_has_nothing_to_complain_about(wide, chosen, open_page):
    for summary in (wide, chosen):
        shown, logged = open_page(render_report(summary))
        assert "CONSOLE" not in logged
        assert f"{len(summary['labels'])} of {len(summary['labels'])} rows" in shown
    # What a name might have smuggled in does not run.
    smuggled = render_report(wide).replace("<main>", "<main><script>document.title = 1</script>")
    shown, logged = open_page(smuggled)
    assert "CONSOLE" in logged and "<title>Report on" in shown


# Clicks headers and types into the field; writes what the first column then shows.
PLAY = """
const page = document.querySelector("iframe").contentDocument;
const head = (name) => [...page.querySelectorAll("#label-table thead th")].find(
  (th) => th.textContent.trim() === name);
const say = (what) => {
  const rows = [...page.querySelectorAll("#label-table tbody tr")].filter((tr) => !tr.hidden);
  const line = document.createElement("p");
  line.textContent = JSON.stringify([what, head("AUC").getAttribute("aria-sort"),
    rows.map((tr) => tr.cells[0].textContent.trim()),
    page.getElementById("label-count").textContent]);
  document.body.append(line);
};
const search = page.getElementById("label-search");
const type = (text) => {
  search.value = text;
  search.dispatchEvent(new page.defaultView.Event("input"));
};
say("start");
head("AUC").querySelector("button").click(); say("up");
head("AUC").querySelector("button").click(); say("down");
head("label").querySelector("button").click(); say("names");
type("ASTHMA"); say("found"); type("nothing of the kind"); say("none"); type(""); say("all");
"""


def test_labels_can_be_sorted_and_found(chosen, open_page):
    summary = json.loads(json.dumps(chosen))
    summary["labels"][0]["auc"] = None
    shown, logged = open_page(in_frames(render_report(summary), [900], PLAY))
    assert "CONSOLE" not in logged
    lines = [json.loads(line) for line in re.findall(r"<p>(\[.*?\])</p>", shown)]
    found = {what: (sort, names, count) for what, sort, names, count in lines}
    labels = summary["labels"]
    known = sorted((e for e in labels if e["auc"] is not None), key=lambda e: e["auc"])
    up, lacking = [entry["label"] for entry in known], [labels[0]["label"]]
    n = len(labels)
    assert found["start"] == (None, [entry["label"] for entry in labels], f"{n} of {n} rows")
    assert found["up"][:2] == ("ascending", up + lacking)
    assert found["down"][:2] == ("descending", up[::-1] + lacking)
    assert found["names"][:2] == (None, sorted(entry["label"] for entry in labels))
    assert found["found"][1:] == (["asthma"] * 3, f"3 of {n} rows")
    assert found["none"][1:] == ([], f"0 of {n} rows")
    assert len(found["all"][1]) == n
