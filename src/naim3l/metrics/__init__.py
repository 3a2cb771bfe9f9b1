"""Multi-label metrics that skip unknown labels.

Conventions, the same for every function here:

- ``y_true`` of shape (n_rows, n_labels) holds 1 = yes, 0 = no, NaN (or null) = unknown;
- ``scores`` of the same shape are finite, larger = more relevant; a label is predicted where
  ``score > threshold``;
- unknown entries are skipped: each row is ranked and counted over its observed labels only;
- ``sample_weight`` of shape (n_rows,), as in scikit-learn: a row of weight 2 counts as two rows;
- a metric is NaN if nothing is left to measure.

Labels and scores may be NumPy arrays, SciPy sparse arrays, data frames or nested lists.
"""

from naim3l.metrics.functions import (
    adapted_auc,
    average_precision,
    coverage,
    evaluate,
    example_f1,
    hamming_loss,
    macro_auc,
    macro_f1,
    make_scorer,
    micro_auc,
    micro_f1,
    one_error,
    ranking_loss,
)

__all__ = ["adapted_auc", "average_precision", "coverage", "evaluate", "example_f1", "hamming_loss"]
__all__ += ["macro_auc", "macro_f1", "make_scorer", "micro_auc", "micro_f1", "one_error"]
__all__ += ["ranking_loss"]
