"""Settings that an engine is told so that it has the memory that a plan counts with."""

from typing import Literal

from planner.ranges import Counted, Fraction
from planner.schema import StrictModel


class EngineSettings(StrictModel):
    """Settings of an engine under which an instance holds the caches of a plan."""

    accounting: Literal["vllm", "sglang", "trtllm"] | None = None
    """Engine whose own accounting the memory was counted by; None: no engine's, a part of all memory."""
    memory_fraction: Fraction
    """Part of an accelerator's memory, in the sense of that engine."""
    tokens_per_pass: Counted
    """Most tokens of a pass on an attention replica [tokens]."""
    most_running: Counted | None
    """Most sequences that an attention replica admits at once; None: the stack does not say."""
    longest_tokens: Counted | None
    """Longest request whose cache fits beside the weights; None: any length does [tokens]."""
