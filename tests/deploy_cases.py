"""Plans to export, made by hand: two pools, two sites with hours and classes, and whatever a test changes of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from planner.deploy import Target, export_files
from planner.results.plan import (
    ClassPlan,
    DeployedModel,
    LinkPlan,
    PeriodLink,
    PeriodPlan,
    PeriodPool,
    Plan,
    PoolPlan,
    Verdict,
)
from planner.results.plan_file import plan_from
from planner.results.plan_parts import Cost, Latency, PoolSchedule, Replicas, Schedule

UNKNOWN = Latency(
    ttft_mean_s=None,
    ttft_p50_s=None,
    ttft_p90_s=None,
    ttft_p99_s=None,
    ttft_unloaded_mean_s=None,
    ttft_unloaded_p90_s=None,
    tpot_mean_s=None,
)
UNPRICED = Cost(
    usd_per_hour=None,
    usd_per_million_input_tokens=None,
    usd_per_million_output_tokens=None,
    accelerators_usd_per_hour=None,
)
REFERENCE = Path(__file__).parent / "goldens" / "cli" / "optimize-prfaas-paper-expected-work.json"


def model(name: str = "dense", **changes: Any) -> DeployedModel:
    """A dense model that is published in bf16, or what is changed of it."""
    stated = {
        "name": name,
        "checkpoints": (f"makers/{name}",),
        "precision": "bf16",
        "kv_precision": "bf16",
        "has_recurrent_state": False,
        "has_experts": False,
        "context_limit_tokens": 131_072,
    }
    return DeployedModel(**{**stated, **changes})


def pool(name: str, role: str, site: str = "home", **changes: Any) -> PoolPlan:
    """A pool of two instances of eight H200, or what is changed of it."""
    stated = {
        "name": name,
        "site": site,
        "hardware": "h200-sxm",
        "role": role,
        "prompts": "short" if role == "prefill" else None,
        "n_instances": 2,
        "n_accelerators": 16,
        "capacity_req_per_s": 4.0,
        "offered_req_per_s": 2.0,
        "utilization": 0.5,
        "usd_per_hour": None,
        "basis": "measured",
        "accelerators_per_instance": 8,
        "layout": "tp=8,ep=1,dp=1,pp=1",
        "stack": "vllm-0.33.0",
        "precision": "bf16",
        "kv_precision": "bf16",
        "batch_limit": 64 if role == "decode" else None,
        "model": "dense",
    }
    return PoolPlan(**{**stated, **changes})


def link(start: str, end: str) -> LinkPlan:
    """A link of 100 Gbps."""
    return LinkPlan(
        name=f"{start}-{end}",
        from_site=start,
        to_site=end,
        capacity_gbps=100.0,
        n_ports=1,
        port_gbps=100.0,
        mean_gbps=20.0,
        utilization=0.2,
        usd_per_hour=None,
        round_trip_ms=30.0,
    )


def request_class(name: str = "all", **changes: Any) -> ClassPlan:
    """A class of requests without prefix hits."""
    stated = {
        "name": name,
        "model": "dense",
        "share": 1.0,
        "threshold_tokens": None,
        "latency": UNKNOWN,
        "mean_total_tokens": 4000.0,
        "mean_uncached_tokens": 4000.0,
        "mean_output_tokens": 500.0,
        "cached_fraction": 0.0,
    }
    return ClassPlan(**{**stated, **changes})


def plan(name: str, pools: tuple[PoolPlan, ...], **changes: Any) -> Plan:
    """A plan of pools for one class."""
    stated: Mapping[str, Any] = {
        "scenario": name,
        "objective": "min-cost",
        "status": "optimal",
        "gap": 0.0,
        "bound": 1.0,
        "capacity_rule": "expected-work",
        "threshold_tokens": None,
        "offload_fraction": 0.0,
        "throughput_req_per_s": 2.0,
        "max_throughput_req_per_s": 4.0,
        "pools": pools,
        "links": (),
        "latency": UNKNOWN,
        "cost": UNPRICED,
        "models": (model(),),
        "prefill_to_decode": "1:1",
        "bottlenecks": (),
        "verdict": Verdict(worth_it=False, because="a test"),
        "classes": (request_class(),),
        "baselines": (),
        "free_routing": None,
        "sweep": None,
    }
    return Plan(**{**stated, **changes})


def reference() -> Plan:
    """The plan of the reference case, as its golden answer states it."""
    return plan_from(REFERENCE.read_text(encoding="utf-8"), REFERENCE.name)


def two_pools(**changes: Any) -> Plan:
    """One site that prefills and decodes."""
    return plan("two-pools", (pool("prefill", "prefill"), pool("decode", "decode")), **changes)


def split(threshold_tokens: float | None = 4096.0, **changes: Any) -> Plan:
    """Three pools: long prompts are prefilled in another site."""
    pools = (
        pool("far", "prefill", "away", prompts="long"),
        pool("near", "prefill"),
        pool("decode", "decode"),
    )
    classes = (request_class(threshold_tokens=threshold_tokens),)
    stated = {"links": (link("away", "home"),), "threshold_tokens": threshold_tokens, "classes": classes}
    return plan("split", pools, **{**stated, **changes})


def colocated_pool(**changes: Any) -> PoolPlan:
    """A pool that prefills and decodes in one batch, or what is changed of it."""
    return pool("both", "colocated", **{"batch_limit": 64, "tokens_per_pass": 2048, **changes})


def colocated(**changes: Any) -> Plan:
    """One site that prefills and decodes in one batch."""
    return plan("colocated", (colocated_pool(**changes),))


def colocated_split(threshold_tokens: float | None = 4096.0, **changes: Any) -> Plan:
    """Two pools: long prompts are prefilled in another site, and decoded among the short ones at home."""
    pools = (pool("far", "prefill", "away", prompts="long"), colocated_pool(**changes))
    classes = (request_class(threshold_tokens=threshold_tokens),)
    links = (link("away", "home"),)
    return plan("colocated-split", pools, links=links, threshold_tokens=threshold_tokens, classes=classes)


def two_sites() -> Plan:
    """Two sites that decode and share a third one's prefill, of two classes and two periods, with prefix hits."""
    pools = (
        pool("hub-prefill", "prefill", "hub", prompts="long", n_instances=3, n_accelerators=24),
        pool("east-prefill", "prefill", "east", accelerators_per_instance=4, layout="tp=4", n_accelerators=8),
        pool("east-decode", "decode", "east", layout="tp=1,ep=8,dp=8", batch_limit=100),
        pool("west-prefill", "prefill", "west"),
        pool("west-decode", "decode", "west"),
    )
    classes = (
        request_class("chat", share=0.75, cached_fraction=0.25, slo={"ttft_s": 2.0, "ttft_percentile": 90.0}),
        request_class("agent", share=0.25),
    )
    links = (link("hub", "east"), link("hub", "west"))
    periods = (_period("day", 3000.0, links, pools, 8.0), _period("night", None, links, pools, 2.0))
    served = (model(has_experts=True),)
    return plan("two-sites", pools, classes=classes, links=links, periods=periods, models=served)


def _period(name: str, chat: float | None, links: Any, pools: Any, rate: float) -> PeriodPlan:
    return PeriodPlan(
        name=name,
        hours=12.0,
        demand_req_per_s=rate,
        offload_fraction=0.4,
        thresholds={"chat": {"east": chat, "west": chat}, "agent": {"east": 8000.5}},
        decoded_req_per_s={"chat": {"east": rate / 2, "west": rate / 4}, "agent": {"east": rate / 4}},
        pools=tuple(
            PeriodPool(name=one.name, n_instances=one.n_instances, offered_req_per_s=1.0, utilization=0.5)
            for one in pools
        ),
        links=tuple(PeriodLink(name=one.name, mean_gbps=5.0, utilization=0.05) for one in links),
        latency=UNKNOWN,
        use_usd_per_hour=0.0,
    )


def schedule_of(pool: str, sizes: list[int], hours: list[float], start_up_s: float = 0.0) -> PoolSchedule:
    """Instances of a pool in every period."""
    replicas, begins_h = [], 0.0
    for p, (n, h) in enumerate(zip(sizes, hours, strict=True)):
        begun = max(n - sizes[p - 1], 0)
        replicas.append(Replicas(period=f"p{p}", begins_h=begins_h, hours=h, n_instances=n, starts=begun))
        begins_h += h
    return PoolSchedule(
        pool=pool, least_time_up_h=0.0, start_up_s=start_up_s, replicas=tuple(replicas), usd_per_hour=None
    )


def with_schedule(plan: Plan, *schedules: PoolSchedule) -> Plan:
    """A plan with pools that are rented by the period."""
    known = {"peak_usd_per_hour": None, "saved_usd_per_hour": None, "saved_fraction": None}
    return plan.model_copy(update={"schedule": Schedule(pools=schedules, **known)})


def unequal_hybrid() -> Plan:
    """A hybrid model whose prefill and decode have another tensor parallel size: wrong on NIXL."""
    pools = (pool("prefill", "prefill"), pool("decode", "decode", layout="tp=4", accelerators_per_instance=4))
    return plan("unequal-hybrid", pools, models=(model(has_recurrent_state=True),))


CASES = {
    "reference": reference,
    "two-pools": two_pools,
    "two-sites": two_sites,
    "unequal-hybrid": unequal_hybrid,
    "colocated": colocated,
    "colocated-split": colocated_split,
}


def exported(of: Plan, target: Target, *parameters: str) -> dict[str, str]:
    """The files of an export."""
    return export_files(of, target, parameters, "plan.json")


def manifests(files: Mapping[str, str], kind: str | None = None) -> list[dict[str, Any]]:
    """Every object of the files, or those of a kind."""
    texts = (text for name, text in files.items() if name.endswith(".yaml"))
    found = [document for text in texts for document in yaml.safe_load_all(text)]
    return [one for one in found if kind is None or one.get("kind") == kind]


def containers(objects: Any) -> list[dict[str, Any]]:
    """Every container anywhere in some objects."""
    if isinstance(objects, list):
        return [found for item in objects for found in containers(item)]
    if not isinstance(objects, dict):
        return []
    here = [*objects.get("containers", []), *objects.get("initContainers", [])]
    return here + [found for item in objects.values() for found in containers(item)]


def options(argv: list[str]) -> dict[str, str]:
    """Options of a command line with the words that follow them."""
    starts = [i for i, word in enumerate(argv) if word.startswith("--")]
    ends = [*starts[1:], len(argv)]
    return {argv[i]: " ".join(argv[i + 1 : end]) for i, end in zip(starts, ends, strict=True)}
