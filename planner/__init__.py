"""Capacity planner for prefill-as-a-service: which chips, where, in which ratio, behind which threshold and link."""

__version__ = "0.1.0"
