"""Records of an answer: classes, how pools are run, links and latency, each from its part of a problem."""

from collections.abc import Iterator, Sequence
from typing import Any

from planner.optimizer.problem_parts import ClassSpec, LinkSpec, PoolSpec
from planner.queueing.ttft import Ttft
from planner.results.plan import ClassPlan, LinkPlan, PoolShares
from planner.results.plan_parts import Latency
from planner.scenario import Scenario
from planner.units import MILLI


def class_plans(
    scenario: Scenario,
    spec: ClassSpec,
    threshold_tokens: float | None,
    latency: Latency,
    pool_shares: PoolShares | None = None,
) -> Iterator[ClassPlan]:
    """A class of requests in the words of the answer, each of those that are alike by its own name."""
    for member in spec.members:
        yield ClassPlan(
            name=member.name,
            model=scenario.profile_of(spec.model).name,
            share=member.share,
            slo=None if spec.slo is None else spec.slo.model_dump(exclude_none=True),
            threshold_tokens=threshold_tokens,
            latency=latency,
            mean_total_tokens=spec.mix.mean_total_tokens,
            mean_uncached_tokens=spec.mix.mean_uncached_tokens,
            mean_output_tokens=spec.mix.mean_output_tokens,
            cached_fraction=spec.mix.cached_fraction,
            pool_shares=pool_shares or {},
        )


def setup_fields(pool: PoolSpec) -> dict[str, Any]:
    """Settings of a pool's instances, as far as they are known, under the names of a plan's fields."""
    rates, setup = pool.rates, pool.rates.setup
    return {
        "basis": rates.basis,
        "accelerators_per_instance": pool.n_accelerators,
        "layout": setup.layout,
        "stack": setup.stack,
        "precision": setup.precision,
        "kv_precision": setup.kv_precision,
        "engine": setup.engine,
        "tokens_per_pass": None if pool.batching is None else pool.batching.tokens_per_pass,
    }


def link_plan(link: LinkSpec, ports: Sequence[int], mean_gbps: float) -> LinkPlan:
    """A link with the ports rented and its mean traffic."""
    capacity = link.gbps(ports)
    sizes = {tier.capacity_gbps for m, tier in zip(ports, link.tiers, strict=True) if m}
    return LinkPlan(
        name=link.name,
        from_site=link.from_site,
        to_site=link.to_site,
        capacity_gbps=capacity,
        n_ports=sum(ports),
        port_gbps=sizes.pop() if len(sizes) == 1 else None,
        ports_by_tier=tuple(ports),
        mean_gbps=mean_gbps,
        utilization=mean_gbps / capacity if capacity else 0.0,
        usd_per_hour=link.ports_usd_per_hour(ports),
        round_trip_ms=link.round_trip_s / MILLI,
    )


def latency_of(loaded: Ttft | None, unloaded: Ttft | None, tpot_mean_s: float | None) -> Latency:
    """Figures of latency as an answer states them [s], from TTFT with waits and without; None where one is unknown."""
    return Latency(
        ttft_mean_s=loaded.mean_s if loaded else None,
        ttft_p50_s=loaded.quantile_s(0.50) if loaded else None,
        ttft_p90_s=loaded.quantile_s(0.90) if loaded else None,
        ttft_p99_s=loaded.quantile_s(0.99) if loaded else None,
        ttft_unloaded_mean_s=unloaded.mean_s if unloaded else None,
        ttft_unloaded_p90_s=unloaded.quantile_s(0.90) if unloaded else None,
        tpot_mean_s=tpot_mean_s,
    )
