"""Networks planned from end to end: solved, compared, priced and told."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from planner.errors import InfeasibleError, UndecidedError
from planner.optimizer.context import context_notes
from planner.optimizer.network.compared import baselines_of, sites_alone, spare_notes, verdict_by_ttft, verdict_of
from planner.optimizer.network.loads import LINK_BUSY
from planner.optimizer.network.problem import NetworkProblem, network_problem
from planner.optimizer.network.quickening import quickest_bottlenecks
from planner.optimizer.network.quickest import GAP as QUICKEST_GAP
from planner.optimizer.network.quickest import QuickestNetwork, quickest_network
from planner.optimizer.network.relaxation import infeasible_network
from planner.optimizer.network.search import network_search
from planner.optimizer.network.solution import GAP_TARGET, NetworkSolution
from planner.optimizer.network.time_limit import TimeLimit
from planner.optimizer.network.told import Told
from planner.optimizer.network.worth import network_bottlenecks
from planner.optimizer.room import oversized_notes
from planner.optimizer.software import Candidate, price_notes, setup_notes
from planner.results import (
    Baseline,
    Bottleneck,
    Fleet,
    Plan,
    Verdict,
)
from planner.scenario import Scenario
from planner.units import number, percent

PLAN_PART = 0.6
"""Of the time limit of a command, what the search of the plan may take;"""
BASELINES_PART = 0.5
"""of what that leaves, the fleets that it is compared with;"""
SPARE_PART = 0.5
"""of what those leave, the plan without spare; and of what is then left"""
WORTH_PART = 0.5
"""the linear programs of shadow prices, and again what confirms them."""


def network_plan(scenario: Scenario, data_dirs: Sequence[Path] = (), time_limit_s: float = 60.0) -> Plan:
    """The plan of a scenario of many sites, models, classes or periods.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds that all of it may take: the plan, what it is compared with, and shadow prices. Each step
            has a part of what those before it left.

    Raises:
        InputError: the scenario cannot be resolved.
        InfeasibleError: it is proven that no plan exists.
        UndecidedError: time is up without a plan or a proof.
    """
    return network_planned(network_problem(scenario, data_dirs), time_limit_s)


def network_planned(problem: NetworkProblem, time_limit_s: float = 60.0) -> Plan:
    """The plan of a resolved scenario; raises as `network_plan` does."""
    limit = TimeLimit.of(time_limit_s)
    if problem.scenario.objective == "min-ttft":
        return quickest_explained(problem, network_quickest(problem, limit.part_s(PLAN_PART)), limit.left_s)
    solution = network_search(problem, limit.part_s(PLAN_PART))
    if solution is None:
        raise infeasible_network(problem, limit.left_s)
    return network_explained(problem, solution, limit.left_s)


def network_solved(problem: NetworkProblem, time_limit_s: float = 60.0) -> NetworkSolution:
    """Sizes, ways and thresholds of a resolved scenario, of any objective but min-ttft; raises as `network_plan`."""
    solution = network_search(problem, time_limit_s)
    if solution is None:
        raise infeasible_network(problem)
    return solution


def network_at(solution: NetworkSolution, ratio: float) -> NetworkSolution:
    """The same sizes, ways and thresholds at a part of the demand, in every stream and period alike."""
    n_streams = 1 + max(d.stream for one in solution.settled for d in one.decodings)
    settled = tuple(one.scaled_to(one.period, [ratio] * n_streams) for one in solution.settled)
    return replace(solution, settled=settled, scale=solution.scale * ratio)


def network_sketch(problem: NetworkProblem, solution: NetworkSolution) -> Plan:
    """A solution as a plan that can be run: with its periods, and without what it is compared with or what binds."""
    verdict = Verdict(worth_it=False, because="Not compared with other fleets.")
    proof = solution.gap, GAP_TARGET, solution.bound
    plan = _plan(problem, solution, proof, verdict, (), (), ())
    return plan.model_copy(update={"periods": tuple(Told(problem, solution).periods())})


def network_explained(problem: NetworkProblem, solution: NetworkSolution, time_limit_s: float = 60.0) -> Plan:
    """The plan that a solution is, with baselines, shadow prices and verdict, all of them in the time limit."""
    limit = TimeLimit.of(time_limit_s)
    fleet = Fleet(**Told(problem, solution).fleet())
    others, missing, is_known = baselines_of(problem, fleet, limit.part_s(BASELINES_PART))
    bound = solution.bound * (1.0 if problem.is_min_cost else problem.mean_req_per_s)
    verdict = verdict_of(problem, fleet, others, is_known)
    told = [*spare_notes(problem, solution, limit.part_s(SPARE_PART)), *missing]
    proof, worth = (solution.gap, GAP_TARGET, bound), network_bottlenecks(problem, solution, limit.part_s(WORTH_PART))
    return _plan(problem, solution, proof, verdict, others, worth, told)


def network_outcome(
    problem: NetworkProblem, time_limit_s: float = 60.0, is_explained: bool = True
) -> tuple[Fleet, float, NetworkSolution]:
    """The fleet, its objective [req/s, USD/h or s] and solution; raises as `network_plan` does.

    Args:
        problem: the resolved scenario.
        time_limit_s: seconds the search may take.
        is_explained: whether, where no plan exists, what would do is looked for: that may take as long again.
    """
    if problem.scenario.objective == "min-ttft":
        found = network_quickest(problem, time_limit_s, is_explained)
        return Fleet(**Told(found.problem, found.solution).fleet()), found.ttft_s, found.solution
    solution = network_search(problem, time_limit_s)
    if solution is None:
        raise infeasible_network(problem) if is_explained else _infeasible(problem)
    unit = 1.0 if problem.is_min_cost else problem.mean_req_per_s
    return Fleet(**Told(problem, solution).fleet()), solution.objective * unit, solution


def network_decided(problem: NetworkProblem, time_limit_s: float = 60.0) -> tuple[bool, float]:
    """Whether prefill elsewhere is worth it, and the gap of the plan that says so; raises as `network_plan` does.

    Raises:
        UndecidedError: also where the fleet that it is held against was not found in the time.
    """
    limit = TimeLimit.of(time_limit_s)
    if problem.scenario.objective == "min-ttft":
        found = network_quickest(problem, limit.part_s(PLAN_PART), is_explained=False)
        alone, _ = sites_alone(found.problem, limit.left_s)
        plan, known = Fleet(**Told(found.problem, found.solution).fleet()), alone is not None
        worth, gap = verdict_by_ttft(found, plan, alone).worth_it, found.gap
    else:
        plan, _, solution = network_outcome(problem, limit.part_s(PLAN_PART), is_explained=False)
        others, _, known = baselines_of(problem, plan, limit.left_s)
        worth, gap = verdict_of(problem, plan, others, known).worth_it, solution.gap
    if not known:
        raise UndecidedError(f"{problem.scenario.name}: what sites on their own serve was not found out in the time")
    return worth, gap


def _infeasible(problem: NetworkProblem) -> InfeasibleError:
    return InfeasibleError(f"{problem.scenario.name}: infeasible: no fleet serves this demand as promised")


def network_quickest(problem: NetworkProblem, time_limit_s: float = 60.0, is_explained: bool = True) -> QuickestNetwork:
    """The least TTFT of a resolved scenario with that objective, and its plan; raises as `network_plan` does."""
    found = quickest_network(problem, time_limit_s)
    if found is None:
        raise infeasible_network(problem) if is_explained else _infeasible(problem)
    return found


def quickest_explained(problem: NetworkProblem, found: QuickestNetwork, time_limit_s: float = 60.0) -> Plan:
    """The plan with the least TTFT, and whether sites on their own could promise that."""
    limit = TimeLimit.of(time_limit_s)
    alone, missing = sites_alone(found.problem, limit.part_s(BASELINES_PART))
    fleet = Fleet(**Told(found.problem, found.solution).fleet())
    verdict = verdict_by_ttft(found, fleet, alone)
    worth = quickest_bottlenecks(problem, found, limit.part_s(WORTH_PART))
    proof = (found.gap, QUICKEST_GAP, found.bound_s)
    plan = _plan(found.problem, found.solution, proof, verdict, (), worth, missing)
    kept = f"the TTFT that is kept is {number(found.ttft_s)} s, and {number(found.bound_s)} s is proven not to be"
    return plan.model_copy(update={"objective": "min-ttft", "notes": (kept, *plan.notes)})


def _plan(
    problem: NetworkProblem,
    solution: NetworkSolution,
    proof: tuple[float, float, float],
    verdict: Verdict,
    others: tuple[Baseline, ...],
    bottlenecks: tuple[Bottleneck, ...],
    missing: Sequence[str],
) -> Plan:
    """A plan in full; the proof is its gap, the gap that counts as none, and the bound in the objective's unit."""
    answer, scenario = Told(problem, solution), problem.scenario
    fields = answer.fleet()
    gap, target, bound = proof
    return Plan(
        **fields,
        scenario=scenario.name,
        objective=scenario.objective,
        status="optimal" if gap <= 1.01 * target else "feasible",
        gap=gap,
        bound=bound,
        capacity_rule="expected-work",
        prefill_to_decode=_ratio(Fleet(**fields)),
        bottlenecks=bottlenecks,
        verdict=verdict,
        classes=tuple(answer.classes()),
        periods=tuple(answer.periods()) if scenario.periods else (),
        survives=tuple(f"{loss.kind}:{loss.name}" for loss in problem.losses()),
        baselines=others,
        free_routing=None,
        sweep=None,
        notes=(*_notes(problem, Fleet(**fields)), *missing),
    )


def _ratio(fleet: Fleet) -> str | None:
    prefill = sum(p.n_instances for p in fleet.pools if p.role == "prefill")
    return f"{prefill}:{sum(p.n_instances for p in fleet.pools if p.role == 'decode')}"


def _candidates(problem: NetworkProblem) -> list[Candidate]:
    return [
        Candidate(
            pool.name,
            problem.scenario.pools[pool.key].model_copy(update={"layout": pool.layout, "layouts": ()}),
            pool.rates,
            tuple((problem.classes[c].share, problem.classes[c].mix) for c in pool.classes),
        )
        for pool in problem.pools
    ]


def _notes(problem: NetworkProblem, fleet: Fleet) -> Iterator[str]:
    if any(c.ttft_s is not None for c in problem.classes):
        yield (
            "a promise on TTFT is kept over all pools that serve a class together, waits for a place in a decode batch "
            f"included; links are at most {percent(LINK_BUSY, 0)} busy on average"
        )
    for spec in problem.classes:
        yield from context_notes(problem.scenario, spec.name, spec.mix)
    used = {pool.name for pool in fleet.pools if pool.n_instances}
    for of_pool in (pool for pool in problem.pools if pool.name in used):
        yield from oversized_notes(of_pool.name, of_pool.rates, (problem.classes[c].mix for c in of_pool.classes))
    for hardware, basis in dict.fromkeys((p.hardware, p.basis) for p in fleet.pools if p.basis != "measured"):
        yield f"service times of some pools of {hardware} are {basis}"
    yield from setup_notes(problem.scenario, _candidates(problem))
    yield from price_notes(problem, fleet)
