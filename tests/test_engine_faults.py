"""Instances that crash, come back and slow down: against hand calculations and laws."""

from typing import Any

import numpy as np
import pytest

from planner.executor.engine import EngineLoad, EngineRun, engine_run
from planner.executor.kernel.records import FAULT_RECORD, MIXED_CRASH, MIXED_RESTART, MIXED_SLOW
from planner.executor.passes import EngineRules
from tests.engine_cases import alike, linear_times, mixed, pass_s, rules, step_s

CLOSE = pytest.approx
KINDS = {"crash": MIXED_CRASH, "restart": MIXED_RESTART, "slow": MIXED_SLOW}
RULES = [rules(), rules(is_prefill_first=True), rules(tokens_per_pass=300, n_replicas=2), rules(room_tokens=6000.0)]


def faults(*rows: tuple[Any, ...]) -> Any:
    """Rows of time, kind, instance and perhaps slowdown."""
    return np.array([(t, KINDS[kind], i, *(value or (0.0,))) for t, kind, i, *value in rows], FAULT_RECORD)


def one_run(load: EngineLoad, n: int = 1, how: EngineRules | None = None) -> EngineRun:
    how = how or rules()
    return engine_run(how, linear_times(400, how.n_replicas), load, n)


def steps_s(prompt: int, made: int, n: int) -> float:
    """So many steps of one sequence that has made so many tokens."""
    return sum(step_s(1, prompt + made + k) for k in range(n))


def test_a_crash_keeps_what_was_generated_and_computes_it_again() -> None:
    """Two steps are done, the third is under way; prompt and three tokens are computed again once it is back."""
    first_s = pass_s(1000)
    at_s = first_s + steps_s(1000, 1, 2) + 0.005
    struck = faults((at_s, "crash", 0), (at_s + 1.0, "restart", 0))
    found = one_run(alike(1, 1000, 10, faults=struck))
    again_s = at_s + 1.0 + pass_s(1003)
    assert found.begun_s == CLOSE([0.0])
    assert found.first_s == CLOSE([first_s], rel=1e-12)
    assert found.done_s == CLOSE([again_s + steps_s(1000, 4, 6)], rel=1e-12)
    assert found.n_retries.tolist() == [1]
    assert found.busy_s == CLOSE(at_s + pass_s(1003) + steps_s(1000, 4, 6), rel=1e-12)


def test_a_prompt_that_a_crash_interrupts_starts_again_on_another_instance() -> None:
    found = one_run(alike(1, 1000, 1, faults=faults((0.005, "crash", 0))), 2)
    assert found.instances.tolist() == [1]
    assert found.first_s == CLOSE([0.005 + pass_s(1000)], rel=1e-12)
    assert found.n_retries.tolist() == [1]


def test_whoever_only_waited_goes_on_without_counting_as_started_again() -> None:
    load = alike(2, 1000, 1, faults=faults((0.005, "crash", 0)), instances=np.zeros(2, int), arrivals_s=[0.0, 0.001])
    found = one_run(load, 2, rules(tokens_per_pass=1000))
    assert found.n_retries.tolist() == [1, 0]
    assert found.first_s == CLOSE([0.005 + pass_s(1000), 0.005 + 2 * pass_s(1000)], rel=1e-12)


def test_requests_that_come_while_all_are_down_wait_and_are_dealt_out_evenly() -> None:
    struck = faults((1.0, "crash", 0), (1.0, "crash", 1), (9.0, "restart", 0), (9.0, "restart", 1))
    found = one_run(alike(4, 1000, 1, faults=struck, arrivals_s=[2.0, 3.0, 4.0, 5.0]), 2, rules(tokens_per_pass=1000))
    assert found.instances.tolist() == [0, 1, 0, 1]
    assert found.first_s - 9.0 == CLOSE(np.repeat([1, 2], 2) * pass_s(1000), rel=1e-9)
    assert found.arrival_s.tolist() == [2.0, 3.0, 4.0, 5.0]


def test_a_request_is_dropped_after_its_last_start() -> None:
    rows = [row for k in range(3) for row in ((0.005 + k, "crash", 0), (0.5 + k, "restart", 0))]
    for most, is_done in ((2, False), (3, True)):
        found = one_run(alike(1, 1000, 200, faults=faults(*rows), max_retries=most))
        assert np.isfinite(found.done_s).tolist() == [is_done]
        assert found.n_retries.tolist() == [3]


def test_whom_nothing_will_ever_serve_is_not_done_and_was_not_tried_too_often() -> None:
    found = one_run(alike(3, 1000, 5, faults=faults((1.0, "crash", 0)), arrivals_s=[0.0, 2.0, 3.0]))
    assert np.isfinite(found.done_s).tolist() == [True, False, False]
    assert (found.n_retries == 0).all()


def test_passes_that_begin_on_a_slow_instance_take_longer() -> None:
    struck = faults((0.001, "slow", 0, 3.0), (0.06, "slow", 0, 1.0))
    found = one_run(alike(1, 1000, 4, faults=struck))
    steps = [3 * step_s(1, 1001), 3 * step_s(1, 1002), step_s(1, 1003)]
    assert pass_s(1000) + steps[0] < 0.06 < pass_s(1000) + steps[0] + steps[1]
    assert found.done_s == CLOSE([pass_s(1000) + sum(steps)], rel=1e-12)


@pytest.mark.parametrize("how", RULES)
@pytest.mark.parametrize("concurrency", [None, 24])
def test_a_fault_that_changes_nothing_changes_no_bit(how: EngineRules, concurrency: int | None) -> None:
    arrivals = {} if concurrency else {"arrivals_s": np.cumsum(np.random.default_rng(1).exponential(0.05, 300))}
    for struck in ([(0.5, "slow", 1, 1.0)], [(0.5, "restart", 2)], [(1e9, "crash", 0)]):
        plain = one_run(mixed(300, concurrency, **arrivals), 3, how)
        found = one_run(mixed(300, concurrency, faults=faults(*struck), **arrivals), 3, how)
        for name in ("first_s", "done_s", "instances", "n_preempted"):
            assert np.array_equal(getattr(plain, name), getattr(found, name))
        assert plain.busy_s == found.busy_s


@pytest.mark.parametrize("how", RULES)
@pytest.mark.parametrize("concurrency", [None, 24])
@pytest.mark.parametrize("seed", range(6))
def test_nobody_is_lost_in_a_storm_of_crashes(how: EngineRules, concurrency: int | None, seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows: list[tuple[Any, ...]] = []
    for at_s in draw.uniform(0, 40, 60):
        i = int(draw.integers(3))
        rows += [(at_s, "crash", i), (at_s + draw.uniform(0, 1), "restart", i), (at_s, "slow", i, draw.uniform(1, 3))]
    rows.append((200.0, "restart", 0))
    struck = faults(*sorted(rows, key=lambda row: row[0]))
    arrivals = {} if concurrency else {"arrivals_s": np.sort(draw.uniform(0, 40, 300))}
    more = {"faults": struck, "max_retries": int(draw.integers(0, 5)), **arrivals}
    load = mixed(300, concurrency, seed, is_standing=False, **more)
    found, again = one_run(load, 3, how), one_run(load, 3, how)
    is_done = np.isfinite(found.done_s)
    assert (found.n_retries[~is_done] == load.max_retries + 1).all()
    assert (found.n_retries[is_done] <= load.max_retries).all()
    assert found.n_retries.any()
    assert (found.arrival_s <= found.begun_s)[is_done].all()
    assert (found.begun_s < found.first_s)[is_done].all()
    assert (found.first_s <= found.done_s)[is_done].all()
    assert np.array_equal(found.done_s, again.done_s, equal_nan=True)


def test_caches_that_came_from_elsewhere_are_computed_after_a_crash() -> None:
    load = alike(1, 1000, 5, faults=faults((0.025, "crash", 0), (1.0, "restart", 0)), is_standing=True)
    found = one_run(load)
    assert found.first_s == CLOSE([0.0])
    assert step_s(1, 1001) < 0.025 - step_s(1, 1001) + 0.01
    n = 2  # steps that were whole
    assert found.done_s == CLOSE([1.0 + pass_s(1000 + 1 + n) + steps_s(1000, 2 + n, 4 - n - 1)], rel=1e-9)


@pytest.mark.parametrize("second_s", [4.999, 5.0, 5.001])
def test_who_waited_for_a_restart_is_looked_at_then_whoever_else_comes(second_s: float) -> None:
    """The second one is made ready for ten seconds: it does not hold up the first."""
    struck = faults((1.0, "crash", 0), (5.0, "restart", 0))
    delay_s = np.array([0.0, 10.0])
    found = one_run(alike(2, 100, 2, faults=struck, arrivals_s=[2.0, second_s], delay_s=delay_s))
    assert found.first_s[0] == CLOSE(5.0 + pass_s(100), rel=1e-9)
