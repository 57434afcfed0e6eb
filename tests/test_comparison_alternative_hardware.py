"""Other ways to run pools: which there are, what they are called, and what they are reckoned to cost."""

from math import ceil
from typing import Any

import pytest

from planner.comparison.alternative_hardware import (
    BEST_OF_EACH,
    MOST_KINDS,
    _choice,
    _choices,
    _other_kinds,
    _others,
    _sizes,
    _slug,
    alternative_scenarios,
)
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.service_times import Decoded, service_times
from planner.scenario import Scenario
from tests.cpu_cost import cached
from tests.test_comparison_one_site import one


@cached
def requests() -> dict[str, Any]:
    return {c.name: (c.share, c.mix) for c in planning_problem(one()).classes}


def test_a_name_of_a_way_has_no_spaces_and_no_signs() -> None:
    assert _slug("8 x h200-sxm, tp=4,dp=2") == "8xh200-sxm-tp4-dp2"


@pytest.mark.parametrize(
    ("stated", "n", "expected"),
    [
        ({"n_instances": 3}, 4, {"n_instances": 6}),
        ({"n_instances": 4}, 16, {"n_instances": 2}),
        ({"n_instances": 3}, 16, None),
        ({"min_instances": 3, "max_instances": 5}, 16, {"min_instances": 2, "max_instances": 2}),
        ({"min_instances": 1, "max_instances": None}, 4, {"min_instances": 2, "max_instances": None}),
    ],
)
def test_sizes_in_other_instances_are_of_as_many_accelerators(
    stated: dict[str, Any], n: int, expected: dict[str, Any] | None
) -> None:
    pool = one().pools["decode"].model_copy(update={"accelerators_per_instance": 8, **stated})
    assert _sizes(pool, n) == expected


def ways(scenario: Scenario, name: str = "decode") -> set[tuple[str | None, int, str | None]]:
    return {(p.hardware, p.accelerators_per_instance, p.layout) for p in _others(scenario, scenario.pools[name])}


def test_other_ways_have_half_as_many_accelerators_as_many_or_twice_of_every_kind_with_a_price() -> None:
    """Eight are all that a domain of these has; replicas of attention are of a mixture of experts, on its own kind."""
    own, other = "h200-sxm", "h20-141gb"
    at = {"pools.decode.accelerators_per_instance": 4}
    assert ways(one(at)) == {(kind, n, None) for kind in (own, other) for n in (2, 4, 8)}
    wide = one({"pools.decode.accelerators_per_instance": 8})
    assert {n for _, n, _ in ways(wide)} == {4, 8}
    alone = one({"pools.decode.accelerators_per_instance": 1, "pools.decode.layout": "tp=1"})
    assert {(n, layout) for _, n, layout in ways(alone)} == {(1, "tp=1"), (2, "tp=2")}
    experts = one({**at, "model.profile": "qwen3-235b"})
    assert {(n, layout) for kind, n, layout in ways(experts) if kind == own} == {
        *((n, None) for n in (2, 4, 8)),
        *((n, f"tp=1,dp={n},ep={n}") for n in (2, 4, 8)),
    }
    assert {layout for kind, _, layout in ways(experts) if kind == other} == {None}


def test_other_kinds_are_those_with_a_price_the_cheapest_first() -> None:
    price = {"basis": "assumed", "source": "a test"}
    prices = {"h200-sxm": 3.0, "h100-sxm": 2.5, "h20-141gb": 1.0, "b200-sxm": 6.0, "a100-sxm-80gb": 1.5, "gaudi3": 2.0}
    scenario = one({"prices": {kind: {"usd_per_accelerator_hour": usd, **price} for kind, usd in prices.items()}})
    expected = sorted((usd, kind) for kind, usd in prices.items() if kind != "h200-sxm")
    assert _other_kinds(scenario, scenario.pools["decode"]) == [kind for _, kind in expected][:MOST_KINDS]


@pytest.mark.parametrize("name", ["prefill", "decode"])
@pytest.mark.parametrize("demand", [4.0, None])
def test_a_way_is_reckoned_to_cost_the_rent_of_its_work_in_whole_instances_for_a_demand(
    name: str, demand: float | None
) -> None:
    scenario = one({} if demand else {"objective": "max-throughput", "demand_req_per_s": None})
    pool = scenario.pools[name].model_copy(update={"accelerators_per_instance": 2})
    ((share, mix),) = served = [*requests().values()]
    found = _choice(scenario, name, pool, served)
    rates = service_times(scenario, name, pool, scenario.hardware_of(pool), Decoded.of(served))
    if name == "decode":
        assert rates.decode is not None
        work_s = share * rates.decode.seconds_per_request(200.0)
    else:
        assert rates.prefill is not None
        work_s = share * float(mix.short_work(rates.prefill.occupancy, 4096.0))
    assert found is not None
    assert found.work_s == pytest.approx(work_s)
    assert found.estimate == pytest.approx(2 * 3.0 * (ceil(4.0 * work_s) if demand else work_s))
    assert found.what == "2 x h200-sxm, tp=2"


def test_every_way_at_hand_is_named_and_all_best_ways_are_taken_together() -> None:
    price = {"h200-sxm": {"usd_per_accelerator_hour": 3.0, "basis": "assumed", "source": "a test"}}
    scenario = one({"prices": price, "pools.prefill.layout": "tp=2", "pools.prefill.accelerators_per_instance": 2})
    choices = {name: _choices(scenario, name, requests()) for name in scenario.pools}
    expected = [f"{name}-on-{_slug(choice.what)}" for name, of_pool in choices.items() for choice in of_pool[:1]]
    assert [variant.name for variant in alternative_scenarios(scenario, requests(), per_pool=1)] == [
        *expected,
        BEST_OF_EACH,
    ]
    for name, of_pool in choices.items():
        assert [one.estimate for one in of_pool] == sorted(one.estimate for one in of_pool)
        assert scenario.pools[name] not in [one.pool for one in of_pool]
