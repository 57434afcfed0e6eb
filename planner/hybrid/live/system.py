"""Records of live serving: requests, the system that serves them, and what came of it."""

from dataclasses import dataclass, field
from typing import Literal

from planner.hybrid.live.messages import ModelSetup, Step, WorkerSpec
from planner.hybrid.model import Tokens

Outcome = Literal["finished", "dropped"]


@dataclass(frozen=True, eq=False)
class LiveRequest:
    """One request."""

    arrival_s: float
    """After the start of the run [s]."""
    tokens: Tokens
    """Its prompt."""
    output_tokens: int
    """Tokens wanted, at least 1."""


@dataclass(frozen=True)
class LiveSystem:
    """Workers, link and rules."""

    model: ModelSetup
    workers: tuple[WorkerSpec, ...]
    """Prefill workers of the pools `remote_pool` and `local_pool`, and decode workers."""
    link_bytes_per_s: float
    """Rate of the link between the remote pool and decode [B/s]."""
    threshold_tokens: float = 0.0
    """Requests with more uncached tokens than this go to the remote pool [tokens]."""
    remote_pool: str = "prfaas"
    local_pool: str = "pd-p"
    most_attempts: int = 3
    """Attempts at a request before it is dropped."""
    most_restarts: int = 2
    """Times that one worker is replaced."""


@dataclass
class LiveRecord:
    """Outcome of one request; times after the start of the run [s], None where it did not get so far."""

    index: int
    arrival_s: float
    input_tokens: int
    output_tokens: int
    uncached_tokens: int = 0
    """Tokens that the router thought would have to be computed, by which it chose the pool."""
    pool: str = ""
    worker: str = ""
    decode_worker: str = ""
    n_attempts: int = 0
    prefill_start_s: float | None = None
    prefill_end_s: float | None = None
    prefill_busy_s: float | None = None
    """Seconds between them in which the worker's thread ran [s]."""
    cached_tokens: int = 0
    """Tokens that the prefill worker did not compute."""
    received_s: float | None = None
    """When its cache was whole at the decode worker, which has its first token then."""
    joined_s: float | None = None
    finished_s: float | None = None
    kv_bytes: int = 0
    """Payload that crossed, without frames' headers [B]."""
    tokens: tuple[int, ...] = ()
    """Its output."""
    outcome: Outcome | None = None
    reason: str = ""
    """Why it was dropped, or last tried again."""

    @property
    def ttft_s(self) -> float | None:
        """From arrival to the first token at the decode worker [s]."""
        return None if self.received_s is None else self.received_s - self.arrival_s

    @property
    def tpot_s(self) -> float | None:
        """Mean time between tokens after the first, waiting for a place in the batch included [s]."""
        if self.finished_s is None or self.received_s is None or self.output_tokens < 2:
            return None
        return (self.finished_s - self.received_s) / (self.output_tokens - 1)


@dataclass
class LiveRun:
    """A run."""

    records: list[LiveRecord]
    steps: list[Step] = field(default_factory=list)
    """Every decode step that a finished request told of."""
    link_bytes: int = 0
    """Bytes that crossed the link, headers and failed attempts included [B]."""
    duration_s: float = 0.0
    """From the start to the last event [s]."""
    n_deaths: int = 0
    """Workers that died."""
    interrupted: bool = False
    """Whether it was ended before its time."""

    @property
    def finished(self) -> list[LiveRecord]:
        """Requests that got all their tokens."""
        return [record for record in self.records if record.outcome == "finished"]

    @property
    def dropped(self) -> list[LiveRecord]:
        """Requests that did not, each with its reason."""
        return [record for record in self.records if record.outcome == "dropped"]
