"""Instances with several places: prompts go on beside one another, each as long as when all places are taken."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planner.errors import InputError
from planner.executor.full_house import WAITING_PER_INSTANCE, full_house
from planner.executor.measure import _instance_of_place
from planner.executor.systems import System, system
from planner.scenario import Scenario
from tests.executor_cases import TOKEN_S, asked, ended, fleet, scenario

TOKENS = 50_000
SERVICE_S = TOKENS * TOKEN_S


def with_places(question: Scenario, places: int, n_near: int = 1) -> System:
    """The small system whose pool for short prompts has instances of so many places."""
    plan = system(question, fleet(n_near=n_near))
    far, near = plan.prefill_times
    return replace(plan, prefill_times=(far, replace(near, service=replace(near.service, places=places))))


def starts_s(n: int, places: int, n_near: int = 1, changes: Mapping[str, Any] | None = None) -> list[float]:
    w = ended(with_places(scenario(changes), places, n_near), asked(np.zeros(n), TOKENS))
    return [float(t) for t in sorted(w.requests["prefill_start_s"])]


@pytest.mark.parametrize(("places", "n_near"), [(1, 1), (2, 1), (8, 1), (2, 3)])
@pytest.mark.parametrize("dispatch", ["shared-queue", "join-shortest-work", "round-robin"])
def test_as_many_prompts_start_at_once_as_there_are_places(places: int, n_near: int, dispatch: str) -> None:
    at_once = places * n_near
    found = starts_s(2 * at_once, places, n_near, {"dispatch": dispatch})
    assert found == pytest.approx([0.0] * at_once + [SERVICE_S] * at_once)


def test_a_crash_takes_all_places_of_its_instance_and_no_other() -> None:
    faults = [{"kind": "crash", "at_s": SERVICE_S / 2, "duration_s": 1.0, "pool": "near", "instance": 1}]
    plan = with_places(scenario({"execution.faults": faults}), 4, n_near=2)
    w = ended(plan, asked([0.0] * 7 + [SERVICE_S * 0.75], TOKENS))
    assert int((w.requests["n_retries"] > 0).sum()) == 3, "the other instance's four and the late one go on"
    assert w.clock[0]["n_finished"] == 8


def test_places_of_an_instance_send_over_its_one_fabric() -> None:
    plan = with_places(scenario({"sites.local.fabric_gbps": 80.0}), 4, n_near=2)
    w = ended(plan, asked(np.zeros(8), TOKENS))
    near = w.instances["fabric"][1:]
    assert len(set(near[:4])) == len(set(near[4:])) == 1
    assert near[0] != near[4]
    assert len(w.links) == len(plan.links) + 2


def test_records_name_instances_and_not_their_places() -> None:
    plan = with_places(scenario(), 4, n_near=2)
    assert _instance_of_place(plan).tolist() == [0, 1, 1, 1, 1, 2, 2, 2, 2]


def test_memory_of_an_instance_is_that_of_its_replicas_each() -> None:
    room = {"execution.pools.near.memory_gb": 8.0}
    one, four = (ended(with_places(scenario(room), places), asked([0.0], 64)).pools[1] for places in (1, 4))
    assert four["room_bytes"] == one["room_bytes"] // 4


def test_replicas_of_the_roofline_are_places() -> None:
    layout = {"service_times": "roofline", "stack": "datasheet", "layout": "tp=2,dp=4,ep=8"}
    plan = system(scenario({f"pools.near.{key}": value for key, value in layout.items()}), fleet())
    assert plan.places == [1, 4]
    assert plan.prefill_slots == [1, 4]


@pytest.mark.parametrize(("places", "n_near", "n_places"), [(1, 1, 2), (4, 1, 5), (4, 2, 9)])
def test_every_place_has_as_many_prompts_waiting_before_a_full_house_is_measured(
    places: int, n_near: int, n_places: int
) -> None:
    plan = with_places(scenario(), places, n_near)
    assert plan.n_prefill == n_places
    batches = sum(
        pool.n_instances * times.batch_limit for pool, times in zip(plan.decode, plan.decode_times, strict=True)
    )
    assert full_house(plan) == (WAITING_PER_INSTANCE + 1) * n_places + 2 * batches


def test_instances_with_several_places_are_not_converted() -> None:
    layout = {"service_times": "roofline", "stack": "datasheet", "layout": "tp=2,dp=4,ep=8"}
    changes = {f"pools.near.{key}": value for key, value in layout.items()}
    with pytest.raises(InputError, match=r"one prompt at a time, .* attention replicas \(a layout with dp=1"):
        system(scenario({**changes, "execution.scheduler.long_term": {}}), fleet())
