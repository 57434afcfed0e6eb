"""Turns of conversations: every prompt repeats what was said, and caches find of it what they hold."""

from typing import Any

import numpy as np
import pytest

from planner.errors import InputError
from planner.executor.draws import Draws
from planner.executor.initial_state import simulation_state
from planner.executor.kernel.records import NONE
from planner.executor.prompt_blocks import PromptBlocks
from planner.executor.run import run_to_end
from planner.executor.sessions import session_requests
from planner.executor.systems import system
from planner.scenario import Scenario
from planner.workload.traces import BLOCK_TOKENS
from tests.builders import in_classes, small_with
from tests.executor_cases import fleet
from tests.executor_cases import scenario as straight

SESSIONS = {"mean_turns": 4.0, "new_tokens": {"kind": "constant", "tokens": 700}, "mean_gap_s": 300.0}
LENGTHS = {"kind": "constant", "tokens": 2000}


def talk(**more: Any) -> Scenario:
    return small_with({"execution.sessions": SESSIONS | more, "workload.lengths": LENGTHS})


def sessions_of(blocks: PromptBlocks) -> Any:
    """Row of every prompt, which tells sessions apart."""
    return blocks.prompts["row"]


def test_every_prompt_is_what_was_said_and_new_text() -> None:
    requests, blocks = session_requests(talk(), 20_000, 2.0, Draws(1))
    assert (np.diff(requests["arrival_s"]) >= 0).all()
    assert requests["arrival_s"][-1] == pytest.approx(10_000, rel=0.05)
    # First prompts have 2,000 tokens, answers 500, and every turn adds 700.
    n_before = (requests["total_tokens"] - 2000) / 1200
    assert (n_before == np.rint(n_before)).all()
    session = sessions_of(blocks)
    for one in np.unique(session)[:500]:
        turns = n_before[session == one]
        assert (np.diff(turns) == 1).all()
    # Geometric turns with a mean of 4: three of four requests are no first ones.
    assert (n_before > 0).mean() == pytest.approx(0.75, abs=0.02)


def test_blocks_of_a_session_are_alike_as_far_as_they_go_and_no_others_are() -> None:
    requests, blocks = session_requests(talk(), 2_000, 2.0, Draws(2))
    longest = np.zeros(len(blocks.offsets) - 1, dtype=np.int64)
    np.maximum.at(longest, sessions_of(blocks), requests["total_tokens"] // BLOCK_TOKENS)
    assert (np.diff(blocks.offsets) == longest).all()
    assert len(np.unique(blocks.values)) == len(blocks.values) == blocks.n_numbers
    assert 1 < len(np.unique(sessions_of(blocks))) < len(requests)
    assert not blocks.prompts["shift"].any()


def test_the_run_finds_sessions_under_way_from_its_start() -> None:
    requests, _ = session_requests(talk(), 40_000, 4.0, Draws(3))
    early, late = requests["total_tokens"][:4000].mean(), requests["total_tokens"][-20_000:].mean()
    assert early == pytest.approx(late, rel=0.05)


def test_no_prompt_is_longer_than_the_longest_and_the_rate_is_kept() -> None:
    requests, _ = session_requests(talk(max_tokens=4000.0), 20_000, 2.0, Draws(4))
    assert requests["total_tokens"].max() <= 4000
    assert requests["arrival_s"][-1] == pytest.approx(10_000, rel=0.05)


def test_a_cache_without_limit_finds_every_full_block_of_the_turn_before() -> None:
    changes = {"execution.sessions": SESSIONS, "workload.lengths": LENGTHS, "execution.cache": {"exact_states": False}}
    asked = straight(changes)
    requests, blocks = session_requests(asked, 3_000, 0.5, Draws(5))
    plan = system(asked, fleet(n_fast=0, n_near=4, n_decode=2))
    w = simulation_state(plan, requests, blocks=blocks)
    run_to_end(w)
    session, last = sessions_of(blocks), {}
    for r in range(len(requests)):
        before = last.get(session[r], NONE)
        done = before != NONE and requests["prefill_end_s"][before] < requests["prefill_start_s"][r]
        if done:
            found = requests["total_tokens"][before] // BLOCK_TOKENS * BLOCK_TOKENS
            assert requests["cached_tokens"][r] == found
        elif before == NONE:
            assert requests["cached_tokens"][r] == 0
        last[session[r]] = r
    assert requests["cached_tokens"].sum() / requests["total_tokens"].sum() > 0.4


def test_sessions_are_for_one_workload_with_lengths_and_instead_of_arrivals() -> None:
    workload = {"lengths": LENGTHS, "output_lengths": LENGTHS}
    two = in_classes({"a": (0.5, workload), "b": (0.5, workload)}, {"execution.sessions": SESSIONS})
    with pytest.raises(InputError, match="one workload with lengths"):
        session_requests(two, 10, 1.0, Draws(0))
    with pytest.raises(InputError, match="beside arrivals"):
        small_with({"execution.sessions": SESSIONS, "execution.arrivals": {"kind": "gamma", "squared_cv": 2.0}})


def test_turns_of_nothing_full_have_no_blocks() -> None:
    requests, blocks = session_requests(
        small_with({"execution.sessions": SESSIONS | {"mean_turns": 1.0}, "workload.lengths.high_tokens": 500.0}),
        50,
        1.0,
        Draws(6),
    )
    assert (requests["total_tokens"] <= 500).all()
    assert blocks.values.size == 0
