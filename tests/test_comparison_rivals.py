"""What a plan is held against: fleets that can be had, of every kind stated at home, and a verdict that is proven."""

from itertools import product
from math import ceil, floor
from typing import Any

import numpy as np
import pytest

from planner.comparison import optimize
from planner.comparison.baselines import Compared, baselines
from planner.comparison.one_site import WORTHWHILE
from planner.comparison.verdict import verdict
from planner.optimizer.layout_choice import planning_problem
from planner.results.plan import Baseline, Plan
from planner.scenario import Scenario
from planner.work_clock import work_s
from tests.builders import FAST, HOME, small_with

OTHER = "a100-sxm-80gb"
MIN_COST: dict[str, Any] = {"objective": "min-cost", "demand_req_per_s": 2.0}
PERIODS: dict[str, Any] = {"periods": {"day": {}, "night": {"demand": 0.5}}}
TWO_KINDS: dict[str, Any] = {
    "pools.near.hardware": OTHER,
    f"prices.{OTHER}": {"usd_per_accelerator_hour": 0.6, "basis": "assumed", "source": "a test"},
    "measured.other": {
        "hardware": OTHER,
        "n_accelerators": 8,
        "precision": "bf16",
        "basis": "measured",
        "source": "a test",
        "prefill": {"tokens": [64, 8192, 65536], "seconds": [0.4, 2.0, 19.0], "interpolation": "linear"},
        "decode": {"batch": 10, "step_s": 0.04},
    },
    f"sites.local.accelerators.{HOME}": 400,
    f"sites.local.accelerators.{OTHER}": 400,
}
"""Prefill at home on cheap old chips, decode on new ones."""
ASKED: dict[str, dict[str, Any]] = {
    "rate": {},
    "rate, two kinds": TWO_KINDS,
    "rate, a fixed fleet of two kinds": TWO_KINDS
    | {f"pools.{name}.n_instances": n for name, n in {"fast": 2, "near": 2, "decode": 1}.items()},
    "cost": MIN_COST,
    "cost, two kinds": MIN_COST | TWO_KINDS,
    "cost, little stock": MIN_COST | {f"sites.local.accelerators.{HOME}": 16},
    "cost, few instances": MIN_COST | {"pools.near.max_instances": 1, "pools.decode.max_instances": 2},
    "cost, two periods": MIN_COST | PERIODS | TWO_KINDS,
}


def dearer(scenario: Scenario, factor: float) -> dict[str, Any]:
    """Keys of all prices, so many times as high."""
    keys = {
        f"prices.{name}.usd_per_accelerator_hour": factor * price.hourly_usd for name, price in scenario.prices.items()
    }
    return keys | {"links.wan.usd_per_hour": factor * 20}


@pytest.mark.parametrize("case", sorted(ASKED))
def test_a_verdict_does_not_change_when_all_prices_double(case: str) -> None:
    scenario = small_with(ASKED[case])
    once, twice = optimize(scenario).verdict, optimize(scenario.varied(dearer(scenario, 2.0))).verdict
    assert (once.worth_it, once.decided, once.opponent) == (twice.worth_it, twice.decided, twice.opponent)
    assert once.margin_fraction == pytest.approx(twice.margin_fraction, abs=1e-5)


@pytest.mark.parametrize("case", sorted(ASKED))
def test_the_opponent_never_needs_more_than_the_stock_that_is_stated(case: str) -> None:
    scenario = small_with(ASKED[case])
    plan = optimize(scenario)
    for other in (o for o in plan.baselines if not o.beyond_stock):
        for site, place in scenario.sites.items():
            for kind, n in place.accelerators.items():
                assert sum(p.n_accelerators for p in other.pools if (p.site, p.hardware) == (site, kind)) <= n
    if plan.verdict.opponent is not None:
        assert not plan.baseline(plan.verdict.opponent).beyond_stock
    if case == "cost, few instances":  # three instances of 8 at home, whatever their role
        assert all(o.beyond_stock for o in plan.baselines if o.n_accelerators > 24 and not o.links)


def test_where_stock_alone_makes_it_worth_it_the_verdict_names_what_is_short() -> None:
    scarce = optimize(small_with(MIN_COST | {f"sites.local.accelerators.{HOME}": 16, "links.wan.usd_per_hour": 900}))
    assert scarce.verdict.worth_it
    assert "Stock is what makes it worth it: " in scarce.verdict.because
    assert f"of which 16 can be had by sites.local.accelerators.{HOME}" in scarce.verdict.because


def local_work_s(scenario: Scenario) -> dict[str, tuple[float, float]]:
    """Instance-seconds of prefill and decode of a mean request on both kinds, by hand from curves and lengths."""
    mix = planning_problem(scenario).classes[0].mix
    found = {}
    for name in ("home", "other"):
        measured = scenario.measured[name]
        assert measured.prefill is not None
        assert measured.decode is not None
        lengths = mix.threshold_grid(20_001)
        middle = (lengths[1:] + lengths[:-1]) / 2
        seconds = np.interp(middle, measured.prefill.tokens, measured.prefill.seconds)
        decode = measured.decode.step_s * mix.mean_output_tokens / measured.decode.batch
        found[name] = float(seconds.mean()), decode
    return found


def test_a_fleet_that_mixes_the_kinds_at_home_is_the_best_of_all_that_the_bill_pays_for() -> None:
    """Enumeration of both kinds in both roles, from curves, lengths and prices alone."""
    scenario = small_with(ASKED["rate, a fixed fleet of two kinds"])
    plan = optimize(scenario)
    mixed = plan.baseline("mixed-home")
    assert plan.cost.usd_per_hour is not None
    work = local_work_s(scenario)
    usd, best = {"home": 16.0, "other": 4.8}, 0.0
    most = {name: floor(plan.cost.usd_per_hour / usd[name] + 1e-9) for name in usd}
    for home_d, other_d, home_p in product(range(most["home"] + 1), range(most["other"] + 1), range(most["home"] + 1)):
        left = plan.cost.usd_per_hour - 16.0 * (home_d + home_p) - 4.8 * other_d
        if left < -1e-9:
            continue
        other_p = floor(left / 4.8 + 1e-9)
        prefill = home_p / work["home"][0] + other_p / work["other"][0]
        best = max(best, min(prefill, home_d / work["home"][1] + other_d / work["other"][1]))
    assert mixed.max_throughput_req_per_s == pytest.approx(best, rel=2e-3)
    assert mixed.cost.usd_per_hour is not None
    assert mixed.cost.usd_per_hour <= plan.cost.usd_per_hour * (1 + 1e-9)
    assert plan.verdict.worth_it is (plan.max_throughput_req_per_s > (1 + WORTHWHILE) * best)


def judged(plan: Plan, other: Baseline, gap: float, other_gap: float) -> tuple[bool, bool, float | None]:
    """Worth it, decided and margin of a plan for a demand, by one opponent and both gaps."""
    one = other.model_copy(update={"gap": other_gap, "beyond_stock": ()})
    said = verdict(small_with(MIN_COST), (), plan, gap, Compared((one,), (), frozenset(), frozenset()))
    return said.worth_it, said.decided, said.margin_fraction


@pytest.mark.parametrize("dearer_by", [0.9, 1.005, 1.02, 1.5])
@pytest.mark.parametrize(("gap", "other_gap"), [(0.0, 0.0), (0.03, 0.0), (0.0, 0.03), (0.03, 0.03)])
def test_a_verdict_that_lies_within_the_gaps_is_undecided_and_not_worth_it(
    dearer_by: float, gap: float, other_gap: float
) -> None:
    plan = optimize(small_with(MIN_COST))
    assert any(link.mean_gbps > 0 for link in plan.links)
    base = plan.baseline("cheapest-homogeneous-pd")
    assert plan.cost.usd_per_hour is not None
    theirs = dearer_by * plan.cost.usd_per_hour
    other = base.model_copy(update={"cost": base.cost.model_copy(update={"usd_per_hour": theirs})})
    worth_it, decided, margin = judged(plan, other, gap, other_gap)
    assert margin == pytest.approx(1 - 1 / dearer_by, abs=1e-6)
    ends = [
        1 - ours / least > WORTHWHILE
        for ours, least in product(
            (plan.cost.usd_per_hour, plan.cost.usd_per_hour * (1 - gap)), (theirs, theirs * (1 - other_gap))
        )
    ]
    assert decided is (len(set(ends)) == 1)
    assert worth_it is (decided and all(ends))


def test_an_opponent_that_was_not_found_in_the_time_leaves_a_verdict_open() -> None:
    plan = optimize(small_with(MIN_COST))
    usd = plan.cost.usd_per_hour
    assert usd is not None
    weak = plan.baseline("cheapest-homogeneous-pd")
    weak = weak.model_copy(update={"beyond_stock": (), "cost": weak.cost.model_copy(update={"usd_per_hour": 2 * usd})})
    for unknown, decided in ((frozenset[str](), True), (frozenset({"mixed-home"}), False)):
        said = verdict(small_with(MIN_COST), (), plan, 0.0, Compared((weak,), (), frozenset(), unknown))
        assert (said.worth_it, said.decided) == (decided, decided)
        assert said.margin_fraction == pytest.approx(0.5)


def test_all_baselines_share_one_deadline() -> None:
    scenario = small_with({})
    plan = optimize(scenario)
    found = baselines(planning_problem(scenario), plan, work_s() - 1.0)
    assert found.others == ()
    assert {"homogeneous-pd", "equal-bill-homogeneous-pd", "local-prefill", "colocated"} <= found.unknown
    assert all("in the time" in note for note in found.notes)


def test_the_answer_states_whether_it_is_decided_by_what_margin_and_against_whom() -> None:
    said = optimize(small_with({})).answer()["verdict"]
    assert (said["decided"], said["opponent"]) == (True, "local-colocated")
    assert isinstance(said["margin_fraction"], float)


def test_a_fleet_of_one_kind_that_the_stock_pays_for_is_listed_once() -> None:
    plan = optimize(small_with({}))
    names = [other.name for other in plan.baselines]
    assert len(names) == len(set(names))
    assert (
        ceil(plan.baseline("homogeneous-pd").n_accelerators / 8) * 8 == plan.baseline("homogeneous-pd").n_accelerators
    )
    assert FAST in {pool.hardware for pool in plan.pools}


def test_a_fleet_that_serves_a_stated_demand_is_told_at_it_as_the_plan_is() -> None:
    """Bills per token and waits of two fleets are compared at one rate."""
    plan = optimize(small_with({"demand_req_per_s": 0.4}))
    assert plan.throughput_req_per_s == pytest.approx(0.4)
    able = [other for other in plan.baselines if other.max_throughput_req_per_s > 0.4]
    assert len(able) > 1
    for other in able:
        assert other.throughput_req_per_s == pytest.approx(0.4), other.name
        assert other.latency.ttft_mean_s is not None, other.name
