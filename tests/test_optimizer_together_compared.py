"""What a plan with a colocated pool is compared with: as many accelerators, as much money, or the cheapest."""

from typing import Any

import pytest

from planner.optimizer.baselines import affordable_accelerators
from planner.optimizer.together.compared import _apart, _at_home, _variants
from planner.scenario import Scenario
from tests.colocated_cases import chat
from tests.deploy_cases import UNPRICED, plan, pool

PRICES = {
    kind: {"usd_per_accelerator_hour": usd, "basis": "assumed", "source": "a test"}
    for kind, usd in (("h100-sxm", 2.5), ("h200-sxm", 4.0))
}


def names(scenario: Scenario, bill: float | None = 100.0) -> list[str]:
    cost = UNPRICED.model_copy(update={"usd_per_hour": bill})
    fleet = plan("chat", (pool("both", "colocated"), pool("long", "prefill", "far")), cost=cost)
    return [variant.name for variant in _variants(scenario, fleet)]


def asked(objective: str, **changes: Any) -> Scenario:
    demand = None if objective == "max-throughput" else 5.0
    return chat({"objective": objective, "demand_req_per_s": demand, "prices": PRICES, **changes})


def test_with_prices_as_much_money_is_compared_beside_as_many_accelerators() -> None:
    scenario = asked("max-throughput")
    everything = names(scenario)
    assert len(everything) == len({*everything}) == 4
    assert [name for name in everything if "colocated" in name] == ["colocated", "equal-bill-colocated"]
    assert names(scenario, None) == [everything[0], "colocated"]
    assert names(scenario, 0.0)[-1] == "colocated"
    without = asked("max-throughput", prices={})
    assert names(without, None) == [everything[0], "colocated"]


def test_where_cost_is_sought_the_cheapest_of_either_kind_are_compared() -> None:
    found = names(asked("min-cost"))
    assert len(found) == 2
    assert found[1] == "cheapest-colocated"
    assert names(_at_home(asked("min-cost"))) == found[:1], "the colocated fleet alone is the plan itself"


def test_titles_say_how_many_accelerators_the_bill_pays_for() -> None:
    cost = UNPRICED.model_copy(update={"usd_per_hour": 100.0})
    fleet = plan("chat", (pool("both", "colocated"), pool("long", "prefill", "far")), cost=cost)
    titles = [variant.title for variant in _variants(asked("max-throughput"), fleet)]
    assert "apart on 32 h100-sxm, one site" in titles[0]
    assert f"apart on {affordable_accelerators(100.0, 2.5, 1)} h100-sxm for the whole bill" in titles[1]
    assert affordable_accelerators(100.0, 2.5, 1) == 40
    assert "32 accelerators at one site" in titles[2]


@pytest.mark.parametrize(("n", "usd"), [(32, None), (None, 90.0), (None, None)])
def test_at_home_a_fleet_has_the_colocated_pool_alone_and_what_it_may_have(n: int | None, usd: float | None) -> None:
    found = _at_home(asked("max-throughput", **{"pools.both.n_instances": 3}), n, usd)
    assert [*found.pools] == ["both"]
    assert found.pools["both"].n_instances == "free"
    assert [*found.sites] == ["home"]
    assert found.sites["home"].accelerators == ({} if n is None else {"h100-sxm": n})
    assert found.budget_usd_per_hour == usd
    assert not found.links


def test_apart_the_colocated_pool_decodes_alone() -> None:
    found = _apart(asked("max-throughput"))
    assert (found.pools["both"].role, found.pools["both"].service_times) == ("decode", "roofline")
    assert found.pools["long"] == chat().pools["long"]
