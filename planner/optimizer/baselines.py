"""Other ways to serve the same requests: one kind of accelerator, all prefill remote, the same money."""

from collections.abc import Collection, Iterator
from math import floor

import numpy as np
from numpy.typing import NDArray

from planner.errors import InfeasibleError, InputError, UndecidedError
from planner.optimizer.at_hand import Variant, at_hand, has_one_site, is_same_fleet
from planner.optimizer.capacity import decode_s, threshold_loads
from planner.optimizer.evaluation import Evaluation
from planner.optimizer.one_site import worth_listing
from planner.optimizer.problem import Problem
from planner.optimizer.resolution import planning_problem
from planner.optimizer.strategies import searched
from planner.results import Baseline, Fleet
from planner.scenario import Objective, Pool, Routing, Scenario
from planner.units import number

PREFILL, DECODE = "pd-p", "pd-d"


def baselines(
    problem: Problem, plan: Fleet, time_limit_s: float, names: Collection[str] | None = None
) -> tuple[tuple[Baseline, ...], tuple[str, ...]]:
    """Every baseline, or those of some names, that can be planned beside a plan, and why each of the others cannot.

    The plan stands without a comparison, such as one on a chip that nobody measured in the other role. What turns out
    to be the plan itself is no comparison and left out.
    """
    planned: list[Baseline] = []
    missing, same = [], []
    for variant in variants(problem, plan, tries=names is None):
        if names is not None and variant.name not in names:
            continue
        try:
            other = _planned(problem, variant, plan, time_limit_s)
            if is_same_fleet(plan, other):
                same.append(variant.name)
            else:
                planned.append(other)
        except (InputError, InfeasibleError, UndecidedError) as error:
            if not variant.is_tried:
                why = error.problems[0].message if isinstance(error, InputError) else error
                missing.append(f"no {variant.name} to compare with: {why}")
    if has_one_site(problem.scenario):
        return worth_listing(problem.scenario, planned), tuple(missing)
    if same:
        missing.append(f"compared with {', '.join(same)} nothing differs: that is the plan itself")
    return tuple(planned), tuple(missing)


def _planned(problem: Problem, variant: Variant, plan: Fleet, time_limit_s: float) -> Baseline:
    other = planning_problem(variant.scenario, classes=problem.classes)
    found = searched(other, time_limit_s)
    if found is None:
        why = "serves nothing" if problem.scenario.slo is None else "keeps the promise at no rate"
        if problem.is_min_ttft:
            why = f"does not serve {number(problem.must_serve_req_per_s)} req/s"
        raise InfeasibleError(f"such a fleet {why}")
    fields = Evaluation(other, found).fleet()
    ratio = plan.most_req_per_s / Fleet(**fields).most_req_per_s
    return Baseline(name=variant.name, title=variant.title, changes=variant.changes, ratio=ratio, **fields)


def variants(problem: Problem, plan: Fleet, tries: bool = True) -> Iterator[Variant]:
    """The scenarios of the baselines; with one site also of what may be tried there, unless told not to."""
    scenario, home = problem.scenario, _home(problem.scenario)
    n = plan.n_accelerators
    yield Variant(
        "homogeneous-pd",
        f"prefill and decode on {n} {home.hardware}, one site",
        homogeneous(scenario, n),
    )
    if (naive := _naive(problem, plan)) is not None:
        yield Variant("naive-heterogeneous-pd", "every prompt prefilled in the pools for long prompts", naive)
    yield from _for_the_same_money(scenario, home, plan)
    if problem.is_min_cost:
        yield Variant(
            "cheapest-homogeneous-pd",
            f"the cheapest {home.hardware} fleet that serves the demand",
            homogeneous(scenario, None),
        )
    if tries and has_one_site(scenario):
        yield from at_hand(scenario, {c.name: (c.share, c.mix) for c in problem.classes})


def _for_the_same_money(scenario: Scenario, home: Pool, plan: Fleet) -> Iterator[Variant]:
    hardware = scenario.hardware_of(home)
    idle = scenario.accelerator_usd_per_hour(home.site, hardware)
    # As if always busy: a fleet at its highest rate nearly is, and no bill of it exceeds the money.
    price = None if idle is None else idle + scenario.busy_usd_per_hour(home.site, hardware)
    if price is None or price <= 0:
        return
    for name, title, usd in (
        ("equal-cost-homogeneous-pd", "the rent of the plan's accelerators", plan.cost.accelerators_usd_per_hour),
        ("equal-bill-homogeneous-pd", "the whole bill of the plan, link included", plan.cost.usd_per_hour),
    ):
        if usd is not None:
            n = affordable_accelerators(usd, price, home.accelerators_per_instance)
            yield Variant(name, f"{n} {home.hardware} for {title}", homogeneous(scenario, n))


def affordable_accelerators(usd_per_hour: float, usd_per_accelerator_hour: float, n_per_instance: int) -> int:
    """Accelerators in whole instances that a rent pays for.

    >>> affordable_accelerators(160.0, 1.25, 8)
    128
    """
    return n_per_instance * floor(usd_per_hour / (usd_per_accelerator_hour * n_per_instance) + 1e-9)


def _home(scenario: Scenario) -> Pool:
    """The pool that decodes: its site and hardware are those of the homogeneous baselines."""
    return next(pool for pool in scenario.pools.values() if pool.role == "decode")


def homogeneous(scenario: Scenario, n_accelerators: int | None) -> Scenario:
    """The scenario on the decode pool's hardware at its site alone.

    Args:
        scenario: the question.
        n_accelerators: fleet to get the most out of; None keeps the demand and seeks the cheapest fleet.

    Returns:
        A scenario with the pools `pd-p` and `pd-d`.
    """
    home = _home(scenario)
    inventory = {} if n_accelerators is None else {home.hardware: n_accelerators}
    size = {"n_instances": "free", "min_instances": 0, "max_instances": None}
    prefill = home.model_copy(update={**size, "role": "prefill", "prompts": "short"})
    return scenario.model_copy(
        update={
            "objective": "min-cost" if n_accelerators is None else _objective_of_given(scenario),
            "budget_usd_per_hour": None,
            "routing": Routing(n_candidates=scenario.routing.n_candidates),
            "sites": {home.site: scenario.sites[home.site].model_copy(update={"accelerators": inventory})},
            "pools": {PREFILL: prefill, DECODE: home.model_copy(update=size)},
            "links": {},
        }
    )


def _objective_of_given(scenario: Scenario) -> Objective:
    """What a given fleet is to make the most of: the least TTFT where that is the objective, else its rate."""
    return "min-ttft" if scenario.objective == "min-ttft" else "max-throughput"


def _naive(problem: Problem, plan: Fleet) -> Scenario | None:
    """The plan's accelerators with all prefill in its pools for long prompts; None when it has none of those."""
    scenario = problem.scenario
    long = {p.name: p for p in plan.pools if p.prompts == "long" and p.n_instances > 0}
    short = [p for p in plan.pools if p.prompts == "short"]
    if not long or not short:
        return None
    pools = {name: scenario.pools[name].model_copy(update={"n_instances": p.n_instances}) for name, p in long.items()}
    sites = {name: site.model_copy(update={"accelerators": {}}) for name, site in scenario.sites.items()}
    for name, pool in scenario.pools.items():
        if pool.role == "decode":
            pools[name] = pool.model_copy(update={"n_instances": _decode_instances(plan, pool, name)})
    links = {
        link.name: scenario.links[link.name].model_copy(
            update={"capacity_gbps": link.capacity_gbps, "tiers": (), "usd_per_hour": link.usd_per_hour}
        )
        for link in plan.links
        if link.capacity_gbps > 0
    }
    return scenario.model_copy(
        update={
            "objective": _objective_of_given(scenario),
            "budget_usd_per_hour": None,
            "routing": Routing(n_candidates=scenario.routing.n_candidates),
            "sites": sites,
            "pools": pools,
            "links": links,
        }
    )


def _decode_instances(plan: Fleet, pool: Pool, name: str) -> int:
    """Instances a decode pool has once the prefill pools for short prompts of its site and hardware join it."""
    hardware = plan.pool(name).hardware
    freed = sum(
        p.n_accelerators for p in plan.pools if p.prompts == "short" and p.site == pool.site and p.hardware == hardware
    )
    return plan.pool(name).n_instances + freed // pool.accelerators_per_instance


def homogeneous_rates(problem: Problem, n_instances: NDArray[np.int64]) -> NDArray[np.float64]:
    """Highest rate of homogeneous fleets by trying every split into prefill and decode.

    Equation:
        max over k of min(k / W, (n - k) / D), with W and D the instance-seconds of prefill and decode per request

    Args:
        problem: the resolved scenario, whose decode pool names the hardware.
        n_instances: instances n of each fleet, shape (m,).

    Returns:
        Requests per second [1/s], shape (m,); 0 for fewer than two instances.

    Raises:
        InputError: the decode pool's hardware has no prefill times.

    Source:
        Prefill-as-a-Service (arXiv 2604.15039v2): min of Theta_pd_p and Theta_pd_d.
    """
    fleet = planning_problem(homogeneous(problem.scenario, 0), classes=problem.classes)
    work_s = decoding_s = 0.0
    for route in fleet.routes:
        share, mix = fleet.classes[route.request_class].share, fleet.classes[route.request_class].mix
        work_s += share * float(threshold_loads(fleet, route, np.array([mix.support[1]])).short_s[0])
        decoding_s += share * decode_s(fleet, route)
    n = np.asarray(n_instances)[:, np.newaxis]
    k = np.arange(int(np.max(n_instances)) + 1)
    rates = np.minimum(k / work_s, np.maximum(n - k, 0) / decoding_s)
    return np.asarray(rates.max(axis=1))
