"""The event loop of the executor: records, small compiled functions on them, one loop.

Nothing here knows scenarios, plans or files: `planner.executor.systems` writes the records, `planner.executor.measure`
reads them. Functions take the whole `SimulationState`, change it in place and return plain numbers.
"""

from planner.executor.kernel.loop import advance, start
from planner.executor.kernel.state import SimulationState

__all__ = ["SimulationState", "advance", "start"]
