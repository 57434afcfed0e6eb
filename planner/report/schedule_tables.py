"""Instances by pool and period, where pools are rented by the period, as a table and in words."""

from collections.abc import Sequence

from planner.report import formats
from planner.report.table import Table
from planner.results.plan import Plan
from planner.results.plan_parts import PoolSchedule, Schedule
from planner.units import SECONDS_PER_HOUR, number, percent, usd

SECONDS_PER_MINUTE = 60.0


def schedule_table(plan: Plan) -> Table:
    """Instances in every period of the pools that are rented so; no rows where none is."""
    if plan.schedule is None:
        return replicas_table("instances by period", ())
    return replicas_table("instances by period", plan.schedule.pools, schedule_words(plan.schedule))


def replicas_table(title: str, pools: Sequence[PoolSchedule], words: str = "") -> Table:
    """Instances in every period of some pools."""
    headings = ("period", ">begins [h]", ">hours", *(f">{pool.pool}" for pool in pools))
    rows = (
        (
            period.period,
            number(period.begins_h),
            number(period.hours),
            *(_cell(pool.replicas[i].n_instances, pool.replicas[i].starts) for pool in pools),
        )
        for i, period in enumerate(pools[0].replicas if pools else ())
    )
    return Table.of(title, headings, rows, "; ".join(filter(None, ("+: instances that start", words))))


def _cell(n_instances: int, starts: int) -> str:
    return f"{n_instances} (+{starts})" if starts else str(n_instances)


def schedule_words(schedule: Schedule) -> str:
    """Saving from following, and rules that pools have to keep to."""
    alike: dict[str, list[str]] = {}
    for pool in schedule.pools:
        alike.setdefault(_rules(pool), []).append(pool.pool)
    rules = (f"instances of {formats.listed(names)} {text}" for text, names in alike.items() if text)
    return "; ".join([_saved(schedule), *rules])


def _saved(schedule: Schedule) -> str:
    saved, peak = schedule.saved_usd_per_hour, schedule.peak_usd_per_hour
    if saved is None or peak is None:
        return "no fleet that is rented at all times was found to compare with"
    fleet = f"the best fleet that is rented at all times, {usd(peak)} USD/h"
    if abs(saved) < formats.SMALL * peak:
        return f"following the periods saves nothing against {fleet}"
    return f"following the periods saves {usd(saved)} USD/h on average, {percent(schedule.saved_fraction)} of {fleet}"


def _rules(pool: PoolSchedule) -> str:
    """Rules that instances of a pool have to keep to; empty where they may come and go at once.

    >>> _rules(PoolSchedule(pool="pd-d", least_time_up_h=4.0, start_up_s=600.0, replicas=(), usd_per_hour=None))
    'serve 4 h at least, and are rented 10 min before'
    """
    parts = []
    if pool.least_time_up_h:
        parts.append(f"serve {number(pool.least_time_up_h)} h at least")
    if pool.start_up_s:
        is_long = pool.start_up_s >= SECONDS_PER_HOUR
        unit, seconds = ("h", SECONDS_PER_HOUR) if is_long else ("min", SECONDS_PER_MINUTE)
        parts.append(f"are rented {number(pool.start_up_s / seconds)} {unit} before")
    return ", and ".join(parts)
