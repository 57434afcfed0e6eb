"""Measured serving points against predictions, and stacks fitted to them."""

from planner.studies.fidelity.calibrate import PointsOf, calibrated_stack
from planner.studies.fidelity.calibration_request import (
    shipped_conventions,
    shipped_factors,
    shipped_settings,
    wanted_framework,
)
from planner.studies.fidelity.catalogue_points import catalogue_points
from planner.studies.fidelity.fidelity import fidelity
from planner.studies.fidelity.own_points import with_fitted_stacks
from planner.studies.fidelity.survey import survey

__all__ = [
    "PointsOf",
    "calibrated_stack",
    "catalogue_points",
    "fidelity",
    "shipped_conventions",
    "shipped_factors",
    "shipped_settings",
    "survey",
    "wanted_framework",
    "with_fitted_stacks",
]
