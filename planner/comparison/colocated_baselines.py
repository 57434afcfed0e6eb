"""What a plan with colocated pools is compared with: all at home in one batch, and prefill and decode apart there."""

from collections.abc import Iterator
from functools import partial

from planner.comparison.alternative_hardware import Variant
from planner.comparison.baselines import Compared, affordable_accelerators, compared, homogeneous, of_one_pool
from planner.comparison.disaggregation import APART, COLOCATED_ALONE, SEPARATE
from planner.comparison.home import decoding_sites, limits
from planner.optimizer.problem import ClassSpec
from planner.results import Fleet
from planner.scenario import Scenario


def colocated_baselines(scenario: Scenario, classes: tuple[ClassSpec, ...], plan: Fleet, deadline: float) -> Compared:
    """Fleets that serve the same requests: without the colocated pools, with them alone, at their site alone.

    Args:
        scenario: the question.
        classes: its requests.
        plan: the planned fleet.
        deadline: `work_s()` time for all of them together; what one leaves is the others'.
    """
    return compared(scenario, classes, [*_variants(scenario, plan)], plan, deadline)


def _variants(scenario: Scenario, plan: Fleet) -> Iterator[Variant]:
    has_both = any(pool.role == "decode" for pool in scenario.pools.values())
    if has_both:
        title = "prefill and decode pools alone, without the colocated ones"
        yield Variant(SEPARATE, title, partial(_of_roles, scenario, {"prefill", "decode"}))
        title = "colocated pools alone, without prefill and decode pools"
        yield Variant(COLOCATED_ALONE, title, partial(_of_roles, scenario, {"colocated"}))
    elif len(decoding_sites(scenario)) == 1 and len({pool.model for pool in scenario.pools.values()}) == 1:
        yield from _at_one_site(scenario, plan)
    elif any(pool.role == "prefill" for pool in scenario.pools.values()):
        title = "colocated pools alone, every prompt prefilled where it is decoded"
        yield Variant(COLOCATED_ALONE, title, partial(_of_roles, scenario, {"colocated"}))


def _of_roles(scenario: Scenario, roles: set[str]) -> Scenario:
    """The scenario with its pools of some roles alone."""
    pools = {name: pool for name, pool in scenario.pools.items() if pool.role in roles}
    return scenario.model_copy(update={"pools": pools})


def _at_one_site(scenario: Scenario, plan: Fleet) -> Iterator[Variant]:
    apart, n, bill = _apart(scenario), plan.n_accelerators, plan.cost.usd_per_hour
    home = apart.pools[scenario.colocated_pool or ""]
    if scenario.objective == "min-cost":
        title = f"the cheapest {home.hardware} fleet with prefill and decode apart that serves the demand"
        yield Variant(APART[0], title, partial(homogeneous, apart, None))
    else:
        title = f"prefill and decode apart on {n} {home.hardware}, one site"
        yield Variant(APART[2], title, partial(homogeneous, apart, n))
        price = scenario.accelerator_usd_per_hour(home.site, scenario.hardware_of(home))
        if bill is not None and price:
            affordable = affordable_accelerators(bill, price, 1)
            title = f"prefill and decode apart on {affordable} {home.hardware} for the whole bill of the plan"
            yield Variant(APART[1], title, partial(homogeneous, apart, affordable))
    if len(scenario.pools) > 1:
        stock, _ = limits(scenario).get((home.site, scenario.hardware_of(home).name), (None, ""))
        yield from of_one_pool(scenario, plan, stock)


def _apart(scenario: Scenario) -> Scenario:
    """The scenario with a pool that only decodes in the place of the colocated one, on the same basis."""
    key = scenario.colocated_pool or ""
    update = {"role": "decode", "tokens_per_pass": None, "service_times": "roofline"}
    pools = {**scenario.pools, key: scenario.pools[key].model_copy(update=update)}
    return scenario.model_copy(update={"pools": pools})
