"""Conversations: turns whose prompts repeat all that was said before, so that a prefix cache may know it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planner.errors import InputError
from planner.executor.draws import Draws, below_one, blank_requests, contents, whole_tokens
from planner.executor.kernel.records import Records
from planner.executor.prompt_blocks import PromptBlocks, session_blocks
from planner.scenario import Scenario, Sessions
from planner.workload.distributions import distribution
from planner.workload.spec import Workload

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
LONG_AGO = 5.0
"""Mean lengths of a session before the run, from which on sessions begin: so the run finds some under way."""
SPARE = 1.2
"""More sessions than are needed in the mean, so that seldom more must be drawn."""


@dataclass(frozen=True, eq=False)
class Turns:
    """Turns in the order of sessions; arrays of one length."""

    session: Integers
    arrival_s: Floats
    total_tokens: Integers
    output_tokens: Integers


def session_requests(scenario: Scenario, n: int, req_per_s: float, draws: Draws) -> tuple[Records, PromptBlocks]:
    """Requests that are turns of sessions, in order of arrival, and the full blocks of every prompt.

    Args:
        scenario: its workload says how long first prompts and answers are, `execution.sessions` the rest.
        req_per_s: mean rate of requests [1/s].

    Raises:
        InputError: the scenario's only class of requests does not state its lengths.
    """
    rules, workload = scenario.execution.sessions, next(iter(scenario.workloads.values()))[1]
    assert rules is not None, "only a scenario with sessions is asked for them"
    if len(scenario.workloads) > 1 or workload.lengths is None:
        what = "is about turns, and the requests are not those of one workload with lengths"
        raise InputError(scenario.problem(("execution", "sessions"), what, "one workload with lengths, or no sessions"))
    n_sessions = int(SPARE * n / rules.mean_turns) + 100
    while (found := drawn_turns(workload, rules, n, n_sessions, req_per_s, draws)) is None:
        n_sessions *= 2
    requests = blank_requests(
        n,
        arrival_s=found.arrival_s,
        total_tokens=found.total_tokens,
        output_tokens=found.output_tokens,
        draw=below_one(draws.generator("routes").random(n, dtype=np.float32)),
    )
    return requests, session_blocks(found.session, found.total_tokens)


def drawn_turns(
    workload: Workload, rules: Sessions, n: int, n_sessions: int, req_per_s: float, draws: Draws
) -> Turns | None:
    """The first n turns of so many sessions after time 0, in order of arrival; None where that takes more sessions.

    Equation:
        prompt of turn k = first prompt + sum over i < k of (answer i + new text i + 1)
    """
    n_turns = draws.generator("session turns").geometric(1 / rules.mean_turns, n_sessions)
    size, firsts = int(n_turns.sum()), np.cumsum(n_turns) - n_turns
    session = np.repeat(np.arange(n_sessions), n_turns)
    asked = contents(workload, size, "sessions", draws, Path())
    new = whole_tokens(distribution(rules.new_tokens).quantile(draws.generator("session texts").random(size)))
    new[firsts] = asked.total_tokens[firsts]
    said = np.cumsum(new + asked.output_tokens) - asked.output_tokens
    total = said - np.repeat((said - new)[firsts], n_turns)
    gaps = draws.generator("session gaps").standard_exponential(size) * rules.mean_gap_s
    gaps[firsts] = 0.0
    since = np.cumsum(gaps)
    fits = total <= rules.max_tokens
    starts = np.cumsum(draws.generator("sessions").standard_exponential(n_sessions)) * fits.mean() * size
    starts = starts / n_sessions / req_per_s - LONG_AGO * rules.mean_turns * rules.mean_gap_s
    arrival = np.repeat(starts - since[firsts], n_turns) + since
    mine = np.flatnonzero(fits & (arrival >= 0))
    mine = mine[np.argsort(arrival[mine], kind="stable")][:n]
    if len(mine) < n or arrival[mine[-1]] > starts[-1]:
        return None
    return Turns(session[mine], arrival[mine], total[mine], asked.output_tokens[mine])
