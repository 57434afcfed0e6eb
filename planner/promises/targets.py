"""Targets that the optimizer is asked to promise: more than is promised, where runs do not bear that out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from planner.promises.outcomes import STEP
from planner.promises.period_results import RATE
from planner.results.certified import Promise
from planner.scenario import Scenario, alike_classes

CLOSE = 0.97
"""Of two promises on TTFT this close to one another the stricter will do."""
SAFETY = 0.995
"""What a promise is tightened by beyond what the run showed."""
LEAST_ROOM = 0.25
"""Of the time that a promise leaves for waits, what a stricter one leaves at least: a run that is far off is rough."""
HEADROOM = 1.25
"""Step of the capacity that is planned beyond what is claimed, where no plan keeps a stricter promise."""
MODELLED = {"dispatch": "shared-queue", "prefill_batching": "one-at-a-time"}
"""The disciplines that waits are known for; where others are asked for, the search supposes these."""


@dataclass(frozen=True)
class LatencyTargets:
    """Targets that the optimizer is asked to promise."""

    ttft_s: Mapping[str, float]
    """By class; of those without a promise of their own, where the least TTFT is sought, what is claimed."""
    tpot_ms: Mapping[str, float]
    demand_factor: float = 1.0
    """Demand over the demand that is asked for."""
    claimed_fraction: float = 1.0
    """Where the rate is sought, what is claimed of that which was found."""

    @property
    def headroom(self) -> float:
        """Rate that is planned for over the rate that is claimed."""
        return self.demand_factor / self.claimed_fraction


def as_asked(scenario: Scenario) -> LatencyTargets:
    """Just what the scenario promises."""
    promised = {name: slo for name in scenario.workloads if (slo := scenario.slo_of(name)) is not None}
    return LatencyTargets(
        {name: slo.ttft_s for name, slo in promised.items() if slo.ttft_s is not None},
        {name: slo.tpot_ms for name, slo in promised.items() if slo.tpot_ms is not None},
    )


def seeks_least(scenario: Scenario) -> bool:
    """True if the objective is the least TTFT."""
    return scenario.objective == "min-ttft"


def promising(scenario: Scenario, ttft_s: Mapping[str, float], tpot_ms: Mapping[str, float]) -> Scenario:
    """The scenario with other promises to its classes."""
    changes: dict[str, Any] = {}
    for name in scenario.workloads:
        slo = scenario.slo_of(name)
        stated = {} if slo is None else slo.model_dump(exclude_none=True)
        wanted = dict(stated)
        for key, given in (("ttft_s", ttft_s), ("tpot_ms", tpot_ms)):
            if name in given:
                wanted[key] = given[name]
        if wanted != stated:
            changes[f"classes.{name}.slo" if name in scenario.classes else "slo"] = wanted
    return scenario.varied(changes) if changes else scenario


def question_at_targets(scenario: Scenario, targets: LatencyTargets) -> Scenario:
    """The question that the optimizer is asked."""
    # Where the least is sought, a longer time is claimed of the same plan; only a stricter step is another question.
    found = modelled(promising(scenario, {} if seeks_least(scenario) else targets.ttft_s, targets.tpot_ms))
    if targets.demand_factor == 1:
        return found
    return found.varied({"demand_req_per_s": targets.demand_factor * (scenario.demand_req_per_s or 1.0)})


def stated(scenario: Scenario, targets: LatencyTargets) -> Scenario:
    """The system as it is run, with what is promised: a stricter limit on the decode step makes smaller batches."""
    return promising(scenario, targets.ttft_s if seeks_least(scenario) else {}, targets.tpot_ms)


def modelled(scenario: Scenario) -> Scenario:
    """The question with disciplines that waits are known for, where it promises a TTFT under others."""
    promises = seeks_least(scenario) or as_asked(scenario).ttft_s
    changes = {key: value for key, value in MODELLED.items() if promises and getattr(scenario, key) != value}
    return scenario.varied(changes) if changes else scenario


def tightened(
    scenario: Scenario, last: LatencyTargets, broken: Sequence[Promise], idle_s: Mapping[str, float]
) -> LatencyTargets:
    """Targets that broken promises ask for: each class by the part its worst period missed by, and a little more.

    Equation:
        t' = t0 + (t - t0) (limit - t0) / (executed - t0), t what was planned for, t0 the same percentile without waits

    Waits are what a larger fleet shortens: what is left of a promise beside them shrinks as they must.

    Args:
        scenario: the question.
        last: what was planned for.
        broken: what runs did not bear out; the worse end of their intervals counts.
        idle_s: of every class the TTFT that it is promised the percentile of, without waits.
    """
    ttft_s, tpot_ms, served = dict(last.ttft_s), dict(last.tpot_ms), 1.0
    asked = as_asked(scenario)
    for one in broken:
        low, high = one.ci_low or one.executed, one.ci_high or one.executed
        name = one.request_class or next(iter(scenario.workloads))
        if one.metric == RATE:
            served = min(served, SAFETY * low / one.limit)
        elif one.metric == STEP:
            tpot_ms[name] = min(tpot_ms[name], last.tpot_ms[name] * one.limit / high * SAFETY)
        elif name in asked.ttft_s:
            ttft_s[name] = min(ttft_s[name], _shorter(last.ttft_s[name], one.limit, high, idle_s.get(name, 0.0)))
        else:  # the least was sought, and is longer than predicted
            ttft_s[name] = max(ttft_s[name], high / SAFETY)
    worst = max if seeks_least(scenario) else min
    for names in alike_classes(scenario):  # which are planned as one, and differ in a run by luck
        for promises, strictest in ((ttft_s, worst), (tpot_ms, min)):
            if stated := [promises[name] for name in names if name in promises]:
                promises.update(dict.fromkeys(names, strictest(stated)))
    if scenario.objective == "max-throughput":
        return LatencyTargets(ttft_s, tpot_ms, 1.0, last.claimed_fraction * served)
    return LatencyTargets(ttft_s, tpot_ms, last.demand_factor / served)


def _shorter(planned_s: float, limit_s: float, seen_s: float, idle_s: float) -> float:
    """Time to plan for instead, of waits a part that is neither the whole nor next to nothing."""
    floor_s = idle_s if idle_s < planned_s else 0.0
    least_s = floor_s + LEAST_ROOM * (planned_s - floor_s)
    return max(min(as_long(planned_s, limit_s, seen_s, idle_s), SAFETY * planned_s), least_s)


def as_long(planned_s: float, limit_s: float, seen_s: float, idle_s: float) -> float:
    """TTFT to plan for, where a plan for one showed another, so that what is shown is the limit; see `tightened`.

    Args:
        planned_s: what was planned for [s].
        limit_s: what is promised [s].
        seen_s: what the run showed [s].
        idle_s: the same percentile without waits; not counted where nothing is above it [s].

    >>> round(as_long(8.0, 8.0, 12.0, 4.0), 2), round(as_long(8.0, 8.0, 6.0, 4.0), 2), round(as_long(8, 8, 12, 0), 2)
    (5.99, 11.96, 5.31)
    """
    floor_s = idle_s if idle_s < min(planned_s, limit_s, seen_s) else 0.0
    return floor_s + SAFETY * (planned_s - floor_s) * (limit_s - floor_s) / (seen_s - floor_s)


def midpoint(lax: LatencyTargets, strict: LatencyTargets) -> LatencyTargets | None:
    """Half way, on a logarithmic scale; None where they are close to one another."""
    ratios = [s / lax.ttft_s[name] for name, s in strict.ttft_s.items()]
    ratios += [ms / lax.tpot_ms[name] for name, ms in strict.tpot_ms.items()]
    if min([*ratios, lax.headroom / strict.headroom]) >= CLOSE:
        return None
    return LatencyTargets(
        {name: sqrt(s * lax.ttft_s[name]) for name, s in strict.ttft_s.items()},
        {name: sqrt(ms * lax.tpot_ms[name]) for name, ms in strict.tpot_ms.items()},
        sqrt(lax.demand_factor * strict.demand_factor),
        sqrt(lax.claimed_fraction * strict.claimed_fraction),
    )


def roomier(scenario: Scenario, last: LatencyTargets, steps: int = 1) -> LatencyTargets:
    """The same promises with more capacity for what is claimed, by so many steps."""
    more = HEADROOM**steps
    if scenario.objective == "max-throughput":
        return replace(last, claimed_fraction=last.claimed_fraction / more)
    return replace(last, demand_factor=last.demand_factor * more)
