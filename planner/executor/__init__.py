"""The judge of every plan: the planned system run request by request, sharing no formula with queueing or optimizer.

Only service times and byte counts are common, from the roofline or measured curves. The event loop is compiled on first
use, so everything loads on first use.
"""

from typing import TYPE_CHECKING

from planner.loading import on_first_use

if TYPE_CHECKING:
    from planner.executor.run import RunQuestion, default_load, simulate
    from planner.executor.streams import Streams, drawn_requests
    from planner.executor.systems import System, system, world

_LAZY = {
    "RunQuestion": "run",
    "default_load": "run",
    "simulate": "run",
    "Streams": "streams",
    "drawn_requests": "streams",
    "System": "systems",
    "system": "systems",
    "world": "systems",
}

__all__ = [
    "RunQuestion",
    "Streams",
    "System",
    "default_load",
    "drawn_requests",
    "simulate",
    "system",
    "world",
]

__getattr__ = on_first_use(__name__, _LAZY)
