"""Schedules of an export: cron triggers that want, at every minute, what the plan has in that period."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.deploy.deployment import deployment
from planner.deploy.hours import cron_triggers
from planner.deploy.parameters import Parameters, parameters_from
from planner.errors import InputError
from tests.deploy_cases import exported, manifests, schedule_of, two_pools, two_sites, with_schedule

MINUTES_OF = {24: 24 * 60, 168: 168 * 60}


def minute_of(cron: str, is_week: bool) -> int:
    """Minute of the cycle that a line of cron names; weeks begin on Monday."""
    minute, hour, day, month, weekday = cron.split()
    assert (day, month) == ("*", "*")
    assert (weekday != "*") == is_week
    return int(minute) + 60 * int(hour) + (24 * 60 * ((int(weekday) - 1) % 7) if is_week else 0)


def wanted(triggers: list[dict[str, Any]], least: int, minute: int, is_week: bool) -> int:
    """What KEDA wants in a minute: the largest of the triggers that are on, or the least number."""
    found = [least]
    for trigger in triggers:
        told = trigger["metadata"]
        begin, end = (minute_of(told[key], is_week) for key in ("start", "end"))
        is_on = begin <= minute < end if begin < end else minute >= begin or minute < end
        found += [int(told["desiredReplicas"])] if is_on else []
    return max(found)


@st.composite
def days(draw: st.DrawFn) -> tuple[list[int], list[float], int]:
    """Instances and hours of the periods of a day or a week, and the hour at which they begin."""
    cycle = draw(st.sampled_from([24, 168]))
    n = draw(st.integers(2, 5))
    cuts = sorted(draw(st.lists(st.integers(1, 2 * cycle - 1), min_size=n - 1, max_size=n - 1, unique=True)))
    ends = [0, *cuts, 2 * cycle]
    hours = [(b - a) / 2 for a, b in pairwise(ends)]
    return draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)), hours, draw(st.integers(0, 23))


@given(days(), st.integers(0, 29))
def test_at_every_minute_the_triggers_want_what_the_plan_has_and_what_is_about_to_start(
    day: tuple[list[int], list[float], int], start_up_min: int
) -> None:
    sizes, hours, first = day
    schedule = schedule_of("decode", sizes, hours, 60.0 * start_up_min)
    found = deployment(with_schedule(two_pools(), schedule), Parameters(first_hour=first), "plan.json")
    triggers, cycle = cron_triggers(found, schedule), int(sum(hours)) * 60
    for one in schedule.replicas:
        begin, end = round(one.begins_h * 60), round((one.begins_h + one.hours) * 60)
        following = schedule.replicas[(schedule.replicas.index(one) + 1) % len(sizes)]
        for early in (end - begin, (end - begin) // 2, start_up_min + 1, start_up_min, 1):
            minute = max(min(end - early, end - 1), begin)
            is_starting = following.starts and minute >= end - start_up_min
            least = following.n_instances if is_starting else one.n_instances
            at = (minute + 60 * first) % cycle
            assert wanted(triggers, min(sizes), at, cycle == MINUTES_OF[168]) == max(least, one.n_instances)


@pytest.mark.parametrize("sizes", [[2, 1], [3, 0]])
def test_kserve_scales_a_block_by_the_hours_in_place_of_its_replicas(sizes: list[int]) -> None:
    plan = with_schedule(two_pools(), schedule_of("decode", sizes, [14.0, 10.0], 600.0))
    files = exported(plan, "kserve", "timezone=Europe/Paris", "first_hour=6")
    (service,) = manifests(files, "LLMInferenceService")
    spec = service["spec"]
    assert "replicas" not in spec
    assert spec["prefill"]["replicas"] == 2
    assert (spec["scaling"]["minReplicas"], spec["scaling"]["maxReplicas"]) == (1, sizes[0])
    assert spec["scaling"]["keda"].get("idleReplicaCount") == (0 if 0 in sizes else None)
    (trigger,) = spec["scaling"]["keda"]["triggers"]
    said = {"timezone": "Europe/Paris", "start": "50 5 * * *", "end": "0 20 * * *", "desiredReplicas": str(sizes[0])}
    assert trigger == {"type": "cron", "metadata": said}


def test_llm_d_scales_a_workload_that_is_in_its_files_and_lists_the_triggers_of_the_others() -> None:
    plan = two_sites()
    names = [pool.name for pool in plan.pools if pool.n_instances]
    plan = with_schedule(plan, *(schedule_of(name, [3, 1], [12.0, 12.0]) for name in names))
    files = exported(plan, "llm-d")
    objects = manifests(files)
    workloads = {(one["apiVersion"], one["kind"], one["metadata"]["name"]) for one in objects if "metadata" in one}
    targets = [one["spec"]["scaleTargetRef"] for one in objects if one.get("kind") == "ScaledObject"]
    assert all((one["apiVersion"], one["kind"], one["name"]) in workloads for one in targets)
    alone = [one for one in objects if one.get("kind") == "Deployment"]
    assert len(targets) == len(alone)
    listed = [line for line in files["NOT_EXPRESSED.md"].splitlines() if "`0 0 * * *`" in line]
    assert len(listed) == len(names) - len(targets)


@pytest.mark.parametrize("hours", [[10.0, 10.0], [12.001, 11.999]])
def test_a_cycle_that_cron_cannot_tell_is_deployed_at_all_hours(hours: list[float]) -> None:
    plan = with_schedule(two_pools(), schedule_of("decode", [2, 1], hours))
    found, plain = (manifests(exported(one, "kserve")) for one in (plan, two_pools()))
    assert found == plain


def test_hours_are_no_parameter_of_launch_commands() -> None:
    with pytest.raises(InputError, match="first_hour"):
        exported(two_pools(), "vllm", "first_hour=6")
    with pytest.raises(InputError, match="timezone"):
        parameters_from(["timezone=not a zone"], two_pools())
