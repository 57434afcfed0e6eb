"""Decode by continuous batching: a birth-death process whose death rate follows the step time of its batch."""

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

from planner.queueing.erlang import Floats
from planner.queueing.mgc import mean_wait_s, mmc_mean_wait_s
from planner.queueing.wait import NO_WAIT, Wait

_MOST_PLACES = 1_000_000
"""Places up to which each number of requests present is a state by itself."""


@dataclass(frozen=True, eq=False)
class DecodeBatch:
    """Steady state of a decode pool, from `decode_batch`."""

    fractions: Floats
    """Share of time with k requests present, k = 0 to the batch limit, the last with all that wait [fraction]."""
    step_s: Floats
    """Step time of an instance with k present in the pool [s], shape of `fractions`."""
    tpot_mean_s: float
    """Mean time per output token [s]."""
    mean_batch: float
    """Mean requests in the batches of the pool [requests]."""
    admission: Wait
    """Wait for a place in a batch."""
    output_tokens: float
    """Mean output [tokens]."""

    def token_quantile_s(self, q: float) -> float:
        """Gap between tokens that a fraction `q` of all tokens does not exceed.

        Equation: tokens made with k present have weight pi(k) k / step(k); inf {x: weight of step(k) <= x is >= q}.

        Args:
            q: probability [fraction], 0 <= q < 1.

        Returns:
            Quantile of the step time over tokens [s].

        Raises:
            ValueError: q is outside [0, 1).

        Valid: as at `decode_batch`.

        Source: definition.

        >>> decode_batch(2.0, 10.0, np.full(8, 0.1)).token_quantile_s(0.9)
        0.1
        """
        if not 0 <= q < 1:
            raise ValueError(f"a quantile needs 0 <= q < 1, got {q}")
        weight = self.fractions * np.arange(len(self.fractions)) / self.step_s
        order = np.argsort(self.step_s, kind="stable")
        reached = np.cumsum(weight[order]) / weight.sum()
        found = int(np.searchsorted(reached, q - 1e-12))
        return float(self.step_s[order[min(found, len(order) - 1)]])

    def tpot_quantile_s(self, q: float) -> float:
        """Mean token gap of a request that a fraction `q` of requests does not exceed.

        Equation: m + (t_q - m) sqrt(r): t_q `token_quantile_s`, m the mean, r = 2/3 what is left of a variance with
            correlation 1 - t/T when it is averaged over one stay T.

        Args:
            q: probability [fraction], 0 <= q < 1.

        Returns:
            Quantile of the time per output token over requests [s].

        Raises:
            ValueError: q is outside [0, 1).

        Valid: outputs of nearly equal length; the more they vary the more of them see one batch size only, up to
            `token_quantile_s` for the shortest. Errors as at `decode_batch`.

        Source: variance of a time average, Whitt (1991), Management Science 37(6); the number in M/D/inf has that
            correlation.

        >>> decode_batch(2.0, 10.0, np.full(8, 0.1)).tpot_quantile_s(0.9)
        0.1
        """
        return self.tpot_mean_s + (self.token_quantile_s(q) - self.tpot_mean_s) * sqrt(2 / 3)


def decode_batch(
    arrival_req_per_s: float, output_tokens: float, step_s: Floats, n_instances: int = 1, output_scv: float = 1.0
) -> DecodeBatch:
    """Steady state of continuous batching, requests admitted up to the batch limit and first come first served.

    Equation: birth-death over k requests present: up at lambda; down at b(k) / (L step(b / n)) with b = min(k, n K)
        spread evenly over n instances of limit K. Mean time per token E[batch] / (lambda L) (Little).
        P(wait) = P(k >= n K) (PASTA); those who wait do so for an exponential time of rate
        (n K / (L step(K)) - lambda) / r, r the mean wait of M/G/c over M/M/c at c = n K (`mean_wait_s`), 1 for scv 1.

    Args:
        arrival_req_per_s: arrival rate lambda at the pool [req/s], at least 0.
        output_tokens: mean output L [tokens], above 0.
        step_s: step time with a batch of 1 to K [s], shape (K,), above 0; K is the batch limit.
        n_instances: instances n of the pool [count], balanced by the router.
        output_scv: squared coefficient of variation of the output length [fraction].

    Returns:
        The steady state.

    Raises:
        ValueError: an argument is out of range, or the pool cannot serve lambda at its batch limit.

    Valid: exact for exponential output lengths and a step that changes at once with the batch. Below the batch limit
        the stay is processor sharing and insensitive to the length distribution. Approximate: the wait for admission of
        other lengths; n > 1 with a router that only nearly balances. The rest of the step that runs when a request
        comes, half a step on average, is not in the wait. Against step-by-step simulation with equal lengths
        (`tests/test_queueing_decode.py`), load 0.3 to 0.9 of the limit: mean TPOT and batch 2 %, P50, P90 and P99 of
        TPOT 6 %, P(wait) 0.06, mean wait 30 % or one step.

    Source: Cooper, Introduction to Queueing Theory (1981), chapter 2; insensitivity: Cohen (1979), Acta Informatica
        12, 245-284. With a constant step: M/M/inf for a high limit, Erlang C at the limit.

    >>> batch = decode_batch(2.0, 10.0, np.full(64, 0.1))  # M/M/64 with load 2
    >>> round(batch.mean_batch, 6), round(batch.tpot_mean_s, 6), batch.admission.waiting_fraction < 1e-9
    (2.0, 0.1, True)
    """
    step, death_per_s = _deaths(output_tokens, step_s, n_instances)
    (fractions,) = _with_waiting(np.array([arrival_req_per_s]), death_per_s)
    mean_batch = float(fractions @ np.arange(len(fractions)))
    stay_s = mean_batch / arrival_req_per_s if arrival_req_per_s > 0 else output_tokens * float(step[0])
    spread = _spread(len(death_per_s), arrival_req_per_s, output_tokens * float(step[-1]), output_scv)
    admission = _admission(float(fractions[-1]), (float(death_per_s[-1]) - arrival_req_per_s) / spread)
    steps = np.append(step[0], step)
    return DecodeBatch(fractions, steps, stay_s / output_tokens, mean_batch, admission, output_tokens)


def waiting_fractions(arrival_req_per_s: Floats, output_tokens: float, step_s: Floats, n_instances: int = 1) -> Floats:
    """P(wait) of `decode_batch` at many arrival rates at once.

    Equation: as at `decode_batch`; of more than a million places fewer instances stand for all, (1 - u) sqrt(n) kept.

    Args:
        arrival_req_per_s: arrival rates [req/s], shape (n,), at least 0.
        output_tokens: mean output [tokens], above 0.
        step_s: step time with a batch of 1 to K [s], shape (K,), above 0.
        n_instances: instances [count].

    Returns:
        Fraction of requests that wait for a place, shape (n,).

    Raises:
        ValueError: as at `decode_batch`, for any of the rates.

    Valid: as at `decode_batch`.

    Source: as at `decode_batch`; Halfin and Whitt (1981), Operations Research 29(3), for very many places.

    >>> waiting_fractions(np.array([1.0, 9.0]), 10.0, np.full(10, 0.1)).round(3).tolist()
    [0.0, 0.669]
    """
    few = min(n_instances, max(_MOST_PLACES // max(len(step_s), 1), 1))
    death_per_s = _deaths(output_tokens, step_s, few)[1]
    rates, most = np.asarray(arrival_req_per_s, dtype=np.float64), float(death_per_s[-1])
    if few < n_instances:
        spare = (1 - rates * few / n_instances / most) * np.sqrt(n_instances / few)
        rates = np.where(rates >= 0, np.maximum(1 - spare, 0.0), -1.0) * most
    return _with_waiting(rates, death_per_s)[:, -1]


def _deaths(output_tokens: float, step_s: Floats, n_instances: int) -> tuple[Floats, Floats]:
    """Step times [s] and rates at which requests end [1/s] with 1 to n K present, shape (n K,) each."""
    if not 0 < output_tokens < inf or n_instances < 1:
        raise ValueError(f"decode needs output_tokens > 0 and n_instances >= 1, got {output_tokens}, {n_instances}")
    if step_s.ndim != 1 or step_s.size == 0 or not (np.isfinite(step_s) & (step_s > 0)).all():
        raise ValueError("step_s needs one time above 0 for each batch from 1 to the limit")
    present = np.arange(1, n_instances * len(step_s) + 1)
    step = np.interp(present / n_instances, np.arange(1, len(step_s) + 1), step_s)
    return step, present / (output_tokens * step)


def _with_waiting(arrival_req_per_s: Floats, death_per_s: Floats) -> Floats:
    """Shares of 0 to nK present, the geometric states beyond added to the last, shape (rates, n K + 1)."""
    rates, most = np.asarray(arrival_req_per_s, dtype=np.float64), float(death_per_s[-1])
    if not ((rates >= 0) & np.isfinite(rates)).all():
        raise ValueError(f"decode needs finite arrival rates of at least 0, got {arrival_req_per_s}")
    if (rates >= most).any():
        raise ValueError(f"decode has no steady state at {rates.max()} req/s, it serves {most:.6g}")
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.log(rates)[:, np.newaxis] - np.log(death_per_s)
    logs = np.concatenate([np.zeros((len(rates), 1)), np.cumsum(steps, axis=1)], axis=1)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    shares[:, -1] /= 1 - rates / most
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _spread(n_places: int, arrival_req_per_s: float, stay_s: float, output_scv: float) -> float:
    """Mean wait for one of the places over that with exponential lengths."""
    exponential_s = mmc_mean_wait_s(n_places, arrival_req_per_s, stay_s)
    if output_scv == 1 or exponential_s == 0:
        return 1.0
    return mean_wait_s(n_places, arrival_req_per_s, stay_s, output_scv) / exponential_s


def _admission(waiting_fraction: float, spare_per_s: float) -> Wait:
    if waiting_fraction == 0:
        return NO_WAIT
    points = np.arange(2.0**12)
    step_s = 20 / spare_per_s / len(points)
    survival = np.exp(-spare_per_s * step_s * points)
    return Wait(waiting_fraction, waiting_fraction / spare_per_s, step_s, survival, spare_per_s)
