"""What a plan with colocated pools is compared with: all at home in one batch, and prefill and decode apart there."""

from collections.abc import Iterator
from functools import partial

from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.optimizer.at_hand import Variant, is_same_fleet
from planner.optimizer.baselines import Compared, affordable_accelerators, baseline_of, homogeneous, missing
from planner.optimizer.colocated.opponents import TITLES
from planner.optimizer.disaggregation import APART, COLOCATED_ALONE, SEPARATE
from planner.optimizer.home import decoding_sites
from planner.optimizer.problem import ClassSpec
from planner.results import Baseline, Fleet
from planner.scenario import Pool, Routing, Scenario
from planner.work_clock import work_s


def colocated_baselines(scenario: Scenario, classes: tuple[ClassSpec, ...], plan: Fleet, deadline: float) -> Compared:
    """Fleets that serve the same requests: without the colocated pools, with them alone, at their site alone.

    Args:
        scenario: the question.
        classes: its requests.
        plan: the planned fleet.
        deadline: `work_s()` time for all of them together; what one leaves is the others'.
    """
    asked = [*_variants(scenario, plan)]
    others: list[Baseline] = []
    notes, impossible, unknown = [], set[str](), set[str]()
    for i, variant in enumerate(asked):
        share = (deadline - work_s()) / (len(asked) - i)
        try:
            other = baseline_of(scenario, classes, variant, plan, work_s() + share)
            if not is_same_fleet(plan, other) and not any(is_same_fleet(one, other) for one in others):
                others.append(other)
        except (InputError, InfeasibleError, UndecidedError) as error:
            (unknown if isinstance(error, UndecidedError) else impossible).add(variant.name)
            if isinstance(error, InputError):
                impossible.discard(variant.name)
            notes.append(missing(variant.name, error))
    return Compared(tuple(others), tuple(notes), frozenset(impossible), frozenset(unknown))


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
    together = f"prefill and decode in one batch on {home.hardware}"
    if scenario.objective == "min-cost":
        title = f"the cheapest {home.hardware} fleet with prefill and decode apart that serves the demand"
        yield Variant(APART[0], title, partial(homogeneous, apart, None))
        if len(scenario.pools) > 1:
            yield Variant("cheapest-colocated", together + TITLES["cheapest-colocated"], partial(_at_home, scenario))
        return
    title = f"prefill and decode apart on {n} {home.hardware}, one site"
    yield Variant(APART[2], title, partial(homogeneous, apart, n))
    price = scenario.accelerator_usd_per_hour(home.site, scenario.hardware_of(home))
    if bill is not None and price:
        affordable = affordable_accelerators(bill, price, 1)
        title = f"prefill and decode apart on {affordable} {home.hardware} for the whole bill of the plan"
        yield Variant(APART[1], title, partial(homogeneous, apart, affordable))
    if len(scenario.pools) > 1:
        yield Variant(
            "colocated", f"{together}, {n} accelerators at one site", partial(_at_home, scenario, n_accelerators=n)
        )
        if bill is not None and bill > 0:
            title = together + TITLES["equal-bill-colocated"]
            yield Variant("equal-bill-colocated", title, partial(_at_home, scenario, usd_per_hour=bill))


def _apart(scenario: Scenario) -> Scenario:
    """The scenario with a pool that only decodes in the place of the colocated one, on the same basis."""
    key = scenario.colocated_pool or ""
    update = {"role": "decode", "tokens_per_pass": None, "service_times": "roofline"}
    pools = {**scenario.pools, key: scenario.pools[key].model_copy(update=update)}
    return scenario.model_copy(update={"pools": pools})


def _at_home(scenario: Scenario, n_accelerators: int | None = None, usd_per_hour: float | None = None) -> Scenario:
    """The scenario without a prefill pool: of so many accelerators, for so much, or for the demand at least cost."""
    key = scenario.colocated_pool or ""
    home: Pool = scenario.pools[key].model_copy(
        update={"n_instances": "free", "min_instances": 0, "max_instances": None}
    )
    stock = {} if n_accelerators is None else {home.hardware: n_accelerators}
    return scenario.model_copy(
        update={
            "budget_usd_per_hour": usd_per_hour,
            "routing": Routing(),
            "sites": {home.site: scenario.sites[home.site].model_copy(update={"accelerators": stock})},
            "pools": {key: home},
            "links": {},
        }
    )
