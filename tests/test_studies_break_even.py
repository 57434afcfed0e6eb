"""Break-evens against closed forms: where a bill crosses another, where a plan ends, and where nothing turns."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.report import phrases
from planner.results.case import BreakEvenResult
from planner.scenario import Scenario, read_scenario
from planner.studies.break_even import COARSE_PRECISION, PRECISION, Planner, break_even, break_evens, not_varied, steps
from tests.builders import FAST, HOME, small_with

RENT = f"prices.{FAST}.usd_per_accelerator_hour"
FLEETS: dict[str, Any] = {
    "objective": "min-cost",
    "demand_req_per_s": 0.05,
    "workload.lengths": {"kind": "constant", "tokens": 8192},
    "pools.fast.n_instances": 1,
    "pools.near.n_instances": 0,
    "pools.decode.n_instances": 1,
    "comparisons.near": {
        "title": "prefill at home",
        "set": {"pools.fast.n_instances": 0, "pools.near.n_instances": 1, "links.wan.usd_per_hour": 0.0},
    },
}
"""One instance each for prefill and decode: 8 fast and 8 home accelerators and a line, or 16 home accelerators."""


def asked(changes: dict[str, Any] | None = None, **span: Any) -> Scenario:
    usual = {"key": RENT, "title": "rent", "low": 0.1, "high": 20.0, "decides": "near"}
    return small_with({**FLEETS, **(changes or {}), "break_even": [{**usual, **span}]})


def only(scenario: Scenario) -> BreakEvenResult:
    (found,) = break_evens(scenario)
    return found


@settings(max_examples=5, deadline=None)
@given(line=st.floats(0.0, 12.0), home=st.floats(1.9, 4.0))
def test_rent_turns_where_the_bills_are_equal(line: float, home: float) -> None:
    changes = {"links.wan.usd_per_hour": line, f"prices.{HOME}.usd_per_accelerator_hour": home}
    found = only(asked(changes))
    # 8 p + 8 h + line = 16 h
    even = home - line / 8
    assert found.stated == 4.0
    assert found.decision is (even > 4.0)
    turn = found.above if even > 4.0 else found.below
    assert turn is not None
    assert turn.value == pytest.approx(even, rel=1.01 * PRECISION)
    assert turn.decision is not found.decision
    assert (found.below is None) is (even > 4.0)


def test_nothing_turns_outside_the_span() -> None:
    found = only(asked(low=3.5, high=6.0))
    assert (found.decision, found.below, found.above) == (False, None, None)


def test_a_span_may_begin_at_zero() -> None:
    found = only(asked({"links.wan.usd_per_hour": 15.0}, low=0.0))
    assert found.below is not None
    assert found.below.value == pytest.approx(2.0 - 15 / 8, abs=PRECISION * 4)


def test_a_value_without_a_plan_is_a_turn_of_its_own() -> None:
    # The measured decode step is 25 ms, and no other was measured.
    found = only(asked({"slo.tpot_ms": 40.0}, key="slo.tpot_ms", low=10.0, high=80.0))
    assert found.decision is False
    assert found.above is None
    assert found.below is not None
    assert found.below.decision is None
    assert found.below.value == pytest.approx(25.0, rel=PRECISION)


def test_the_verdict_is_looked_at_where_no_comparison_is_named() -> None:
    changes = {f"sites.remote.accelerators.{FAST}": 400, f"sites.local.accelerators.{HOME}": 800}
    changes |= {"demand_req_per_s": 10.0, "pools.fast.n_instances": "free", "pools.near.n_instances": "free"}
    lengths = {"kind": "empirical", "tokens": [round(128 * 2 ** (i / 1.5)) for i in range(1, 14)]}
    changes |= {"pools.decode.n_instances": "free", "workload.lengths": lengths}
    found = only(asked(changes, decides="verdict"))
    turns = [turn for turn in (found.below, found.above) if turn is not None]
    assert turns
    for turn in turns:
        inside, outside = (turn.value * (1 - sign * 2 * PRECISION) for sign in (1, -1))
        if turn.value < found.stated:
            inside, outside = outside, inside
        planner = Planner((), 60.0)
        scenario = asked(changes, decides="verdict")
        assert planner.is_worth_it(scenario.varied({RENT: inside})) is found.decision
        assert planner.is_worth_it(scenario.varied({RENT: outside})) is turn.decision


def test_a_fleet_is_planned_once() -> None:
    scenario = asked()
    planner = Planner((), 60.0)
    break_even(scenario, scenario.break_even[0], planner)
    fleets = len(planner.known)
    break_even(scenario, scenario.break_even[0], planner)
    assert len(planner.known) == fleets
    # The line is no part of the fleet at home, which is not planned again when its rent changes.
    dearer = scenario.varied({"links.wan.usd_per_hour": 70.0})
    assert planner.fleet(dearer.compared("near")) is planner.fleet(scenario.compared("near"))
    assert planner.fleet(dearer) is not planner.fleet(scenario)


DAY: dict[str, Any] = {
    "objective": "min-cost",
    "demand_req_per_s": 10.0,
    "workload.lengths": {"kind": "constant", "tokens": 8192},
    f"sites.remote.accelerators.{FAST}": 320,
    f"sites.local.accelerators.{HOME}": 480,
    "links.wan.capacity_gbps": 2000,
    "periods": {"day": {"hours": 16.0}, "night": {"hours": 8.0, "demand": 0.25}},
    "comparisons.near": {"title": "prefill at home", "set": {"pools.fast.n_instances": 0}},
}
"""8 fast instances, 7 that decode and a line, or 16 that prefill at home and the same 7; or 16 at home that do both, if
prefill and decode overlap perfectly in one batch."""


@pytest.mark.parametrize(
    ("decides", "even"),
    [
        ("near", (16 * 16 - 20) / 64),
        ("verdict", (0.99 * 16 * 16 - 20 - 7 * 16) / 64),  # a saving of one per cent does not count
    ],
)
def test_a_network_turns_where_its_bills_are_equal_and_planning_on_both_sides_says_so(
    decides: str, even: float
) -> None:
    scenario = small_with(
        {**DAY, "break_even": [{"key": RENT, "title": "rent", "low": 1.5, "high": 5.0, "decides": decides}]}
    )
    found = only(scenario)
    assert (found.stated, found.decision, found.above, found.is_found) == (4.0, False, None, True)
    assert found.below is not None
    assert found.below.value == pytest.approx(even, rel=COARSE_PRECISION)
    assert found.below.decision is True
    planner = Planner((), 60.0)
    for value, wanted in ((even * 1.01, False), (even * 0.99, True)):
        there = scenario.varied({RENT: value})
        if decides == "verdict":
            assert planner.is_worth_it(there) is wanted
        else:
            ours, theirs = (planner.fleet(s) for s in (there, there.compared("near")))
            assert ours is not None
            assert theirs is not None
            assert ours.cost.usd_per_hour is not None
            assert theirs.cost.usd_per_hour is not None
            assert (ours.cost.usd_per_hour < theirs.cost.usd_per_hour) is wanted


def test_a_network_that_is_not_planned_in_time_has_no_break_even_and_says_so() -> None:
    scenario = small_with({**DAY, "break_even": [{"key": RENT, "title": "rent", "low": 1.0, "high": 9.0}]})
    (found,) = break_evens(scenario, (), -1.0)
    assert (found.is_found, found.decision, found.below, found.above) == (False, None, None, None)
    assert phrases.turns(found) == "not found in the time"
    assert found.stated == 4.0


def test_a_value_at_which_a_network_has_no_plan_is_a_turn() -> None:
    entry = {"key": "demand_req_per_s", "title": "demand", "low": 5.0, "high": 50.0, "decides": "near"}
    found = only(small_with({**DAY, "pools.near.max_instances": 20, "break_even": [entry]}))
    assert found.above is not None
    assert found.above.value > found.stated
    assert found.gap <= 0.01


def test_a_bound_that_the_key_cannot_have_is_told() -> None:
    scenario = asked({"sites.local.pue": 1.2}, key="sites.local.pue", low=0.5, high=2.0)
    with pytest.raises(InputError, match=r"break_even\[0\]\.low: 0\.5 is no value of sites\.local\.pue \(should be g"):
        break_evens(scenario)


def test_steps_reach_both_ends() -> None:
    assert steps(2.0, 32.0) == (2.0, 4.0, 8.0, 16.0, 32.0)
    assert steps(2.0, 0.0) == (2.0, 1.5, 1.0, 0.5, 0.0)


def test_assumptions_that_nobody_varies_are_named() -> None:
    assert not_varied(asked()) == (f"prices.{HOME}", "links.wan")
    assert not_varied(small_with(FLEETS)) == ()


@pytest.mark.parametrize("name", ["rubin-groq", "ascend-h20"])
def test_the_reports_on_announced_and_domestic_chips_vary_every_assumption(name: str) -> None:
    assert not_varied(read_scenario(name)) == ()
