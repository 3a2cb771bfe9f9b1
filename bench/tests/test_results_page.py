import re
from collections import Counter
from html.parser import HTMLParser

import pytest

from naim3l.extend import new_figure
from naim3l_bench import results as page
from naim3l_bench.plots import draw_series, save
from naim3l_bench.present import Cell, ResultTable
from naim3l_bench.results import Section, render_page, write_page

VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "wbr"}
HIDDEN = ("style", "script")


class Reader(HTMLParser):
    """Checks the nesting of tags; collects tags with attributes, and text by the tag it is in."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"an attribute of {tag} is there twice: {names}"
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes another tag: {self.open}"

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def text(self, *, of=None):
        """Texts in the order of the page, directly in tags of one name or all."""
        shown = [text for tag, text in self.texts if (tag == of if of else tag not in HIDDEN)]
        return [" ".join(text.split()) for text in shown if text.strip()]

    def attributes(self, name):
        return [attrs[name] for _, attrs in self.tags if name in attrs]


HOSTILE = "<script>alert('x')</script> & \"q\""
LONG = "a_dataset_with_a_name_that_is_longer_than_a_telephone_is_wide_" * 2
METHODS = ["lrMMC", "MVL-IV", "LabelMe", "iMSF", "iMVWL", "NAIM3L"]
# In the order of METRICS: ours, difference and mark by protocol.
OURS = {
    "paper": [("98.71 (0.02)", "+0.01 (0.4 sd)", "within"), ("87.79 (0.22)", "−0.05", "within")],
    "clean": [("98.72 (0.03)", "+0.02 (1.0 sd)", "within"), ("81.11 (0.10)", "−6.73", "outside")],
}


def draw(stem):
    fig, axes = new_figure(2)
    for ax in axes:
        draw_series(ax, [1, 2, 3], [[1.0, 2.0], [2.0, 2.5], [4.0, 3.0]], label="ours")
        ax.legend()
    return save(fig, stem)[0]


def wide_table(dataset):
    header = ["protocol", "metric", *(f"{name}, published" for name in METHODS)]
    rows = []
    for protocol, of_protocol in OURS.items():
        for metric, (ours, difference, mark) in zip(("1-HL", "AP"), of_protocol, strict=True):
            published = [Cell(f"9{i}.{i}0 (0.0{i})", "published") for i in range(6)]
            cells = [Cell(ours), Cell(difference, mark)]
            rows.append([Cell(protocol), Cell(metric), *published, *cells])
    return ResultTable(
        f"Table 2: {dataset}",
        [*header, "NAIM3L, ours", "difference"],
        rows,
        f"A note on {dataset}.",
    )


@pytest.fixture
def setup():
    dataset = {"n_samples": 4999, "n_labels": 260, "digest": "0123456789abcdef" * 4}
    return {
        "version": "0.1.0",
        "command": f"naim3l reproduce all --data {LONG}",
        "repeats": 10,
        "seeds": list(range(10)),
        "protocols": {"paper": "Features from all rows.", "clean": "From training rows."},
        "datasets": [
            {
                **dataset,
                "name": "corel5k",
                "title": "Corel5k",
                "lam": 0.4,
                "views": {"Gist": [9, 5]},
            },
            {**dataset, "name": HOSTILE, "title": LONG, "lam": None, "views": {HOSTILE: [8, 3]}},
        ],
        "missing": ["Table 2: 3 of 40 fits are not there yet"],
    }


@pytest.fixture
def sections(tmp_path):
    figures = {f"fig5-{name}-paper": draw(tmp_path / name) for name in ("corel5k", "b")}
    long_rows = [[Cell(LONG), Cell("paper"), Cell("260", "within"), Cell("–")]]
    ranks = ResultTable(HOSTILE, ["dataset", "protocol", "rank", "none"], long_rows)
    return [
        Section("table2", "Table 2: half missing", [wide_table("corel5k"), wide_table(LONG)], {}),
        Section("table5", "Table 5: ranks", [ranks], {}),
        Section("fig5", f"Fig. 5: shares {HOSTILE}", [], figures | {HOSTILE: figures.popitem()[1]}),
        Section("fig8", "Fig. 8: convergence", [], {}),
    ]


def test_every_number_is_there_in_well_nested_tags(setup, sections):
    reader = Reader(render_page(setup, sections))
    cells = Counter(text for tag in ("td", "th", "b") for text in reader.text(of=tag))
    tables = [table for section in sections for table in section.tables]
    for table in tables:
        assert table.title in reader.text() and (not table.note or table.note in reader.text())
        assert {*table.header, *(row[0].text for row in table.rows)} <= {*reader.text()}
    # Equal cells of the first column that follow each other are one.
    assert Counter(cell.text for table in tables for row in table.rows for cell in row[1:]) <= cells
    for text in ("4999", "260", "0.4", "chosen", "0123456789abcdef"):
        assert text in [*cells, *reader.text(of="code")]
    assert "Table 2: 3 of 40 fits are not there yet" in reader.text()
    assert "10 (seeds 0 to 9), each with" in " ".join(reader.text())
    assert "No results yet." in reader.text()


def test_marks_are_counted_and_shown_with_a_sign(setup, sections):
    text = render_page(setup, sections)
    reader = Reader(text)
    # Two tables with three within and one outside, and one rank within.
    assert reader.text(of="strong") == ["7", "2", "Not complete"]
    # Of every section that has marks: in the contents, and below its heading.
    assert sorted(reader.text(of="span").count(str(n)) for n in (6, 1, 2, 0)) == [2, 2, 2, 2]
    for mark, sign in (("within", "✓"), ("outside", "▲")):
        found = re.findall(rf'<td class="number {mark}">(.*?)</td>', text)
        assert len(found) == {"within": 7, "outside": 2}[mark]
        assert all(sign in cell and f'aria-label="{mark}"' in cell for cell in found)
    assert text.count('<td class="number published">') == 2 * 4 * 6
    setup["missing"] = []
    none = render_page(setup, sections[2:])
    assert "None of the numbers below" in none and "Not complete" not in none


def test_columns_of_numbers_are_told_from_texts():
    table = page._lay_out_table(wide_table("a"), "t")
    assert table["group_by"] == "protocol" and table["stays"] == 1
    assert [first.text for first, _ in table["groups"]] == ["paper", "clean"]
    assert [kind for _, kind in table["header"]] == ["head"] + ["number"] * 8
    assert page._is_numeric(["–", "2.5e-03", "−1.2", "nan (nan)", "19–20", "diverged"])
    assert not page._is_numeric(["1-HL", "1-RL", "AP", "AUC"])
    texts = ResultTable("t", ["a", "b"], [[Cell("x"), Cell("y")], [Cell("z" * 99), Cell("y")]])
    laid_out = page._lay_out_table(texts, "t")
    assert laid_out["group_by"] is None and laid_out["stays"] == 0
    assert [kind for _, kind in laid_out["header"]] == ["head", "text"]
    assert page._lay_out_table(ResultTable("t", ["a", "b"]), "t")["groups"] == [(None, [])]


def test_ids_are_unique_and_links_lead_to_them(setup, sections):
    reader = Reader(render_page(setup, sections))
    ids = reader.attributes("id")
    assert len(ids) > 50 and len(set(ids)) == len(ids)
    referred = [href[1:] for href in reader.attributes("href") if href.startswith("#")]
    for name in ("aria-labelledby", "aria-describedby"):
        referred += reader.attributes(name)
    clips = [re.search(r"url\(#(.*)\)", clip)[1] for clip in reader.attributes("clip-path")]
    assert clips and set(referred + clips) <= set(ids)
    assert {f"item-{section.name}" for section in sections} <= set(referred)


def test_page_stands_alone_and_says_what_it_is_to_everyone(setup, sections):
    text = render_page(setup, sections)
    reader = Reader(text)
    assert not re.search(r"https?://|@import|<script|javascript:|\bsrc=", text)
    assert all(href.startswith(("#", "data:,")) for href in reader.attributes("href"))
    assert ("html", {"lang": "en"}) in reader.tags
    levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1 and set(levels[1:]) == {2}
    names = [tag for tag, _ in reader.tags]
    assert names.count("caption") == names.count("table") == 4
    assert all(attrs.get("scope") for tag, attrs in reader.tags if tag == "th")
    drawings = [attrs for tag, attrs in reader.tags if tag == "svg"]
    assert [drawing["role"] for drawing in drawings] == ["img"] * 2
    assert drawings[0]["aria-label"] == f"{sections[2].title}: corel5k, protocol paper"
    assert drawings[0]["aria-label"] in reader.text(of="title")


def test_names_are_escaped(setup, sections):
    text = render_page(setup, sections)
    assert "<script" not in text
    shown = Reader(text)
    assert HOSTILE in shown.text(of="th") and HOSTILE in "".join(shown.text(of="td"))
    assert HOSTILE in shown.text(of="figcaption") and HOSTILE in shown.text(of="span")
    for key in ("command", "version"):
        assert HOSTILE in "".join(Reader(render_page(setup | {key: HOSTILE}, [])).text())
    assert HOSTILE in Reader(render_page(setup | {"missing": [HOSTILE]}, [])).text(of="li")


@pytest.mark.parametrize(
    ("name", "stem", "caption"),
    [
        ("fig5", "fig5-corel5k-genuine-paper", "corel5k-genuine, protocol paper"),
        ("fig2", "fig2-corel5k", "corel5k"),
        ("fig4", "fig4", "the title"),
    ],
)
def test_caption_says_dataset_and_protocol(name, stem, caption):
    assert page._caption(Section(name, "the title", [], {}), stem, ["paper", "clean"]) == caption


def test_seeds():
    assert page._seeds([0]) == "0" and page._seeds([3, 4]) == "3, 4"
    assert page._seeds([5, 6, 7]) == "5 to 7" and page._seeds([1, 2, 4]) == "1, 2, 4"


def test_writing_is_whole_or_not_at_all(tmp_path, setup, sections, monkeypatch):
    folder = tmp_path / "results"
    folder.mkdir()
    path = folder / "results.html"
    write_page(path, setup, sections)
    assert path.read_text(encoding="utf-8") == render_page(setup, sections)
    before = path.read_bytes()
    for broken in (
        {k: v for k, v in setup.items() if k != "version"},
        setup | {"version": "\ud800"},
    ):
        with pytest.raises(Exception, match=r"version|surrogates"):
            write_page(path, broken, sections)
    with pytest.raises(FileNotFoundError):
        write_page(path, setup, [Section("fig5", "Fig. 5", [], {"fig5-a": tmp_path / "none.svg"})])

    def fail(*args):
        raise OSError("disk")

    monkeypatch.setattr("naim3l_bench.files.os.replace", fail)
    with pytest.raises(OSError, match="disk"):
        write_page(path, setup, [])
    assert path.read_bytes() == before and list(folder.iterdir()) == [path]
