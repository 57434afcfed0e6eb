"""Everything that the page of a scenario shows, networks included."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from planner.comparison import explained, posed_problem, solved
from planner.errors import InputError, InputProblem
from planner.optimizer.capacity import exact_loads
from planner.optimizer.network.period_operation import Decoding, Flow, PeriodOperation
from planner.optimizer.problem import Arc, Problem
from planner.optimizer.problem import Problem as Question
from planner.optimizer.problem_parts import LinkSpec, Part
from planner.optimizer.routed_capacity import highest_req_per_s
from planner.optimizer.single_route import RoutedSolution, solution_of_routes
from planner.optimizer.sized import Sizing
from planner.optimizer.solution import Solution
from planner.optimizer.time_limit import TimeLimit
from planner.progress import Progress
from planner.results.case import Case
from planner.results.explorer import Explorer, MapSite, Tables
from planner.results.plan import LinkPlan, PeriodPlan, Plan, PoolShares
from planner.scenario import Scenario
from planner.studies.case import build_case
from planner.studies.explore.exact import with_exact_network, with_exact_nodes
from planner.studies.explore.front import reachable_front
from planner.studies.explore.network import can_turn_network
from planner.studies.explore.network_tables import NetworkTables
from planner.studies.explore.tables import can_turn, tables_of
from planner.studies.inputs import input_notes
from planner.studies.price_ratios import price_ratios

PLAN_PART = 0.6
"""Of the time limit, what the search of the plan may take."""


class PageInputs(NamedTuple):
    """Inputs that a page is made of."""

    scenario: Scenario
    question: str
    """The scenario's text."""
    command: str
    """What `planner optimize` is called with for it."""
    planner: str
    """Version of the planner."""
    plan: Plan | None
    """A finished plan; None: it is planned."""
    with_studies: bool
    """Whether the fronts, variants and runs that a report shows are made, too."""


def explorer(
    asked: PageInputs, data_dirs: Sequence[Path] = (), time_limit_s: float = 60.0, progress: Progress = lambda _: None
) -> Explorer:
    """Plan a scenario, or take its plan, and tabulate what follows when it is turned.

    Args:
        asked: the scenario and what is wanted of it.
        data_dirs: folders in which traces are looked for.
        time_limit_s: limit of the plan, or of each of a report's.
        progress: is told what is going on.

    Raises:
        InputError, InfeasibleError, UndecidedError: as `optimize` does; InputError also where the plan is of another
            fleet than the scenario's.
    """
    scenario = asked.scenario if asked.plan is None else asked.scenario.on_layouts(_layouts(asked.scenario, asked.plan))
    problem = posed_problem(scenario, data_dirs)
    case = (
        build_case(scenario, data_dirs, time_limit_s, progress) if asked.with_studies and asked.plan is None else None
    )
    plan, solution = _planned(problem, case.plan if case else asked.plan, time_limit_s)
    progress(f"{scenario.name}: tables of its pools")
    tables = _tables(problem, solution)
    can_be_turned = bool(tables) and can_turn(problem)
    reach = reachable_front(tables[0], problem.ttft_percentile, plan.baselines) if can_be_turned else None
    page = Explorer(
        planner=asked.planner,
        title=scenario.title or scenario.name,
        question=asked.question,
        command=asked.command,
        places=tuple(MapSite(name=name, title=site.title) for name, site in scenario.sites.items()),
        plan=plan,
        tables=tables,
        fronts=() if reach is None else (reach,),
        price_ratios=price_ratios(problem, plan) if problem.is_plain else None,
        inputs=input_notes(scenario, {pool.key: pool.rates for pool in problem.pools}),
        sources=scenario.sources,
        notes=scenario.notes,
    )
    return page if case is None else _with_studies(page, case)


def _layouts(scenario: Scenario, plan: Plan) -> dict[str, str]:
    """Layouts of a finished plan, by the pools of the scenario that may choose."""
    used = {pool.name: pool.layout for pool in plan.pools if pool.n_instances and pool.layout}
    return {name: used[name] for name, pool in scenario.pools.items() if pool.layouts and name in used}


def _tables(problem: Question, solution: Solution | None) -> tuple[Tables, ...]:
    """One for every period; none where a plan does not turn."""
    if solution is None or problem.has_batches:  # tables of batches that change with every mix would be endless
        return ()
    if can_turn(problem):
        return (with_exact_nodes(tables_of(problem, solution), problem, solution),)
    if not can_turn_network(problem, solution):
        return ()
    made = NetworkTables(problem, solution)
    return with_exact_network([made.tables(p) for p in made.periods], made.turned)


def _with_studies(page: Explorer, case: Case) -> Explorer:
    """The page with what a report shows; of runs without the schedulers' series, which it does not draw."""
    executed = case.executed and case.executed.model_copy(update={"schedulers": None, "scheduler_series": ()})
    return page.model_copy(
        update={
            "fronts": (*page.fronts, *case.fronts),
            "sensitivity": case.sensitivity,
            "break_even": case.break_even,
            "executed": executed,
            "hours": case.hours,
        }
    )


def _planned(problem: Question, plan: Plan | None, time_limit_s: float) -> tuple[Plan, Solution | None]:
    """The plan with its solution; None of a plan from elsewhere that has more than one route."""
    if plan is None:
        limit = TimeLimit.of(time_limit_s)
        solution = solved(problem, limit.part_s(PLAN_PART))
        return explained(problem, solution, limit.left_s), solution
    _check_pools(problem, plan)
    if problem.has_batches:
        return plan, None
    found = solution_of_plan if can_turn(problem) else solution_of_network_plan
    return plan, found(problem, plan)


def _check_pools(problem: Question, plan: Plan) -> None:
    """Raises InputError where a plan has pools that the scenario has not, or other links."""
    pools = {name for pool in problem.pools for name in (pool.key, pool.name)}
    links = {link.name for link in problem.links}
    odd = sorted({pool.name for pool in plan.pools} - pools | {link.name for link in plan.links} ^ links)
    if odd:
        what = f"is of another fleet: {', '.join(odd)} are not in both"
        raise InputError(
            InputProblem(plan.scenario, "", what, f"the plan of this scenario: {', '.join([*pools, *links])}")
        )


def solution_of_plan(problem: Question, plan: Plan) -> Solution | None:
    """A finished plan of one route as the optimizer has it; None where its ports cannot be told.

    Args:
        problem: the question, which `can_turn`.
    """
    ports = ports_of_plan(problem, plan)
    route, mix = problem.route, problem.classes[0].mix
    threshold = plan.threshold_tokens
    if threshold is None:
        threshold = mix.support[1] if route.long is None else -1.0
    n_instances = {pool.name: pool.n_instances for pool in plan.pools}
    if ports is None:
        return None
    sizing = Sizing(tuple(n_instances.get(pool.name, 0) for pool in problem.pools), ports)
    loads = exact_loads(problem, threshold)
    highest, rate = highest_req_per_s(problem, sizing, loads), plan.throughput_req_per_s
    routed = RoutedSolution(sizing, threshold, highest, rate, rate, rate, plan.goodput_req_per_s)
    return solution_of_routes(problem, routed)


PARTS: tuple[Part, ...] = ("long", "short")


class UnclearError(Exception):
    """A plan that does not say which way its requests go."""


class At(NamedTuple):
    """A stream in a period of a plan."""

    stream: int
    name: str
    site: str


def solution_of_network_plan(problem: Problem, plan: Plan) -> Solution | None:
    """A finished plan; None where its ways or ports cannot be told."""
    ports = ports_of_plan(problem, plan)
    periods = {period.name: period for period in plan.periods}
    if ports is None or {name for span in problem.periods for name, _ in span.members} != set(periods):
        return None
    try:
        operations = tuple(_operation(problem, periods[span.name], p) for p, span in enumerate(problem.periods))
    except UnclearError:
        return None
    value = plan.cost.usd_per_hour if problem.is_min_cost else None
    scale = plan.throughput_req_per_s / problem.mean_req_per_s
    return Solution(operations, ports, scale, scale if value is None else value, plan.bound)


def _operation(problem: Problem, period: PeriodPlan, p: int) -> PeriodOperation:
    sizes = {pool.name: pool.n_instances for pool in period.pools}
    flows, decodings = [], []
    for q, stream in enumerate(problem.streams):
        spec = problem.classes[stream.request_class]
        at = At(q, spec.name, stream.site)
        rate = sum(period.decoded_req_per_s.get(m.name, {}).get(at.site, 0.0) for m in spec.members)
        if rate > 0:
            flows += _flows(problem, period, at, rate)
            decodings += _decodings(problem, period, at, rate)
    return PeriodOperation(p, tuple(sizes.get(pool.name, 0) for pool in problem.pools), tuple(flows), tuple(decodings))


def _shares(period: PeriodPlan, at: At) -> PoolShares:
    return period.pool_shares.get(at.name, {}).get(at.site, {})


def _flows(problem: Problem, period: PeriodPlan, at: At, rate: float) -> list[Flow]:
    spec = problem.classes[problem.streams[at.stream].request_class]
    stated = period.thresholds.get(at.name, {}).get(at.site)
    threshold = spec.mix.support[1] if stated is None else stated
    shares = _shares(period, at)
    return [
        Flow(at.stream, part, _arc(problem, at.stream, part, name), threshold, rate * share)
        for part in PARTS
        for name, share in shares.get(part, {}).items()
    ]


def _arc(problem: Problem, stream: int, part: Part, pool: str) -> Arc:
    """The way from a pool. Raises UnclearError where there are two, over two links, or none."""
    found = [arc for arc in problem.arcs[stream][part] if problem.pools[arc.pool].name == pool]
    if len(found) != 1:
        raise UnclearError
    return found[0]


def _decodings(problem: Problem, period: PeriodPlan, at: At, rate: float) -> list[Decoding]:
    names = {pool.name: i for i, pool in enumerate(problem.pools)}
    shares = _shares(period, at).get("decode", {})
    return [Decoding(at.stream, names[name], rate * share) for name, share in shares.items()]


CLOSE = 1e-9


def ports_of_plan(problem: Problem, plan: Plan) -> tuple[tuple[int, ...], ...] | None:
    """Ports of every link by tier; None where they cannot be told."""
    found = [_ports(spec, link) for spec, link in zip(problem.links, plan.links, strict=True)]
    known = tuple(row for row in found if row is not None)
    return known if len(known) == len(found) else None


def _ports(spec: LinkSpec, link: LinkPlan) -> tuple[int, ...] | None:
    """Ports of every tier that make up a link of a plan, the cheapest where there are several ways."""
    ways = product(*(range(min(tier.max_ports, link.n_ports) + 1) for tier in spec.tiers))
    fitting = [row for row in ways if sum(row) == link.n_ports and abs(spec.gbps(row) - link.capacity_gbps) <= CLOSE]
    return min(fitting, key=lambda row: spec.ports_usd_per_hour(row) or 0.0, default=None)
