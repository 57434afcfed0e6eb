"""Outcome of a promise in runs, as a plan tells it."""

from collections.abc import Iterator, Mapping, Sequence

from planner.notes import Note, note
from planner.promises.outcomes import STEP, are_undecided
from planner.promises.period_results import PeriodRuns
from planner.promises.tighten import Attempt, PlanCandidate
from planner.results.certified import Promise
from planner.results.plan import Plan
from planner.results.slo_run import DecodeStepRun, SloRun
from planner.scenario import Scenario, Slo
from planner.units import MILLI, usd

NOTHING = 1e-9
"""Part of a bill."""


def with_slo_run(
    plan: Plan, scenario: Scenario, chosen: PlanCandidate, seed: int, n_plans: int, because: str | None
) -> Plan:
    """A plan with what runs made of its promise, and of that of each class.

    Args:
        chosen: the same plan, and what came of it where it was run.
        because: why it was not run, or why it does not keep its promise; None where it does.
    """
    found: dict[str, SloRun] = {}
    for name in scenario.workloads:
        slo = scenario.slo_of(name)
        if slo is not None and (slo.ttft_s is not None or slo.tpot_ms is not None):
            own = _slo_run(chosen, name if name in scenario.classes else None, name, slo)
            extra = {"n_plans": n_plans, "because": because, "seed": seed if own.basis == "executed" else None}
            found[name] = own.model_copy(update=extra)
    return beside_promises(plan, found, _nearest(list(found.values())) if found else None)


def beside_promises(plan: Plan, by_class: Mapping[str, SloRun], nearest: SloRun | None) -> Plan:
    """A plan beside its promises, which is no longer called optimal where a run does not keep them.

    Args:
        nearest: the one that is nearest to breaking; it holds where all do, and is decided where all together are.
    """
    if nearest is None:
        return plan
    runs = by_class.values()
    holds = None if any(one.holds is None for one in runs) else all(one.holds for one in runs)
    is_broken = any(one.outcome == "not kept" for one in runs)
    decided = None if holds is None else holds or is_broken
    classes = tuple(c.model_copy(update={"slo_run": by_class.get(c.name)}) for c in plan.classes)
    run = nearest.model_copy(update={"holds": holds, "decided": decided})
    status = "feasible" if holds is False else plan.status
    return plan.model_copy(update={"slo_run": run, "classes": classes, "status": status})


def decided_of(promises: Sequence[Promise], *, is_run: bool) -> tuple[bool | None, bool | None]:
    """Verdict on promises: if all hold, and if that is decided; twice None where they were not run."""
    return (all(p.holds for p in promises), not are_undecided(promises)) if is_run else (None, None)


def cheaper_undecided(
    tried: Sequence[PeriodRuns], usd_per_hour: Sequence[float], chosen_usd_per_hour: float
) -> Iterator[Note]:
    """That a cheaper fleet than the one that is printed may keep the promise too, and its run does not tell."""
    costs = [each for one, each in zip(tried, usd_per_hour, strict=True) if one.is_undecided]
    least = min(costs, default=chosen_usd_per_hour)
    if least < chosen_usd_per_hour * (1 - NOTHING):
        yield note(
            "cheaper-undecided",
            f"a fleet of {usd(least)} USD/h may keep the promise too: it lies within the interval of its longest run",
        )


def _slo_run(chosen: PlanCandidate, request_class: str | None, name: str, slo: Slo) -> SloRun:
    """The promise to a class, in the period that is nearest to breaking it."""
    seen = chosen.results if isinstance(chosen, Attempt) else ()
    mine = [p for one in seen for p in one.promises if p.request_class == request_class]
    ttft, step = _worst(mine, is_step=False), _worst(mine, is_step=True)
    worst = ttft or step
    period = None if worst is None else worst.period
    predicted_s = None if slo.ttft_s is None else chosen.ttft_quantile_s(name, slo.ttft_percentile, period)
    ran = [one.name for one in seen]
    holds, decided = decided_of(mine, is_run=bool(seen))
    return SloRun(
        basis="executed" if seen else "predicted",
        holds=holds,
        decided=decided,
        requests=max((one.n_requests for one in seen if one.name == period), default=0),
        percentile=slo.ttft_percentile,
        promised_s=slo.ttft_s,
        predicted_s=predicted_s,
        executed_s=None if ttft is None else ttft.executed,
        ci_low_s=None if ttft is None else ttft.ci_low,
        ci_high_s=None if ttft is None else ttft.ci_high,
        tpot=None if slo.tpot_ms is None else _step_run(chosen, name, slo, step),
        request_class=request_class,
        period=period if len(chosen.plan.periods) > 1 else None,
        not_run=tuple(p.name for p in chosen.plan.periods if p.demand_req_per_s > 0 and p.name not in ran),
    )


def _worst(promises: Sequence[Promise], *, is_step: bool) -> Promise | None:
    """The promise on TTFT, or on the decode step, in the period that is nearest to breaking it."""
    some = (p for p in promises if (p.metric == STEP) == is_step)
    return max(some, key=lambda p: p.executed / p.limit, default=None)


def _step_run(chosen: PlanCandidate, name: str, slo: Slo, seen: Promise | None) -> DecodeStepRun:
    """A limit on the time per token of a percentage of requests, beside prediction and run."""
    return DecodeStepRun(
        promised_s=(slo.tpot_ms or 0.0) * MILLI,
        predicted_s=chosen.tpot_quantile_s(name, slo.ttft_percentile, None if seen is None else seen.period),
        executed_s=None if seen is None else seen.executed,
        ci_low_s=None if seen is None else seen.ci_low,
        ci_high_s=None if seen is None else seen.ci_high,
        holds=None if seen is None else seen.holds,
        decided=None if seen is None else seen.decided,
    )


def _nearest(found: Sequence[SloRun]) -> SloRun:
    """The promise that is nearest to breaking."""
    return max(found, key=lambda one: max(_used(one)))


def _used(one: SloRun) -> Iterator[float]:
    """Fractions of what is promised that are used up, as run or else as predicted."""
    yield 0.0
    if one.promised_s is not None:
        yield (one.executed_s or one.predicted_s or 0.0) / one.promised_s
    if one.tpot is not None:
        yield (one.tpot.executed_s or one.tpot.predicted_s or 0.0) / one.tpot.promised_s
