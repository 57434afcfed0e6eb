"""Colocated instances of which some requests ask for no prompt: it was computed elsewhere, and they join to decode."""

from dataclasses import dataclass, replace
from math import inf, sqrt

import numpy as np

from planner.queueing.colocated import ColocatedQueue, colocated_capacity_req_per_s, colocated_queue
from planner.queueing.pass_loop import PassLoop, Prompts
from planner.queueing.ttft import Path, Ttft
from planner.queueing.wait import NO_WAIT, Wait

NO_PROMPT = 1e-12
"""Share of requests with prompts that counts as none."""


@dataclass(frozen=True, eq=False)
class JoinedQueue:
    """Steady state of a colocated pool that others join; made by `joined_queue`."""

    utilization: float
    """Rate over the capacity [fraction]."""
    ttft: Ttft | None
    """Time to first token of requests whose prompt is computed here; None where none is."""
    admission: Wait
    """Wait of the others for a place in the batch."""
    queue: ColocatedQueue
    """Of the batch, with the time per token of all."""
    of_classes: tuple[Ttft, ...] = ()
    """Time to first token of the requests of each class of `Prompts.classes` whose prompt is computed here."""

    def tpot_quantile_s(self, q: float) -> float | None:
        """Time per token after the first that a fraction `q` of requests does not exceed [s]; None without one."""
        return self.queue.tpot_quantile_s(q)


def joined_capacity_req_per_s(loop: PassLoop, prompts: Prompts, joining_fraction: float, tpot_s: float = inf) -> float:
    """Most requests per second of an instance, those that join included.

    Equation: a share j joins. Of B sequences B / (L - 1) end in a step, and (1 - j) as many prompts come: the capacity
        of prompts that bring (L - 1) / (1 - j) tokens each, over 1 - j.

    Args:
        loop: how passes are made.
        prompts: what the others bring; answers are those of all requests.
        joining_fraction: share j of requests without a prompt [fraction], 0 to 1.
        tpot_s: longest mean time per token after the first [s].

    Returns:
        Capacity [req/s]; infinite where requests ask for nothing.

    Valid: as `colocated_capacity_req_per_s`.

    Source: conservation of requests.

    >>> loop = PassLoop(lambda p, b: 0.01 + 1e-5 * p + 1e-4 * b, 8192, 100)
    >>> prompts = Prompts(np.array([1000.0]), np.ones(1), np.array([0.02]), 101.0)
    >>> [round(joined_capacity_req_per_s(loop, prompts, j), 3) for j in (0.0, 0.5, 1.0)]  # steps of 30, 25 and 20 ms
    [33.333, 40.0, 50.0]
    """
    asked = joined_prompts(prompts, joining_fraction)
    if 1 - joining_fraction < NO_PROMPT:
        return inf if prompts.decoded_tokens <= 0 else colocated_capacity_req_per_s(loop, asked, tpot_s)
    return colocated_capacity_req_per_s(loop, asked, tpot_s) / (1 - joining_fraction)


def joined_queue(
    loop: PassLoop, prompts: Prompts, joining_fraction: float, rate_req_per_s: float, n_instances: int = 1
) -> JoinedQueue:
    """Times of instances of which a share of the requests joins with nothing to compute.

    Equation: prompts at (1 - j) r that bring (L - 1) / (1 - j) tokens each make the same chain of passes and the same
        birth-death process of the batch as all requests at r with L - 1. Waits for a place follow the rate at which
        sequences end, so that they are 1 - j of those; the spread by prompts that happen to come is sqrt(1 / (1 - j))
        of it. Whoever joins waits for a place alone.

    Args:
        loop: how passes are made.
        prompts: what the others bring.
        joining_fraction: share j of requests without a prompt [fraction], 0 to 1.
        rate_req_per_s: arrivals of all at the pool [req/s], above 0.
        n_instances: instances.

    Returns:
        The steady state.

    Raises:
        ValueError: the pool cannot serve the rate.

    Valid: as `colocated_queue`; who joins has a first token already, and the rest of the pass that runs when it comes
        is not in its wait.

    Source: as `colocated_queue`.
    """
    j = joining_fraction
    if j <= 0:
        queue = colocated_queue(loop, prompts, rate_req_per_s, n_instances)
        return JoinedQueue(queue.utilization, queue.ttft, queue.ttft.paths[0].wait, queue, queue.of_classes)
    if 1 - j < NO_PROMPT:
        queue = colocated_queue(loop, joined_prompts(prompts, j), rate_req_per_s, n_instances)
        return JoinedQueue(queue.utilization, None, queue.ttft.paths[0].wait, queue)
    if loop.most_running == 1:
        return _one_at_a_time(loop, prompts, j, rate_req_per_s, n_instances)
    queue = colocated_queue(loop, joined_prompts(prompts, j), (1 - j) * rate_req_per_s, n_instances)
    ttft, *of_classes = (_waiting_less(of_some, 1 - j) for of_some in (queue.ttft, *queue.of_classes))
    jitter_s = queue.prompt_jitter_s / sqrt(1 - j)
    found = replace(queue, ttft=ttft, of_classes=tuple(of_classes), prompt_jitter_s=jitter_s)
    admission = ttft.paths[0].wait if queue.batch else NO_WAIT
    return JoinedQueue(queue.utilization, ttft, admission, found, found.of_classes)


def joined_prompts(prompts: Prompts, joining_fraction: float) -> Prompts:
    """Prompts that bring what those that join decode, too; where all join, requests without a prompt.

    Args:
        prompts: what the others bring.
        joining_fraction: share of requests without a prompt [fraction], 0 to 1.

    >>> prompts = Prompts(np.array([1000.0]), np.ones(1), np.array([0.02]), 101.0)
    >>> joined_prompts(prompts, 0.75).decoded_tokens, joined_prompts(prompts, 1.0).mean_tokens
    (400.0, 0.0)
    """
    if 1 - joining_fraction < NO_PROMPT:
        return replace(prompts, tokens=np.zeros(1), weights=np.ones(1), alone_s=np.zeros(1), classes=())
    return replace(prompts, output_tokens=1.0 + prompts.decoded_tokens / (1 - joining_fraction))


def _waiting_less(ttft: Ttft, factor: float) -> Ttft:
    """Times to first token after waits in another unit of time."""
    return Ttft(tuple(replace(path, wait=_shorter(path.wait, factor)) for path in ttft.paths))


def _shorter(wait: Wait, factor: float) -> Wait:
    """A wait in another unit of time."""
    return replace(
        wait,
        mean_s=wait.mean_s * factor,
        step_s=wait.step_s * factor,
        decay_per_s=wait.decay_per_s / factor,
    )


def _one_at_a_time(
    loop: PassLoop, prompts: Prompts, joining_fraction: float, rate: float, n_instances: int
) -> JoinedQueue:
    """Whole requests one after another: those that join take their answer alone."""
    kinds = replace(
        prompts,
        tokens=np.append(prompts.tokens, 0.0),
        weights=np.append((1 - joining_fraction) * prompts.weights, joining_fraction),
        alone_s=np.append(prompts.alone_s, 0.0),
        classes=tuple(np.append(own, 0.0) for own in prompts.classes),
    )
    queue = colocated_queue(loop, kinds, rate, n_instances)
    wait = queue.ttft.paths[0].wait
    path = Path.of(1.0, prompts.alone_s, prompts.weights, wait)
    return JoinedQueue(queue.utilization, Ttft.of([path]), wait, queue, queue.of_classes)
