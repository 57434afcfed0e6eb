"""A plain compiled simulation of decode batches, to hold the formulas against."""

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
