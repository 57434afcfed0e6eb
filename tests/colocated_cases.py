"""A small question with a colocated pool, and fleets for it by hand."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.results.plan import Fleet, LinkPlan, PoolPlan
from planner.scenario import Scenario, load_scenario
from tests.executor_cases import UNKNOWN, UNPRICED

CHAT = """
schema = "planner.scenario/1"
name = "chat"

[model]
profile = "llama-3.1-8b"

[workload]
lengths = { kind = "lognormal", mu = 7.0, sigma = 1.0, low_tokens = 32, high_tokens = 30000 }
output_lengths = { kind = "lognormal", mu = 5.0, sigma = 0.6, low_tokens = 2, high_tokens = 1000 }

[sites.home]
accelerators = { h100-sxm = 64 }

[sites.far]
accelerators = { h200-sxm = 64 }

[pools.both]
site = "home"
hardware = "h100-sxm"
role = "colocated"
layout = "tp=1,ep=1,dp=1,pp=1"
accelerators_per_instance = 1

[pools.long]
site = "far"
hardware = "h200-sxm"
role = "prefill"
layout = "tp=1,ep=1,dp=1,pp=1"
accelerators_per_instance = 1

[links.wan]
from = "far"
to = "home"
capacity_gbps = 100
round_trip_ms = 10
"""


def chat(changes: Mapping[str, Any] | None = None) -> Scenario:
    """The question, keys changed."""
    return load_scenario(CHAT, "chat.toml", Path()).varied(changes or {})


def fleet(
    n_both: int = 2,
    n_long: int = 0,
    threshold_tokens: float | None = None,
    rate: float = 10.0,
    gbps: float = 100.0,
    tokens_per_pass: int | None = 2048,
) -> Fleet:
    """Sizes and routing; nothing else of a plan matters to a run."""
    sizes = (("long", "far", "prefill", n_long), ("both", "home", "colocated", n_both))
    pools = [
        PoolPlan(
            name=name,
            site=site,
            hardware="any",
            role="prefill" if role == "prefill" else "colocated",
            prompts="long" if role == "prefill" else None,
            n_instances=n,
            n_accelerators=n,
            capacity_req_per_s=1.0,
            offered_req_per_s=1.0,
            utilization=0.5,
            usd_per_hour=None,
            basis="datasheet",
            layout="tp=1,ep=1,dp=1,pp=1",
            tokens_per_pass=tokens_per_pass if role == "colocated" else None,
            batch_limit=100 if role == "colocated" else None,
        )
        for name, site, role, n in sizes
        if n
    ]
    link = LinkPlan(
        name="wan",
        from_site="far",
        to_site="home",
        capacity_gbps=gbps,
        n_ports=1,
        port_gbps=gbps,
        mean_gbps=0.0,
        utilization=0.0,
        usd_per_hour=None,
    )
    return Fleet(
        threshold_tokens=threshold_tokens,
        offload_fraction=0.0 if threshold_tokens is None else 0.5,
        throughput_req_per_s=rate,
        max_throughput_req_per_s=rate,
        pools=tuple(pools),
        links=(link,) if n_long else (),
        latency=UNKNOWN,
        cost=UNPRICED,
    )
