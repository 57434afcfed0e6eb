"""Settings that an engine is told so that it has the memory that a plan counts with."""

from planner.ranges import Counted, Fraction
from planner.schema import StrictModel


class EngineSettings(StrictModel):
    """Settings of an engine under which an instance holds the caches of a plan."""

    memory_fraction: Fraction
    """Part of an accelerator's memory, in the sense of the pool's stack."""
    tokens_per_pass: Counted
    """Most tokens of a pass on an attention replica [tokens]."""
    most_running: Counted
    """Most sequences that an attention replica admits at once."""
    longest_tokens: Counted | None
    """Longest request whose cache fits beside the weights; None: any length does [tokens]."""
