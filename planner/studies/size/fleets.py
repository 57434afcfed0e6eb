"""Fleets of a size as answers state them: pools, bill, times, what binds, and what came of the promises."""

from math import isfinite
from typing import Literal

from planner.queueing import ColocatedQueue, colocated_capacity_req_per_s
from planner.results import Promise, SizedCost, SizedFleet, SizedLatency, SizedPool, SizedSloRun
from planner.studies.promises import STEP
from planner.studies.size import disaggregated
from planner.studies.size.colocated import TPOT, TTFT, Chosen
from planner.studies.size.disaggregated import Apart
from planner.studies.size.question import SizeQuestion
from planner.ties import largest

MILLION, HOUR_S = 1e6, 3600.0
Metric = Literal["ttft", "tpot"]
ALL = 100.0
"""Percent of requests: no step of decode exceeds its limit."""


def colocated_fleet(question: SizeQuestion, chosen: Chosen) -> SizedFleet:
    """A colocated pool."""
    way, n, queue = chosen.way, chosen.predicted.n_instances, chosen.predicted.queue
    rate, before_s = question.rate_req_per_s, chosen.predicted.before_s
    pool = SizedPool(
        name="colocated",
        role="colocated",
        hardware=way.chip.name,
        stack=way.kind.software.name,
        layout=str(way.layout),
        tokens_per_pass=way.tokens_per_pass,
        accelerators_per_instance=way.layout.n_accelerators,
        n_instances=n,
        n_accelerators=n * way.layout.n_accelerators,
        capacity_req_per_s=n * way.capacity_req_per_s,
        utilization=rate / (n * way.capacity_req_per_s),
        batch=way.loop.most_running,
    )
    p = question.percentile
    seen = {} if chosen.executed is None else {one.metric: one for one in chosen.executed.promises}
    known = (chosen.executed.n_counted if chosen.executed else 0, chosen.seed)
    first = _promise("ttft", question.ttft_s, chosen.predicted.ttft_s(p), p, seen.get(TTFT), *known)
    token = _promise("tpot", question.tpot_s, chosen.predicted.tpot_s(p), p, seen.get(TPOT), *known)
    return SizedFleet(
        pools=(pool,),
        n_accelerators=pool.n_accelerators,
        cost=_cost(question, n * way.usd_per_hour),
        latency=_latency(queue, before_s),
        binds=_colocated_binds(question, chosen),
        slo_run=first,
        tpot_run=token,
    )


def _latency(queue: ColocatedQueue | None, before_s: float) -> SizedLatency:
    if queue is None:
        return SizedLatency(ttft_mean_s=None, ttft_p50_s=None, ttft_p90_s=None, ttft_p99_s=None, tpot_mean_s=None)
    ttft = queue.ttft
    return SizedLatency(
        ttft_mean_s=ttft.mean_s + before_s,
        ttft_p50_s=ttft.quantile_s(0.5) + before_s,
        ttft_p90_s=ttft.quantile_s(0.9) + before_s,
        ttft_p99_s=ttft.quantile_s(0.99) + before_s,
        tpot_mean_s=queue.tpot_mean_s,
    )


def _promise(
    metric: Metric,
    promised_s: float | None,
    predicted_s: float | None,
    percentile: float,
    seen: Promise | None,
    counted: int,
    seed: int | None,
) -> SizedSloRun | None:
    """A promise with what is known of it."""
    if promised_s is None:
        return None
    return SizedSloRun(
        metric=metric,
        basis="predicted" if seen is None else "executed",
        holds=None if seen is None else seen.holds,
        decided=seen is not None and seen.decided,
        requests=counted,
        seed=seed,
        percentile=percentile,
        promised_s=promised_s,
        predicted_s=predicted_s if predicted_s is not None and isfinite(predicted_s) else None,
        executed_s=None if seen is None else seen.executed,
        ci_low_s=None if seen is None else seen.ci_low,
        ci_high_s=None if seen is None else seen.ci_high,
    )


def _colocated_binds(question: SizeQuestion, chosen: Chosen) -> str:
    """What holds the number of instances up."""
    way, found, p = chosen.way, chosen.predicted, question.percentile
    least = way.least_instances(question.rate_req_per_s)
    if found.n_instances > least:
        late = question.ttft_s is not None and found.ttft_s(p) / question.ttft_s
        slow = question.tpot_s is not None and found.tpot_s(p) / question.tpot_s
        return "the time to first token under load" if (late or 0) > (slow or 0) else "the time per output token"
    free = colocated_capacity_req_per_s(way.loop, way.prompts)
    if free > 1.001 * way.capacity_req_per_s:
        return "the time per output token"
    full = way.loop.most_running >= way.most_by_memory
    return f"memory for {way.most_by_memory} sequences, or the work itself" if full else "the work itself"


def disaggregated_fleet(question: SizeQuestion, apart: Apart) -> SizedFleet:
    """Prefill and decode pools."""
    fleet = apart.found.fleet
    batches = {"prefill": None, "decode": apart.decode.batch}
    by_role = {"prefill": apart.prefill, "decode": apart.decode}
    pools = tuple(
        SizedPool(
            name=pool.name,
            role=pool.role,
            hardware=by_role[pool.role].chip.name,
            stack=by_role[pool.role].kind.software.name,
            layout=str(by_role[pool.role].layout),
            tokens_per_pass=by_role[pool.role].tokens_per_pass,
            accelerators_per_instance=by_role[pool.role].layout.n_accelerators,
            n_instances=pool.n_instances,
            n_accelerators=pool.n_accelerators,
            capacity_req_per_s=pool.capacity_req_per_s,
            utilization=pool.utilization,
            batch=batches[pool.role],
        )
        for pool in fleet.pools
    )
    t = fleet.latency
    return SizedFleet(
        pools=pools,
        n_accelerators=sum(pool.n_accelerators for pool in pools),
        cost=_cost(question, apart.usd_per_hour),
        latency=SizedLatency(
            ttft_mean_s=t.ttft_mean_s,
            ttft_p50_s=t.ttft_p50_s,
            ttft_p90_s=t.ttft_p90_s,
            ttft_p99_s=t.ttft_p99_s,
            tpot_mean_s=t.tpot_mean_s,
        ),
        binds=largest(pools, lambda pool: pool.utilization).name + ", the busier of the two",
        slo_run=_apart_promise(question, apart, "ttft"),
        tpot_run=_apart_promise(question, apart, "tpot"),
    )


def _apart_promise(question: SizeQuestion, apart: Apart, metric: Metric) -> SizedSloRun | None:
    p, seen = question.percentile, {one.metric == STEP: one for one in apart.promises}
    if metric == "ttft":
        predicted_s = disaggregated.predicted_ttft_s(apart, p) if question.ttft_s is not None else None
        return _promise("ttft", question.ttft_s, predicted_s, p, seen.get(False), apart.n_counted, apart.seed)
    step_s = apart.found.fleet.latency.tpot_mean_s
    return _promise("tpot", question.tpot_s, step_s, ALL, seen.get(True), apart.n_counted, apart.seed)


def _cost(question: SizeQuestion, usd_per_hour: float) -> SizedCost:
    r, each = question.requests, usd_per_hour / HOUR_S / question.rate_req_per_s * MILLION
    return SizedCost(
        usd_per_hour=usd_per_hour,
        usd_per_million_input_tokens=each / r.mean_tokens,
        usd_per_million_output_tokens=each / r.output_tokens,
    )
