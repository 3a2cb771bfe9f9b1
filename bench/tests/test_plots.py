"""Series of values, and the files that figures are written to."""

import numpy as np
import pytest

from naim3l.extend import new_figure
from naim3l_bench import plots


@pytest.fixture
def figure():
    fig, (ax,) = new_figure()
    plots.draw_series(ax, [1, 2, 3], [[1, 2], [2, 4], [3, 3]], label="a line")
    ax.set(xlabel="x", ylabel="y (%)")
    return fig


def test_series_shows_mean_and_population_deviation(figure):
    (ax,) = figure.axes
    (container,) = ax.containers
    line, _, (bars,) = container
    np.testing.assert_array_equal(line.get_ydata(), [1.5, 3, 3])
    np.testing.assert_allclose([np.ptp(s[:, 1]) / 2 for s in bars.get_segments()], [0.5, 1, 0])


def test_files_are_whole_and_the_same_every_time(tmp_path, figure):
    (tmp_path / "again").mkdir()
    first = plots.save(figure, tmp_path / "fig-0.5")
    second = plots.save(figure, tmp_path / "again" / "fig-0.5")
    assert [path.name for path in first] == ["fig-0.5.svg", "fig-0.5.png"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert first[0].read_text().rstrip().endswith("</svg>")
    assert first[1].read_bytes().startswith(b"\x89PNG")
    assert len(list(tmp_path.iterdir())) == 3  # nothing half-written beside them


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
