"""The paper's way of making data incomplete: hide labels, remove views, shuffle rows.

Each step is a function of complete 0/1 labels and a seed. `make_challenge` runs them in order and
returns a `Challenge`, which can be saved, loaded and applied to tables.

Two conventions hold throughout. A share of a count is rounded down (`whole_share`). And
`random_state` is an int, a ``numpy.random.RandomState`` or None, as in scikit-learn; NumPy has
frozen the streams of ``RandomState``, so a seed gives the same rows with every version.
"""

from naim3l.missing.challenge import Challenge, make_challenge
from naim3l.missing.masks import (
    first_positives,
    hide_labels,
    remove_views,
    shuffle_rows,
    split_rows,
)

__all__ = [
    "Challenge",
    "first_positives",
    "hide_labels",
    "make_challenge",
    "remove_views",
    "shuffle_rows",
    "split_rows",
]
