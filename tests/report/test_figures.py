"""The look of figures, the numbers behind them, and their place in a page."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from naim3l.report import plots
from naim3l.report.figures import ENOUGH_ENTRIES, _round_places, draw_map, merge_bins


def draw():
    fig, (ax,) = plots.new_figure()
    ax.plot([1, 2, 3], [1, 3, 3], label="a line")
    ax.set(xlabel="x", ylabel="y (%)")
    ax.legend()
    return fig


def test_style_holds_only_while_drawing():
    import matplotlib

    before = dict(matplotlib.rcParams)
    size = plots.styled(lambda: matplotlib.rcParams["font.size"])()
    assert size == plots.STYLE["font.size"] != before["font.size"]
    assert dict(matplotlib.rcParams) == before


def test_an_inline_figure_keeps_its_look_and_loses_what_a_page_does_not_need():
    original = plots.to_svg(draw())
    assert original == plots.to_svg(draw()) and ">y (%)</text>" in original
    inline = plots.inline_svg(original, "f1", "A <label>")
    assert inline.startswith("<svg") and "xmlns" not in inline and "<!" not in inline
    assert "metadata" not in inline and "#f1 {*{stroke-linejoin" in inline
    for tag in ("<path", "<use", "<g", "<clipPath"):
        assert inline.count(tag) == original.count(tag) > 0
    quoted = """<svg><g style="fill: url('#a')" fill="url( #a )"/><a href="b"/><script/></svg>"""
    renamed = plots.inline_svg(quoted, "p", "x")
    assert "url('#p-a')" in renamed and "url(#p-a )" in renamed
    assert 'href="b"' in renamed and "script" not in renamed


def test_names_replace_texts_and_are_escaped():
    text = '<svg><g id="a"><text x="1">nnn</text></g><g id="b"><text>kept</text></g></svg>'
    found = plots.inline_svg(text, "p", "x", {"a": "<b> & 猫"})
    assert '<text x="1">&lt;b&gt; &amp; 猫</text>' in found and "<text>kept</text>" in found
    assert 'id="p-a"' in found


def test_labels_of_many_are_named_without_overlap():
    many = [f"label {i}" for i in range(150)]
    entry = {"name": "all", "n_rows": 9, "unknown": [[0.5] * 150] * 9, "lacking": {"a": [0.0] * 9}}
    drawing = draw_map(entry, many)
    assert 10 < len(drawing.names) <= 24 and "of 150 labels are named" in drawing.caption
    drawing.figure.draw_without_rendering()
    boxes = [t.get_window_extent() for t in drawing.figure.axes[0].get_xticklabels()]
    assert all(a.x1 <= b.x0 for a, b in itertools.pairwise(boxes))


@pytest.mark.parametrize(
    ("counts", "merged"),
    [
        ([30, 0, 5, 40, 0, 3], [30, 48]),
        ([1, 1, 0, 25, 19, 1, 30], [27, 20, 30]),
        ([3, 0, 4], [7]),
        ([0, 0], []),
    ],
)
def test_neighbouring_bins_are_merged_until_they_have_enough_entries(counts, merged, rng):
    before = [
        {"n": n, "probability": rng.random() if n else None, "share": rng.random() if n else None}
        for n in counts
    ]
    after = merge_bins(before)
    assert [b["n"] for b in after] == merged
    assert len(after) <= 1 or min(merged) >= ENOUGH_ENTRIES
    for key in ("probability", "share"):
        totals = [sum(b["n"] * b[key] for b in found if b["n"]) for found in (before, after)]
        assert totals[0] == pytest.approx(totals[1])


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


@pytest.mark.parametrize("module", ["naim3l.report", "naim3l.report.plots"])
def test_importing_needs_no_optional_package(module):
    code = f"import sys, {module}; sys.exit(bool({{'matplotlib', 'jinja2'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
