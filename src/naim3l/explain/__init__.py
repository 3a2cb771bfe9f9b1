"""What a fitted model has learned: column weights, shares of the views, related labels.

Everything but `label_cooccurrence`, which counts observed labels, is computed from weights and
scores and describes the model, not the world: a column with a large weight changes the score, but
may stand for other columns that it is correlated with.
"""

from naim3l.explain.column_weights import (
    Feature,
    FeatureWeights,
    feature_weights,
    top_features,
    top_features_of_all,
)
from naim3l.explain.cooccurrence import LabelPair, label_cooccurrence
from naim3l.explain.model_views import (
    ViewKernel,
    check_explained,
    linear_views,
    view_kernels,
)
from naim3l.explain.scores import (
    label_relations,
    related_labels,
    score_spectrum,
    view_shares,
)

__all__ = [
    "Feature",
    "FeatureWeights",
    "LabelPair",
    "ViewKernel",
    "check_explained",
    "feature_weights",
    "label_cooccurrence",
    "label_relations",
    "linear_views",
    "related_labels",
    "score_spectrum",
    "top_features",
    "top_features_of_all",
    "view_kernels",
    "view_shares",
]
