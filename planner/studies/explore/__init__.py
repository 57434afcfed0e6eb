"""Contents of the page of `planner explore`: a plan, and tables that are combined in the page."""

from planner.studies.explore.study import PageInputs, explorer

__all__ = ["PageInputs", "explorer"]
