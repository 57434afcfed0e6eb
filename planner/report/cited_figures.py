"""Figures of a plan by the place that its JSON has them at; a text is made of what was asked for, and of no other."""

import re
from typing import Any

from planner.results import Ground, Plan

STEP = re.compile(r"""\["(?P<quoted>[^"]*)"\]|\[(?P<plain>[^\[\]]*)\]|(?P<field>[^.\[\]]+)""")
"""An item of a list by its name, in quotes where that has brackets, or a field by its name."""
NAMES = ("name", "constraint")
"""Fields that items of lists are called by."""


class Grounds:
    """Figures of one plan, and which of them were asked for."""

    def __init__(self, plan: Plan) -> None:
        self._answer = plan.answer()
        self._asked: dict[str, Any] = {}

    def __call__(self, figure: str) -> Any:
        """A figure, such as `pools[pd-p].utilization`. Raises KeyError where the plan has none."""
        self._asked[figure] = value = figure_of(self._answer, figure)
        return value

    def taken(self) -> tuple[Ground, ...]:
        """Figures asked for since the last call, each once and in order."""
        found = tuple(Ground(figure=figure, value=value) for figure, value in self._asked.items())
        self._asked = {}
        return found


def figure_of(answer: Any, figure: str) -> Any:
    """A figure of an answer by its place.

    Raises:
        KeyError: there is none.

    >>> figure_of({"pools": [{"name": "near", "utilization": 0.5}]}, "pools[near].utilization")
    0.5
    """
    for step in STEP.finditer(figure):
        field = step["field"]
        answer = _item(answer, step["quoted"] or step["plain"]) if field is None else answer[field]
    return answer


def place_of(kind: str, name: str) -> str:
    """Where the item of a list is that is called so.

    >>> place_of("pools", "near"), place_of("bottlenecks", "links.wan.tiers[0].max_ports")
    ('pools[near]', 'bottlenecks["links.wan.tiers[0].max_ports"]')
    """
    return f'{kind}["{name}"]' if "[" in name else f"{kind}[{name}]"


def _item(items: Any, name: str) -> Any:
    """The item of a list that is called so. Raises KeyError."""
    for item in items:
        if any(item.get(key) == name for key in NAMES):
            return item
    raise KeyError(name)
