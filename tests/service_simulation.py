"""Plain compiled simulations of decode batches, shared links and modulated arrivals, to hold the formulas against."""

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@numba.njit(cache=True)
def decode_run(rate, n_tokens, step_s, n_requests, rng):  # type: ignore[no-untyped-def]
    """Continuous batching step by step, outputs of equal length: TPOT and admission wait of each request.

    Requests enter between two steps, first come first served, while the batch is below its limit. Returns also the
    time average of the batch.
    """
    arrive = np.cumsum(rng.standard_exponential(n_requests) / rate)
    limit = len(step_s)
    left, owner = np.zeros(limit, dtype=np.int64), np.zeros(limit, dtype=np.int64)
    tpot, wait, entered = np.zeros(n_requests), np.zeros(n_requests), np.zeros(n_requests)
    now, next_one, n_in, done = 0.0, 0, 0, 0
    area = 0.0
    while done < n_requests:
        if n_in == 0 and next_one < n_requests and arrive[next_one] > now:
            now = arrive[next_one]
        while n_in < limit and next_one < n_requests and arrive[next_one] <= now:
            left[n_in], owner[n_in] = n_tokens, next_one
            entered[next_one], wait[next_one] = now, now - arrive[next_one]
            n_in, next_one = n_in + 1, next_one + 1
        step = step_s[n_in - 1]
        now += step
        area += step * n_in
        place = 0
        while place < n_in:
            left[place] -= 1
            if left[place] == 0:
                tpot[owner[place]] = (now - entered[owner[place]]) / n_tokens
                n_in -= 1
                left[place], owner[place] = left[n_in], owner[n_in]
                done += 1
            else:
                place += 1
    return tpot, wait, area / now


@numba.njit(cache=True)
def link_run(rate, n_full_speed, sizes_s, rng):  # type: ignore[no-untyped-def]
    """Time of each transfer on a link that fits `n_full_speed` at full speed and else shares evenly; Poisson starts.

    `sizes_s` is each transfer's time alone.
    """
    n = len(sizes_s)
    start = np.cumsum(rng.standard_exponential(n) / rate)
    left, owner = np.zeros(n), np.zeros(n, dtype=np.int64)
    taken = np.zeros(n)
    now, next_one, n_in = 0.0, 0, 0
    while next_one < n or n_in > 0:
        speed = min(1.0, n_full_speed / n_in) if n_in > 0 else 1.0
        first, soonest = -1, np.inf
        for place in range(n_in):
            if left[place] < soonest:
                first, soonest = place, left[place]
        ends = now + soonest / speed
        if next_one < n and start[next_one] <= ends:
            gone = (start[next_one] - now) * speed
            for place in range(n_in):
                left[place] -= gone
            now = start[next_one]
            left[n_in], owner[n_in] = sizes_s[next_one], next_one
            n_in, next_one = n_in + 1, next_one + 1
        else:
            for place in range(n_in):
                left[place] -= soonest
            now = ends
            taken[owner[first]] = now - start[owner[first]]
            n_in -= 1
            left[first], owner[first] = left[n_in], owner[n_in]
    return taken


@numba.njit(cache=True)
def modulated_run(n_servers, rates, spells_s, services_s, n_warm_up, rng):  # type: ignore[no-untyped-def]
    """Waits of each request with Poisson arrivals of two alternating rates (Kiefer and Wolfowitz 1955)."""
    free = np.zeros(n_servers)
    waits = np.zeros(len(services_s))
    state, now, change = 0, 0.0, rng.standard_exponential() * spells_s[0]
    for request in range(len(services_s)):
        while True:
            after = now + (rng.standard_exponential() / rates[state] if rates[state] > 0 else np.inf)
            if after < change:
                now = after
                break
            now = change
            state = 1 - state
            change = now + rng.standard_exponential() * spells_s[state]
        server = np.argmin(free)
        begin = max(free[server], now)
        waits[request] = begin - now
        free[server] = begin + services_s[request]
    return waits[n_warm_up:]
