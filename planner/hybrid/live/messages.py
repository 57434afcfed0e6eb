"""Messages between router and workers over pipes. Times are `time.monotonic`, one clock for all processes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from planner.hybrid.arrays import NUMPY, Backend
from planner.hybrid.model import Tokens
from planner.profiles import ModelProfile

Role = Literal["prefill", "decode"]


@dataclass(frozen=True)
class ModelSetup:
    """The model that every worker builds for itself, and the sizes of its caches."""

    profile: ModelProfile
    seed: int = 0
    chunk_tokens: int = 512
    """Most tokens of one prefill pass."""
    block_tokens: int = 64
    """Tokens of a block of the prefix cache."""
    n_blocks: int = 4096
    """Blocks of each prefill worker's prefix cache; 0: none is kept."""
    batch_limit: int = 8
    """Most requests decoded together by one worker."""
    backend: Backend = NUMPY
    """Library and device that it computes with."""


@dataclass(frozen=True)
class WorkerSpec:
    """One worker."""

    name: str
    pool: str
    role: Role
    core: int | None = None
    """Core that it is pinned to, where the system can; None: anywhere."""


@dataclass(frozen=True)
class WorkerSetup:
    """Settings that a worker's process is started with."""

    spec: WorkerSpec
    model: ModelSetup
    token: bytes = field(repr=False)
    """Of the run: frames that do not begin with it come from elsewhere."""
    lock_path: str | None = None
    """File that workers of one core lock while they prefill, so that the core serves one of them at a time."""


# To a worker


@dataclass(frozen=True)
class Prefill:
    """Prefill a request and send its cache to a port."""

    attempt: int
    tokens: Tokens
    output_tokens: int
    port: int


@dataclass(frozen=True)
class Task:
    """Call a function with the worker's model, such as to time it."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Stop:
    """End."""


# From a worker


@dataclass(frozen=True)
class Ready:
    """The model is built."""

    port: int | None = None
    """Where a decode worker takes caches."""


@dataclass(frozen=True)
class Prefilled:
    """The first token of a request is known."""

    attempt: int
    started_s: float
    finished_s: float
    busy_s: float
    """Seconds of it in which the worker's thread ran [s]."""
    cached_tokens: int
    kept_tokens: int
    """Tokens at which its state was kept for others; 0 where it was not."""


@dataclass(frozen=True)
class Lost:
    """A request could not be served here."""

    attempt: int
    reason: str


@dataclass(frozen=True)
class Joined:
    """A cache has arrived whole, and its request decodes from now on."""

    attempt: int
    received_s: float
    joined_s: float
    payload_bytes: int
    """What came of the cache, without frames' headers [B]."""


@dataclass(frozen=True)
class Step:
    """One decode step."""

    batch: int
    mean_context_tokens: float
    busy_s: float
    """Seconds in which the worker's thread ran [s]."""
    wall_s: float


@dataclass(frozen=True)
class Finished:
    """All tokens of a request are there."""

    attempt: int
    tokens: tuple[int, ...]
    finished_s: float
    steps: tuple[Step, ...]
    """Steps of the worker since it last said so."""


@dataclass(frozen=True)
class Answer:
    """Value that a task returned."""

    value: Any


@dataclass(frozen=True)
class Foreign:
    """Something else than frames of this run came to a worker's port, and was dropped."""

    n_connections: int
    """Since the worker last said so."""
    reason: str
    """Of the last one."""


@dataclass(frozen=True)
class Gone:
    """The worker's process has ended."""


ToWorker = Prefill | Task | Stop
FromWorker = Ready | Prefilled | Lost | Joined | Finished | Answer | Foreign | Gone
