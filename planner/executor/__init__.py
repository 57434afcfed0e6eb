"""The judge of every plan: the planned system run request by request, sharing no formula with queueing or optimizer.

Only service times and byte counts are common, from the roofline or measured curves. The event loop is compiled on first
use, so everything loads on first use.

Public modules:

    engine  runs of one colocated pool by itself
    passes  how a colocated instance forms its passes
"""

from typing import TYPE_CHECKING

from planner.loading import on_first_use

if TYPE_CHECKING:
    from planner.executor.draws import Draws, drawn_requests
    from planner.executor.initial_state import simulation_state
    from planner.executor.memory import RunMemory
    from planner.executor.periods import simulate_periods
    from planner.executor.run import default_load, simulate
    from planner.executor.run_question import RunQuestion
    from planner.executor.systems import System, system

_LAZY = {
    "RunQuestion": "run_question",
    "RunMemory": "memory",
    "default_load": "run",
    "simulate": "run",
    "simulate_periods": "periods",
    "Draws": "draws",
    "drawn_requests": "draws",
    "System": "systems",
    "system": "systems",
    "simulation_state": "initial_state",
}

__all__ = [
    "Draws",
    "RunQuestion",
    "System",
    "RunMemory",
    "default_load",
    "drawn_requests",
    "simulate",
    "simulate_periods",
    "system",
    "simulation_state",
]

__getattr__ = on_first_use(__name__, _LAZY)
