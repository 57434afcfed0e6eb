"""Each line of an explanation of plans made by hand: what it says, where it says something else, and where nothing."""

from typing import Any

import pytest

from planner.report.explained import explanation
from planner.results.plan import Plan, Verdict
from planner.results.plan_parts import CostBand
from tests.test_report_records import (
    COST,
    LOADED,
    NO_COST,
    PD_D,
    PD_P,
    PRFAAS,
    UNLOADED,
    WAN,
    baseline,
    make_class,
    make_period,
    make_plan,
)


def lines(plan: Plan) -> dict[str, str]:
    return {line.topic: line.text for line in explanation(plan).lines}


def used(**busy: float) -> dict[str, Any]:
    """Pools and the link with a use each; those that are not named have nothing to do."""
    pools = tuple(
        p.model_copy(
            update={
                "utilization": busy.get(p.name.replace("-", "_"), 0.0),
                "offered_req_per_s": 1.0 if p.name.replace("-", "_") in busy else 0.0,
            }
        )
        for p in (PRFAAS, PD_P, PD_D)
    )
    wan = WAN.model_copy(update={"utilization": busy.get("wan", 0.0), "mean_gbps": 100 * busy.get("wan", 0.0)})
    return {"pools": pools, "links": (wan,)}


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ({"throughput_req_per_s": 3.19}, "3.19 req/s: the highest rate that this fleet serves."),
        ({"throughput_req_per_s": 3.0}, "The plan is for the demand of 3.00 req/s."),
        ({"throughput_req_per_s": 3.0, "goodput_req_per_s": 3.0}, "the goodput, the highest rate at which the promise"),
        ({"throughput_req_per_s": 2.9, "goodput_req_per_s": 3.0}, "for the demand of 2.90 req/s."),
        ({"throughput_req_per_s": 3.0, "objective": "min-cost"}, "It is the cheapest fleet found for it."),
        ({"throughput_req_per_s": 3.0, "objective": "min-ttft"}, "It has the shortest TTFT found for it."),
    ],
)
def test_the_rate_is_the_goodput_the_highest_or_what_is_asked_for(rates: dict[str, Any], said: str) -> None:
    assert said in lines(make_plan(**rates))["rate"]


def test_the_rate_of_a_day_is_its_mean_beside_the_highest_demand() -> None:
    periods = tuple(
        make_period(name, rate, make_plan()) for name, rate in (("night", 1.0), ("noon", 5.0), ("eve", 2.0))
    )
    said = lines(make_plan(periods=periods, throughput_req_per_s=2.0))["rate"]
    assert "the mean over all periods; the highest demand is 5.00 req/s, in noon" in said


@pytest.mark.parametrize(
    ("busy", "said"),
    [
        (
            {"prfaas": 0.5, "pd_p": 0.75, "wan": 0.6},
            "Nothing is full. The busiest is pd-p with 75.0 %. The first pool ",
        ),
        ({"prfaas": 0.5, "pd_p": 0.75, "wan": 0.6}, "full at 3.19 req/s. Next is wan with 60.0 %."),
        (
            {"prfaas": 1.0, "pd_p": 0.75},
            "prfaas is full, so nothing more can be served at this threshold. Next is pd-p ",
        ),
        ({"prfaas": 1.0, "wan": 1.0, "pd_d": 0.25}, "wan and prfaas are full"),
        ({"prfaas": 1.0, "wan": 1.0, "pd_d": 0.25}, "Next is pd-d with 25.0 %."),
    ],
)
def test_what_is_busiest_comes_before_the_next(busy: dict[str, float], said: str) -> None:
    assert said in lines(make_plan(**used(**busy)))["busiest"]


def test_a_single_busy_pool_has_none_after_it_and_an_idle_fleet_no_line() -> None:
    assert "Next is" not in lines(make_plan(**used(pd_p=0.5)))["busiest"]
    assert "busiest" not in lines(make_plan(**used()))


def test_over_a_day_every_pool_counts_in_its_busiest_period() -> None:
    plan = make_plan()
    night, noon = (make_period(name, 1.0, plan) for name in ("night", "noon"))
    pools = (noon.pools[0].model_copy(update={"utilization": 0.9}), *noon.pools[1:])
    noon = noon.model_copy(update={"pools": pools})
    said = lines(make_plan(periods=(night, noon)))["busiest"]
    assert "Nothing is full. The busiest is prfaas in noon with 90.0 %." in said
    assert "would be full" not in said


@pytest.mark.parametrize(
    ("far", "near", "said"),
    [
        (0.9, 0.6, "prfaas is then 90.0 % busy and pd-p 60.0 %."),
        (0.6, 0.9, "prfaas is then 60.0 % busy and pd-p 90.0 %."),
        (0.9, 0.905, "There prfaas and pd-p are equally busy (90.0 % and 90.5 %)"),
        (0.905, 0.9, "are equally busy"),
    ],
)
def test_a_threshold_divides_prompts_and_loads_two_pools_alike_or_not(far: float, near: float, said: str) -> None:
    found = lines(make_plan(**used(prfaas=far, pd_p=near)))["threshold"]
    assert "more than 19,677 uncached tokens (49.0 % of all) go to prfaas." in found
    assert said in found
    alone = lines(make_plan(**used(prfaas=far)))["threshold"]
    assert "busy" not in alone


def test_of_several_thresholds_the_least_and_the_greatest_are_told() -> None:
    classes = (make_class("chat", 0.5, 8000.0), make_class("code", 0.25, 2000.0), make_class("other", 0.25, None))
    several = lines(make_plan(threshold_tokens=None, classes=classes))["threshold"]
    assert "Thresholds lie between 2,000 and 8,000 uncached tokens" in several
    assert "49.0 % of all prompts are longer." in several
    one = lines(make_plan(threshold_tokens=None, classes=classes[1:]))["threshold"]
    assert "Prompts with more than 2,000 uncached tokens may leave; 49.0 % of all do." in one
    at_night = make_plan(threshold_tokens=None, classes=classes[2:], periods=(make_period("night", 1.0, make_plan()),))
    assert "more than 1,000 uncached tokens may leave" in lines(at_night)["threshold"]
    none = lines(make_plan(threshold_tokens=None, classes=classes[2:]))["threshold"]
    assert none == "There is no threshold: 49.0 % of the prompts are prefilled elsewhere."


def test_the_link_that_is_used_most_carries_a_part_of_its_capacity_or_all() -> None:
    other = WAN.model_copy(update={"name": "lan", "mean_gbps": 10.0, "capacity_gbps": 40.0, "utilization": 0.25})
    half = WAN.model_copy(update={"mean_gbps": 50.0, "utilization": 0.5})
    idle = WAN.model_copy(update={"name": "idle", "mean_gbps": 0.0, "utilization": 0.9})
    quiet = {"classes": (), "baselines": ()}

    def said(*links: Any) -> str | None:
        return lines(make_plan(links=links, **quiet)).get("link")

    assert said(half, other, idle) == (
        "The busiest link, wan, carries 50 of 100 Gbps (50.0 %): it limits nothing on average."
    )
    assert said(half, idle) == "wan carries 50 of 100 Gbps (50.0 %): it limits nothing on average."
    full = WAN.model_copy(update={"mean_gbps": 100.0, "utilization": 1.0})
    assert said(full) == "wan carries 100 of 100 Gbps (100.0 %): that is all it has."
    assert said(idle) is None


def test_ttft_is_told_under_load_and_without_or_why_it_is_unknown() -> None:
    assert lines(make_plan(latency=LOADED))["TTFT"] == (
        "TTFT is 2.60 s on average and 4.40 s at P90. Without waiting the mean would be 2.20 s."
    )
    full = lines(make_plan(latency=UNLOADED))["TTFT"]
    assert "Under load it is unknown, because the queue at prfaas and pd-p would only grow." in full
    half = lines(make_plan(latency=UNLOADED, **used(prfaas=0.5)))["TTFT"]
    assert "because this dispatch has no model of waits." in half
    unknown = UNLOADED.model_copy(update={"ttft_unloaded_mean_s": None})
    assert "TTFT" not in lines(make_plan(latency=unknown))


def promised(name: str, ttft_s: float, percentile: float = 90.0) -> Any:
    slo = {"ttft_s": ttft_s, "ttft_percentile": percentile}
    return make_class(name, 0.5, 1000.0).model_copy(update={"slo": slo})


def test_of_several_promises_that_with_the_least_room_is_told() -> None:
    """4.4 s are predicted at P90 and 7.2 s at P99; of P95 nothing is known, which leaves all of the room."""
    two = make_plan(classes=(promised("chat", 8.0), promised("code", 9.0, 99.0), promised("other", 1.0, 95.0)))
    assert lines(two)["promise"] == (
        "The promise, nearest to it for code: 99 % of the first tokens within 9.00 s; 7.20 s is predicted."
    )
    one = make_plan(classes=(promised("chat", 8.0),), goodput_req_per_s=2.5, latency=LOADED)
    assert lines(one)["promise"] == (
        "The promise: 90 % of the first tokens within 8.00 s; 4.40 s is predicted. The promise costs rate: it holds up "
        "to 2.50 req/s, and without it 3.19 req/s could be served."
    )
    unknown = make_plan(classes=(promised("other", 1.0, 95.0),))
    assert lines(unknown)["promise"] == "The promise: 95 % of the first tokens within 1.00 s."
    day = make_plan(classes=(promised("chat", 8.0),), periods=(make_period("night", 1.0, make_plan()),))
    assert "4.40 s is predicted over all periods" in lines(day)["promise"]
    assert lines(make_plan())["promise"] == "No TTFT is promised, so only capacity limits the plan."
    assert "promise" not in lines(make_plan(objective="min-ttft"))


def test_the_bill_names_its_dearest_part_or_what_has_no_price() -> None:
    assert lines(make_plan())["cost"] == (
        "It costs 182.50 USD/h, 0.578 USD per million input tokens. The dearest part is prfaas with 80.00 USD/h."
    )
    dear = WAN.model_copy(update={"usd_per_hour": 90.0})
    assert "The dearest part is wan with 90.00 USD/h" in lines(make_plan(links=(dear,)))["cost"]
    free = tuple(p.model_copy(update={"usd_per_hour": None}) for p in (PRFAAS, PD_P, PD_D))
    link = WAN.model_copy(update={"usd_per_hour": 0.0})
    plain = COST.model_copy(update={"usd_per_million_input_tokens": None})
    assert lines(make_plan(pools=free, links=(link,), cost=plain))["cost"] == "It costs 182.50 USD/h."
    missing = NO_COST.model_copy(update={"missing_prices": ("prices.a", "prices.b")})
    assert "these prices are missing: prices.a and prices.b." in lines(make_plan(cost=missing))["cost"]


def fleet(name: str, usd: float | None, rate: float, **changes: Any) -> Any:
    cost = COST.model_copy(update={"usd_per_hour": usd})
    stated = {"cost": cost, "max_throughput_req_per_s": rate, "goodput_req_per_s": None, **changes}
    return baseline(name, 1.5).model_copy(update=stated)


def test_the_strongest_other_fleet_is_that_of_the_verdict_else_the_best_of_those_that_do_it() -> None:
    others = (
        fleet("dear", 90.0, 5.0),
        fleet("cheap", 50.0, 2.0),
        fleet("as-cheap", 50.0, 3.0, goodput_req_per_s=2.5),
        fleet("able", 60.0, 3.5),
        fleet("unpriced", None, 4.0),
        fleet("beyond", 10.0, 9.0, beyond_stock=("90 of h200-sxm",)),
    )
    said = lines(make_plan(baselines=others))["other fleets"]
    assert said == "The strongest other fleet, dear, serves 5.00 req/s at most and costs 90.00 USD/h."
    said = lines(make_plan(baselines=others, objective="min-cost"))["other fleets"]
    assert said == "The strongest other fleet, able, serves 3.50 req/s at most and costs 60.00 USD/h."
    verdict = Verdict(worth_it=True, because="of it", opponent="unpriced", margin_fraction=0.25)
    said = lines(make_plan(baselines=others, verdict=verdict))["other fleets"]
    assert said.startswith("The strongest other fleet, unpriced, serves 4.00 req/s at most; the plan gains +25.0 %")
    assert "other fleets" not in lines(make_plan(baselines=()))


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ("max-throughput", "can have more than 3.19 req/s."),
        ("min-cost", "can have less than 3.19 USD/h."),
        ("min-ttft", "can have less than 3.19 s."),
    ],
)
def test_the_gap_says_on_which_side_of_the_bound_no_plan_is(objective: str, said: str) -> None:
    assert said in lines(make_plan(objective=objective))["gap"]


def test_what_times_rest_on_is_told_of_pools_in_use_with_the_band_of_their_cost() -> None:
    band = CostBand.model_construct(low_usd_per_hour=150.0, high_usd_per_hour=210.0)
    assert lines(make_plan())["basis"] == "Service times are measured for prfaas; inferred for pd-p and pd-d."
    idle = PRFAAS.model_copy(update={"n_instances": 0})
    assert lines(make_plan(pools=(idle, PD_P, PD_D)))["basis"] == "Service times are inferred for pd-p and pd-d."
    many = tuple(PD_P.model_copy(update={"name": f"p{i}"}) for i in range(5))
    assert lines(make_plan(pools=many))["basis"] == "Service times are inferred for p0 and 4 more pools."
    four = lines(make_plan(pools=many[:4]))["basis"]
    assert four == "Service times are inferred for p0, p1, p2 and p3."
    said = lines(make_plan(cost_band=band))["basis"]
    assert "Over the 90 % band of their error the best plan costs 150.00 to 210.00 USD/h." in said
