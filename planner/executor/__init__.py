"""The judge of every plan: the planned system run request by request, sharing no formula with queueing or optimizer.

Only service times and byte counts are common, from the roofline or measured curves. The event loop is compiled on first
use, so everything loads on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.executor.draws import Draws, drawn_requests
    from planner.executor.periods import simulate_periods
    from planner.executor.run import RunQuestion, default_load, simulate
    from planner.executor.systems import System, system
    from planner.executor.worlds import world

_LAZY = {
    "RunQuestion": "run",
    "default_load": "run",
    "simulate": "run",
    "simulate_periods": "periods",
    "Draws": "draws",
    "drawn_requests": "draws",
    "System": "systems",
    "system": "systems",
    "world": "worlds",
}

__all__ = [
    "Draws",
    "RunQuestion",
    "System",
    "default_load",
    "drawn_requests",
    "simulate",
    "simulate_periods",
    "system",
    "world",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
