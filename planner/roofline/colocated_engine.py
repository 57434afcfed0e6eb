"""Instances that prefill and decode in one batch, as a question asks for them: model, passes and rules of admission."""

from dataclasses import dataclass

from planner.profiles.instance_spec import InstanceSpec
from planner.roofline.asked_instance import instance_model, stack_of
from planner.roofline.engine_memory import MOST_RUNNING
from planner.roofline.served_model import InstanceModel
from planner.roofline.stack import Stack


@dataclass(frozen=True, eq=False)
class ColocatedEngine:
    """An instance in both roles; limits are those of one attention replica."""

    served: InstanceModel
    """The model on its accelerators, in its layout; a pass takes `served.chunk_tokens` on each replica."""
    stack: Stack
    """Its software."""
    most_running: int
    """Most requests admitted at once, by rule; memory may hold fewer."""
    is_prefill_first: bool
    """Whether waiting prompts have passes of their own, before any decode step; else they share passes."""
    splits_prompts: bool
    """Whether a prompt longer than a pass is computed in chunks."""
    reserves_output: bool
    """Whether a request is admitted with memory for its whole answer."""
    time_factor: float
    """Factor on all its seconds."""
    tpot_s: float | None
    """Longest mean time per token after the first, in seconds with the factor; None where nobody limits it [s]."""


def colocated_engine(asked: InstanceSpec) -> ColocatedEngine:
    """The instance of a colocated pool.

    Args:
        asked: the instance, with one layout and one size of passes.

    Returns:
        What the optimizer plans with and the executor runs.

    Raises:
        InputError: an unknown stack, a layout of another number of accelerators, or shapes that are not known.
    """
    used = stack_of(asked)
    settings, limit = used.settings, asked.longest_step_s
    return ColocatedEngine(
        served=instance_model(asked),
        stack=used,
        most_running=settings.most_running or MOST_RUNNING,
        is_prefill_first=settings.prefill_first is True,
        splits_prompts=settings.splits_prompts is not False,
        reserves_output=settings.reserves_output,
        time_factor=asked.time_factor,
        tpot_s=None if limit is None else limit * asked.time_factor,
    )
