"""From the records of a run to figures: what is counted, and how sure they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.executor.colocated_pools import Colocated
from planner.executor.confidence import t_quantile
from planner.executor.control import convertible_pool
from planner.executor.draws import columns_of
from planner.executor.kernel.records import FINISHED, NONE, STRANDED, TOO_OFTEN
from planner.executor.kernel.state import SimulationState
from planner.executor.streams import RequestStream
from planner.executor.systems import System
from planner.executor.warm_up import relaxation_times
from planner.results.run import Interval, RunRecords
from planner.scenario import Slo
from planner.units import gbps

Floats = NDArray[np.float64]
N_TO_FILL = 50_000
"""Requests at the most that full decode batches are made of, to see what a full pool does."""
MOST_BUSY = 0.99
MOMENTS = ("arrival_s", "prefill_start_s", "prefill_end_s", "kv_end_s", "first_token_s", "finish_s")
ROLES = ("prefill units", "decode units")
"""Columns of a sample: instances that may change their role, by the one they have."""
REASONS = {"started-too-often": TOO_OFTEN, "stranded": STRANDED}
"""Why requests are dropped."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """One replication."""

    metrics: Mapping[str, float]
    """Figures that are averaged over replications; nan where nothing was counted."""
    counts: Mapping[str, float]
    """Figures that are added up over replications."""
    times: "RequestTimes"
    """What percentiles over all runs are made of."""
    records: RunRecords | None = None


@dataclass(frozen=True, eq=False)
class RequestTimes:
    """Times of the requests that count; arrays of one length."""

    request_class: NDArray[np.int64]
    """Index among the system's classes."""
    ttft_s: Floats
    """Infinite for requests that were dropped."""
    tpot_s: Floats
    """NaN for those of one token, and those that were dropped."""


@dataclass(frozen=True)
class Window:
    """The arrivals that count: from `first` up to, not including, `last`."""

    first: int
    last: int


def outcome(plan: System, w: SimulationState, window: Window, *, keep: bool = False, is_paced: bool = False) -> Outcome:
    """The figures of a run that has ended.

    Args:
        keep: whether the requests' own records are wanted as well.
        is_paced: whether requests come as fast as the part that fills first answers them: as many are answered.

    Raises:
        AssertionError: a request was lost, or time ran backwards; a fault of the planner.
    """
    clock = w.clock[0]
    lost = len(w.requests) - int(clock["n_finished"]) - int(clock["n_dropped"])
    assert lost == 0, f"{lost} requests are neither finished nor dropped"
    assert clock["violations"] == 0, "time ran backwards"
    check_pools(w)
    times = request_times(plan, w, window)
    watched = _watched(plan, w, window, is_paced=is_paced)
    busy = {pool.name: watched[f"utilization.{pool.name}"] for pool in plan.pools}
    # What a colocated pool does at the most is itself seen in a run: how little is idle of a full one is not known.
    busy |= {one.pool.name: min(busy[one.pool.name], MOST_BUSY) for one in plan.colocated}
    metrics = {
        **_latency(plan, w, window, times),
        **_of_classes(plan, times),
        **watched,
        **relaxation_times(plan, w, slice(window.first, window.last), busy),
        **_factors(w),
    }
    ended = columns_of(w.requests, ("n_retries", "reason"))
    counts = {
        "n_requests": len(w.requests),
        "n_completed": int(clock["n_finished"]),
        "n_dropped": int(clock["n_dropped"]),
        "n_counted": int(np.isfinite(times.ttft_s).sum()),
        "n_retried": int((ended["n_retries"] > 0).sum()),
        **{f"dropped {why}": int((ended["reason"] == code).sum()) for why, code in REASONS.items()},
        "n_conversions": int(w.scheduler[0]["n_conversions"]),
        "simulated_s": float(clock["now_s"]),
        "cross_site_bytes": float(w.links["sent_bytes"][: len(plan.links)].sum()),
        **_moves(w),
    }
    return Outcome(metrics, counts, times, run_records(plan, w, window) if keep else None)


def request_times(plan: System, w: SimulationState, window: Window) -> RequestTimes:
    """Times of the requests that count."""
    names = ("state", "request_class", "output_tokens", "arrival_s", "first_token_s", "finish_s")
    seen = columns_of(w.requests[window.first : window.last], names)
    is_done = seen["state"] == FINISHED
    ttft = np.where(is_done, seen["first_token_s"] - seen["arrival_s"], np.inf)
    n_steps = np.where(is_done & (seen["output_tokens"] > 1), seen["output_tokens"] - 1, np.nan)
    tpot = (seen["finish_s"] - seen["first_token_s"]) / n_steps
    return RequestTimes(plan.class_of[seen["request_class"]], ttft, tpot)


def check_pools(w: SimulationState) -> None:
    """Nothing, where cache pools hold what they count.

    Raises:
        AssertionError: blocks were lost or made: a pool's used blocks are not those of its entries and of transfers, or
            transfers have others than requests and moves took for them; a fault of the planner.
    """
    rule, is_moving = w.cache_rule[0], w.movers["end"] != NONE
    if rule["is_on"] == 0:
        return
    n = rule["n_blocks"]
    n_in, n_states = (np.count_nonzero(part, axis=1) for part in np.hsplit(w.entries["is_in"], [n]))
    held = n_in + n_states * rule["state_blocks"] + w.caches["transfer_blocks"]
    assert (w.caches["used_blocks"] == held).all(), "cache pools hold not what they count"
    taken = int(w.requests["transfer_blocks"].sum() + w.movers["reserved_blocks"][is_moving].sum())
    assert w.caches["transfer_blocks"].sum() == taken, "cache pools keep blocks for transfers that are over"


def _moves(w: SimulationState) -> dict[str, float]:
    """Counts of what moved between cache pools."""
    own, seen = w.rebalancer[0], ("n_offered", "n_moved", "n_dropped", "n_entries", "n_hits", "hit_tokens")
    moved_bytes = float(w.links["moved_bytes"].sum())
    return {f"rebalance {name}": own[name].item() for name in seen} | {"rebalance moved_bytes": moved_bytes}


def _factors(w: SimulationState) -> dict[str, float]:
    """Thresholds that were set, over the planned ones; the mean is over the time of the run."""
    control, now_s = w.scheduler[0], float(w.clock[0]["now_s"])
    whole_s = float(control["factor_s"] + control["factor"] * (now_s - control["changed_s"]))
    mean = whole_s / now_s if now_s > 0 else 1.0
    return {"factor_low": float(control["lowest"]), "factor_mean": mean, "factor_high": float(control["highest"])}


def _latency(plan: System, w: SimulationState, window: Window, times: RequestTimes) -> dict[str, float]:
    """Mean times of the requests that count and finished; quantiles are of all replications together."""
    counted = w.requests[window.first : window.last]
    is_done = np.isfinite(times.ttft_s)
    done = columns_of(counted, (*MOMENTS, "total_tokens", "cached_tokens", "route", "request_class"), is_done)
    ttft, asked = times.ttft_s[is_done], float(done["total_tokens"].sum())
    found = {
        "ttft_mean_s": _mean(ttft),
        "tpot_mean_s": _mean(times.tpot_s[np.isfinite(times.tpot_s)]),
        "offload_fraction": _mean(_is_offloaded(plan, w)[done["route"]]),
        "prefix_hit_fraction": float(done["cached_tokens"].sum()) / asked if asked else np.nan,
        "prompt_tokens": _mean(done["total_tokens"]),
        "stay_s": _mean(done["finish_s"] - done["arrival_s"]),
        "prefill_wait_s": _mean(done["prefill_start_s"] - done["arrival_s"]),
        "prefill_s": _mean(done["prefill_end_s"] - done["prefill_start_s"]),
        "transfer_s": _mean(done["kv_end_s"] - done["prefill_end_s"]),
        "decode_wait_s": _mean(done["first_token_s"] - done["kv_end_s"]),
    }
    for q, stream in enumerate(plan.streams):
        if sum(other.request_class == stream.request_class for other in plan.streams) > 1:
            own = ttft[done["request_class"] == q]
            found |= {f"{key} of {site_name(stream)}": value for key, value in _ttft(own).items()}
            found[f"n_counted of {site_name(stream)}"] = float(own.size)
    return found


def site_name(stream: RequestStream) -> str:
    """Name that the figures of a class at one of its sites have."""
    return f"{stream.request_class} at {stream.site}"


def _of_classes(plan: System, times: RequestTimes) -> dict[str, float]:
    """Mean TTFT and TPOT of every class."""
    found: dict[str, float] = {}
    is_done, has_steps = np.isfinite(times.ttft_s), np.isfinite(times.tpot_s)
    for index, name in enumerate(plan.classes):
        mine = times.request_class == index
        own = times.ttft_s[mine & is_done]
        found[f"ttft_mean_s of {name}"] = _mean(own)
        found[f"tpot_mean_s of {name}"] = _mean(times.tpot_s[mine & has_steps])
        found[f"n_counted of {name}"] = float(own.size)
    return found


def _ttft(seconds: Floats) -> dict[str, float]:
    return {
        "ttft_mean_s": _mean(seconds),
        "ttft_p90_s": _quantile(seconds, 0.9),
        "ttft_p99_s": _quantile(seconds, 0.99),
    }


def _is_offloaded(plan: System, w: SimulationState) -> NDArray[np.bool_]:
    """Mask of ways that long prompts take, and that to another site or to a pool for such alone."""
    takes_both = np.array([spec.prompts is None for spec in plan.prefill])[w.routes["prefill_pool"]]
    return np.asarray((w.routes["is_long"] == 1) & ~(takes_both & (w.routes["link"] == NONE)))


def promised_share(slo: Slo | None, n_counted: float, n_done: float) -> float:
    """Share of the finished requests that is the promised percentage of all: those that were dropped are late."""
    percentile = (slo or Slo()).ttft_percentile
    return min(percentile / 100 * n_counted / n_done, 1.0) if n_done > 0 else 1.0


def _watched(plan: System, w: SimulationState, window: Window, *, is_paced: bool) -> dict[str, float]:
    """Figures of pools and links between the first and the last arrival that counts."""
    rows = np.searchsorted(w.sample_at, [window.first, window.last - 1])
    samples, columns = w.samples[rows[0] : rows[1] + 1], sample_names(plan)
    start, end = ({name: float(row[i]) for i, name in enumerate(columns)} for row in (samples[0], samples[-1]))
    mean = {name: float(samples[:, i].mean()) for i, name in enumerate(columns)}
    span_s = end["time_s"] - start["time_s"]

    def rate(name: str) -> float:
        return (end[name] - start[name]) / span_s if span_s > 0 else 0.0

    served = rate("finished")
    if is_paced:
        finished = w.requests["state"][window.first : window.last - 1] == FINISHED
        served = float(finished.sum()) / span_s if span_s > 0 else 0.0
    found = {"throughput_req_per_s": served, "mean_inside": rate("inside_s"), "warm_up_s": start["time_s"]}
    n_in_role = {pool.name: float(pool.n_instances) for pool in plan.pools}
    if plan.converts:
        n_in_role[plan.prefill[convertible_pool(plan.prefill)].name] = rate("prefill unit_s")
        n_in_role[plan.decode[0].name] = rate("decode unit_s")
    for pool, places in zip(plan.prefill, plan.places, strict=True):
        found[f"utilization.{pool.name}"] = rate(f"{pool.name} busy_s") / (n_in_role[pool.name] * places)
        found[f"{pool.name} waiting"] = mean[f"{pool.name} waiting"]
    for d, (pool, times) in enumerate(zip(plan.decode, plan.decode_times, strict=True)):
        if pool.role == "decode":  # colocated ones are as busy as on their way in
            asked = _decoded_by(w, d)
            full = times.full_tokens_per_s(asked["total_tokens"], asked["output_tokens"]) * n_in_role[pool.name]
            found[f"utilization.{pool.name}"] = rate(f"{pool.name} tokens") / full
        found[f"{pool.name} waiting"] = mean[f"{pool.name} waiting"]
        found[f"{pool.name} batch"] = rate(f"{pool.name} slot_s") / n_in_role[pool.name]
    for one in plan.colocated:
        found[f"{one.pool.name} busy"] = found[f"utilization.{one.pool.name}"]
        left = "arrival_s" if is_paced else "finish_s"
        found[f"utilization.{one.pool.name}"] = _used(plan, one, w, left, start["time_s"], end["time_s"])
    for k, link in enumerate(plan.links):
        found[f"links.{link.name}.mean_gbps"] = gbps(rate(f"{link.name} bytes"))
        found[f"links.{link.name}.peak_gbps"] = gbps(float(w.links[k]["peak_bytes_per_s"]))
        found[f"{link.name} transfers"] = mean[f"{link.name} transfers"]
    for name, n in n_in_role.items():
        found[f"{name} instances"] = n
    return found


def _used(plan: System, one: Colocated, w: SimulationState, moment: str, start_s: float, end_s: float) -> float:
    """Rate of the requests of a colocated pool over what its instances do at the most, between two times."""
    rows, _ = one.entering(w)
    full = plan.full_req_per_s.get(one.pool.name, 0.0) * one.pool.n_instances
    if not len(rows) or end_s <= start_s or not full:
        return 0.0
    left_s = w.requests[moment][rows]
    return float(np.count_nonzero((left_s > start_s) & (left_s <= end_s)) / (end_s - start_s) / full)


def _decoded_by(w: SimulationState, d: int) -> Any:
    """Requests that a decode pool may have, some of the first."""
    asked = w.requests[:N_TO_FILL]
    mine = np.unique(w.routes["request_class"][w.routes["decode_pool"] == d])
    kept = asked[np.isin(asked["request_class"], mine)] if len(mine) < len(w.thresholds) else asked
    return kept if len(kept) else asked


def sample_names(plan: System) -> list[str]:
    """Names of the columns of a sample, fabrics inside sites left out."""
    names = ["time_s", "inside", "inside_s", "finished"]
    names += [f"{pool.name} {what}" for pool in plan.prefill for what in ("waiting", "busy", "busy_s")]
    names += [f"{pool.name} {what}" for pool in plan.decode for what in ("waiting", "batch", "tokens", "slot_s")]
    names += ["threshold_factor", *ROLES, "prefill unit_s", "decode unit_s"]
    return names + [f"{link.name} {what}" for link in plan.links for what in ("transfers", "bytes")]


def run_records(plan: System, w: SimulationState, window: Window) -> RunRecords:
    """Everything about every request, as columns."""
    asked, routes = w.requests, w.routes
    way = np.maximum(asked["route"], 0)
    words = {
        "request_class": plan.classes,
        "state": ("waits", "prefills", "travels", "waits-to-decode", "decodes", "finished", "dropped"),
        "prefill_pool": tuple(pool.name for pool in plan.prefill),
        "decode_pool": tuple(pool.name for pool in plan.decode),
    }
    columns: dict[str, Any] = {
        "request": np.arange(len(asked)),
        "request_class": plan.class_of[asked["request_class"]],
        "state": asked["state"],
        "n_retries": asked["n_retries"],
        **{name: asked[name] for name in ("total_tokens", "cached_tokens", "output_tokens")},
        "is_long": routes["is_long"][way].astype(bool),
        "prefill_pool": routes["prefill_pool"][way],
        "prefill_instance": np.append(_instance_of_place(plan), NONE)[asked["instance"]],
        "decode_pool": routes["decode_pool"][way],
        "decode_instance": asked["decoder"],
        "wire_bytes": asked["wire_bytes"],
        **{name: asked[name] for name in MOMENTS},
    }
    samples = {name: w.samples[:, i] for i, name in enumerate(sample_names(plan))}
    return RunRecords(columns, words, window.first, window.last - window.first, samples)


def _instance_of_place(plan: System) -> NDArray[np.int64]:
    """Number of the instance that every place is of, counted over all prefill pools."""
    sizes = [(n // places, places) for n, places in zip(plan.prefill_slots, plan.places, strict=True)]
    n_places = [places for n, places in sizes for _ in range(n)]
    return np.repeat(np.arange(len(n_places), dtype=np.int64), n_places)


def averaged(outcomes: Sequence[Outcome]) -> tuple[dict[str, float], dict[str, Interval]]:
    """Mean of every metric over replications, and its confidence interval where there are several.

    Equation:
        mean +- t(0.975, n - 1) s / sqrt(n)

    Source:
        Independent replications with a warm-up deleted: Law, Simulation Modeling and Analysis (2015), ch. 9.
    """
    means, intervals = {}, {}
    for name in outcomes[0].metrics:
        values = np.array([o.metrics[name] for o in outcomes])
        known = values[np.isfinite(values)]
        means[name] = float(known.mean()) if known.size else np.nan
        if known.size > 1:
            half = t_quantile(known.size - 1) * float(known.std(ddof=1)) / sqrt(known.size)
            intervals[name] = Interval(low=means[name] - half, high=means[name] + half)
    return means, intervals


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else np.nan


def _quantile(values: Any, q: float) -> float:
    return float(np.quantile(values, q)) if len(values) else np.nan
