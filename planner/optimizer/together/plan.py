"""The plan of a scenario with a colocated pool."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from planner.errors import InfeasibleError
from planner.notes import Note, note
from planner.optimizer.colocated.doubted import by_run_alone
from planner.optimizer.context import context_notes
from planner.optimizer.disaggregation import apart_instead, without_bursts
from planner.optimizer.infeasibility import Trials, infeasible
from planner.optimizer.problem import ClassSpec, requests_by_name
from planner.optimizer.served import served_models
from planner.optimizer.spare import spare_notes
from planner.optimizer.time_limit import TimeLimit, wall_notes
from planner.optimizer.together.compared import compared
from planner.optimizer.together.planned import Together, bottlenecks, together
from planner.optimizer.together.question import question_of
from planner.optimizer.verdict import verdict
from planner.results import Plan
from planner.scenario import Scenario, question_notes
from planner.units import number, percent

PLAN_PART, BASELINES_PART, SPARE_PART = 0.6, 0.6, 0.4
"""Of the time that is left: what the search may take, what it is compared with, and the plan without spare."""
BUSY, FULL = 0.95, 1 - 1e-9


@dataclass(frozen=True)
class Explained:
    """A plan in full, and what it was made of."""

    plan: Plan
    found: Together


def together_found(
    scenario: Scenario,
    data_dirs: Sequence[Path],
    time_limit_s: float,
    classes: Sequence[ClassSpec] = (),
    is_explained: bool = True,
    trials: Trials | None = None,
) -> Together:
    """The best fleet; raises InfeasibleError with what would do where there is none, else as `together` does.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds the search may take.
        classes: those of another question with the same requests, so that a trace is read once.
        is_explained: whether, where there is none, what would do is looked for.
        trials: how what would do is run; None: it is only predicted.
    """
    found = together(scenario, data_dirs, time_limit_s, classes)
    if found is None and not is_explained:
        raise InfeasibleError(f"{scenario.name}: infeasible: no fleet serves this demand as promised")
    if found is None:
        limit = TimeLimit.of(time_limit_s)
        question = question_of(scenario, data_dirs, limit.deadline)
        raise infeasible(scenario, question.classes, time_limit_s, trials=trials)
    return found


def together_plan(scenario: Scenario, data_dirs: Sequence[Path] = (), time_limit_s: float = 60.0) -> Explained:
    """The plan of a scenario with a colocated pool, with what it is compared with; raises as `optimize` does.

    Args:
        scenario: the question.
        data_dirs: folders in which traces are looked for.
        time_limit_s: seconds that all of it may take.
    """
    limit = TimeLimit.of(time_limit_s)
    return together_explained(together_found(scenario, data_dirs, limit.part_s(PLAN_PART)), limit.left_s)


def together_explained(found: Together, time_limit_s: float) -> Explained:
    """The plan of a fleet that was found, with what it is compared with.

    Args:
        found: the fleet, and the question that it answers.
        time_limit_s: seconds that may take; what is not known by then is left out.
    """
    scenario, limit = found.question.scenario, TimeLimit.of(time_limit_s)
    found = found.until(limit.deadline)
    fleet, best = found.fleet, found.best
    others = compared(found, fleet, TimeLimit.of(limit.part_s(BASELINES_PART)).deadline)
    said = verdict(scenario, found.question.classes, fleet, best.gap, others)
    apart, uneven = without_bursts(scenario, apart_instead(scenario, fleet, best.gap, others))
    spare = spare_notes(scenario, found.question.classes, fleet, TimeLimit.of(limit.part_s(SPARE_PART)).deadline)
    plan = Plan(
        **dict(fleet),
        scenario=scenario.name,
        objective=scenario.objective,
        status="optimal" if best.is_optimal else "feasible",
        gap=best.gap,
        bound=found.bound,
        capacity_rule=scenario.capacity_rule,
        models=served_models(scenario),
        prefill_to_decode=None,
        bottlenecks=bottlenecks(found),
        verdict=said.model_copy(update={"disaggregation": apart}),
        classes=tuple(found.stated.classes()),
        survives=tuple(f"{loss.kind}:{loss.name}" for loss in best.pairing.problem.losses()),
        baselines=others.others,
        free_routing=None,
        sweep=None,
        notes=(*_notes(found), *uneven, *spare, *others.notes),
    )
    return Explained(plan, found)


def _notes(found: Together) -> Iterator[Note]:
    question, fleet = found.question, found.fleet
    demand = question.problem.demand_req_per_s
    if demand is not None and demand > fleet.throughput_req_per_s * (1 + 1e-9):
        yield note(
            "demand-not-served",
            f"the demand of {number(demand)} req/s exceeds what the fleet serves: stated at its highest rate instead",
        )
    if fleet.latency.ttft_mean_s is None:
        yield _unknown_wait(found)
    elif (joined := found.queue) is not None:
        colocated = found.best.pairing.colocated
        yield from by_run_alone(joined.queue, colocated.rates.setup.layout, colocated.name)
    if question.promise.ttft_s is not None or question.problem.is_min_ttft:
        what = "the wait for a place in the batch, those for other prompts and, where they leave, prefill and the link"
        yield note("promise-counts", f"the TTFT counts {what}")
    for one in question.looked_at:
        n, kept = len(one.kept), "; ".join(one.kept)
        text = f"of {one.n_tried} layouts of {one.pool} {one.n_fit} hold the model; plans were compared of {n}: {kept}"
        yield note("layouts-considered", text)
    sizes = sorted({way.tokens_per_pass for way in question.ways})
    if len(sizes) > 1:
        yield note("passes-considered", f"passes of {', '.join(map(str, sizes))} tokens were compared")
    yield from question_notes(question.scenario)
    yield from wall_notes()
    for name, (_, mix) in requests_by_name(question.classes).items():
        yield from context_notes(question.scenario, name, mix)
    for pool in fleet.pools:
        if BUSY < pool.utilization < FULL:
            busy = percent(pool.utilization)
            yield note("nearly-full", f"{pool.name} is {busy} busy: waits are long, and any error in its times adds up")


def _unknown_wait(found: Together) -> Note:
    """Why no TTFT under load is stated."""
    if any(c.arrival_scv != 1.0 for c in found.question.classes):
        return note("waits-not-modelled", "waiting times of a colocated pool are known for Poisson arrivals only")
    return note(
        "queue-saturated",
        "a pool or link is saturated at this rate: its queue has no steady state, TTFT under load is unknown; "
        "state a demand_req_per_s below the highest rate to see it",
    )
