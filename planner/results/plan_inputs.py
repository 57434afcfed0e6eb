"""Inputs that a plan was made from, flat and small enough to stand in its answer, so that two plans can be compared."""

from typing import Any

from planner.schema import StrictModel

Inputs = dict[str, Any]
"""Values by key, as TOML writes the key: `links.wan.tiers[0].usd_per_hour`."""


class PlanInputs(StrictModel):
    """The question behind a plan; no text that is for readers only, and no key at its default."""

    planner: str
    """Version of the planner."""
    scenario: Inputs
    """Keys of the scenario that a plan may depend on."""
    profiles: dict[str, Inputs] = {}
    """Figures of every profile in use, by its kind and name; long lists by their digest."""
    data: dict[str, str] = {}
    """Digest of every trace, by the name that the scenario has for it."""
