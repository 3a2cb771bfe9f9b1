"""The page of a report in a browser, as `make docs` opens it; other runs skip these tests."""

import json
import os
import re

import pytest

from html_pages import MEASURE, dump_dom, in_frames
from naim3l.report import summarise
from naim3l.report.findings import main_labels
from report_models import LONG, draw, fit_chosen, fit_wide, page_of

pytestmark = [
    pytest.mark.docs,
    pytest.mark.skipif("NAIM3L_SITE" not in os.environ, reason="opened in a browser by make docs"),
]


@pytest.fixture(scope="module")
def chosen():
    return summarise(*fit_chosen(), test=draw((70, 60), seed=5))


@pytest.fixture(scope="module")
def wide():
    """With hostile and long names, on training rows."""
    return summarise(*fit_wide())


@pytest.fixture
def open_page(tmp_path):
    """Function that writes a page to a file and opens that."""

    def opened(text):
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        return dump_dom(path, tmp_path)

    return opened


def test_no_width_makes_the_page_scroll_sideways(wide, open_page):
    widths = (320, 400, 768, 1200)
    shown, _ = open_page(in_frames(page_of(wide), widths, MEASURE))
    measured = re.findall(r"<p>(\d+): (\d+) (\d+) (\d+)</p>", shown)
    assert [int(width) for width, *_ in measured] == list(widths)
    for width, root, body, n_seen in (map(int, found) for found in measured):
        assert root <= width and body <= width
        assert n_seen > 60, "the page was laid out"


def test_browser_has_nothing_to_complain_about(wide, chosen, open_page):
    for summary in (wide, chosen):
        shown, logged = open_page(page_of(summary))
        assert "CONSOLE" not in logged
        n = len(main_labels(summary))
        assert f"{n} of {n} rows" in shown
    # What a name might have smuggled in does not run.
    smuggled = page_of(wide).replace("<main>", "<main><script>document.title = 1</script>")
    shown, logged = open_page(smuggled)
    assert "CONSOLE" in logged and "<title>How good are" in shown


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
    labels = main_labels(summary)
    labels[0]["auc"] = None
    shown, logged = open_page(in_frames(page_of(summary), [900], PLAY))
    assert "CONSOLE" not in logged
    lines = [json.loads(line) for line in re.findall(r"<p>(\[.*?\])</p>", shown)]
    found = {what: (sort, names, count) for what, sort, names, count in lines}
    known = sorted((e for e in labels if e["auc"] is not None), key=lambda e: e["auc"])
    up, lacking = [entry["label"] for entry in known], [labels[0]["label"]]
    n = len(labels)
    assert found["start"] == (None, [entry["label"] for entry in labels], f"{n} of {n} rows")
    assert found["up"][:2] == ("ascending", up + lacking)
    assert found["down"][:2] == ("descending", up[::-1] + lacking)
    assert found["names"][:2] == (None, sorted(entry["label"] for entry in labels))
    assert found["found"][1:] == (["asthma"], f"1 of {n} rows")
    assert found["none"][1:] == ([], f"0 of {n} rows")
    assert len(found["all"][1]) == n


# Writes how many labels are in sight, and how many tables have a visible hint to scroll sideways.
LOOK = """
for (const frame of document.querySelectorAll("iframe")) {
  const page = frame.contentDocument;
  const seen = (what) => [...page.querySelectorAll(what)].filter(
    (e) => e.getBoundingClientRect().height > 0);
  const hidden = seen(".scroll").filter((e) => e.scrollWidth > e.clientWidth + 1);
  const before = seen("#label-table tbody tr").length;
  page.querySelector("button.all").click();
  document.body.insertAdjacentHTML("beforeend", `<p>${frame.width}: ${before} ` +
    `${seen("#label-table tbody tr").length} ${hidden.length} ${seen(".hint").length}</p>`);
}
"""


def test_nothing_is_hidden_without_a_hint(wide, open_page):
    """Long tables have a button that shows their rest, wide ones say that they continue."""
    summary = json.loads(json.dumps(wide))
    summary["labels"] = [e | {"label": f"{i} {LONG}"} for i in range(15) for e in wide["labels"]]
    shown, logged = open_page(in_frames(page_of(summary), [400, 1280], LOOK))
    assert "CONSOLE" not in logged
    measured = re.findall(r"<p>(\d+): (\d+) (\d+) (\d+) (\d+)</p>", shown)
    narrow, broad = ([int(number) for number in found] for found in measured)
    assert narrow[:3] == [400, 25, 60] and broad[:3] == [1280, 25, 60]
    assert narrow[3] == narrow[4] > 0 and broad[3] == broad[4]
