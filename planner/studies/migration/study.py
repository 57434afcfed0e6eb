"""The fleet that stands beside the plan: whether it does, the cheapest change, and the way from one to the other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from math import isfinite
from pathlib import Path
from typing import Any

from planner.comparison import posed_problem
from planner.comparison.schedule import schedule_of
from planner.errors import InputError, UndecidedError
from planner.executor.run_question import RunQuestion
from planner.notes import Note, note
from planner.optimizer.batch_loads import TOKENS_PER_PASS
from planner.optimizer.colocated_layouts import scenario_as_run
from planner.optimizer.layout_choice import on_any_layout, posed
from planner.optimizer.prices import shadow_prices
from planner.optimizer.problem import Problem
from planner.optimizer.problem_parts import PoolSpec
from planner.optimizer.sized import within
from planner.optimizer.strategies import best_solution
from planner.progress import Progress
from planner.results.current import Current, Order, Step, TargetFleet
from planner.results.plan import Fleet, Plan
from planner.results.plan_parts import Bottleneck, PoolSchedule
from planner.scenario import Scenario
from planner.studies.migration.fleet_file import ExistingFleet, StatedFleet, ports_of, standing_fleet
from planner.studies.migration.growth import day_after, months_until
from planner.studies.migration.order import Sizes
from planner.studies.migration.runs import step_run
from planner.studies.migration.served_fleet import Fleets, Ports, ServedFleet, accelerators_taken, links_gbps
from planner.studies.migration.steps import Migration, named, order
from planner.work_clock import work_s

BINDS_PART = 0.25
"""Of the time, what may be taken to find what binds."""
CHANGE_PART = 0.5
"""Of the time that is left, what the search for the cheapest change may take."""


@dataclass(frozen=True)
class MigrationQuestion:
    """The question about the fleet that stands."""

    stated: StatedFleet
    """The file that states it, read."""
    time_limit_s: float = 60.0
    runs: RunQuestion | None = None
    """How long each step is run where a latency is promised; None: steps are predicted."""
    begin: date | None = None
    """The day that growth is counted from; None: only months are told."""


def current_fleet(
    scenario: Scenario,
    plan: Plan,
    asked: MigrationQuestion,
    data_dirs: Sequence[Path] = (),
    progress: Progress = lambda _: None,
) -> Current:
    """Advice on what to do with the fleet that stands.

    Args:
        scenario: the question.
        plan: its plan.
        asked: the fleet that stands, and what to tell of it.
        data_dirs: folders in which traces are looked for.
        progress: is told what is going on.

    Raises:
        InputError: the file is wrong, or instances change roles.
        UndecidedError: what the fleet that stands serves was not found out in the time.
    """
    progress(f"{scenario.name}: what stands")
    problem = posed_problem(_on_layouts_of(scenario, plan), data_dirs)
    _check_roles(problem)
    standing = standing_fleet(asked.stated, problem)
    fleets = Fleets(problem, work_s() + asked.time_limit_s)
    sizes, ports = _sizes_of(problem, plan)
    begin_ports = standing.ports or ports
    stay = _stay(fleets, standing, begin_ports)
    progress(f"{scenario.name}: the cheapest change")
    change = _change(fleets, standing.n_instances, fleets.does(stay.most_req_per_s))
    progress(f"{scenario.name}: the order of steps")
    told = _Told(
        fleets, scenario, asked, data_dirs, progress, Migration(fleets, standing.n_instances, sizes, begin_ports, ports)
    )
    optimum = told.way_on(stay, sizes, ports, plan)
    is_same = change == (sizes, ports)
    return Current(
        demand_req_per_s=problem.demand_req_per_s,
        growth_fraction_per_month=scenario.growth_fraction_per_month,
        stay=told.way_on(stay, standing.n_instances, begin_ports),
        stays_at_threshold=_does_as_it_is(fleets, standing, begin_ports),
        binds=_binds(stay, asked.time_limit_s),
        change=None if change is None else optimum if is_same else told.way_on(stay, *change),
        optimum=optimum,
        notes=tuple(_notes(fleets, standing, plan, asked.stated, change is None)),
    )


def _on_layouts_of(scenario: Scenario, plan: Plan) -> Scenario:
    """The scenario with each pool on the layout that the plan runs it on, and unused ones on any that holds the model.

    Raises InputError where the plan runs a pool on several.
    """
    used = [pool.key for pool in plan.pools if pool.n_instances]
    for key in (key for key in dict.fromkeys(used) if used.count(key) > 1):
        what = "are chosen from, the plan has instances on several, and --current compares one"
        raise InputError(scenario.problem(("pools", key, "layouts"), what, "one layout of the pool"))
    found = on_any_layout(scenario_as_run(scenario, plan))
    unused = [name for name, pool in found.pools.items() if pool.role == "colocated" and pool.tokens_per_pass is None]
    pools = {name: found.pools[name].on_passes(TOKENS_PER_PASS[0]) for name in unused}
    return found.model_copy(update={"pools": {**found.pools, **pools}})


def check_fleet(scenario: Scenario, stated: StatedFleet, data_dirs: Sequence[Path] = ()) -> None:
    """Say before any plan is sought what is wrong with the fleet that stands.

    Args:
        scenario: the question.
        stated: the file that states the fleet.
        data_dirs: folders in which traces are looked for.

    Raises:
        InputError: the file names what the question does not have, or instances change roles.
        InfeasibleError: no plan can be asked of the scenario.
    """
    problem = posed(scenario, data_dirs)
    _check_roles(problem)
    standing_fleet(stated, problem)


def _check_roles(problem: Problem) -> None:
    """Raises InputError where instances change roles: a pool has no size then that a file could state."""
    if problem.scenario.routing.role_conversion:
        what = "lets instances change roles between periods, and --current names one size of every pool"
        raise InputError(problem.scenario.problem(("routing", "role_conversion"), what, "false with --current"))


def _sizes_of(problem: Problem, plan: Plan) -> tuple[Sizes, Ports]:
    """Instances of every pool and ports of every link of a plan."""
    n = plan.n_instances
    ports = {link.name: link.ports_by_tier for link in plan.links}
    return tuple(n.get(pool.key, 0) for pool in problem.pools), tuple(
        ports.get(link.name, (0,) * len(link.tiers)) for link in problem.links
    )


def _stay(fleets: Fleets, standing: ExistingFleet, ports: Ports) -> ServedFleet:
    """The fleet that stands, at its threshold where that does, else at the best."""
    if _does_as_it_is(fleets, standing, ports):
        return fleets.of(standing.n_instances, ports, standing.threshold_tokens)
    return fleets.of(standing.n_instances, ports)


def _does_as_it_is(fleets: Fleets, standing: ExistingFleet, ports: Ports) -> bool | None:
    if standing.threshold_tokens is None:
        return None
    served = fleets.of(standing.n_instances, ports, standing.threshold_tokens)
    return fleets.does(served.most_req_per_s)


def _change(fleets: Fleets, sizes: Sizes, does: bool) -> tuple[Sizes, Ports] | None:
    """The cheapest fleet with all that stands, where that does not do, else of what stands.

    None where there is no demand, no price, no such fleet, or none was found in the time.
    """
    problem, demand = fleets.problem, fleets.demand_req_per_s
    if demand is None or not problem.is_priced:
        return None
    pools = tuple(_changed(pool, n, does) for n, pool in zip(sizes, problem.pools, strict=True))
    asked = replace(problem.demanding(demand, "min-cost"), pools=pools)
    try:
        found = best_solution(asked, CHANGE_PART * max(fleets.deadline - work_s(), 0.0))
    except UndecidedError:
        return None
    if found is None:
        return None
    most = tuple(map(max, zip(*(one.n_instances for one in found.operations), strict=True)))
    return most if does else tuple(map(max, sizes, most)), found.ports


def _changed(pool: PoolSpec, n: int, does: bool) -> PoolSpec:
    """A pool in the cheapest change: a part of what stands where that does, else all of it and more.

    What is rented by the period stands only while it is needed.
    """
    if does:
        return within(pool, 0, n)
    return within(pool, n if pool.by_period is None else 0, max(n, pool.max_instances))


def _binds(stay: ServedFleet, time_limit_s: float) -> tuple[Bottleneck, ...]:
    if stay.solution is None:
        return ()
    return shadow_prices(stay.problem, stay.solution, BINDS_PART * time_limit_s)


def _notes(
    fleets: Fleets, standing: ExistingFleet, plan: Plan, stated: StatedFleet, has_no_change: bool
) -> Iterator[Note]:
    """Notes on what the reader must know of it."""
    for pool in fleets.problem.pools:
        layout = stated.layouts.get(pool.key, pool.layout)
        if layout != pool.layout and pool.layout is not None:
            yield note("other-layout-stands", f"{pool.key} stands on {layout}, and is counted as if on {pool.layout}")
    unnamed = [name for name in standing.unnamed if name in {pool.key for pool in plan.pools}]
    if unnamed:
        yield note("pool-not-named", f"the file does not name {', '.join(unnamed)}: none of them stands")
    if standing.ports is None and fleets.problem.links:
        yield note("links-not-named", "the file states no links: the ports of the plan are taken to stand")
    problem = fleets.problem
    taken = accelerators_taken(problem, standing.n_instances)
    for n, stock in zip(taken, problem.inventories, strict=True):
        if n > stock.n_accelerators:
            have = f"{n} {stock.hardware} stand at {stock.site}"
            yield note("more-than-stock", f"{have}, more than the {stock.n_accelerators} in stock")
    if has_no_change and fleets.demand_req_per_s is not None:
        missing = "" if problem.is_priced else f": no price of {', '.join(problem.missing_prices())}"
        yield note("no-cheapest-change", f"no cheapest change was found{missing or ' that keeps what stands'}")


@dataclass(frozen=True)
class _Told:
    """Fleets in the words of the answer."""

    fleets: Fleets
    scenario: Scenario
    asked: MigrationQuestion
    data_dirs: Sequence[Path]
    progress: Progress
    passage: Migration

    def way_on(self, stay: ServedFleet, sizes: Sizes, ports: Ports, plan: Plan | None = None) -> TargetFleet:
        """A fleet beside the one that stands, and the way there."""
        fleets, begin = self.fleets, self.passage.begin
        is_other = (sizes, ports) != (begin, self.passage.begin_ports)
        served = fleets.of(sizes, ports) if is_other else stay
        rented = self._rented(served, sizes, ports)
        before = self._rented(stay, begin, self.passage.begin_ports)
        fleet = plan or _fleet(rented, fleets.demand_req_per_s)
        most = max(served.most_req_per_s, 0.0 if plan is None else plan.throughput_req_per_s)
        names = [pool.name for pool in fleets.problem.pools]
        grown = {name: m - n for name, n, m in zip(names, begin, sizes, strict=True)}
        usd = None if fleet is None else fleet.cost.usd_per_hour
        at_first = _fleet(before, fleets.demand_req_per_s)
        stays_usd = None if at_first is None else at_first.cost.usd_per_hour
        return TargetFleet(
            n_instances=named(fleets, sizes),
            links_gbps=links_gbps(fleets.problem, ports),
            added={name: n for name, n in grown.items() if n > 0},
            removed={name: -n for name, n in grown.items() if n < 0},
            threshold_tokens=None if fleet is None else fleet.threshold_tokens,
            usd_per_hour=usd,
            difference_usd_per_hour=None if usd is None or stays_usd is None else usd - stays_usd,
            serves_req_per_s=most,
            holds=fleets.does(most),
            utilization={} if fleet is None else _busy(fleet),
            schedule=_schedule(rented) if plan is None else plan.schedule.pools if plan.schedule else (),
            order=self._order(replace(self.passage, end=sizes, end_ports=ports)) if is_other else None,
            **self._breaks(most),
        )

    def _rented(self, served: ServedFleet, sizes: Sizes, ports: Ports) -> ServedFleet | None:
        """A fleet as it is rented; None where its schedule was not found in the time."""
        if not self.fleets.problem.is_followed:
            return served  # with the threshold that stands, where there is one
        try:
            return self.fleets.rented(sizes, ports)
        except UndecidedError:
            return None

    def _breaks(self, most_req_per_s: float) -> dict[str, Any]:
        """When growth breaks a fleet; nothing where none is stated, or it never does."""
        growth, demand = self.scenario.growth_fraction_per_month, self.fleets.demand_req_per_s
        if growth is None or demand is None:
            return {}
        months = months_until(demand, most_req_per_s, growth)
        if not isfinite(months):
            return {}
        day = None if self.asked.begin is None else day_after(self.asked.begin, months)
        return {"breaks_in_months": months, "breaks_on": None if day is None else day.isoformat()}

    def _order(self, passage: Migration) -> Order:
        found = order(passage)
        if self.asked.runs is None or not any(c.ttft_s is not None for c in self.fleets.problem.classes):
            return found
        steps = tuple(self._run(step, i, len(found.steps)) for i, step in enumerate(found.steps, 1))
        return found.model_copy(update={"steps": steps})

    def _run(self, step: Step, i: int, n_steps: int) -> Step:
        """A step with the run of the fleet after it, at the demand or at the most it serves."""
        problem = self.fleets.problem
        sizes = tuple(step.n_instances.get(pool.name, 0) for pool in problem.pools)
        ports = tuple(ports_of(link, step.links_gbps[link.name]) or () for link in problem.links)
        plan = self.fleets.of(sizes, ports).plan(self.fleets.demand_req_per_s)  # in the busiest period all of them
        if plan is None or self.asked.runs is None:
            return step
        self.progress(f"{self.scenario.name}: running step {i} of {n_steps}")
        question = replace(self.asked.runs, load=1.0)
        return step.model_copy(update={"run": step_run(self.scenario, plan, question, self.data_dirs)})


def _fleet(served: ServedFleet | None, demand_req_per_s: float | None) -> Fleet | None:
    return None if served is None else served.fleet(demand_req_per_s)


def _schedule(served: ServedFleet | None) -> tuple[PoolSchedule, ...]:
    """Instances in every period of the pools that follow them."""
    if served is None or served.solution is None:
        return ()
    found = schedule_of(served.problem, served.solution)
    return () if found is None else found.pools


def _busy(fleet: Fleet) -> dict[str, float]:
    used = {pool.name: pool.utilization for pool in fleet.pools if pool.n_instances}
    return used | {link.name: link.utilization for link in fleet.links if link.n_ports}
