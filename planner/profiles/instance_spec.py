"""An instance as a question states it, and the criteria that choose its serving stack."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from planner.profiles.hardware import HardwareProfile
from planner.profiles.measured import MeasuredInstance
from planner.profiles.model import ModelProfile
from planner.profiles.speculation import Speculation


class OwnStack(Protocol):
    """A stack that somebody describes by what differs from another one."""

    @property
    def like(self) -> str:
        """The other one."""

    @property
    def factors(self) -> Mapping[str, float]:
        """Factors that differ."""

    @property
    def points(self) -> tuple[str, ...]:
        """Files of measured points that factors are yet to be fitted to."""

    @property
    def settings(self) -> Mapping[str, float | int | None]:
        """Settings that differ; None: as the other one."""


@dataclass(frozen=True)
class StackCriteria:
    """Criteria that choose the stack for the pools of a model."""

    model: str
    """Name of the model's profile."""
    hardware: tuple[str, ...]
    """Kinds of accelerators of all pools of the model, which are to run the same software."""
    ran_under: tuple[str, ...]
    """Stacks that the pools of the model were measured under, where somebody says so."""
    stated: str | None
    """The stack that the pool states, else its model; None: the default of the model."""


@dataclass(frozen=True, eq=False)
class InstanceSpec:
    """An instance as a question states it, names resolved: what service times are looked up or computed from."""

    model: ModelProfile
    hardware: HardwareProfile
    n_accelerators: int
    layout: str | None
    """As the pool states it; None: tensor parallelism over all accelerators."""
    precision: str | None
    """Of weights and matrix products; None: the checkpoint's own."""
    kv_precision: str
    """Of the attention cache."""
    speculation: Speculation | None
    """Speculative decoding; None: nothing drafts tokens."""
    stack: StackCriteria
    """Criteria that choose its software."""
    stacks: Mapping[str, OwnStack]
    """The scenario's own stacks, by name."""
    measured: MeasuredInstance | None
    """What somebody measured of it in the pool's role; None where nobody did, or the roofline is asked for."""
    may_be_timed: bool
    """Whether the roofline times it where nobody measured it."""
    longest_step_s: float | None
    """Limit on its decode step, before the pool's `time_factor`: the shortest of the pool's own and its classes'
    promises; None where nobody limits it [s]."""
    time_factor: float
    tokens_per_pass: int | None = None
    """Most tokens of a pass on an attention replica; None: as its stack has them."""
