"""Measured serving points, read from the files people have: CSV tables and results of serving benchmarks."""

from planner.profiles.points.point import PointDefaults, ServingPoint
from planner.profiles.points.reader import read_points, weights
from planner.profiles.points.writer import points_csv, write_predictions

__all__ = ["PointDefaults", "ServingPoint", "points_csv", "read_points", "weights", "write_predictions"]
