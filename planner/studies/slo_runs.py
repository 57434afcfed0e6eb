"""What runs made of a promise, as a plan tells it."""

from collections.abc import Iterator, Sequence

from planner.results import DecodeStepRun, Plan, Promise, SloRun
from planner.scenario import Scenario, Slo
from planner.studies.promises import STEP
from planner.studies.rounds import Candidate, Tried
from planner.units import MILLI


def with_slo_run(
    plan: Plan, scenario: Scenario, chosen: Candidate, seed: int, n_plans: int, because: str | None
) -> Plan:
    """A plan with what runs made of its promise, and of that of each class.

    Args:
        plan: the plan in full.
        scenario: the question, with what it promises.
        chosen: the same plan, and what came of it where it was run.
        seed: of its run.
        n_plans: that were run to find it.
        because: why it was not run, or why it does not keep its promise; None where it does.
    """
    found: dict[str, SloRun] = {}
    for name in scenario.workloads:
        slo = scenario.slo_of(name)
        if slo is not None and (slo.ttft_s is not None or slo.tpot_ms is not None):
            own = _slo_run(chosen, name if name in scenario.classes else None, name, slo)
            extra = {"n_plans": n_plans, "because": because, "seed": seed if own.basis == "executed" else None}
            found[name] = own.model_copy(update=extra)
    if not found:
        return plan
    classes = tuple(c.model_copy(update={"slo_run": found.get(c.name)}) for c in plan.classes)
    return plan.model_copy(update={"slo_run": _nearest(list(found.values())), "classes": classes})


def _slo_run(chosen: Candidate, request_class: str | None, name: str, slo: Slo) -> SloRun:
    """The promise to a class, in the period that is nearest to breaking it."""
    seen = chosen.seen if isinstance(chosen, Tried) else ()
    mine = [p for one in seen for p in one.promises if p.request_class == request_class]
    ttft, step = _worst(mine, is_step=False), _worst(mine, is_step=True)
    worst = ttft or step
    period = None if worst is None else worst.period
    predicted_s = None if slo.ttft_s is None else chosen.ttft_quantile_s(name, slo.ttft_percentile, period)
    ran = [one.name for one in seen]
    return SloRun(
        basis="executed" if seen else "predicted",
        holds=all(p.holds for p in mine) if seen else None,
        requests=max((one.n_requests for one in seen if one.name == period), default=0),
        percentile=slo.ttft_percentile,
        promised_s=slo.ttft_s,
        predicted_s=predicted_s,
        executed_s=None if ttft is None else ttft.executed,
        ci_low_s=None if ttft is None else ttft.ci_low,
        ci_high_s=None if ttft is None else ttft.ci_high,
        tpot=None if slo.tpot_ms is None else _step_run(chosen, name, slo.tpot_ms * MILLI, step),
        request_class=request_class,
        period=period if len(chosen.plan.periods) > 1 else None,
        not_run=tuple(p.name for p in chosen.plan.periods if p.demand_req_per_s > 0 and p.name not in ran),
    )


def _worst(promises: Sequence[Promise], *, is_step: bool) -> Promise | None:
    """The promise on TTFT, or on the decode step, in the period that is nearest to breaking it."""
    some = (p for p in promises if (p.metric == STEP) == is_step)
    return max(some, key=lambda p: p.executed / p.limit, default=None)


def _step_run(chosen: Candidate, name: str, promised_s: float, seen: Promise | None) -> DecodeStepRun:
    own = next(c for c in chosen.plan.classes if c.name == name)
    return DecodeStepRun(
        promised_s=promised_s,
        predicted_s=own.latency.tpot_mean_s,
        executed_s=None if seen is None else seen.executed,
        ci_low_s=None if seen is None else seen.ci_low,
        ci_high_s=None if seen is None else seen.ci_high,
        holds=None if seen is None else seen.holds,
    )


def _nearest(found: Sequence[SloRun]) -> SloRun:
    """The promise that is nearest to breaking; it holds where all of them do."""
    nearest = max(found, key=lambda one: max(_used(one)))
    holds = None if any(one.holds is None for one in found) else all(one.holds for one in found)
    return nearest.model_copy(update={"holds": holds})


def _used(one: SloRun) -> Iterator[float]:
    """How much of what is promised is used up, as run or else as predicted."""
    yield 0.0
    if one.promised_s is not None:
        yield (one.executed_s or one.predicted_s or 0.0) / one.promised_s
    if one.tpot is not None:
        yield (one.tpot.executed_s or one.tpot.predicted_s or 0.0) / one.tpot.promised_s
