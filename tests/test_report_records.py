"""Hand-made plans and cases that the tests of the report room render: the usual one and every kind of gap in it."""

from typing import Any, Literal

import numpy as np
import pytest

from planner.results.case import (
    BreakEvenResult,
    Case,
    ClaimResult,
    ComparedPlan,
    LengthProfile,
    PriceRatios,
    ServiceCurve,
    SourceNote,
    Turn,
)
from planner.results.executed import Executed, ExecutedFigure, ExecutedLoad, TtftByLoad
from planner.results.plan import (
    Baseline,
    ClassPlan,
    FreeRouting,
    LinkPlan,
    PeriodLink,
    PeriodPlan,
    PeriodPool,
    Plan,
    PoolPlan,
    Sweep,
    Verdict,
)
from planner.results.plan_parts import Bottleneck, Cost, Latency
from planner.results.run import Interval
from planner.results.scheduling import LoadPattern, ScheduledRun, ScheduledSeries, SchedulerComparison

UNLOADED = Latency(
    ttft_mean_s=None,
    ttft_p50_s=None,
    ttft_p90_s=None,
    ttft_p99_s=None,
    ttft_unloaded_mean_s=2.2,
    ttft_unloaded_p90_s=3.43,
    tpot_mean_s=0.025,
)
LOADED = UNLOADED.model_copy(update={"ttft_mean_s": 2.6, "ttft_p50_s": 2.3, "ttft_p90_s": 4.4, "ttft_p99_s": 7.2})
COST = Cost(
    usd_per_hour=182.5,
    usd_per_million_input_tokens=0.578,
    usd_per_million_output_tokens=15.5,
    accelerators_usd_per_hour=160.0,
)
NO_COST = Cost(
    usd_per_hour=None,
    usd_per_million_input_tokens=None,
    usd_per_million_output_tokens=None,
    accelerators_usd_per_hour=None,
    missing_prices=("prices.h200-sxm", "links.wan"),
)


def pool(name: str, n: int, hardware: str, prompts: str | None, capacity: float, **changes: Any) -> PoolPlan:
    usual: dict[str, Any] = {
        "name": name,
        "site": "remote" if prompts == "long" else "local",
        "hardware": hardware,
        "role": "prefill" if prompts else "decode",
        "prompts": prompts,
        "n_instances": n,
        "n_accelerators": 8 * n,
        "capacity_req_per_s": capacity,
        "offered_req_per_s": capacity,
        "utilization": 1.0,
        "usd_per_hour": 10.0 * n,
        "basis": "measured" if prompts == "long" else "inferred",
    }
    return PoolPlan(**(usual | changes))


PRFAAS = pool("prfaas", 4, "h200-sxm", "long", 1.56, usd_per_hour=80.0)
PD_P = pool("pd-p", 3, "h20-141gb", "short", 1.63)
PD_D = pool("pd-d", 5, "h20-141gb", None, 3.91, offered_req_per_s=3.19, utilization=0.816)
WAN = LinkPlan(
    name="wan",
    from_site="remote",
    to_site="local",
    capacity_gbps=100.0,
    n_ports=1,
    port_gbps=100.0,
    mean_gbps=12.1,
    utilization=0.121,
    usd_per_hour=22.5,
)
SWEEP = Sweep(
    threshold_tokens=(1000.0, 5000.0, 20000.0, 50000.0, 130000.0),
    offload_fraction=(0.99, 0.9, 0.48, 0.15, 0.0),
    limits_req_per_s={
        "prfaas": (2.4, 2.45, 3.2, 6.0, None),
        "pd-p": (None, 12.0, 3.2, 1.2, 0.7),
        "pd-d": (3.91,) * 5,
        "wan": (20.0, 20.0, 25.0, 60.0, None),
    },
)


def baseline(name: str, ratio: float, **changes: Any) -> Baseline:
    rate = 3.19 / ratio
    usual: dict[str, Any] = {
        "name": name,
        "title": f"what {name} means",
        "ratio": ratio,
        "threshold_tokens": None,
        "offload_fraction": 0.0,
        "throughput_req_per_s": rate,
        "max_throughput_req_per_s": rate,
        "pools": (pool("pd-p", 9, "h20-141gb", "short", rate), pool("pd-d", 3, "h20-141gb", None, 2.34)),
        "links": (),
        "latency": UNLOADED,
        "cost": COST.model_copy(update={"usd_per_hour": 120.0}),
    }
    return Baseline(**(usual | changes))


def make_class(name: str, share: float, threshold: float | None) -> ClassPlan:
    return ClassPlan(
        name=name,
        model="prfaas-1t",
        share=share,
        threshold_tokens=threshold,
        latency=LOADED,
        mean_total_tokens=27486.0,
        mean_uncached_tokens=27486.0,
        mean_output_tokens=1024.0,
        cached_fraction=0.0,
    )


def make_plan(**changes: Any) -> Plan:
    usual: dict[str, Any] = {
        "scenario": "example",
        "objective": "max-throughput",
        "status": "optimal",
        "gap": 1.5e-6,
        "bound": 3.19,
        "capacity_rule": "expected-work",
        "threshold_tokens": 19677.4,
        "offload_fraction": 0.49,
        "throughput_req_per_s": 3.19,
        "max_throughput_req_per_s": 3.19,
        "pools": (PRFAAS, PD_P, PD_D),
        "links": (WAN,),
        "latency": UNLOADED,
        "cost": COST,
        "prefill_to_decode": "3:5",
        "bottlenecks": (
            Bottleneck(constraint="pools.prfaas.n_instances", shadow_price=0.616, unit="req/s per instance"),
            Bottleneck(constraint="links.wan.capacity_gbps", shadow_price=0.01, unit="req/s per Gbps"),
        ),
        "verdict": Verdict(worth_it=True, because="It serves 3.19 req/s against 3.12."),
        "classes": (make_class("all", 1.0, 19677.4),),
        "baselines": (baseline("homogeneous-pd", 1.56), baseline("equal-cost-homogeneous-pd", 1.17)),
        "free_routing": FreeRouting(max_throughput_req_per_s=3.19, gain=2e-11, n_bins=256),
        "sweep": SWEEP,
        "notes": ("service times of pd-p (h20-141gb) are inferred, not measured",),
    }
    return Plan(**(usual | changes))


def make_claim(what: str, **changes: Any) -> ClaimResult:
    usual: dict[str, Any] = {
        "what": what,
        "metric": "mean-length.threshold_tokens",
        "published": 19400.0,
        "planned": 19514.0,
        "difference": 0.00588,
        "unit": "tokens",
        "kind": "result",
        "tolerance": 0.03,
        "holds": True,
        "source": "a paper, Table 6",
        "note": "",
    }
    return ClaimResult(**(usual | changes))


def make_curve(name: str, basis: str) -> ServiceCurve:
    return ServiceCurve(
        pool=name,
        hardware="h200-sxm",
        basis="measured" if basis == "measured" else "inferred",
        source="a paper",
        how=None,
        tokens=(1000.0, 10000.0, 130000.0),
        prefill_s=(0.44, 0.8, 7.4),
        kv_gbps=(3.6, 3.5, 2.6),
        measured_tokens=(1024.0, 130000.0),
        measured_s=(0.44, 7.4),
    )


PRICES = PriceRatios(
    long_hardware="h200-sxm",
    home_hardware="h20-141gb",
    home_usd_per_accelerator_hour=1.25,
    stated_ratio=2.0,
    ratios=(1.5, 2.0, 2.5, 3.0),
    equal_cost_accelerators=(112, 128, 144, 160),
    equal_cost_gain=(0.36, 0.17, 0.02, -0.06),
    equal_bill_gain=(0.17, 0.02, -0.06, -0.17),
    break_even_cost=3.0,
    break_even_bill=2.44,
)


def make_break_even(**changes: Any) -> BreakEvenResult:
    usual: dict[str, Any] = {
        "key": "prices.h200-sxm.usd_per_accelerator_hour",
        "title": "rent of an H200, USD/h",
        "decides": "verdict",
        "stated": 2.5,
        "low": 0.0,
        "high": 10.0,
        "decision": True,
        "below": Turn(value=0.5, decision=None),
        "above": Turn(value=3.24, decision=False),
    }
    return BreakEvenResult(**(usual | changes))


def make_figure(executed: float, by_paper: float | None = None, predicted: float | None = None) -> ExecutedFigure:
    return ExecutedFigure(
        by_paper=by_paper,
        predicted=executed if predicted is None else predicted,
        executed=executed,
        ci_low=0.98 * executed,
        ci_high=1.02 * executed,
        allowed=0.05,
    )


def make_load(load: float, mean_s: float, p90_s: float) -> ExecutedLoad:
    return ExecutedLoad(
        load=load,
        offered_req_per_s=3.19 * load,
        ttft_mean_s=make_figure(mean_s, 2.2),
        ttft_p90_s=make_figure(p90_s, 3.43, 0.9 * p90_s),
        links_gbps={"wan": make_figure(12.1 * load)},
    )


def make_scheduled(scheduler: Literal["static", "both"], factor: float) -> ScheduledRun:
    return ScheduledRun(
        pattern="bursts",
        scheduler=scheduler,
        throughput_req_per_s=2.55,
        ttft_mean_s=3.4,
        ttft_p50_s=2.0,
        ttft_p90_s=6.2,
        ttft_p99_s=10.4,
        n_dropped=0,
        n_conversions=4 if scheduler == "both" else 0,
        threshold_low_tokens=19677.0 / factor,
        threshold_mean_tokens=19677.0,
        threshold_high_tokens=19677.0 * factor,
        mean_instances={"pd-p": 3.0},
        intervals={"ttft_mean_s": Interval(low=3.3, high=3.5)},
    )


def make_series(scheduler: Literal["static", "both"], tokens: float) -> ScheduledSeries:
    time_s = np.linspace(0.0, 7200.0, 9)
    return ScheduledSeries("bursts", scheduler, time_s, np.full(9, tokens), {"pd-p": np.arange(9.0)})


def make_executed(**changes: Any) -> Executed:
    usual: dict[str, Any] = {
        "seed": 0,
        "n_requests": 400_000,
        "n_replications": 4,
        "loads": (make_load(0.6, 2.5, 4.2), make_load(0.9, 5.3, 10.4)),
        "max_throughput_req_per_s": make_figure(3.19, 3.226),
        "predicted_ttft": TtftByLoad(loads=(0.1, 0.6, 0.9), mean_s=(2.2, 2.5, 5.3), p90_s=(3.4, 4.2, 10.2)),
        "schedulers": SchedulerComparison(
            scenario="example",
            seed=0,
            load=0.8,
            n_requests=400_000,
            n_replications=4,
            patterns=(LoadPattern(name="bursts", text="more at times"),),
            runs=(make_scheduled("static", 1.0), make_scheduled("both", 2.0)),
        ),
        "scheduler_series": (make_series("static", 19677.0), make_series("both", 24000.0)),
    }
    return Executed(**(usual | changes))


def make_case(**changes: Any) -> Case:
    plan = changes.get("plan", make_plan())
    usual: dict[str, Any] = {
        "name": "example",
        "title": "An example",
        "notes": "- Every figure is made up.",
        "plan": plan,
        "other_rule": make_plan(capacity_rule="mean-length", max_throughput_req_per_s=3.226),
        "rule_shortfall": 0.0148,
        "requests": LengthProfile(
            mean_total_tokens=27486.0,
            mean_uncached_tokens=27486.0,
            mean_output_tokens=1024.0,
            cached_fraction=0.0,
            quantiles_tokens={"p10": 5434.0, "p50": 19188.0, "p90": 62453.0, "p99": 115404.0},
            lengths_tokens=(600.0, 5434.0, 19188.0, 62453.0, 131072.0),
            cumulative_fraction=(0.0, 0.1, 0.5, 0.9, 1.0),
        ),
        "curves": (make_curve("prfaas", "measured"), make_curve("pd-p", "inferred")),
        "comparisons": (
            ComparedPlan(name="loaded", title="at 80 %", plan=make_plan(latency=LOADED, throughput_req_per_s=2.55)),
            ComparedPlan(name="none", title="without a second site", plan=None, failure="no instance fits"),
        ),
        "claims": (
            make_claim("threshold"),
            make_claim("Theta of PD-P", kind="input", note="a point of the curve", tolerance=None, holds=None),
            make_claim("egress", planned=13000.0, difference=-0.33, holds=False, note="another length is meant"),
        ),
        "price_ratios": PRICES,
        "break_even": (make_break_even(), make_break_even(decides="loaded", decision=False, below=None)),
        "not_varied": ("prices.h20-141gb",),
        "executed": make_executed(),
        "inputs": (SourceNote(what="price of h200-sxm", basis="quoted", source="a price list"),),
        "sources": ("A paper",),
    }
    return Case(**(usual | changes))


LONG = tuple(f"{role}-of-model-{i}-at-a-place-with-a-long-name" for i in range(6) for role in ("prefill", "decode"))
"""Names of pools, of 41 or 40 characters."""


def make_period(name: str, rate: float, plan: Plan) -> PeriodPlan:
    return PeriodPlan(
        name=name,
        hours=12.0,
        demand_req_per_s=rate,
        offload_fraction=0.0,
        thresholds={"all": {"local": 1000.0}},
        pools=tuple(
            PeriodPool(name=p.name, n_instances=p.n_instances, offered_req_per_s=1.0, utilization=0.5)
            for p in plan.pools
        ),
        links=tuple(PeriodLink(name=link.name, mean_gbps=1.0, utilization=0.25) for link in plan.links),
        latency=LOADED,
        use_usd_per_hour=0.0,
    )


def make_network() -> Case:
    """Six models, a dozen pools, three promises: names are long, and many."""
    pools = tuple(
        pool(name, 3 + i, "a-hardware-profile-of-ones-own", "short" if i % 2 == 0 else None, 1.5 + i)
        for i, name in enumerate(LONG)
    )
    classes = tuple(
        make_class(f"requests-of-customers-of-kind-{i}", 0.3, tokens).model_copy(
            update={"slo": {"ttft_s": 4.0 + i / 10, "ttft_percentile": 90.0}}
        )
        for i, tokens in enumerate((19677.0, 19700.0, 62000.0))
    )
    links = tuple(WAN.model_copy(update={"name": f"from-a-place-with-a-long-name-to-{i}"}) for i in range(4))
    usd_per_hour = sum(item.usd_per_hour or 0.0 for item in (*pools, *links))
    cost, less = (COST.model_copy(update={"usd_per_hour": usd}) for usd in (usd_per_hour, 70.0))
    plan = make_plan(
        pools=pools,
        links=links,
        cost=cost,
        classes=classes,
        threshold_tokens=None,
        sweep=None,
        latency=LOADED,
        baselines=(
            baseline("local-prefill", 1.0, pools=pools, links=links, cost=cost),
            baseline("everything-at-home", 0.4, pools=pools[:2], cost=less),
        ),
    )
    plan = plan.model_copy(
        update={"periods": tuple(make_period(n, x, plan) for n, x in (("day", 2.0), ("night", 1.0)))}
    )
    curves = tuple(
        make_curve(f"model-{i} on {kind}", "measured") for i in range(6) for kind in ("h200-sxm", "h20-96gb")
    )
    return make_case(
        plan=plan,
        curves=curves,
        price_ratios=None,
        break_even=(make_break_even(title="a price that takes many words to say, in USD per accelerator and hour"),),
    )


NOTHING = dict.fromkeys(("curves", "comparisons", "claims", "break_even", "not_varied"), ())
BARE = {"other_rule": None, "rule_shortfall": None, "price_ratios": None, "executed": None, **NOTHING}
ONE_LENGTH = LengthProfile(
    mean_total_tokens=32768.0,
    mean_uncached_tokens=32768.0,
    mean_output_tokens=1024.0,
    cached_fraction=0.0,
    quantiles_tokens={"p10": 32768.0, "p50": 32768.0, "p90": 32768.0, "p99": 32768.0},
    lengths_tokens=(32768.0,),
    cumulative_fraction=(1.0,),
)
UNPRICED = [item.model_copy(update={"usd_per_hour": None}) for item in (PRFAAS, PD_P, PD_D)]
NO_SPLIT: dict[str, Any] = {
    "threshold_tokens": None,
    "sweep": None,
    "prefill_to_decode": None,
    "classes": (make_class("all", 1.0, None),),
}
CASES = {
    "usual": make_case(),
    "no prices": make_case(
        price_ratios=None,
        plan=make_plan(
            cost=NO_COST,
            pools=tuple(UNPRICED),
            links=(WAN.model_copy(update={"usd_per_hour": None}),),
            baselines=(baseline("homogeneous-pd", 1.56, cost=NO_COST),),
        ),
    ),
    "no threshold": make_case(plan=make_plan(**NO_SPLIT)),
    "one site": make_case(plan=make_plan(**NO_SPLIT, pools=(PD_P, PD_D), links=(), bottlenecks=(), free_routing=None)),
    "one pool": make_case(
        **BARE,
        requests=ONE_LENGTH,
        plan=make_plan(**NO_SPLIT, pools=(PD_D,), links=(), baselines=(), bottlenecks=(), notes=(), free_routing=None),
    ),
    "several classes": make_case(
        plan=make_plan(
            threshold_tokens=None,
            sweep=None,
            latency=LOADED,
            throughput_req_per_s=2.5,
            classes=(make_class("chat", 0.7, 13886.0), make_class("documents", 0.3, 15428.0)),
        )
    ),
    "nothing rented": make_case(
        **BARE,
        plan=make_plan(
            pools=(pool("prfaas", 0, "h200-sxm", "long", 0.0, offered_req_per_s=0.0, utilization=0.0), PD_P, PD_D),
            links=(
                WAN.model_copy(
                    update={"capacity_gbps": 0.0, "n_ports": 0, "port_gbps": None, "mean_gbps": 0.0, "utilization": 0.0}
                ),
            ),
        ),
    ),
    "no waits known": make_case(
        executed=make_executed(
            loads=(
                make_load(0.6, 2.5, 4.2).model_copy(
                    update={
                        name: make_figure(seconds, 2.2).model_copy(update={"predicted": None})
                        for name, seconds in (("ttft_mean_s", 2.5), ("ttft_p90_s", 4.2))
                    }
                ),
            ),
            predicted_ttft=TtftByLoad(loads=(), mean_s=(), p90_s=()),
        )
    ),
    "not scheduled": make_case(executed=make_executed(schedulers=None, scheduler_series=())),
    "least prices": make_case(
        price_ratios=PRICES.model_copy(
            update={"equal_bill_gain": None, "break_even_bill": None, "break_even_cost": None, "stated_ratio": 4.0}
        )
    ),
    "network": make_network(),
    "bare": make_case(**BARE, notes="", inputs=(), sources=(), title=""),
}


@pytest.mark.parametrize("name", CASES)
def test_made_cases_survive_a_round_trip_through_their_records(name: str) -> None:
    case = CASES[name]
    assert Case.model_validate(dict(case)) == case
