"""The served model of an instance that a question asks about: its software, layout and number formats settled."""

from collections.abc import Mapping
from typing import Protocol

from planner.errors import InputError, Problem
from planner.profiles import HardwareProfile, ModelProfile, Speculation
from planner.roofline.chip import Chip
from planner.roofline.engine_memory import memory_settings
from planner.roofline.layout import Layout
from planner.roofline.served_model import ServedModel
from planner.roofline.stack import AskedStack, OwnStack, Stack, asked_stack, expert_traffic


class AskedInstance(Protocol):
    """An instance as a question states it."""

    @property
    def model(self) -> ModelProfile:
        """The model that it serves."""

    @property
    def hardware(self) -> HardwareProfile:
        """Its accelerators."""

    @property
    def n_accelerators(self) -> int:
        """Number of its accelerators."""

    @property
    def layout(self) -> str | None:
        """Parallel layout; None: tensor parallelism over all."""

    @property
    def precision(self) -> str | None:
        """Of weights and matrix products; None: the checkpoint's own."""

    @property
    def kv_precision(self) -> str:
        """Of the attention cache."""

    @property
    def tokens_per_pass(self) -> int | None:
        """Most tokens of a pass on an attention replica; None: as its stack has them."""

    @property
    def speculation(self) -> Speculation | None:
        """Speculative decoding; None: nothing drafts tokens."""

    @property
    def longest_step_s(self) -> float | None:
        """Limit on a decode step, or on the time per token of a colocated one, over its time factor [s]; None: none."""

    @property
    def time_factor(self) -> float:
        """Factor on all its seconds."""

    @property
    def stack(self) -> AskedStack:
        """Criteria that decide its software."""

    @property
    def stacks(self) -> Mapping[str, OwnStack]:
        """The question's own stacks, by name."""


def stack_of(asked: AskedInstance) -> Stack:
    """The software stack of an instance.

    Args:
        asked: the instance.

    Raises:
        InputError: no such framework.
    """
    return asked_stack(asked.stack, asked.stacks)


def served_instance(asked: AskedInstance) -> ServedModel:
    """The roofline of an instance.

    Args:
        asked: the instance.

    Returns:
        Its model on its accelerators, with the factors and settings of its stack.

    Raises:
        InputError: an unknown stack, a layout of another number of accelerators, or shapes that are not known.
    """
    used, layout = stack_of(asked), _layout(asked)
    settings = used.on_layout(layout, asked.hardware)
    return ServedModel(
        asked.model,
        Chip(asked.hardware, used.derated),
        layout,
        used.factors,
        asked.precision,
        asked.kv_precision,
        asked.tokens_per_pass or settings.chunk_tokens,
        memory_settings(settings),
        expert_traffic(settings),
        used.formats(asked.kv_precision),
        asked.speculation,
    )


def _layout(asked: AskedInstance) -> Layout:
    if asked.layout is None:
        return Layout(tp_size=asked.n_accelerators)
    layout = Layout.parse(asked.layout)
    if layout.n_accelerators != asked.n_accelerators:
        what = f"is {asked.layout!r}, {layout.n_accelerators} accelerators"
        raise InputError(Problem("layout", "", what, f"{asked.n_accelerators}, as accelerators_per_instance"))
    return layout
