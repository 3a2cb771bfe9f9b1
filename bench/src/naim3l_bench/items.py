"""The items that can be reproduced, by name: tables, figures, and what goes beyond the paper.

``tasks(plan)`` says what is to be computed, ``numbers(plan, store)`` turns the existing records
into plain numbers, ``tables(numbers)`` and ``figures(numbers)``, for items that have any, show
them. To add an item, write a module with these functions and a ``TITLE``, in ``paper/`` or
``beyond/``, and name it here.
"""

from typing import Any

from naim3l_bench.beyond import (
    accuracy,
    all_methods,
    blend_of_networks,
    decisions_learned,
    default_rule,
    frontier,
    fusions,
)
from naim3l_bench.paper import ablation, fig2, fig4, fig5, fig6, fig7, fig8, table1, table5, table7
from naim3l_bench.paper.comparison import BESIDE, METRIC_TABLES

ITEMS: dict[str, Any] = {
    "table1": table1,
    "table2": METRIC_TABLES["table2"],
    "table3": METRIC_TABLES["table3"],
    "table4": METRIC_TABLES["table4"],
    "table5": table5,
    "table6": METRIC_TABLES["table6"],
    "table7": table7,
    "fig2": fig2,
    "fig4": fig4,
    "fig5": fig5,
    "fig6": fig6,
    "fig7": fig7,
    "fig8": fig8,
    "ablation": ablation,
    "beside": BESIDE,
    "decisions": decisions_learned,
    "rules": default_rule,
    "fusion": fusions,
    "accuracy": accuracy,
    "blend": blend_of_networks,
    "frontier": frontier,
    "compare": all_methods,
}
# Other names that readers of the paper would try.
ALIASES = {"fig3": "table5"}
