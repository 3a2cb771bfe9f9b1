"""The items that can be reproduced, by name: tables, figures, and what goes beyond the paper.

``tasks(plan)`` says what is to be computed, ``numbers(plan, store)`` turns the existing records
into plain numbers, ``tables(numbers)`` and ``figures(numbers)`` show them. To add an item, write a
module with these four functions and a title, in ``paper/`` or ``beyond/``, and name it here.
"""

from typing import Any, Protocol

from naim3l_bench.beyond import (
    accuracy,
    all_methods,
    beside,
    blend_of_networks,
    decisions_learned,
    default_rule,
    frontier,
    fusions,
)
from naim3l_bench.paper import ablation, fig2, fig4, fig5, fig6, fig7, fig8, table1, table5, table7
from naim3l_bench.paper.metric_tables import METRIC_TABLES
from naim3l_bench.present import ResultTable
from naim3l_bench.records import Store
from naim3l_bench.tasks import Plan, Task


class Item(Protocol):
    """What every item has."""

    TITLE: str

    def tasks(self, plan: Plan) -> list[Task]: ...
    def numbers(self, plan: Plan, store: Store) -> dict[str, Any]: ...
    def tables(self, numbers: dict[str, Any]) -> list[ResultTable]: ...
    def figures(self, numbers: dict[str, Any]) -> dict[str, Any]: ...


ITEMS: dict[str, Item] = {
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
    "beside": beside.BESIDE,
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
