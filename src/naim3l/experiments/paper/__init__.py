"""The items that can be reproduced, by name: each a module with the four functions below.

``tasks(plan)`` says what is to be computed, ``numbers(plan, store)`` makes plain numbers of the
records there are, ``tables(numbers)`` and ``figures(numbers)`` show them. To add an item, write
such a module and name it here.
"""

from typing import Any, Protocol

from naim3l.experiments.paper import (
    ablation,
    accuracy,
    beside,
    decisions,
    fig2,
    fig4,
    fig5,
    fig6,
    fig7,
    fig8,
    frontier,
    fusion,
    table1,
    table2,
    table3,
    table4,
    table5,
    table6,
    table7,
)
from naim3l.experiments.present import ResultTable
from naim3l.experiments.store import Store
from naim3l.experiments.tasks import Plan, Task


class Item(Protocol):
    """What every such module has."""

    TITLE: str

    def tasks(self, plan: Plan) -> list[Task]: ...
    def numbers(self, plan: Plan, store: Store) -> dict[str, Any]: ...
    def tables(self, numbers: dict[str, Any]) -> list[ResultTable]: ...
    def figures(self, numbers: dict[str, Any]) -> dict[str, Any]: ...


ITEMS: dict[str, Item] = {
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "table4": table4,
    "table5": table5,
    "table6": table6,
    "table7": table7,
    "fig2": fig2,
    "fig4": fig4,
    "fig5": fig5,
    "fig6": fig6,
    "fig7": fig7,
    "fig8": fig8,
    "ablation": ablation,
    "beside": beside,
    "decisions": decisions,
    "fusion": fusion,
    "accuracy": accuracy,
    "frontier": frontier,
}
# Other names that readers of the paper would try.
ALIASES = {"fig3": "table5"}
