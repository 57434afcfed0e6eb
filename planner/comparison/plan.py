"""From a scenario to a plan."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from planner.comparison.baselines import baselines
from planner.comparison.batch_doubts import batch_doubts
from planner.comparison.doubts import calibration_notes, length_notes, room_notes
from planner.comparison.evaluation import Evaluation, evaluation, evaluation_at
from planner.comparison.infeasibility import Trials, infeasible
from planner.comparison.margins import ALTERNATIVES
from planner.comparison.one_site import adoption
from planner.comparison.planned import Planned
from planner.comparison.population import posed_problem
from planner.comparison.scenario_models import scenario_models
from planner.comparison.schedule import schedule_of, spare_notes
from planner.comparison.software import PoolCandidate, price_notes, setup_notes
from planner.comparison.verdict import verdict
from planner.errors import InfeasibleError, UndecidedError
from planner.notes import Note, note
from planner.optimizer.context import context_notes
from planner.optimizer.delays import SATURATED
from planner.optimizer.free_routing import free_routing
from planner.optimizer.goodput import MOST_BUSY
from planner.optimizer.layout_choice import LAYOUTS_PART, layout_notes
from planner.optimizer.network.loads import LINK_BUSY
from planner.optimizer.prices import shadow_prices
from planner.optimizer.problem import Problem
from planner.optimizer.problem_parts import ClassSpec, requests_by_name
from planner.optimizer.single_route import sweep
from planner.optimizer.solution import Solution, objective_unit
from planner.optimizer.strategies import best_solution
from planner.optimizer.time_limit import TimeLimit, nothing_found, wall_notes
from planner.results.plan import Baseline, Fleet, Plan, PoolPlan, Verdict
from planner.results.plan_parts import Bottleneck
from planner.scenario import Scenario, question_notes
from planner.units import MILLI, number, percent
from planner.work_clock import work_s

TIME_LIMIT_S = 60.0
PLAN_PART = 0.6
"""Of the time limit of a command that choosing layouts leaves, what the search of the plan may take;"""
BASELINES_PART = 0.5
"""of what that leaves, the fleets that it is compared with;"""
SPARE_PART = 0.5
"""of what those leave, the plan without spare; the rest is for shadow prices."""
BUSY = 0.95
MANY_POOLS = 12
"""Pools from which on notes name kinds of accelerators instead."""
BASES = {
    "calibrated": "calibrated on other measurements",
    "inferred": "inferred, not measured",
    "datasheet": "the bare datasheet's, which no software reaches",
}
"""What a pool's service times are where nobody measured them."""


def optimize(scenario: Scenario, data_dirs: Sequence[Path] = (), time_limit_s: float = TIME_LIMIT_S) -> Plan:
    """The plan of a scenario.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds that all of it may take: the plan, what it is compared with, and shadow prices.

    Returns:
        Sizes, thresholds, links, latency, cost, baselines and verdict.

    Raises:
        InputError: the scenario cannot be resolved.
        InfeasibleError: it is proven that no plan exists.
        UndecidedError: time is up without a plan or a proof.
    """
    limit = TimeLimit.of(time_limit_s)
    problem = posed_problem(scenario, data_dirs, time_limit_s=limit.part_s(LAYOUTS_PART))
    return optimized(problem, limit.left_s)


def best_fleet(
    scenario: Scenario,
    data_dirs: Sequence[Path] = (),
    time_limit_s: float = TIME_LIMIT_S,
    classes: Sequence[ClassSpec] = (),
) -> Planned:
    """The fleet of a scenario, without what explains it; raises as `optimize` does.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds the search may take.
        classes: those of another problem with the same requests, so that a trace is read once.
    """
    limit = TimeLimit.of(time_limit_s)
    problem = posed_problem(scenario, data_dirs, classes, limit.part_s(LAYOUTS_PART))
    return Planned(problem, solved(problem, limit.left_s))


def optimized(problem: Problem, time_limit_s: float = TIME_LIMIT_S) -> Plan:
    """The plan of a problem; raises as `optimize` does."""
    limit = TimeLimit.of(time_limit_s)
    return explained(problem, solved(problem, limit.part_s(PLAN_PART)), limit.left_s)


def solved(
    problem: Problem,
    time_limit_s: float = TIME_LIMIT_S,
    is_explained: bool = True,
    laxer: Solution | None = None,
    trials: Trials | None = None,
) -> Solution:
    """The best sizes, ways and thresholds of a problem; raises as `optimize` does.

    Args:
        problem: the question.
        time_limit_s: seconds the search may take.
        is_explained: whether, where no plan exists, what would do is looked for: that may take as long again.
        laxer: what was found for the same question with a laxer promise or a lower demand: a network's search begins
            with its bound, and ends with a plan that is about as near to it.
        trials: how what would do is run; None: it is only predicted.
    """
    solution = best_solution(problem, time_limit_s, laxer=laxer)
    if solution is not None:
        return _with_open_layouts(problem, solution)
    if problem.open_bound is not None:
        raise nothing_found(is_time_up=True, looked_at="the layouts")
    if is_explained:
        raise infeasible(problem.scenario, problem.classes, time_limit_s, trials=trials)
    raise InfeasibleError(f"{problem.scenario.name}: infeasible: no fleet serves this demand as promised")


def _with_open_layouts(problem: Problem, solution: Solution) -> Solution:
    """A solution whose bound holds for the other layouts too."""
    if problem.open_bound is None:
        return solution
    worse = min if problem.is_min_cost or problem.is_min_ttft else max
    return replace(solution, bound=worse(solution.bound, problem.open_bound))


def decided(problem: Problem, time_limit_s: float = TIME_LIMIT_S) -> tuple[Verdict, float]:
    """The verdict on a problem, without what explains it, and the gap of its plan; raises as `optimize` does.

    Raises:
        UndecidedError: also where nothing is known of an opponent that decides it.
    """
    limit = TimeLimit.of(time_limit_s)
    solution = solved(problem, limit.part_s(PLAN_PART), is_explained=False)
    fleet = Planned(problem, solution).fleet
    compared = baselines(problem, fleet, work_s() + limit.left_s, ALTERNATIVES)
    found = verdict(problem.scenario, problem.classes, fleet, solution.gap, compared)
    if not found.decided and compared.unknown:
        name = problem.scenario.name
        raise UndecidedError(f"{name}: what sites on their own serve is not known")
    return found, solution.gap


def explained(
    problem: Problem,
    solution: Solution,
    time_limit_s: float = TIME_LIMIT_S,
    answer: Evaluation | None = None,
    trials: Trials | None = None,
) -> Plan:
    """The plan that a solution is, with baselines, shadow prices and verdict.

    Args:
        problem: the question that other fleets are planned for.
        solution: the plan.
        time_limit_s: seconds that all of it may take.
        answer: the plan at what it is stated for, where that is another demand; None: that of the question.
        trials: run cheaper fleets beside it whose times no model predicts well; None: nothing is run.
    """
    limit, answer = TimeLimit.of(time_limit_s), answer or evaluation(problem, solution)
    fleet, scenario = Fleet(**answer.fleet()), problem.scenario
    compared = baselines(problem, fleet, work_s() + limit.part_s(BASELINES_PART), trials=trials)
    found = verdict(scenario, problem.classes, fleet, solution.gap, compared)
    spare = spare_notes(scenario, problem.classes, fleet, work_s() + limit.part_s(SPARE_PART))
    notes = (*spare, *compared.notes, *adoption(scenario, fleet, compared.others))
    prices = shadow_prices(problem, solution, limit.left_s)
    return _plan(problem, solution, answer, found, compared.others, prices, notes)


def sketched(problem: Problem, solution: Solution, req_per_s: float | None = None) -> Plan:
    """A solution as a plan that can be run: without what it is compared with, what binds, or its goodput where pools
    are colocated.

    Args:
        problem: the question.
        solution: its plan.
        req_per_s: rate that it is stated at, at most the highest it serves; None: the rate that it is for [req/s].
    """
    its_verdict = Verdict(worth_it=False, because="Not compared with other fleets.")
    if req_per_s is None:
        answer = evaluation(problem, solution, is_brief=True)
    else:
        answer = evaluation_at(problem, solution, req_per_s, is_brief=True)
    plan = _plan(problem, solution, answer, its_verdict, (), (), ())
    return plan if problem.is_plain else plan.model_copy(update={"periods": tuple(answer.periods())})


def _plan(
    problem: Problem,
    solution: Solution,
    answer: Evaluation,
    its_verdict: Verdict,
    others: tuple[Baseline, ...],
    prices: tuple[Bottleneck, ...],
    missing: Sequence[Note],
) -> Plan:
    scenario, routed = problem.scenario, solution.routed
    fields = answer.fleet()
    fleet = Fleet(**fields)
    is_about_capacity = problem.is_plain and problem.is_capacity_only
    return Plan(
        **fields,
        scenario=scenario.name,
        objective=scenario.objective,
        status="optimal" if solution.is_optimal else "feasible",
        gap=solution.gap,
        bound=solution.bound * objective_unit(problem),
        capacity_rule=scenario.capacity_rule,
        models=scenario_models(scenario),
        prefill_to_decode=_ratio(fleet.pools),
        bottlenecks=prices,
        verdict=its_verdict,
        classes=tuple(answer.classes()),
        periods=tuple(answer.periods()) if answer.has_periods else (),
        schedule=schedule_of(problem, solution),
        survives=tuple(f"{loss.kind}:{loss.name}" for loss in problem.losses()),
        baselines=others,
        free_routing=free_routing(problem, solution, answer.highest_req_per_s) if is_about_capacity else None,
        sweep=None if routed is None else sweep(problem, routed),
        notes=(*_notes(problem, solution, fleet), *missing),
    )


def _ratio(pools: Sequence[PoolPlan]) -> str | None:
    """Prefill instances that take short prompts to decode instances."""
    near = [p.n_instances for p in pools if p.role == "prefill" and p.prompts != "long"]
    return f"{sum(near)}:{sum(p.n_instances for p in pools if p.role == 'decode')}" if near else None


def _hand_off_notes(problem: Problem, fleet: Fleet) -> Iterator[Note]:
    """That caches move within a site in no time, where pools are apart in one that states no fabric."""
    used = {pool.site for pool in fleet.pools if pool.n_instances}
    if fleet.serving == "separate" and any(problem.scenario.sites[site].fabric_gbps is None for site in used):
        text = "the hand-off of caches between pools is not counted: the site states no fabric_gbps"
        yield note("hand-off-not-counted", text)


def _notes(problem: Problem, solution: Solution, fleet: Fleet) -> Iterator[Note]:
    demand, found = problem.demand_req_per_s, solution.scale * problem.mean_req_per_s
    if problem.is_min_ttft and solution.routed is None:
        kept, bound = number(solution.objective), number(solution.bound)
        yield note("ttft-proven", f"the TTFT that is kept is {kept} s, and {bound} s is proven not to be")
    if demand is not None and demand > found * (1 + 1e-9):
        yield note(
            "demand-not-served",
            f"the demand of {number(demand)} req/s exceeds what the fleet serves: stated at its highest rate instead",
        )
    if fleet.latency.ttft_mean_s is None:
        yield _unknown_wait(problem)
    yield from _slo_notes(problem)
    yield from layout_notes(problem)
    yield from _unused_notes(problem)
    yield from room_notes(problem, solution)
    yield from _batch_notes(problem, solution)
    yield from _hand_off_notes(problem, fleet)
    yield from question_notes(problem.scenario)
    yield from wall_notes(problem.cut_offs_before)
    for name, (_, mix) in requests_by_name(problem.classes).items():
        yield from context_notes(problem.scenario, name, mix)
    yield from _doubts(problem, solution, fleet)
    yield from _basis_notes(problem, fleet)
    yield from setup_notes(problem.scenario, _candidates(problem))
    yield from price_notes(problem, fleet)


def _batch_notes(problem: Problem, solution: Solution) -> Iterator[Note]:
    """Notes on colocated pools: passes that were compared, and where the model of their queues is off."""
    for key in dict.fromkeys(pool.key for pool in problem.pools if pool.batching is not None):
        sizes = sorted({p.batching.tokens_per_pass for p in problem.pools if p.key == key and p.batching is not None})
        if len(sizes) > 1:
            yield note("passes-considered", f"passes of {', '.join(map(str, sizes))} tokens were compared")
    if not (problem.has_batches and problem.has_queueing_model):
        return
    is_timed = problem.is_min_ttft or any(c.ttft_s is not None for c in problem.classes)
    if is_timed and any(c.arrival_scv != 1.0 for c in problem.classes):
        what = "waits for the batches of colocated pools are those of independent users, and requests arrive otherwise"
        yield note("batches-without-bursts", f"{what}: a run alone says whether the promise is kept")
    yield from batch_doubts(problem, solution)


def _unknown_wait(problem: Problem) -> Note:
    """Why no TTFT under load is stated."""
    if problem.has_queueing_model:
        return note(
            "queue-saturated",
            "a pool or link is saturated at this rate: its queue has no steady state, TTFT under load is unknown; "
            "state a demand_req_per_s below the highest rate to see it",
        )
    return note(
        "waits-not-modelled",
        "waiting times are known for dispatch = shared-queue with prefill_batching = one-at-a-time only; "
        "any other TTFT under load is certified by the executor only",
    )


def _slo_notes(problem: Problem) -> Iterator[Note]:
    """Notes on what a promise on TTFT counts with."""
    promised = any(c.ttft_s is not None for c in problem.classes)
    if problem.is_plain and (promised or problem.is_min_ttft):
        what = "TTFT" if problem.is_min_ttft else "promise on TTFT"
        yield note(
            "promise-counts",
            f"the {what} counts waits for prefill, for a shared link and for a place in a decode batch; decode and "
            f"links are planned at most {percent(MOST_BUSY, 0)} busy",
        )
    elif promised:
        yield note(
            "promise-of-class",
            "a promise on TTFT is kept over all pools that serve a class together, waits for a place in a decode batch "
            f"included; links are at most {percent(LINK_BUSY, 0)} busy on average",
        )


def _unused_notes(problem: Problem) -> Iterator[Note]:
    """Pools that no request can reach."""
    reached = {arc.pool for arcs in problem.arcs for part in arcs.values() for arc in part}
    for i, pool in enumerate(problem.pools):
        if not pool.classes:
            yield note("pool-unreachable", f"pool {pool.name} is of no use: no class of requests is for its model")
        elif pool.is_prefill and i not in reached and not pool.is_empty:
            yield note(
                "pool-unreachable", f"pool {pool.name} is of no use: no link joins it to a pool that decodes its model"
            )


def _basis_notes(problem: Problem, fleet: Fleet) -> Iterator[Note]:
    """Service times that nobody measured, by pool, or where there are many by kind of accelerator."""
    used = [pool for pool in fleet.pools if pool.basis != "measured" and pool.n_instances]
    if len(fleet.pools) > MANY_POOLS:
        for hardware, basis in dict.fromkeys((p.hardware, p.basis) for p in used):
            yield note("times-not-measured", f"service times of some pools of {hardware} are {BASES[basis]}")
        return
    for pool in used:
        how = BASES[pool.basis] + _by_roofline(problem, pool.name)
        yield note("times-not-measured", f"service times of {pool.name} ({pool.hardware}) are {how}")


def _candidates(problem: Problem) -> list[PoolCandidate]:
    return [
        PoolCandidate(
            pool.name,
            problem.scenario.pools[pool.key].on_layout(pool.layout),
            pool.rates,
            tuple((problem.classes[c].share, problem.classes[c].mix) for c in pool.classes),
        )
        for pool in problem.pools
    ]


def _by_roofline(problem: Problem, name: str) -> str:
    """The stack, and the batch it decodes at, of a pool whose times are the roofline's."""
    rates = next(pool.rates for pool in problem.pools if name in (pool.name, pool.key))
    if rates.stack is None:
        return ""
    batch = f", {rates.decode.batch} sequences at {number(rates.decode.step_s / MILLI)} ms" if rates.decode else ""
    return f": the roofline's with the factors of {rates.stack}{batch}"


def _doubts(problem: Problem, solution: Solution, fleet: Fleet) -> Iterator[Note]:
    """Doubts about figures: queues near saturation, curves beyond their points, a rule that knows no prefix."""
    for pool in fleet.pools:
        if BUSY < pool.utilization < SATURATED:
            yield note(
                "nearly-full",
                f"{pool.name} is {percent(pool.utilization)} busy: waits are long, and any error in its times adds up",
            )
    yield from length_notes(problem, solution)
    yield from calibration_notes(problem, solution)
    if problem.scenario.capacity_rule == "mean-length" and any(c.mix.cached_fraction > 0 for c in problem.classes):
        yield note(
            "rule-ignores-prefixes",
            "mean-length takes the mean uncached length for a whole prompt; with prefix hits trust expected-work",
        )
