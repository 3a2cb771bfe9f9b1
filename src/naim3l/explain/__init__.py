"""What a fitted model has learned, and why a row has its probabilities.

Everything but `label_cooccurrence`, which counts observed labels, is computed from weights and
scores and describes the model, not the world: a column with a large weight changes the score, but
may stand for other columns that it is correlated with.
"""

from naim3l.explain.column_weights import FeatureWeights, feature_weights, top_features
from naim3l.explain.label_pairs import (
    InformingPair,
    LabelPair,
    informing_labels,
    label_cooccurrence,
)
from naim3l.explain.rows import Explanation, Part, explain_row
from naim3l.explain.shares import view_shares
from naim3l.explain.waterfall import draw_explanations

__all__ = ["FeatureWeights", "LabelPair", "feature_weights", "label_cooccurrence"]
__all__ += ["Explanation", "Part", "draw_explanations", "explain_row"]
__all__ += ["InformingPair", "informing_labels"]
__all__ += ["top_features", "view_shares"]
