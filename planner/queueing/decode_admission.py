"""Places in decode batches: the wait for one, with output lengths as they are."""

from dataclasses import replace

import numpy as np

from planner.queueing.decode import waiting_fractions
from planner.queueing.erlang import Floats, erlang_c
from planner.queueing.service import Service
from planner.queueing.wait import NO_WAIT, Wait
from planner.queueing.waits import gigc_waits

_RARE = 1e-6
"""P(W > 0) below which nobody is said to wait: no percentile that anybody promises sees it."""


def place_waits(
    arrival_req_per_s: Floats,
    outputs_tokens: Service,
    step_s: Floats,
    n_instances: int = 1,
    arrival_scv: float = 1.0,
) -> tuple[Wait, ...]:
    """Waits for a place in the batches of some instances at many arrival rates at once, first come first served.

    Equation: GI/G/c with c = n K places, each held for L step(K): while anybody waits all batches are full, so the
        wait of those who do is that of `gigc_wait`. P(W > 0) = C (P / E)^(1 / z): C that of GI/G/c, P that of
        `decode_batch`, whose steps are shorter while batches are not full, E Erlang's, which P is with constant steps;
        z = 1 + (a - 1) E[min(L, L')] / E[L], the arrivals' peakedness.

    Args:
        arrival_req_per_s: arrival rates lambda [req/s], shape (n,), at least 0.
        outputs_tokens: output length L [tokens], as a `Service` of tokens.
        step_s: step time with a batch of 1 to K [s], shape (K,).
        n_instances: instances n [count].
        arrival_scv: squared coefficient of variation a of the gaps between arrivals [fraction], above 0.

    Returns:
        The waits over all requests, in the order of the rates.

    Raises:
        ValueError: an argument is out of range, or there is no steady state at one of the rates.

    Valid: as `gigc_wait` with constant steps. What arrives has passed prefill and a link, which leave the dispersion
        over times as long as a decode as it was: a is that of the arrivals at the site. Errors over a family of
        simulated batches in `tests/campaigns/latency_models.md`.

    Source: as at `gigc_wait` and `decode_batch`; Whitt (1984), AT&T Bell Lab. Tech. J. 63, for z.

    >>> import numpy as np
    >>> (constant,) = place_waits(np.array([0.9]), Service.of([10.0]), np.full(10, 1.0))
    >>> (varied,) = place_waits(np.array([0.9]), Service.of([1.0, 100.0], [10.0, 1.0]), np.full(10, 1.0))
    >>> round(constant.mean_s, 3), round(varied.mean_s, 1)
    (3.446, 34.6)
    """
    mean, full_s, n_places = outputs_tokens.mean_s, float(step_s[-1]), n_instances * len(step_s)
    waiting = waiting_fractions(arrival_req_per_s, mean, step_s, n_instances)
    peakedness = 1 + (arrival_scv - 1) * outputs_tokens.lesser_fraction
    found = [NO_WAIT] * len(waiting)
    some = np.flatnonzero(waiting >= _RARE ** max(peakedness, 1.0))
    if not some.size:
        return tuple(found)
    rates, held = arrival_req_per_s[some], Service(outputs_tokens.seconds * full_s, outputs_tokens.weights)
    waits = gigc_waits(n_places, rates, held, arrival_scv)
    constant = np.maximum(erlang_c(n_places, rates * mean * full_s), 1e-300)
    shorter = np.minimum((waiting[some] / constant) ** (1 / peakedness), 1.0)
    for k, (place, factor) in enumerate(zip(some, shorter.tolist(), strict=True)):
        wait = waits.wait(k)
        found[place] = replace(wait, waiting_fraction=wait.waiting_fraction * factor, mean_s=wait.mean_s * factor)
    return tuple(found)
