"""The look of figures, and the files they are written to."""

import subprocess
import sys

import numpy as np
import pytest

from naim3l.report import plots


def draw():
    fig, (ax,) = plots.new_figure()
    ax.plot([1, 2, 3], [1, 3, 3], label="a line")
    ax.set(xlabel="x", ylabel="y (%)")
    plots.add_legend(ax)
    return fig


@pytest.fixture
def figure():
    return draw()


def test_size_is_that_of_the_columns():
    fig, axes = plots.new_figure(2, 3, 1.5)
    assert len(axes) == 6
    np.testing.assert_allclose(fig.get_size_inches(), [2 * plots.COLUMN_WIDTH, 4.5])


def test_texts_have_the_common_size(figure):
    (ax,) = figure.axes
    assert ax.xaxis.label.get_size() == 8
    assert {label.get_size() for label in ax.get_xticklabels()} == {8}
    assert {text.get_size() for text in ax.get_legend().get_texts()} == {7.5}


def test_style_holds_only_while_drawing():
    import matplotlib

    before = dict(matplotlib.rcParams)
    size = plots.styled(lambda: matplotlib.rcParams["font.size"])()
    assert size == plots.STYLE["font.size"] != before["font.size"]
    assert dict(matplotlib.rcParams) == before


def test_colours_and_markers_are_distinct():
    assert len(set(plots.COLOURS)) == len(plots.COLOURS) == len(set(plots.MARKERS)) == 8


def test_texts_stay_texts_on_a_page(figure):
    page = plots.to_svg(figure)
    assert ">y (%)</text>" in page and ">a line</text>" in page
    assert page == plots.to_svg(draw())


def test_the_module_itself_needs_no_matplotlib():
    code = "import sys, naim3l.extend; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
