"""The question of what to run now: a plan from the fleet that stands."""

from planner.studies.current.fleet_file import StatedFleet, stated_fleet
from planner.studies.current.study import Asked, check_fleet, current_fleet

__all__ = ["Asked", "StatedFleet", "check_fleet", "current_fleet", "stated_fleet"]
