"""Times over all requests of a run: their quantiles, and how sure these and their means are."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from planner.executor.confidence import Batches, Stratum, mean_interval, quantile_interval, quantiles
from planner.executor.measure import Floats, Outcome, promised_share
from planner.executor.systems import System
from planner.results.run import Interval
from planner.scenario import Slo

QUANTILES = {"ttft_p50_s": 0.5, "ttft_p90_s": 0.9, "ttft_p99_s": 0.99}
PROMISED, PROMISED_STEP = "ttft_promised_s", "tpot_promised_s"


class PeriodReplications(NamedTuple):
    """Replications of a period, or of all there is."""

    system: System
    weight: float
    """Requests that it has in all of the time, up to a factor."""
    outcomes: Sequence[Outcome]


class Timed(NamedTuple):
    """Figures of times, by metric."""

    figures: dict[str, float]
    intervals: dict[str, Interval]


def timed(parts: Sequence[PeriodReplications], classes: Sequence[str]) -> Timed:
    """Quantiles of TTFT and TPOT of all requests and of each class, and intervals of these and of their means."""
    found, scenario = Timed({}, {}), parts[0].system.scenario
    for name in classes:
        own = _timed(parts, name, scenario.slo_of(name))
        found.figures.update({f"{metric} of {name}": value for metric, value in own.figures.items()})
        found.intervals.update({f"{metric} of {name}": value for metric, value in own.intervals.items()})
    # Of one class there is nothing else: what is found of it is not sought again.
    everyone = own if len(classes) == 1 and scenario.slo == scenario.slo_of(name) else _timed(parts, None, scenario.slo)
    return Timed(found.figures | everyone.figures, found.intervals | everyone.intervals)


def _timed(parts: Sequence[PeriodReplications], name: str | None, slo: Slo | None) -> Timed:
    every = [_counted(part, name) for part in parts]
    ttft, tpot = (list(_strata(every, row)) for row in range(2))
    n_counted = sum(weight for weight, _ in every)
    share = promised_share(slo, n_counted, sum(s.weight for s in ttft))
    marks = {**QUANTILES, PROMISED: share}
    figures = dict(zip(marks, quantiles(ttft, list(marks.values())), strict=True))
    steps = {"tpot_p90_s": 0.9, PROMISED_STEP: share}
    figures |= dict(zip(steps, quantiles(tpot, list(steps.values())), strict=True))
    return Timed(
        figures, _quantile_intervals(ttft, "ttft_mean_s", marks) | _quantile_intervals(tpot, "tpot_mean_s", steps)
    )


def _quantile_intervals(strata: Sequence[Stratum], mean: str, marks: dict[str, float]) -> dict[str, Interval]:
    """Of the mean, and of quantiles by the names of their figures; none where there is but one replication."""
    batches = Batches.of(strata)
    if batches is None:
        return {}
    by_fraction = {fraction: quantile_interval(batches, fraction) for fraction in set(marks.values())}
    return {mean: mean_interval(batches), **{metric: by_fraction[fraction] for metric, fraction in marks.items()}}


def _counted(part: PeriodReplications, name: str | None) -> tuple[float, list[tuple[Floats, Floats]]]:
    """The weight of requests of a class, and their TTFT and TPOT in every replication."""
    times = [outcome.times for outcome in part.outcomes]
    if name is None:
        return part.weight, [(one.ttft_s, one.tpot_s) for one in times]
    index = part.system.classes.index(name) if name in part.system.classes else -1
    mine = [one.request_class == index for one in times]
    share = sum(int(m.sum()) for m in mine) / max(sum(m.size for m in mine), 1)
    return part.weight * share, [(one.ttft_s[m], one.tpot_s[m]) for one, m in zip(times, mine, strict=True)]


def _strata(every: Sequence[tuple[float, list[tuple[Floats, Floats]]]], row: int) -> Iterator[Stratum]:
    """Times that are known, with the weight of the requests that have one."""
    for weight, times in every:
        known = [_finite(one[row]) for one in times]
        share = sum(one.size for one in known) / max(sum(one[row].size for one in times), 1)
        if share > 0:
            yield Stratum(weight * share, known)


def _finite(values: Floats) -> Floats:
    is_known = np.isfinite(values)
    return values if is_known.all() else values[is_known]
