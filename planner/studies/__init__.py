"""Studies that take several rooms: a plan with everything a cost report holds it against."""

from planner.studies.case import build_case

__all__ = ["build_case"]
