"""Where the queueing model of colocated pools is known to be off: what runs of random pools have shown."""

from dataclasses import dataclass
from math import inf
from typing import Literal

Doubt = Literal["places", "routing", "bursts", "lengths", "answers", "first"]
"""Why figures may be far off."""
DOUBTS: dict[Doubt, str] = {
    "places": "places in the batch run short",
    "routing": "its instances are busy together",
    "bursts": "prompts that come together decode together",
    "lengths": "prompts are very unequal",
    "answers": "a request meets few of the prompts that come",
    "first": "prompts come before decode steps, and often",
}
"""The same in words."""
LEAST_ROOM = 3.3
"""Places that are free on average, in standard deviations of how many are taken: with fewer, they run short."""
MOST_BUSY, MOST_BUSY_OF_TWO = 0.3, 0.175
"""Share of time in which a request waits at one of several instances: beyond it, they are busy together."""
MOST_BURST = 0.1
"""Part by which the passes after a prompt are longer or shorter than others: beyond it, the batch follows them."""
MOST_UNEQUAL = 2.2
"""E[n^2] / E[n]^2 of prompts: beyond it, they are very unequal,"""
MOST_PASSES, MANY = 3.0, 4
"""which a router that counts requests does not see, if that of a mean token takes more passes, or of more instances,"""
MOST_UTILIZED = 0.7
"""and whose waits are long at more load than this."""
MOST_FIRST = 0.55
"""Utilisation beyond which passes of prompts alone come so often that decode steps wait for several of them."""
MOST_JITTER = 0.27
"""Standard deviation of a request's time per token by the prompts that it happens to meet, over the mean."""


@dataclass(frozen=True)
class Traits:
    """Traits of a pool that doubts go by."""

    room: float
    """Places that are free on average, in standard deviations of how many are taken."""
    waiting_fraction: float
    """Share of time in which a request waits at an instance."""
    burst: float
    """Part by which the passes after a prompt are longer than others; negative: shorter."""
    dispersion: float
    """E[n^2] / E[n]^2 of prompts."""
    passes: float
    """That the prompt of a mean token takes."""
    jitter: float
    """Standard deviation of a request's time per token by the prompts that it meets, over the mean."""
    n_instances: int
    utilization: float
    """Rate over the capacity."""
    is_prefill_first: bool = False
    """Whether prompts have passes of their own, before decode steps."""


def model_doubts(of: Traits) -> tuple[Doubt, ...]:
    """Why the model may be far off; none: it is within its bands for most such pools.

    >>> model_doubts(Traits(9.0, 0.1, 0.0, 1.5, 2.0, 0.1, 4, 0.7))
    ()
    >>> model_doubts(Traits(1.0, 0.1, 0.0, 3.0, 5.0, 0.1, 4, 0.7))
    ('places', 'lengths')
    """
    several = of.n_instances > 1
    most_busy = {1: inf, 2: MOST_BUSY_OF_TWO}.get(of.n_instances, MOST_BUSY)
    is_unseen = several and (of.passes > MOST_PASSES or of.n_instances > MANY)
    found: dict[Doubt, bool] = {
        "places": of.room < LEAST_ROOM,
        "routing": of.waiting_fraction > most_busy,
        "bursts": abs(of.burst) > MOST_BURST,
        "lengths": of.dispersion > MOST_UNEQUAL and (is_unseen or of.utilization > MOST_UTILIZED),
        "answers": several and of.jitter > MOST_JITTER,
        "first": of.is_prefill_first and of.utilization > MOST_FIRST,
    }
    return tuple(name for name, is_so in found.items() if is_so)
