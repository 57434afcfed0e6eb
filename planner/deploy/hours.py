"""The hours of pools that are rented by the period, as cron triggers of KEDA.

While a trigger is on, it wants its number of replicas, and the largest of all that are on counts; while none is, the
least number does. A trigger begins a start-up before its period, so that what starts serves from the first minute.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from planner.deploy.deployment import Deployment, Unit
from planner.deploy.refusals import Target
from planner.results.plan_parts import PoolSchedule

API, KIND = "keda.sh/v1alpha1", "ScaledObject"
DAY_H, WEEK_H = 24.0, 168.0
MINUTES_PER_HOUR, SECONDS_PER_MINUTE = 60, 60.0
WHOLE = 1e-6
"""What of a minute counts as none."""
Manifest = dict[str, Any]


@dataclass(frozen=True)
class Times:
    """When a number of replicas is wanted, in minutes from the beginning of the cycle."""

    begin: int
    end: int
    replicas: int


def follows(deployment: Deployment, unit: Unit) -> PoolSchedule | None:
    """The schedule of a unit that cron can tell; None where it never changes, or its cycle is no day and no week."""
    schedule = deployment.plan.schedule
    found = next((pool for pool in schedule.pools if pool.pool == unit.pool.name), None) if schedule else None
    if found is None or cycle_h(found) not in (DAY_H, WEEK_H) or len(set(replica_limits(found))) == 1:
        return None
    return found if all(_is_whole(one.begins_h * MINUTES_PER_HOUR) for one in found.replicas) else None


def is_scaled(deployment: Deployment, unit: Unit, target: Target) -> bool:
    """True if the files of a target have KEDA scale a unit: where they hold the workload that it would scale."""
    alone = [one for one in deployment.units_in(unit.cluster) if one.model == unit.model] == [unit]
    is_told = target == "kserve" or (target == "llm-d" and alone)
    return is_told and follows(deployment, unit) is not None


def cycle_h(schedule: PoolSchedule) -> float:
    """Duration of a schedule before it begins again [h]."""
    hours = sum(one.hours for one in schedule.replicas)
    return round(hours) if _is_whole(hours) else hours


def _is_whole(value: float) -> bool:
    return abs(value - round(value)) < WHOLE


def replica_limits(schedule: PoolSchedule) -> tuple[int, int]:
    """Fewest and most replicas of a pool."""
    sizes = [one.n_instances for one in schedule.replicas]
    return min(sizes), max(sizes)


def scaling_times(schedule: PoolSchedule) -> Iterator[Times]:
    """When more than the least number of replicas are wanted, period by period."""
    least, _ = replica_limits(schedule)
    ahead = ceil(schedule.start_up_s / SECONDS_PER_MINUTE - WHOLE)
    cycle = round(cycle_h(schedule) * MINUTES_PER_HOUR)
    for one in schedule.replicas:
        begin, length = round(one.begins_h * MINUTES_PER_HOUR), round(one.hours * MINUTES_PER_HOUR)
        early = min(ahead, cycle - length - 1) if one.starts else 0  # never all around the clock
        if one.n_instances > least:
            yield Times((begin - early) % cycle, (begin + length) % cycle, one.n_instances)


def cron_triggers(deployment: Deployment, schedule: PoolSchedule) -> list[Manifest]:
    """A trigger for every period with more than the least number of replicas."""
    parameters = deployment.parameters
    shift = parameters.first_hour * MINUTES_PER_HOUR
    is_week = cycle_h(schedule) == WEEK_H
    return [
        {
            "type": "cron",
            "metadata": {
                "timezone": parameters.timezone,
                "start": cron(one.begin + shift, is_week),
                "end": cron(one.end + shift, is_week),
                "desiredReplicas": str(one.replicas),
            },
        }
        for one in scaling_times(schedule)
    ]


def cron(minutes: int, is_week: bool) -> str:
    """A time of every day, or of a day of every week that begins on Monday, as cron has it.

    >>> cron(8 * 60 + 30, False), cron((3 * 24 + 6) * 60, True), cron((6 * 24 + 1) * 60, True), cron(25 * 60, False)
    ('30 8 * * *', '0 6 * * 4', '0 1 * * 0', '0 1 * * *')
    """
    hours, minute = divmod(minutes, MINUTES_PER_HOUR)
    days, hour = divmod(hours, 24)
    return f"{minute} {hour} * * {(days + 1) % 7 if is_week else '*'}"


def scaled_object(deployment: Deployment, metadata: Manifest, target: Manifest, schedule: PoolSchedule) -> Manifest:
    """ScaledObject that has KEDA scale a workload by the hours.

    Args:
        target: the workload: apiVersion, kind and name.
    """
    least, most = replica_limits(schedule)
    spec = {
        "scaleTargetRef": target,
        "minReplicaCount": least,
        "maxReplicaCount": most,
        "triggers": cron_triggers(deployment, schedule),
    }
    return {"apiVersion": API, "kind": KIND, "metadata": metadata, "spec": spec}
