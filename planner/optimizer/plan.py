"""From a scenario to a plan."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from time import monotonic

from planner.errors import InfeasibleError
from planner.optimizer.baselines import baselines
from planner.optimizer.context import context_notes
from planner.optimizer.delays import SATURATED
from planner.optimizer.fleet import class_plans, fleet_fields
from planner.optimizer.free_routing import free_routing
from planner.optimizer.infeasibility import infeasible
from planner.optimizer.latency import extrapolated_fraction, has_queueing_model, leaving_tokens, longest_sent
from planner.optimizer.least_ttft import GAP as TTFT_GAP
from planner.optimizer.network.answer import network_outcome, network_plan
from planner.optimizer.network.problem import NetworkProblem, network_problem
from planner.optimizer.network.solution import NetworkSolution
from planner.optimizer.one_site import adoption
from planner.optimizer.problem import ClassSpec, PlanningProblem, planning_problem
from planner.optimizer.promise import GAP as PROMISE_GAP
from planner.optimizer.promise import MOST_BUSY
from planner.optimizer.promised_search import search
from planner.optimizer.room import oversized_notes
from planner.optimizer.search import GAP_TARGET, Solution
from planner.optimizer.sensitivity import bottlenecks, sweep
from planner.optimizer.software import Candidate, price_notes, setup_notes
from planner.optimizer.verdict import DECISIVE, verdict
from planner.results import Fleet, Plan, PoolPlan, Verdict
from planner.scenario import Scenario
from planner.units import MILLI, number, percent

TIME_LIMIT_S = 60.0
BUSY = 0.95
BASES = {
    "calibrated": "calibrated on other measurements",
    "inferred": "inferred, not measured",
    "datasheet": "the bare datasheet's, which no software reaches",
}
"""What a pool's service times are where nobody measured them."""
CROWDED = 0.01
"""Share of a prefill instance's room, for caches that still leave, that goes without saying."""
UNMEASURED = 0.01
"""Share of prompts beyond the measured lengths that goes without saying."""


def optimize(scenario: Scenario, data_dirs: Sequence[Path] = (), time_limit_s: float = TIME_LIMIT_S) -> Plan:
    """The plan of a scenario.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds the search may take.

    Returns:
        Sizes, thresholds, links, latency, cost, baselines and verdict.

    Raises:
        InputError: the scenario cannot be resolved.
        InfeasibleError: it is proven that no plan exists.
        UndecidedError: time is up without a plan or a proof.
    """
    if scenario.is_network:
        return network_plan(scenario, data_dirs, time_limit_s)
    return optimized(planning_problem(scenario, data_dirs), time_limit_s)


@dataclass(frozen=True)
class Outcome:
    """A planned fleet with what it was planned from, for studies that plan again and again."""

    fleet: Fleet
    objective: float
    """Highest rate or goodput [req/s], bill [USD/h], or TTFT at the percentile asked for [s]."""
    problem: PlanningProblem | NetworkProblem
    solution: Solution | NetworkSolution


def outcome(
    scenario: Scenario,
    data_dirs: Sequence[Path] = (),
    time_limit_s: float = TIME_LIMIT_S,
    classes: tuple[ClassSpec, ...] | None = None,
) -> Outcome:
    """The fleet of a scenario of either kind and its objective, without what explains it; raises as `optimize` does.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds the search may take.
        classes: the classes of another problem with the same workload, so that a trace is read once.
    """
    if scenario.is_network:
        network = network_problem(scenario, data_dirs)
        fleet, objective, found = network_outcome(network, time_limit_s)
        return Outcome(fleet, objective, network, found)
    problem = planning_problem(scenario, data_dirs, classes)
    solution = solved(problem, time_limit_s)
    return Outcome(planned_at(problem, solution), solution.objective, problem, solution)


def planned_fleet(problem: PlanningProblem, time_limit_s: float = TIME_LIMIT_S) -> Fleet:
    """The fleet of a resolved scenario alone; raises as `optimize` does."""
    return planned_at(problem, solved(problem, time_limit_s, is_explained=False))


def decided(problem: PlanningProblem, time_limit_s: float = TIME_LIMIT_S) -> Verdict:
    """The verdict on a resolved scenario, without what explains it; raises as `optimize` does."""
    solution = solved(problem, time_limit_s, is_explained=False)
    fleet, scenario = planned_at(problem, solution), problem.scenario
    compared = baselines(scenario, problem.classes, fleet, monotonic() + time_limit_s, DECISIVE)
    return verdict(scenario, problem.classes, fleet, solution.gap, compared)


def optimized(problem: PlanningProblem, time_limit_s: float = TIME_LIMIT_S) -> Plan:
    """The plan of a resolved scenario; raises as `optimize` does."""
    return explained(problem, solved(problem, time_limit_s), time_limit_s)


def solved(problem: PlanningProblem, time_limit_s: float = TIME_LIMIT_S, is_explained: bool = True) -> Solution:
    """The best sizes and thresholds of a resolved scenario; raises as `optimize` does.

    Args:
        problem: the resolved scenario.
        time_limit_s: seconds the search may take.
        is_explained: whether, where no plan exists, what would do is looked for: that may take half as long again.
    """
    solution = search(problem, time_limit_s)
    if solution is None and is_explained:
        raise infeasible(problem.scenario, problem.classes, time_limit_s)
    if solution is None:
        raise InfeasibleError(f"{problem.scenario.name}: infeasible: no fleet within the limits does what is asked")
    return solution


def planned_at(problem: PlanningProblem, solution: Solution) -> Fleet:
    """The fleet of a solution at the rate the plan is for."""
    return Fleet(**fleet_fields(problem, solution))


def at_rate(problem: PlanningProblem, solution: Solution, req_per_s: float) -> Fleet:
    """The same sizes and thresholds at another rate, at most the highest they serve [req/s]."""
    operating = solution.operating.scaled_to(min(req_per_s, solution.highest.rate))
    return Fleet(**fleet_fields(problem, solution, operating))


def explained(problem: PlanningProblem, solution: Solution, time_limit_s: float = TIME_LIMIT_S) -> Plan:
    """The plan that a solution is, with baselines, shadow prices and verdict; raises as `optimize` does."""
    scenario = problem.scenario
    fields = fleet_fields(problem, solution)
    fleet = Fleet(**fields)
    compared = baselines(scenario, problem.classes, fleet, monotonic() + time_limit_s)
    return Plan(
        **fields,
        scenario=scenario.name,
        objective=scenario.objective,
        status="optimal" if solution.gap <= _tolerance(problem, solution) else "feasible",
        gap=solution.gap,
        bound=solution.bound,
        capacity_rule=scenario.capacity_rule,
        prefill_to_decode=_ratio(fleet.pools),
        bottlenecks=bottlenecks(problem, solution),
        verdict=verdict(scenario, problem.classes, fleet, solution.gap, compared),
        classes=class_plans(problem, solution),
        baselines=compared.others,
        free_routing=None if _is_about_time(problem, solution) else free_routing(problem, solution),
        sweep=sweep(problem, solution),
        notes=(
            *_notes(problem, solution, fleet),
            *compared.notes,
            *adoption(scenario, fleet, compared.others),
        ),
    )


def _tolerance(problem: PlanningProblem, solution: Solution) -> float:
    """Gap that counts as none: goodput and TTFT are proven less closely than capacity."""
    if problem.is_min_ttft:
        return 1.01 * TTFT_GAP
    return 10 * GAP_TARGET if solution.goodput is None else 1.01 * PROMISE_GAP


def _is_about_time(problem: PlanningProblem, solution: Solution) -> bool:
    """Whether the plan promises a TTFT or seeks the least."""
    return solution.goodput is not None or problem.is_min_ttft


def _ratio(pools: Sequence[PoolPlan]) -> str | None:
    prefill = sum(p.n_instances for p in pools if p.prompts == "short")
    decode = sum(p.n_instances for p in pools if p.role == "decode")
    return f"{prefill}:{decode}" if any(p.prompts == "short" for p in pools) else None


def _notes(problem: PlanningProblem, solution: Solution, fleet: Fleet) -> Iterator[str]:
    demand = problem.scenario.demand_req_per_s
    if demand is not None and demand > solution.highest.rate:
        yield f"the demand of {number(demand)} req/s exceeds what the fleet serves: stated at its highest rate instead"
    if fleet.latency.ttft_mean_s is None:
        yield (
            "a pool or link is saturated at this rate: its queue has no steady state, TTFT under load is unknown; "
            "state a demand_req_per_s below the highest rate to see it"
            if has_queueing_model(problem)
            else "waiting times are known for dispatch = shared-queue with prefill_batching = one-at-a-time only; "
            "any other TTFT under load is certified by the executor only"
        )
    if _is_about_time(problem, solution):
        what = "TTFT" if problem.is_min_ttft else "promise on TTFT"
        yield (
            f"the {what} counts waits for prefill, for a shared link and for a place in a decode batch; decode and "
            f"links are planned at most {percent(MOST_BUSY, 0)} busy"
        )
    yield from _room_notes(problem, solution)
    for spec in problem.classes:
        yield from context_notes(problem.scenario, spec.name, spec.mix)
    yield from _doubts(problem, solution, fleet)
    for pool in fleet.pools:
        if pool.basis != "measured" and pool.n_instances:
            how = BASES[pool.basis] + _by_roofline(problem, pool.name)
            yield f"service times of {pool.name} ({pool.hardware}) are {how}"
    yield from setup_notes(problem.scenario, _candidates(problem))
    yield from price_notes(problem, fleet)


def _room_notes(problem: PlanningProblem, solution: Solution) -> Iterator[str]:
    """Pools without room: of prefill beside the caches that still leave on average, of decode for the longest."""
    for i, pool in enumerate(problem.pools):
        if solution.sizing.n_instances[i]:
            yield from oversized_notes(pool.name, pool.rates, (c.mix for c in problem.classes))
        room, leaving = pool.rates.longest_tokens, 0.0
        if pool.role == "prefill" and isfinite(room):
            leaving = leaving_tokens(problem, solution, i)
        longest = longest_sent(problem, solution, i)
        if leaving > CROWDED * room and longest + leaving > room:
            yield (
                f"an instance of {pool.name} has room for {room:,.0f} tokens, for its longest prompt of {longest:,.0f} "
                f"not beside the {number(leaving)} whose caches are still leaving on average: prompts wait for room, "
                "which the plan's latency does not count and the executor does"
            )


def _candidates(problem: PlanningProblem) -> list[Candidate]:
    classes = tuple((c.share, c.mix) for c in problem.classes)
    pools = problem.scenario.pools
    return [Candidate(spec.name, pools[spec.name], spec.rates, classes) for spec in problem.pools]


def _by_roofline(problem: PlanningProblem, name: str) -> str:
    """The stack, and the batch it decodes at, of a pool whose times are the roofline's."""
    rates = next(pool.rates for pool in problem.pools if pool.name == name)
    if rates.stack is None:
        return ""
    batch = f", {rates.decode.batch} sequences at {number(rates.decode.step_s / MILLI)} ms" if rates.decode else ""
    return f": the roofline's with the factors of {rates.stack}{batch}"


def _doubts(problem: PlanningProblem, solution: Solution, fleet: Fleet) -> Iterator[str]:
    """What makes figures doubtful: queues near saturation, curves beyond their points, a rule that knows no prefix."""
    for pool in fleet.pools:
        if BUSY < pool.utilization < SATURATED:
            yield f"{pool.name} is {percent(pool.utilization)} busy: waits are long, and any error in its times adds up"
    for i, spec in enumerate(problem.pools):
        beyond = extrapolated_fraction(problem, solution, i)
        if spec.rates.prefill and beyond > UNMEASURED:
            low, high = spec.rates.prefill.curve.measured_tokens
            yield (
                f"{percent(beyond)} of the prompts of {spec.name} are outside the {low:,.0f} to {high:,.0f} tokens its "
                "prefill times are known for, and extrapolated"
            )
    if problem.scenario.capacity_rule == "mean-length" and any(c.mix.cached_fraction > 0 for c in problem.classes):
        yield "mean-length takes the mean uncached length for a whole prompt; with prefix hits trust expected-work"
