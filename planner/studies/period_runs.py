"""The periods of a plan for many, each run by itself: its promises and predictions beside what came."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.errors import CheckFailedError
from planner.executor import RunQuestion
from planner.results import Check, Fleet, Plan, Promise
from planner.scenario import Scenario, Slo
from planner.studies.promises import Say, promise
from planner.studies.validation import TOLERANCES, Executed, execute, judged, pairs
from planner.units import MILLI, percent

RATE, STEP = "throughput_req_per_s", "tpot_mean_s"


@dataclass(frozen=True)
class Seen:
    """A period that was run."""

    name: str
    promises: tuple[Promise, ...]
    checks: tuple[Check, ...]
    unpredicted: tuple[str, ...]


def binding_periods(plan: Plan) -> list[str]:
    """Periods with demand in which a pool or link is busiest, demand is highest or TTFT longest; busiest first."""
    served = [period for period in plan.periods if period.demand_req_per_s > 0]
    rows = [[period.demand_req_per_s for period in served]]
    rows += [list(row) for row in zip(*([pool.utilization for pool in p.pools] for p in served), strict=True)]
    rows += [list(row) for row in zip(*([link.utilization for link in p.links] for p in served), strict=True)]
    rows.append([p.latency.ttft_p90_s or 0.0 for p in served])
    chosen = {row.index(max(row)) for row in rows if max(row, default=0.0) > 0}
    return [served[i].name for i in sorted(chosen, key=lambda i: -served[i].demand_req_per_s)]


def seen_periods(
    stated: Scenario, plan: Plan, question: RunQuestion, data_dirs: Sequence[Path], say: Say
) -> Iterator[Seen]:
    """Run the periods that bind, and the others where all of these hold.

    Args:
        stated: the question, with what is promised.
        plan: its plan, with its periods.
        question: how long and how often each is run, at its own demand and with the system kept full.
        data_dirs: folders in which traces are looked for.
        say: is told which period is run.

    Yields:
        Periods with their promises, and predictions beside what came.

    Raises:
        InputError: a period cannot be run.
        CheckFailedError: faults drop more requests than may be missed of the rate.
    """
    binding = binding_periods(plan)
    others = [p.name for p in plan.periods if p.name not in binding and p.demand_req_per_s > 0]
    for names in (binding, others):
        holds = True
        for name in names:
            say(f"running {name}")
            one = _of_period(stated, plan, name, question, data_dirs)
            holds &= all(p.holds for p in one.promises)
            yield one
        if not holds:
            return


def _of_period(stated: Scenario, plan: Plan, name: str, question: RunQuestion, data_dirs: Sequence[Path]) -> Seen:
    """A period at its own demand, and kept full."""
    executed = execute(stated, plan, question, 1.0, data_dirs, period=name)
    _check_dropped(stated, name, executed)
    alone = plan.in_period(plan.period(name))
    seen = pairs(alone, alone, 1.0, Executed(executed.run))  # no period's highest rate is predicted
    found = judged(list(seen), question.n_requests)
    promises = (p.model_copy(update={"period": name}) for p in _promises(stated, alone, executed))
    checks = (check.model_copy(update={"period": name}) for check in found["checks"])
    return Seen(name, tuple(promises), tuple(checks), found["unpredicted"])


def _check_dropped(stated: Scenario, name: str, executed: Executed) -> None:
    """Raises CheckFailedError where faults drop more requests than may be missed of the rate."""
    run, most = executed.run, TOLERANCES[RATE]
    if run.n_dropped > most * run.n_requests:
        dropped = f"{run.n_dropped:,} of {run.n_requests:,} requests were dropped in {name}"
        raise CheckFailedError(f"{stated.name}: no plan holds: {dropped}, more than {percent(most)}")


def _promises(stated: Scenario, alone: Fleet, executed: Executed) -> Iterator[Promise]:
    """What is promised in a period to all requests, and to each class, wherever it is decoded."""
    most = executed.most or executed.run
    demand = alone.throughput_req_per_s
    yield promise(RATE, demand, most.throughput_req_per_s, most.intervals.get(RATE), 1, TOLERANCES[RATE])
    for part in executed.run.classes:
        slo = stated.slo_of(part.name) or Slo()
        to: dict[str, Any] = {"request_class": part.name}
        if slo.ttft_s is not None and part.ttft_promised_s is not None:
            sure = part.intervals.get("ttft_promised_s")
            name = f"ttft_p{slo.ttft_percentile:g}_s"
            yield promise(name, slo.ttft_s, part.ttft_promised_s, sure, -1, 0.0).model_copy(update=to)
        if slo.tpot_ms is not None and part.tpot_mean_s is not None:
            sure, limit_s = part.intervals.get(STEP), slo.tpot_ms * MILLI
            yield promise(STEP, limit_s, part.tpot_mean_s, sure, -1, TOLERANCES[STEP]).model_copy(update=to)
