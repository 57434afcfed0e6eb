"""Sweeps of every kind without planning them: one real plan, its pools, links, classes and periods replaced."""

from collections.abc import Mapping, Sequence

from planner.comparison import optimize
from planner.results.plan import ClassPlan, LinkPlan, PeriodPlan, Plan, PoolPlan
from planner.results.plan_parts import Latency
from planner.results.plan_sweep import PlanSweep, SweepPoint
from planner.scenario import Scenario
from planner.schema import TomlFile
from tests.builders import SMALL
from tests.cpu_cost import cached

FAILURES = {4: "infeasible: no fleet serves it\nAny one of these would do:", 5: "undecided in 1 s", 3: "a.toml:3: x"}


@cached
def real_plan() -> Plan:
    """The plan of the small scenario."""
    return optimize(TomlFile("small.toml", SMALL).record(Scenario))


def latency(seconds: float | None) -> Latency:
    """Every figure of a latency in proportion to one of them."""
    fields = {name: None if seconds is None else seconds * (i + 1) for i, name in enumerate(Latency.model_fields)}
    return Latency(**fields)


def plan_with(
    pools: Mapping[str, int],
    links: Mapping[str, float] | None = None,
    thresholds: Mapping[str, float | None] | None = None,
    periods: Mapping[str, Mapping[str, Mapping[str, float | None]]] | None = None,
    seconds: float | None = 1.0,
    usd_per_hour: float | None = 10.0,
    **fields: object,
) -> Plan:
    """A plan with these pools by instances, links by Gbps, thresholds by class, and by period, class and site."""
    base = real_plan()
    update: dict[str, object] = {
        "pools": tuple(pool_of(base, name, n) for name, n in pools.items()),
        "links": tuple(link_of(base, name, gbps) for name, gbps in (links or {}).items()),
        "classes": tuple(class_of(base, name, t, seconds) for name, t in (thresholds or {"all": 1000.0}).items()),
        "periods": tuple(period_of(name, at, seconds) for name, at in (periods or {}).items()),
        "latency": latency(seconds),
        "cost": base.cost.model_copy(update={"usd_per_hour": usd_per_hour}),
        "goodput_req_per_s": None,
        **fields,
    }
    return base.model_copy(update=update)


def pool_of(base: Plan, name: str, n: int) -> PoolPlan:
    return base.pools[0].model_copy(update={"name": name, "n_instances": n, "n_accelerators": 8 * n})


def link_of(base: Plan, name: str, gbps: float) -> LinkPlan:
    return base.links[0].model_copy(update={"name": name, "capacity_gbps": gbps})


def class_of(base: Plan, name: str, tokens: float | None, seconds: float | None) -> ClassPlan:
    update = {"name": name, "threshold_tokens": tokens, "latency": latency(seconds)}
    return base.classes[0].model_copy(update=update)


def period_of(name: str, thresholds: Mapping[str, Mapping[str, float | None]], seconds: float | None) -> PeriodPlan:
    return PeriodPlan(
        name=name,
        hours=1.0,
        demand_req_per_s=1.0,
        offload_fraction=0.5,
        thresholds={name: dict(sites) for name, sites in thresholds.items()},
        pools=(),
        links=(),
        latency=latency(seconds),
        use_usd_per_hour=0.0,
    )


def sweep_of(
    plans: Sequence[Plan | int], key: str = "pools.near.n_instances", best: int | None = None, n_points: int = 0
) -> PlanSweep:
    """A sweep over one key; a number in place of a plan is the exit code of a point without one."""
    values = tuple(str(i) for i in range(len(plans)))
    points = tuple(
        SweepPoint(set={key: value}, plan=None, failure=FAILURES[plan], exit_code=plan)
        if isinstance(plan, int)
        else SweepPoint(set={key: value}, plan=plan, failure=None)
        for value, plan in zip(values, plans, strict=True)
    )
    return PlanSweep(
        scenario="small",
        over={key: values},
        points=points,
        n_points=n_points or len(points),
        best=best,
        best_by="least USD/h",
    )
