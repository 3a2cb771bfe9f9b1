"""The look of figures, and the files they are written to."""

import subprocess
import sys

import numpy as np
import pytest

from naim3l.report import plots


@pytest.fixture
def figure():
    fig, (ax,) = plots.new_figure()
    plots.draw_series(ax, [1, 2, 3], [[1, 2], [2, 4], [3, 3]], label="a line")
    ax.set(xlabel="x", ylabel="y (%)")
    plots.add_legend(ax)
    return fig


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


def test_series_shows_mean_and_population_deviation(figure):
    (ax,) = figure.axes
    (container,) = ax.containers
    line, _, (bars,) = container
    np.testing.assert_array_equal(line.get_ydata(), [1.5, 3, 3])
    np.testing.assert_allclose([np.ptp(s[:, 1]) / 2 for s in bars.get_segments()], [0.5, 1, 0])


def test_colours_and_markers_are_distinct():
    assert len(set(plots.COLOURS)) == len(plots.COLOURS) == len(set(plots.MARKERS)) == 8


def test_files_are_whole_and_the_same_every_time(tmp_path, figure):
    (tmp_path / "again").mkdir()
    first = plots.save(figure, tmp_path / "fig-0.5")
    second = plots.save(figure, tmp_path / "again" / "fig-0.5")
    assert [path.name for path in first] == ["fig-0.5.svg", "fig-0.5.png"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert first[0].read_text().rstrip().endswith("</svg>")
    assert first[1].read_bytes().startswith(b"\x89PNG")
    assert len(list(tmp_path.iterdir())) == 3  # nothing half-written beside them


def test_texts_stay_texts_on_a_page(tmp_path, figure):
    file, _ = plots.save(figure, tmp_path / "fig")
    assert "<text" not in file.read_text(encoding="utf-8")
    page = plots.to_svg(figure)
    assert ">y (%)</text>" in page and ">a line</text>" in page
    assert page == plots.to_svg(figure)


def test_a_failed_write_leaves_the_old_file(tmp_path, figure, monkeypatch):
    old = plots.save(figure, tmp_path / "fig")[0].read_bytes()

    def fail(path, **options):
        path.write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        plots.save(figure, tmp_path / "fig")
    assert (tmp_path / "fig.svg").read_bytes() == old
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fig.png", "fig.svg"]


def test_the_module_itself_needs_no_matplotlib():
    code = "import sys, naim3l.experiments.paper.fig2; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
