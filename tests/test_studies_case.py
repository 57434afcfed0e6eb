"""A case: its price ratios against fleets counted by hand, its requests against closed forms, variants that fail."""

import itertools
from math import exp, floor
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from planner.comparison import optimized
from planner.comparison.homogeneous_fleets import homogeneous_fleet, homogeneous_rates
from planner.errors import InputError
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.problem import Problem
from planner.results.case import Case, PriceRatios
from planner.results.plan import Plan
from planner.scenario import load_scenario
from planner.studies.case import build_case, length_profile, service_curve
from planner.studies.price_ratios import price_ratios
from planner.workload.mix import RequestMix
from tests.builders import FAST, GPUS, HOME, SMALL, problem_of, small_with
from tests.cpu_cost import cached


@cached
def planned() -> tuple[Problem, Plan]:
    problem = problem_of()
    return problem, optimized(problem)


@cached
def ratios() -> PriceRatios:
    found = price_ratios(*planned())
    assert found is not None
    return found


@cached
def rates() -> list[float]:
    """Highest rate of homogeneous fleets of 0, 1, 2, ... instances."""
    return homogeneous_rates(homogeneous_fleet(planned()[0]), np.arange(200) * GPUS).tolist()


def gain_by_hand(ratio: float, extra_usd: float = 0.0) -> tuple[int, float]:
    """Whole homogeneous instances that the plan's money buys when a fast chip costs `ratio` others, and the gain."""
    _, plan = planned()
    n_fast = sum(pool.n_accelerators for pool in plan.pools if pool.hardware == FAST)
    n_home = sum(pool.n_accelerators for pool in plan.pools if pool.hardware == HOME)
    n = floor((2.0 * (n_fast * ratio + n_home) + extra_usd) / (2.0 * GPUS) + 1e-9)
    return n, plan.max_throughput_req_per_s / max(rates()[: max(n, 2) + 1]) - 1


def test_the_ratios_stated_are_those_of_the_scenario() -> None:
    assert (ratios().long_hardware, ratios().home_hardware) == (FAST, HOME)
    assert ratios().stated_ratio == pytest.approx(2.0)
    assert ratios().home_usd_per_accelerator_hour == pytest.approx(2.0)
    assert ratios().ratios[0] == 1.2
    assert ratios().ratios[-1] == 3.0


def test_fleets_of_equal_cost_and_their_gains_are_those_counted_by_hand() -> None:
    for i, ratio in enumerate(ratios().ratios):
        n, gain = gain_by_hand(ratio)
        assert ratios().equal_cost_accelerators[i] == GPUS * n
        assert ratios().equal_cost_gain[i] == pytest.approx(gain, rel=1e-9)


def test_the_fleet_for_the_same_bill_also_has_the_money_of_the_link() -> None:
    bills = ratios().equal_bill_gain
    assert bills is not None
    for ratio, bill, cost in zip(ratios().ratios, bills, ratios().equal_cost_gain, strict=True):
        assert bill == pytest.approx(gain_by_hand(ratio, extra_usd=20.0)[1], rel=1e-9)
        assert bill <= cost


def test_a_dearer_fast_chip_never_makes_the_plan_look_better() -> None:
    for gains in (ratios().equal_cost_gain, ratios().equal_bill_gain or ()):
        assert len(gains) == len(ratios().ratios)
        assert all(later <= earlier for earlier, later in itertools.pairwise(gains))


def test_the_gain_at_the_stated_ratio_is_that_of_the_baseline() -> None:
    at = ratios().ratios.index(2.0)
    _, plan = planned()
    assert ratios().equal_cost_gain[at] == pytest.approx(plan.baseline("equal-cost-homogeneous-pd").ratio - 1, rel=1e-6)
    bill = ratios().equal_bill_gain
    assert bill is not None
    assert bill[at] == pytest.approx(plan.baseline("equal-bill-homogeneous-pd").ratio - 1, rel=1e-6)


@pytest.mark.parametrize(("field", "extra_usd"), [("break_even_cost", 0.0), ("break_even_bill", 20.0)])
def test_at_break_even_the_plan_gains_nothing_and_just_below_it_still_does(field: str, extra_usd: float) -> None:
    at = getattr(ratios(), field)
    assert at is not None
    assert gain_by_hand(at, extra_usd)[1] <= 1e-12
    assert gain_by_hand(round(at - 0.01, 2), extra_usd)[1] > 0


def test_break_even_with_the_link_comes_no_later_than_without() -> None:
    assert ratios().break_even_bill is not None
    assert ratios().break_even_cost is not None
    assert ratios().break_even_bill <= ratios().break_even_cost


@pytest.mark.parametrize(
    "changes",
    [
        {"pools.fast.n_instances": 0},
        {"pools.fast.hardware": HOME, "sites.remote.accelerators": {HOME: 24}},
        {"prices": {}},
        {"prices": {HOME: {"usd_per_accelerator_hour": 2, "basis": "assumed", "source": "x"}}},
        {f"prices.{HOME}.usd_per_accelerator_hour": 0.0},
        {f"prices.{HOME}.usd_per_accelerator_hour": 0.4},
    ],
    ids=[
        "no fast chip in use",
        "one kind of chip",
        "no prices",
        "no price of the fast chip",
        "a free chip",
        "ten times",
    ],
)
def test_without_two_priced_kinds_of_chips_there_are_no_ratios(changes: dict[str, object]) -> None:
    problem = problem_of(changes)
    assert price_ratios(problem, optimized(problem)) is None


def test_without_a_link_price_there_is_no_bill() -> None:
    scenario = small_with({"links.wan": {"from": "remote", "to": "local", "capacity_gbps": 100}})
    problem = planning_problem(scenario)
    found = price_ratios(problem, optimized(problem))
    assert found is not None
    assert (found.equal_bill_gain, found.break_even_bill) == (None, None)
    assert found.break_even_cost is not None


def mixes_of(problem: Problem) -> list[tuple[float, RequestMix]]:
    return [(c.share, c.mix) for c in problem.classes]


def test_quantiles_of_a_log_normal_are_those_of_its_closed_form() -> None:
    profile = length_profile(mixes_of(problem_of()))
    low, high = norm.cdf((np.log([128, 65536]) - 9.0) / 1.0)
    for name, value in profile.quantiles_tokens.items():
        q = float(name[1:]) / 100
        assert value == pytest.approx(exp(9.0 + norm.ppf(low + q * (high - low))), rel=2e-3)
    assert set(profile.quantiles_tokens) == {"p10", "p50", "p90", "p99"}
    for tokens, fraction in zip(profile.lengths_tokens, profile.cumulative_fraction, strict=True):
        assert fraction == pytest.approx((norm.cdf(np.log(tokens) - 9.0) - low) / (high - low), abs=1e-3)


def test_quantiles_of_a_few_lengths_are_lengths_that_occur() -> None:
    lengths = {"kind": "empirical", "tokens": [10.0, 20.0, 30.0, 4000.0], "weights": [1.0, 5.0, 3.0, 1.0]}
    profile = length_profile(mixes_of(problem_of({"workload.lengths": lengths})))
    assert profile.quantiles_tokens == {"p10": 10.0, "p50": 20.0, "p90": 30.0, "p99": 4000.0}
    assert profile.mean_total_tokens == pytest.approx(0.1 * 10 + 0.5 * 20 + 0.3 * 30 + 0.1 * 4000)
    assert profile.cumulative_fraction[-1] == pytest.approx(1.0, abs=1e-12)
    assert list(profile.lengths_tokens) == sorted(profile.lengths_tokens)


def test_cached_tokens_are_left_out_of_uncached_lengths() -> None:
    hits = {"kind": "constant", "fraction": 0.25}
    lengths = {"kind": "constant", "tokens": 4000.0}
    profile = length_profile(mixes_of(problem_of({"workload.lengths": lengths, "workload.prefix_hits": hits})))
    assert (profile.mean_total_tokens, profile.mean_uncached_tokens) == pytest.approx((4000, 3000))
    assert profile.cached_fraction == pytest.approx(0.25)
    assert set(profile.quantiles_tokens.values()) == {3000.0}


def test_identical_classes_are_together_what_each_is_alone() -> None:
    ((_, mix),) = mixes_of(problem_of())
    one, two = length_profile([(1.0, mix)]), length_profile([(0.3, mix), (0.7, mix)])
    assert two.mean_total_tokens == pytest.approx(one.mean_total_tokens)
    assert two.quantiles_tokens == pytest.approx(one.quantiles_tokens)


def test_a_service_curve_goes_through_its_measured_points() -> None:
    problem = problem_of()
    pool = problem.pools[0]
    curve = service_curve(problem.scenario, pool.name, pool.name, pool.rates, mixes_of(problem))
    assert (curve.pool, curve.hardware, curve.basis) == ("fast", FAST, "measured")
    assert (curve.measured_tokens, curve.measured_s) == ((64.0, 8192.0, 65536.0), (0.2, 0.8, 6.0))
    assert np.interp(8192, curve.tokens, curve.prefill_s) == pytest.approx(0.8, rel=0.01)
    assert all(a <= b for a, b in zip(curve.prefill_s, curve.prefill_s[1:], strict=False))


VARIANTS = """
[comparisons.more]
title = "more chips"
set = { "sites.local.accelerators.h200-sxm" = 64 }

[comparisons.none]
title = "a budget that buys nothing"
set = { budget_usd_per_hour = 1.0 }

[[claims]]
what = "rate with more chips"
metric = "more.max_throughput_req_per_s / plan.max_throughput_req_per_s"
published = 2.0
source = "nobody"
tolerance = 0.9

[[claims]]
what = "rate for nothing"
metric = "none.max_throughput_req_per_s"
published = 2.0
source = "nobody"
tolerance = 0.9

[[claims]]
what = "rate under the paper's rule"
metric = "mean-length.max_throughput_req_per_s / expected-work.max_throughput_req_per_s"
published = 1.0
source = "nobody"
tolerance = 0.5
"""


@cached
def case() -> Case:
    return build_case(load_scenario(SMALL + VARIANTS, "small.toml", Path()))


def test_a_variant_without_a_plan_says_why_and_stops_nothing() -> None:
    more, none = case().comparisons
    assert (none.name, none.title, none.plan) == ("none", "a budget that buys nothing", None)
    assert none.failure is not None
    assert "infeasible" in none.failure
    assert "budget_usd_per_hour" in none.failure
    assert more.failure is None
    assert more.plan is not None
    assert more.plan.max_throughput_req_per_s > case().plan.max_throughput_req_per_s


def test_claims_reach_variants_and_both_rules_and_are_unknown_where_there_is_no_plan() -> None:
    more, none, rule = case().claims
    assert more.planned is not None
    assert more.planned > 1
    assert (none.planned, none.difference, none.holds) == (None, None, None)
    assert rule.planned is not None
    assert case().other_rule is not None
    assert rule.planned == pytest.approx(
        case().other_rule.max_throughput_req_per_s / case().plan.max_throughput_req_per_s
    )


def test_the_plan_of_the_mean_length_rule_falls_short_of_its_promise() -> None:
    shortfall = case().rule_shortfall
    assert shortfall is not None
    assert 0 <= shortfall < 0.2


def test_a_variant_that_is_no_scenario_is_an_input_error_at_its_line() -> None:
    text = SMALL + '[comparisons.wrong]\ntitle = "x"\nset = { "links.wan.capacity_gbps" = -1 }\n'
    with pytest.raises(InputError) as caught:
        build_case(load_scenario(text, "small.toml", Path()))
    (problem,) = caught.value.problems
    assert problem.line == text.count("\n")
    assert "got -1 (" in str(problem)


def test_everything_that_went_in_is_listed_with_its_basis() -> None:
    listed = {note.what: note.basis for note in case().inputs}
    assert listed[f"prefill of fast, {GPUS} x {FAST}"] == "measured"
    assert listed[f"decode of decode, {GPUS} x {HOME}"] == "measured"
    assert listed[f"price of {FAST}: 4 USD per accelerator-hour"] == "assumed"
    assert len(case().inputs) == len(set(case().inputs)) == 5
