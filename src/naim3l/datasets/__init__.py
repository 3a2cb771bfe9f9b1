"""Datasets: an embedded table, a generator, and the paper's way of making data incomplete."""

from naim3l.datasets.challenge import (
    Challenge,
    first_positives,
    hide_labels,
    make_challenge,
    remove_views,
    shuffle_rows,
    split_rows,
)
from naim3l.datasets.generate import make_unpaired
from naim3l.datasets.yeast import load_yeast

__all__ = [
    "Challenge",
    "first_positives",
    "hide_labels",
    "load_yeast",
    "make_challenge",
    "make_unpaired",
    "remove_views",
    "shuffle_rows",
    "split_rows",
]
