from naim3l.report import plots
from naim3l.report.svg import inline_svg


def draw(stem):
    fig, (ax,) = plots.new_figure()
    plots.draw_series(ax, [1, 2, 3], [[1.0, 2.0], [2.0, 2.5], [4.0, 3.0]], label="ours")
    plots.add_legend(ax)
    return plots.save(fig, stem)[0]


def test_drawings_keep_their_looks_and_lose_what_a_page_does_not_need(tmp_path):
    original = draw(tmp_path / "f").read_text(encoding="utf-8")
    drawing = inline_svg(original, "f1", "A <label>")
    assert drawing.startswith("<svg") and "xmlns" not in drawing and "<!" not in drawing
    assert "metadata" not in drawing and "#f1 {*{stroke-linejoin" in drawing
    for tag in ("<path", "<use", "<g", "<clipPath"):
        assert drawing.count(tag) == original.count(tag) > 0
    quoted = """<svg><g style="fill: url('#a')" fill="url( #a )"/><a href="b"/><script/></svg>"""
    renamed = inline_svg(quoted, "p", "x")
    assert "url('#p-a')" in renamed and "url(#p-a )" in renamed
    assert 'href="b"' in renamed and "script" not in renamed


def test_names_take_the_place_of_texts_and_are_escaped():
    text = '<svg><g id="a"><text x="1">nnn</text></g><g id="b"><text>kept</text></g></svg>'
    found = inline_svg(text, "p", "x", {"a": "<b> & 猫"})
    assert '<text x="1">&lt;b&gt; &amp; 猫</text>' in found and "<text>kept</text>" in found
    assert 'id="p-a"' in found
