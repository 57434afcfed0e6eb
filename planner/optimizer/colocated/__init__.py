"""Fleets that prefill and decode in one batch, as opponents of a plan that keeps both apart."""

from planner.optimizer.colocated.opponents import COLOCATED, Opponents, colocated_opponents

__all__ = ["COLOCATED", "Opponents", "colocated_opponents"]
