"""Statistics and samples of a streamed problem as plain arrays, for checkpoints."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from naim3l.problem.row_sums import LabelCounts, PartStatistics
from naim3l.problem.sampling import RowSample

Arrays = dict[str, NDArray[Any]]
_PLAIN = ("gram", "known_grams", "targets", "positive_sums", "free_grams", "n_free")


def pack(statistics: PartStatistics, sample: RowSample) -> Arrays:
    """Arrays from which `unpack` makes the same statistics and sample, bit for bit."""
    factors = [R for of_fold in statistics.factors for R in of_fold]
    X, Y = sample.arrays
    return {name: getattr(statistics, name) for name in _PLAIN} | {
        "n_rows": np.array(statistics.n_rows),
        "factors": np.concatenate(factors),
        "heights": np.array([[len(R) for R in of_fold] for of_fold in statistics.factors]),
        **pack_counts(statistics.counts),
        "limit": np.array(sample.limit),
        "highest": np.array(sample.highest, dtype=np.uint64),
        "rows": sample.rows,
        "hashes": sample.hashes,
        "X": X.toarray() if sparse.issparse(X) else X,
        "Y": Y,
    }


def unpack(arrays: Mapping[str, NDArray[Any]]) -> tuple[PartStatistics, RowSample]:
    """Statistics and sample of arrays that `pack` made."""
    heights = arrays["heights"]
    factors = iter(np.split(arrays["factors"], np.cumsum(heights.ravel())[:-1]))
    statistics = PartStatistics(
        n_rows=int(arrays["n_rows"]),
        **{name: arrays[name] for name in _PLAIN},
        factors=[[next(factors) for _ in of_fold] for of_fold in heights],
        counts=unpack_counts(arrays),
    )
    sample = RowSample(
        limit=int(arrays["limit"]),
        rows=arrays["rows"],
        hashes=arrays["hashes"],
        highest=int(arrays["highest"]),
        arrays=(arrays["X"], arrays["Y"]),
    )
    return statistics, sample


def pack_counts(counts: LabelCounts) -> Arrays:
    return {"known": counts.known, "positives": counts.positives}


def unpack_counts(arrays: Mapping[str, NDArray[Any]]) -> LabelCounts:
    return LabelCounts(arrays["known"], arrays["positives"])
