"""How many accelerators serve a demand, prefill and decode together or apart: `planner size`."""

from planner.studies.size.question import SizeQuestion
from planner.studies.size.study import Sized, sized

__all__ = ["SizeQuestion", "Sized", "sized"]
