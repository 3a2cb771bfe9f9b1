"""What a fitted model has learned: column weights, shares of the views, related labels.

Everything but `label_cooccurrence`, which counts observed labels, is computed from weights and
scores and describes the model, not the world: a column with a large weight changes the score, but
may stand for other columns that it is correlated with.
"""

from naim3l.explain.column_weights import FeatureWeights, feature_weights, top_features
from naim3l.explain.cooccurrence import LabelPair, label_cooccurrence
from naim3l.explain.informing import InformingPair, informing_labels
from naim3l.explain.scores import label_relations, related_labels, score_spectrum, view_shares

__all__ = ["FeatureWeights", "LabelPair", "feature_weights", "label_cooccurrence"]
__all__ += ["InformingPair", "informing_labels"]
__all__ += ["label_relations", "related_labels", "score_spectrum", "top_features", "view_shares"]
