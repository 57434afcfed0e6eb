"""The question of what to run now: a plan from the fleet that stands."""

from planner.studies.migration.fleet_file import StatedFleet, stated_fleet
from planner.studies.migration.study import MigrationQuestion, check_fleet, current_fleet

__all__ = ["MigrationQuestion", "StatedFleet", "check_fleet", "current_fleet", "stated_fleet"]
