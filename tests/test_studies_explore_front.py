"""Every fleet that tables know, counted one by one, against the front that is shown."""

from itertools import product

import pytest

from planner.results.explorer import StockTable, Tables
from planner.scenario import read_scenario
from planner.studies.explore import PageInputs, explorer
from planner.studies.explore.combination import Knobs, fleet_req_per_s, usd_per_hour
from planner.studies.explore.front import N_POINTS, reachable_front
from tests.test_studies_explore_combination import FINE, tables

STOCKS = (
    StockTable(site="remote", hardware="h100-sxm", n_accelerators=24, pools=("far",)),
    StockTable(site="local", hardware="h200-sxm", n_accelerators=40, pools=("near", "decode")),
)


def counted(of: Tables, most: tuple[int, ...]) -> list[tuple[float, float, tuple[int, ...], float]]:
    """Bill, rate, sizes and threshold of every fleet at its best threshold, the cheapest first, of those that serve
    more than all before."""
    fleets = []
    for sizes in product(*(range(1, n + 1) for n in most)):
        used = dict(zip((pool.name for pool in of.pools), sizes, strict=True))
        if any(8 * sum(used[name] for name in stock.pools) > stock.n_accelerators for stock in of.stocks):
            continue
        rate, threshold = max((fleet_req_per_s(of, Knobs(sizes, t, 1.0)), -t) for t in FINE)
        usd = usd_per_hour(of, Knobs(sizes, -threshold, rate))
        assert usd is not None
        fleets.append((usd, rate, sizes, -threshold))
    found, best = [], 0.0
    for fleet in sorted(fleets, key=lambda one: one[0]):
        if fleet[1] > best * (1 + 1e-6):
            best = fleet[1]
            found.append(fleet)
    return found


def test_the_front_has_every_fleet_in_stock_that_serves_more_than_all_cheaper_ones() -> None:
    of = tables(stocks=STOCKS)
    front = reachable_front(of, 95.0)
    assert front is not None
    expected = counted(of, (3, 5, 5))
    points = front.front.points
    assert len(points) == len(expected) < N_POINTS
    for point, (usd, rate, sizes, threshold) in zip(points, expected, strict=True):
        assert point.usd_per_hour == point.budget_usd_per_hour == pytest.approx(usd)
        assert point.value == pytest.approx(rate)
        assert tuple(point.n_instances.values()) == sizes
        assert point.threshold_tokens == threshold
    assert (front.front.against, front.front.percentile) == ("throughput", 95.0)
    unsplit = reachable_front(tables(stocks=STOCKS, is_split=False), 95.0)
    assert unsplit is not None
    assert {point.threshold_tokens for point in unsplit.front.points} == {None}


def test_without_stock_twice_the_planned_instances_are_looked_at_and_eight_at_the_least() -> None:
    wide = tables().links[0].model_copy(update={"capacity_gbps": 4000.0})
    large = tables().pools[0].model_copy(update={"n_planned": 6})
    of = tables(pools=(large, *tables().pools[1:]), links=(wide,))
    front = reachable_front(of, 90.0)
    assert front is not None
    last = front.front.points[-1]
    assert last.value == pytest.approx(max(rate for _, rate, *_ in counted(of, (12, 8, 8))))
    assert len(front.front.points) <= 2 * N_POINTS


def test_a_pool_or_a_link_without_a_price_has_no_front() -> None:
    pools = (tables().pools[0].model_copy(update={"usd_per_instance_hour": None}), *tables().pools[1:])
    assert reachable_front(tables(pools=pools), 90.0) is None
    link = tables().links[0].model_copy(update={"usd_per_hour": None})
    assert reachable_front(tables(links=(link,)), 90.0) is None


@pytest.mark.parametrize("name", ["prfaas-paper", "not-worth-it"])
def test_no_fleet_that_can_be_had_lies_above_the_front(name: str) -> None:
    """Fleets are drawn beside the front; where one served more for its bill, the front would be none."""
    page = explorer(PageInputs(read_scenario(name), "", f"planner optimize {name}", "0", None, False))
    points = page.fronts[0].front.points
    for fleet in (page.plan, *(other for other in page.plan.baselines if not other.beyond_stock)):
        usd = fleet.cost.usd_per_hour
        assert usd is not None
        best = max(point.value for point in points if point.usd_per_hour <= usd * (1 + 1e-9))
        assert fleet.max_throughput_req_per_s <= best * (1 + 1e-3), getattr(fleet, "name", "plan")
