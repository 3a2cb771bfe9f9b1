"""What a fitted model has learned, and why a row has its probabilities.

All of it describes the model, not the world: a column with a large weight changes the score, but
may stand for other columns that it is correlated with. `naim3l.report.summarise` has more.
"""

from naim3l.explain.column_weights import top_features
from naim3l.explain.informing import InformingPair, informing_labels
from naim3l.explain.rows import Explanation, Part, explain_row
from naim3l.explain.waterfall import draw_explanations

__all__ = ["Explanation", "InformingPair", "Part", "draw_explanations", "explain_row"]
__all__ += ["informing_labels", "top_features"]
