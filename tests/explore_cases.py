"""Scenarios whose pages are tested, and what `planner optimize --set` says of a turn of their knobs."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from planner.optimizer import outcome
from planner.results import Fleet
from planner.results.explorer import Explorer, Tables
from planner.scenario import read_scenario
from planner.studies.explore import Asked, explorer
from planner.studies.explore.combination import Knobs

CASES: dict[str, tuple[str, ...]] = {
    "reference": (),
    "promise": ("slo = {ttft_s = 8}", 'workload.arrivals = {kind = "gamma", squared_cv = 2}'),
    "charged link": (
        'links.wan.capacity_gbps = "free"',
        "links.wan.tiers = [{capacity_gbps = 10, usd_per_hour = 2.25, max_ports = 2}]",
        "links.wan.usd_per_gb = 0.01",
    ),
}
"""Changes of the reference scenario, by what is tested with them."""

NETWORK = (
    'objective = "min-cost"',
    "demand_req_per_s = 2",
    "slo = {ttft_s = 8}",
    "periods = {day = {hours = 12, demand = 1}, night = {hours = 12, demand = 0.4}}",
)
"""Of two periods: not of one route."""


@cache
def network_page() -> Explorer:
    """The page of a plan that does not turn."""
    return explorer(Asked(read_scenario("prfaas-paper", NETWORK), "", "planner optimize", "0", None, False))


@cache
def page(name: str) -> Explorer:
    """The page of a case."""
    overrides = CASES[name]
    return explorer(Asked(read_scenario("prfaas-paper", overrides), "", "planner optimize", "0", None, False))


def tables_of_case(name: str) -> Tables:
    """Its tables."""
    found = page(name).tables
    assert found is not None
    return found


def set_of(tables: Tables, knobs: Knobs) -> list[str]:
    """What the page copies, as `--set` takes it."""
    sizes = [f"{pool.size_key}={n}" for pool, n in zip(tables.pools, knobs.n_instances, strict=True)]
    threshold = [f"routing.threshold_tokens={knobs.threshold_tokens!r}"] if tables.is_split else []
    return [*sizes, *threshold, f"demand_req_per_s={knobs.req_per_s!r}", *tables.fixed]


def planned_with(name: str, knobs: Knobs, more: Sequence[str] = ()) -> Fleet:
    """The fleet that `planner optimize --set` plans with the knobs."""
    scenario = read_scenario("prfaas-paper", [*CASES[name], *set_of(tables_of_case(name), knobs), *more])
    return outcome(scenario, [Path()], 60.0).fleet
