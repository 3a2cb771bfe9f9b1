"""What a fitted model has learned: columns behind a label, views, labels that go together.

All of it is read from weights and scores, and describes the model, not the world: a column with a
large weight moves the score, and may do so on behalf of columns that it is correlated with.
"""

from naim3l.explain.explained import check_explained
from naim3l.explain.kernel_views import ViewKernel, linear_views, view_kernels
from naim3l.explain.own_columns import (
    Feature,
    FeatureWeights,
    feature_weights,
    top_features,
    top_features_of_all,
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
    "ViewKernel",
    "check_explained",
    "feature_weights",
    "label_relations",
    "linear_views",
    "related_labels",
    "score_spectrum",
    "top_features",
    "top_features_of_all",
    "view_kernels",
    "view_shares",
]
