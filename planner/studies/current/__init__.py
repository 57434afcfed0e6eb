"""What do I run now: a plan from the fleet that stands."""

from planner.studies.current.study import Asked, current_fleet

__all__ = ["Asked", "current_fleet"]
