"""Every plan as it is run: laws of streams, periods, pools made of one and requests that are decoded elsewhere."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from planner.errors import InputError
from planner.executor.draws import Draws, drawn_requests, to_streams
from planner.executor.periods import simulate_periods
from planner.executor.run import simulate
from planner.executor.run_question import RunQuestion
from planner.executor.systems import system
from planner.results.plan import LinkPlan, PeriodLink, PeriodPlan, PeriodPool, Plan, PoolPlan
from planner.results.run import Run
from planner.results.threshold import ALL_LEAVE, NONE_LEAVES, Threshold
from planner.scenario import Scenario
from tests.builders import BOTH_WAYS, GPUS, HOME, in_classes, sketch, small, small_with
from tests.cpu_cost import cached

LENGTHS = {"kind": "lognormal", "mu": 9.0, "sigma": 1.0, "low_tokens": 128, "high_tokens": 65_536}
WORKLOAD = {"lengths": LENGTHS, "output_lengths": {"kind": "constant", "tokens": 500}}
QUESTION = RunQuestion(20_000, 1, 0.7)


@cached
def one_demand() -> Plan:
    return sketch(small())


def as_period(plan: Plan, of_classes: Mapping[str, Mapping[str, float]], name: str = "all") -> PeriodPlan:
    """What a plan of one demand states, as its only period; rates by class and site."""
    tokens = plan.threshold_tokens
    return PeriodPlan(
        name=name,
        hours=24.0,
        demand_req_per_s=plan.throughput_req_per_s,
        offload_fraction=plan.offload_fraction,
        thresholds={c: dict.fromkeys(at, tokens) for c, at in of_classes.items()},
        decoded_req_per_s={c: dict(at) for c, at in of_classes.items()},
        pools=tuple(_pool(pool) for pool in plan.pools),
        links=tuple(_link(link) for link in plan.links),
        latency=plan.latency,
        use_usd_per_hour=0.0,
    )


def _pool(pool: PoolPlan) -> PeriodPool:
    return PeriodPool(
        name=pool.name,
        n_instances=pool.n_instances,
        offered_req_per_s=pool.offered_req_per_s,
        utilization=pool.utilization,
    )


def _link(link: LinkPlan) -> PeriodLink:
    return PeriodLink(name=link.name, mean_gbps=link.mean_gbps, utilization=link.utilization)


def with_periods(plan: Plan, *periods: PeriodPlan) -> Plan:
    return plan.model_copy(update={"periods": periods})


def figures(run: Run) -> dict[str, Any]:
    return {key: value for key, value in run.model_dump().items() if key != "period"}


def test_a_plan_of_one_period_runs_as_the_same_plan_of_one_demand() -> None:
    plan = one_demand()
    rate = plan.throughput_req_per_s
    again = with_periods(plan, as_period(plan, {"all": {"local": rate}}))
    single, _ = simulate(small(), plan, QUESTION)
    run, _ = simulate(small(), again, QUESTION)
    assert (single.period, run.period) == (None, "all")
    assert figures(run) == figures(single)


def test_what_each_pool_takes_may_be_said_or_follow_from_the_pools_rates() -> None:
    plan = one_demand()
    period = as_period(plan, {"all": {"local": plan.throughput_req_per_s}})
    shares = {"long": {"fast": 1.0}, "short": {"near": 1.0}, "decode": {"decode": 1.0}}
    said = period.model_copy(update={"pool_shares": {"all": {"local": shares}}})
    runs = [simulate(small(), with_periods(plan, one), QUESTION)[0] for one in (period, said)]
    assert figures(runs[0]) == figures(runs[1])


def test_a_class_in_two_halves_runs_as_the_whole() -> None:
    halves = in_classes({"one": (0.5, WORKLOAD), "other": (0.5, WORKLOAD)}, {})
    plan = one_demand()
    rate = plan.throughput_req_per_s
    both = with_periods(plan, as_period(plan, {"one": {"local": rate / 2}, "other": {"local": rate / 2}}))
    asked = RunQuestion(60_000, 5, 0.7, 6)
    split, whole = simulate(halves, both, asked)[0], simulate(small(), plan, RunQuestion(60_000, 6, 0.7, 6))[0]
    for name in ("ttft_mean_s", "ttft_p90_s", "throughput_req_per_s", "offload_fraction"):
        one, other = split.intervals[name], whole.intervals[name]
        half = (one.high - one.low + other.high - other.low) / 2
        assert abs(getattr(split, name) - getattr(whole, name)) <= 1.5 * half, name
    assert sum(c.n_counted for c in split.classes) == split.n_counted
    assert split.classes[0].n_counted == pytest.approx(split.n_counted / 2, rel=0.03)


@cached
def both_sites() -> tuple[Scenario, Plan]:
    """A class that arrives anywhere, and one that arrives at both sites; both sites decode."""
    classes = {
        "anywhere": {"share": 0.6, "workload": WORKLOAD},
        "homes": {"share": 0.4, "sites": {"local": 0.75, "remote": 0.25}, "workload": WORKLOAD},
    }
    changes = {
        **BOTH_WAYS,
        "workload": None,
        "classes": classes,
        "objective": "min-cost",
        "demand_req_per_s": 8.0,
        "pools.far-near.site": "remote",
        "pools.far-near.hardware": HOME,
        "pools.far-near.role": "prefill",
        "pools.decode.n_instances": 3,  # either is too small for all that arrives anywhere
        "pools.far.n_instances": 3,
        f"sites.local.accelerators.{HOME}": 40 * GPUS,
    }
    scenario = small_with(changes)
    return scenario, sketch(scenario, (), 5.0)


def test_a_plan_that_decodes_a_class_at_several_sites_says_how_much_of_it_where() -> None:
    scenario, plan = both_sites()
    (period,) = plan.periods
    rates = period.decoded_req_per_s
    assert rates["homes"] == pytest.approx({"local": 8 * 0.4 * 0.75, "remote": 8 * 0.4 * 0.25})
    assert sum(rates["anywhere"].values()) == pytest.approx(8 * 0.6)
    assert min(rates["anywhere"].values()) > 0
    assert sum(sum(at.values()) for at in rates.values()) == pytest.approx(period.demand_req_per_s)
    found = system(scenario, plan)
    assert {(s.request_class, s.site): s.req_per_s for s in found.streams} == {
        (name, site): rate for name, at in rates.items() for site, rate in at.items() if rate > 0
    }


def test_every_stream_is_decoded_where_the_plan_says_and_none_of_it_is_lost() -> None:
    scenario, plan = both_sites()
    run, kept = simulate(scenario, plan, RunQuestion(30_000, 2, 1.0, 1), keep=True)
    assert kept is not None
    assert run.n_completed == 30_000
    rates = plan.periods[0].decoded_req_per_s
    site_of = {pool.name: pool.site for pool in plan.pools}
    sites = np.array([site_of[name] for name in kept.words["decode_pool"]])[kept.columns["decode_pool"]]
    classes = np.array(kept.words["request_class"])[kept.columns["request_class"]]
    for name, at in rates.items():
        for site, rate in at.items():
            n, expected = int(((classes == name) & (sites == site)).sum()), 30_000 * rate / 8
            assert abs(n - expected) <= 4 * expected**0.5 + 1e-9, (name, site)
    for of in run.classes:
        assert sum(site.n_counted for site in of.sites) == (of.n_counted if of.sites else 0)
    assert run.utilization == pytest.approx({p.name: p.utilization for p in plan.pools}, rel=0.06, abs=0.01)


def test_requests_that_the_plan_moves_are_decoded_where_it_moves_them() -> None:
    """As after the loss of a site: all of a class that arrives at both is decoded at one."""
    scenario, plan = both_sites()
    (period,) = plan.periods
    local = {name: sum(at.values()) for name, at in period.decoded_req_per_s.items()}
    rates = {name: {"local": rate} for name, rate in local.items()}
    thresholds = {name: {"local": 4096.0} for name in local}
    moved = period.model_copy(update={"decoded_req_per_s": rates, "thresholds": thresholds, "pool_shares": {}})
    _, kept = simulate(scenario, with_periods(plan, moved), RunQuestion(4_000, 2, 0.3, 1), keep=True)
    assert kept is not None
    used = {kept.words["decode_pool"][d] for d in np.unique(kept.columns["decode_pool"])}
    assert used == {"decode"}


def test_a_plan_that_does_not_say_where_its_requests_are_decoded_is_asked_for_it() -> None:
    scenario, plan = both_sites()
    thresholds = {name: {"local": None, "remote": None} for name in ("anywhere", "homes")}
    silent = plan.periods[0].model_copy(update={"decoded_req_per_s": {}, "thresholds": thresholds})
    with pytest.raises(InputError, match=r"anywhere.*is decoded at local and remote") as caught:
        simulate(scenario, with_periods(plan, silent), QUESTION)
    assert len(caught.value.problems) == 1


def test_rates_that_a_plan_does_not_state_are_those_of_the_arrivals() -> None:
    scenario, plan = both_sites()
    shares = {"anywhere": {"local": 4.8}, "homes": {"local": 2.4, "remote": 0.8}}
    thresholds = {name: dict.fromkeys(at, 4096.0) for name, at in shares.items()}
    silent = plan.periods[0].model_copy(update={"decoded_req_per_s": {}, "thresholds": thresholds, "pool_shares": {}})
    found = system(scenario, with_periods(plan, silent))
    assert {(s.request_class, s.site): s.req_per_s for s in found.streams} == pytest.approx(
        {(name, site): rate for name, at in shares.items() for site, rate in at.items()}
    )


def test_sharing_a_class_out_among_sites_moves_no_other_draw() -> None:
    scenario, plan = both_sites()
    found = system(scenario, plan)
    whole = drawn_requests(scenario, 5_000, 8.0, Draws(3), (), found.class_rates)
    shared = whole.copy()
    to_streams(shared, found.streams, tuple(scenario.workloads), Draws(3))
    for field in ("arrival_s", "total_tokens", "cached_tokens", "output_tokens", "draw"):
        assert np.array_equal(whole[field], shared[field])
    names = np.array([stream.request_class for stream in found.streams])[shared["request_class"]]
    assert np.array_equal(names, np.array(list(scenario.workloads))[whole["request_class"]])


LAYOUTS = ["tp=8", "tp=4,dp=2"]


@cached
def laid_out() -> tuple[Scenario, Plan]:
    """A decode pool that may choose its layout, run on the roofline, in a network: each layout is a pool of its own."""
    changes = {
        "periods": {"always": {}, "too": {"demand": 0.5}},
        "pools.decode.service_times": "roofline",
        "pools.decode.tpot_ms": 30.0,
        "pools.decode.layouts": LAYOUTS,
        "pools.decode.accelerators_per_instance": 8,
        f"sites.local.accelerators.{HOME}": 80,
        "objective": "min-cost",
        "demand_req_per_s": 6.0,
    }
    scenario = small_with(changes)
    return scenario, sketch(scenario, (), 30.0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pools_that_were_made_of_one_have_the_times_of_their_layout(layout: str) -> None:
    scenario, plan = laid_out()
    pool = next(p for p in plan.pools if p.role == "decode")
    assert (pool.key, pool.marks) == ("decode", (pool.name.removeprefix("decode "),))
    renamed = pool.model_copy(update={"name": f"decode {layout}", "layout": layout})
    period = plan.periods[0]
    pools = tuple(renamed if p.name == pool.name else p for p in plan.pools)
    in_period = tuple(p.model_copy(update={"name": renamed.name}) if p.name == pool.name else p for p in period.pools)
    period = period.model_copy(update={"pools": in_period, "pool_shares": {}})
    found = system(scenario, plan.model_copy(update={"pools": pools, "periods": (period,)}))
    stated = scenario.varied({"pools.decode.layouts": [], "pools.decode.layout": layout})
    plain = tuple(p.model_copy(update={"name": p.key}) for p in pools)
    alone = period.model_copy(
        update={"pools": tuple(p.model_copy(update={"name": p.name.split(" ")[0]}) for p in period.pools)}
    )
    expected = system(stated, plan.model_copy(update={"pools": plain, "periods": (alone,)}))
    (times,), (wanted,) = found.decode_times, expected.decode_times
    assert times.batch_limit == wanted.batch_limit
    assert np.array_equal(times.step_s, wanted.step_s)
    assert times.memory_bytes == wanted.memory_bytes


def test_a_plan_with_a_chosen_layout_is_run_and_its_pools_keep_their_names() -> None:
    scenario, plan = laid_out()
    run, _ = simulate(scenario, plan, RunQuestion(4_000, 1, 0.7, 2), period="always")
    assert {pool.name for pool in plan.pools if pool.n_instances} == set(run.pools)


def test_a_crash_of_a_pool_that_the_plan_has_made_several_of_hits_one_of_its_instances() -> None:
    (scenario, plan), asked = laid_out(), RunQuestion(2_000, 1, 0.1, 1)
    n = sum(pool.n_instances for pool in plan.pools if pool.key == "decode")
    for index in (0, n - 1):
        fault = {"kind": "crash", "pool": "decode", "instance": index, "at_s": 1.0}
        run, _ = simulate(scenario.varied({"execution.faults": [fault]}), plan, asked, period="always")
        assert run.n_completed + run.n_dropped == 2_000
    fault = {"kind": "crash", "pool": "decode", "instance": n, "at_s": 1.0}
    with pytest.raises(InputError, match=f"no instance {n} of 'decode'"):
        simulate(scenario.varied({"execution.faults": [fault]}), plan, asked, period="always")


@pytest.mark.parametrize(("stated", "kind", "limit"), [(None, "none-leaves", np.inf), (0.0, "all-leave", -1.0)])
def test_a_threshold_is_one_thing_in_the_plan_and_in_the_run(stated: float | None, kind: str, limit: float) -> None:
    found = Threshold.of_plan(stated)
    assert found.kind == kind
    assert found.in_plan == stated
    assert found.limit_tokens == limit
    assert Threshold.of_plan(found.in_plan) == found


@pytest.mark.parametrize("tokens", [1.0, 512.0, 19_430.4])
def test_a_threshold_of_tokens_goes_into_a_plan_and_comes_back(tokens: float) -> None:
    found = Threshold.of_plan(tokens)
    assert (found.kind, found.in_plan, found.limit_tokens) == ("tokens", tokens, tokens)


def test_a_threshold_without_its_tokens_is_none() -> None:
    with pytest.raises(ValueError, match="threshold of kind tokens"):
        Threshold("tokens")
    with pytest.raises(ValueError, match="threshold of kind all-leave"):
        Threshold("all-leave", 3.0)


@pytest.mark.parametrize(("threshold", "offloaded"), [(None, 0.0), (0.0, 1.0)])
def test_where_none_leaves_nothing_crosses_and_where_all_leave_everything_does(
    threshold: float | None, offloaded: float
) -> None:
    plan = one_demand()
    period = as_period(plan, {"all": {"local": plan.throughput_req_per_s}})
    period = period.model_copy(update={"thresholds": {"all": {"local": threshold}}})
    run, _ = simulate(small(), with_periods(plan, period), RunQuestion(4_000, 1, 0.3, 1))
    assert run.offload_fraction == offloaded
    assert (run.cross_site_bytes > 0) == (offloaded > 0)


@pytest.mark.parametrize(("gone", "expected"), [("fast", NONE_LEAVES), ("near", ALL_LEAVE)])
def test_a_threshold_decides_nothing_where_prompts_have_one_way(gone: str, expected: Threshold) -> None:
    plan = one_demand()
    pools = tuple(p.model_copy(update={"n_instances": 0}) if p.name == gone else p for p in plan.pools)
    (stream,) = system(small(), plan.model_copy(update={"pools": pools})).streams
    assert stream.threshold == expected


def test_a_class_without_requests_in_a_period_is_not_asked_for() -> None:
    halves = in_classes({"one": (0.5, WORKLOAD), "other": (0.5, WORKLOAD)}, {})
    plan = one_demand()
    rate = plan.throughput_req_per_s
    period = as_period(plan, {"one": {"local": rate}, "other": {"local": 0.0}})
    run, _ = simulate(halves, with_periods(plan, period), RunQuestion(4_000, 1, 0.5, 1))
    assert [c.name for c in run.classes] == ["one"]
    other = as_period(plan, {"other": {"local": rate}}, "evening")
    both = simulate_periods(halves, with_periods(plan, period, other), RunQuestion(4_000, 1, 0.5, 1))
    assert [c.name for c in both.classes] == ["one", "other"]
    assert [c.n_counted for c in both.classes] == [run.n_counted, both.n_counted - run.n_counted]


@pytest.mark.parametrize(
    ("thresholds", "rates", "said"),
    [
        ({"chat": {"local": 1.0}}, {"chat": {"local": 1.0}}, "class 'chat' is not the scenario's"),
        ({"all": {}}, {"all": {"local": 1.0}}, "has no threshold for 'local'"),
        ({"all": {"moon": 1.0}}, {"all": {"moon": 1.0}}, "no way for it from prefill to decode"),
    ],
)
def test_a_period_of_another_scenario_is_said_to_be_one(thresholds: Any, rates: Any, said: str) -> None:
    plan = one_demand()
    period = as_period(plan, {"all": {"local": 1.0}})
    foreign = period.model_copy(update={"thresholds": thresholds, "decoded_req_per_s": rates})
    with pytest.raises(InputError, match=said) as caught:
        simulate(small(), with_periods(plan, foreign), QUESTION)
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("of_period", "said"),
    [
        ({"pools": ()}, "has other pools in the plan's 'all'"),
        ({"links": ()}, "has other links in the plan's 'all'"),
        ({"decoded_req_per_s": {"all": {"local": 0.0}}}, "has no requests in 'all'"),
        ({"hours": 0.0}, "have no demand in any hour"),
        ({"demand_req_per_s": 0.0}, "no demand"),
    ],
)
def test_a_plan_that_somebody_has_edited_is_refused_in_one_message(of_period: dict[str, Any], said: str) -> None:
    plan = one_demand()
    period = as_period(plan, {"all": {"local": 1.0}}).model_copy(update=of_period)
    with pytest.raises(InputError, match=said) as caught:
        simulate_periods(small(), with_periods(plan, period, period), RunQuestion(1_000, 1, 0.5, 1))
    assert len(caught.value.problems) == 1
