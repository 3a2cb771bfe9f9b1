"""Multi-label metrics that skip unknown labels.

Conventions:

- ``y_true`` of shape (n_rows, n_labels) holds 1 = yes, 0 = no, NaN (or null) = unknown;
- ``scores`` of the same shape are finite, larger = more relevant; a label is predicted where
  ``score > threshold``;
- unknown entries are skipped: each row is ranked and counted over its observed labels only;
- ``sample_weight`` of shape (n_rows,), as in scikit-learn: a row of weight 2 counts as two rows;
- a metric is NaN if nothing is left to measure.

Labels and scores may be NumPy arrays, SciPy sparse arrays, data frames or nested lists.
"""

from naim3l.metrics.functions import evaluate, make_scorer

__all__ = ["evaluate", "make_scorer"]
