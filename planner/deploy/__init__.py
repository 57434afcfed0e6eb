"""Deployment: a plan as the manifests and launch commands that run it, and what those cannot say of it."""

from planner.deploy.export import check_export_folder, export_files, write_export
from planner.deploy.refusals import TARGETS, Target

__all__ = ["TARGETS", "Target", "check_export_folder", "export_files", "write_export"]
