"""A random sample of the rows of tables that are read in parts, to measure a model on."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naim3l.cli.work.streamed_work import COPIES, SHARE_OF_PARTS
from naim3l.cli.work.study import ViewData
from naim3l.input.passes import memory_limit, run_pass
from naim3l.problem.sampling import RowSample

# Rows of each view on which predictions are measured, and which a report shows.
MEASURED_ROWS = 100_000


def sample_rows(
    data: Mapping[str, ViewData], *, limit: int | None = None, shown: bool = False
) -> dict[str, ViewData]:
    """Views with a sample of their rows in memory, in the order of the files.

    The sample is the same for any parts, and all rows if there are at most ``limit``. Tables with
    the same number of rows have the same rows in it.

    Parameters
    ----------
    data : mapping of view to ViewData
        With features and labels in parts.
    limit : int, optional
        Largest number of rows of a view; by default `MEASURED_ROWS`, or fewer if a limit of memory
        is in force.
    shown : bool
        Whether bars show the progress.
    """
    sampled = {}
    for name, view in data.items():
        table, labels = view.features, view.labels
        most = limit or _most_rows(table.n_columns + labels.n_columns)
        sample = run_pass(
            _Sample(np.cumsum([0, *table.lengths]), most),
            list(zip(table.parts, labels.parts, strict=True)),
            RowSample.combine,
            title="sample" if len(data) == 1 else f"sample of {name}",
            shown=shown,
            n_rows=table.lengths,
            places=list(zip(table.places, labels.places, strict=True)),
        )
        features, known = sample.arrays
        # Categories, as some parts have others than the rest, are text again.
        words = {column: object for column in view.words if column in features}
        sampled[name] = replace(view, features=features.astype(words), labels=known)
    return sampled


def sampled_views(
    data: Mapping[str, ViewData], sample: Mapping[str, ViewData]
) -> dict[str, dict[str, int]]:
    """Numbers of rows of views, and of those in their sample, unless it has all rows."""
    numbers = {
        name: {"rows": sum(data[name].features.lengths), "sample": len(view.features)}
        for name, view in sample.items()
    }
    return {name: rows for name, rows in numbers.items() if rows["sample"] < rows["rows"]}


def _most_rows(n_columns: int) -> int:
    """Number of rows of a sample, several copies of which fit in the memory that may be used."""
    memory = memory_limit()
    if memory is None:
        return MEASURED_ROWS
    return max(min(MEASURED_ROWS, int(SHARE_OF_PARTS * memory / (8 * COPIES * n_columns))), 1)


@dataclass(frozen=True)
class _Sample:
    """Task that samples a part."""

    starts: NDArray[np.int64]
    limit: int

    def __call__(self, i: int, features: Any, labels: Any) -> RowSample:
        rows = self.starts[i] + np.arange(len(features))
        return RowSample.of(self.limit, 0, 0, rows, (features, labels), n_rows=int(self.starts[-1]))
