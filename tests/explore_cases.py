"""Scenarios whose pages are tested, and what `planner optimize --set` says of a turn of their knobs."""

from collections.abc import Sequence
from pathlib import Path

from planner.comparison import best_fleet
from planner.results.explorer import Explorer, Tables
from planner.results.plan import Fleet
from planner.scenario import Scenario, read_scenario
from planner.studies.explore import PageInputs, explorer
from planner.studies.explore.combination import Knobs
from tests.builders import in_classes, small_with
from tests.cpu_cost import cached

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


@cached
def page(name: str) -> Explorer:
    """The page of a case."""
    overrides = CASES[name]
    return explorer(PageInputs(read_scenario("prfaas-paper", overrides), "", "planner optimize", "0", None, False))


def tables_of_case(name: str) -> Tables:
    """Its tables."""
    (found,) = page(name).tables
    return found


def set_of(tables: Tables, knobs: Knobs) -> list[str]:
    """What the page copies, as `--set` takes it."""
    sizes = [f"{pool.size_key}={n}" for pool, n in zip(tables.pools, knobs.n_instances, strict=True)]
    threshold = [f"routing.threshold_tokens={knobs.threshold_tokens!r}"] if tables.is_split else []
    return [*sizes, *threshold, f"demand_req_per_s={knobs.req_per_s!r}", *tables.fixed]


def planned_with(name: str, knobs: Knobs, more: Sequence[str] = ()) -> Fleet:
    """The fleet that `planner optimize --set` plans with the knobs."""
    scenario = read_scenario("prfaas-paper", [*CASES[name], *set_of(tables_of_case(name), knobs), *more])
    return best_fleet(scenario, [Path()], 60.0).fleet


DAY = {"night": {"hours": 12.0, "demand": 0.4}, "noon": {"hours": 12.0}}
SIZED = {"pools.fast.n_instances": 2, "pools.near.n_instances": 2, "pools.decode.n_instances": 3}


def lengths(mu: float, output_tokens: int) -> dict[str, object]:
    """Log-normal prompts and constant outputs."""
    drawn = {"kind": "lognormal", "mu": mu, "sigma": 1.0, "low_tokens": 128, "high_tokens": 65536}
    return {"lengths": drawn, "output_lengths": {"kind": "constant", "tokens": output_tokens}}


@cached
def networks() -> dict[str, Scenario]:
    """Scenarios of several periods or classes, by what is tested with them."""
    asked = {"objective": "min-cost", "demand_req_per_s": 2.0, "periods": DAY, **SIZED}
    classes = {"chat": (0.6, lengths(8.5, 400)), "code": (0.4, lengths(9.5, 800))}
    return {
        "two periods": small_with(asked),
        "two classes": in_classes(classes, {**asked, "links.wan.usd_per_gb": 0.01}),
    }


@cached
def followed_page() -> Explorer:
    """The page of a fleet that changes from period to period, and so does not turn."""
    free = {f"pools.{name}.n_instances": "free" for name in ("fast", "near", "decode")}
    scenario = networks()["two periods"].varied({**free, "pools.decode.rent": "by-period"})
    return explorer(PageInputs(scenario, "", "planner optimize", "0", None, False))


@cached
def page_of_network(name: str) -> Explorer:
    """The page of such a scenario."""
    return explorer(PageInputs(networks()[name], "", "planner optimize", "0", None, False))
