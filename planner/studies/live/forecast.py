"""Forecast of the live system by roofline and queueing before it runs: threshold, rate, TTFT, TPOT, link."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.hybrid.live import WorkerSpec
from planner.hybrid.timing import DecodePoint, Point
from planner.queueing.service import Service
from planner.queueing.ttft import Path, Ttft
from planner.queueing.waits import mgc_wait
from planner.roofline import InstanceModel, exposed_transfer_s, kv_bytes
from planner.studies.live.question import BATCH_LIMIT, Drawn

FloatArray = NDArray[np.float64]
QUANTILES = (0.02, *(round(0.05 * i, 2) for i in range(1, 20)), 0.98)
"""Fractions of requests for which TTFT is predicted."""
ROUNDING = 1e-9
"""Relative difference between capacities that says nothing."""
N_BATCHES = 281
"""Batches, whole and broken ones, among which the mean one is looked for."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """Everything that is promised before the run."""

    threshold_tokens: float
    capacity_req_per_s: float
    """Highest rate at which no core and not the link would fall behind."""
    offered_req_per_s: float
    ttft_mean_s: float
    ttft_p90_s: float
    tpot_mean_s: float
    link_fraction: float
    """Share of the link's rate that is used."""
    ttft_fractions: tuple[float, ...] = ()
    ttft_quantiles_s: tuple[float, ...] = ()
    """Quantiles of TTFT at those fractions of requests."""


@dataclass(frozen=True, eq=False)
class _Pools:
    """Cores of the workers."""

    n_far: int
    n_near: int
    n_decode: int
    is_shared: bool
    """Whether both prefill pools are on the same core."""


def point_seconds(served: InstanceModel, point: Point) -> float:
    """Predicted seconds of a point [s]."""
    if isinstance(point, DecodePoint):
        return float(served.decode_time(point.batch, point.context_tokens).total_s[0])
    return float(served.prefill_time(point.new_tokens, point.cached_tokens).total_s[0])


def forecast(
    served: InstanceModel,
    workers: Sequence[WorkerSpec],
    drawn: Drawn,
    *,
    link_bytes_per_s: float,
    loopback_bytes_per_s: float,
    load_fraction: float,
    stretch: float = 1.0,
) -> Forecast:
    """Threshold, rate and latencies.

    Equation:
        threshold: maximises min(far cores / E[T; L > t], near cores / E[T; L <= t], B / E[S_kv; L > t]); where both
        pools share a core it serves all, every length that the link allows does, and the median prompt among them is
        taken, so that both pools are at work;
        TTFT: M/G/c waits of the pools (of the shared core, one queue) + T + what streaming leaves of the transfer;
        TPOT: step at batch b = lambda E[output - 1] step(b) / decode workers

    Args:
        served: the model on one core.
        workers: who serves.
        drawn: lengths of the requests, which stand for their distribution.
        link_bytes_per_s: rate of the link [B/s].
        loopback_bytes_per_s: rate inside the site [B/s].
        load_fraction: rate of arrivals over capacity.
        stretch: seconds on the wall at that load over those that a worker runs with all cores busy.

    Returns:
        The forecast.

    Valid:
        Poisson arrivals; transfers that do not queue for the link; decode at its mean batch; other programs as busy
        during the run as they were before it.

    Source:
        Prefill-as-a-Service (arXiv 2604.15039v2), section 3; queueing as `planner.queueing` cites.
    """
    pools = _pools(workers)
    tokens = drawn.input_tokens.astype(float)
    seconds = stretch * served.prefill_time(tokens).total_s
    sent_bytes = np.asarray(kv_bytes(served.model, tokens), float)
    candidates = np.unique(np.concatenate([[0.0], tokens]))
    capacities = [_capacity(pools, tokens > t, seconds, sent_bytes, link_bytes_per_s) for t in candidates]
    capacity = float(max(capacities))
    threshold = _threshold(tokens, candidates[np.array(capacities) >= capacity * (1 - ROUNDING)])
    offered, is_far = load_fraction * capacity, tokens > threshold
    n_layers = served.model.architecture.n_layers
    over_link = exposed_transfer_s(seconds, sent_bytes, link_bytes_per_s, 0.0, n_layers)
    inside = exposed_transfer_s(seconds, sent_bytes, loopback_bytes_per_s, 0.0, n_layers)
    ttft = _ttft(pools, is_far, seconds, np.where(is_far, over_link, inside), offered)
    return Forecast(
        threshold,
        capacity,
        offered,
        ttft.mean_s,
        ttft.quantile_s(0.9),
        _tpot_s(served, drawn, offered, pools.n_decode, stretch),
        offered * float((sent_bytes * is_far).mean()) / link_bytes_per_s,
        QUANTILES,
        tuple(ttft.quantile_s(fraction) for fraction in QUANTILES),
    )


def _threshold(tokens: FloatArray, best: FloatArray) -> float:
    """The median prompt among thresholds that carry as much [tokens]."""
    among = np.sort(tokens[(tokens >= best[0]) & (tokens <= best[-1])])
    return float(among[len(among) // 2]) if among.size else float(best[0])


def _pools(workers: Sequence[WorkerSpec]) -> _Pools:
    cores = {pool: {spec.core for spec in workers if spec.pool == pool} for pool in ("prfaas", "pd-p", "pd-d")}
    return _Pools(len(cores["prfaas"]), len(cores["pd-p"]), len(cores["pd-d"]), bool(cores["prfaas"] & cores["pd-p"]))


def _capacity(
    pools: _Pools, is_far: NDArray[np.bool_], seconds: FloatArray, sent_bytes: FloatArray, link_bytes_per_s: float
) -> float:
    """Highest rate that a threshold allows [req/s]."""
    far, near = float((seconds * is_far).mean()), float((seconds * ~is_far).mean())
    work = [(1, far + near)] if pools.is_shared else [(pools.n_far, far), (pools.n_near, near)]
    limits = [n / each for n, each in work if each]
    sent = float((sent_bytes * is_far).mean())
    return min([*limits, *([link_bytes_per_s / sent] if sent else [])])


def _ttft(
    pools: _Pools, is_far: NDArray[np.bool_], seconds: FloatArray, tail_s: FloatArray, offered_req_per_s: float
) -> Ttft:
    apart = [(is_far, pools.n_far), (~is_far, pools.n_near)]
    groups = [(np.ones_like(is_far), 1)] if pools.is_shared else apart
    paths = []
    for chosen, n in groups:
        share = float(chosen.mean())
        if share:
            wait = mgc_wait(n, share * offered_req_per_s, Service.of(seconds[chosen]))
            weights = np.ones(int(chosen.sum()))
            paths.append(Path.of(share, seconds[chosen], weights, wait, tail_s[chosen]))
    return Ttft.of(paths)


def _tpot_s(served: InstanceModel, drawn: Drawn, offered_req_per_s: float, n_workers: int, stretch: float) -> float:
    """Step at the least batch that the offered tokens do not outgrow."""
    outputs = drawn.output_tokens.astype(float)
    context = float((drawn.input_tokens * (outputs - 1)).sum() / (outputs - 1).sum() + outputs.mean() / 2)
    tokens_per_s = offered_req_per_s * float((outputs - 1).mean()) / n_workers
    batches = np.linspace(1.0, BATCH_LIMIT, N_BATCHES)
    steps_s = stretch * served.decode_time(batches, context).total_s
    # What is there in the mean, less what the batch is: falls through 0 where they agree.
    excess = tokens_per_s * steps_s - batches
    agreed = int(np.argmax(excess <= 0)) if (excess <= 0).any() else N_BATCHES - 1
    return float(steps_s[agreed])
