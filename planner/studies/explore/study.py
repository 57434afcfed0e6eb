"""Everything that the page of a scenario shows."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from planner.comparison import explained, planning_problem, solved
from planner.errors import InputError, Problem
from planner.optimizer import Problem as Question
from planner.optimizer import Solution
from planner.optimizer.capacity import exact_loads
from planner.optimizer.routed_capacity import highest_req_per_s
from planner.optimizer.single_route import RoutedSolution, solution_of_routes
from planner.optimizer.sized import Sizing
from planner.optimizer.time_limit import TimeLimit
from planner.results import Case, Plan
from planner.results.explorer import Explorer, Place, Tables
from planner.scenario import Scenario
from planner.studies.break_even import Say
from planner.studies.case import build_case
from planner.studies.explore.exact import with_exact_network, with_exact_nodes
from planner.studies.explore.front import reachable_front
from planner.studies.explore.network import can_turn_network
from planner.studies.explore.network_plan import solution_of_network_plan
from planner.studies.explore.network_tables import NetworkTables
from planner.studies.explore.ports import ports_of_plan
from planner.studies.explore.tables import can_turn, tables_of
from planner.studies.inputs import input_notes
from planner.studies.price_ratios import price_ratios

PLAN_PART = 0.6
"""Of the time limit, what the search of the plan may take."""


class Asked(NamedTuple):
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
    asked: Asked, data_dirs: Sequence[Path] = (), time_limit_s: float = 60.0, say: Say = lambda _: None
) -> Explorer:
    """Plan a scenario, or take its plan, and tabulate what follows when it is turned.

    Args:
        asked: the scenario and what is wanted of it.
        data_dirs: folders in which traces are looked for.
        time_limit_s: limit of the plan, or of each of a report's.
        say: is told what is going on.

    Raises:
        InputError, InfeasibleError, UndecidedError: as `optimize` does; InputError also where the plan is of another
            fleet than the scenario's.
    """
    scenario = asked.scenario if asked.plan is None else asked.scenario.on_layouts(_layouts(asked.scenario, asked.plan))
    problem = planning_problem(scenario, data_dirs)
    case = build_case(scenario, data_dirs, time_limit_s, say) if asked.with_studies and asked.plan is None else None
    plan, solution = _planned(problem, case.plan if case else asked.plan, time_limit_s)
    say(f"{scenario.name}: tables of its pools")
    tables = _tables(problem, solution)
    can_be_turned = bool(tables) and can_turn(problem)
    reach = reachable_front(tables[0], problem.ttft_percentile, plan.baselines) if can_be_turned else None
    page = Explorer(
        planner=asked.planner,
        title=scenario.title or scenario.name,
        question=asked.question,
        command=asked.command,
        places=tuple(Place(name=name, title=site.title) for name, site in scenario.sites.items()),
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
        raise InputError(Problem(plan.scenario, "", what, f"the plan of this scenario: {', '.join([*pools, *links])}"))


def solution_of_plan(problem: Question, plan: Plan) -> Solution | None:
    """A finished plan of one route as the optimizer has it; None where its ports cannot be told.

    Args:
        problem: the question, which `can_turn`.
        plan: its plan.
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
