"""Delays that load adds to the time to first token: by arrivals that vary, shared links, places in decode batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from planner.optimizer.problem import Problem
from planner.optimizer.problem_parts import ClassSpec
from planner.optimizer.sized import Sizing
from planner.queueing.decode import decode_batch
from planner.queueing.decode_admission import place_waits
from planner.queueing.processor_sharing import TransferSlowdown
from planner.queueing.service import Service
from planner.queueing.streams import merged_scv, split_scv
from planner.queueing.wait import NO_WAIT, Wait
from planner.roofline import DecodeLimit, exposed_transfer_s
from planner.units import bytes_per_s
from planner.workload.mix import OutputAtoms

Array = NDArray[np.float64]
SATURATED = 1 - 1e-9
ROUNDING = 1e-9


def link_bytes_per_s(problem: Problem, sizing: Sizing, link: int) -> float:
    """Bandwidth of the ports of a link [B/s]."""
    return bytes_per_s(problem.links[link].gbps(sizing.n_ports[link]))


def sent_bytes(problem: Problem, pool: int, link: int | None, total: Array, cached: Array) -> Array:
    """Bytes that each request hands over, on a link less what the destination holds [B]."""
    rates = problem.pools[pool].rates
    sent = np.asarray(rates.kv_bytes(total))
    if link is not None and problem.links[link].destination_holds_prefix:
        return np.asarray(sent - (rates.kv_bytes(cached) - rates.kv_bytes(0.0)))
    return sent


def transfer_s(
    problem: Problem,
    sizing: Sizing,
    pool: int,
    link: int | None,
    total: Array,
    cached: Array,
    service_s: Array,
) -> Array:
    """Remaining KV transfer time of each request when its prefill ends, on an idle link [s]."""
    rates = problem.pools[pool].rates
    sent = sent_bytes(problem, pool, link, total, cached)
    if link is None:
        fabric = problem.scenario.sites[problem.pools[pool].site].fabric_gbps
        if fabric is None:
            return np.zeros_like(service_s)
        return exposed_transfer_s(service_s, sent, bytes_per_s(fabric), 0.0, rates.n_layers)
    spec = problem.links[link]
    bandwidth = bytes_per_s(spec.gbps(sizing.n_ports[link]))
    if bandwidth <= 0:
        return np.full_like(service_s, inf)
    return exposed_transfer_s(service_s, sent, bandwidth, spec.round_trip_s, rates.n_layers)


def sending_s(problem: Problem, sizing: Sizing, pool: int, link: int | None, sent: Array, service_s: Array) -> Array:
    """Time that each transfer takes on an idle link: the link's, or that of the layers which feed it, 0 off a link [s].

    Equation:
        max(S / B, T (n - 1) / n), n the layers: a transfer that keeps up with prefill lasts as long as prefill
    """
    bandwidth = 0.0 if link is None else link_bytes_per_s(problem, sizing, link)
    if bandwidth <= 0:
        return np.zeros_like(service_s)
    n = problem.pools[pool].rates.n_layers or 1
    return np.maximum(sent / bandwidth, service_s * (n - 1) / n)


@dataclass(frozen=True)
class DecodeDemand:
    """Requests of one class that a decode pool gets."""

    req_per_s: float
    """How many [req/s]."""
    mean_tokens: float
    """Mean output [tokens]."""
    outputs: OutputAtoms | None
    """Output lengths; None where no more than their mean is known."""
    arrival_scv: float
    """Squared coefficient of variation of the gaps between them [fraction]."""

    @classmethod
    def of(cls, request_class: ClassSpec, req_per_s: float, share: float = 1.0) -> "DecodeDemand":
        """A share of the requests of a class, at a rate."""
        mix = request_class.mix
        scv = split_scv(request_class.arrival_scv, min(share, 1.0))
        return cls(req_per_s, mix.mean_output_tokens, mix.outputs, scv)


def places_wait(point: DecodeLimit | None, asked: Sequence[DecodeDemand], n_instances: int) -> Wait | None:
    """`places_waits` of the requests as they come."""
    return places_waits(point, asked, n_instances, np.ones(1))[0]


def places_waits(
    point: DecodeLimit | None, asked: Sequence[DecodeDemand], n_instances: int, scales: Array
) -> list[Wait | None]:
    """Waits for a place in the batches of some instances, at several multiples of a rate; None without steady state.

    Equation:
        `place_waits` with n K places, K the batch limit, or E[step] / E[step / N] where memory holds a
        number N that varies; steps by batch where they are known, else all as at the limit

    Args:
        point: batch limit of an instance and its steps; None waits for nothing.
        asked: requests of every class that come.
        n_instances: instances that share the arrivals.
        scales: factors on the rates of all requests, shape (n,), at least 0.

    Returns:
        The waits, in the order of the scales.

    Valid:
        As `place_waits`; outputs of which only the mean is known count as exponential.
    """
    rate = sum(a.req_per_s for a in asked)
    if point is None or rate <= 0:
        return [NO_WAIT] * len(scales)
    tokens, rates = sum(a.req_per_s * a.mean_tokens for a in asked) / rate, rate * scales
    is_stable = rates * point.seconds_per_request(tokens) < SATURATED * n_instances
    found: list[Wait | None] = [None] * len(rates)
    for place, wait in zip(
        np.flatnonzero(is_stable), _stable_waits(point, asked, n_instances, rates[is_stable]), strict=True
    ):
        found[place] = wait
    return found


def _stable_waits(point: DecodeLimit, asked: Sequence[DecodeDemand], n_instances: int, rates: Array) -> Sequence[Wait]:
    steps_s = place_steps_s(point)
    if any(a.outputs is None for a in asked):
        tokens = sum(a.req_per_s * a.mean_tokens for a in asked) / sum(a.req_per_s for a in asked)
        return [decode_batch(float(rate), tokens, steps_s, n_instances).admission for rate in rates]
    known = [(a.outputs, a.req_per_s) for a in asked if a.outputs is not None]
    lengths = np.concatenate([outputs.tokens for outputs, _ in known])
    weights = np.concatenate([outputs.weights * part for outputs, part in known])
    outputs = Service.of(*spread(lengths, weights, point.token_variance))
    scv = merged_scv([a.req_per_s for a in asked], [a.arrival_scv for a in asked])
    return place_waits(rates, outputs, steps_s, n_instances, scv)


def spread(tokens: Array, weights: Array, variance_per_token: float) -> tuple[Array, Array]:
    """Lengths of answers as their steps count them, which depends on how many drafted tokens are accepted.

    Equation:
        each length L becomes L - d and L + d alike, d = min(sqrt(v L), L): the mean L and the variance v L of the
        tokens that its steps would have made at their mean

    Args:
        tokens: lengths [tokens], shape (n,).
        weights: their shares, shape (n,).
        variance_per_token: v [tokens].

    Returns:
        Lengths and shares, shape (2 n,), or as given where nothing varies.

    >>> spread(np.array([100.0]), np.ones(1), 0.25)[0].tolist()
    [95.0, 105.0]
    >>> spread(np.array([100.0]), np.ones(1), 1.0)[0].tolist(), spread(np.array([100.0]), np.ones(1), 0.0)[0].tolist()
    ([90.0, 110.0], [100.0])
    >>> spread(np.array([4.0, 100.0]), np.array([0.4, 0.6]), 25.0)[1].tolist()
    [0.2, 0.3, 0.2, 0.3]
    """
    if variance_per_token == 0:
        return tokens, weights
    d = np.minimum(np.sqrt(variance_per_token * tokens), tokens)
    return np.concatenate([tokens - d, tokens + d]), np.concatenate([weights, weights]) / 2


def place_steps_s(point: DecodeLimit) -> Array:
    """Steps with 1 to K sequences, the last as long as K places need to keep the capacity of an instance [s].

    >>> place_steps_s(DecodeLimit(batch=3, step_s=0.03)).tolist()
    [0.03, 0.03, 0.03]
    >>> place_steps_s(DecodeLimit(4, 0.04, (0.01, 0.02, 0.03, 0.04), slot_s=0.015, full_step_s=0.03)).tolist()
    [0.01, 0.03]
    """
    full_s = point.step_s if point.full_step_s is None else point.full_step_s
    n_places = min(max(round(full_s / point.seconds_per_token), 1), point.batch)
    limit_s = n_places * point.seconds_per_token
    if not point.steps_s:
        return np.full(n_places, limit_s)
    steps_s: Array = np.minimum(np.array(point.steps_s[:n_places], dtype=np.float64), limit_s)
    steps_s[-1] = limit_s
    return steps_s


def stretched(
    stretch: TransferSlowdown, round_trip_s: float, service_s: Array, left_s: Array, sending_s: Array
) -> tuple[NDArray[np.intp], Array, Array]:
    """Remaining transfer times on a busy link when prefill ends, as a distribution.

    Equation:
        max(X, F D - T + RTT / 2): X on an idle link, F the factor of sharing, D the whole transfer alone, T prefill

    Args:
        stretch: F.
        round_trip_s: RTT [s].
        service_s: T of each kind of request [s], shape (k,).
        left_s: X of each kind [s], shape (k,).
        sending_s: D of each kind [s], shape (k,).

    Returns:
        Place of the kind among the k, seconds left [s] and weight within the kind, shape (k l,) each.
    """
    factors, weights = stretch.levels(sending_s)
    late_s = factors * sending_s[:, np.newaxis] - service_s[:, np.newaxis] + round_trip_s / 2
    place = np.repeat(np.arange(len(service_s), dtype=np.intp), len(weights))
    after_s = np.maximum(left_s[:, np.newaxis], late_s).ravel()
    return place, np.asarray(after_s), np.tile(weights, len(service_s))


def loaded_step_s(
    point: DecodeLimit, req_per_s: float, output_tokens: float, n_instances: int, q: float | None = None
) -> float:
    """Time per output token of decode instances at a load: its mean, or a quantile over requests [s].

    Equation:
        `decode_batch` over the steps of every batch at the mean context; E[step(N)] where the pool is full

    Args:
        point: batch limit and steps of an instance.
        req_per_s: requests that they decode [1/s].
        output_tokens: mean output [tokens].
        n_instances: how many instances.
        q: probability; None: the mean [fraction].

    Valid:
        Poisson arrivals; memory holds the batch except where the pool is full.

    >>> loaded_step_s(DecodeLimit(batch=20, step_s=0.025), 1.0, 500.0, 1)
    0.025
    """
    if not point.steps_s:
        return point.step_s
    full_s = point.step_s if point.full_step_s is None else point.full_step_s
    if req_per_s * point.seconds_per_request(output_tokens) >= SATURATED * n_instances:
        return full_s
    batch = decode_batch(req_per_s, output_tokens, np.array(point.steps_s), n_instances)
    return min(batch.tpot_mean_s if q is None else batch.tpot_quantile_s(q), full_s)
