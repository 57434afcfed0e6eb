"""Other ways to serve the same requests: one kind of accelerator, all prefill remote, none remote, the same money."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf
from typing import TYPE_CHECKING

from planner.comparison.alternative_hardware import Variant, alternative_scenarios, has_one_site, is_same_fleet
from planner.comparison.batch_doubts import BY_RUN_ALONE, batch_doubts, composed_notes
from planner.comparison.colocated_fleets import colocated_fleets, in_batches
from planner.comparison.home import (
    Requests,
    beyond_stock,
    decoding_sites,
    kinds_at_home,
    local_prefill,
    mixed_home,
    stock_limits,
)
from planner.comparison.homogeneous_fleets import affordable_accelerators, home_pool, homogeneous, objective_of_given
from planner.comparison.margins import COLOCATED, COLOCATED_ALONE, HOMOGENEOUS, LOCAL, SEPARATE
from planner.comparison.one_site import worth_listing
from planner.comparison.planned import Classes, Planned, planned_fleet, too_slow
from planner.errors import InfeasibleError, InputError, PlannerError, UndecidedError
from planner.notes import Note, code_of, note
from planner.optimizer.layout_choice import planning_problem
from planner.optimizer.problem import Problem
from planner.optimizer.problem_parts import requests_by_name
from planner.optimizer.strategies import may_be_in_time
from planner.results.plan import Baseline, Fleet
from planner.scenario import Pool, Routing, Scenario, accelerator_usd_per_hour, busy_usd_per_hour
from planner.units import number
from planner.work_clock import work_s

if TYPE_CHECKING:
    from planner.comparison.infeasibility import Trials

DECIMALS = 9
"""Of a gap: what is left is the solver's rounding."""
MIXED_HOME = LOCAL[1]
FEW_POOLS = 6
"""Pools up to which a scenario of one site with several demands is planned on other accelerators as well."""


@dataclass(frozen=True)
class Compared:
    """Fleets that a plan is compared with."""

    others: tuple[Baseline, ...]
    notes: tuple[Note, ...]
    """Why there is no other one."""
    impossible: frozenset[str]
    """Names of those of which it is proven that there is no such fleet,"""
    unknown: frozenset[str]
    """and of those of which nothing was found in the time."""


def baselines(
    problem: Problem,
    plan: Fleet,
    deadline: float,
    names: Collection[str] | None = None,
    trials: "Trials | None" = None,
) -> Compared:
    """Every fleet, or those of some names, that can be planned beside a plan, and why each of the others cannot.

    Args:
        deadline: `work_s()` time for all of them together; what one leaves is the others'.
        names: those that are asked for; None: all.
        trials: run a cheaper fleet whose times no model predicts well; None: nothing is run.

    The plan stands without a comparison, such as one on a chip that nobody measured in the other role. What turns out
    to be the plan itself is no comparison and left out.
    """
    scenario = problem.scenario
    asked = [v for v in variants(problem, plan, names is None) if names is None or v.name in names]
    found = compared(scenario, problem.classes, asked, plan, deadline, trials)
    apart = [other for other in found.others if other.name not in COLOCATED]
    if has_one_site(scenario):
        apart = [*worth_listing(scenario, apart)]
    return replace(found, others=(*apart, *(other for other in found.others if other.name in COLOCATED)))


def compared(
    scenario: Scenario,
    classes: Classes,
    asked: Sequence[Variant],
    plan: Fleet,
    deadline: float,
    trials: "Trials | None" = None,
) -> Compared:
    """Fleets of variants, each planned in its part of the time.

    Args:
        deadline: `work_s()` time for all of them together; what one leaves is the others'.
        trials: as of `baselines`.

    Returns:
        No fleet that is the plan; fleets at home in both roles, and in one batch, that are none of those before them.
    """
    others, notes, same = list[Baseline](), list[Note](), list[str]()
    impossible, unknown = set[str](), set[str]()
    for i, variant in enumerate(asked):
        try:
            share = (deadline - work_s()) / (len(asked) - i)
            other, told = _planned_beside(scenario, classes, variant, plan, work_s() + share)
        except (InputError, InfeasibleError, UndecidedError) as error:
            if isinstance(error, InfeasibleError):
                impossible.add(variant.name)
            if isinstance(error, UndecidedError):
                unknown.add(variant.name)
            if not variant.is_tried:
                notes.append(missing(variant.name, error))
            continue
        if is_same_fleet(plan, other):
            same.append(variant.name)
        elif variant.name not in (MIXED_HOME, *COLOCATED) or not any(is_same_fleet(one, other) for one in others):
            if trials is not None and _decides_in_doubt(scenario, plan, other, told):
                other = _run(variant.scenario(), other, trials, max(deadline - work_s(), 0.0))
            others.append(other)
            notes += [one for one in told if one not in notes]
    if same and not has_one_site(scenario):
        notes.append(
            note("baseline-is-plan", f"compared with {', '.join(same)} nothing differs: that is the plan itself")
        )
    return Compared(tuple(others), tuple(notes), frozenset(impossible), frozenset(unknown))


def _decides_in_doubt(scenario: Scenario, plan: Fleet, other: Baseline, told: Sequence[Note]) -> bool:
    """True if a fleet that can be had is cheaper than the plan as long as times hold that no model predicts well."""
    ours, theirs = plan.cost.usd_per_hour, other.cost.usd_per_hour
    is_cheaper = ours is not None and theirs is not None and theirs <= ours and not other.beyond_stock
    is_about_cost = scenario.objective == "min-cost" and scenario.promises_latency
    return is_cheaper and is_about_cost and any(code_of(one) == BY_RUN_ALONE for one in told)


def _run(scenario: Scenario, fleet: Baseline, trials: "Trials", time_limit_s: float) -> Baseline:
    """The fleet of a scenario, with whether a run bears out its promise: none does that ended without an answer."""
    try:
        holds = trials.run(scenario, time_limit_s, False).is_kept
    except PlannerError:
        holds = False
    return fleet.model_copy(update={"holds": holds})


def missing(name: str, error: Exception) -> Note:
    """Why there is no baseline of a name."""
    why = error.problems[0].message if isinstance(error, InputError) else error
    text = f"no {name} to compare with: {why}"
    return note("baseline-infeasible", text) if isinstance(error, InfeasibleError) else note("no-baseline", text)


def _planned_beside(
    scenario: Scenario, classes: Classes, variant: Variant, plan: Fleet, deadline: float
) -> tuple[Baseline, list[Note]]:
    """A variant planned until a deadline, and what to know of it.

    Raises InputError, InfeasibleError or UndecidedError.
    """
    asked = variant.scenario()
    found = planned_fleet(asked, classes, deadline) if work_s() < deadline else None
    if found is None and work_s() >= deadline:
        raise UndecidedError("nothing was found in the time")
    if found is None and _is_composed(asked) and not _falls_short(asked, classes):
        raise UndecidedError(f"such a fleet {_failing(asked)}, unless prefill and decode overlap")
    if found is None:
        raise InfeasibleError(f"such a fleet {_failing(asked)}{too_slow(asked, classes)}")
    gap = round(abs(found.bound - found.objective) / max(abs(found.objective), 1e-12), DECIMALS)
    used = [pool.batching for pool in found.problem.pools if pool.batching is not None]
    other = Baseline(
        **dict(found.fleet),
        name=variant.name,
        title=variant.title.replace("{n}", str(found.fleet.n_accelerators)),
        changes=variant.changes,
        ratio=plan.most_req_per_s / found.fleet.most_req_per_s,
        beyond_stock=tuple(beyond_stock(scenario, found.fleet)),
        gap=max([gap, *_overlap_gaps(asked, found)]),
    )
    return other, [*batch_doubts(found.problem, found.solution, variant.name), *composed_notes(used)]


def _is_composed(scenario: Scenario) -> bool:
    """True if passes with prompts are composed of what was measured apart."""
    return any(pool.role == "colocated" and pool.service_times == "measured" for pool in scenario.pools.values())


def _falls_short(scenario: Scenario, classes: Classes) -> bool:
    """True if a fleet of batches would do less than is asked even if prefill and decode overlapped perfectly: prompts
    alone take too long, or all that can be had serves less than the demand."""
    problem = planning_problem(scenario, classes=classes)
    if not may_be_in_time(problem):
        return True
    if scenario.objective == "max-throughput":
        return False
    each = [pool.batching.overlapped_req_per_s or inf if pool.batching else inf for pool in problem.pools]
    most = sum(pool.max_instances * rate for pool, rate in zip(problem.pools, each, strict=True))
    return most < max(sum(demand.req_per_s[p] for demand in problem.demands) for p in range(len(problem.periods)))


def _overlap_gaps(scenario: Scenario, found: Planned) -> Iterator[float]:
    """Possible gains of pools with prefill and decode measured apart, if both overlapped perfectly in one batch.

    Equation:
        n C / r - 1 of a rate r, C what an instance then serves; 1 - ceil(r / C) / n of a bill, r the rate of the
        busiest period; half of a time
    """
    operations = found.solution.operations
    for i, pool in enumerate(found.problem.pools):
        n = max(one.n_instances[i] for one in operations)
        most = None if pool.batching is None or not n else pool.batching.overlapped_req_per_s
        if most and scenario.objective == "max-throughput":
            yield max(n * most / found.fleet.most_req_per_s - 1, 0.0)
        elif most and scenario.objective == "min-cost":
            peak = max(sum(d.req_per_s for d in one.decodings if d.pool == i) for one in operations)
            yield 1 - ceil(peak / most * (1 - 1e-9)) / n
        elif most:
            yield 0.5


def _failing(scenario: Scenario) -> str:
    """Words for what a fleet that there is not would not do."""
    if scenario.objective != "max-throughput":
        promised = any(slo is not None and slo.ttft_s for slo in map(scenario.slo_of, scenario.workloads))
        return f"does not serve {number(scenario.demand_req_per_s)} req/s{' as promised' if promised else ''}"
    return "serves nothing" if scenario.slo is None else "keeps the promise at no rate"


def variants(problem: Problem, plan: Fleet, tries: bool = True) -> Iterator[Variant]:
    """The scenarios of the fleets beside a plan: of one kind of accelerators, of one kind of serving, without another
    site; with one site also of what may be tried there, unless told not to.

    Args:
        tries: whether to try other accelerators too.
    """
    scenario, asked = problem.scenario, problem.scenario.with_open_layouts()
    requests = requests_by_name(problem.classes)
    yield from _of_serving(problem, plan)
    if has_one_site(scenario):
        if tries and not problem.has_batches and (problem.is_plain or _is_small(scenario)):
            yield from alternative_scenarios(scenario, requests, *([] if problem.is_plain else [1]))
        return
    title = "every prompt prefilled at the site that decodes it"
    yield Variant(LOCAL[0], title, lambda: local_prefill(asked))
    limited = any(site in decoding_sites(scenario) for site, _ in stock_limits(scenario))
    if not problem.has_batches and (len(kinds_at_home(scenario)) > 1 or limited):
        title = f"{_title_of_home(scenario)}, {_spent(scenario)}"
        yield Variant(MIXED_HOME, title, lambda: _mixed(asked, requests, plan))


def _of_serving(problem: Problem, plan: Fleet) -> Iterator[Variant]:
    """Fleets of one kind of serving at home: of the one that the question does not offer, or of one of both."""
    scenario, decodes = problem.scenario, any(pool.role == "decode" for pool in problem.scenario.pools.values())
    if problem.has_batches and decodes:
        yield from _of_one_serving(scenario)
    elif problem.has_batches:
        yield from _apart(scenario, plan)
        if any(pool.role == "prefill" for pool in scenario.pools.values()):
            yield from colocated_fleets(scenario, scenario, plan)
    else:
        yield from _of_one_kind(problem, plan)
        yield from colocated_fleets(in_batches(scenario.with_open_layouts()), scenario, plan)


def _is_small(scenario: Scenario) -> bool:
    return len(scenario.pools) <= FEW_POOLS and scenario.objective != "min-ttft"


def _of_one_kind(problem: Problem, plan: Fleet) -> Iterator[Variant]:
    """Fleets of the accelerators that decode, and the plan's with all prefill elsewhere."""
    scenario, asked = problem.scenario, problem.scenario.with_open_layouts()
    home, n = home_pool(asked), plan.n_accelerators
    if has_one_site(scenario) and not problem.is_plain:
        return
    yield Variant(
        HOMOGENEOUS,
        f"prefill and decode on {n} {home.hardware}, one site",
        lambda: homogeneous(asked, n),
    )
    if problem.is_plain and (naive := _naive(scenario, plan)) is not None:
        title = "every prompt prefilled in the pools for long prompts"
        yield Variant("naive-heterogeneous-pd", title, lambda: naive)
    if len(decoding_sites(scenario)) == 1:
        yield from _for_the_same_money(asked, home, plan)
    if scenario.objective == "min-cost":
        yield _cheapest(asked)


def _cheapest(scenario: Scenario) -> Variant:
    kinds = " and ".join(dict.fromkeys(p.hardware for p in scenario.pools.values() if p.role == "decode"))
    title = f"the cheapest {kinds} fleet that serves the demand"
    return Variant("cheapest-homogeneous-pd", title, lambda: homogeneous(scenario, None))


def _for_the_same_money(scenario: Scenario, home: Pool, plan: Fleet) -> Iterator[Variant]:
    hardware = scenario.hardware_of(home)
    idle = accelerator_usd_per_hour(scenario, home.site, hardware)
    # As if always busy: a fleet at its highest rate nearly is, and no bill of it exceeds the money.
    price = None if idle is None else idle + busy_usd_per_hour(scenario, home.site, hardware)
    if price is None or price <= 0:
        return
    for name, title, usd in (
        ("equal-cost-homogeneous-pd", "the rent of the plan's accelerators", plan.cost.accelerators_usd_per_hour),
        ("equal-bill-homogeneous-pd", "the whole bill of the plan, link included", plan.cost.usd_per_hour),
    ):
        if usd is not None:
            n = affordable_accelerators(usd, price, 1 if home.layouts else home.accelerators_per_instance)
            yield Variant(name, f"{n} {home.hardware} for {title}", partial(homogeneous, scenario, n))


def _apart(scenario: Scenario, plan: Fleet) -> Iterator[Variant]:
    """Fleets of the accelerators of colocated pools, with prefill and decode apart on the same basis."""
    update = {"role": "decode", "tokens_per_pass": None, "service_times": "roofline"}
    pools = {k: p.model_copy(update=update) if p.role == "colocated" else p for k, p in scenario.pools.items()}
    asked, n = scenario.model_copy(update={"pools": pools}), plan.n_accelerators
    if scenario.objective == "min-cost":
        yield _cheapest(asked)
        return
    home = home_pool(asked)
    title = f"prefill and decode on {n} {home.hardware}, one site"
    yield Variant(HOMOGENEOUS, title, partial(homogeneous, asked, n))
    if len(decoding_sites(asked)) == 1:
        yield from _for_the_same_money(asked, home, plan)


def _of_one_serving(scenario: Scenario) -> Iterator[Variant]:
    """Fleets of a scenario with both kinds of serving, of one of them alone."""
    for name, title, roles in (
        (SEPARATE, "prefill and decode in pools apart", ("prefill", "decode")),
        (COLOCATED_ALONE, "colocated pools alone, every prompt prefilled where it is decoded", ("colocated",)),
    ):
        pools = {key: pool for key, pool in scenario.pools.items() if pool.role in roles}
        yield Variant(name, title, partial(scenario.model_copy, update={"pools": pools}))


def _title_of_home(scenario: Scenario) -> str:
    kinds, stock = kinds_at_home(scenario), stock_limits(scenario)
    most = {kind: [stock.get((site, kind)) for site in decoding_sites(scenario)] for kind in kinds}
    known = {kind: [limit for limit in all_ if limit is not None] for kind, all_ in most.items()}
    is_known = {kind: None not in all_ for kind, all_ in most.items()}
    told = [f"up to {sum(n for n, _ in known[kind])} {kind}" if is_known[kind] else kind for kind in kinds]
    return f"{' and '.join(told)} where requests are decoded, in either role"


def _spent(scenario: Scenario) -> str:
    return "the demand at least cost" if scenario.objective == "min-cost" else "for no more than the plan's bill"


def _mixed(scenario: Scenario, requests: Requests, plan: Fleet) -> Scenario:
    """All kinds at home for the plan's bill, or for the demand at the least cost; raises as `mixed_home` does."""
    if scenario.objective == "min-cost":
        return mixed_home(scenario, requests, None)
    usd, stock = plan.cost.usd_per_hour, stock_limits(scenario)
    is_limited = all((s, k) in stock for s in decoding_sites(scenario) for k in kinds_at_home(scenario))
    if usd is None and not is_limited:
        what = f"nothing limits it: {', '.join(plan.cost.missing_prices)} not stated"
        raise InputError(scenario.problem(("prices",), what, "a price for each"))
    return mixed_home(scenario, requests, usd, inf if usd is not None else plan.n_accelerators)


def _naive(scenario: Scenario, plan: Fleet) -> Scenario | None:
    """The plan's accelerators with all prefill in its pools for long prompts; None when it has none of those.

    Of one demand and one model: else what a pool takes differs by class, site and period.
    """
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
            "objective": objective_of_given(scenario),
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
