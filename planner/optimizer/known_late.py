"""Late requests of pools at thresholds and rates that were looked at: they bound those of others from below."""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

KEPT = 256
"""Of every queue the last of what was found."""


class Queue(NamedTuple):
    """A prefill pool of some size, the link and the decode pool after it, and what counts as late."""

    is_long: bool
    """Whether it gets prompts beyond a threshold, not those up to it."""
    pool: int | None
    n_places: int
    link_bytes_per_s: float
    """0 where what it sends is not stretched [B/s]."""
    n_decode: int
    """Decode instances, whose places are waited for after it."""
    slo_ttft_s: float


class Late(NamedTuple):
    """Late requests that were found at a threshold and a rate."""

    threshold_tokens: float
    req_per_s: float
    fraction: float
    """Of all requests that are late in the queue."""


@dataclass(frozen=True)
class KnownLate:
    """Fractions of all requests that are late in queues.

    A queue that gets fewer requests has no longer waits. So no fewer are late than at a higher threshold of long
    prompts, or a lower one of short prompts, and at a lower rate.
    """

    found: dict[Queue, deque[Late]] = field(default_factory=dict)

    def add(self, queue: Queue, late: Late) -> None:
        """Add late requests that were found in a queue."""
        self.found.setdefault(queue, deque(maxlen=KEPT)).append(late)

    def least(self, queue: Queue, threshold_tokens: float, req_per_s: float) -> float:
        """At least this fraction is late at a threshold and a rate.

        Source:
            A queue with fewer arrivals has no longer waits (coupling).

        >>> known, queue = KnownLate(), Queue(True, 0, 4, 0.0, 3, 2.5)
        >>> known.add(queue, Late(8000.0, 2.0, 0.03))
        >>> known.least(queue, 7000.0, 2.5), known.least(queue, 9000.0, 2.5), known.least(queue, 7000.0, 1.9)
        (0.03, 0.0, 0.0)
        """
        sign = 1.0 if queue.is_long else -1.0
        at, found = sign * threshold_tokens, self.found.get(queue, ())
        return max((late for t, rate, late in found if rate <= req_per_s and sign * t >= at), default=0.0)
